"""``T.view`` and ``T.reshape``: other shapes and dtypes of the same storage."""

from __future__ import annotations

from math import prod

from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.frontend.ir_builder import builder
from tilelang.frontend.regions import check_view, describe, shape_tuple, text_of
from tilelang.ir.buffer import Buffer, Shape, as_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Const, as_expr
from tilelang.ir.simplify import simplify
from tilelang.ir.stmt import View
from tilelang.tracebacks import borders

__all__ = ["reshape", "view"]


def view(src: Buffer, shape: object = None, dtype: object = None) -> Buffer:
    """Return the storage of ``src`` as a row-major buffer of another shape and dtype.

    Args:
        src: a contiguous buffer.
        shape: new extents; by default those of ``src``, the last one scaled to the dtype.
        dtype: new element type; by default that of ``src``.

    Raises:
        TileValueError: the sizes in bits differ.
    """
    return _view("T.view", src, shape, dtype)


def reshape(src: Buffer, shape: object) -> Buffer:
    """Return the storage of ``src`` as a row-major buffer of another shape.

    Args:
        src: a contiguous buffer.
        shape: new extents, with the same number of elements.

    Raises:
        TileTypeError: something that is not a buffer.
        TileValueError: another number of elements.
    """
    return _view("T.reshape", src, shape, None)


def _view(op_name: str, src: object, shape: object, dtype: object) -> Buffer:
    active = builder(op_name)
    if not isinstance(src, Buffer) or src.is_var:
        raise TileTypeError(
            f"{op_name} of something that is not a buffer", expected="a buffer", got=describe(src)
        )
    check_view(op_name, src)
    if src.strides is not None:
        raise TileUnsupportedError(
            f"{op_name} of `{src.name}`, which has strides",
            expected="a contiguous buffer",
            got=f"strides {text_of(src.strides)}",
        )
    kind = src.dtype if dtype is None else DType(dtype)
    extents = _default_shape(src, kind, op_name) if shape is None else Shape(shape_tuple(shape))
    _check_size(op_name, src, extents, kind)
    offset = src.elem_offset
    if kind is not src.dtype and not (isinstance(offset, int) and offset == 0):
        offset = as_extent(as_expr(offset) * src.dtype.width // kind.width)
    buffer = Buffer("", extents, kind, src.storage, None, offset, src.data, src.attrs)
    active.emit(View(buffer=buffer))
    active.live_in(buffer)
    return buffer


def _default_shape(src: Buffer, kind: DType, op_name: str) -> Shape:
    last = src.shape[-1] * src.dtype.width
    if isinstance(last, int) and last % kind.width:
        raise TileValueError(
            f"{op_name} of `{src.name}` as {kind} splits an element",
            expected=f"a last extent that fills whole {kind} elements",
            got=f"{src.shape[-1]} elements of {src.dtype}",
        )
    return Shape((*src.shape[:-1], simplify(as_expr(last // kind.width))))


def _check_size(op_name: str, src: Buffer, extents: Shape, kind: DType) -> None:
    old, new = prod(src.shape) * src.dtype.width, prod(extents) * kind.width
    difference = simplify(as_expr(old) - as_expr(new))
    if not (isinstance(difference, Const) and difference.value == 0):
        raise TileValueError(
            f"{op_name} changes the size of `{src.name}`",
            expected=f"{text_of(src.shape)} of {src.dtype}: {old} bits",
            got=f"{text_of(extents)} of {kind}: {new} bits",
        )


borders(globals(), __all__)
