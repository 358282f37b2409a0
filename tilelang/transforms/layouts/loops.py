"""Thread maps of parallel loops whose fragments do not fix them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from math import prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.lanes import exchange_in, exchange_in_shared_loop
from tilelang.ir.visitor import inline_lets
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.analysis.atomics import SUMS
from tilelang.transforms.analysis.lanes import Lanes
from tilelang.transforms.analysis.vectors import MAX_LANES, VECTOR_BITS, run_of, window_of
from tilelang.transforms.layouts.access import Access, accesses, is_memory
from tilelang.transforms.layouts.coalesce import requests

ASYNC_BITS = 32  # of the smallest asynchronous copy
EVEN_BITS = 32  # of the smallest vectors for which no register stays empty
# Of the requests of the widest vectors: others are taken when they need at most so many.
WORTH = 0.8


@lru_cache(maxsize=2048)  # inference asks again and again, of the same loops
def free_mapping(
    loop: S.Parallel, extents: tuple[int, ...], threads: int, bounds: Bounds
) -> RegisterLayout:
    """The mapping of a loop that no fragment decides: neighbouring threads take neighbouring
    vectors, as wide as suits all of its memory accesses together and all threads have work.

    Raises:
        TileUnsupportedError: threads that have several iterations tell each other values in it.
    """
    (mapping, runs), *others = _mappings(loop, extents, threads, bounds)
    if others:
        least = WORTH * requests(loop, mapping, runs)
        for other, runs in others:
            if (cost := requests(loop, other, runs)) < least:
                mapping, least = other, cost
    if mapping.is_replicated and needs_single_thread(loop):
        mapping = mapping.alone()
    exchange = exchange_in(loop.body) if mapping.register_count > 1 else None
    if exchange is not None:
        raise exchange_in_shared_loop(exchange, mapping.register_count, loop.loc)
    return mapping


def _mappings(
    loop: S.Parallel, extents: tuple[int, ...], threads: int, bounds: Bounds
) -> Iterator[tuple[RegisterLayout, dict[Access, int]]]:
    """Mappings of a loop, each with the vectors of its accesses: the widest along the last variable
    first. Narrower ones follow where not all accesses have such vectors, and those along other
    variables where a tensor is contiguous there."""
    if not extents:
        yield RegisterLayout.linear(extents, threads), {}
    for loop_var, extent in zip(loop.vars, extents):
        bounds = bounds.with_range(loop_var, 0, extent)
    memory = [access for access in accesses(loop) if is_memory(access) and access.indices]
    for dim in reversed(range(len(extents))):
        var, last = loop.vars[dim], loop.vars[-1]
        rows = (a.indices[-1].variables for a in memory if a.buffer.storage == "global")
        if var is not last and not any(var in row and last not in row for row in rows):
            continue
        used = [a for a in memory if any(var in index.variables for index in a.indices)]
        masked = _stored_by_mask(loop, var)
        runs = {a: 1 if a.buffer.data in masked else _run(a, used, var, bounds) for a in used}
        shape = (*extents[:dim], *extents[dim + 1 :], extents[dim])
        bits = min((access.buffer.dtype.bits for access in used), default=VECTOR_BITS)
        least = max(1, ASYNC_BITS // bits) if not loop.hints.commit else 1
        width = _width(runs, bits, least, shape, threads)
        while width:
            spread = RegisterLayout.linear(shape, threads, width)
            modes = (*spread.modes[:dim], spread.modes[-1], *spread.modes[dim:-1])
            vectors = {access: min(runs.get(access, 1), width) for access in memory}
            yield replace(spread, shape=extents, modes=modes), vectors
            width = width // 2 if width > least and min(runs.values()) < width else 0


def _stored_by_mask(loop: S.Parallel, var: E.Var) -> set[E.Var]:
    """Storage of which loaded data selects the elements that are stored along ``var``: each is
    accessed alone."""
    branches = S.find(inline_lets(loop.body, lambda value: True), S.If)
    masks = ((n, E.find(n.cond, E.Load)) for n in branches)
    chosen = (n for n, loads in masks if any(var in load.variables for load in loads))
    return set[E.Var]().union(*map(effects.written, chosen))


def _run(access: Access, others: list[Access], var: E.Var, bounds: Bounds) -> int:
    """Lanes that an access has in one vector, its own or one with others of the loop."""
    # Updates are made one by one, but for sums that machines add as vectors.
    limit = SUMS.get(access.buffer.dtype, 1) if access.kind == "update" else MAX_LANES
    run = run_of(access.buffer, access.indices, var, bounds, limit)
    uses = [a for a in others if a.buffer is access.buffer]
    indices = [a.indices for a in uses if a.kind == access.kind]
    is_written = any(a.kind != "read" for a in uses)
    for lanes in (8, 4, 2) if run == 1 and access.kind != "update" else ():
        for together in (indices, [access.indices]):
            window = window_of(access.buffer, together, Lanes(var, lanes, bounds), is_written)
            if window is not None and len(window.starts) == 1:
                return lanes
    return run


def needs_single_thread(loop: S.Parallel) -> bool:
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
    """Expressions that every thread evaluates that runs an iteration, not only the one with its
    effects."""
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


def _width(
    runs: Mapping[Access, int], bits: int, least: int, extents: tuple[int, ...], threads: int
) -> int:
    """Elements per thread and step: 16 bytes of the widest memory access along the last extent,
    fewer if accesses are not aligned or there is less than a vector per thread. Vectors of 4 bytes
    that all threads have are better than wider ones that some lack: registers without an element
    take a predicate at every use."""
    width, total = max(runs.values(), default=1), prod(extents)
    if width > 1:
        width = min(width, max(1, VECTOR_BITS // bits))
    while width > 1 and (extents[-1] % width or (width > least and total // width < threads)):
        width //= 2
    if total > threads * width:
        even = (width >> k for k in range(width.bit_length()) if width * bits >> k >= EVEN_BITS)
        return next((each for each in even if total % (threads * each) == 0), width)
    return width
