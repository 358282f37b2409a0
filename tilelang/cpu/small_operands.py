"""Small GEMM operands that a kernel reads unpacked.

A micro-kernel reads parts of rows repeatedly. Packed rows are contiguous; rows in place have a
stride, and occupy more of the L1 cache. If the operand with the gaps between its rows fits into the
cache, it stays there in either form, and packing would take about as long as the small product.
"""

from __future__ import annotations

from tilelang.cpu.gemm_kernels import ACCUMULATORS, panel_width
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.transforms.analysis.combine import accumulator

ROOM = 16 << 10  # bytes; half of the L1 cache


def is_a_small(stmt: S.Gemm) -> bool:
    """Whether the left operand of ``stmt`` is read in place."""
    return _is_small(stmt, stmt.a)


def is_b_small(stmt: S.Gemm) -> bool:
    """The same for the right one, of which whole vectors are read."""
    columns = stmt.b.extents[-1]
    if stmt.trans_b or not _is_small(stmt, stmt.b) or not isinstance(columns, int):
        return False
    return columns % panel_width(stmt.b.dtype) == 0


def _is_small(stmt: S.Gemm, region: Region) -> bool:
    rows, stride = region.extents[-2], region.buffer.stride_list()[-2]
    if not isinstance(rows, int) or not isinstance(stride, int):
        return False
    plain = region.dtype == accumulator(stmt.a.dtype, stmt.c.dtype) and region.dtype in ACCUMULATORS
    return plain and rows * stride * region.dtype.bits // 8 <= ROOM
