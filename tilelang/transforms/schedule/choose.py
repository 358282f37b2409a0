"""Choose schedules: the legal schedules of a launch, ranked by a cost model.

The target, options and the statements of the loops exclude values of a field, and some values of
different fields exclude each other (``REQUIRES``). The cost of a schedule is the number of cycles
per tile on a multiprocessor, without the work that the schedule overlaps. Whether the order of the
pipelines can be proved is known only when a schedule is applied.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields as fields_of, replace
from itertools import product as combinations
from math import prod

from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.launch_schedule import VALUES, Schedule, Value
from tilelang.ir.visitor import map_stmts
from tilelang.records import dataclass
from tilelang.transforms.analysis.loops import array_registers, blocks_each, trip_count
from tilelang.transforms.schedule.gemm_overlap import cannot_rotate
from tilelang.transforms.schedule.iteration import (
    SHARED,
    IterationGraph,
    bytes_of,
    is_load,
    shared_bytes,
)
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.persistent_epilogue import LEAST_STAGES
from tilelang.transforms.schedule.pipeline import counts_versions, is_pipelined, stages_of
from tilelang.transforms.schedule.specialize_warps import (
    SPARE as REGISTERS_BESIDE,
    WARPGROUP,
    fragment_registers,
)
from tilelang.transforms.schedule.tma_copies import LEAST

Barred = dict[tuple[str, Value], str]  # value of a field -> why a launch cannot have it

FIELDS = (
    "stages", "persistent", "epilogue", "roles", "tile_order", "barriers", "overlap",
    "prefetch_tiles",
)  # fmt: skip
# Value of a field -> what it takes of other fields.
Takes = dict[str, tuple[Value, ...]]
REQUIRES: dict[tuple[str, Value], Takes] = {
    ("persistent", True): {
        "roles": ("producer",),
        "epilogue": ("staged", "subtiles", "overlapped"),
    },
    ("epilogue", "subtiles"): {"persistent": (True,), "overlap": ("rotate",)},
    ("epilogue", "overlapped"): {"persistent": (True,), "overlap": ("none",)},
    ("tile_order", "longest_first"): {"roles": ("producer",), "persistent": (False,)},
    ("barriers", "operand"): {"roles": ("producer",)},
    ("overlap", "rotate"): {"roles": ("producer",)},
    ("overlap", "ping_pong"): {"roles": ("producer",), "persistent": (False,)},
    ("prefetch_tiles", True): {"persistent": (True,), "overlap": ("rotate",)},
}
# Feature -> values that need it; option -> values that it leaves out.
NEEDS: dict[str, tuple[tuple[str, Value], ...]] = {
    "roles": (("roles", "producer"),),
    "wgmma": (("roles", "producer"),),
    "tma": (("persistent", True),),
    "stmatrix": (("epilogue", "staged"), ("epilogue", "subtiles"), ("epilogue", "overlapped")),
}
LEAVES_OUT: dict[str, tuple[tuple[str, Value], ...]] = {
    "no_overlap": (
        ("barriers", "operand"), ("overlap", "rotate"), ("overlap", "ping_pong"),
        ("prefetch_tiles", True),
    ),
    "no_persistent_tiles": (("persistent", True),),
}  # fmt: skip
# What takes shared memory for speed.
SPENDS: tuple[tuple[str, Value], ...] = (
    ("persistent", True),
    ("overlap", "ping_pong"),
    *NEEDS["stmatrix"],
)
NO_ROLES = "warp specialization is not available"

# Cycles, operations and bytes of a multiprocessor of sm_90 (NVIDIA H100 Tensor Core GPU
# Architecture): 16-bit products, lanes of a warp scheduler's four, bytes from the L2 cache.
PRODUCTS, LANES, BYTES = 4096, 128, 64
LATENCY = 800  # from a copy's issue to its arrival
BARRIER = 40  # at a barrier of the block
OPERATIONS = 8  # for an element of a loop
UNKNOWN = 16  # iterations of a loop whose number is not known
IN_FLIGHT = 40 * 1024  # bytes of a multiprocessor: its share of the bandwidth, for the latency
OVERLAPPED = 2  # versions with which one arrives while another one is used
ALONE = 4  # versions with which one warpgroup keeps the memory of a multiprocessor busy
SKIPPED = 2  # versions for each that a loop asks for whose condition skips iterations
SPARE = 1024  # bytes for barriers and what tiles are aligned to
MOST, FEW = 7, 3  # tiles of a serial loop that run ahead; iterations of one


def pipeline_serial_loads(launch: S.Launch, facts: Facts) -> S.Launch:
    """``launch`` whose serial loops over tiles are pipelined where they wait for memory.

    A loop that waits for every tile has the bytes of one tile in flight. Where the blocks of a
    multiprocessor together have too few in flight to keep memory busy, such a loop is pipelined as
    if the program had said so, with as many versions as it takes (two rows of 100 Ki halves a block
    on an H200: 53 us, 22 so). Products are left to ``T.Pipelined``: memory does not bound them. So
    are small tiles, whose iterations take less time than the steps of a pipeline.
    """
    context, limits = facts.context, facts.context.limits
    ordered = S.holds(launch.body, S.Gemm, H.Pipeline, H.Roles)
    if ordered or context.saves_shared or not context.has("cp_async"):
        return launch
    shared = max(1, shared_bytes(launch))
    resident = min(limits.threads_processor // prod(launch.threads), blocks_each(launch, limits))
    resident = max(1, min(resident, limits.shared_processor // shared))

    def pipelined(loop: S.For) -> S.For:
        copies = (stmt for stmt in S.flat(loop.body) if isinstance(stmt, S.Copy))
        sizes = [bytes_of(copy.dst) for copy in copies if is_load(copy)]
        count = trip_count(loop)
        if loop.kind != "serial" or min(sizes, default=0) < LEAST or count in range(FEW):
            return loop
        size = sum(sizes)
        room = (limits.shared_processor // resident - shared) // size
        stages = 1 + min(MOST, -(-IN_FLIGHT // (size * resident)), room)
        # With two versions or fewer, what is in flight is enough, or there is no room.
        hints = replace(loop.hints, num_stages=stages)
        return loop if stages <= 2 else replace(loop, kind="pipelined", hints=hints)

    return launch.with_body(map_stmts(launch.body, S.For, pipelined))


@dataclass(frozen=True)
class Choices:
    """The legal schedules of a launch, the cheapest first, and why values of fields are barred."""

    legal: list[Schedule]
    barred: Barred


def choose_schedules(launch: S.Launch, facts: Facts) -> Choices:
    """The possible schedules of ``launch``, with the fields that it states."""
    loops = [node for node in S.walk(launch.body) if is_pipelined(node)]
    graphs = [IterationGraph.of(loop) for loop in loops]
    barred = _illegal_values(launch, graphs, facts)
    stages, stated = _stages(launch, loops, facts), launch.schedule or Schedule()
    work = _Work.of(launch, graphs, barred, max(map(sum, stages)), facts)
    no_producer = not facts.context.has("roles") or ("roles", "producer") in barred
    more = {} if stated.stages else _one_more(launch, loops, no_producer, work, facts)
    for counts in more:  # ahead of those that have the same price
        takes: Takes = {"roles": ("one",)} if stages.pop(counts, None) is None else {}
        stages = {counts: takes, **stages}
    requires: dict[tuple[str, Value], Takes] = dict(REQUIRES)
    requires.update((("stages", counts), takes) for counts, takes in stages.items())
    domains: Mapping[str, Iterable[Value]] = {"stages": stages, **VALUES}
    values = [[value for value in domains[name] if (name, value) not in barred] for name in FIELDS]
    rest = {
        field.name: getattr(stated, field.name)
        for field in fields_of(Schedule) if field.name not in FIELDS
    }  # fmt: skip
    legal: list[Schedule] = []
    for combination in combinations(*values):
        chosen = dict(zip(FIELDS, combination))
        if _excludes(chosen, requires) is None:
            asked = chosen["stages"]
            assert isinstance(asked, tuple)
            paid = more.get(asked, asked) if chosen["roles"] == "one" else asked
            price = work.price({**chosen, "stages": paid})
            legal.append(Schedule(**{**rest, **chosen, "price": price}))
    return Choices(sorted(legal, key=lambda schedule: schedule.price or 0), barred)


def _stages(launch: S.Launch, loops: Sequence[S.For], facts: Facts) -> dict[tuple[int, ...], Takes]:
    """Versions of the tiles of each loop, the most first -> what they take of other fields: those
    that the program asks for; more that help a producer and cost nothing; and fewer of one loop,
    which leave room for an overlapped epilogue.

    Blocks that have a multiprocessor to themselves leave what they do not use of its shared memory
    idle: those of several warpgroups, whose registers fill it, and those of a grid that has no more
    blocks than the device has multiprocessors. A version more lets operands of one version arrive
    during the products before (attention with heads of 256 elements), and keeps copies in flight
    where a condition skips iterations.
    """
    if launch.schedule is not None and launch.schedule.stages is not None:
        return {launch.schedule.stages * len(loops): {}}
    stated, at_once = tuple(map(stages_of, loops)), facts.fits_at_once(launch)
    room, counts = facts.context.limits.shared_block - SPARE - shared_bytes(launch), list(stated)
    alone = facts.context.has("roles") and (at_once or prod(launch.threads) >= 2 * WARPGROUP)
    least = OVERLAPPED if prod(launch.threads) > WARPGROUP else ALONE
    for k, (loop, stages) in enumerate(zip(loops, stated)):
        if not (alone and stages and counts_versions(loop)):
            continue
        version = max(1, _version_bytes(loop))
        skips = at_once and any(S.holds(node, S.Copy) for node in S.find(loop.body, S.If))
        target = max(least, SKIPPED * stages if skips else stages)
        room -= (stages - 1) * version
        counts[k] += min(target - stages, max(0, room) // version)
        room -= (counts[k] - stages) * version
    return _with_fewer(tuple(counts), stated)


def _one_more(
    launch: S.Launch, loops: Sequence[S.For], no_producer: bool, work: _Work, facts: Facts
) -> dict[tuple[int, ...], tuple[int, ...]]:
    """A version more of the tiles of each loop -> the versions whose price it has. Without a
    producer, copies begin behind the barrier at which all threads have read a version, so that one
    less than there are versions is in flight. Few blocks share a multiprocessor, and as many as
    before; or nothing was in flight, which the price tells."""
    limits, stated = facts.context.limits, tuple(map(stages_of, loops))
    more = range(1 if no_producer else OVERLAPPED, ALONE)
    counts = tuple(n + (n in more and counts_versions(k)) for k, n in zip(loops, stated))
    blocks = list[int]()
    for each in (stated, counts):
        size = 2 * SPARE + shared_bytes(launch)
        size += sum((n - 1) * version for n, version in zip(each, work.versions) if n)
        fits = size <= limits.shared_block
        blocks.append(min(work.resident, limits.shared_processor // size) if fits else 0)
    is_free = blocks[0] <= blocks[1] and blocks[0] < ALONE
    fits = blocks[1] > 0 and counts != stated and facts.context.has("cp_async")
    return {counts: counts if 1 in stated else stated} if fits and (is_free or 1 in stated) else {}


def _with_fewer(largest: tuple[int, ...], stated: tuple[int, ...]) -> dict[tuple[int, ...], Takes]:
    """``largest`` versions, those that are ``stated``, and for one loop all down to the least."""
    fewer = range(largest[0] - 1, LEAST_STAGES - 1, -1) if len(largest) == 1 else ()
    choices: dict[tuple[int, ...], Takes] = {largest: {"roles": ("producer",)}}
    choices.update(((count,), {"epilogue": ("overlapped",)}) for count in fewer)
    return {**choices, stated: {}}


def _excludes(
    chosen: dict[str, Value], requires: Mapping[tuple[str, Value], Takes]
) -> tuple[str, Value] | None:
    """A value that others in ``chosen`` exclude."""
    for name, value in chosen.items():
        for other, allowed in requires.get((name, value), {}).items():
            if chosen[other] not in allowed:
                return name, value
    # Tiles whose results are stored at their end overlap nothing unless products do.
    alone = chosen["persistent"] and chosen["overlap"] == "none"
    return ("persistent", True) if alone and chosen["epilogue"] != "overlapped" else None


def _illegal_values(launch: S.Launch, graphs: list[IterationGraph], facts: Facts) -> Barred:
    """The values that ``launch`` cannot have -> why."""
    context, barred = facts.context, Barred()

    def bar(values: tuple[tuple[str, Value], ...], why: str) -> None:
        for value in values:
            barred.setdefault(value, why)

    for feature, needing in NEEDS.items():
        if not context.has(feature):
            why = NO_ROLES if feature in ("roles", "wgmma") else f"the target has no {feature}"
            bar(needing, why)
    for option, left_out in LEAVES_OUT.items():
        if getattr(context.options, option):
            bar(left_out, "disabled by an option")
    if context.saves_shared:
        bar(SPENDS, "too little shared memory")
    processors = context.limits.processors
    if not processors:
        bar((("persistent", True),), "the number of multiprocessors is not known")
    elif facts.fits_at_once(launch):
        bar((("persistent", True),), f"it has no more tiles than {processors} multiprocessors")
    if not graphs:
        bar((("roles", "producer"),), "no loop of it is pipelined")
    names = {*launch.block_vars, *(node.var for node in S.find(launch.body, S.Let))}
    bounds = [bound for graph in graphs for bound in (graph.loop.start, graph.loop.stop)]
    if all(bound.variables.isdisjoint(names) for bound in bounds):
        bar((("tile_order", "longest_first"),), "all tiles have loops of the same length")
    if all(len(graph.operand_sets) < 2 for graph in graphs):
        bar((("barriers", "operand"),), "an iteration uses all operands together")
    whys = [cannot_rotate(graph) for graph in graphs]
    if graphs and all(whys):
        bar((("overlap", "rotate"),), whys[0])
    if len(graphs) != 1 or len(graphs[0].products) < 2:
        bar((("overlap", "ping_pong"),), "it needs exactly one loop, with several products")
    for name, value in ({} if launch.schedule is None else launch.schedule.stated()).items():
        others: list[Value] = [other for other in VALUES.get(name, ()) if other != value]
        bar(tuple((name, other) for other in others), f"the program states {name}={value!r}")
    return barred


@dataclass(frozen=True)
class _Work:
    """The cost of a tile, in cycles of a multiprocessor.

    Attributes:
        trips: iterations of its loops.
        products, computation, copies: of an iteration.
        first: of the copies of an iteration, until its first product can begin.
        operands: groups of tiles that an iteration uses one after another.
        outside: copies of the tile outside of its loops.
        result: the stores of its result.
        uneven: whether tiles have loops of different lengths.
        max_versions: versions of tiles, of all loops, for which memory has room.
        shared: bytes of its shared tiles with one version; of those that a multiprocessor has.
        versions: bytes of a version of the tiles of each loop.
        resident: blocks of a multiprocessor for which there are threads, registers and work.
    """

    trips: int
    products: int
    computation: int
    copies: int
    first: int
    operands: int
    outside: int
    result: int
    uneven: bool
    max_versions: int
    shared: tuple[int, int]
    versions: tuple[int, ...]
    resident: int

    @classmethod
    def of(
        cls, launch: S.Launch, graphs: list[IterationGraph], barred: Barred, room: int, facts: Facts
    ) -> _Work:
        """The work of ``launch`` for a tile."""
        inside = [stmt for graph in graphs for stmt in S.flat(graph.loop.body)]
        loads = [stmt for stmt in inside if is_load(stmt)]
        sizes = {load.dst.buffer.data: bytes_of(load.dst) for load in loads}
        sets = [tiles for graph in graphs[:1] for tiles in graph.operand_sets]
        nodes = list(S.walk(launch.body))
        copies = [node for node in nodes if isinstance(node, S.Copy)]
        outside = [copy for copy in copies if is_load(copy) and copy not in loads]
        sums = {node.c.buffer for node in nodes if isinstance(node, S.Gemm)}
        out = [copy for copy in copies if copy.dst.buffer.storage == "global"]
        computed = [s for graph in graphs for s in graph.stmts if not isinstance(s, S.Gemm)]
        return cls(
            trips=max((graph.trips or UNKNOWN for graph in graphs), default=1),
            products=sum(map(_multiplications, inside)) // PRODUCTS,
            computation=sum(_elements(s) * OPERATIONS // LANES + 2 for s in computed),
            copies=sum(sizes.values()) // BYTES,
            first=sum(sizes.get(data, 0) for data in (sets[0] if sets else ())) // BYTES,
            operands=max((len(graph.operand_sets) for graph in graphs), default=1),
            outside=sum(bytes_of(copy.dst) // BYTES + 1 for copy in outside),
            result=1 + sum(bytes_of(copy.dst) for copy in out) // BYTES if sums else 0,
            uneven=("tile_order", "longest_first") not in barred,
            max_versions=room,
            shared=(shared_bytes(launch) + SPARE, facts.context.limits.shared_processor),
            versions=tuple(_version_bytes(graph.loop) for graph in graphs),
            resident=_resident(launch, facts),
        )

    def price(self, chosen: dict[str, Value]) -> int:
        """Cycles of a tile with the values of ``chosen``."""
        stages = chosen["stages"]
        assert isinstance(stages, tuple)
        producer, persistent = chosen["roles"] == "producer", chosen["persistent"]
        together = self.products + self.computation
        if chosen["overlap"] != "none":
            # Rotated, each warpgroup computes for all rows of its own products.
            together = max(self.products, self.computation) + (chosen["overlap"] == "rotate")
            # A single version is filled again between consecutive products.
            together += max(0, 2 * self.copies - LATENCY) if 1 in stages else 0
        # A version is used and filled again while the other ones are used.
        held = self.first if chosen["barriers"] == "operand" else self.copies
        refill = (LATENCY + held + together) // max(1, min(stages, default=1))
        iteration = max(together, self.copies, refill if chosen["overlap"] == "none" else 0)
        iteration += BARRIER // 4 if producer else 2 * BARRIER + self.copies // 8
        if chosen["barriers"] == "operand":
            iteration += BARRIER * (self.operands - 1)
        elif chosen["overlap"] != "none":  # operands are used in different iterations
            iteration += self.copies - self.first
        if chosen["epilogue"] != "overlapped":  # whose copies run ahead during the epilogue
            # Copies wait for versions that are free.
            iteration += BARRIER * (self.max_versions - sum(stages))
        start = LATENCY + held
        if persistent:
            start = 0 if chosen["prefetch_tiles"] or not self.outside else LATENCY // 2
        start += chosen["barriers"] == "stage"
        stores = {"direct": 2 * self.result, "staged": self.result, "subtiles": self.result // 2}
        stored = stores.get(str(chosen["epilogue"]), self.result // 8)
        end = 0 if chosen["epilogue"] == "overlapped" else LATENCY // (4 if persistent else 2)
        idle = self.uneven and chosen["tile_order"] == "grid" and not persistent
        total = start + self.outside + self.trips * iteration + end
        total += self.trips * iteration // 2 if idle else 0
        # Blocks that share a multiprocessor wait for memory and compute at the same time. Those
        # with a producer take all its registers.
        busy = self.trips * max(self.products, self.computation, self.copies) + self.outside
        return stored + max(total // (1 if producer else self._blocks(stages)), busy)

    def _blocks(self, stages: tuple[int, ...]) -> int:
        """Blocks that share a multiprocessor, with ``stages`` versions of the tiles of loops."""
        shared, available = self.shared
        shared += sum((count - 1) * size for count, size in zip(stages, self.versions) if count)
        return max(1, min(self.resident, available // shared))


def _resident(launch: S.Launch, facts: Facts) -> int:
    """Blocks of a multiprocessor for which there are threads, registers and work."""
    limits, threads = facts.context.limits, prod(launch.threads)
    tiles = (node.buffer for node in S.find(launch.body, S.Alloc))
    each = fragment_registers(tiles, threads) + array_registers(launch.body) + REGISTERS_BESIDE
    blocks = min(limits.threads_processor // threads, limits.registers // (each * threads))
    return min(blocks, blocks_each(launch, limits))


def _version_bytes(loop: S.For) -> int:
    """Bytes of one version of the tiles that ``loop`` loads."""
    loads = {node.dst.buffer: bytes_of(node.dst) for node in S.walk(loop.body) if is_load(node)}
    for store in S.find(loop.body, S.Store):
        reads = [access for access in effects.accesses(store, nested=True) if access.reads]
        is_loaded = any(access.buffer.storage == "global" for access in reads)
        if store.buffer.storage in SHARED and is_loaded:
            loads.setdefault(store.buffer, store.buffer.constant_bytes)
    return sum(loads.values())


def _multiplications(stmt: S.Stmt) -> int:
    """Multiplications of products in ``stmt``, as of 16-bit elements."""
    total = 0
    for node in S.find(stmt, S.Gemm):
        depth = node.a.extents[-2 if node.trans_a else -1]
        total += prod(n for n in (*node.c.extents, depth) if isinstance(n, int)) * node.a.dtype.bits
    return total // 16


def _elements(stmt: S.Stmt) -> int:
    """Elements of a loop, a reduction or a copy."""
    extents: tuple[E.Expr | int, ...] = ()
    if isinstance(stmt, S.Parallel):
        extents = stmt.extents
    elif isinstance(stmt, (S.Copy, S.Reduce)):
        extents = stmt.src.extents
    return prod(int(n) for n in extents if isinstance(n, (int, E.Const)))
