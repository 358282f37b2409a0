"""The order that a pipeline promises, proved or refused.

What a ``Pipeline`` does to its tiles is read off as a skeleton (see ``timeline``): items relative
to the iteration, versions, the conditions under which items exist. The skeleton is run under the
mechanism of the pipeline. Of a pipeline that is run repeatedly, all threads come to its runs under
the same loops and conditions, which see the same values. What cannot be read, or may go wrong, is
refused with the reason.

Where all threads use its items, barriers of the block in the statements around order them, too.

Relied on: a pointer to an element of a version stays within that version, and copies into tiles
have the mode of the mechanism.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region, same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.effects import NAME, Access, accesses, is_steady, written
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass
from tilelang.transforms.analysis.groups import inverse
from tilelang.transforms.analysis.loops import trip_count, trips
from tilelang.transforms.analysis.mechanism import MECHANISMS, Step
from tilelang.transforms.verify.timeline import (
    Act,
    Branch,
    Event,
    Item,
    Program,
    Skeleton,
    Touch,
    hazard,
)

Conds = tuple[E.Expr, ...]
_LEAVE = (S.Break, S.Continue, S.ThreadReturn)
# The loop of runs that hand on one item without one.
_ONCE = S.For(
    var=E.Var("once", DType("int32")), start=E.const(0), stop=E.const(1), step=E.const(1),
    body=S.seq(),
)  # fmt: skip


def refusal(pipeline: H.Pipeline, others: Mapping[E.Expr, str] | None = None) -> str | None:
    """Why the order of ``pipeline`` is not certain, None if it is. ``others``: mechanisms of the
    pipelines around and in it, whose waits may be meetings of the block."""
    reader = _Reader(pipeline, others or {})
    try:
        found = hazard(reader.skeleton())
    except _UnknownError as why:
        return str(why)
    return None if found is None else found.format(*reader.names)


def refused(stmt: S.Stmt) -> bool:
    """Whether the order of some pipeline in ``stmt`` is not certain."""
    return any(refusal(node) is not None for node in S.find(stmt, H.Pipeline))


class _UnknownError(Exception):
    """What cannot be read; caught by :func:`refusal`."""


@dataclass
class _Loop:
    """The loop of a program; ``number``: that of the iteration."""

    stmt: S.For
    number: Linear

    @classmethod
    def of(cls, stmt: S.For) -> _Loop:
        """``stmt``, if its step is known."""
        if not isinstance(stmt.step, E.Const) or not int(stmt.step):
            raise _UnknownError("the step of its loop is not a constant")
        past = stmt.var - stmt.start
        one = int(stmt.step) == 1
        return cls(stmt, Linear.of(simplify(past if one else past // stmt.step)))

    def at(self, item: Item) -> E.Expr:
        """The loop variable in the iteration that uses ``item``."""
        first = self.stmt.var if item.moving else self.stmt.start
        return simplify(first + self.stmt.step * item.offset)

    def exists(self, item: Item) -> E.Expr:
        """Whether there is an iteration for ``item``."""
        at, stop = self.at(item), self.stmt.stop
        return simplify(at < stop if int(self.stmt.step) > 0 else at > stop)


@dataclass
class _Reader:
    """Reads one pipeline."""

    pipeline: H.Pipeline
    others: Mapping[E.Expr, str]
    names: list[str] = field(default_factory=list)
    lets: dict[E.Var, E.Expr] = field(default_factory=dict)
    copied: list[tuple[int, Item, Conds]] = field(default_factory=list)
    read: list[tuple[int, Conds]] = field(default_factory=list)
    boxes: dict[tuple[object, ...], int] = field(default_factory=dict)  # parts of versions

    def __post_init__(self) -> None:
        self.tiles = {data: k for k, data in enumerate(self.pipeline.tiles)}
        self.names += (data.name for data in self.pipeline.tiles)
        self.row = MECHANISMS[self.pipeline.mechanism]
        self.loop: _Loop | None = None
        self.base: E.Var | None = None  # the number of the first item of the run being read
        self.together = True  # all threads of the block do the same

    def skeleton(self) -> Skeleton:
        """The pipeline without values."""
        body = self.pipeline.body
        while isinstance(body, H.Pipeline) or (isinstance(body, H.Run) and not self.is_mine(body)):
            body = body.body
        roles = [node for node in S.flat(body) if isinstance(node, H.Roles)]
        rest, bodies = _shared_out(body)
        if len(roles) > 1 or (roles and any(map(self.orders, rest))):
            raise _UnknownError("roles and other threads share it")
        if roles:
            for block in (*rest, *(block for block in bodies if not self.orders(block))):
                self.unused(block)
            bodies = [block for block in bodies if self.orders(block)]
            self.together = False
        else:
            bodies = [body]
        repeated = any(isinstance(node, H.Run) and self.is_mine(node) for node in S.walk(body))
        loops: list[S.For] = []
        ways: list[tuple[object, ...]] = []
        programs: list[Program] = []
        for block in bodies:
            self.lets = {}
            way: list[object] = []
            if repeated:
                block = self.run(block, way, by_roles=bool(roles))
            programs.append(self.program(block, loops))
            ways.append((*way, loops[-1].start, loops[-1].stop, loops[-1].step))
        if any(way != ways[0] for way in ways):
            raise _UnknownError("its roles run different numbers of iterations")
        trips = trip_count(loops[0])
        return Skeleton(self.pipeline.stages, self.row.name, trips, tuple(programs), repeated)

    # -- runs ----------------------------------------------------------------------------------
    def run(self, block: S.Stmt, way: list[object], by_roles: bool) -> S.Stmt:
        """The body of the run in ``block``; ``way``: the loops and conditions around it."""
        inside = [item for item in S.flat(block) if self.orders(item)]
        if len(inside) != 1:
            raise _UnknownError("not one run of it stands in a block")
        for item in S.flat(block):
            if item is not inside[0]:
                self.unused(item)
            if isinstance(item, S.Let):
                self.lets[item.var] = substitute(item.value, self.lets)
        (stmt,) = inside
        if isinstance(stmt, H.Run) and self.is_mine(stmt):
            return self.counted(stmt)
        if isinstance(stmt, (S.For, S.While, S.If)):
            exprs = [substitute(expr, self.lets) for expr in stmt.exprs()]
            if by_roles and not all(map(self.is_steady, exprs)):
                raise _UnknownError("its roles may see different values of what is around it")
            way += (type(stmt), *exprs, *stmt.parts("var"))
        elif not isinstance(stmt, (S.Attr, H.Pipeline, H.Run)):
            raise _UnknownError(f"a run of it stands in a {type(stmt).__name__}")
        if by_roles and S.holds(stmt, *_LEAVE):
            raise _UnknownError("its roles may leave what is around it at different times")
        blocks = stmt.blocks()
        side, *other = (k for k, inner in enumerate(blocks) if self.orders(inner))
        if other:
            raise _UnknownError("branches of different threads share it")
        for k, inner in enumerate(blocks):
            if k != side:
                self.unused(inner)
        way.append(side)
        return self.run(blocks[side], way, by_roles)

    def counted(self, run: H.Run) -> S.Stmt:
        """The body of ``run``, whose count is that of its loop's iterations."""
        self.base, body = run.first, run.body
        while isinstance(body, H.Run):
            body = body.body
        loops = [item for item in S.flat(body) if isinstance(item, S.For) and self.orders(item)]
        if not loops and simplify(run.count).equal(1) is E.const(True):
            return body
        if any(simplify(run.count) is trips(loop) for loop in loops):
            return body
        raise _UnknownError("a run of it counts other items than those of its loop")

    def unused(self, stmt: S.Stmt) -> None:
        """Refuse ``stmt`` if it touches tiles: it stands outside of the runs."""
        for access in accesses(stmt, nested=True):
            if access.data in self.tiles and access.mode != NAME:
                name = self.names[self.tiles[access.data]]
                raise _UnknownError(f"`{name}` is used where the pipeline does not run")

    def is_steady(self, expr: E.Expr) -> bool:
        """Whether all threads see the same value of ``expr``, whenever they come to it."""
        return is_steady(expr, self.written)

    @cached_property
    def written(self) -> set[E.Var]:
        """The storage that something in the pipeline writes."""
        return written(self.pipeline.body)

    def is_mine(self, node: H.Run | H.PipelineStep) -> bool:
        """Whether it is of this pipeline."""
        return node.pipe is self.pipeline.pipe

    def program(self, block: S.Stmt, loops: list[S.For]) -> Program:
        """What one group of threads does."""
        items = S.flat(block)
        spots = [k for k, item in enumerate(items) if isinstance(item, S.For) and self.orders(item)]
        if not spots and self.base is not None:
            self.loop = _Loop.of(_ONCE)
            loops.append(_ONCE)
            return Program((), self.events(items), ())
        if len(spots) != 1:
            raise _UnknownError("not one loop uses its items")
        (spot,), loop = spots, items[spots[0]]
        assert isinstance(loop, S.For)
        loops.append(loop)
        self.loop = _Loop.of(loop)
        before = self.events(items[:spot])
        body = self.events(S.flat(loop.body))
        program = Program(before, body, self.events(items[spot + 1 :]))
        self.check_conditions(self.loop)
        return program

    def orders(self, stmt: S.Stmt) -> bool:
        """Whether steps of the pipeline stand in ``stmt``."""
        return any(
            isinstance(node, (H.PipelineStep, H.Run)) and self.is_mine(node)
            for node in S.walk(stmt)
        )

    # -- events --------------------------------------------------------------------------------
    def events(self, stmts: tuple[S.Stmt, ...]) -> tuple[Event, ...]:
        """The events of statements in order."""
        found: list[Event] = []
        for stmt in stmts:
            if isinstance(stmt, H.PipelineStep) and self.is_mine(stmt):
                ahead = stmt.ahead if isinstance(stmt, H.Wait) else 0
                found.append(Act(type(stmt).__name__.lower(), self.item(stmt.number), ahead))
            elif self.together and self.meets(stmt):
                found.append(Act("meet", Item(0, moving=False)))
            elif not self.orders(stmt):
                found += self.touches(stmt, ())
            elif isinstance(stmt, S.If):
                found.append(self.branch(stmt))
            elif isinstance(stmt, H.Run) and not self.is_mine(stmt):
                found += self.events(S.flat(stmt.body))
            else:
                raise _UnknownError(f"a step of it stands in a {type(stmt).__name__}")
        return tuple(found)

    def meets(self, stmt: S.Stmt) -> bool:
        """Whether all threads of the block meet at ``stmt``."""
        if isinstance(stmt, H.Wait) and stmt.pipe in self.others:
            return Step.MEET in MECHANISMS[self.others[stmt.pipe]].wait
        return meets_block(stmt)

    def branch(self, stmt: S.If) -> Branch:
        """Steps that are taken where an item exists."""
        then = self.events(S.flat(stmt.then))
        named = [
            Item(event.item.offset + event.ahead, event.item.moving)
            for event in then
            if isinstance(event, Act) and event.kind != "commit"
        ]
        if not named or self.known().exists(named[0]) is not stmt.cond:
            raise _UnknownError("a step of it stands under a condition that is not that of an item")
        orelse = () if stmt.orelse is None else self.events(S.flat(stmt.orelse))
        return Branch(named[0], then, orelse)

    def known(self) -> _Loop:
        """The loop of the program being read."""
        assert self.loop is not None
        return self.loop

    def item(self, number: E.Expr) -> Item:
        """The item ``number``, relative to the iteration."""
        form = Linear.of(substitute(number, self.lets))
        if self.base is not None:
            form = form.added(Linear.of(self.base), -1)
        if not form.terms:
            return Item(form.constant, moving=False)
        past = form.added(self.known().number, -1)
        if past.terms:
            raise _UnknownError(f"the item {number!r} is not a certain distance ahead")
        return Item(past.constant)

    # -- accesses ------------------------------------------------------------------------------
    def touches(self, stmt: S.Stmt, conds: Conds) -> Iterator[Touch]:
        """Accesses of the tiles in ``stmt``, which holds no steps, under ``conds``."""
        if isinstance(stmt, S.Let):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        for access in accesses(stmt):
            if access.data in self.tiles and not isinstance(stmt, S.Alloc):
                yield self.touch(access, stmt, conds)
        if isinstance(stmt, S.If):
            cond = simplify(substitute(stmt.cond, self.lets))
            yield from self.touches(stmt.then, (*conds, cond))
            if stmt.orelse is not None:
                yield from self.touches(stmt.orelse, (*conds, inverse(cond)))
            return
        for block in stmt.blocks():
            for event in self.touches(block, conds):
                if event.kind == "copy" and not isinstance(stmt, S.Seq):
                    raise _UnknownError(f"a loop copies to `{self.names[event.tile]}`")
                yield event

    def touch(self, access: Access, stmt: S.Stmt, conds: Conds) -> Touch:
        """One access of a tile."""
        tile = self.tiles[access.data]
        one = not isinstance(access.where, Region) or same_extent(access.where.extents[0], 1)
        item, modulus = self.version(access.indices[0]) if one else (None, 0)
        if item is None or not isinstance(access.buffer.shape[0], int):
            raise _UnknownError(f"which version of `{self.names[tile]}` is used is not certain")
        if access.buffer.shape[0] < modulus:
            raise _UnknownError(f"`{self.names[tile]}` has {access.buffer.shape[0]} versions only")
        if not access.writes:
            self.read.append((tile, conds))
            return Touch("read", tile, item, modulus)
        if isinstance(stmt, S.Copy) and stmt.mode == self.row.mode and not access.reads:
            self.copied.append((tile, item, conds))
            box = (*map(id, stmt.dst.mins[1:]), *map(str, stmt.dst.extents[1:]))
            return Touch("copy", tile, item, modulus, self.boxes.setdefault(box, len(self.boxes)))
        return Touch("write", tile, item, modulus)

    def version(self, index: E.Expr) -> tuple[Item | None, int]:
        """The item and the modulus of an index of versions."""
        index = substitute(index, self.lets)
        alone = self.base is None or self.pipeline.stages == 1  # else an item has any version
        if isinstance(index, E.Const) and int(index) >= 0 and alone:
            return Item(int(index), moving=False), int(index) + 1
        if isinstance(index, E.Binary) and index.op == "floormod" and isinstance(index.b, E.Const):
            return self.item(index.a), int(index.b)
        return None, 0

    def check_conditions(self, loop: _Loop) -> None:
        """What is copied under a condition is read under it only."""
        for tile, item, conds in self.copied:
            if conds and Step.EXPECT in self.row.commit:
                raise _UnknownError(
                    f"bytes of `{self.names[tile]}` are announced that may not come"
                )
            for other, given in self.read if conds else ():
                then = {
                    simplify(substitute(cond, {loop.stmt.var: loop.at(item)})) for cond in given
                }
                if other == tile and not then.issuperset(conds):
                    name = self.names[tile]
                    raise _UnknownError(f"`{name}` may be read where it has not been copied")


def _shared_out(body: S.Stmt) -> tuple[list[S.Stmt], list[S.Stmt]]:
    """What stands beside roles in ``body``, and what each role does, whose own roles may share that
    out again."""
    rest: list[S.Stmt] = []
    found: list[S.Stmt] = []
    for node in S.flat(body):
        if not isinstance(node, H.Roles):
            rest.append(node)
            continue
        for role in node.branches:
            assert isinstance(role, H.Role)
            beside, inner = _shared_out(role.body)
            rest += beside if inner else []
            found += inner or [role.body]
    return rest, found


def meets_block(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a barrier of all threads of the block."""
    call = stmt.call
    return call is not None and call.atom.meets("block") and not call.args
