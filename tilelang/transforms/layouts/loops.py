"""Thread maps of parallel loops that no fragment determines."""

from __future__ import annotations

from collections.abc import Iterator

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.lanes import exchange_in, exchange_in_shared_loop
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.analysis.vectors import VECTOR_BITS, run_of
from tilelang.transforms.layouts.access import accesses, is_memory

ASYNC_BITS = 32  # of the smallest asynchronous copy


def free_mapping(
    loop: S.Parallel, extents: tuple[int, ...], threads: int, bounds: Bounds
) -> RegisterLayout:
    """The mapping of a loop that no fragment decides: neighbouring threads take neighbouring
    vectors, as wide as its memory accesses allow and all threads have work.

    Raises:
        TileUnsupportedError: threads that have several iterations tell each other values in it.
    """
    mapping = RegisterLayout.linear(extents, threads, vector_width(loop, extents, threads, bounds))
    if mapping.replicated and takes_one_thread(loop):
        mapping = mapping.alone()
    exchange = exchange_in(loop.body) if mapping.register_count > 1 else None
    if exchange is not None:
        raise exchange_in_shared_loop(exchange, mapping.register_count, loop.loc)
    return mapping


def takes_one_thread(loop: S.Parallel) -> bool:
    """Whether one thread alone may run an iteration.

    With results in registers, all threads that hold copies of them run it, and one of these makes
    its effects: the others would read memory that this one may have changed already, or lack what
    an atomic operation gave it.
    """
    if not has_private_results(loop.body):
        return False
    used = list(_used_by_copies(loop.body))
    read = {access.data for expr in used for access in effects.accesses(expr)}
    return any(map(acts, used)) or any(
        access.writes and access.data in read and is_seen(access.buffer)
        for access in effects.accesses(loop.body, nested=True)
    )


def _used_by_copies(stmt: S.Stmt) -> Iterator[E.Expr]:
    """What every thread evaluates that runs an iteration, and not only the one with its effects."""
    if has_effect(stmt) or isinstance(stmt, S.ReducerUpdate):
        return
    yield from stmt.exprs()
    for block in stmt.blocks():
        yield from _used_by_copies(block)


def has_private_results(body: S.Stmt) -> bool:
    """Whether iterations leave something in registers or private memory."""
    own = {node.buffer for node in S.find(body, S.Alloc)}
    for node in S.walk(body):
        if isinstance(node, S.ReducerUpdate):
            return True
        if isinstance(node, S.Store) and node.buffer not in own and not is_seen(node.buffer):
            return True
    return False


def has_effect(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` itself changes something that other threads see."""
    if isinstance(stmt, S.Store):
        return is_seen(stmt.buffer)
    return isinstance(stmt, S.Eval) and acts(stmt.value)


def acts(expr: E.Expr) -> bool:
    """Whether evaluating ``expr`` changes something that other threads see."""
    changes = (Effect.ATOMIC, Effect.OUTPUT, Effect.WRITE)
    return any(call.atom.effect in changes for call in E.find(expr, E.Call))


def is_seen(buffer: Buffer) -> bool:
    """Whether other threads see what one writes to ``buffer``."""
    return not buffer.storage.startswith("local")


def vector_width(loop: S.Parallel, extents: tuple[int, ...], threads: int, bounds: Bounds) -> int:
    """Elements per thread and step: 16 bytes of the widest memory access along the last loop
    variable, fewer if accesses are not aligned or there is less than a vector per thread."""
    if not extents:
        return 1
    var, inner = loop.vars[-1], bounds
    for loop_var, extent in zip(loop.vars, extents):
        inner = inner.with_range(loop_var, 0, extent)
    total = 1
    for extent in extents:
        total *= extent
    runs, bits = [], []
    for access in accesses(loop):
        if is_memory(access) and any(var in index.variables for index in access.indices):
            runs.append(run_of(access.buffer, access.indices, var, inner))
            bits.append(access.buffer.dtype.bits)
    width = max(runs, default=1)
    if bits and width > 1:
        width = min(width, max(1, VECTOR_BITS // min(bits)))
    ahead = "commit" in dict(loop.annotations)
    least = max(1, ASYNC_BITS // min(bits)) if ahead and bits else 1
    while width > 1 and (extents[-1] % width or (width > least and total // width < threads)):
        width //= 2
    return width
