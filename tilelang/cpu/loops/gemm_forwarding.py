"""Copy forwarding of GEMMs: products read operands from global memory and store results there.

The copy of an operand into a tile is useless in three cases: a product of few rows uses each
element of its right operand only a few times; a product of packed words repacks its operands
anyway; a small operand fits into the L1 cache in place. Then the product reads the source directly,
if one copy of in-bounds elements fills the tile, one later product reads it, and no statement in
between may change the source. Where a product overwrites a tile that only a later copy reads, the
product writes directly to the destination of that copy, if it cannot alias an operand. Copy and
tile are removed.

A loop without copies may then become a single product
(:mod:`~tilelang.cpu.loops.k_loop_coalescing`) or a convolution
(:mod:`~tilelang.cpu.loops.convolve`); inner loops are visited first. Runs after ``simplify``, which
makes extents constant, and before ``choose_operands``, which packs the remaining tiles.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.dot_instructions import packed_dot_of
from tilelang.cpu.dot_kernels import has_few_rows
from tilelang.cpu.loops.convolve import convolved
from tilelang.cpu.loops.copy_forwarding import is_in_bounds
from tilelang.cpu.loops.k_loop_coalescing import coalesced
from tilelang.cpu.loops.nests import LaunchWalker
from tilelang.cpu.operands import TILE_SCOPES
from tilelang.cpu.outer_product_kernels import is_outer_product
from tilelang.cpu.small_operands import is_a_small, is_b_small
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Region, is_same_extent
from tilelang.target import Context
from tilelang.transforms.analysis.combine import accumulator


def forward_gemm_copies(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with copies gone into the products around them."""
    return func.with_body(_Forwarder(func).visit(func.body))


class _Forwarder(LaunchWalker):
    def __init__(self, func: S.PrimFunc) -> None:
        super().__init__(func)
        self.uses: dict[E.Var, int] = {}  # of this kernel

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Launch):
            self.uses = _uses(stmt)
        result = super().visit(stmt)
        return coalesced(convolved(result, self.uses)) if isinstance(result, S.For) else result

    def sequence(self, seq: S.Seq) -> S.Stmt:
        result = super().sequence(seq)
        copies: dict[E.Var, S.Copy] = {}  # those of which nothing has changed the source yet
        rewritten: list[S.Stmt] = []
        for stmt in S.flat(result):
            if isinstance(stmt, S.Gemm):
                stmt, used = self._with_operands(stmt, copies)
                rewritten = [loop for loop in rewritten if loop not in used]
            copies = {
                tile: copy for tile, copy in copies.items()
                if self.memory.is_unchanged_by(stmt, copy.src.buffer, copy.dst.buffer)
            }  # fmt: skip
            if isinstance(stmt, S.Copy):
                before = rewritten[-1] if rewritten else None
                if isinstance(before, S.Gemm) and self._takes_result(before, stmt):
                    rewritten[-1] = replace(before, c=stmt.dst)
                    continue
                if self._moves_whole(stmt, tile=stmt.dst, memory=stmt.src):
                    copies[stmt.dst.buffer.data] = stmt
            rewritten.append(stmt)
        return result.of(rewritten) if isinstance(result, S.Seq) else S.seq(*rewritten)

    def _with_operands(
        self, stmt: S.Gemm, copies: dict[E.Var, S.Copy]
    ) -> tuple[S.Gemm, list[S.Copy]]:
        """``stmt`` with the sources of ``copies`` as operands, and those that it needs no more."""
        wide = accumulator(stmt.a.dtype, stmt.c.dtype)
        if stmt.a.buffer.data is stmt.b.buffer.data:
            return stmt, []
        keeps = packed_dot_of(stmt.a.dtype, stmt.b.dtype, wide) is not None or has_few_rows(stmt)
        used: list[S.Copy] = []
        for name, small in (("a", is_a_small), ("b", is_b_small)):
            operand: Region = getattr(stmt, name)
            copy = copies.get(operand.buffer.data)
            if copy is None or not operand.is_whole:
                continue
            a, b = (copy.src, stmt.b) if name == "a" else (stmt.a, copy.src)
            changed = replace(stmt, a=a, b=b)
            if keeps or small(changed) or (name == "b" and is_outer_product(changed)):
                used.append(copy)
                stmt = changed
        return stmt, used

    def _takes_result(self, gemm: S.Gemm, copy: S.Copy) -> bool:
        """Whether ``gemm`` can store what ``copy`` moves."""
        clears = isinstance(gemm.clear, E.Const) and bool(gemm.clear.value)
        if not clears or gemm.c.buffer.data is not copy.src.buffer.data or not gemm.c.is_whole:
            return False
        if gemm.c.dtype != accumulator(gemm.a.dtype, gemm.c.dtype):
            return False  # the sums are in another buffer, and converted
        may_alias = any(self.memory.may_alias(copy.dst.buffer, x.buffer) for x in (gemm.a, gemm.b))
        return not may_alias and self._moves_whole(copy, tile=copy.src, memory=copy.dst)

    def _moves_whole(self, copy: S.Copy, tile: Region, memory: Region) -> bool:
        """Whether only a copy and one product use a tile of the block, and a
        product can use the region in ``memory`` itself."""
        if self.uses.get(tile.buffer.data) != 2 or tile.buffer.storage not in TILE_SCOPES:
            return False
        if copy.mode != "copy" or not tile.is_whole or len(tile.extents) != 2:
            return False
        if memory.dtype != tile.dtype or memory.buffer.storage != "global":
            return False
        if len(memory.extents) < 2:
            return False
        leading, strides = memory.extents[:-2], memory.buffer.stride_list()
        return (
            all(isinstance(extent, int) for extent in memory.extents[-2:])
            and memory.extents[-2:] == tile.buffer.shape
            and all(is_same_extent(extent, 1) for extent in leading)
            and memory.buffer.has_unit_stride
            and isinstance(strides[-2], int)
            and is_in_bounds(memory, self.known)
        )


def _uses(launch: S.Launch) -> dict[E.Var, int]:
    """The number of statements that name each buffer, besides its allocation; an expression that
    does counts for more than two."""
    counts: dict[E.Var, int] = {}
    for stmt in S.walk(launch.body):
        if not isinstance(stmt, S.Alloc):
            for data in {access.data for access in effects.own(stmt)}:
                counts[data] = counts.get(data, 0) + 1
        for expr in effects.expressions(stmt):
            for data in effects.used(expr):
                counts[data] = counts.get(data, 0) + 3
    return counts
