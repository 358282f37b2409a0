"""Tile operations that no kernel computes, as loops."""

from __future__ import annotations

from tilelang.cpu.gemm_writer import has_kernel
from tilelang.cpu.loops.tiles import lower_tiles_except
from tilelang.ir import stmt as S
from tilelang.target import Context


def lower_tiles_without_kernel(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with tile operations as loops, apart from products that a kernel computes.

    Relies on ``choose_operands`` and ``lower_operand_copies``: the operands of those products are
    packed already.
    """
    return lower_tiles_except(func, has_kernel)
