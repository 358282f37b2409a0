"""Pipeline lowering: each statement becomes the synchronization steps of its mechanism, such as
arrivals at an mbarrier, and waits for the parity of an mbarrier phase.

Runs after tile operations are lowered, because that lowering moves the loads of a product across a
``Wait``, and before the shared-memory plan, which counts the mbarriers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial, reduce
from itertools import pairwise, takewhile
from math import prod

from tilelang.errors import InternalError
from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import BufferHints
from tilelang.ir.linear import Linear
from tilelang.ir.prover import prove
from tilelang.ir.simplify import simplified_with, simplify
from tilelang.ir.tables import MBARRIER_ARRIVE, MBARRIER_ARRIVE_EXPECT, MBARRIER_WAIT
from tilelang.ir.visitor import Rewriter, map_buffers, rewrite_launches, substitute, substitute_in
from tilelang.target import Context, operations
from tilelang.transforms.analysis.groups import ThreadGroups, thread_groups, thread_number
from tilelang.transforms.analysis.interleaved_buffers import Interleaving, interleavings
from tilelang.transforms.analysis.loops import trips
from tilelang.transforms.analysis.mechanism import MECHANISMS, Mechanism, Step, changed

# The steps by which the threads that have filled a version signal it to others.
_HANDED_ON = frozenset(((H.Wait, Step.BARRIER), (H.Commit, Step.ARRIVE_FULL)))


def lower_pipelines(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without statements of the schedule, and the tiles of a stage next to each other.

    A pipeline with mbarriers is never in a loop: their phases count from its first iteration. Each
    thread counts the iterations of its runs in a register.
    """
    return rewrite_launches(func, lambda launch: _Lower(launch, context).result())


