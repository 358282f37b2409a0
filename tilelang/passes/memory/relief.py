"""Barriers by which tiles that are finished give their place to later ones.

Two tiles may overlap when all threads meet between the last use of one and the first of the other.
Where a kernel does not fit, barriers are tried in front of the statements that touch a tile for the
first time and at the ends of loops, wherever all threads come by; those that the plan needs stay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.uniform import Varying, varying_exit
from tilelang.passes.memory.liveness import is_planned


def relieved(launch: S.Launch, fits: Callable[[S.Launch], bool]) -> S.Launch | None:
    """``launch`` with the fewest barriers (no single one can go) with which it ``fits``; None if
    barriers do not help."""
    if any(isinstance(node, S.ThreadReturn) for node in S.walk(launch.body)):
        return None  # some threads may not come
    made, count = _with_barriers(launch, None)
    if not fits(made):
        return None
    kept = frozenset(range(count))
    for number in range(count):
        fewer, _ = _with_barriers(launch, kept - {number})
        if fits(fewer):
            kept, made = kept - {number}, fewer
    return made


def _with_barriers(launch: S.Launch, kept: frozenset[int] | None) -> tuple[S.Launch, int]:
    """``launch`` with the barriers numbered in ``kept`` (None: all), and how many there could
    be."""
    meet = _Meet(launch, kept)
    return replace(launch, body=meet.block(launch.body)), meet.count


class _Meet:
    def __init__(self, launch: S.Launch, kept: frozenset[int] | None) -> None:
        self.varying = Varying(launch, votes=True)
        self.tiles = {
            node.buffer.data
            for node in S.walk(launch.body)
            if isinstance(node, S.Alloc) and is_planned(node.buffer)
        }
        self.kept = kept
        self.seen: set[E.Var] = set()
        self.count = 0

    def block(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt``, which all threads run."""
        made: list[S.Stmt] = []
        for item in stmt.stmts if isinstance(stmt, S.Seq) else (stmt,):
            if self.seen and not self.seen.issuperset(self.used(item)):
                made += self.barrier(item)
            made.append(self.inside(item))
        return S.seq(*made)

    def inside(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with barriers in its blocks, where all threads take them together."""
        if isinstance(stmt, S.If) and not self.varying.expr(stmt.cond):
            then = self.block(stmt.then)
            orelse = None if stmt.orelse is None else self.block(stmt.orelse)
            return replace(stmt, then=then, orelse=orelse)
        if isinstance(stmt, S.Attr):
            return replace(stmt, body=self.block(stmt.body))
        if isinstance(stmt, S.Seq):
            return self.block(stmt)
        if isinstance(stmt, S.For) and self.together(stmt):
            body = self.block(stmt.body)
            return replace(stmt, body=S.seq(body, *self.barrier(stmt)))
        self.seen.update(self.used(stmt))
        return stmt

    def together(self, loop: S.For) -> bool:
        """Whether all threads run the same iterations of ``loop``, which uses several tiles."""
        bounds = (loop.start, loop.stop, loop.step)
        several = len(set(self.used(loop))) > 1
        return several and not (
            any(map(self.varying.expr, bounds)) or varying_exit(loop.body, self.varying)
        )

    def used(self, stmt: S.Stmt) -> Iterator[E.Var]:
        """The tiles that ``stmt`` touches with all that it holds."""
        for node in S.walk(stmt):
            if not isinstance(node, S.Alloc):
                yield from effects.used(node, nested=False) & self.tiles

    def barrier(self, near: S.Stmt) -> list[S.Stmt]:
        """The next barrier, if it is one of those that are kept."""
        number = self.count
        self.count += 1
        if self.kept is not None and number not in self.kept:
            return []
        return [S.Eval(value=E.call("sync_threads"), loc=near.loc)]
