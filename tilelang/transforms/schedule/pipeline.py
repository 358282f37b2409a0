"""Software pipelining (``T.Pipelined``, ``num_stages``): copies run ahead of the computation.

With S stages (``num_stages``) every tile gets S versions. The prologue issues the copies of the
first S - 1 iterations. Iteration i issues the copies of iteration i + S - 1 into the versions that
iteration i - 1 has released, waits for its own, and computes. It waits first where a barrier in the
wait frees the versions, and where products run while it issues copies. That is written as a
``Pipeline`` with its steps (``ir/schedule.py``). A row of ``analysis/mechanism.py`` says what the
steps become, and ``lower/pipelines.py`` lowers them.

Where a loop is run repeatedly and its mbarriers have phases, which are counted over all runs, the
``Pipeline`` encloses everything that runs the loop, and each execution is a ``Run``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeAlias, TypeGuard

from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LoopHints
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import Rewriter, rewrite_exprs, substitute, without_allocations
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.loops import trip_count, trips
from tilelang.transforms.analysis.mechanism import Mechanism, choices
from tilelang.transforms.analysis.tma import START
from tilelang.transforms.schedule.buffer_versions import UseVersions, Version, use_region, versioned
from tilelang.transforms.schedule.dependence import NotPipelinedError, Plan, is_stale, plan_loop
from tilelang.transforms.schedule.gathers import Indices, with_registers
from tilelang.transforms.schedule.iteration import shared_bytes
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.tma_copies import TmaFacts
from tilelang.transforms.verify.schedule import refusal

GROUP_ROWS = 64  # that a product of a warpgroup has at least
_BARRIERS = 1024  # bytes reserved for barriers and small arrays


def pipelined(launch: S.Launch, schedule: Schedule, facts: Facts) -> S.Launch:
    """``launch`` without loops of kind "pipelined".

    The hint ``pipeline_note`` of the serial loop that replaces each says how it is pipelined, or
    why not. A loop whose copies run ahead is inside a ``Pipeline``, which orders all accesses to
    its tiles.
    """
    if not any(map(is_pipelined, S.walk(launch.body))):
        return launch
    planned, result = plan_loops(launch, facts), None
    while result is None:
        planned.drop_stale()
        result = planned.expand()
    return result


def plan_loops(launch: S.Launch, facts: Facts) -> LoopPlans:
    """The plans of the pipelined loops of ``launch``."""
    planned = LoopPlans(launch, facts.context, facts.tma(launch))
    planned.choose(launch.body, False)
    return planned


def is_pipelined(stmt: S.Stmt) -> TypeGuard[S.For]:
    """Whether ``stmt`` is a loop whose copies the program wants ahead."""
    return isinstance(stmt, S.For) and stmt.kind == "pipelined"


def _is_warp_gemm(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a product of too few rows for a warpgroup."""
    if not isinstance(stmt, S.Gemm):
        return False
    rows = stmt.c.extents[-2]
    return not isinstance(rows, int) or rows < GROUP_ROWS


def stages_of(loop: S.For) -> int:
    """The number of versions that the program requests."""
    stages, explicit = loop.hints.num_stages or 0, loop.hints.stage
    if not stages and explicit is not None:
        stages = 1 + max((stage for stage in explicit if isinstance(stage, int)), default=-1)
    return stages


def counts_versions(loop: S.For) -> bool:
    """Whether the number of stages alone says how many versions the tiles of ``loop`` have."""
    return not (loop.hints.stage or loop.hints.order or loop.hints.group)


