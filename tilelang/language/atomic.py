"""Atomic updates: of one element by every executing thread, or of a tile once per element."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer, Region, same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import AddressOf, Expr, Lane, Load, Ramp, Var, Vector, as_expr, call, const
from tilelang.ir.stmt import AtomicTile, Eval, Parallel
from tilelang.language.regions import (
    align,
    cast_to,
    describe,
    element_of,
    region_of,
    scalar,
)

__all__ = [
    "atomic_add",
    "atomic_addx2",
    "atomic_addx4",
    "atomic_load",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_store",
]

ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")
LOAD_ORDERS = ("relaxed", "consume", "acquire", "seq_cst")
STORE_ORDERS = ("relaxed", "release", "seq_cst")
NUMBERS = (
    "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64",
)  # fmt: skip
INTEGERS = ("int32", "uint32", "int64", "uint64")


def _order(order: object, allowed: tuple[str, ...], what: str, default: str) -> str:
    if order is None:
        return default
    if order not in allowed:
        raise TileValueError(
            f"the memory order of {what} is unknown",
            expected=", ".join(allowed),
            got=describe(order),
        )
    return str(order)


def _check(region: Region, allowed: tuple[str, ...], what: str) -> None:
    if region.scope() not in ("global", "shared", "shared.dyn"):
        raise TileTypeError(
            f"the destination of {what} is in {region.scope()} memory",
            expected="an element or tile of global or shared memory",
            got=f"`{region.buffer.name}`",
            hint="other threads cannot see it; use a plain assignment or a T.alloc_reducer",
        )
    if region.dtype.element_of not in allowed:
        raise TileTypeError(
            f"{what} on {region.dtype}",
            expected=", ".join(allowed),
            got=f"`{region.buffer.name}` of dtype {region.dtype}",
        )


def _is_tile(value: object) -> bool:
    return isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var)


def _atomic(
    op: str, dst: object, value: object, memory_order: object, return_prev: bool,
    allowed: tuple[str, ...],
) -> Expr | None:  # fmt: skip
    what = f"T.atomic_{op}"
    active = emitter(what)
    order = _order(memory_order, ORDERS, what, "relaxed")
    target = region_of(dst, what, "destination")
    _check(target, allowed, what)
    if _is_tile(value):
        if return_prev:
            raise TileUnsupportedError(
                f"{what} of a tile cannot return the previous values",
                expected="a scalar value with return_prev=True",
                got=describe(value),
            )
        tiles = align(value, dst, what)
        if tiles is None:
            raise TileTypeError(
                f"the operands of {what} are not tiles", expected="a tile", got=describe(value)
            )
        active.emit(AtomicTile(src=tiles[0], dst=tiles[1], op=op, memory_order=order))
        return None
    if not target.anchored and not target.buffer.is_var:
        if return_prev:
            raise TileUnsupportedError(
                f"{what} on a tile cannot return the previous values",
                expected="an element such as A[i, j] with return_prev=True",
                got=describe(dst),
            )
        _spread(op, target, _amount(value, target, what), order)
        return None
    added = value if isinstance(value, (bool, int, float)) else scalar(value, what, "value")
    found = call(
        f"atomic_{op}",
        AddressOf(target.buffer, target.mins),
        cast_to(added, target.dtype),
        dtype=target.dtype,
        memory_order=order,
        return_prev=bool(return_prev),
    )
    return _deliver(found, return_prev, what)


def _amount(value: object, target: Region, what: str) -> Expr:
    """The value that every element of a tile is updated with."""
    plain = value if isinstance(value, (bool, int, float)) else scalar(value, what, "value")
    return cast_to(plain, target.dtype)


def _spread(op: str, target: Region, value: Expr, order: str) -> None:
    """One update of each element of a tile with the same value, made by the block once."""
    axes = [at for at, extent in enumerate(target.extents) if extent != 1] or [0]
    variables = tuple(Var(f"i{at}", DType("int32")) for at in axes)
    indices = list(target.mins)
    for var, at in zip(variables, axes):
        indices[at] = as_expr(indices[at] + var)
    update = call(
        f"atomic_{op}",
        AddressOf(target.buffer, tuple(indices)),
        value,
        dtype=target.dtype,
        memory_order=order,
        return_prev=False,
    )
    emitter(f"T.atomic_{op}").emit(
        Parallel(
            vars=variables,
            extents=tuple(as_expr(target.extents[at]) for at in axes),
            body=Eval(value=update),
        )
    )


def _deliver(found: Expr, return_prev: bool, what: str) -> Expr | None:
    """The expression when its value is wanted, otherwise a statement."""
    if return_prev:
        return found
    emitter(what).emit(Eval(value=found))
    return None


def atomic_add(
    dst: object, value: object, memory_order: str | None = None, return_prev: bool = False,
    use_tma: bool = False, annotations: dict[str, Any] | None = None,
) -> Expr | None:  # fmt: skip
    """``dst += value`` as one step.

    Args:
        dst: an element of global or shared memory, or a tile.
        value: a scalar (one update per executing thread or iteration) or a tile whose elements
            are added once each, with extents as in ``T.copy``.
        memory_order: relaxed (default), consume, acquire, release, acq_rel or seq_cst.
        return_prev: give the previous value; scalars only.

    Updates outside the declared shape are dropped.
    """
    return _atomic("add", dst, value, memory_order, return_prev, NUMBERS)


def atomic_max(
    dst: object, value: object, memory_order: str | None = None, return_prev: bool = False,
    annotations: dict[str, Any] | None = None,
) -> Expr | None:  # fmt: skip
    """``dst = max(dst, value)`` as one step; see :func:`atomic_add`."""
    return _atomic("max", dst, value, memory_order, return_prev, NUMBERS)


def atomic_min(
    dst: object, value: object, memory_order: str | None = None, return_prev: bool = False,
    annotations: dict[str, Any] | None = None,
) -> Expr | None:  # fmt: skip
    """``dst = min(dst, value)`` as one step; see :func:`atomic_add`."""
    return _atomic("min", dst, value, memory_order, return_prev, NUMBERS)


def atomic_or(
    dst: object, value: object, memory_order: str | None = None, return_prev: bool = False
) -> Expr | None:
    """``dst |= value`` as one step; see :func:`atomic_add`."""
    return _atomic("or", dst, value, memory_order, return_prev, INTEGERS)


def _vector_add(lanes: int, dst: object, value: object, return_prev: bool) -> Expr | None:
    what = f"T.atomic_addx{lanes}"
    target = region_of(_start(dst, lanes), what, "destination")
    _check(target, ("float16", "bfloat16", "float32"), what)
    value = _start(value, lanes)
    source: Expr
    if isinstance(value, Expr) and value.dtype.lanes == lanes:
        source = value
        if value.dtype.element_of != target.dtype:
            source = _converted([Lane(value, const(at)) for at in range(lanes)], target.dtype)
    elif isinstance(value, (Load, Region, Buffer)):
        found = region_of(value, what, "value")
        source = AddressOf(found.buffer, found.mins, "r")
        if found.dtype != target.dtype:
            last = found.mins[-1]
            places = [(*found.mins[:-1], as_expr(last + at)) for at in range(lanes)]
            source = _converted([Load(found.buffer, place) for place in places], target.dtype)
    else:
        raise TileTypeError(
            f"the value of {what} is not {lanes} numbers",
            expected=f"a vector of {lanes} lanes, or the element where they start",
            got=describe(value),
        )
    made = call(
        f"atomic_addx{lanes}",
        AddressOf(target.buffer, target.mins),
        source,
        dtype=target.dtype.with_lanes(lanes),
        return_prev=bool(return_prev),
    )
    return _deliver(made, return_prev, what)


def _start(value: object, lanes: int) -> object:
    """The element where a run of ``lanes`` neighbours starts, for ``A[T.Ramp(i, 1, lanes)]``."""
    if isinstance(value, Load) and isinstance(value.indices[-1], Ramp):
        run = value.indices[-1]
        if run.lanes == lanes and same_extent(run.stride, 1):
            return Load(value.buffer, (*value.indices[:-1], run.base))
    return value


def _converted(values: list[Expr], dtype: DType) -> Expr:
    """A vector of ``values`` in the dtype of the destination."""
    return Vector(tuple(cast_to(value, dtype) for value in values))


def atomic_addx2(dst: object, value: object, return_prev: bool = False) -> Expr | None:
    """Add 2 adjacent values to 2 adjacent elements, each as one step.

    Args:
        dst, value: the elements where they start; ``value`` may also be a vector of 2 lanes.
    """
    return _vector_add(2, dst, value, return_prev)


def atomic_addx4(dst: object, value: object, return_prev: bool = False) -> Expr | None:
    """Add 4 adjacent values to 4 adjacent elements; see :func:`atomic_addx2`."""
    return _vector_add(4, dst, value, return_prev)


def atomic_load(src: object, memory_order: str = "seq_cst") -> Expr:
    """The value of an element, read as one step."""
    what = "T.atomic_load"
    order = _order(memory_order, LOAD_ORDERS, what, "seq_cst")
    buffer, indices = element_of(src, what, "source")
    address = AddressOf(buffer, indices, "r")
    return call("atomic_load", address, dtype=buffer.dtype, memory_order=order)


def atomic_store(dst: object, src: object, memory_order: str = "seq_cst") -> None:
    """Store a value into an element as one step."""
    what = "T.atomic_store"
    order = _order(memory_order, STORE_ORDERS, what, "seq_cst")
    buffer, indices = element_of(dst, what, "destination")
    value = src if isinstance(src, (bool, int, float)) else scalar(src, what, "value")
    found = call(
        "atomic_store",
        AddressOf(buffer, indices, "w"),
        cast_to(value, buffer.dtype),
        dtype=buffer.dtype,
        memory_order=order,
    )
    emitter(what).emit(Eval(value=found))
