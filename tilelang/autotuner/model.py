"""How long a traced program takes, estimated from its own text and the figures of the machine.

Nothing is compiled or run. What counts for tiles: how evenly blocks fill the processors, what the
matrix units and the lanes do, what moves between global and shared memory and from there to the
units, and how much of the latency of a load is left uncovered by stages and by other blocks. The
estimate is for comparing configurations of one program; its absolute value is rough.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod

from tilelang.autotuner.cores import on_cores
from tilelang.autotuner.prune import accumulators, shared_at_least
from tilelang.errors import TileValueError
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.profiler.work import Counter, work_of
from tilelang.target import Target

MODEL = "model"  # instead of configurations, or of a strategy
_LAUNCH = 2e-6  # seconds until the first block runs
_LATENCY = 700  # clocks of a load from global memory
_SHARED_RATE = 128  # bytes in a clock of one multiprocessor
_STEP = 60  # clocks of an iteration for barriers and addresses
_OVERLAP = 0.2  # share of what is not the bottleneck that does not run beside it
_OTHER_REGISTERS = 40  # of a thread, for addresses and operands


@dataclass(frozen=True)
class Machine:
    """Rates of a machine: ``products`` and ``lanes`` are operations of a processor in a clock (of
    16-bit matrix units, of float32 lanes); ``memory`` and ``cache`` bytes in a second of all
    together."""

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
    90: Machine(132, 1.75e9, 4096, 256, 4.0e12, 6.5e12),
    100: Machine(148, 1.85e9, 8192, 256, 8.0e12, 1.0e13),
    120: Machine(188, 2.4e9, 1024, 256, 1.8e12, 7e12),
}


@dataclass(frozen=True)
class Estimate:
    """Milliseconds of one call, and which part of the machine they are spent on: "products",
    "lanes", "shared memory", "cache", "memory" or "latency"."""

    milliseconds: float
    bound: str

    def __str__(self) -> str:
        return f"{self.milliseconds:.3g} ms, bound by {self.bound}"


@dataclass
class _Launch:
    """What all blocks of one launch do together."""

    blocks: float
    threads: int
    shared_size: int
    registers: float
    products: float = 0.0
    lanes: float = 0.0
    loaded: float = 0.0  # bytes between global memory and the blocks
    shared: float = 0.0  # bytes between shared memory and the units
    waits: float = 0.0  # iterations of loops that load, each as often as all blocks make it
    stages: int = 1


class _Flow(Counter):
    """Adds up what each launch moves and computes."""

    def __init__(self, symbols: Mapping[str, int], groups: bool) -> None:
        super().__init__(symbols)
        self.groups = groups
        self.launches: list[_Launch] = []

    def visit(self, stmt: S.Stmt, times: float, known: dict[E.Var, E.Expr]) -> None:
        """Count ``stmt``; a launch opens an entry of its own."""
        if isinstance(stmt, S.Launch):
            threads = prod(stmt.threads)
            blocks = times * prod(self.extent(extent, known) for extent in stmt.grid)
            registers = accumulators(stmt) / threads + _OTHER_REGISTERS
            self.launches.append(_Launch(blocks, threads, shared_at_least(stmt), registers))
        super().visit(stmt, times, known)

    def own(self, stmt: S.Stmt, times: float, known: Mapping[E.Var, E.Expr]) -> None:
        """Count what the statement itself moves and computes."""
        before = self.flops, self.products
        super().own(stmt, times, known)
        if not self.launches:
            return
        here = self.launches[-1]
        here.products += self.products - before[1]
        here.lanes += (self.flops - before[0]) - (self.products - before[1])
        if isinstance(stmt, S.Copy):
            size = prod(self.extent(e, known) for e in stmt.dst.extents)
            moved = times * size * stmt.dst.dtype.bits / 8
            scopes = stmt.src.scope(), stmt.dst.scope()
            here.loaded += moved * ("global" in scopes)
            here.shared += moved * any(scope.startswith("shared") for scope in scopes)
        elif isinstance(stmt, S.Gemm):
            here.shared += times * self._operands(stmt, known, here.threads)
        elif isinstance(stmt, S.For) and stmt.kind in ("serial", "pipelined"):
            stages = dict(stmt.annotations).get("num_stages")
            here.stages = max(here.stages, stages if isinstance(stages, int) else 1)
            here.waits += times

    def _operands(self, gemm: S.Gemm, known: Mapping[E.Var, E.Expr], threads: int) -> float:
        """Bytes that the warps of a block read from shared memory for one product."""
        m, n = (self.extent(e, known) for e in gemm.c.extents[-2:])
        k = self.extent(gemm.a.extents[-2:][0 if gemm.trans_a else 1], known)
        warps = max(1, threads // 32)
        if self.groups and m % 64 == 0 and warps % 4 == 0:
            return (m + n * warps / 4) * k * gemm.a.dtype.bits / 8
        splits = [(r, warps // r) for r in range(1, warps + 1) if warps % r == 0]
        rows, columns = min(splits, key=lambda rc: m / rc[0] + n / rc[1])
        return (m * columns + n * rows) * k * gemm.a.dtype.bits / 8


def estimate(
    func: S.PrimFunc, target: Target, symbols: Mapping[str, int] | None = None
) -> Estimate:
    """How long one call of ``func`` takes on ``target``."""
    capability = target.concrete().compute
    if capability is None:
        parts = on_cores(func, symbols)
        bound = max(parts, key=parts.__getitem__)
        own = sum(parts.values()) - parts["memory"]  # a core does one thing after the other
        total = max(own, parts["memory"]) + _OVERLAP * min(own, parts["memory"])
        return Estimate(total * 1e3, bound)
    flow = _Flow(dict(symbols or {}), groups="wgmma" in target.features)
    flow.visit(func.body, 1.0, {})
    number = capability[0] * 10 + capability[1]
    machine = MACHINES[max((at for at in MACHINES if at <= number), default=min(MACHINES))]
    launches = [_on_gpu(item, machine, target) for item in flow.launches]
    parts = {"memory": work_of(func, symbols).bytes / machine.memory}
    for found in launches:
        for name, seconds in found.items():
            parts[name] = parts.get(name, 0.0) + seconds
    bound = max(parts, key=parts.__getitem__)
    total = parts[bound] + _OVERLAP * (sum(parts.values()) - parts[bound])
    return Estimate((total + _LAUNCH * len(launches)) * 1e3, bound)


def resident(launch: _Launch, target: Target) -> int:
    """Blocks that one multiprocessor holds at a time."""
    limits = target.concrete().limits
    found = min(limits.blocks_processor, limits.threads_processor // launch.threads)
    if launch.shared_size:
        found = min(found, limits.shared_processor // launch.shared_size)
    return max(1, min(found, int(limits.registers // (launch.registers * launch.threads))))


def _on_gpu(launch: _Launch, machine: Machine, target: Target) -> dict[str, float]:
    """Part of the machine -> seconds that it is busy, with what latency leaves uncovered."""
    blocks = max(1.0, launch.blocks)
    held = resident(launch, target)
    mine = ceil(blocks / machine.processors)  # blocks of the processor that has most
    side_by_side = min(held, mine)
    warps = side_by_side * launch.threads / 32
    feed = min(1.0, warps / 8)  # fewer warps leave the units idle between instructions
    per_block = {
        "products": launch.products / blocks / machine.products / feed,
        "lanes": launch.lanes / blocks / machine.lanes / feed,
        "shared memory": launch.shared / blocks / _SHARED_RATE,
    }
    busy = max(per_block.values())
    steps = launch.waits / blocks
    step = busy / max(1.0, steps)
    ahead = (launch.stages - 1 + side_by_side - 1) * step
    # Each round of blocks fills its pipelines anew, and waits where nothing else is to be done.
    idle = 2 * _LATENCY + steps * (_STEP + max(0.0, _LATENCY - ahead))
    clocks = {name: mine * value for name, value in per_block.items()}
    clocks["latency"] = ceil(mine / held) * idle
    seconds = {name: value / machine.clock for name, value in clocks.items()}
    return seconds | {"cache": launch.loaded / machine.cache}


# -- configurations by name -----------------------------------------------------------------------
# What programs call a tuned parameter -> values worth a look on a GPU and on a CPU.
_SIZES = (16, 64, 128, 256, 512)
_NAMES: dict[str, tuple[Sequence[int], Sequence[int]]] = {
    "blockm": ((64, 128, 256), _SIZES),
    "blockn": ((64, 128, 256), _SIZES),
    "blockk": ((32, 64, 128), (64, 128, 256)),
    "block": ((16, 32, 64, 128, 256), (256, 1024, 4096, 16384)),
    "stages": ((1, 2, 3, 4), (1,)),
    "threads": ((128, 256), (128,)),
}
_OTHER_NAMES = {
    "bm": "blockm", "tilem": "blockm", "blocksizem": "blockm", "bn": "blockn", "tilen": "blockn",
    "blocksizen": "blockn", "bk": "blockk", "tilek": "blockk", "blocksizek": "blockk",
    "reduceblockk": "blockk", "blocksize": "block", "tile": "block", "tilesize": "block",
    "numstages": "stages", "stage": "stages", "numstage": "stages", "numthreads": "threads",
    "threadnum": "threads", "nthreads": "threads", "numthread": "threads",
}  # fmt: skip


def values_for(name: str, target: Target) -> list[int] | None:
    """Values worth a look for a parameter of this name; None where the name says nothing."""
    plain = name.replace("_", "").lower()
    found = _NAMES.get(_OTHER_NAMES.get(plain, plain))
    return None if found is None else list(found[not target.is_gpu])


def configurations(name: str, free: Sequence[str], target: Target) -> list[dict[str, int]]:
    """Configurations of parameters by what their names say.

    Raises:
        TileValueError: no name says anything.
    """
    known = {item: values_for(item, target) for item in free}
    named = {item: values for item, values in known.items() if values is not None}
    if not named:
        raise TileValueError(
            f'configs="model" finds no parameter of `{name}` that it knows',
            expected="parameters with defaults called block_M, block_N, block_K, block_size, "
            "num_stages or threads",
            got=", ".join(free) or "none",
        )
    return [dict(zip(named, row)) for row in product(*named.values())]
