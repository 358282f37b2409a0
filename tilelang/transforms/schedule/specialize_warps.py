"""Warp specialization: one producer warpgroup copies ahead while the consumers compute.

A launch whose pipelines use mbarriers gets two roles. The *consumers* are the threads of the
program, which execute its computation. An additional *producer* warpgroup executes only the loops
and conditions around the pipelines, and fills their stages as far ahead as there are versions. The
producer needs few registers, so registers move to the consumers (setmaxnreg). Values that all
threads compute first, such as the group of a tile from a lookup table, stay before the roles; where
they are computed in loops around a pipeline, both roles compute them.

The synchronization between the roles is verified. Where that fails, or the launch does not qualify
(``_check``), it gets one role, and the notes of its loops say why. ``RoleWriter`` emits the roles.
The other decisions of the schedule (``gemm_overlap``, ``cross_tile_prefetch``, ``ping_pong``) are
its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import TypeAlias

from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer
from tilelang.ir.launch_schedule import Schedule
from tilelang.ir.uniform import PRIVATE
from tilelang.ir.visitor import map_stmts, rewrite_blocks, without_allocations
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.schedule import pipeline
from tilelang.transforms.schedule.buffer_versions import UseVersions, Version
from tilelang.transforms.schedule.dependence import Plan
from tilelang.transforms.schedule.iteration import IterationGraph
from tilelang.transforms.schedule.legality import Facts, NotLegalError, require
from tilelang.transforms.schedule.tile_loop import TileStage
from tilelang.transforms.verify.schedule import refusal

WARPGROUP = 128
MOST_THREADS = 1024
ACCUMULATOR_REGISTERS = 128  # of the accumulator of m64n256
OTHER_REGISTERS = 26  # that ptxas needs besides
# Consumer warpgroups -> registers of a thread of them, of a producer: what 65536 registers give
# that compiles without spills (setmaxnreg counts in eights). One of each has 255 from the start.
REGISTERS = {2: (232, 40), 3: (160, 32), 4: (112, 32)}
TIGHT = {2: (240, 24)}  # where the tiles of consumers leave no SPARE ones
SPARE = 32  # registers of a thread for addresses and what is computed; attention fills the rest


def specialized(launch: S.Launch, schedule: Schedule, facts: Facts) -> RoleWriter:
    """``launch`` with a producer warpgroup, and pipelines for the loops that both share."""
    planned = pipeline.plan_loops(launch, facts)
    planned.drop_stale()
    _check(launch, planned, facts)
    writer = RoleWriter.of(launch, schedule, facts.context, planned)
    whys = map(refusal, S.find(writer.launch.body, H.Pipeline))
    if (why := next(filter(None, whys), None)) is not None:
        raise NotLegalError(why)
    return writer


def note_one_role(launch: S.Launch, why: str) -> S.Launch:
    """``launch`` with one role; the notes of its loops give the reason."""
    pipelines = S.find(launch.body, H.Pipeline)
    phases = any(MECHANISMS[pipeline.mechanism].has_phases for pipeline in pipelines)
    if not phases or S.holds(launch.body, H.Roles):
        return launch

    def with_note(loop: S.For) -> S.Stmt:
        return pipeline.append_note(loop, f"one role: {why}") if S.holds(loop, H.Wait) else loop

    return launch.with_body(map_stmts(launch.body, S.For, with_note))


# -- the rule ----------------------------------------------------------------------------------
def _check(launch: S.Launch, planned: pipeline.LoopPlans, facts: Facts) -> None:
    """The rule. A launch is specialized if the target has wgmma and setmaxnreg, a product reads
    tiles of a pipeline, the threads are whole warpgroups, and the block can have another
    warpgroup. The program must not synchronize itself: a producer takes part in none of its
    barriers and has no thread index that the program knows.

    Raises:
        NotLegalError: it is not; with the reason.
    """
    plans = [part for plan in planned.plans for part in plan.per_mechanism()]
    threads, limits = prod(launch.threads), facts.context.limits
    if launch.threads[0] != threads or threads % WARPGROUP:
        raise NotLegalError(f"{threads} threads are not a whole number of warpgroups")
    if threads + WARPGROUP > MOST_THREADS:
        raise NotLegalError(f"{threads} threads and a producer exceed a block's limit")
    if not plans or not all(plan.mechanism.has_phases for plan in plans):
        raise NotLegalError("a pipeline in it has no mbarriers")
    tiles = planned.versions()
    if not any(_reads_pipeline(node, tiles) for node in S.walk(launch.body)):
        raise NotLegalError("no wgmma product reads a tile that is copied ahead")
    limit = limits.registers_at_start(threads + WARPGROUP)
    if any(_registers(node, threads) > limit for node in S.walk(launch.body)):
        raise NotLegalError(
            f"{threads + WARPGROUP} threads begin with {limit} registers each, too few for wgmma"
        )
    _check_order(launch)


def _registers(stmt: S.Stmt, threads: int) -> int:
    """Registers of a thread that the accumulator of one wgmma may take. It must fit into the
    registers at the start of the block, before setmaxnreg (warning C7602 of ptxas)."""
    if not isinstance(stmt, S.Gemm) or stmt.c.buffer.storage != FRAGMENT:
        return 0
    sums = prod(extent for extent in stmt.c.buffer.shape if isinstance(extent, int)) // threads
    return min(sums, ACCUMULATOR_REGISTERS) + OTHER_REGISTERS


def _reads_pipeline(stmt: S.Stmt, tiles: Mapping[E.Var, Buffer]) -> bool:
    """Whether ``stmt`` is a product by warpgroups with an operand in ``tiles``."""
    if not isinstance(stmt, S.Gemm) or stmt.b.dtype.bits > 16:
        return False
    return stmt.a.buffer.data in tiles or stmt.b.buffer.data in tiles


def _check_order(launch: S.Launch) -> None:
    """Reject a program that assigns roles to its threads or orders them itself."""
    require(launch.hints.ws_schedule is None, "the program assigns roles to warps itself")
    for stmt in S.walk(launch.body):
        require(not isinstance(stmt, S.LEAVES), "loops or the kernel may end early")
        own = isinstance(stmt, (S.HardwareOp, H.Roles)) or getattr(stmt, "asynchronous", False)
        if own or (isinstance(stmt, S.COPIES) and stmt.mode == "async"):
            raise NotLegalError("it orders asynchronous operations itself")
        for expr in stmt.exprs():
            if not expr.variables.isdisjoint(launch.thread_vars):
                raise NotLegalError("it uses the index of the thread")
            for call in E.find(expr, E.Call):
                if call.atom.effect is Effect.SYNC or call.atom.per_thread:
                    raise NotLegalError(f"it synchronizes threads itself with `{call.op}`")


# -- roles -------------------------------------------------------------------------------------
@dataclass(frozen=True)
class RoleWriter:
    """Writes a launch by roles.

    Attributes:
        old: the original launch, with its loops over tiles and pipelines.
        tiles: tiles that are copied ahead -> the buffers with their versions.
        loops: the writers of its pipelined loops, by the identity of these.
        front: the statements before the roles: allocations of ``tiles``, common computation.
        work: the other statements, which consumers execute.
        producing: the statements of the producer.
        registers: of a thread of the consumers, of a thread of the producer.
        note: which threads run the loops.
        forms: how consumers run loops that are not in order, by the identity of these.
        prefetch: tiles that the producer copies once per output tile.
    """

    old: S.Launch
    tiles: dict[E.Var, Buffer]
    loops: dict[int, pipeline.LoopWriter]
    front: tuple[S.Stmt, ...]
    work: tuple[S.Stmt, ...]
    producing: S.Stmt
    registers: tuple[int | None, int | None]
    note: str
    forms: Mapping[int, pipeline.LoopForm] = field(default_factory=dict[int, pipeline.LoopForm])
    prefetch: TileStage | None = None

    @classmethod
    def of(
        cls, launch: S.Launch, schedule: Schedule, context: Context, planned: pipeline.LoopPlans
    ) -> RoleWriter:
        """The writer for ``launch``.

        Raises:
            NotLegalError: the statements of a producer cannot be separated from it.
        """
        plans, tiles = planned.plans, planned.versions()
        require(len(tiles) == sum(len(plan.tiles) for plan in plans), "two pipelines share a tile")
        count = prod(launch.threads) // WARPGROUP
        users = f"{count} warpgroups" if count > 1 else "1 warpgroup"
        note = f"filled by a producer warpgroup, used by {users}"
        if schedule.tile_order == "longest_first":
            note += "; the longest blocks start first"
        sets = {id(plan.loop): _sets(plan, schedule, len(plans)) for plan in plans}
        loops = {
            key: pipeline.LoopWriter(choice, tiles, sets[key])
            for key, choice in planned.choices.items() if key in sets
        }  # fmt: skip
        body = map_stmts(launch.body, S.For, planned.serial)
        front = [node for node in S.find(body, S.Alloc) if node.buffer.data in tiles]
        stmts = [stmt for stmt in S.flat(body) if stmt not in front]
        common, work, producing = _SplitRoles(launch, loops).run(stmts)
        registers = _budget(launch, schedule, context)
        return cls(launch, tiles, loops, (*front, *common), (*work,), producing, registers, note)

    @property
    def threads(self) -> int:
        """The number of consumers."""
        return prod(self.old.threads)

    @cached_property
    def launch(self) -> S.Launch:
        """The launch by roles."""
        consuming = map_stmts(S.seq(*self.work), S.For, self.consume)
        front, producing, tiles = self.front, self.producing, self.tiles
        runs = [loop for loop in self.loops.values() if loop.choice.runs]
        order = [*reversed(runs), *(loop for loop in self.loops.values() if loop not in runs)]
        pipelines = [writer for loop in order for writer in loop.writers]
        if (prefetch := self.prefetch) is not None:
            tiles, front = {**tiles, **prefetch.tiles}, (*front, prefetch.alloc())
            pipelines.insert(0, prefetch)
            producing, consuming = prefetch.in_roles(producing, consuming)
        zero = {data: Version(tile, E.const(0)) for data, tile in tiles.items()}
        consuming = without_allocations(consuming, tiles)
        result = UseVersions(zero).rewrite(self.written(front, pipelines, producing, consuming))
        assert isinstance(result, S.Launch)
        return result

    def consume(self, loop: S.For) -> S.Stmt | list[S.Stmt]:
        """The consumers' part of a loop: all but the statements that fill stages."""
        writer, form = self.loops.get(id(loop)), self.forms.get(id(loop))
        return loop if writer is None else [*writer.before, writer.using(self.note, form)]

    def written(
        self, front: Sequence[S.Stmt], pipelines: Sequence[pipeline.StageWriter], producing: S.Stmt,
        consuming: S.Stmt,
    ) -> S.Launch:  # fmt: skip
        """The launch with both roles in ``pipelines``, the outermost first, after ``front``."""
        loops, (upper, lower) = self.loops.values(), self.registers
        elected = all(loop.plan.mechanism.elected for loop in loops)
        nested: S.Stmt = H.Roles(branches=(
            H.Role(name="producer", first=self.threads, count=WARPGROUP, registers=lower,
                   elected=elected, body=producing),
            H.Role(name="consumers", first=0, count=self.threads, registers=upper, body=consuming),
        ))  # fmt: skip
        for writer in reversed(pipelines):
            nested = writer.pipeline(nested)
        threads = (self.threads + WARPGROUP, 1, 1)
        return replace(self.old, threads=threads, body=S.seq(*front, nested))


