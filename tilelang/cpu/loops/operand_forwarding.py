"""Copy forwarding of GEMM operands: a product reads its operand in global memory, uncopied.

A product of few rows uses each element of its right operand a few times, one whose operands become
words makes those of them anyway, and small operands fit into the first cache as they lie: the copy
into a tile before it moves every element through the cache once more for nothing. Where the tile is
filled by one copy, of elements that certainly exist, and read by one product behind it, with
nothing between that could change the source, the product gets the source, and copy and tile are
gone.

Relies on ``simplify`` (extents are constants where they can be) and on copies being whole; runs
before ``choose_operands``, which asks for the tiles that are left.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.dot_instructions import words_of
from tilelang.cpu.dot_kernels import has_few_rows
from tilelang.cpu.outer_product_kernels import has_passing_rows
from tilelang.cpu.small_operands import small_a, small_b
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds, prove
from tilelang.ir.buffer import Region, same_extent
from tilelang.ir.visitor import rewrite_blocks
from tilelang.target import Context
from tilelang.transforms.analysis.combine import accumulator

TILE_SCOPES = ("shared", "shared.dyn", "local.fragment")


def forward_operands(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with copies gone into the products behind them."""
    return func.with_body(_Walk().visit(func.body))


class LaunchWalker:
    """Walks with the ranges of variables, and how often the statements of a launch name a tile."""

    def __init__(self) -> None:
        self.bounds = Bounds()
        self.uses: dict[E.Var, int] = {}

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with its sequences rewritten."""
        outer, uses = self.bounds, self.uses
        if isinstance(stmt, S.Launch):
            self.uses = _uses(stmt)
            for var, extent in zip(stmt.block_vars, stmt.grid):
                self.bounds = self.bounds.with_range(var, 0, extent)
        elif isinstance(stmt, S.For):
            self.bounds = self.bounds.with_range(stmt.var, stmt.start, stmt.stop)
        result = rewrite_blocks(stmt, self.visit)
        if isinstance(result, S.Seq):
            result = self.sequence(result)
        elif isinstance(result, S.For):
            result = self.loop(result)
        self.bounds, self.uses = outer, uses
        return result

    def sequence(self, seq: S.Seq) -> S.Stmt:
        """A sequence whose parts are rewritten; to be overridden."""
        return seq

    def loop(self, loop: S.For) -> S.Stmt:
        """A loop whose body is rewritten; to be overridden."""
        return loop

    def moves_whole(self, copy: S.Copy, tile: Region, memory: Region) -> bool:
        """Whether a copy is all that a tile of the block is there for, beside one product, and a
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
            and all(same_extent(extent, 1) for extent in leading)
            and memory.buffer.has_unit_stride
            and isinstance(strides[-2], int)
            and self._is_in_bounds(memory)
        )

    def _is_in_bounds(self, region: Region) -> bool:
        """Whether all elements certainly exist."""
        for low, extent, size in zip(region.mins, region.extents, region.buffer.shape):
            last = E.binary("add", low, E.as_expr(extent))
            for test in (E.binary("ge", low, E.const(0)), E.binary("le", last, E.as_expr(size))):
                if prove(test, self.bounds) is not True:
                    return False
        return True


class _Walk(LaunchWalker):
    def sequence(self, seq: S.Seq) -> S.Stmt:
        copies: dict[E.Var, S.Copy] = {}  # those of which nothing has changed the source yet
        rewritten: list[S.Stmt] = []
        gone: set[S.Stmt] = set()
        for stmt in seq.stmts:
            if isinstance(stmt, S.Gemm):
                changed, used = self._product(stmt, copies)
                gone |= used
                rewritten.append(changed)
                stmt = changed
            else:
                rewritten.append(stmt)
            written = effects.written(stmt)
            plain = isinstance(stmt, (S.Copy, S.Fill, S.Gemm)) and _to_tile(stmt)
            copies = {tile: copy for tile, copy in copies.items() if plain and tile not in written}
            if isinstance(stmt, S.Copy) and self.moves_whole(stmt, tile=stmt.dst, memory=stmt.src):
                copies[stmt.dst.buffer.data] = stmt
        return S.seq(*(stmt for stmt in rewritten if stmt not in gone)) if gone else seq

    def _product(self, stmt: S.Gemm, copies: dict[E.Var, S.Copy]) -> tuple[S.Gemm, set[S.Stmt]]:
        wide = accumulator(stmt.a.dtype, stmt.c.dtype)
        if stmt.a.buffer.data is stmt.b.buffer.data:
            return stmt, set()
        every = words_of(stmt.a.dtype, stmt.b.dtype, wide) is not None or has_few_rows(stmt)
        used: set[S.Stmt] = set()
        for name, small in (("a", small_a), ("b", small_b)):
            operand: Region = getattr(stmt, name)
            copy = copies.get(operand.buffer.data)
            if copy is None or not operand.is_whole:
                continue
            a, b = (copy.src, stmt.b) if name == "a" else (stmt.a, copy.src)
            changed = replace(stmt, a=a, b=b)
            if every or small(changed) or (name == "b" and has_passing_rows(changed)):
                used.add(copy)
                stmt = changed
        return stmt, used


def _uses(launch: S.Launch) -> dict[E.Var, int]:
    """How many statements, besides those that make a buffer, name each of them; an expression that
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


def _to_tile(stmt: S.Copy | S.Fill | S.Gemm) -> bool:
    """Whether only a tile of the block is written."""
    region = stmt.c if isinstance(stmt, S.Gemm) else stmt.dst
    return region.buffer.storage in TILE_SCOPES
