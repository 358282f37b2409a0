"""im2col tensor maps: whether TMA can copy a tile of the column matrix of a convolution.

An im2col map enumerates the pixels of a bounding box in an NHWC image in memory order, across rows
and images, and copies a range of channels of each pixel. An offset within the window of the
convolution shifts all pixels. Outside of the image it reads zeros.

Source: PTX ISA, "Tensors", "im2col mode"; CUDA Driver API, "cuTensorMapEncodeIm2col".
"""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.layout.layout import Layout
from tilelang.transforms.analysis import tma

_MOST_PIXELS = 1024  # of one load
_MOST_STRIDE = 8
_CORNERS = (-128, 127)  # of the bounding box of two spatial dimensions
_FARTHEST = 255  # offset within the window


def image_of(stmt: S.Im2col, layout: Layout | None, bounds: Bounds) -> tma.Boxes:
    """The boxes that fill the tile of ``stmt``: as many as the tile has panels.

    Args:
        layout: of the tile; None is row-major.
        bounds: of the variables in its steps.

    Raises:
        TmaIneligibleError: TMA cannot make the copy; says why.
    """
    tensor, tile = stmt.src.buffer, stmt.dst
    if tensor.storage != "global" or tile.buffer.storage not in ("shared", "shared.dyn"):
        raise tma.TmaIneligibleError("it is not a copy from global to shared memory")
    kind = tma.kind_of(tensor.dtype)
    strides = tma.strides_of(tensor, bounds)
    channels = E.as_expr(tensor.shape[-1])
    span, width = _panels(stmt, layout)
    rows, columns = (int(extent) for extent in tile.extents[-2:])
    if not isinstance(channels, E.Const) or int(channels) % columns:
        raise tma.TmaIneligibleError(
            f"{columns} columns are not proved to be channels of one pixel: `{tensor.name}` has "
            f"`{channels!r}`"
        )
    _check_window(stmt, rows, width)
    if stmt.mode == "copy":  # else a pipeline was planned with the steps that its loop has
        _check_steps(stmt, int(channels) // columns, bounds)
    start, offsets = _coordinates(stmt, rows, columns, int(channels))
    boxes = tuple(
        tma.Box(
            (*tile.mins[:-1], E.binary("add", tile.mins[-1], E.const(first))),
            (E.binary("add", start[0], E.const(first)), *start[1:], *offsets),
        )
        for first in range(0, columns, width)
    )
    far = stmt.pad - stmt.dilation * (stmt.kernel - 1)
    window = tma.Window(stmt.stride, (-stmt.pad,) * 2, (far,) * 2)
    sizes = tuple(map(E.as_expr, reversed(tensor.shape)))
    return tma.Boxes(tensor, tile.buffer, kind, sizes, strides, (width, rows), span, boxes, window)


def _panels(stmt: S.Im2col, layout: Layout | None) -> tuple[int, int]:
    """The span of the swizzle, and the columns of a panel."""
    tile, shape = stmt.dst, tma.shape_of(stmt.dst)
    buffer, bits = tile.buffer, tile.dtype.bits
    tma.require(tuple(tile.extents[-2:]) == shape[-2:], f"it fills a part of `{buffer.name}`")
    span = tma.span_of(buffer, shape, layout)
    width = span * 8 // bits if span else shape[-1]
    if width * bits % (8 * tma.CHUNK) or shape[-2] * width * bits % (8 * tma.START):
        raise tma.TmaIneligibleError(
            f"its boxes do not start at multiples of {tma.START} bytes of the tile"
        )
    return span, width


def _check_window(stmt: S.Im2col, rows: int, width: int) -> None:
    """The limits of an im2col map and of the instruction."""
    reach = stmt.dilation * (stmt.kernel - 1)
    corners = (-stmt.pad, stmt.pad - reach)
    low, high = _CORNERS
    if stmt.stride > _MOST_STRIDE:
        raise tma.TmaIneligibleError(f"the stride {stmt.stride} is more than {_MOST_STRIDE}")
    if reach > _FARTHEST or not all(low <= corner <= high for corner in corners):
        raise tma.TmaIneligibleError(
            f"the window of {reach + 1} pixels is larger than a map describes"
        )
    if rows > _MOST_PIXELS or width > tma.MOST:
        raise tma.TmaIneligibleError(
            f"it takes {rows} pixels of {width} channels, more than {_MOST_PIXELS} of {tma.MOST}"
        )


def _check_steps(stmt: S.Im2col, parts: int, bounds: Bounds) -> None:
    """Steps that surely name rows and columns that there are; rows may be behind the last."""
    steps = parts * stmt.kernel * stmt.kernel
    across, down = interval(stmt.c_step, bounds), interval(stmt.nhw_step, bounds)
    if not (across.is_known and across.low >= 0 and across.high < steps):
        raise tma.TmaIneligibleError(f"the step `{stmt.c_step!r}` is not known to be below {steps}")
    tma.require(down.is_known and down.low >= 0, f"the step `{stmt.nhw_step!r}` may be negative")


def _coordinates(
    stmt: S.Im2col, rows: int, columns: int, channels: int
) -> tuple[tuple[E.Expr, ...], tuple[E.Expr, ...]]:
    """Coordinates of the first pixel, innermost first, and offsets within the window."""
    _, height, width, _ = (E.as_expr(extent) for extent in stmt.src.buffer.shape)
    out_h, out_w = stmt.output_extent(height), stmt.output_extent(width)
    k, m = stmt.c_step * columns, stmt.nhw_step * rows
    at = k // channels
    h = m % (out_h * out_w) // out_w * stmt.stride - stmt.pad
    start = (k % channels, m % out_w * stmt.stride - stmt.pad, h, m // (out_h * out_w))
    offsets = (at % stmt.kernel * stmt.dilation, at // stmt.kernel * stmt.dilation)
    return tuple(map(E.as_expr, start)), tuple(map(E.as_expr, offsets))
