"""Lower tile operations that no micro-kernel computes to loops."""

from __future__ import annotations

from tilelang.cpu.gemm_writer import has_kernel
from tilelang.cpu.loops.tiles import lower_tiles_except
from tilelang.cpu.operands import lower_operand_copies
from tilelang.ir import stmt as S
from tilelang.target import Context


def lower_tiles_without_kernel(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with tile operations as loops, apart from products that a kernel computes.

    Copies into operands of those products pack them, as ``choose_operands`` has planned it.
    """
    return lower_tiles_except(lower_operand_copies(func), has_kernel)