State: TypeAlias = S.Launch | RoleWriter  # what is done of a schedule


def written(state: State) -> S.Launch:
    """The launch as written so far."""
    return state.launch if isinstance(state, RoleWriter) else state


def _sets(plan: Plan, schedule: Schedule, loops: int) -> list[Plan]:
    """The parts of ``plan`` whose tiles arrive together."""
    if schedule.barriers == "stage":
        return [plan]
    graph = IterationGraph.of(plan.loop, plan.tiles)
    sets = graph.operand_sets
    require(loops == 1 and len(sets) > 1, "no loop uses its operands at different times")
    require(len(graph.spans) == len(plan.tiles), "it does not read every tile that it copies ahead")
    return [plan.part(set(tiles)) for tiles in sets]


class _SplitRoles:
    """Divides the statements of a kernel among all threads, a producer and consumers."""

    def __init__(self, launch: S.Launch, loops: Mapping[int, pipeline.LoopWriter]) -> None:
        self.launch, self.loops = launch, loops

    def run(self, stmts: list[S.Stmt]) -> tuple[list[S.Stmt], list[S.Stmt], S.Stmt]:
        """The statements before the roles, the others, and those that a producer executes.

        Raises:
            NotLegalError: the statements of a producer cannot be separated from ``stmts``.
        """
        common, private = self.common_prologue(stmts)
        rest = [stmt for stmt in stmts if stmt not in common]
        try:
            producing = self.producer_body(rest, private)
        except NotLegalError:
            more = private | self.private(rest)
            if more == private:
                raise
            common += [
                stmt for stmt in rest if isinstance(stmt, S.Alloc) and stmt.buffer.data in more
            ]
            rest = [stmt for stmt in rest if stmt not in common]
            producing = self.producer_body(rest, more)
        return common, rest, producing

    def producer_body(self, stmts: list[S.Stmt], private: set[E.Var]) -> S.Stmt:
        """The statements of ``stmts`` that a producer executes, with its own ``private`` arrays.

        Raises:
            NotLegalError: they cannot be separated.
        """
        project = _Producer(self.launch, self.loops, private)
        body, before = project.block(stmts), 0
        while before != (before := sum(1 for _ in S.walk(body))):
            body = _without_unused(body, private)
        project.check(body)
        return body

    def common_prologue(self, stmts: list[S.Stmt]) -> tuple[list[S.Stmt], set[E.Var]]:
        """The statements that all threads run for themselves before the pipelines, and the arrays
        of a thread that only this writes: it depends on nothing that a kernel writes elsewhere."""
        allocs = S.find(self.launch.body, S.Alloc)
        private = {node.buffer.data for node in allocs if node.buffer.storage in PRIVATE}
        loops = _Producer(self.launch, self.loops, private)
        ahead = [*takewhile(lambda stmt: not loops.holds_loop(stmt), stmts)]
        while private:
            known = _Producer(self.launch, self.loops, private)
            common = [stmt for stmt in ahead if known.can_repeat(stmt)]
            stores = [stmt for stmt in common if not isinstance(stmt, (S.Alloc, S.Let))]
            rest = [stmt for stmt in stmts if stmt not in common]
            others = {data for stmt in rest for data in effects.written(stmt)}
            if private.isdisjoint(others):
                return (common, private) if stores else ([], set())
            private -= others
        return [], set()

    def private(self, stmts: list[S.Stmt]) -> set[E.Var]:
        """The arrays of a thread at the top of the kernel that a producer can fill itself, outside
        its loops over pipelines, as consumers do."""
        allocs = (stmt for stmt in stmts if isinstance(stmt, S.Alloc))
        private = {stmt.buffer.data for stmt in allocs if stmt.buffer.storage in PRIVATE}
        while private:
            others = _Producer(self.launch, self.loops, private).consumer_writes(S.seq(*stmts))
            if private.isdisjoint(others):
                break
            private -= others
        return private


