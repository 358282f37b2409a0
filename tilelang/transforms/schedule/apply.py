"""Apply the schedule of each launch, field by field.

:mod:`choose` lists the legal schedules of a launch, the cheapest first. Each field has one applier,
which transforms the launch as the field says, or rejects the schedule with a reason, such as an
order that is not proved. The launch gets the first schedule that all appliers accept. Schedules
with the same first fields share the transformed programs of these fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from tilelang.errors import TileUnsupportedError
from tilelang.ir import schedule as H, stmt as S
from tilelang.ir.facts import keep_assumptions
from tilelang.ir.launch_schedule import MEMORY, Alternative, Schedule, Value, text_of
from tilelang.ir.visitor import map_stmts, rewrite_launches
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.schedule.choose import choose_schedules, pipeline_serial_loads
from tilelang.transforms.schedule.cross_tile_prefetch import prefetch_across_tiles
from tilelang.transforms.schedule.dependence import with_names
from tilelang.transforms.schedule.gemm_overlap import rotate_loops
from tilelang.transforms.schedule.legality import Facts, NotLegalError, require
from tilelang.transforms.schedule.longest_tile_first import order_longest_first
from tilelang.transforms.schedule.persistent_epilogue import overlap_epilogues
from tilelang.transforms.schedule.persistent_grid import loop_over_tiles
from tilelang.transforms.schedule.ping_pong import alternate_warpgroups
from tilelang.transforms.schedule.pipeline import is_pipelined, pipelined, stages_of
from tilelang.transforms.schedule.prefetch_reads import prefetch_reads
from tilelang.transforms.schedule.shrink_live_ranges import shrink_live_ranges
from tilelang.transforms.schedule.specialize_warps import State, note_one_role, specialized, written
from tilelang.transforms.schedule.staged_epilogue import stage_epilogue
from tilelang.transforms.schedule.synchronized_loops import version_synchronized_loops
from tilelang.transforms.schedule.tma_copies import host_tensors
from tilelang.transforms.schedule.tma_legalization import legalize_tma_copies

Applier = Callable[[Any, Schedule, Facts], State]
Appliers = Mapping[tuple[str, ...], dict[tuple[Value, ...], Applier]]

# Fields in the order in which they are applied -> their values -> what applies them. Values that
# are in no row apply to every launch.
APPLIERS: dict[tuple[str, ...], dict[tuple[Value, ...], Applier]] = {
    ("persistent", "epilogue"): {
        (True, "staged"): loop_over_tiles,
        (True, "subtiles"): loop_over_tiles,
        (True, "overlapped"): overlap_epilogues,
    },
    ("tile_order",): {("longest_first",): order_longest_first},
    ("roles", "barriers"): {
        ("one", "stage"): pipelined,
        ("producer", "stage"): specialized,
        ("producer", "operand"): specialized,
    },
    ("overlap",): {("rotate",): rotate_loops, ("ping_pong",): alternate_warpgroups},
    ("prefetch_tiles",): {(True,): prefetch_across_tiles},
    ("epilogue",): {("staged",): stage_epilogue},
}
SHOWN = 4  # schedules that were not chosen, in reports
CHEAPER = "fewer estimated cycles than with a producer warpgroup"


def schedule_launches(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with a schedule, chosen and applied, for each launch with products or pipelines, and
    every copy of mode "tma" one that the accelerator makes. In the shortest memory, tiles live as
    briefly as they can."""
    facts = Facts(host_tensors(func), context)

    def planned(launch: S.Launch) -> S.Launch:
        launch = version_synchronized_loops(launch, facts)
        launch = pipeline_serial_loads(prefetch_reads(launch, facts), facts)
        launch = scheduled(launch, facts)
        launch = shrink_live_ranges(launch) if context.memory == MEMORY[-1] else launch
        return legalize_tma_copies(launch, facts)

    return rewrite_launches(func, planned)


def scheduled(launch: S.Launch, facts: Facts, appliers: Appliers = APPLIERS) -> S.Launch:
    """One launch with the cheapest schedule that is legal.

    Raises:
        TileUnsupportedError: the program states a schedule that is not legal.
    """
    if not any(isinstance(node, S.Gemm) or is_pipelined(node) for node in S.walk(launch.body)):
        return launch
    launch = launch.with_body(map_stmts(launch.body, S.For, with_names))
    stated = launch.schedule.stages if launch.schedule is not None else None
    chosen = choose_schedules(launch, facts)
    search = _Search(launch, facts, appliers)
    whys: dict[Schedule, str] = {}
    for schedule in chosen.legal:
        try:
            result = search.applied(schedule)
            resolved = _resolve(schedule, result)
            enough = stated is None or set(resolved.stages or ()) <= set(stated)
            require(enough, "the requested stages do not fit into shared memory")
        except NotLegalError as refusal:
            whys[schedule] = str(refusal)
            continue
        why = search.refusals.get(("roles", "producer")) or chosen.barred.get(("roles", "producer"))
        result = note_one_role(result, why or CHEAPER)
        others = tuple(_alternatives(schedule, chosen.legal, whys))
        return replace(result, schedule=replace(resolved, others=others))
    raise _not_legal(launch, {**chosen.barred, **search.refusals})


