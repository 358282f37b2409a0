"""Copy forwarding of GEMM results: a product stores its result in global memory, uncopied.

Where one product overwrites a tile, and the copy behind it is all that reads the tile, the product
gets the region that the copy writes to, and copy and tile are gone. The whole region has to exist.
An operand that the product reads from global memory must not be the same memory: tensors of another
dtype or rank are not.

Relies on ``coalesce_k_loops``: a product in a loop adds to its tile, which is nearer than a tensor.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.loops.operand_forwarding import LaunchWalker
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.target import Context
from tilelang.transforms.analysis.combine import accumulator


def forward_results(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with copies gone into the products before them."""
    return func.with_body(_Walk().visit(func.body))


class _Walk(LaunchWalker):
    def sequence(self, seq: S.Seq) -> S.Stmt:
        rewritten: list[S.Stmt] = []
        for stmt in seq.stmts:
            before = rewritten[-1] if rewritten else None
            if (
                isinstance(before, S.Gemm)
                and isinstance(stmt, S.Copy)
                and self._can_forward(before, stmt)
            ):
                rewritten[-1] = replace(before, c=stmt.dst)
            else:
                rewritten.append(stmt)
        return seq if len(rewritten) == len(seq.stmts) else S.seq(*rewritten)

    def _can_forward(self, gemm: S.Gemm, copy: S.Copy) -> bool:
        """Whether ``gemm`` can store what ``copy`` moves."""
        clears = isinstance(gemm.clear, E.Const) and bool(gemm.clear.value)
        if not clears or gemm.c.buffer.data is not copy.src.buffer.data or not gemm.c.is_whole:
            return False
        if gemm.c.dtype != accumulator(gemm.a.dtype, gemm.c.dtype):
            return False  # sums are beside the tile, and converted
        is_disjoint = all(_is_disjoint(copy.dst, operand) for operand in (gemm.a, gemm.b))
        return is_disjoint and self.moves_whole(copy, tile=copy.src, memory=copy.dst)


def _is_disjoint(a: Region, b: Region) -> bool:
    """Whether two regions are certainly in different memory."""
    if "global" not in (a.buffer.storage, b.buffer.storage) or a.buffer.storage != b.buffer.storage:
        return True
    return a.dtype != b.dtype or len(a.extents) != len(b.extents)
