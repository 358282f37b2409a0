"""Cross-tile prefetch: the producer copies the next tile's inputs while the current tile ends.

A persistent, warp-specialized block (its loop has the hint ``tiles``) may copy a tensor once per
tile, outside of the pipelined loop: the queries of attention. Without this pass the consumers issue
that copy and stall on memory. Here the copy becomes a pipeline of one stage. The producer fills it
for the next tile as soon as the consumers have read it for the last time in the current tile. They
still have products, a division and stores to do then::

    consumers                                producer
    for tile:                                for tile:
        Wait(n)                                  Acquire(n); copy; Commit(n)
        ... pipelined loop ...                   ... copies of the pipelined loop ...
        Release(n)
        ... statements that do not read the buffer ...

Conditions: TMA can make the copy, nothing else writes the buffer, and all reads follow the copy in
the same loop. The source coordinates may depend on the tile's number, but on nothing that the
kernel writes. The order is proved like that of every pipeline; where it cannot be, the copy stays
where it is.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.visitor import Rewriter, rewrite_blocks
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.schedule.buffer_versions import UseVersions, Version, use_region, versioned
from tilelang.transforms.schedule.legality import Facts, NotLegalError
from tilelang.transforms.schedule.tma_copies import TmaFacts
from tilelang.transforms.verify.schedule import refusal

BULK = MECHANISMS["bulk"]


def prefetch_across_tiles(launch: S.Launch, schedule: Schedule, facts: Facts) -> S.Launch:
    """``launch`` with a copy at the top of its tile loop moved to the producer."""
    loops = _loops(launch)
    for copy in () if loops is None else S.flat(loops[0].body):
        if isinstance(copy, S.Copy) and loops is not None:
            prefetched = _Prefetch(launch, loops, copy, facts.tma(launch)).launch()
            if prefetched is not None:
                return prefetched
    raise NotLegalError("no tile that is copied once can be copied by the producer")


def _loops(launch: S.Launch) -> tuple[S.For, S.For] | None:
    """The loops over tiles of consumers and of the producer, where two roles have one each."""
    roles = S.find(launch.body, H.Roles)
    branches = [branch for node in roles for branch in node.branches]
    loops = [
        [stmt for stmt in S.flat(role.body) if _is_tile_loop(stmt)]
        for role in branches if isinstance(role, H.Role)
    ]  # fmt: skip
    if len(roles) != 1 or len(loops) != 2 or any(len(of_role) != 1 for of_role in loops):
        return None
    first, second = (loop for (loop,) in loops if isinstance(loop, S.For))
    filling, other = (S.holds(loop, H.Acquire) for loop in (first, second))
    if filling is other or first.var is not second.var:
        return None
    return (second, first) if filling else (first, second)


def _is_tile_loop(stmt: S.Stmt) -> bool:
    return isinstance(stmt, S.For) and stmt.hints.tiles


class _Prefetch:
    """One copy of consumers that becomes the producer's."""

    def __init__(
        self, launch: S.Launch, loops: tuple[S.For, S.For], copy: S.Copy, facts: TmaFacts
    ) -> None:
        self.old, self.copy, self.facts = launch, copy, facts
        self.consumers, self.producer = loops
        self.tile = versioned(copy.dst.buffer, 1)
        self.pipe = E.Var("p", DType("handle"))
        self.first = E.Var("first", DType("int32"))

    def launch(self) -> S.Launch | None:
        """The launch with the copy in a pipeline; None where it does not qualify."""
        values = self.values()
        if values is None or not self.is_only_writer():
            return None
        zero = {self.copy.dst.buffer.data: Version(self.tile, E.const(0))}
        filling = replace(
            self.copy, dst=use_region(self.copy.dst, zero), mode=BULK.mode, barrier=self.pipe
        )
        if self.facts.refusal(self.copy, versions=True) is not None:
            return None
        result = _ReplaceStmts({
            id(self.consumers): replace(self.consumers, body=S.seq(*self.consumer_body())),
            id(self.producer): replace(
                self.producer, body=S.seq(*self.producer_body(filling, values))
            ),
        }, self.copy.dst.buffer).rewrite(self.old)  # fmt: skip
        result = UseVersions(zero).rewrite(result)
        assert isinstance(result, S.Launch)
        stmts = S.flat(result.body)
        at = next(k for k, stmt in enumerate(stmts) if isinstance(stmt, H.Pipeline))
        pipeline = H.Pipeline(
            pipe=self.pipe, stages=1, tiles=(self.tile.data,), mechanism=BULK.name,
            body=S.seq(*stmts[at:]), loc=self.copy.loc,
        )  # fmt: skip
        if refusal(pipeline) is not None:
            return None
        alloc = S.Alloc(buffer=self.tile, loc=self.copy.loc)
        return replace(result, body=S.seq(*stmts[:at], alloc, pipeline))

    def is_only_writer(self) -> bool:
        """Whether nothing but the copy writes the tile, and all that reads it follows the copy in
        the loop."""
        data, (copied, *uses) = self.copy.dst.buffer.data, self.use_indices()
        all_uses = [
            access for access in effects.accesses(self.old.body, nested=True)
            if access.data is data and access.mode != effects.NAME
        ]  # fmt: skip
        loop_uses = [
            access for k in uses
            for access in effects.accesses(S.flat(self.consumers.body)[k], nested=True)
            if access.data is data and access.mode != effects.NAME
        ]  # fmt: skip
        own_writes = [access for access in effects.accesses(self.copy) if access.data is data]
        in_loop = S.flat(self.consumers.body)[copied] is self.copy
        return (
            bool(uses) and self.copy.dst.is_whole and in_loop
            and len(all_uses) == len(loop_uses) + len(own_writes)
            and not any(use.writes for use in loop_uses)
        )  # fmt: skip

    def use_indices(self) -> list[int]:
        """Indices of the statements of the loop that access the tile."""
        data = self.copy.dst.buffer.data
        stmts = S.flat(self.consumers.body)
        return [k for k, stmt in enumerate(stmts) if data in effects.used(stmt)]

    def values(self) -> list[S.Let] | None:
        """The variables of the loop by which the copy says what it copies, those that the producer
        has left out; None where one depends on what the kernel writes."""
        in_producer = {stmt.var for stmt in S.flat(self.producer.body) if isinstance(stmt, S.Let)}
        needed = {var for expr in self.copy.src.mins for var in E.as_expr(expr).variables}
        if self.copy.src.buffer.data in self.facts.written:
            return None
        missing: list[S.Let] = []
        for stmt in reversed(S.flat(self.consumers.body)):
            if isinstance(stmt, S.Let) and stmt.var in needed:
                if not effects.is_steady(stmt.value, self.facts.written):
                    return None
                needed |= stmt.value.variables
                missing += [] if stmt.var in in_producer else [stmt]
        inner = {loop.var for loop in S.find(self.consumers.body, S.For)}
        return None if needed & inner else missing[::-1]

    def consumer_body(self) -> list[S.Stmt]:
        """The loop body of the consumers."""
        stmts, (copied, first, *more) = S.flat(self.consumers.body), self.use_indices()
        last = more[-1] if more else first
        wait = H.Wait(pipe=self.pipe, number=self.first, loc=self.copy.loc)
        inside = self.run(wait, *stmts[first:last], *self.with_release(stmts[last]))
        return [*stmts[:copied], *stmts[copied + 1 : first], inside, *stmts[last + 1 :]]

    def with_release(self, stmt: S.Stmt) -> list[S.Stmt]:
        """``stmt``, which reads the tile, and the release behind the last part of it that does."""
        parts, data = S.flat(stmt), self.copy.dst.buffer.data
        last = max(k for k, part in enumerate(parts) if data in effects.used(part))
        if isinstance(parts[last], H.Run):
            tail = [rewrite_blocks(parts[last], lambda body: S.seq(*self.with_release(body)))]
        else:
            release = H.Release(pipe=self.pipe, number=self.first, loc=self.copy.loc)
            tail = [parts[last], release]
        return [*parts[:last], *tail, *parts[last + 1 :]]

    def producer_body(self, filling: S.Copy, values: list[S.Let]) -> list[S.Stmt]:
        """The loop body of the producer."""
        stmts, loc = S.flat(self.producer.body), self.copy.loc
        at = next(k for k, stmt in enumerate(stmts) if not isinstance(stmt, (S.Let, S.Alloc)))
        rest = stmts[at:]
        # It contains runs of other pipelines where consumers have them.
        inside = rest if any(isinstance(node, H.Run) for node in self.reading_stmts()) else []
        acquire = H.Acquire(pipe=self.pipe, number=self.first, loc=loc)
        commit = H.Commit(pipe=self.pipe, number=self.first, loc=loc)
        run = self.run(acquire, filling, commit, *inside)
        return [*stmts[:at], *values, run, *(() if inside else rest)]

    def reading_stmts(self) -> tuple[S.Stmt, ...]:
        """The statements of consumers from the first to the last that reads the tile."""
        _, first, *more = self.use_indices()
        return S.flat(self.consumers.body)[first : (more[-1] if more else first) + 1]

    def run(self, *stmts: S.Stmt) -> S.Stmt:
        """``stmts`` as a run of one iteration of the pipeline."""
        count = E.const(1, self.first.dtype)
        return H.Run(
            pipe=self.pipe, first=self.first, count=count, body=S.seq(*stmts), loc=self.copy.loc
        )


class _ReplaceStmts(Rewriter):
    """Replaces statements, and removes the allocation of a tile."""

    def __init__(self, replacements: dict[int, S.Stmt], tile: Buffer) -> None:
        self.replacements, self.tile = replacements, tile

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if isinstance(stmt, S.Alloc) and stmt.buffer.data is self.tile.data:
            return []
        new = self.replacements.get(id(stmt))
        return super()._visit(stmt) if new is None else new