class _Lower(Rewriter):
    def __init__(self, launch: S.Launch, context: Context) -> None:
        self.launch = launch
        self.context = context
        self.pipelines: dict[E.Expr, _Pipeline] = {}
        self.branches = 0  # conditions around the statement
        self.counted: set[E.Var] = set()  # first iterations of runs around it
        self.interleavings: dict[E.Var, Interleaving] = {}

    def result(self) -> S.Stmt:
        """The launch without statements of the schedule."""
        launch = self.launch.with_body(self.rewrite(self.launch.body))
        return map_buffers(launch, self.interleaved) if self.interleavings else launch

    def interleaved(self, buffer: Buffer) -> Buffer:
        """``buffer`` with its place among the tiles of its stage, which layouts and the plan of
        shared memory use."""
        group = self.interleavings.get(buffer.data)
        if group is None or buffer.attrs.interleaving is not None:
            return buffer
        return replace(buffer, attrs=replace(buffer.attrs, interleaving=group))

    @cached_property
    def tiles(self) -> dict[E.Var, Buffer]:
        """Tiles of the launch that have one name."""
        views = {node.buffer.data for node in S.find(self.launch.body, S.View)}
        allocs = S.find(self.launch.body, S.Alloc)
        return {node.buffer.data: node.buffer for node in allocs if node.buffer.data not in views}

    @cached_property
    def groups(self) -> ThreadGroups:
        """Which threads run what."""
        return thread_groups(self.launch, self.warp)

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        match stmt:
            case H.Pipeline():
                return self.pipeline(stmt)
            case H.Run():
                return self.run(stmt)
            case H.PipelineStep():
                return self.step(stmt)
            case H.Fence(source="generic", target="async"):
                return S.do(operations.FENCE_PROXY_ASYNC, loc=stmt.loc)
            case H.Fence():
                return []  # what arrived by the async proxy is waited for on an mbarrier
            case S.Seq() if any(map(self.is_elected, stmt.stmts)):
                return S.seq(*self.sequence(stmt.stmts))
            case S.For():
                for pipe in self.pipelines.values():
                    pipe.loops.append(stmt)
                result = super()._visit(stmt)
                for pipe in self.pipelines.values():
                    pipe.loops = [loop for loop in pipe.loops if loop is not stmt]
                return result
            case S.If():
                self.branches += 1
                lowered = super()._visit(stmt)
                self.branches -= 1
                return lowered
        return super()._visit(stmt)

    def pipeline(self, stmt: H.Pipeline) -> list[S.Stmt]:
        """The body between what the mechanism needs before and after it."""
        mechanism = MECHANISMS[stmt.mechanism]
        fenced = stmt.proxy == "async" and mechanism.mode != "tma"
        pipe = self.pipelines[stmt.pipe] = _Pipeline(mechanism, stmt.stages, fenced)
        if mechanism.elected and self.context.has("tma"):
            self.interleavings |= interleavings(stmt, self.tiles)
        pipe.counts = operations.LOAD_LDS.needs in mechanism.needs
        loads = set(_loads(stmt.body, stmt.pipe))
        pipe.loads, pipe.steady = max(loads, default=0), len(loads) == 1
        before: list[S.Stmt] = []
        if mechanism.has_phases:
            pipe.full = _barriers("full", self.arrivals(stmt, H.Commit), stmt.stages)
            before = [S.Alloc(buffer=pipe.full)]
            if Step.ARRIVE_EMPTY in mechanism.release:
                pipe.empty = _barriers("empty", self.arrivals(stmt, H.Wait), stmt.stages)
                before.append(S.Alloc(buffer=pipe.empty))
            pipe.fresh = self.has_one_run(stmt)
            uses, apart = [*_uses(stmt)], _may_skip(stmt) or changed(stmt, stmt.tiles)
            pipe.together = bool(uses) and not apart and all(map(_is_warp_collective, uses))
            pipe.latest = tuple(_latest(stmt.body, stmt.pipe)) if pipe.fresh else ()
        runs = S.find(stmt.body, H.Run)
        if any(pipe.phase_distance(node) is not None for node in runs if node.pipe is stmt.pipe):
            before.append(S.Alloc(buffer=pipe.handed, init=E.const(0, pipe.handed.dtype)))
        last = H.Wait(pipe=stmt.pipe, number=E.const(0), loc=stmt.loc)
        calls = [
            self.barrier(stmt) if step is Step.BARRIER else pipe.call(step, last)
            for step in mechanism.close
        ]
        return [
            *(replace(alloc, loc=stmt.loc) for alloc in before),
            self.rewrite(stmt.body),
            *(S.Eval(value=call, loc=stmt.loc) for call in calls),
        ]

    def has_one_run(self, stmt: H.Pipeline) -> bool:
        """Whether the iterations of each thread count from its first one: it has one run."""
        runs = S.find(stmt.body, H.Run)
        if any(S.holds(loop, H.Run) for loop in S.find(stmt.body, S.For, S.While)):
            return False
        groups = sorted(map(self.groups.of, runs))
        return all(lo + count <= then for (lo, count), (then, _) in pairwise(groups))

    def run(self, stmt: H.Run) -> list[S.Stmt]:
        """A run, which begins at the iteration after those that the thread has released."""
        pipe = self.pipelines[stmt.pipe]
        if stmt.first in self.counted:
            return [self.rewrite(stmt.body)]
        self.counted.add(stmt.first)
        body = self.rewrite(stmt.body)
        self.counted.remove(stmt.first)
        passed, zero = pipe.phase_distance(stmt), (E.const(0),)
        if passed is None:
            # After the lowering the statements themselves determine which threads run them.
            start: dict[E.Var, E.Expr] = {stmt.first: E.const(0, stmt.first.dtype)}
            return [simplified_with(body, start)]
        begin = E.cast(E.Load(pipe.handed, zero), stmt.first.dtype)
        then = E.cast(simplify((stmt.first + passed) % pipe.rounds), pipe.handed.dtype)
        return [
            S.Let(var=stmt.first, value=begin, loc=stmt.loc),
            body,
            S.Store(buffer=pipe.handed, indices=zero, value=then, loc=stmt.loc),
        ]

    def arrivals(self, stmt: H.Pipeline, kind: type[H.PipelineStep]) -> int:
        """The number of threads that arrive for a stage: those that commit it, or those that wait
        for it."""
        mechanism = MECHANISMS[stmt.mechanism]
        steps = S.find(stmt.body, kind)
        groups = {self.groups.of(node) for node in steps if node.pipe is stmt.pipe}
        if kind is H.Commit and mechanism.elected:
            return len(groups)
        if kind is H.Wait:
            return sum(n // (self.warp if self.are_whole_warps(lo, n) else 1) for lo, n in groups)
        return sum(count for _, count in groups)

    @property
    def warp(self) -> int:
        """Lanes of a warp."""
        return self.context.limits.warp

    def are_whole_warps(self, first: int, count: int) -> bool:
        """Whether the threads from ``first`` on are whole warps."""
        return first % self.warp == 0 and count % self.warp == 0

    def freed(self, stmt: H.Release) -> list[S.Stmt]:
        """A version is released by one lane of each warp that has used it, after a barrier of the
        warp. Matrices that a unit has read for all of the warp have been waited for by that lane,
        too (PTX, "wgmma.wait_group"). A version that is not filled again needs no release."""
        pipe = self.pipelines[stmt.pipe]
        if pipe.is_last_use(stmt.number):
            return []
        alone = S.Eval(value=pipe.call(Step.ARRIVE_EMPTY, stmt), loc=stmt.loc)
        if not self.are_whole_warps(*self.groups.of(stmt)):
            return [alone]
        first = (thread_number(self.launch) % self.warp).equal(0)
        arrive = S.If(cond=first, then=alone, loc=stmt.loc)
        if pipe.together:
            return [arrive]
        lanes = E.const((1 << self.warp) - 1, DType("uint32"))
        return [S.do("sync_warp", lanes, loc=stmt.loc), arrive]

    def step(self, stmt: H.PipelineStep) -> list[S.Stmt]:
        """The steps of one statement."""
        pipe = self.pipelines[stmt.pipe]
        match stmt:
            case H.Acquire():
                steps = pipe.row.acquire
            case H.Commit():
                steps = pipe.row.commit
            case H.Wait():
                steps = pipe.row.wait
            case H.Release() if Step.ARRIVE_EMPTY in pipe.row.release:
                return self.freed(stmt)
            case _:
                steps = pipe.row.release
        calls: list[E.Expr] = []
        for step in steps:
            if step is Step.WAIT_EMPTY and pipe.fresh and pipe.is_first_use(stmt.number):
                continue
            if pipe.fenced and (type(stmt), step) in _HANDED_ON:
                calls.append(E.call(operations.FENCE_PROXY_ASYNC))
            calls.append(self.barrier(stmt) if step is Step.BARRIER else pipe.call(step, stmt))
        return [S.Eval(value=call, loc=stmt.loc) for call in calls]

    def barrier(self, stmt: S.Stmt) -> E.Expr:
        """The barrier of the threads that run ``stmt``."""
        block = (0, prod(self.launch.threads))
        group = self.groups.of(stmt) if self.branches else block
        if group == block:
            return E.call("sync_threads")
        named = {(lo, n): ident for lo, n, ident in self.launch.hints.barrier_ids}
        if group not in named:
            raise InternalError(f"threads {group[0]} to {sum(group) - 1} have no barrier")
        return E.call("sync_threads", named[group], group[1])

    def sequence(self, stmts: tuple[S.Stmt, ...]) -> list[S.Stmt]:
        """Statements in order. One thread fills a stage, from ``Acquire`` to ``Commit``, where the
        mechanism elects one."""
        result: list[S.Stmt] = []
        pending = list(stmts)
        while pending:
            first = pending.pop(0)
            if not (isinstance(first, H.Acquire) and self.is_elected(first)):
                result += self.lowered(first)
                continue
            end = 1 + next(k for k, stmt in enumerate(pending) if _has_commit(stmt, first.pipe))
            filling = self.pipelines[first.pipe].filling
            inside = [filling(stmt, first) for stmt in (first, *pending[:end])]
            del pending[:end]
            filled = [new for stmt in inside for new in self.lowered(stmt)]
            start, threads = self.groups.of(first)
            if threads > 1:
                alone = thread_number(self.launch).equal(start)
                filled = [S.If(cond=alone, then=S.seq(*filled), loc=first.loc)]
            result += filled
        return result

    def is_elected(self, stmt: S.Stmt) -> bool:
        """Whether one thread fills the stage that is acquired here."""
        return isinstance(stmt, H.Acquire) and self.pipelines[stmt.pipe].row.elected

    def lowered(self, stmt: S.Stmt) -> list[S.Stmt]:
        """One statement of a sequence."""
        result = self._visit(stmt)
        return result if isinstance(result, list) else [result]


def _has_commit(stmt: S.Stmt, pipe: E.Expr) -> bool:
    return isinstance(stmt, H.Commit) and stmt.pipe is pipe


def _uses(stmt: H.Pipeline) -> Iterator[effects.Access]:
    """Reads of the versions of a pipeline."""
    tiles = set(stmt.tiles)
    for access in effects.accesses(stmt.body, nested=True):
        if access.reads and access.data in tiles:
            yield access


def _may_skip(pipeline: H.Pipeline) -> bool:
    """Whether a thread may wait for a stage of ``pipeline`` and not use it."""
    tiles = set(pipeline.tiles)
    return any(
        access.reads and access.data in tiles
        for branch in S.find(pipeline.body, S.If)
        for access in (() if S.holds(branch, H.Wait) else effects.accesses(branch, nested=True))
    )


def _is_warp_collective(use: effects.Access) -> bool:
    """Whether a matrix unit reads there, for all lanes of a warp, each of which waits for it."""
    atom = use.by.atom if isinstance(use.by, E.Call) else None
    return (
        atom is not None
        and use.proxy == "async"
        and atom.completes.kind == "group"
        and any(operand.tile for operand in atom.operands)
    )


def _bytes(stmt: S.Stmt, pipe: E.Expr) -> E.Expr:
    """The bytes of the copies that ``stmt`` makes and the mbarriers of ``pipe`` count."""
    value = stmt.call
    if value is not None and value.atom.completes.kind == "mbarrier":
        return E.const(int(value.attr("bytes")) if any(arg is pipe for arg in value.args) else 0)
    sides = [_bytes(block, pipe) for block in stmt.blocks()]
    if isinstance(stmt, S.If):
        then, orelse = (*sides, E.const(0))[:2]
        return then if then is orelse else E.select(stmt.cond, then, orelse)
    return reduce(partial(E.binary, "add"), sides) if sides else E.const(0)


def _loads(stmt: S.Stmt, pipe: E.Expr) -> Iterator[int]:
    """The numbers of loads to LDS that each thread starts for a stage of ``pipe``, at least and at
    most, where it is filled."""
    stmts = S.flat(stmt)
    for number, inner in enumerate(stmts):
        if isinstance(inner, H.Acquire) and inner.pipe is pipe:
            filled = takewhile(lambda later: not _has_commit(later, pipe), stmts[number + 1 :])
            yield from map(sum, zip((0, 0), *map(_loads_started, filled), strict=True))
        for block in inner.blocks():
            yield from _loads(block, pipe)


def _latest(stmt: S.Stmt, pipe: E.Expr) -> Iterator[E.Expr]:
    """The last iteration that each ``Acquire`` of ``pipe`` fills, where its loops count up."""
    if isinstance(stmt, H.Acquire) and stmt.pipe is pipe:
        yield stmt.number
    for block in stmt.blocks():
        for number in _latest(block, pipe):
            if isinstance(stmt, S.For) and Linear.of(number).factor(stmt.var) > 0:
                if isinstance(stmt.step, E.Const) and int(stmt.step) > 0:
                    last = stmt.start + stmt.step * (trips(stmt) - 1)
                    number = simplify(substitute(number, {stmt.var: last}))
            yield number


def _loads_started(stmt: S.Stmt) -> tuple[int, int]:
    """Loads to LDS that a thread starts in ``stmt``: at least, and at most. A condition of the
    program may hold for one iteration and not for the next; loops of unknown length start the loads
    of one iteration or none."""
    value = stmt.call
    own = int(value is not None and value.atom is operations.LOAD_LDS)
    blocks = [_loads_started(block) for block in stmt.blocks()]
    highest = own + sum(high for _, high in blocks)
    if isinstance(stmt, S.For) and isinstance(count := trips(stmt), E.Const):
        times = int(count.value)
        return times * sum(low for low, _ in blocks), times * highest
    if isinstance(stmt, (S.For, S.While, S.If)):
        return 0, highest
    return own + sum(low for low, _ in blocks), highest


def _barriers(name: str, count: int, stages: int) -> Buffer:
    """An mbarrier for each version, with ``count`` arrivals for each phase."""
    attrs = BufferHints(arrive_counts=(count,) * stages, is_generated=True)
    return Buffer(name, Shape((stages,)), DType("uint64"), "shared.barrier", attrs=attrs)


class _Pipeline:
    """The facts of a pipeline; ``bytes``: of the stage that is being filled; ``handed``: how many
    iterations the thread has released."""

    def __init__(self, row: Mechanism, stages: int, fenced: bool) -> None:
        self.row = row
        self.fenced = fenced  # whether a unit uses what threads have written
        self.stages = stages
        self.full: Buffer | None = None
        self.empty: Buffer | None = None
        self.fresh = False  # no thread has released a stage before its run
        self.together = False  # all lanes of a warp have waited when one has
        self.latest: tuple[E.Expr, ...] = ()  # the last iterations that are filled, if known
        self.bytes: E.Expr = E.const(0)
        self.counts = False  # whether the instructions of a thread are counted
        self.loads = 0  # of a thread for a stage, at most
        self.steady = False  # whether they are as many for every stage
        self.loops: list[S.For] = []  # around the statement
        self.handed = Buffer("handed", Shape((1,)), DType("uint16"), "local.var")
        # A phase has a version and a parity: after two rounds of all versions everything repeats.
        self.rounds = 2 * stages

    def phase_distance(self, run: H.Run) -> E.Expr | None:
        """The number of iterations until the next run begins, None where it begins like this
        one."""
        passed = simplify(run.count % self.rounds)
        return None if isinstance(passed, E.Const) and not int(passed) else passed

    def is_first_use(self, number: E.Expr) -> bool:
        """Whether an iteration is the first one of its version, which no thread has used."""
        round = simplify(number // self.stages)
        return isinstance(round, E.Const) and not int(round)

    def is_last_use(self, number: E.Expr) -> bool:
        """Whether no later iteration fills the version of ``number`` again."""
        after = number + self.stages
        return bool(self.latest) and all(prove(last < after) is True for last in self.latest)

    def remaining_iterations(self, number: E.Expr) -> E.Expr:
        """The least number of iterations after ``number``; those that do not exist load nothing."""
        outer = (loop for loop in reversed(self.loops) if loop.var in number.variables)
        loop = next(outer, None)
        return E.const(0) if loop is None else simplify(trips(loop) - 1 - number)

    def mbarrier(self, bank: Buffer | None, number: E.Expr) -> E.Expr:
        """The mbarrier of the version that iteration ``number`` uses."""
        assert bank is not None
        return E.AddressOf(bank, (simplify(number % self.stages),))

    def filling(self, stmt: S.Stmt, acquire: H.Acquire) -> S.Stmt:
        """``stmt`` with the mbarrier of ``acquire`` where it names the pipeline that its bytes are
        counted by; they are announced with the commit."""
        if isinstance(stmt, H.PipelineStep):
            return stmt
        assert isinstance(acquire.pipe, E.Var)
        mbarrier: dict[E.Var, E.Expr] = {acquire.pipe: self.mbarrier(self.full, acquire.number)}
        self.bytes += _bytes(stmt, acquire.pipe)
        return substitute_in(stmt, mbarrier)

    def call(self, step: Step, stmt: H.PipelineStep) -> E.Expr:
        """One step of ``stmt`` as a call; ``barrier`` makes those that several threads wait at."""
        number = stmt.number
        phase = number // self.stages
        match step:
            case Step.CLOSE_GROUP:
                return E.call(
                    operations.LOADS_COMMIT if self.counts else operations.CP_ASYNC_COMMIT
                )
            case Step.WAIT_GROUPS:
                ahead = stmt.ahead if isinstance(stmt, H.Wait) else 0
                if self.counts:
                    ahead = ahead if self.steady else 0
                    more = E.const(0) if not ahead else self.remaining_iterations(number)
                    return E.call(operations.LOADS_WAIT, more, loads=self.loads, count=ahead)
                return E.call(operations.CP_ASYNC_WAIT, count=ahead)
            case Step.BARRIER:
                return E.call("sync_threads")
            case Step.EXPECT:
                count, self.bytes = simplify(self.bytes), E.const(0)
                return E.call(MBARRIER_ARRIVE_EXPECT, self.mbarrier(self.full, number), count)
            case Step.ARRIVE_FULL:
                return E.call(MBARRIER_ARRIVE, self.mbarrier(self.full, number))
            case Step.ARRIVE_EMPTY:
                return E.call(MBARRIER_ARRIVE, self.mbarrier(self.empty, number))
            case Step.WAIT_FULL:
                return E.call(MBARRIER_WAIT, self.mbarrier(self.full, number), simplify(phase % 2))
            case Step.WAIT_EMPTY:
                # A version is empty before its first phase: that counts as the phase before it.
                parity = simplify((phase + 1) % 2)
                return E.call(MBARRIER_WAIT, self.mbarrier(self.empty, number), parity)
