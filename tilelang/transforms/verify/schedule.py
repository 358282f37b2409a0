"""Pipeline verifier: proves the synchronization of a pipeline, or refuses it.

The accesses of a ``Pipeline`` are extracted as a skeleton (see ``timeline``): iterations relative
to the current one, versions, and conditions. The skeleton is simulated under the mechanism of the
pipeline. For a pipeline with several runs, all threads must reach the runs under the same loops and
conditions with the same values. A pipeline whose skeleton cannot be extracted, or whose order is
not proved, is rejected with the reason.

Where all threads use the stages, block barriers in the enclosing statements count, too.

The proof assumes that a pointer to an element of a version stays within that version, and that
copies into tiles use the mechanism of the pipeline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field
from functools import cached_property

from tilelang.ir import expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Region, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.effects import NAME, Access, accesses, is_steady, written
from tilelang.ir.linear import Linear
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass
from tilelang.transforms.analysis.groups import inverse
from tilelang.transforms.analysis.loops import trip_count, trips
from tilelang.transforms.analysis.mechanism import MECHANISMS, Step
from tilelang.transforms.verify import timeline

Conds = tuple[E.Expr, ...]
# The loop of runs of one iteration without a loop.
_ONCE = S.counted(E.Var("once", DType("int32")), 1, S.seq())


def refusal(pipeline: H.Pipeline, others: Mapping[E.Expr, str] | None = None) -> str | None:
    """Why the order of ``pipeline`` is not certain, None if it is. ``others``: mechanisms of the
    pipelines around and in it, whose waits may be barriers of the block."""
    reader = _Reader(pipeline, others or {})
    try:
        message = timeline.hazard(reader.skeleton())
    except _UnknownError as why:
        return str(why)
    return None if message is None else message.format(*reader.names)


def is_uncertain(stmt: S.Stmt) -> bool:
    """Whether the order of some pipeline in ``stmt`` is not certain."""
    return any(refusal(node) is not None for node in S.find(stmt, H.Pipeline))


class _UnknownError(Exception):
    """A form that cannot be analysed; caught by :func:`refusal`."""


@dataclass
class _Loop:
    """The loop of a program; ``number``: that of the iteration."""

    stmt: S.For
    number: E.Expr

    @classmethod
    def of(cls, stmt: S.For) -> _Loop:
        """``stmt``, if its step is known."""
        if not isinstance(stmt.step, E.Const) or not int(stmt.step):
            raise _UnknownError("the step of its loop is not a constant")
        return cls(stmt, simplify((stmt.var - stmt.start) // stmt.step))

    def at(self, ref: timeline.IterationRef) -> E.Expr:
        """The loop variable in the iteration that uses ``ref``."""
        first = self.stmt.var if ref.moving else self.stmt.start
        return simplify(first + self.stmt.step * ref.offset)

    def exists(self, ref: timeline.IterationRef) -> E.Expr:
        """Whether there is an iteration for ``ref``."""
        at, stop = self.at(ref), self.stmt.stop
        return simplify(at < stop if int(self.stmt.step) > 0 else at > stop)


@dataclass
class _Reader:
    """Reads one pipeline."""

    pipeline: H.Pipeline
    others: Mapping[E.Expr, str]
    names: list[str] = field(default_factory=list)
    lets: dict[E.Var, E.Expr] = field(default_factory=dict)
    copied: list[tuple[int, timeline.IterationRef, Conds]] = field(default_factory=list)
    read: list[tuple[int, Conds]] = field(default_factory=list)
    boxes: dict[tuple[object, ...], int] = field(default_factory=dict)  # parts of versions

    def __post_init__(self) -> None:
        self.tiles = {data: k for k, data in enumerate(self.pipeline.tiles)}
        self.names += (data.name for data in self.pipeline.tiles)
        self.row = MECHANISMS[self.pipeline.mechanism]
        self.loop: _Loop | None = None
        self.base: E.Var | None = None  # the number of the first iteration of the run being read
        self.together = True  # all threads of the block do the same

    def skeleton(self) -> timeline.Skeleton:
        """The pipeline without values."""
        body = self.pipeline.body
        while isinstance(body, H.Pipeline) or (isinstance(body, H.Run) and not self.is_own(body)):
            body = body.body
        roles = [node for node in S.flat(body) if isinstance(node, H.Roles)]
        rest, bodies = _split_roles(body)
        if len(roles) > 1 or (roles and any(map(self.orders, rest))):
            raise _UnknownError("threads with and without a role share it")
        if roles:
            for block in (*rest, *(block for block in bodies if not self.orders(block))):
                self.unused(block)
            bodies = [block for block in bodies if self.orders(block)]
            self.together = False
        else:
            bodies = [body]
        repeated = any(isinstance(node, H.Run) and self.is_own(node) for node in S.walk(body))
        loops: list[S.For] = []
        paths: list[tuple[object, ...]] = []
        programs: list[timeline.Program] = []
        for block in bodies:
            self.lets = {}
            path: list[object] = []
            if repeated:
                block = self.run(block, path, by_roles=bool(roles))
            programs.append(self.program(block, loops))
            paths.append((*path, loops[-1].start, loops[-1].stop, loops[-1].step))
        if any(path != paths[0] for path in paths):
            raise _UnknownError("its roles run different numbers of iterations")
        trips = trip_count(loops[0])
        return timeline.Skeleton(
            self.pipeline.stages, self.row.name, trips, tuple(programs), repeated
        )

    # -- runs ----------------------------------------------------------------------------------
    def run(self, block: S.Stmt, path: list[object], by_roles: bool) -> S.Stmt:
        """The body of the run in ``block``; ``path``: the loops and conditions around it."""
        inside = [inner_stmt for inner_stmt in S.flat(block) if self.orders(inner_stmt)]
        if len(inside) != 1:
            raise _UnknownError("a block does not contain exactly one run of it")
        for inner_stmt in S.flat(block):
            if inner_stmt is not inside[0]:
                self.unused(inner_stmt)
            if isinstance(inner_stmt, S.Let):
                self.lets[inner_stmt.var] = substitute(inner_stmt.value, self.lets)
        (stmt,) = inside
        if isinstance(stmt, H.Run) and self.is_own(stmt):
            return self.counted(stmt)
        if isinstance(stmt, (S.For, S.While, S.If)):
            exprs = [substitute(expr, self.lets) for expr in stmt.exprs()]
            if by_roles and not all(map(self.is_steady, exprs)):
                raise _UnknownError("its roles may see different values in the enclosing loops")
            path += (type(stmt), *exprs, *stmt.parts("var"))
        elif not isinstance(stmt, (H.Pipeline, H.Run)):
            raise _UnknownError(f"a run of it is inside a {type(stmt).__name__}")
        if by_roles and S.holds(stmt, *S.LEAVES):
            raise _UnknownError("its roles may leave an enclosing loop at different times")
        blocks = stmt.blocks()
        side, *other = (k for k, inner in enumerate(blocks) if self.orders(inner))
        if other:
            raise _UnknownError("branches of different threads share it")
        for k, inner in enumerate(blocks):
            if k != side:
                self.unused(inner)
        path.append(side)
        return self.run(blocks[side], path, by_roles)

    def counted(self, run: H.Run) -> S.Stmt:
        """The body of ``run``, whose count is that of its loop's iterations."""
        self.base, body = run.first, run.body
        while isinstance(body, H.Run):
            body = body.body
        loops = [stmt for stmt in S.flat(body) if isinstance(stmt, S.For) and self.orders(stmt)]
        if not loops and simplify(run.count).equal(1) is E.const(True):
            return body
        if any(simplify(run.count) is trips(loop) for loop in loops):
            return body
        raise _UnknownError("its count is not the number of iterations of its loop")

    def unused(self, stmt: S.Stmt) -> None:
        """Refuse ``stmt`` if it touches tiles: it is outside of the runs."""
        for access in accesses(stmt, nested=True):
            if access.data in self.tiles and access.mode != NAME:
                name = self.names[self.tiles[access.data]]
                raise _UnknownError(f"`{name}` is used where the pipeline does not run")

    def is_steady(self, expr: E.Expr) -> bool:
        """Whether all threads see the same value of ``expr``, whenever they reach it."""
        return is_steady(expr, self.written)

    @cached_property
    def written(self) -> set[E.Var]:
        """The storage that something in the pipeline writes."""
        return written(self.pipeline.body)

    def is_own(self, node: H.Run | H.PipelineStep) -> bool:
        """Whether it is of this pipeline."""
        return node.pipe is self.pipeline.pipe

    def program(self, block: S.Stmt, loops: list[S.For]) -> timeline.Program:
        """The program of one group of threads."""
        stmts = S.flat(block)
        positions = [
            k for k, stmt in enumerate(stmts) if isinstance(stmt, S.For) and self.orders(stmt)
        ]
        if not positions and self.base is not None:
            self.loop = _Loop.of(_ONCE)
            loops.append(_ONCE)
            return timeline.Program((), self.events(stmts), ())
        if len(positions) != 1:
            raise _UnknownError("its stages are not used by exactly one loop")
        (position,), loop = positions, stmts[positions[0]]
        assert isinstance(loop, S.For)
        loops.append(loop)
        self.loop = _Loop.of(loop)
        before = self.events(stmts[:position])
        body = self.events(S.flat(loop.body))
        program = timeline.Program(before, body, self.events(stmts[position + 1 :]))
        self.check_conditions(self.loop)
        return program

    def orders(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` contains steps of the pipeline."""
        return any(
            isinstance(node, (H.PipelineStep, H.Run)) and self.is_own(node) for node in S.walk(stmt)
        )

    # -- events --------------------------------------------------------------------------------
    def events(self, stmts: tuple[S.Stmt, ...]) -> tuple[timeline.Event, ...]:
        """The events of statements in order."""
        result: list[timeline.Event] = []
        for stmt in stmts:
            if isinstance(stmt, H.PipelineStep) and self.is_own(stmt):
                ahead = stmt.ahead if isinstance(stmt, H.Wait) else 0
                result.append(
                    timeline.Act(
                        type(stmt).__name__.lower(), self.iteration_ref(stmt.number), ahead
                    )
                )
            elif self.together and self.is_barrier(stmt):
                result.append(timeline.Act("barrier", timeline.IterationRef(0, moving=False)))
            elif not self.orders(stmt):
                result += self.touches(stmt, ())
            elif isinstance(stmt, S.If):
                result.append(self.branch(stmt))
            elif isinstance(stmt, H.Run) and not self.is_own(stmt):
                result += self.events(S.flat(stmt.body))
            else:
                raise _UnknownError(f"a step of it is inside a {type(stmt).__name__}")
        return tuple(result)

    def is_barrier(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` is a barrier of the block."""
        if isinstance(stmt, H.Wait) and stmt.pipe in self.others:
            return Step.BARRIER in MECHANISMS[self.others[stmt.pipe]].wait
        return is_block_barrier(stmt)

    def branch(self, stmt: S.If) -> timeline.Branch:
        """Steps that are taken where an iteration exists."""
        then = self.events(S.flat(stmt.then))
        named = [
            timeline.IterationRef(event.ref.offset + event.ahead, event.ref.moving)
            for event in then
            if isinstance(event, timeline.Act) and event.kind != "commit"
        ]
        if not named or self.known().exists(named[0]) is not stmt.cond:
            raise _UnknownError("a step of it has a condition other than that its iteration exists")
        orelse = () if stmt.orelse is None else self.events(S.flat(stmt.orelse))
        return timeline.Branch(named[0], then, orelse)

    def known(self) -> _Loop:
        """The loop of the program being read."""
        assert self.loop is not None
        return self.loop

    def iteration_ref(self, number: E.Expr) -> timeline.IterationRef:
        """The iteration ``number``, relative to the current one."""
        form = Linear.of(substitute(number, self.lets))
        if self.base is not None:
            form = form.added(Linear.of(self.base), -1)
        if not form.terms:
            return timeline.IterationRef(form.constant, moving=False)
        past = form.added(Linear.of(substitute(self.known().number, self.lets)), -1)
        if past.terms:
            raise _UnknownError(f"the distance of {number!r} from the iteration is not constant")
        return timeline.IterationRef(past.constant)

    # -- accesses ------------------------------------------------------------------------------
    def touches(self, stmt: S.Stmt, conds: Conds) -> Iterator[timeline.Touch]:
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

    def touch(self, access: Access, stmt: S.Stmt, conds: Conds) -> timeline.Touch:
        """One access of a tile."""
        tile = self.tiles[access.data]
        single_version = not isinstance(access.where, Region) or is_same_extent(
            access.where.extents[0], 1
        )
        ref, modulus = self.version(access.indices[0]) if single_version else (None, 0)
        if ref is None or not isinstance(access.buffer.shape[0], int):
            raise _UnknownError(f"which version of `{self.names[tile]}` is used is not certain")
        if access.buffer.shape[0] < modulus:
            raise _UnknownError(f"`{self.names[tile]}` has {access.buffer.shape[0]} versions only")
        if not access.writes:
            self.read.append((tile, conds))
            return timeline.Touch("read", tile, ref, modulus)
        is_copy = isinstance(stmt, S.COPIES) and stmt.mode == self.row.mode and not access.reads
        if isinstance(stmt, S.COPIES) and is_copy and stmt.src.buffer.storage == "global":
            self.copied.append((tile, ref, conds))
            box = (*map(id, stmt.dst.mins[1:]), *map(str, stmt.dst.extents[1:]))
            return timeline.Touch(
                "copy", tile, ref, modulus, self.boxes.setdefault(box, len(self.boxes))
            )
        return timeline.Touch("write", tile, ref, modulus)

    def version(self, index: E.Expr) -> tuple[timeline.IterationRef | None, int]:
        """The iteration and the modulus of an index of versions."""
        index = substitute(index, self.lets)
        alone = self.base is None or self.pipeline.stages == 1  # else an iteration has any version
        if isinstance(index, E.Const) and int(index) >= 0 and alone:
            return timeline.IterationRef(int(index), moving=False), int(index) + 1
        if isinstance(index, E.Binary) and index.op == "floormod" and isinstance(index.b, E.Const):
            return self.iteration_ref(index.a), int(index.b)
        return None, 0

    def check_conditions(self, loop: _Loop) -> None:
        """Check that a tile which is copied under a condition is read under it only."""
        for tile, ref, conds in self.copied:
            for other, tests in self.read if conds else ():
                then = {simplify(substitute(cond, {loop.stmt.var: loop.at(ref)})) for cond in tests}
                if other == tile and not then.issuperset(conds):
                    name = self.names[tile]
                    raise _UnknownError(f"`{name}` may be read where it has not been copied")


def _split_roles(body: S.Stmt) -> tuple[list[S.Stmt], list[S.Stmt]]:
    """Statements outside of roles in ``body``, and the body of each role, whose own roles may split
    it again."""
    rest: list[S.Stmt] = []
    bodies: list[S.Stmt] = []
    for node in S.flat(body):
        if not isinstance(node, H.Roles):
            rest.append(node)
            continue
        for role in node.branches:
            assert isinstance(role, H.Role)
            outer, inner = _split_roles(role.body)
            rest += outer if inner else []
            bodies += inner or [role.body]
    return rest, bodies


def is_block_barrier(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a barrier of all threads of the block."""
    call = stmt.call
    return call is not None and call.atom.is_barrier("block") and not call.args
