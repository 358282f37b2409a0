"""Other shapes and dtypes of the same memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import stmt as S
from tilelang.ir.active import emitter
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType

__all__ = ["reshape", "view"]


def _bits(shape: Any, dtype: DType) -> Any:
    total: Any = dtype.bits * dtype.lanes
    for extent in shape:
        total = total * extent
    return total


def view(src: Buffer, shape: Any = None, dtype: Any = None) -> Buffer:
    """The memory of ``src`` with another shape or dtype, row-major.

    Raises:
        TileValueError: the sizes differ.
    """
    if not isinstance(src, Buffer):
        raise TileTypeError("T.view of something that is not a buffer", got=repr(src)[:60])
    kind = src.dtype if dtype is None else DType(dtype)
    extents = tuple(src.shape) if shape is None else shape
    wanted = Shape(extents if isinstance(extents, (tuple, list)) else (extents,))
    old, new = _bits(src.shape, src.dtype), _bits(wanted, kind)
    if isinstance(old, int) and isinstance(new, int) and old != new:
        raise TileValueError(
            f"a view of `{src.name}` has another size",
            expected=f"{old} bits ({tuple(src.shape)} of {src.dtype})",
            got=f"{new} bits ({tuple(wanted)} of {kind})",
        )
    if src.strides is not None:
        raise TileValueError(
            f"a view of the strided tensor `{src.name}`", expected="a contiguous buffer"
        )
    made = replace(src, shape=wanted, dtype=kind)
    emitter("T.view").emit(S.View(buffer=made))
    return made


def reshape(src: Buffer, shape: Any) -> Buffer:
    """The elements of ``src`` in another shape, row-major."""
    return view(src, shape)
