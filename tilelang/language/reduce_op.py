"""Reductions of tiles along one dimension."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileTypeError, TileValueError, check_choice
from tilelang.frontend import regions
from tilelang.ir.buffer import Region
from tilelang.ir.emitter import emitter
from tilelang.ir.stmt import Reduce
from tilelang.tracebacks import borders

__all__ = [
    "reduce", "reduce_absmax", "reduce_abssum", "reduce_bitand", "reduce_bitor", "reduce_bitxor",
    "reduce_max", "reduce_min", "reduce_sum",
]  # fmt: skip

KINDS = ("sum", "max", "min", "absmax", "abssum", "bitand", "bitor", "bitxor")


def on_chip(region: Region, op_name: str, role: str) -> None:
    """Reductions and scans work on fragments, shared tiles and per-thread arrays."""
    if region.scope() not in ("local.fragment", "shared", "shared.dyn", "local", "local.var"):
        raise TileTypeError(
            f"the {role} of {op_name} is in {region.scope()} memory",
            expected="a fragment, shared or local tile",
            got=f"`{region.buffer.name}`",
            hint="T.copy it into a fragment first",
        )


def dimension(dim: object, rank: int, op_name: str) -> int:
    """``dim`` counted from the front."""
    number = regions.constant_int(dim, op_name, "dim")
    if not -rank <= number < rank:
        raise TileValueError(
            f"the dim of {op_name} is out of range",
            expected=f"{-rank} to {rank - 1} for {regions.count_of(rank, 'dimension')}",
            got=str(number),
        )
    return number % rank


def batch_of(batch: object, op_name: str) -> int:
    """The number of independent results in a batch; any positive number, as it is a hint only."""
    count = regions.constant_int(batch, op_name, "batch")
    if count < 1:
        raise TileValueError(f"the batch of {op_name} is {count}", expected="at least 1", got=count)
    return count


def _reduce(
    kind: str, buffer: object, out: object, dim: object, clear: object, batch: object,
    nan_propagate: object = False,
) -> None:  # fmt: skip
    op_name = f"T.reduce_{kind}"
    active = emitter(op_name)
    src, dst = regions.tile_of(buffer, op_name, "source"), regions.tile_of(out, op_name, "result")
    on_chip(src, op_name, "source")
    on_chip(dst, op_name, "result")
    extents = regions.constant_extents(src, op_name, "source")
    result = regions.constant_extents(dst, op_name, "result")
    axis = dimension(dim, len(extents), op_name)
    dropped = (*extents[:axis], *extents[axis + 1 :]) or (1,)
    with_axis = (*extents[:axis], 1, *extents[axis + 1 :])
    if result not in (dropped, with_axis):
        expected = (
            regions.text_of(dropped)
            if dropped == with_axis
            else f"{regions.text_of(dropped)} or {regions.text_of(with_axis)}"
        )
        raise TileValueError(
            f"the result of {op_name} has the wrong shape",
            expected=f"{expected} for dim {axis} of {regions.text_of(extents)}",
            got=f"{regions.text_of(result)} of `{dst!r}`",
        )
    for region, role in ((src, "source"), (dst, "result")):
        _check_dtype(kind, region, op_name, role)
    count = batch_of(batch, op_name)
    active.emit(
        Reduce(
            src=src,
            dst=dst,
            kind=kind,
            dim=axis,
            clear=regions.constant_bool(clear, op_name, "clear"),
            nan_propagate=regions.constant_bool(nan_propagate, op_name, "nan_propagate"),
            batch=count,
        )
    )


def _check_dtype(kind: str, region: Region, op_name: str, role: str) -> None:
    dtype = region.dtype
    if dtype.lanes > 1 or dtype.is_handle:
        raise TileTypeError(
            f"{op_name} of {dtype} elements", expected="a scalar dtype", got=f"`{region!r}`"
        )
    if kind.startswith("bit") and not dtype.is_integer:
        raise TileValueError(
            f"the {role} of {op_name} is not of an integer dtype",
            expected="an integer dtype",
            got=f"`{region.buffer.name}` of dtype {dtype}",
        )


def reduce(
    buffer: object, out: object, reduce_type: str, dim: int = -1, clear: bool = True,
    batch: int = 1, nan_propagate: bool = False,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Reduce by the operation ``reduce_type``.

    Args:
        reduce_type: "sum", "max", "min", "absmax", "abssum", "bitand", "bitor" or "bitxor".
        buffer, out, dim, clear, batch, annotations: as for :func:`reduce_sum`.
        nan_propagate: as for :func:`reduce_max`.

    Raises:
        TileValueError: an unknown operation.
    """
    check_choice(reduce_type, KINDS, "T.reduce with an unknown kind")
    _reduce(reduce_type, buffer, out, dim, clear, batch, nan_propagate)


