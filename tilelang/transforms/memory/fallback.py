"""Shared-memory fallback: extra barriers let tiles reuse the memory of dead tiles.

Two tiles may overlap when a barrier separates the last use of one and the first use of the other.
Where a kernel does not fit, the pass inserts barriers before the first access of each tile and at
the ends of loops, wherever all threads of the block (or of a branch of whole warps that already has
barriers) arrive. It then removes the barriers that the plan does not need.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.memo import memoized
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import rewrite_blocks
from tilelang.transforms.analysis.groups import inverse
from tilelang.transforms.memory.liveness import is_planned

GroupOf: TypeAlias = "Callable[[E.Expr], tuple[int, int] | None]"


def with_fallback_barriers(
    launch: S.Launch, fits: Callable[[S.Launch], bool], group_of: GroupOf
) -> S.Launch | None:
    """``launch``, which does not fit, with the fewest barriers (no single one can go) with which it
    ``fits``; None if barriers do not help.

    Args:
        group_of: the threads that take a branch on a condition, if they are whole warps.
    """
    if S.holds(launch.body, S.ThreadReturn):
        return None  # some threads may not come
    candidates = _BarrierCandidates(launch, group_of)
    fitting = candidates.with_barriers(None)
    if not fits(fitting):
        return None
    needed = frozenset(range(candidates.count))
    ranges = _halves(needed)
    while ranges:  # few are needed: whole ranges go at once, from the first to the last
        numbers = ranges.pop()
        fewer = candidates.with_barriers(needed - numbers)
        if fits(fewer):
            needed, fitting = needed - numbers, fewer
        else:
            ranges += _halves(numbers)
    return fitting


def _halves(numbers: frozenset[int]) -> list[frozenset[int]]:
    """The higher and the lower half of several numbers."""
    if len(numbers) < 2:
        return []
    middle = sorted(numbers)[len(numbers) // 2]
    first = frozenset(number for number in numbers if number < middle)
    return [numbers - first, first]


class _BarrierCandidates:
    """Candidate positions of barriers in a launch, numbered in program order."""

    def __init__(self, launch: S.Launch, group_of: GroupOf) -> None:
        self.launch = launch
        self.group_of = group_of
        self.varying = Varying(launch, votes=True)
        self.tiles = {
            node.buffer.data for node in S.find(launch.body, S.Alloc) if is_planned(node.buffer)
        }
        self.needed: frozenset[int] | None = None
        self.count = 0

    def with_barriers(self, needed: frozenset[int] | None) -> S.Launch:
        """The launch with the barriers numbered in ``needed`` (None: all); ``count`` says how many
        there could be."""
        self.barrier_args: tuple[E.Expr, ...] = ()  # of the barrier of the current threads
        self.group: tuple[int, int] | None = None  # its threads, where not all of the block
        self.seen: set[E.Var] = set()
        self.needed, self.count = needed, 0
        return replace(self.launch, body=self.block(self.launch.body))

    def block(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt``, which all threads run."""
        result: list[S.Stmt] = []
        for inner in S.flat(stmt):
            if self.seen and not self.seen.issuperset(self.used(inner)):
                result += self.barrier(inner)
            result.append(self.inside(inner))
        return S.seq(*result)

    def inside(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with barriers in its blocks, where all threads take them together."""
        if isinstance(stmt, S.If) and self.varying.varies(stmt.cond) and not self.barrier_args:
            then = self.branch(stmt.cond, stmt.then)
            orelse = stmt.orelse and self.branch(inverse(stmt.cond), stmt.orelse)
            return replace(stmt, then=then, orelse=orelse)
        if isinstance(stmt, S.If) and (  # or the current threads are those that take it
            not self.varying.varies(stmt.cond) or self.group == self.group_of(stmt.cond) is not None
        ):
            return rewrite_blocks(stmt, self.block)
        if isinstance(stmt, S.Seq):
            return self.block(stmt)
        if isinstance(stmt, S.For) and len(self.used(stmt)) > 1 and not self.varying.divides(stmt):
            return replace(stmt, body=S.seq(self.block(stmt.body), *self.barrier(stmt)))
        self.seen.update(self.used(stmt))
        return stmt

    def branch(self, cond: E.Expr, stmt: S.Stmt) -> S.Stmt:
        """One side of a branch on the thread, with barriers if whole warps take it."""
        group = self.group_of(cond)
        before = set(self.seen)
        self.seen.update(self.used(stmt))
        barrier_args = None if group is None else _group_barrier(stmt, group[1])
        if barrier_args is None:
            return stmt
        after, self.seen = self.seen, before
        self.barrier_args, self.group = barrier_args, group
        stmt = self.block(stmt)
        self.barrier_args, self.group, self.seen = (), None, self.seen | after
        return stmt

    @memoized
    def used(self, stmt: S.Stmt) -> frozenset[E.Var]:
        """The tiles that ``stmt`` touches with all that it holds."""
        direct = set() if isinstance(stmt, S.Alloc) else effects.used(stmt, nested=False)
        return frozenset(direct & self.tiles).union(*map(self.used, stmt.blocks()))

    def barrier(self, before: S.Stmt) -> list[S.Stmt]:
        """The next barrier, if it is one of those that are needed."""
        number = self.count
        self.count += 1
        if self.needed is not None and number not in self.needed:
            return []
        return [S.do("sync_threads", *self.barrier_args, loc=before.loc)]


def _group_barrier(stmt: S.Stmt, count: int) -> tuple[E.Expr, ...] | None:
    """The arguments of a barrier of ``count`` threads in ``stmt``."""
    for node in S.walk(stmt):
        call = node.call
        if call is not None and call.atom.is_barrier("block") and len(call.args) == 2:
            if isinstance(call.args[1], E.Const) and int(call.args[1]) == count:
                return call.args
    return None