def _with_stages(launch: S.Launch, stages: Sequence[int]) -> S.Launch:
    """``launch`` whose pipelined loops ask for ``stages``, in their order."""
    loops = filter(is_pipelined, S.walk(launch.body))
    changed = {loop.var: count for loop, count in zip(loops, stages) if count != stages_of(loop)}

    def with_stages(loop: S.For) -> S.For:
        count = changed.get(loop.var)
        return loop if count is None else replace(loop, hints=replace(loop.hints, num_stages=count))

    return launch.with_body(map_stmts(launch.body, S.For, with_stages)) if changed else launch


@dataclass
class _Search:
    """The transformations that have been applied to a launch.

    Attributes:
        states: values of fields, from the first on -> the launch with them, or why not.
        refusals: the last reason against a value.
    """

    launch: S.Launch
    facts: Facts
    appliers: Appliers
    states: dict[tuple[tuple[Value, ...], ...], State | NotLegalError] = field(default_factory=dict)
    refusals: dict[tuple[str, Value], str] = field(default_factory=dict)

    def applied(self, schedule: Schedule) -> S.Launch:
        """The launch with ``schedule``.

        Raises:
            NotLegalError: it is not legal.
        """
        last: State = _with_stages(self.launch, schedule.stages or ())
        key: tuple[tuple[Value, ...], ...] = ((schedule.stages,),)
        for names, rows in self.appliers.items():
            values = tuple(getattr(schedule, name) for name in names)
            key = (*key, values)
            if values in rows and key not in self.states:
                try:
                    state = rows[values](last, schedule, self.facts)
                    if isinstance(state, S.Launch):
                        state = keep_assumptions(state, self.launch)
                    self.states[key] = state
                except NotLegalError as refusal:
                    self.states[key] = refusal
                    self.refusals[names[0], values[0]] = str(refusal)
            reached = self.states.get(key, last)
            if isinstance(reached, NotLegalError):
                raise reached
            last = reached
        return keep_assumptions(written(last), self.launch)


def _resolve(schedule: Schedule, launch: S.Launch) -> Schedule:
    """``schedule`` with the numbers that its appliers have found."""
    stages = tuple(node.stages for node in S.find(launch.body, H.Pipeline))
    roles = {node.name: node.registers for node in S.find(launch.body, H.Role)}
    registers = (roles["consumers"], roles["producer"]) if any(roles.values()) else None
    chosen = launch.schedule or schedule
    return replace(
        schedule, stages=stages, registers=registers, tiles=chosen.tiles, subtiles=chosen.subtiles
    )


def _alternatives(
    schedule: Schedule, legal: Sequence[Schedule], whys: dict[Schedule, str]
) -> list[Alternative]:
    """Some schedules besides the chosen one: those that were refused, and the next ones."""
    mine, spelled = vars(schedule), set[str]()
    alternatives: list[Alternative] = []
    for other in legal:
        why = whys.get(other, "")
        if other is not schedule and why not in spelled and len(alternatives) < SHOWN:
            fields = tuple((k, value) for k, value in other.stated().items() if mine[k] != value)
            alternatives.append(Alternative(fields, other.price or 0, why))
            spelled |= {why} - {""}
    return alternatives


def _not_legal(launch: S.Launch, whys: dict[tuple[str, Value], str]) -> TileUnsupportedError:
    stated = {} if launch.schedule is None else launch.schedule.stated()
    reasons = [
        f"{text_of({name: value})}: {whys[name, value]}"
        for name, value in stated.items() if (name, value) in whys
    ]  # fmt: skip
    return TileUnsupportedError(
        "the schedule that T.annotate_schedule states is not legal",
        expected="a schedule that the kernel and the target allow",
        got="; ".join(reasons) or f"{text_of(stated)}, which exclude each other",
        hint="leave the field out: kernel.explain() shows what is chosen, and from what",
        loc=launch.loc,
    )
