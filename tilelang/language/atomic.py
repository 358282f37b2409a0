"""Atomic updates with a memory order: of one element by every thread, or of a tile's elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import Loc, TileTypeError, TileUnsupportedError, TileValueError, check_choice
from tilelang.frontend import regions
from tilelang.frontend.ir_builder import locate
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.emitter import emitter
from tilelang.ir.uniform import Varying
from tilelang.tracebacks import borders

__all__ = [
    "atomic_add", "atomic_addx2", "atomic_addx4", "atomic_load", "atomic_max", "atomic_min",
    "atomic_or", "atomic_store",
]  # fmt: skip

ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
LOAD_ORDERS = ("relaxed", "consume", "acquire", "seq_cst")
STORE_ORDERS = ("relaxed", "release", "seq_cst")
NUMBERS = (
    "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
PRIVATE = ("local", "local.var")
INTEGERS = ("int32", "uint32", "int64", "uint64")


def _order(order: object, allowed: tuple[str, ...], op_name: str, default: str) -> str:
    if order is None:
        return default
    check_choice(order, allowed, f"the memory order of {op_name} is unknown", show=regions.describe)
    return str(order)


def _check(region: Region, allowed: tuple[str, ...], op_name: str, own: bool = False) -> None:
    """Hold a destination to scopes and dtypes; ``own``: it may be memory of single threads."""
    scopes = ("global", "shared", "shared.dyn", *(PRIVATE if own else ()))
    if region.scope() not in scopes:
        raise TileTypeError(
            f"the destination of {op_name} is in {region.scope()} memory",
            expected="an element or tile of global"
            + (", shared or local" if own else " or shared")
            + " memory",
            got=f"`{region.buffer.name}`",
            hint="other threads cannot see it; use a plain assignment or a T.alloc_reducer",
        )
    if region.dtype.element_of not in allowed:
        raise TileTypeError(
            f"{op_name} on {region.dtype}",
            expected=", ".join(allowed),
            got=f"`{region.buffer.name}` of dtype {region.dtype}",
        )


def _is_tile(value: object) -> bool:
    return isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var)


def _atomic(
    op: str, dst: object, value: object, memory_order: object, return_prev: bool,
    allowed: tuple[str, ...], use_tma: bool = False,
) -> E.Expr | None:  # fmt: skip
    op_name = f"T.atomic_{op}"
    active = emitter(op_name)
    order = _order(memory_order, ORDERS, op_name, "relaxed")
    target = regions.region_of(dst, op_name, "destination")
    _check(target, allowed, op_name, own=True)
    if _is_tile(value):
        if return_prev:
            raise TileUnsupportedError(
                f"{op_name} of a tile cannot return the previous values",
                expected="a scalar value with return_prev=True",
                got=regions.describe(value),
            )
        tiles = regions.align(value, dst, op_name)
        if tiles is None:
            raise TileTypeError(
                f"the operands of {op_name} are not tiles",
                expected="a tile",
                got=regions.describe(value),
            )
        regions.check_plain(tiles[0], op_name, "source")
        if tiles[1].scope() not in PRIVATE:
            active.when_closed(_same_tile(op_name, *tiles, locate()))
        src, dst = tiles
        active.emit(S.AtomicTile(src=src, dst=dst, op=op, memory_order=order, use_tma=use_tma))
        return None
    convert = (
        regions.stored if op in ("max", "min") else regions.cast_to
    )  # sums and bits count modulo the width
    if not target.anchored and not target.buffer.is_var:
        if return_prev:
            raise TileUnsupportedError(
                f"{op_name} on a tile cannot return the previous values",
                expected="an element such as A[i, j] with return_prev=True",
                got=regions.describe(dst),
            )
        amount = convert(_plain(value, op_name), target.dtype)
        if target.scope() in PRIVATE:
            _own_tile(op, target, amount)
            return None
        active.when_closed(_same_value(op_name, amount, target, locate()))
        _spread(op, target, amount, order)
        return None
    added = convert(_plain(value, op_name), target.dtype)
    if target.scope() in PRIVATE:
        return _own_element(op, target, added, return_prev)
    prev = regions.constant_bool(return_prev, op_name, "return_prev")
    return _deliver(_update(op, target, target.mins, added, order, prev), return_prev, op_name)


def _update(
    op: str, target: Region, indices: tuple[E.Expr, ...], value: E.Expr, order: str, prev: bool
) -> E.Expr:
    """One update of one element."""
    address = E.AddressOf(target.buffer, indices)
    options = {"memory_order": order, "return_prev": prev}
    return E.call(f"atomic_{op}", address, value, dtype=target.dtype, **options)


# -- memory of single threads -------------------------------------------------------------------
def _own_element(op: str, target: Region, value: E.Expr, return_prev: bool) -> E.Expr | None:
    """No other thread sees the element, so that it is updated by a plain store."""
    active = emitter(f"T.atomic_{op}")
    old: E.Expr = E.Load(target.buffer, target.mins)
    if return_prev:
        old = active.let("previous", old)
    new = E.binary({"or": "bitor"}.get(op, op), old, value)
    active.emit(
        S.Store(buffer=target.buffer, indices=target.mins, value=regions.cast_to(new, target.dtype))
    )
    return old if return_prev else None


def _own_tile(op: str, target: Region, value: E.Expr) -> None:
    """Each thread updates every element of its tile."""
    active = emitter(f"T.atomic_{op}")
    variables, indices = _elements(target)
    new = E.binary({"or": "bitor"}.get(op, op), E.Load(target.buffer, indices), value)
    body: S.Stmt = S.Store(
        buffer=target.buffer, indices=indices, value=regions.cast_to(new, target.dtype)
    )
    for var, extent in reversed(variables):
        body = S.counted(var, extent, body)
    active.emit(body)


# -- memory that threads share ------------------------------------------------------------------
def _same_value(
    op_name: str, value: E.Expr, target: Region, loc: Loc | None
) -> Callable[[Varying], None]:
    """The check that the value which a whole tile is updated with is one value."""

    def check(varying: Varying) -> None:
        if varying.varies(value):
            element = f"{target.buffer.name}[{', '.join('0' for _ in target.mins)}]"
            raise TileValueError(
                f"the value of {op_name} differs between the threads, but the tile "
                f"`{target.buffer.name}` is updated with it once",
                expected="a value that all threads have, or an element as the destination",
                got=f"`{value!r}`",
                hint=f"{op_name}({element}, ...) updates the element once for each thread",
                loc=loc,
            )

    return check


def _same_tile(op: str, src: Region, dst: Region, loc: Loc | None) -> Callable[[Varying], None]:
    """The check that a tile which each thread has of its own is the same in all of them."""

    def check(varying: Varying) -> None:
        own = src.buffer.data in varying.names or any(map(varying.varies, src.region_exprs()))
        if own and not any(map(varying.varies, dst.region_exprs())):
            name, element = dst.buffer.name, ", ".join("0" for _ in dst.mins)
            raise TileValueError(
                f"the tile `{src.buffer.name}` differs between the threads, but {op} updates "
                f"`{name}` with it once",
                expected="a tile that is equal in all threads, or a destination for each thread",
                got=f"`{src.buffer.name}`, whose elements differ between threads",
                hint=f"let each thread name its elements, as in {op}({name}[{element}], "
                f"{src.buffer.name}[{', '.join('0' for _ in src.mins)}])",
                loc=loc,
            )

    return check


def _plain(value: object, op: str) -> object:
    """A number, or the expression of a scalar."""
    return value if isinstance(value, (bool, int, float)) else regions.scalar(value, op, "value")


def _spread(op: str, target: Region, value: E.Expr, order: str) -> None:
    """One update of each element of a tile with the same value, made by the block once."""
    variables, indices = _elements(target)
    update = _update(op, target, indices, value, order, False)
    emitter(f"T.atomic_{op}").emit(
        S.Parallel(
            vars=tuple(var for var, _ in variables),
            extents=tuple(extent for _, extent in variables),
            body=S.Eval(value=update),
        )
    )


def _elements(target: Region) -> tuple[list[tuple[E.Var, E.Expr]], tuple[E.Expr, ...]]:
    """Loop variables with their extents over a tile, and the indices of its element there."""
    axes = [at for at, extent in enumerate(target.extents) if extent != 1] or [0]
    variables = [(E.Var(f"i{at}", DType("int32")), E.as_expr(target.extents[at])) for at in axes]
    indices = list(target.mins)
    for (var, _), at in zip(variables, axes):
        indices[at] = E.as_expr(indices[at] + var)
    return variables, tuple(indices)


def _deliver(expr: E.Expr, return_prev: bool, op_name: str) -> E.Expr | None:
    """The expression when its value is wanted, otherwise a statement."""
    if return_prev:
        return expr
    emitter(op_name).emit(S.Eval(value=expr))
    return None


def atomic_add(
    dst: object, value: object, memory_order: str | None = None, return_prev: bool = False,
    use_tma: bool = False, annotations: dict[str, Any] | None = None,
) -> E.Expr | None:  # fmt: skip
    """Add ``value`` to ``dst`` atomically.

    Updates outside the declared shape are dropped.

    Args:
        dst: an element of global or shared memory, or a tile, of 32- or 64-bit integers, float16,
            bfloat16, float32 or float64. An element or tile of local memory is updated by its own
            thread without an atomic instruction.
        value: a scalar (one update per executing thread or iteration) or a tile whose elements
            are added once each, with extents as in ``T.copy``. A value for a whole tile, and a
            tile in local memory, has to be the same in all threads.
        memory_order: relaxed (default), consume, acquire, release, acq_rel or seq_cst.
        return_prev: constant; return the previous value, for scalars only.
        use_tma: add a tile of shared memory to global memory by TMA (sm_90) if TMA can do it
            (``kernel.explain()`` says why not); else threads do it.
        annotations: accepted, without effect.

    Returns:
        The previous value with ``return_prev``, else None.

    Raises:
        TileTypeError: a destination in a fragment, or of another dtype.
        TileUnsupportedError: ``return_prev`` of a tile.
        TileValueError: an unknown memory order, or a value that differs between threads for a tile.

    Source: PTX ISA, "atom", "red", "cp.reduce.async.bulk.tensor".
    """
    tma = regions.constant_bool(use_tma, "T.atomic_add", "use_tma")
    return _atomic("add", dst, value, memory_order, return_prev, NUMBERS, tma)


def atomic_max(
    dst: object, value: object, memory_order: str | None = None, return_prev: bool = False,
    annotations: dict[str, Any] | None = None,
) -> E.Expr | None:  # fmt: skip
    """Store ``max(dst, value)`` into ``dst`` atomically; arguments as for :func:`atomic_add`."""
    return _atomic("max", dst, value, memory_order, return_prev, NUMBERS)


def atomic_min(
    dst: object, value: object, memory_order: str | None = None, return_prev: bool = False,
    annotations: dict[str, Any] | None = None,
) -> E.Expr | None:  # fmt: skip
    """Store ``min(dst, value)`` into ``dst`` atomically; arguments as for :func:`atomic_add`."""
    return _atomic("min", dst, value, memory_order, return_prev, NUMBERS)


def atomic_or(
    dst: object, value: object, memory_order: str | None = None, return_prev: bool = False
) -> E.Expr | None:
    """Store ``dst | value`` into ``dst`` atomically; arguments as for :func:`atomic_add`.

    ``dst`` is of 32- or 64-bit integers.
    """
    return _atomic("or", dst, value, memory_order, return_prev, INTEGERS)


def _vector_add(lanes: int, dst: object, value: object, return_prev: bool) -> E.Expr | None:
    op_name = f"T.atomic_addx{lanes}"
    target = regions.region_of(_start(dst, lanes), op_name, "destination")
    _check(target, ("float16", "bfloat16", "float32"), op_name)
    value = _start(value, lanes)
    source: E.Expr
    if isinstance(value, E.Expr) and value.dtype.lanes == lanes:
        source = value
        if value.dtype.element_of != target.dtype:
            source = _converted([E.Lane(value, E.const(at)) for at in range(lanes)], target.dtype)
    elif isinstance(value, (E.Load, Region, Buffer)):
        region = regions.region_of(value, op_name, "value")
        source = E.AddressOf(region.buffer, region.mins, "r")
        if region.dtype != target.dtype:
            last = region.mins[-1]
            indices = [(*region.mins[:-1], E.as_expr(last + at)) for at in range(lanes)]
            source = _converted([E.Load(region.buffer, index) for index in indices], target.dtype)
    else:
        raise TileTypeError(
            f"the value of {op_name} is not {lanes} numbers",
            expected=f"a vector of {lanes} lanes, or the element where they start",
            got=regions.describe(value),
        )
    expr = E.call(
        f"atomic_addx{lanes}",
        E.AddressOf(target.buffer, target.mins),
        source,
        dtype=target.dtype.with_lanes(lanes),
        return_prev=regions.constant_bool(return_prev, op_name, "return_prev"),
    )
    return _deliver(expr, return_prev, op_name)


def _start(value: object, lanes: int) -> object:
    """The element where a run of ``lanes`` neighbours starts, for ``A[T.Ramp(i, 1, lanes)]``."""
    if isinstance(value, E.Load) and isinstance(value.indices[-1], E.Ramp):
        run = value.indices[-1]
        if run.lanes == lanes and is_same_extent(run.stride, 1):
            return E.Load(value.buffer, (*value.indices[:-1], run.base))
    return value


def _converted(values: list[E.Expr], dtype: DType) -> E.Expr:
    """A vector of ``values`` in the dtype of the destination."""
    return E.Vector(tuple(regions.cast_to(value, dtype) for value in values))


def atomic_addx2(dst: object, value: object, return_prev: bool = False) -> E.Expr | None:
    """Add 2 adjacent values to 2 adjacent elements; each element is updated atomically.

    Args:
        dst: the first element, of float16, bfloat16 or float32 in global or shared memory.
        value: the first element of the values, or a vector of 2 lanes, cast to ``dst``'s dtype.
        return_prev: constant; return the previous values as a vector.

    Raises:
        TileTypeError: another dtype, or a value that is not 2 numbers.
    """
    return _vector_add(2, dst, value, return_prev)


def atomic_addx4(dst: object, value: object, return_prev: bool = False) -> E.Expr | None:
    """Add 4 adjacent values to 4 adjacent elements.

    Args:
        dst: the first element, of float16, bfloat16 or float32 in global or shared memory.
        value: the first element of the values, or a vector of 4 lanes, cast to ``dst``'s dtype.
        return_prev: constant; return the previous values as a vector.

    Raises:
        TileTypeError: another dtype, or a value that is not 4 numbers.
    """
    return _vector_add(4, dst, value, return_prev)


def atomic_load(src: object, memory_order: str = "seq_cst") -> E.Expr:
    """Load an element atomically.

    Args:
        src: an element of global or shared memory.
        memory_order: relaxed, consume, acquire or seq_cst (default).

    Raises:
        TileValueError: an unknown memory order.

    Source: PTX ISA, "ld", "Memory Consistency Model".
    """
    op_name = "T.atomic_load"
    order = _order(memory_order, LOAD_ORDERS, op_name, "seq_cst")
    buffer, indices = regions.element_of(src, op_name, "source")
    address = E.AddressOf(buffer, indices, "r")
    return E.call("atomic_load", address, dtype=buffer.dtype, memory_order=order)


def atomic_store(dst: object, src: object, memory_order: str = "seq_cst") -> None:
    """Store a value into an element atomically.

    Args:
        dst: an element of global or shared memory.
        src: a scalar, converted to the dtype of ``dst``.
        memory_order: relaxed, release or seq_cst (default).

    Raises:
        TileValueError: an unknown memory order.

    Source: PTX ISA, "st", "Memory Consistency Model".
    """
    op_name = "T.atomic_store"
    order = _order(memory_order, STORE_ORDERS, op_name, "seq_cst")
    buffer, indices = regions.element_of(dst, op_name, "destination")
    expr = E.call(
        "atomic_store",
        E.AddressOf(buffer, indices, "w"),
        regions.stored(_plain(src, op_name), buffer.dtype),
        dtype=buffer.dtype,
        memory_order=order,
    )
    emitter(op_name).emit(S.Eval(value=expr))


borders(globals(), __all__)
