"""Lane election: a thread that copies for a block is the one that its warp elects.

Instructions of TMA take their operands from registers of a warp. Behind a condition on
the number of a thread the assembler does not know that one lane is there alone: each copy gets a
loop over the lanes that might be. Behind `elect.sync` (PTX, "elect.sync") there is none, and a
producer fills a stage again sooner.

The rule: the branch of one thread, the first of a warp that comes there whole, is the last that its
warp does and has a loop of copies of boxes; if all lanes took it, all would do the same. So any of
them may, and nothing that it leaves in registers is read later.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import Rewriter, rewrite_launches
from tilelang.target import Context, operations
from tilelang.transforms.analysis.groups import Mask, thread_mask, thread_number
from tilelang.transforms.analysis.loops import UNROLLED

_COPIES = (operations.TMA_LOAD_BOX, operations.TMA_LOAD_PIXELS)


def elect_lanes(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with producers of one thread that their warps elect."""
    if not context.has("elect") or not context.has("tma"):
        return func
    return rewrite_launches(func, lambda launch: _Elected(launch, context.limits.warp).launch())


class _Elected:
    """One launch; masks are of the threads that come to a statement."""

    def __init__(self, given: S.Launch, warp: int) -> None:
        self.given = given
        self.warp = warp

    def launch(self) -> S.Launch:
        """The launch with elected threads."""
        x, y, z = self.given.threads
        body = self.last(self.given.body, np.ones(x * y * z, np.bool_))
        return self.given if body is self.given.body else replace(self.given, body=body)

    def last(self, stmt: S.Stmt, mask: Mask) -> S.Stmt:
        """``stmt``, the last that the threads of ``mask`` do."""
        if isinstance(stmt, S.Seq) and stmt.stmts:
            tail = self.last(stmt.stmts[-1], mask)
            return stmt if tail is stmt.stmts[-1] else S.seq(*stmt.stmts[:-1], tail)
        taken = thread_mask(stmt.cond, self.given) if isinstance(stmt, S.If) else None
        if taken is None:
            return stmt
        assert isinstance(stmt, S.If)
        elected = self.elected(stmt, mask, mask & taken)
        if elected is not None:
            return elected
        then, orelse = self.last(stmt.then, mask & taken), stmt.orelse
        orelse = None if orelse is None else self.last(orelse, mask & ~taken)
        same = then is stmt.then and orelse is stmt.orelse
        return stmt if same else replace(stmt, then=then, orelse=orelse)

    def elected(self, stmt: S.If, mask: Mask, taken: Mask) -> S.If | None:
        """The rule, for a branch that the threads ``taken`` of ``mask`` take; None elsewhere."""
        if stmt.orelse is not None or taken.sum() != 1 or not _copies(stmt.then):
            return None
        first = int(np.flatnonzero(taken)[0])
        lanes = slice(first, first + self.warp)
        if first % self.warp or not mask[lanes].all():
            return None
        alone = _Seen(self.given, slice(first, first + 1)).rewrite(stmt.then)
        seen = _Seen(self.given, lanes, (stmt, alone)).rewrite(self.given.body)
        if Varying(replace(self.given, body=seen)).touches(alone):
            return None
        own_warp = (thread_number(self.given) // self.warp).equal(first // self.warp)
        return replace(
            stmt, cond=E.binary("land", own_warp, E.call(operations.ELECT_ONE)), then=alone
        )


def _copies(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` has a loop of copies of boxes."""
    return any(
        call.atom in _COPIES
        for loop in S.find(stmt, S.For)
        if loop.kind not in UNROLLED
        for call in S.calls(loop)
    )


class _Seen(Rewriter):
    """What the threads ``lanes`` do, if all of them do ``instead`` of a branch what stands beside
    it."""

    def __init__(
        self, launch: S.Launch, lanes: slice, instead: tuple[S.If, S.Stmt] | None = None
    ) -> None:
        self.launch = launch
        self.lanes = lanes
        self.instead = instead

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if not isinstance(stmt, S.If):
            return super()._visit(stmt)
        if self.instead is not None and stmt is self.instead[0]:
            return self.instead[1]
        taken = thread_mask(stmt.cond, self.launch)
        if taken is None or taken[self.lanes].any() != taken[self.lanes].all():
            return super()._visit(stmt)
        side = stmt.then if taken[self.lanes].all() else stmt.orelse
        return [] if side is None else super()._visit(side)
