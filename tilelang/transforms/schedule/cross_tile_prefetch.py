"""What a tile of a grid needs once is copied ahead by the producer, while the tile before ends.

A block that computes tile after tile by roles (``TILES``) may copy something at the top of each
that no pipelined loop does: the queries of attention. Consumers issued that copy and waited for
memory with nothing beside it. Here it is an item of a pipeline of its own with one version: the
producer fills it for the next tile as soon as consumers have read it for the last time in this one,
which still have products, a division and stores before them::

    consumers                                producer
    for tile:                                for tile:
        Wait(item)                               Acquire(item); copy; Commit(item)
        ... pipelined loop ...                   ... copies of the pipelined loop ...
        Release(item)
        ... what does not read the tile ...

Done where the copy unit can make the copy, nothing else writes the tile, and all that reads it
stands in the same loop behind it; the place that is copied may depend on the tile's number and on
nothing that the kernel writes. The order is proved as that of every pipeline; where it cannot be,
the copy stays where it is.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.visitor import Rewriter, rewrite_blocks, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.analysis.tma import TILES
from tilelang.transforms.schedule.buffer_versions import UseVersions, Version, use_region, versioned
from tilelang.transforms.schedule.tma_copies import TmaFacts, host_tensors
from tilelang.transforms.verify.schedule import refusal

BULK = MECHANISMS["bulk"]


def prefetch_across_tiles(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with copies at the top of loops over tiles made by the producer."""
    if context.options.no_overlap or not all(map(context.has, BULK.needs)):
        return func
    known = host_tensors(func)

    def ahead(launch: S.Launch) -> S.Stmt:
        found = _loops(launch)
        if found is None:
            return launch
        for copy in (item for item in S.flat(found[0].body) if isinstance(item, S.Copy)):
            made = _Ahead(launch, found, copy, TmaFacts(launch, known, context)).launch()
            if made is not None:
                return made
        return launch

    return rewrite_launches(func, ahead)


def _loops(launch: S.Launch) -> tuple[S.For, S.For] | None:
    """The loops over tiles of consumers and of the producer, where two roles have one each."""
    roles = S.find(launch.body, H.Roles)
    branches = [branch for node in roles for branch in node.branches]
    loops = [
        [item for item in S.flat(role.body) if _over_tiles(item)]
        for role in branches if isinstance(role, H.Role)
    ]  # fmt: skip
    if len(roles) != 1 or len(loops) != 2 or any(len(found) != 1 for found in loops):
        return None
    first, second = (found for (found,) in loops if isinstance(found, S.For))
    filling, other = (S.holds(loop, H.Acquire) for loop in (first, second))
    if filling is other or first.var is not second.var:
        return None
    return (second, first) if filling else (first, second)


def _over_tiles(stmt: S.Stmt) -> bool:
    return isinstance(stmt, S.For) and TILES in dict(stmt.annotations)


