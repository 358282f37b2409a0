"""``Im2col``: the rows and columns of a convolution gathered from an NHWC image."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.passes.lower.context import Lowering
from tilelang.passes.lower.elements import Element, conjunction, each


def lower_im2col(stmt: S.Im2col, ctx: Lowering) -> S.Stmt:
    """Thread IR of a column tile; ``T.im2col`` says which element of the image each one is."""

    def gather(item: Element) -> S.Stmt:
        return item.store(_pixel(stmt, item.indices[-2], item.indices[-1], ctx))

    return each(stmt.col, ctx, gather, once=False)


def _pixel(stmt: S.Im2col, i: E.Expr, j: E.Expr, ctx: Lowering) -> E.Expr:
    """Element (i, j) of the tile; 0 outside the image."""
    image = stmt.img.buffer
    count, height, width, channels = (E.as_expr(extent) for extent in image.shape)
    rows, columns = (E.as_expr(extent) for extent in stmt.col.extents[-2:])
    reach = stmt.dilation * (stmt.kernel - 1) + 1
    out_h = (height + 2 * stmt.pad - reach) // stmt.stride + 1
    out_w = (width + 2 * stmt.pad - reach) // stmt.stride + 1
    m = stmt.nhw_step * rows + i
    k = stmt.c_step * columns + j
    n, oh, ow = m // (out_h * out_w), m % (out_h * out_w) // out_w, m % out_w
    c, kw, kh = k % channels, k // channels % stmt.kernel, k // (channels * stmt.kernel)
    h = oh * stmt.stride + kh * stmt.dilation - stmt.pad
    w = ow * stmt.stride + kw * stmt.dilation - stmt.pad
    inside = conjunction([h >= 0, h < height, w >= 0, w < width, n < count, kh < stmt.kernel])
    found = E.Load(*ctx.place(image, (n, h, w, c)))
    return E.select(inside, found, E.const(0, image.dtype))
