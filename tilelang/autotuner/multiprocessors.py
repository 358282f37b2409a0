"""Performance model of GPUs: estimates the time of a traced program.

A multiprocessor runs several blocks at a time. Their work on one unit adds up. A single block is a
chain of dependent steps (start, loads, arithmetic, results), whose latency other blocks and
pipeline stages hide. A launch takes the longer of both on the processor with the most blocks, or
the time of all memory traffic. Constants are from data sheets and microbenchmarks; the others are
fits to ``bench/model_gpu.py``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, prod

from tilelang.autotuner.prune import shared_at_least
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.effects import accesses
from tilelang.profiler.work import Counter, functions_in, work_of
from tilelang.target import Target

LAUNCH = 4e-6  # seconds until the first block runs, and from the last one's end
_GROUP = 128  # threads of a warpgroup


@dataclass(frozen=True)
class Machine:
    """Rates of a machine: ``products`` and ``lanes`` are operations per clock of a processor (of
    16-bit tensor cores, of float32 lanes); ``memory`` and ``cache`` are bytes per second in all."""

    processors: int
    clock: float
    products: float
    lanes: float
    memory: float
    cache: float


# The largest part of each architecture, by its data sheet; caches as microbenchmarks find them.
MACHINES: dict[int, Machine] = {
    75: Machine(40, 1.59e9, 1024, 128, 320e9, 1.3e12),
    80: Machine(108, 1.41e9, 2048, 128, 2.0e12, 4.5e12),
    86: Machine(84, 1.70e9, 1024, 256, 936e9, 2.5e12),
    89: Machine(128, 2.5e9, 1024, 256, 1.0e12, 4.5e12),
    90: Machine(132, 1.75e9, 4096, 256, 4.0e12, 1.1e13),
    100: Machine(148, 1.85e9, 8192, 256, 8.0e12, 1.0e13),
    120: Machine(188, 2.4e9, 1024, 256, 1.8e12, 7e12),
}


@dataclass(frozen=True)
class Costs:
    """Costs in clocks of a multiprocessor, and its rates per clock, fitted to measurements."""

    latency: float = 1500  # of a load of a tile from global memory
    start: float = 2500  # of a block before its first loads and for its results
    block: float = 160  # of the processor until the next block may start
    step: float = 60  # of an iteration over tiles: barriers, addresses
    reduction: float = 80  # over threads
    shared: float = 96  # bytes between shared memory and the units in a clock
    functions: float = 16  # exponentials and the like in a clock
    spilled: float = 20  # bytes of spilled registers in a clock
    exchanged: float = 2.5  # elements per clock that move between warpgroups
    tight: float = 24  # registers of a thread that products of warpgroups need free
    exposed: float = 0.25  # share of other work that does not overlap the bottleneck
    registers: float = 26  # of a thread, besides the tiles of products
    registers_simt: float = 40  # the same without products, besides tiles of which
    live: float = 0.6  # are alive at a time


COSTS = Costs()


@dataclass
class Launch:
    """The work of all blocks of one launch."""

    blocks: float
    threads: int
    shared_size: int
    groups: bool  # whether products may be wgmma
    tiles: float = 0.0  # bytes of fragments of a block, or of the values of its loops
    products: float = 0.0  # operations, as a multiple of those with 16-bit operands
    lanes: float = 0.0
    functions: float = 0.0
    loaded: float = 0.0  # bytes between global memory and the blocks
    shared: float = 0.0  # bytes between shared memory and the units
    steps: float = 0.0  # iterations of loops that load
    reductions: float = 0.0  # over threads
    exchanged: float = 0.0  # elements of register operands that other warpgroups hold
    stages: int = 1
    fed: bool = False  # a product reads tiles of a pipeline
    multiplied: int = 0  # products in its source
    narrow: bool = True  # results have 16 bits


class Flow(Counter):
    """Adds up the traffic and arithmetic of each launch."""

    def __init__(self, symbols: Mapping[str, int], groups: bool) -> None:
        super().__init__(symbols)
        self.groups = groups
        self.launches: list[Launch] = []

    def visit(self, stmt: S.Stmt, times: float, known: dict[E.Var, E.Expr]) -> None:
        """Count ``stmt``; a launch opens an entry of its own."""
        if isinstance(stmt, S.Launch):
            blocks = times * prod(self.extents(stmt.grid, known))
            size = shared_at_least(stmt)
            self.launches.append(Launch(blocks, prod(stmt.threads), size, self.groups))
        super().visit(stmt, times, known)

    def own(self, stmt: S.Stmt, times: float, known: Mapping[E.Var, E.Expr]) -> None:
        """Count the traffic and arithmetic of the statement itself."""
        before = self.flops, self.products
        super().own(stmt, times, known)
        if not self.launches:
            return
        launch = self.launches[-1]
        launch.lanes += (self.flops - before[0]) - (self.products - before[1])
        if isinstance(stmt, S.Copy):
            size = prod(self.extents(stmt.dst.extents, known))
            moved = times * size * stmt.dst.dtype.bits / 8
            scopes = stmt.src.scope(), stmt.dst.scope()
            launch.loaded += moved * ("global" in scopes)
            launch.narrow &= scopes[1] != "global" or stmt.dst.dtype.bits == 16
            launch.shared += moved * any(scope.startswith("shared") for scope in scopes)
        elif isinstance(stmt, S.Gemm):
            launch.multiplied += 1
            launch.products += (self.products - before[1]) * stmt.b.dtype.bits / 16
            self._operands(launch, stmt, times, known)
        elif isinstance(stmt, S.Alloc):
            if stmt.buffer.scope() == "local.fragment":
                launch.tiles += self.size(stmt.buffer)
        elif isinstance(stmt, S.Reduce):
            launch.reductions += times
        elif isinstance(stmt, S.Parallel):
            self._loop(launch, stmt, times, known)
        elif isinstance(stmt, S.For) and stmt.kind in ("serial", "pipelined"):
            stages = stmt.hints.num_stages
            launch.stages = max(launch.stages, 1 if stages is None else stages)
            launch.steps += times
            products = S.find(stmt.body, S.Gemm)
            launch.fed |= stmt.kind == "pipelined" and any(n.b.dtype.bits <= 16 for n in products)

    def _loop(
        self, launch: Launch, loop: S.Parallel, times: float, known: Mapping[E.Var, E.Expr]
    ) -> None:
        """A loop over ``times`` elements."""
        launch.functions += times * functions_in(loop)
        count = prod(self.extents(loop.extents, known))
        for buffer, _, _ in {
            (a.buffer, a.where, a.writes) for a in accesses(loop.body, nested=True)
        }:
            if buffer.scope() == "global":
                launch.loaded += times * buffer.dtype.bits / 8
                launch.tiles = max(launch.tiles, 8.0 * count)
            elif buffer.scope().startswith("shared"):
                launch.shared += times * buffer.dtype.bits / 8

    def _operands(
        self, launch: Launch, gemm: S.Gemm, times: float, known: Mapping[E.Var, E.Expr]
    ) -> None:
        """Bytes that the warps of a block read from shared memory for a product."""
        m, n, k = self.sides(gemm, known)
        warps, in_registers = max(1, launch.threads // 32), gemm.a.scope() == "local.fragment"
        rows, columns, reads = 1, 1, 0
        if self.groups and m % 64 == 0 and warps % 4 == 0:
            count = warps // 4
            rows = max(at for at in range(1, count + 1) if count % at == 0 and m % (64 * at) == 0)
            columns, reads = count // rows, m // 64
            launch.exchanged += times * m * k * (in_registers and columns > 1)
        else:
            splits = [(r, warps // r) for r in range(1, warps + 1) if warps % r == 0]
            rows, columns = min(splits, key=lambda rc: m / rc[0] + n / rc[1])
            reads = rows
        a_reads = 0 if in_registers else m * columns
        launch.shared += times * (a_reads + n * reads) * k * gemm.b.dtype.bits / 8


def on_multiprocessors(
    func: S.PrimFunc, target: Target, symbols: Mapping[str, int] | None = None
) -> dict[str, float]:
    """Unit -> seconds that a call of ``func`` keeps it busy. "latency" is the time of dependent
    steps beyond that of the busiest unit."""
    capability = target.concrete().compute or (0, 0)
    flow = Flow(dict(symbols or {}), groups="wgmma" in target.features)
    flow.visit(func.body, 1.0, {})
    number = capability[0] * 10 + capability[1]
    machine = MACHINES[max((at for at in MACHINES if at <= number), default=min(MACHINES))]
    memory = work_of(func, symbols).bytes / machine.memory
    parts = {"memory": memory, "cache": 0.0, "launches": 0.0}
    for launch in flow.launches:
        for name, seconds in _launched(launch, machine, target).items():
            parts[name] = parts.get(name, 0.0) + seconds
        parts["launches"] += LAUNCH
    return parts


def has_producer(launch: Launch, target: Target) -> bool:
    """Whether the launch gets a producer warpgroup, see
    :mod:`tilelang.transforms.schedule.specialize_warps`."""
    several = 2 * launch.shared_size <= target.concrete().limits.shared_processor
    return (
        launch.groups and launch.fed and launch.stages > 1 and launch.threads % _GROUP == 0
        and (launch.threads > _GROUP or not several)
    )  # fmt: skip


def is_persistent(launch: Launch, machine: Machine, target: Target) -> bool:
    """Whether the launch becomes a persistent kernel, see
    :mod:`tilelang.transforms.schedule.persistent_epilogue`."""
    several = launch.threads > _GROUP and launch.blocks > machine.processors
    alone = launch.multiplied == 1 and launch.narrow
    return has_producer(launch, target) and several and alone


def resident(launch: Launch, target: Target) -> tuple[int, float]:
    """Blocks that are resident on one multiprocessor, and free registers of a thread; negative if
    values are spilled."""
    limits, roles = target.concrete().limits, has_producer(launch, target)
    threads = launch.threads + _GROUP * roles
    count = min(limits.blocks_processor, limits.threads_processor // threads)
    if launch.shared_size:
        count = min(count, limits.shared_processor // launch.shared_size)
    own = launch.tiles / 4 / launch.threads
    wants = COSTS.registers + own if launch.products else COSTS.registers_simt + own * COSTS.live
    available = limits.registers_at_start(launch.threads) if launch.threads else 0
    used = min(wants, available)
    if roles:
        used = limits.registers_at_start(threads)
    return max(1, min(count, int(limits.registers // (used * threads)))), available - wants


def _launched(launch: Launch, machine: Machine, target: Target) -> dict[str, float]:
    """Unit -> seconds that it is busy, and "latency": the latency that nothing hides."""
    costs, blocks = COSTS, max(1.0, launch.blocks)
    fit, free = resident(launch, target)
    blocks_each = ceil(blocks / machine.processors)  # of one processor
    together = min(fit, blocks_each)
    feed = min(1.0, together * launch.threads / 256)  # few warps do not fill the units
    steps = max(1.0, launch.steps / blocks)
    moved = max(0.0, -free) * launch.threads * 8 * steps / costs.spilled
    units = {
        "products": launch.products / machine.products,
        "lanes": (launch.lanes / machine.lanes + launch.functions / costs.functions) / feed,
        "shared memory": launch.shared / costs.shared + launch.exchanged / costs.exchanged,
    }
    units = {name: value / blocks for name, value in units.items()}
    matrix = max(units["products"], units["shared memory"])  # one instruction uses both
    bound, other = max(matrix, units["lanes"]), min(matrix, units["lanes"])
    # Warpgroups overlap each other, and a pipelined one overlaps its own product in flight.
    groups = max(1, together * launch.threads // _GROUP) + (launch.fed and launch.stages > 1)
    exposed = max(costs.exposed, 1 / groups) if launch.products else costs.exposed
    if launch.groups and launch.products and free < costs.tight:
        exposed = 1.0  # ptxas serializes wgmma where registers are short (C7512)
    busy = bound + exposed * other + moved
    ahead = launch.stages if has_producer(launch, target) else launch.stages - 1
    rate = machine.cache / machine.processors / machine.clock
    wait = costs.latency + launch.loaded / blocks / steps / rate
    step = max(busy / steps, wait / ahead) if ahead else busy / steps + wait
    chain = steps * (step + costs.step) + launch.reductions / blocks * costs.reduction
    edges = costs.start + wait  # prologue and epilogue
    if is_persistent(launch, machine, target):  # one block per processor computes all tiles
        total = blocks_each * chain + edges
    else:
        total = max(blocks_each * max(busy, costs.block), ceil(blocks_each / fit) * (chain + edges))
    clocks = {name: blocks_each * value for name, value in units.items()}
    clocks["latency"] = total - max(clocks.values())
    seconds = {name: value / machine.clock for name, value in clocks.items()}
    return seconds | {"cache": launch.loaded / machine.cache}