class _Ahead:
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
        if values is None or not self.is_alone():
            return None
        zero = {self.copy.dst.buffer.data: Version(self.tile, E.const(0))}
        filling = replace(
            self.copy, dst=use_region(self.copy.dst, zero), mode=BULK.mode, barrier=self.pipe
        )
        if self.facts.refusal(self.copy, versions=True) is not None:
            return None
        made = _Put({
            id(self.consumers): replace(self.consumers, body=S.seq(*self.used())),
            id(self.producer): replace(self.producer, body=S.seq(*self.filled(filling, values))),
        }, self.copy.dst.buffer).rewrite(self.old)  # fmt: skip
        made = UseVersions(zero).rewrite(made)
        assert isinstance(made, S.Launch)
        items = S.flat(made.body)
        at = next(k for k, item in enumerate(items) if isinstance(item, H.Pipeline))
        pipeline = H.Pipeline(
            pipe=self.pipe, stages=1, tiles=(self.tile.data,), mechanism=BULK.name,
            body=S.seq(*items[at:]), loc=self.copy.loc,
        )  # fmt: skip
        if refusal(pipeline) is not None:
            return None
        alloc = S.Alloc(buffer=self.tile, loc=self.copy.loc)
        return replace(made, body=S.seq(*items[:at], alloc, pipeline))

    def is_alone(self) -> bool:
        """Whether nothing but the copy writes the tile, and all that reads it follows the copy in
        the loop."""
        data, (copied, *uses) = self.copy.dst.buffer.data, self.places()
        named = [
            access for access in effects.accesses(self.old.body, nested=True)
            if access.data is data and access.mode != effects.NAME
        ]  # fmt: skip
        inside = [
            access for k in uses
            for access in effects.accesses(S.flat(self.consumers.body)[k], nested=True)
            if access.data is data and access.mode != effects.NAME
        ]  # fmt: skip
        mine = [access for access in effects.accesses(self.copy) if access.data is data]
        here = S.flat(self.consumers.body)[copied] is self.copy
        return (
            bool(uses) and self.copy.dst.is_whole and here
            and len(named) == len(inside) + len(mine) and not any(use.writes for use in inside)
        )  # fmt: skip

    def places(self) -> list[int]:
        """The statements of the loop that touch the tile."""
        data = self.copy.dst.buffer.data
        items = S.flat(self.consumers.body)
        return [k for k, item in enumerate(items) if data in effects.used(item)]

    def values(self) -> list[S.Let] | None:
        """The variables of the loop by which the copy says what it copies, those that the producer
        has left out; None where one depends on what the kernel writes."""
        there = {item.var for item in S.flat(self.producer.body) if isinstance(item, S.Let)}
        needed = {var for expr in self.copy.src.mins for var in E.as_expr(expr).variables}
        if self.copy.src.buffer.data in self.facts.written:
            return None
        found: list[S.Let] = []
        for item in reversed(S.flat(self.consumers.body)):
            if isinstance(item, S.Let) and item.var in needed:
                if not effects.is_steady(item.value, self.facts.written):
                    return None
                needed |= item.value.variables
                found += [] if item.var in there else [item]
        inner = {loop.var for loop in S.find(self.consumers.body, S.For)}
        return None if needed & inner else found[::-1]

    def used(self) -> list[S.Stmt]:
        """What consumers do for a tile."""
        items, (copied, first, *more) = S.flat(self.consumers.body), self.places()
        last = more[-1] if more else first
        wait = H.Wait(pipe=self.pipe, number=self.first, loc=self.copy.loc)
        inside = self.run(wait, *items[first:last], *self.released(items[last]))
        return [*items[:copied], *items[copied + 1 : first], inside, *items[last + 1 :]]

    def released(self, stmt: S.Stmt) -> list[S.Stmt]:
        """``stmt``, which reads the tile, and the release behind the last part of it that does."""
        items, data = S.flat(stmt), self.copy.dst.buffer.data
        last = max(k for k, item in enumerate(items) if data in effects.used(item))
        if isinstance(items[last], H.Run):
            found = [rewrite_blocks(items[last], lambda body: S.seq(*self.released(body)))]
        else:
            release = H.Release(pipe=self.pipe, number=self.first, loc=self.copy.loc)
            found = [items[last], release]
        return [*items[:last], *found, *items[last + 1 :]]

    def filled(self, filling: S.Copy, values: list[S.Let]) -> list[S.Stmt]:
        """What the producer does for a tile."""
        items, loc = S.flat(self.producer.body), self.copy.loc
        at = next(k for k, item in enumerate(items) if not isinstance(item, (S.Let, S.Alloc)))
        rest = items[at:]
        # Runs of other pipelines stand in it where consumers have them.
        inside = rest if any(isinstance(node, H.Run) for node in self.reading()) else []
        acquire = H.Acquire(pipe=self.pipe, number=self.first, loc=loc)
        commit = H.Commit(pipe=self.pipe, number=self.first, loc=loc)
        made = self.run(acquire, filling, commit, *inside)
        return [*items[:at], *values, made, *(() if inside else rest)]

    def reading(self) -> tuple[S.Stmt, ...]:
        """The statements of consumers from the first to the last that reads the tile."""
        _, first, *more = self.places()
        return S.flat(self.consumers.body)[first : (more[-1] if more else first) + 1]

    def run(self, *items: S.Stmt) -> S.Stmt:
        """``items``, which hand on one item."""
        count = E.const(1, self.first.dtype)
        return H.Run(
            pipe=self.pipe, first=self.first, count=count, body=S.seq(*items), loc=self.copy.loc
        )


class _Put(Rewriter):
    """Puts statements in the place of others, and takes the allocation of a tile away."""

    def __init__(self, made: dict[int, S.Stmt], tile: Buffer) -> None:
        self.made, self.tile = made, tile

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if isinstance(stmt, S.Alloc) and stmt.buffer.data is self.tile.data:
            return []
        found = self.made.get(id(stmt))
        return super()._visit(stmt) if found is None else found
