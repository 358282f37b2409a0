"""Prefetch of global reads: tiles that loops read element by element, staged in shared memory.

A pipelined loop hides the latency of its copies, but not that of reads inside its parallel loops:
each iteration stalls on the scales of a dequantized product, for example. Where such reads form a
tile that many iterations of the parallel loop share, or a tile with at most one element per thread,
this pass copies the tile to shared memory. Software pipelining then treats the copy like those of
the program.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, is_divisible
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.facts import bounds_of
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import Rewriter, inline_lets, map_exprs, replace_nodes
from tilelang.records import dataclass
from tilelang.transforms.analysis.loops import static_extents
from tilelang.transforms.analysis.vectors import has_aligned_rows
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.pipeline import counts_versions, is_pipelined

SHARED_BY = 8  # iterations of a parallel loop for each element of a tile, at least
MAX_BYTES = 4096
WORD_BITS = 32  # of the smallest asynchronous copy


def prefetch_reads(launch: S.Launch, facts: Facts) -> S.Launch:
    """``launch`` with copies for the tiles that parallel loops of pipelined loops read."""
    if not facts.context.has("cp_async") or not any(map(_is_staged, S.walk(launch.body))):
        return launch
    return launch.with_body(_Loops(launch).rewrite(launch.body))


def _is_staged(stmt: S.Stmt) -> bool:
    return is_pipelined(stmt) and (stmt.hints.num_stages or 0) > 1 and counts_versions(stmt)


@dataclass(frozen=True)
class _Tile:
    """The elements that a read touches in one iteration of the pipelined loop."""

    buffer: Buffer  # the copy in shared memory
    source: Region
    load: E.Load  # from the copy


class _Loops(Rewriter):
    def __init__(self, launch: S.Launch) -> None:
        self.bounds = bounds_of(launch)
        self.threads = prod(launch.threads)
        self.written = effects.written(launch.body)

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        """A pipelined loop with its tiles."""
        if not isinstance(stmt, S.For) or not _is_staged(stmt) or not isinstance(stmt.body, S.Seq):
            return stmt
        tiles: dict[E.Expr, _Tile] = {}
        copies: list[S.Stmt] = []
        body: list[S.Stmt] = []
        for inner in stmt.body.stmts:
            reads = self.reads(inner, stmt) if isinstance(inner, S.Parallel) else {}
            for load, tile in reads.items():
                if load not in tiles:
                    tiles[load] = tile
                    copies.append(S.Copy(src=tile.source, dst=tile.buffer.whole(), loc=inner.loc))
            used = {load: tile.load for load, tile in reads.items()}
            body.append(map_exprs(inner, partial(replace_nodes, known=used)) if used else inner)
        if not tiles:
            return stmt
        allocs = [S.Alloc(buffer=tile.buffer, loc=stmt.loc) for tile in tiles.values()]
        return [*allocs, replace(stmt, body=S.seq(*copies, *body))]

    def reads(self, loop: S.Parallel, around: S.For) -> dict[E.Expr, _Tile]:
        """The tiles for reads of ``loop``."""
        tiles: dict[E.Expr, _Tile] = {}
        accesses = effects.accesses(inline_lets(loop.body, lambda value: True), nested=True)
        if any(E.holds(index, E.Load) for access in accesses for index in access.indices):
            return {}  # a gather, which loads its indices ahead itself
        for stmt in S.walk(loop.body):
            if isinstance(stmt, S.If):
                return {}  # a read that happens for some iterations only
            for expr in stmt.exprs():
                for node in E.walk(expr):
                    if isinstance(node, E.Select):
                        return {}
                    if isinstance(node, E.Load) and node.buffer.storage == "global":
                        tile = self.tile(node, loop, around)
                        if tile is not None:
                            tiles[node] = tile
        return tiles

    def tile(self, load: E.Load, loop: S.Parallel, around: S.For) -> _Tile | None:
        """The tile that ``load`` reads in one iteration of ``around``, if a copy of it pays."""
        extents = static_extents(loop)
        if extents is None or load.buffer.data in self.written or load.dtype.lanes > 1:
            return None
        bounds = self.bounds
        for var, extent in zip(loop.vars, extents):
            bounds = bounds.with_range(var, 0, extent)
        reach = dict(zip(loop.vars, extents))
        parts = [_split(simplify(index, bounds), reach) for index in load.indices]
        mins = tuple(part[0] for part in parts if part is not None)
        if len(mins) < len(parts) or not any(around.var in low.variables for low in mins):
            return None
        inner = S.bound(loop.body)
        if any(E.holds(low, E.Load, E.Call) or low.variables & inner for low in mins):
            return None
        offsets = tuple(part[1] for part in parts if part is not None)
        shape = tuple(part[2] for part in parts if part is not None)
        limit = max(prod(extents) // SHARED_BY, self.threads)
        if not _is_profitable(load.buffer, mins, shape, limit, bounds):
            return None
        staged = Buffer(f"{load.buffer.name}_tile", Shape(shape), load.buffer.dtype, "shared.dyn")
        return _Tile(staged, Region(load.buffer, mins, shape), E.Load(staged, offsets))


def _is_profitable(
    buffer: Buffer, mins: tuple[E.Expr, ...], shape: tuple[int, ...], limit: int, bounds: Bounds
) -> bool:
    """Whether a tile has at most ``limit`` elements, and can be copied by hardware."""
    bits, count = buffer.dtype.bits, prod(shape)
    if count * bits > 8 * MAX_BYTES or count > limit or bits >= WORD_BITS * 2:
        return False
    per_word = max(1, WORD_BITS // bits)
    return (
        shape[-1] % per_word == 0
        and is_divisible(mins[-1], per_word, bounds)
        and has_aligned_rows(buffer, per_word, bounds)
    )


def _split(index: E.Expr, reach: dict[E.Var, int]) -> tuple[E.Expr, E.Expr, int] | None:
    """(start, offset, extent) of an index: what the parallel variables ``reach`` add to it is one
    of them, or its quotient by a constant, or nothing."""
    moving = [pair for pair in Linear.of(index).terms if pair[0].variables & reach.keys()]
    if not moving:
        return index, E.const(0), 1
    offset, factor = moving[0]
    inner, share = offset, 1
    if isinstance(offset, E.Binary) and offset.op == "floordiv" and isinstance(offset.b, E.Const):
        inner, share = offset.a, int(offset.b.value)
    if len(moving) > 1 or factor != 1 or not isinstance(inner, E.Var) or inner not in reach:
        return None
    return simplify(index - offset), offset, -(-reach[inner] // share)