def reduce_sum(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Compute ``out = sum(buffer, dim)``, or ``out += ...`` without ``clear``, in ``out``'s dtype.

    Floats are added in no fixed order.

    Args:
        buffer: fragment, shared or local tile of constant shape.
        out: tile of the same shape without ``dim``, or with extent 1 there.
        dim: dimension, negative ones counted from the end.
        clear: constant; whether the old content of ``out`` is ignored.
        batch: independent results per exchange between threads, at least 1. It affects speed only.
        annotations: accepted, without effect.

    Raises:
        TileTypeError: a tile in global memory, or one of vectors.
        TileValueError: an ``out`` of another shape, or a dimension that does not exist.
    """
    _reduce("sum", buffer, out, dim, clear, batch)


def reduce_max(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1,
    nan_propagate: bool = False, annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Reduce to the largest element.

    Args:
        buffer, out, dim, clear, batch, annotations: as for :func:`reduce_sum`.
        nan_propagate: constant; the result is NaN if one element is. By default NaN is ignored, and
            the result is NaN only if all elements are.

    Raises:
        TileTypeError, TileValueError: as for :func:`reduce_sum`.
    """
    _reduce("max", buffer, out, dim, clear, batch, nan_propagate)


def reduce_min(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1,
    nan_propagate: bool = False, annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Reduce to the smallest element.

    Args:
        buffer, out, dim, clear, batch, annotations: as for :func:`reduce_sum`.
        nan_propagate: as for :func:`reduce_max`.

    Raises:
        TileTypeError, TileValueError: as for :func:`reduce_sum`.
    """
    _reduce("min", buffer, out, dim, clear, batch, nan_propagate)


def reduce_absmax(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1,
    nan_propagate: bool = False, annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Reduce to the largest absolute value.

    Args:
        buffer, out, dim, clear, batch, annotations: as for :func:`reduce_sum`.
        nan_propagate: as for :func:`reduce_max`.

    Raises:
        TileTypeError, TileValueError: as for :func:`reduce_sum`.
    """
    _reduce("absmax", buffer, out, dim, clear, batch, nan_propagate)


def reduce_abssum(
    buffer: object, out: object, dim: int = -1, batch: int = 1,
    annotations: dict[str, Any] | None = None, *, clear: bool = True,
) -> None:  # fmt: skip
    """Reduce to the sum of absolute values.

    Args:
        buffer, out, dim, clear, batch, annotations: as for :func:`reduce_sum`.

    Raises:
        TileTypeError, TileValueError: as for :func:`reduce_sum`.
    """
    _reduce("abssum", buffer, out, dim, clear, batch)


def reduce_bitand(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Reduce to the bitwise and of integers.

    Args:
        buffer, out, dim, clear, batch, annotations: as for :func:`reduce_sum`.

    Raises:
        TileTypeError: a tile in global memory, or one of vectors.
        TileValueError: elements that are not integers, or shapes that do not fit together.
    """
    _reduce("bitand", buffer, out, dim, clear, batch)


def reduce_bitor(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Reduce to the bitwise or of integers.

    Args:
        buffer, out, dim, clear, batch, annotations: as for :func:`reduce_sum`.

    Raises:
        TileTypeError: a tile in global memory, or one of vectors.
        TileValueError: elements that are not integers, or shapes that do not fit together.
    """
    _reduce("bitor", buffer, out, dim, clear, batch)


def reduce_bitxor(
    buffer: object, out: object, dim: int = -1, clear: bool = True, batch: int = 1,
    annotations: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Reduce to the bitwise exclusive or of integers.

    Args:
        buffer, out, dim, clear, batch, annotations: as for :func:`reduce_sum`.

    Raises:
        TileTypeError: a tile in global memory, or one of vectors.
        TileValueError: elements that are not integers, or shapes that do not fit together.
    """
    _reduce("bitxor", buffer, out, dim, clear, batch)


borders(globals(), __all__)
