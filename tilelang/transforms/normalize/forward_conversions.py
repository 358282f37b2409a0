"""Forward copies that convert: no shared tile between global memory and registers."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.visitor import map_stmts, without_allocations
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.rules import Cursor, rule


@rule(S.Launch, needs="simt")
def forward_conversions(launch: S.Launch, cursor: Cursor) -> S.Launch:
    """Load tiles that change their type on the way to registers without a shared tile in between.

    Threads make such copies: no unit can copy ahead what it has to convert. Where a shared tile
    only passes elements on, from one copy to the next, the second copy reads the source of the
    first, and two barriers are gone. Products read operands in layouts of their own, for which
    shared memory is the way.
    """
    uses: dict[E.Var, list[S.Stmt]] = {
        buffer.data: [launch] for buffer, _ in launch.hints.layout_map
    }
    for stmt in S.walk(launch.body):
        for data in () if isinstance(stmt, S.Alloc) else effects.used(stmt, nested=False):
            uses.setdefault(data, []).append(stmt)
    gone: set[E.Var] = set()

    def forwarded(seq: S.Seq) -> S.Stmt:
        stmts = list(seq.stmts)
        for at, (first, then) in enumerate(pairwise(stmts)):
            if _passes_on(first, then, uses):
                assert isinstance(first, S.Copy) and isinstance(then, S.Copy)
                gone.add(first.dst.buffer.data)
                stmts[at : at + 2] = [S.seq(), replace(then, src=first.src)]
        return seq if stmts == list(seq.stmts) else S.seq(*stmts)

    body = map_stmts(launch.body, S.Seq, forwarded)
    return launch.with_body(without_allocations(body, gone)) if gone else launch


def _passes_on(first: S.Stmt, then: S.Stmt, uses: dict[E.Var, list[S.Stmt]]) -> bool:
    """Whether ``first`` converts a tile that only ``then`` reads, into registers."""
    if not (isinstance(first, S.Copy) and isinstance(then, S.Copy)):
        return False
    tile, held = first.dst.buffer, then.dst.buffer
    return (
        first.mode == then.mode == "copy"
        and not first.hints and not then.hints
        and first.src.buffer.storage == "global" and tile.storage.startswith("shared")
        and held.storage == FRAGMENT and then.src.buffer is tile
        and first.dst.is_whole and then.src.is_whole and then.dst.is_whole
        and first.src.dtype != tile.dtype == held.dtype
        and uses[tile.data] == [first, then]
        and not any(isinstance(stmt, S.Gemm) for stmt in uses[held.data])
    )  # fmt: skip