def _budget(
    launch: S.Launch, schedule: Schedule, context: Context
) -> tuple[int | None, int | None]:
    """Registers of consumers and producer; 0 where the program forbids setmaxnreg."""
    threads, stated = prod(launch.threads), schedule.registers
    if stated == (0, 0) or launch.hints.min_blocks_per_sm > 1:
        return None, None
    warpgroups, tiles = threads // WARPGROUP, (node.buffer for node in S.find(launch.body, S.Alloc))
    upper, lower = REGISTERS.get(warpgroups, (None, None))
    if upper is not None and not fits_in_registers(tiles, threads, upper):
        upper, lower = TIGHT.get(warpgroups, (upper, lower))
    if stated is not None:
        upper, lower = (own or base for own, base in zip(stated, (upper or 240, lower or 24)))
        block = threads + WARPGROUP
        if upper * threads + lower * WARPGROUP > context.limits.registers_at_start(block) * block:
            raise NotLegalError(
                f"{upper} registers for consumers and {lower} for a producer are too many"
            )
    return upper, lower


def fits_in_registers(tiles: Iterable[Buffer], threads: int, registers: int) -> bool:
    """Whether the fragments of known extents among ``tiles`` leave each of ``threads`` SPARE of its
    ``registers``."""
    return fragment_registers(tiles, threads) <= registers - SPARE


