"""TMA candidates: the boxes of copies, atomic updates and convolution columns that TMA can move."""

from __future__ import annotations

from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.layout.layout import Layout
from tilelang.transforms.analysis.im2col_maps import image_of
from tilelang.transforms.analysis.tma import Boxes, TmaIneligibleError, TmaOp, boxes_of


def tma_boxes(stmt: TmaOp, layout: Layout | None, bounds: Bounds) -> Boxes:
    """The boxes of ``stmt`` if its tile has ``layout``; None is row-major.

    Raises:
        TmaIneligibleError: it has none; says why.
    """
    if isinstance(stmt, S.Gather):
        name = stmt.src.buffer.name
        raise TmaIneligibleError(f"its elements of `{name}` are at computed indices")
    if isinstance(stmt, S.Im2col):
        return image_of(stmt, layout, bounds)
    return boxes_of(stmt, layout, bounds)
