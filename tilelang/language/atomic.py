"""Atomic operations on elements and tiles."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer, Region
from tilelang.language.regions import align, region_of

__all__ = [
    "atomic_add", "atomic_addx2", "atomic_addx4", "atomic_load", "atomic_max", "atomic_min",
    "atomic_or", "atomic_store",
]  # fmt: skip

ORDERS = ("relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst")


def _order(memory_order: str | None, what: str, default: str = "relaxed") -> str:
    if memory_order is None:
        return default
    if memory_order not in ORDERS:
        raise TileValueError(
            f"{what}: unknown memory_order {memory_order!r}", expected=", ".join(ORDERS),
            got=repr(memory_order),
        )
    return memory_order


def _element(dst: Any, what: str) -> E.AddressOf:
    region = region_of(dst, what, "dst")
    return E.AddressOf(region.buffer, region.mins, "rw")


def _is_tile(value: Any) -> bool:
    return isinstance(value, Region) or (isinstance(value, Buffer) and not value.is_var)


def _atomic(op: str, dst: Any, value: Any, memory_order: str | None, return_prev: bool) -> Any:
    what = f"T.atomic_{op}"
    target = emitter(what)
    order = _order(memory_order, what)
    if _is_tile(value) or (isinstance(dst, (Buffer, Region)) and isinstance(value, E.Load)
                           and not _scalar(dst)):
        if return_prev:
            raise TileUnsupportedError(
                f"{what} of a tile cannot return the old values",
                expected="an element and a value",
                hint="use it element by element in T.Parallel",
            )
        src, region = align(
            region_of(value, what, "value"), region_of(dst, what, "dst"), what
        )
        target.emit(S.AtomicTile(src=src, dst=region, op=op, memory_order=order))
        return None
    address = _element(dst, what)
    kind = address.buffer.dtype
    call = E.call(
        f"atomic_{op}", address, E.as_expr(value, kind), dtype=kind, memory_order=order,
        return_prev=bool(return_prev),
    )
    if return_prev:
        return call
    target.emit(S.Eval(value=call))
    return None


def _scalar(dst: Any) -> bool:
    return isinstance(dst, Buffer) and tuple(dst.shape) == (1,)


def atomic_add(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False,
               use_tma: bool = False, annotations: Any = None) -> Any:  # fmt: skip
    """``dst += value`` as one step; with a tile ``value``, for each of its elements."""
    return _atomic("add", dst, value, memory_order, return_prev)


def atomic_max(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False,
               annotations: Any = None) -> Any:  # fmt: skip
    """``dst = max(dst, value)`` as one step."""
    return _atomic("max", dst, value, memory_order, return_prev)


def atomic_min(dst: Any, value: Any, memory_order: str | None = None, return_prev: bool = False,
               annotations: Any = None) -> Any:  # fmt: skip
    """``dst = min(dst, value)`` as one step."""
    return _atomic("min", dst, value, memory_order, return_prev)


def atomic_or(dst: Any, value: Any, memory_order: str | None = None) -> Any:
    """``dst |= value`` as one step."""
    return _atomic("or", dst, value, memory_order, False)


def _vector(dst: Any, value: Any, lanes: int, return_prev: bool) -> Any:
    what = f"T.atomic_addx{lanes}"
    address = _element(dst, what)
    if isinstance(value, (Buffer, Region, E.Load)):
        source: E.Expr = _element(value, what)
    else:
        source = E.as_expr(value)
        if source.dtype.lanes != lanes:
            raise TileTypeError(
                f"{what}: the value is not a vector of {lanes}",
                expected=f"an element of a buffer or a {lanes}-lane vector",
                got=str(source.dtype),
            )
    kind = address.buffer.dtype
    call = E.call(f"atomic_addx{lanes}", address, source, dtype=kind, return_prev=return_prev)
    if return_prev:
        return call
    emitter(what).emit(S.Eval(value=call))
    return None


def atomic_addx2(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Two neighbouring elements at once."""
    return _vector(dst, value, 2, return_prev)


def atomic_addx4(dst: Any, value: Any, return_prev: bool = False) -> Any:
    """Four neighbouring elements at once."""
    return _vector(dst, value, 4, return_prev)


def atomic_load(src: Any, memory_order: str = "seq_cst") -> E.Expr:
    """The element, read as one step."""
    address = _element(src, "T.atomic_load")
    order = _order(memory_order, "T.atomic_load", "seq_cst")
    return E.call("atomic_load", address, dtype=address.buffer.dtype, memory_order=order)


def atomic_store(dst: Any, src: Any, memory_order: str = "seq_cst") -> None:
    """``dst = src`` as one step."""
    address = _element(dst, "T.atomic_store")
    order = _order(memory_order, "T.atomic_store", "seq_cst")
    kind = address.buffer.dtype
    call = E.call("atomic_store", address, E.as_expr(src, kind), dtype=kind, memory_order=order)
    emitter("T.atomic_store").emit(S.Eval(value=call))