def fragment_registers(tiles: Iterable[Buffer], threads: int) -> int:
    """Registers of each of ``threads`` for the fragments of known extents among ``tiles``."""
    bits = sum(
        prod(int(E.as_expr(extent)) for extent in tile.shape) * tile.dtype.bits
        for tile in tiles
        if tile.storage == FRAGMENT and all(isinstance(extent, int) for extent in tile.shape)
    )
    return bits // 32 // threads


def _without_unused(stmt: S.Stmt, private: set[E.Var]) -> S.Stmt:
    """``stmt`` without variables that only consumers need, and without what is stored to arrays
    of ``private`` that only they read."""
    used: set[E.Var] = set()
    read = {access.data for access in effects.accesses(stmt, nested=True) if access.reads}

    def block(stmt: S.Stmt) -> S.Stmt:
        needed: list[S.Stmt] = []
        for inner in reversed(S.flat(stmt)):
            if isinstance(inner, S.Let) and inner.var not in used:
                continue
            if isinstance(inner, S.Store) and inner.buffer.data in private - read:
                continue
            for expr in inner.exprs():
                used.update(expr.variables)
            needed.append(rewrite_blocks(inner, block))
        return S.seq(*reversed(needed))

    return block(stmt)


class _Producer:
    """The statements that fill the stages of ``loops``, with the loops and conditions around them.

    Args:
        private: arrays of a thread that all threads fill with the same values.
    """

    def __init__(
        self, launch: S.Launch, loops: Mapping[int, pipeline.LoopWriter], private: set[E.Var]
    ) -> None:
        self.loops = loops
        self.private = private
        self.written = effects.written(launch.body) - private
        self.consumer_vars: set[E.Var] = set()  # variables that only consumers compute

    def block(self, stmts: list[S.Stmt]) -> S.Stmt:
        """The part of a block."""
        return S.seq(*(inner for stmt in stmts for inner in self.produce(stmt)))

    def produce(self, stmt: S.Stmt) -> list[S.Stmt]:
        """The part of a statement."""
        if isinstance(stmt, S.Let):
            if self.is_steady(stmt.value):
                return [stmt]
            self.consumer_vars.add(stmt.var)
            return []
        if (loop := self.loops.get(id(stmt))) is not None:
            return [*(stmt for let in loop.before for stmt in self.produce(let)), loop.filling()]
        if not self.holds_loop(stmt):
            return [stmt] if effects.written(stmt) & self.private and self.can_repeat(stmt) else []
        require(isinstance(stmt, (S.For, S.If)), f"a pipeline is inside a {type(stmt).__name__}")
        return [rewrite_blocks(stmt, lambda inner: self.block(list(S.flat(inner))))]

    def holds_loop(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` is or holds one of the loops."""
        return any(id(node) in self.loops for node in S.walk(stmt))

    def consumer_writes(self, stmt: S.Stmt) -> set[E.Var]:
        """The arrays that consumers write where a producer does not."""
        arrays: set[E.Var] = set()

        def visit(block: S.Stmt) -> S.Stmt:
            for inner in S.flat(block):
                if id(inner) in self.loops:
                    arrays.update(effects.written(inner))
                elif self.holds_loop(inner):
                    rewrite_blocks(inner, visit)
                elif not self.can_repeat(inner):
                    arrays.update(effects.written(inner))
            return block

        visit(stmt)
        return arrays

    def is_steady(self, expr: E.Expr) -> bool:
        """Whether a producer sees the value of ``expr`` that consumers see."""
        return self.consumer_vars.isdisjoint(expr.variables) and effects.is_steady(
            expr, self.written, self.private
        )

    def can_repeat(self, stmt: S.Stmt) -> bool:
        """Whether a producer may execute ``stmt`` for itself; notes the reason if not."""
        for node in S.walk(stmt):
            if isinstance(node, (S.Alloc, S.Store)):
                fine = node.buffer.data in self.private
            else:
                fine = isinstance(node, (S.Let, S.For, S.If, S.Seq))
            if not fine or not all(map(self.is_steady, node.exprs())):
                self.consumer_vars |= {let.var for let in S.find(stmt, S.Let)}
                return False
        return True

    def check(self, body: S.Stmt) -> None:
        """Whether the copies and conditions of ``body`` are independent of what consumers write."""
        for stmt in S.walk(body):
            require(all(map(self.is_steady, stmt.exprs())), "a copy depends on computed values")
            if isinstance(stmt, S.COPIES) and stmt.src.buffer.data in self.written:
                raise NotLegalError(f"`{stmt.src.buffer.name}` is written in the kernel")