@dataclass
class Choice:
    """The decision on one loop: a plan, or the reason why not.

    ``others``: mechanisms that are left to try; ``note`` of a plan: which were refused, and why;
    ``is_repeated``: it is run not once, but any number of times.
    """

    loop: S.For
    plan: Plan | None = None
    note: str = ""
    others: tuple[Mechanism, ...] = ()
    is_repeated: bool = False

    @property
    def runs(self) -> bool:
        """Whether its pipeline is run repeatedly, and counts iterations over all runs."""
        return self.is_repeated and self.plan is not None and self.plan.mechanism.has_phases

    def remark(self, text: str) -> None:
        """Adds to the note."""
        self.note += f"{'; ' if self.note else ''}{text}"

    def refuse(self, why: str) -> None:
        """The order of the plan is not certain: the next mechanism, or a serial loop."""
        assert self.plan is not None
        self.remark(f"not with {self.plan.mechanism.label}: {why}")
        self.plan.other_mechanisms = {}
        if self.others:
            self.plan.mechanism, *others = self.others
            self.others = tuple(others)
        else:
            self.plan, self.note = None, f"serial: {self.note}"


@dataclass
class LoopPlans:
    """The pipelined loops of one launch: loop, by its identity -> what happens to it."""

    launch: S.Launch
    context: Context
    facts: TmaFacts
    choices: dict[int, Choice] = field(default_factory=dict)

    @property
    def plans(self) -> list[Plan]:
        """The plans of loops whose copies run ahead."""
        return [choice.plan for choice in self.choices.values() if choice.plan is not None]

    def versions(self) -> dict[E.Var, Buffer]:
        """Tiles that are copied ahead -> the buffers with their versions."""
        stages: dict[E.Var, tuple[Buffer, int]] = {}
        for plan in self.plans:
            for data, tile in plan.tiles.items():
                stages[data] = (tile, max(plan.stages, stages.get(data, (tile, 0))[1]))
        stated = dict(self.launch.hints.layout_map)
        return {data: versioned(tile, n, stated) for data, (tile, n) in stages.items()}

    def serial(self, loop: S.For) -> S.For:
        """``loop`` as a serial one, if its copies do not run ahead."""
        choice = self.choices.get(id(loop))
        return as_serial(loop, choice.note) if choice is not None and choice.plan is None else loop

    def expand(self) -> S.Launch | None:
        """The launch with its loops as they are planned; None where the order of one of them is
        refused, which is then planned in another way."""
        tiles = self.versions()
        expander = _Expand(self.choices, tiles)
        launch = expander.rewrite(self.launch)
        if expander.refused:
            return None
        zero = {data: Version(tile, E.const(0)) for data, tile in tiles.items()}
        launch = UseVersions(zero).rewrite(launch) if zero else launch
        assert isinstance(launch, S.Launch)
        for choice, pipeline in expander.around:
            launch, why = wrap_in_pipeline(launch, pipeline)
            if why is not None:
                choice.refuse(why)
                return None
        return launch

    def choose(self, stmt: S.Stmt, divergent: bool, is_repeated: bool = False) -> None:
        """A choice for every pipelined loop in ``stmt``; ``is_repeated``: it is in a loop or
        under a condition."""
        inner = divergent
        if isinstance(stmt, (S.If, S.For, S.While)):
            inner = divergent or self.facts.groups.values.divides(stmt)
        if is_pipelined(stmt):
            self.choices[id(stmt)] = self.choice(stmt, inner, is_repeated)
        for block in stmt.blocks():
            self.choose(block, inner, is_repeated or isinstance(stmt, (S.For, S.While, S.If)))

    def choice(self, loop: S.For, divergent: bool, is_repeated: bool) -> Choice:
        """Whether and how ``loop`` is pipelined."""
        stages, count = stages_of(loop), trip_count(loop)
        if count is not None:
            stages = min(stages, count)
        mechanisms = choices(self.context)
        if stages == 1 and count != 1 and self.context.has("roles"):
            # A producer fills the only version again as soon as its last reader is done.
            mechanisms = tuple(row for row in mechanisms if row.elected and row.release)
        elif stages <= 1:
            return Choice(loop, note="serial: one stage, copies are synchronous")
        if not mechanisms:
            return Choice(loop, note="serial: the target has no asynchronous copies")
        if divergent:
            return Choice(loop, note="serial: not all threads of the block execute it together")
        if not isinstance(loop.step, E.Const) or not int(loop.step):
            return Choice(loop, note="serial: its step is not a constant")
        try:
            plan = plan_loop(loop, stages, mechanisms[0], self.launch, self.context.has("cp_async"))
            values = self.facts.groups.values
            if plan.cond is not None and values.differs(plan.cond, S.flat(loop.body)[-1]):
                raise NotPipelinedError("its condition is not uniform across the block")
        except NotPipelinedError as why:
            return Choice(loop, note=f"serial: {why}")
        chosen = Choice(loop, plan, others=tuple(mechanisms[1:]), is_repeated=is_repeated)
        while chosen.plan is not None:
            reason = self.tma_refusal(chosen) or self.memory_refusal(chosen)
            if reason is None:
                break
            chosen.refuse(reason)
        return chosen

    def tma_refusal(self, choice: Choice) -> str | None:
        """Why the copies of a plan cannot be TMA copies, where they have to be. Where those that
        can be fill most of what is copied, the next mechanism orders the others.
        Products by warps have no producer, and threads that fill a pipeline for themselves do it
        as fast and with fewer waits."""
        plan = choice.plan
        assert plan is not None
        if plan.mechanism.mode != "tma":
            return None
        if any(map(_is_warp_gemm, S.walk(plan.loop.body))):
            return "mma products have no producer warpgroup"
        reasons: dict[E.Var, str] = {}
        for copy in plan.copies:
            why, tile = self.facts.refusal(copy), copy.dst.buffer
            if tile in self.facts.layouts and tile.constant_bytes % START:
                why = f"versions with its layout do not start at multiples of {START} bytes"
            if why is not None:
                reasons.setdefault(tile.data, f"`{tile.name}`: {why}")
        if not reasons:
            return None
        first = next(iter(reasons.values()))
        sizes = {data: tile.constant_bytes for data, tile in plan.tiles.items()}
        if 2 * sum(sizes[data] for data in reasons) > sum(sizes.values()) or not choice.others:
            return first
        plan.other_mechanisms = dict.fromkeys(reasons, choice.others[0])
        choice.remark(f"not all with {plan.mechanism.label}: {first}")
        return None

    def memory_refusal(self, choice: Choice) -> str | None:
        """Where shared memory is short, as many versions as fit: copies that run ahead
        of the next run keep their tiles, so that nothing reuses their memory in between."""
        if not self.context.saves_shared or not choice.runs:
            return None
        assert choice.plan is not None
        version = sum(tile.constant_bytes for tile in choice.plan.tiles.values())
        free = self.context.limits.shared_block - shared_bytes(self.launch) + version - _BARRIERS
        choice.plan.stages = min(choice.plan.stages, free // version)
        return "too little shared memory" if choice.plan.stages < 2 else None

    def drop_stale(self) -> None:
        """Without versions: tiles whose contents are used after the loop."""
        users: dict[E.Var, list[Choice]] = {}
        for choice in self.choices.values():
            for data in {} if choice.plan is None else choice.plan.tiles:
                users.setdefault(data, []).append(choice)
        for data, affected in users.items():
            if not is_stale(self.launch, data, [choice.loop for choice in affected]):
                continue
            for choice in affected:
                plan = choice.plan
                if plan is None:
                    continue
                plan.copies = [c for c in plan.copies if c.dst.buffer.data is not data]
                if not plan.copies:
                    choice.plan = None
                    choice.note = f"serial: `{data.name}` is used after the loop"


class _Expand(Rewriter):
    """Replaces each pipelined loop by what was chosen for it."""

    def __init__(self, choices: Mapping[int, Choice], tiles: Mapping[E.Var, Buffer]) -> None:
        self.choices = choices
        self.tiles = tiles
        self.refused = False
        self.around: list[tuple[Choice, H.Pipeline]] = []  # pipelines that runs are of

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        choice = self.choices.get(id(stmt))
        if choice is None:
            return super()._visit(stmt)
        if choice.plan is not None:
            writer = LoopWriter(choice, self.tiles, choice.plan.per_mechanism())
            pipelines = writer.single_role()
            stmt = pipelines[0]
            if choice.runs:
                self.around.append((choice, pipelines.pop(0)))
                stmt = stmt.body
            if (why := next(filter(None, map(refusal, pipelines)), None)) is not None:
                self.refused = True
                choice.refuse(why)
            return [*writer.before, stmt]
        loop = super()._visit(choice.loop)
        return as_serial(loop, choice.note) if isinstance(loop, S.For) else loop


def as_serial(loop: S.For, note: str) -> S.For:
    """``loop`` as a serial loop, with the reason."""
    return replace(loop, kind="serial", hints=replace(loop.hints, pipeline_note=note))


def append_note(loop: S.For, more: str) -> S.For:
    """``loop`` with ``more`` appended to its pipeline note, if it has one."""
    note = loop.hints.pipeline_note
    return loop if note is None else as_serial(loop, f"{note}; {more}")


def wrap_in_pipeline(launch: S.Launch, pipeline: H.Pipeline) -> tuple[S.Launch, str | None]:
    """``launch`` with ``pipeline`` around all statements from the first that runs it, and why its
    order is not certain. Its tiles are allocated before it: they keep what has arrived early."""
    tiles = set(pipeline.tiles)
    body = without_allocations(launch.body, tiles)
    stmts = S.flat(body)
    runs = {run for run in S.find(body, H.Run) if run.pipe is pipeline.pipe}
    start = next(k for k, stmt in enumerate(stmts) if not runs.isdisjoint(S.walk(stmt)))
    allocs = [node for node in S.find(launch.body, S.Alloc) if node.buffer.data in tiles]
    for stmt in stmts[:start]:
        for data in effects.used(stmt) & tiles:
            return launch, f"`{data.name}` is used where the pipeline does not run"
    pipeline = replace(pipeline, body=S.seq(*stmts[start:]))
    return replace(launch, body=S.seq(*stmts[:start], *allocs, pipeline)), refusal(pipeline)


# -- expansion --
LoopForm: TypeAlias = Callable[[S.For], list[S.Stmt]]  # a serial loop without its body -> what runs


def _issue_point(stmts: Sequence[S.Stmt], stages: int) -> int:
    """The number of ``stmts`` that begin an iteration whose product runs while copies are issued; 0
    where copies should not be later: others are computed first, or with two versions a product
    alone is shorter than the latency of the next iteration's copies."""
    product = next((k for k, s in enumerate(stmts) if not isinstance(s, (S.Let, S.Fill))), 0)
    alone = all(isinstance(stmt, S.Gemm) for stmt in stmts[product:])
    is_first = bool(stmts) and isinstance(stmts[product], S.Gemm)
    return product + 1 if is_first and stages > (2 if alone else 1) else 0


class LoopWriter:
    """Writes a loop whose copies run ahead, with a pipeline for each of ``parts`` of its plan.

    ``before``: statements that the loop needs before it.
    """

    def __init__(
        self, choice: Choice, tiles: Mapping[E.Var, Buffer], parts: Sequence[Plan]
    ) -> None:
        plan = choice.plan
        assert plan is not None
        self.choice, self.plan, loop = choice, plan, plan.loop
        self.before: list[S.Stmt] = [*plan.allocations()]
        hoisted = set(map(id, self.before))
        start = _fixed_bound(loop.start, self.before, loop)
        stop = _fixed_bound(loop.stop, self.before, loop)
        labels = "; ".join(map(_label, plan.per_mechanism()))
        self.note = "; ".join(filter(None, (f"{plan.stages} stages: {labels}", choice.note)))
        self.loop = replace(loop, kind="serial", start=start, stop=stop)
        first, zero = E.Var("first", loop.var.dtype), E.const(0)
        self.writers = [
            StageWriter(part, tiles, E.Var("p", DType("handle")), stop,
                         first if choice.runs and part.mechanism.has_phases else zero, indices)
            for part, indices in map(_with_indices, parts)
        ]  # fmt: skip
        self.before += [S.Alloc(buffer=i.tile) for writer in self.writers for i in writer.indices]
        self.past = (loop.var - start) // loop.step
        self.stmts = S.flat(_computation(plan, hoisted))
        used = {
            data: version
            for writer in self.writers
            for data, version in writer.versions(writer.number_at(self.past)).items()
        }
        self.used = UseVersions(used)

    def run(self, body: S.Stmt, writers: Sequence[StageWriter]) -> S.Stmt:
        """``body``, as a run of the pipelines of ``writers`` if they are run repeatedly."""
        for writer in reversed(writers if self.choice.runs else ()):
            body = writer.run(body, trips(self.loop))
        return body

    def single_role(self) -> list[H.Pipeline]:
        """The pipelines, the first with the others in it, where all threads copy and compute. If
        it is run repeatedly, the first holds nothing but a run of itself."""
        loop, stages, past, writers = self.loop, self.plan.stages, self.past, self.writers
        prologue = [stmt for writer in writers for stmt in writer.load_indices(loop.start)]
        for stage in range(stages - 1):
            for writer in writers:
                at = simplify(loop.start + loop.step * stage)
                prologue += writer.fill(at, writer.number_at(stage))
        ahead = simplify(loop.var + loop.step * (stages - 1))
        body: list[S.Stmt] = [writer.wait(writer.number_at(past)) for writer in writers]
        position = len(body)
        if all(writer.plan.mechanism.release for writer in writers):
            position = position + point if (point := _issue_point(self.stmts, stages)) else 0
        body += map(self.used.rewrite, self.stmts)
        for writer in reversed(writers):
            body[position:position] = writer.fill(ahead, writer.number_at(past, stages - 1))
        body += (writer.release(writer.number_at(past)) for writer in writers)
        rolled = replace(as_serial(loop, self.note), body=S.seq(*body))
        inside = self.run(S.seq(*prologue, rolled), writers[:1])
        pipelines: list[H.Pipeline] = []
        for writer in reversed(writers):
            pipelines.insert(0, writer.pipeline(inside))
            inside = pipelines[0]
        return pipelines

    def filling(self) -> S.Stmt:
        """The code of a producer."""
        number = self.writers[0].number_at(self.past)
        lets, values = self.plan.replayed(self.loop.var)
        fills: list[S.Stmt] = []
        for writer in self.writers:
            fills += writer.stage(number, () if len(self.writers) > 1 else lets, values)
        fills = [*(lets if len(self.writers) > 1 else ()), *fills]
        hints = LoopHints(num_stages=self.loop.hints.num_stages)
        return self.run(replace(self.loop, body=S.seq(*fills), hints=hints), self.writers)

    def steps(self) -> list[tuple[list[S.Stmt], S.Stmt, list[S.Stmt]]]:
        """The statements of an iteration, each with the waits before and the releases after it: a
        pipeline is waited for before the first use of its tiles and released after the last, a
        single one after the last has been completed."""
        number, writers, stmts = self.writers[0].number_at(self.past), self.writers, self.stmts
        if (cond := self.plan.cond) is not None:  # loaded before the wait
            copied, then = E.Var("copied", cond.dtype), stmts[-1].blocks()[0]
            stmts = (*stmts[:-1], S.Let(var=copied, value=cond), S.If(cond=copied, then=then))
        spans = [_span(stmts, writer.plan.tiles) for writer in writers]
        if len(writers) == 1 and cond is None:
            spans = [(0, _completed(stmts, spans[0][1]))]
        return [
            (
                [writer.wait(number) for writer, span in zip(writers, spans) if span[0] == k],
                self.used.rewrite(stmt),
                [writer.release(number) for writer, span in zip(writers, spans) if span[1] == k],
            )
            for k, stmt in enumerate(stmts)
        ]

    def serial(self, note: str) -> S.For:
        """The loop of consumers, without its body."""
        return as_serial(self.loop, f"{self.note}; {note}")

    def using(self, note: str, form: LoopForm | None = None) -> S.Stmt:
        """The code of consumers, in order or in another ``form``."""
        loop = self.serial(note)
        if form is not None:
            return self.run(S.seq(*form(loop)), self.writers)
        body = [stmt for waits, use, frees in self.steps() for stmt in (*waits, use, *frees)]
        return self.run(replace(loop, body=S.seq(*body)), self.writers)


def _completed(stmts: Sequence[S.Stmt], last: int) -> int:
    """The statement from ``last`` on whose successor needs what ``last`` computes: a wait for a
    product before that would keep those between from overlapping it."""
    results = effects.written(stmts[last])
    later = range(last, len(stmts) - 1)
    return next((k for k in later if results & effects.used(stmts[k + 1])), len(stmts) - 1)


def _span(stmts: Sequence[S.Stmt], tiles: Collection[E.Var]) -> tuple[int, int]:
    """The first and the last of ``stmts`` that use ``tiles``."""
    uses = [k for k, stmt in enumerate(stmts) if not effects.used(stmt).isdisjoint(tiles)]
    return uses[0], uses[-1]


def _with_indices(plan: Plan) -> tuple[Plan, list[Indices]]:
    """``plan`` with registers instead of the row indices that its gathers load."""
    loads: list[Indices] = []
    if plan.cond is not None:  # the loads might be under it
        return plan, loads
    copies = [with_registers(copy, plan.loop.var, loads) for copy in plan.copies]
    return replace(plan, copies=copies), loads


def _fixed_bound(bound: E.Expr, before: list[S.Stmt], loop: S.For) -> E.Expr:
    """A loop bound that keeps its value during the loop."""
    if not E.holds(bound, E.Load, E.Call):
        return bound
    var = E.Var(f"{loop.var.name}_end", bound.dtype)
    before.append(S.Let(var=var, value=bound, loc=loop.loc))
    return var


@dataclass(frozen=True)
class StageWriter:
    """Writes the steps of one pipeline; ``stop``: the end of the loop; ``base``: the number of the
    first iteration; ``indices``: the row indices that its copies have loaded before."""

    plan: Plan
    tiles: Mapping[E.Var, Buffer]
    pipe: E.Var
    stop: E.Expr
    base: E.Expr
    indices: list[Indices]

    def number_at(self, past: int | E.Expr, more: int = 0) -> E.Expr:
        """The number of the iteration ``past`` and ``more`` after the first."""
        number = simplify(self.base + past)
        return simplify(number + more) if more else number

    def pipeline(self, body: S.Stmt) -> H.Pipeline:
        """``body`` with the pipeline."""
        return H.Pipeline(
            pipe=self.pipe,
            stages=self.plan.stages,
            tiles=tuple(self.tiles[data].data for data in self.plan.tiles),
            mechanism=self.plan.mechanism.name,
            body=body,
            loc=self.plan.loop.loc,
        )

    def run(self, body: S.Stmt, count: E.Expr) -> S.Stmt:
        """``body`` as a run of ``count`` iterations."""
        assert isinstance(self.base, E.Var)
        loc = self.plan.loop.loc
        return H.Run(pipe=self.pipe, first=self.base, count=count, body=body, loc=loc)

    def versions(self, number: E.Expr) -> dict[E.Var, Version]:
        """The version of each tile that iteration ``number`` uses."""
        slot = simplify(number % self.plan.stages)
        return {data: Version(self.tiles[data], slot) for data in self.plan.tiles}

    def exists(self, at: E.Expr) -> E.Expr:
        """Whether the loop has an iteration ``at``."""
        return simplify(at < self.stop if int(self.plan.loop.step) > 0 else at > self.stop)

    def wait(self, number: E.Expr) -> S.Stmt:
        """The wait for the copies of iteration ``number``, which begins."""
        plan, ahead = self.plan, max(0, self.plan.stages - 2)
        return H.Wait(pipe=self.pipe, number=number, ahead=ahead, loc=plan.loop.loc)

    def release(self, number: E.Expr) -> S.Stmt:
        """The end of the uses of iteration ``number``."""
        return H.Release(pipe=self.pipe, number=number, loc=self.plan.loop.loc)

    def stage(
        self, number: E.Expr, lets: Sequence[S.Stmt], values: dict[E.Var, E.Expr]
    ) -> list[S.Stmt]:
        """The copies of the iteration ``number``, which exists: that of ``values``."""
        loc = self.plan.loop.loc
        return [
            H.Acquire(pipe=self.pipe, number=number, loc=loc), *lets, self.copies(number, values),
            H.Commit(pipe=self.pipe, number=number, loc=loc),
        ]  # fmt: skip

    def fill(self, at: E.Expr, number: E.Expr) -> list[S.Stmt]:
        """The copies of iteration ``at``, numbered ``number``, if there is one."""
        loop, stmts = self.plan.loop, self.stage(number, *self.plan.replayed(at))
        after = [stmts.pop()] if self.plan.mechanism.counts_iterations else []
        return [*self.if_exists(at, stmts), *after, *self.load_indices(simplify(at + loop.step))]

    def if_exists(self, at: E.Expr, stmts: list[S.Stmt]) -> list[S.Stmt]:
        """``stmts`` if there is an iteration ``at``."""
        guard = self.exists(at)
        if not isinstance(guard, E.Const):
            return [S.If(cond=guard, then=S.seq(*stmts), loc=self.plan.loop.loc)]
        return stmts if guard.value else []

    def load_indices(self, at: E.Expr) -> list[S.Stmt]:
        """The loads of the row indices for copies of the iteration ``at``, if there is one."""
        loads = [indices.loaded({self.plan.loop.var: at}) for indices in self.indices]
        return self.if_exists(at, loads) if loads else []

    def copies(self, number: E.Expr, values: dict[E.Var, E.Expr]) -> S.Stmt:
        """The copies into the version of ``number``."""
        plan, used = self.plan, self.versions(number)

        def value(expr: E.Expr) -> E.Expr:
            return simplify(substitute(expr, values))

        mode = plan.mechanism.mode
        barrier = self.pipe if mode == "tma" else None
        copies: list[S.Stmt] = []
        for copy in plan.copies:
            moved = rewrite_exprs(copy, value)
            dst = use_region(moved.dst, used)
            hints = replace(copy.hints, commit=mode != "async")
            copies.append(replace(moved, dst=dst, mode=mode, barrier=barrier, hints=hints))
        inner = S.seq(*copies)
        if plan.cond is not None:
            cond, lets = value(plan.cond), []
            if plan.mechanism.elected:  # which says twice whether there are bytes to wait for
                copied = E.Var("copied", cond.dtype)
                lets.append(S.Let(var=copied, value=cond, loc=plan.loop.loc))
                cond = copied
            inner = S.seq(*lets, S.If(cond=cond, then=inner, loc=plan.loop.loc))
        return inner


def _label(plan: Plan) -> str:
    """The copied tiles and the mechanism, for notes."""
    names = ", ".join(tile.name for tile in plan.tiles.values())
    return f"{names} copied ahead with {plan.mechanism.label}, {plan.mechanism.cost}"


def _computation(plan: Plan, hoisted: set[int]) -> S.Stmt:
    """The body without the copies that run ahead."""
    replaced = hoisted | {id(copy) for copy in plan.copies}
    rest = S.seq(*(stmt for stmt in plan.stmts if id(stmt) not in replaced))
    if plan.cond is None:
        return rest
    prefix = [stmt for stmt in plan.prefix if id(stmt) not in replaced]
    return S.seq(*prefix, S.If(cond=plan.cond, then=rest, loc=plan.loop.loc))
