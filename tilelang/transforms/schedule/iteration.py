"""One iteration of a pipelined loop: its products and computations in order, without the copies
that run ahead.

Both the choice of a schedule and its appliers read loops in this form.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from math import prod
from typing import TypeGuard

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Region
from tilelang.records import dataclass
from tilelang.transforms.analysis.loops import trip_count

SHARED = ("shared", "shared.dyn")


def is_load(stmt: S.Stmt) -> TypeGuard[S.TileCopy]:
    """Whether ``stmt`` copies a tile from global to shared memory."""
    return (
        isinstance(stmt, S.COPIES)
        and stmt.src.buffer.storage == "global"
        and stmt.dst.buffer.storage.startswith("shared")
    )


def shared_bytes(launch: S.Launch) -> int:
    """Bytes of all shared tiles of ``launch``, without reuse."""
    buffers = (node.buffer for node in S.find(launch.body, S.Alloc))
    return sum(tile.constant_bytes for tile in buffers if tile.storage in SHARED)


def may_conflict(first: Iterable[S.Stmt], second: Iterable[S.Stmt]) -> bool:
    """Whether either writes what the other uses."""
    a, b = S.seq(*first), S.seq(*second)
    return bool(effects.used(a) & effects.written(b) or effects.written(a) & effects.used(b))


@dataclass(frozen=True)
class IterationGraph:
    """An iteration of ``loop``.

    Attributes:
        stmts: the statements that compute, in order.
        spans: copied tile -> its first and last use among the statements.
    """

    loop: S.For
    stmts: tuple[S.Stmt, ...]
    spans: dict[E.Var, tuple[int, int]]

    @classmethod
    def of(cls, loop: S.For, tiles: Collection[E.Var] | None = None) -> IterationGraph:
        """The iteration of ``loop``; ``tiles``: those that are copied ahead, by default all that it
        loads."""
        loads: dict[S.Stmt, E.Var] = {
            stmt: stmt.dst.buffer.data for stmt in S.flat(loop.body) if is_load(stmt)
        }
        arriving = set(loads.values() if tiles is None else tiles)
        stmts = tuple(stmt for stmt in S.flat(loop.body) if loads.get(stmt) not in arriving)
        spans: dict[E.Var, tuple[int, int]] = {}
        for k, stmt in enumerate(stmts):
            for data in effects.used(stmt) & arriving:
                spans[data] = (spans.get(data, (k, k))[0], k)
        return cls(loop, stmts, {data: spans[data] for data in loads.values() if data in spans})

    @property
    def operand_sets(self) -> dict[tuple[E.Var, ...], tuple[int, int]]:
        """Tiles that are first used together -> their first and last uses."""
        sets: dict[int, list[E.Var]] = {}
        for data, (first, _) in self.spans.items():
            sets.setdefault(first, []).append(data)
        return {
            tuple(tiles): (first, max(self.spans[data][1] for data in tiles))
            for first, tiles in sorted(sets.items())
        }

    @property
    def products(self) -> list[S.Gemm]:
        """The products of an iteration."""
        return [stmt for stmt in self.stmts if isinstance(stmt, S.Gemm)]

    @property
    def trips(self) -> int | None:
        """The number of iterations, where it is known."""
        return trip_count(self.loop)


def bytes_of(region: Region) -> int:
    """Bytes of a region, as far as its extents are known."""
    extents = (extent for extent in region.extents if isinstance(extent, int))
    return prod(extents) * region.buffer.dtype.bits // 8
