"""Performance model of CPU cores: estimates the time of a traced program.

A core runs a block statement by statement, so that their times add up. Besides arithmetic and
bytes, the model counts three costs that depend on the configuration: matrix kernels work on
register tiles and waste time on sizes that are not multiples of them; each row of a tile is a loop
with a start and an end; a row that is a part of a tensor's row is a jump in memory, and the
prefetcher follows only a few rows at a time. The constants are fits to ``bench/model_search.py``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.effects import accesses
from tilelang.profiler.work import Counter, functions_in, work_of

_CLOCK = 2.5e9
_PRODUCTS, _LANES = 32, 16  # operations of a core in a clock: of matrix kernels, of loops
_MEMORY, _CACHE = 12e9, 25e9  # bytes in a second, for each core
_FUNCTION, _SCALAR = 1e-9, 10e-9  # seconds of an exponential: in a vector, on its own
_BLOCK = 0.1e-6  # seconds of overhead of a block, or of an iteration over tiles
_ROW, _SUM = 1e-9, 2e-9  # seconds of overhead of a loop over a row, and of one that sums it
_FEW = 16  # rows that the prefetcher follows at a time
_NEAR, _READ, _WRITE = 2e-9, 4e-9, 30e-9  # of a jump: among few rows; many: read, write
_EDGE = (6, 8, 6)  # rows, columns and steps that a product wastes at the edge of a tile
_FIRST, _SECOND = 32 << 10, 512 << 10  # bytes of the caches of a core
_STRIDED = (0.2e-9, 0.8e-9, 1.2e-9)  # of a strided read, by cache level
_LAUNCH = 2e-6
_WIDE, _MIN_BLOCKS = 2048, 16  # see :mod:`tilelang.cpu.loops.block_coarsening`


@dataclass
class _Launch:
    """The work of all blocks of one launch, in seconds of one core."""

    blocks: float
    grid: Sequence[int]
    parts: dict[str, float] = field(default_factory=dict)
    tiles: float = 0.0  # bytes
    rank: int = 0  # dimensions of the largest loop
    narrow: float = 0.0  # functions in loops of fewer dimensions: of a row, not of its elements
    multiplies: bool = False

    def add(self, part: str, seconds: float) -> None:
        """Add ``seconds`` to a part of the machine."""
        self.parts[part] = self.parts.get(part, 0.0) + seconds


class _Cores(Counter):
    """Adds up the work of each launch."""

    def __init__(self, symbols: Mapping[str, int]) -> None:
        super().__init__(symbols)
        self.launches: list[_Launch] = []

    def visit(self, stmt: S.Stmt, times: float, known: dict[E.Var, E.Expr]) -> None:
        """Count ``stmt``; a launch opens an entry of its own."""
        if isinstance(stmt, S.Launch):
            grid = self.extents(stmt.grid, known)
            launch = _Launch(times * prod(grid), grid)
            loops = S.find(stmt.body, S.Parallel)
            launch.rank = max((len(loop.vars) for loop in loops), default=0)
            launch.multiplies = S.holds(stmt.body, S.Gemm)
            launch.add("latency", launch.blocks * _BLOCK)
            self.launches.append(launch)
        super().visit(stmt, times, known)

    def own(self, stmt: S.Stmt, times: float, known: Mapping[E.Var, E.Expr]) -> None:
        """Count the work of the statement itself."""
        before = self.flops
        super().own(stmt, times, known)
        if not self.launches:
            return
        launch = self.launches[-1]
        if isinstance(stmt, S.Gemm):
            self._product(launch, stmt, times, known)
            return
        launch.add("lanes", (self.flops - before) / (_LANES * _CLOCK))
        if isinstance(stmt, S.Alloc):
            launch.tiles += self.size(stmt.buffer)
        elif isinstance(stmt, S.Copy):
            extents = self.extents(stmt.dst.extents, known)
            launch.add("latency", times * prod(extents[:-1]) * _ROW)
            for region, writes in ((stmt.src, False), (stmt.dst, True)):
                if region.scope() == "global":
                    sizes = self.extents(region.extents, known)
                    self._global(launch, region.buffer, sizes, times, writes)
        elif isinstance(stmt, S.Reduce):
            extents = self.extents(stmt.src.extents, known)
            launch.add("latency", times * prod(extents[:-1]) * _SUM)
        elif isinstance(stmt, S.Parallel):
            self._loop(launch, stmt, times, known)
        elif isinstance(stmt, S.For) and stmt.kind in ("serial", "pipelined"):
            launch.add("latency", times * _BLOCK)

    def _product(
        self, launch: _Launch, gemm: S.Gemm, times: float, known: Mapping[E.Var, E.Expr]
    ) -> None:
        sizes = [size + edge for size, edge in zip(self.sides(gemm, known), _EDGE)]
        launch.add("products", times * 2.0 * prod(sizes) / (_PRODUCTS * _CLOCK))

    def _global(
        self, launch: _Launch, buffer: Buffer, sizes: Sequence[int], times: float, writes: bool
    ) -> None:
        """Bytes of a box of a tensor, and the jumps between its rows."""
        size = times * prod(sizes)
        launch.add("cache", size * buffer.dtype.bits / 8 / _CACHE)
        rows, row_length = prod(sizes[:-1]), self.extent(buffer.shape[-1], {})
        width = sizes[-1]
        if not launch.multiplies:
            width *= self._widened(launch, width)
        if rows == 1 or width >= row_length:
            return
        cost = _NEAR if rows <= _FEW else _WRITE if writes else _READ
        launch.add("cache", size / width * cost)

    def _widened(self, launch: _Launch, width: int) -> int:
        """Return the number of blocks along a row that are coarsened into one."""
        across, others = launch.grid[0], prod(launch.grid[1:])
        fit = (n for n in range(across, 1, -1) if across % n == 0 and n * width <= _WIDE)
        return next((n for n in fit if others * (across // n) >= _MIN_BLOCKS), 1)

    def _loop(
        self, launch: _Launch, loop: S.Parallel, times: float, known: Mapping[E.Var, E.Expr]
    ) -> None:
        """A loop over ``times`` elements."""
        extents = {var: self.extent(e, known) for var, e in zip(loop.vars, loop.extents)}
        launch.add("latency", times / max(1, extents[loop.vars[-1]]) * _ROW)
        runs = times / max(1, prod(extents.values()))
        calls = functions_in(loop)
        if len(loop.vars) < launch.rank:
            launch.narrow += calls * times
        else:
            launch.add("lanes", calls * times * _FUNCTION)
        used = [(a.buffer, a.where, a.writes) for a in accesses(loop.body, nested=True)]
        for buffer, indices, writes in dict.fromkeys(used):
            if not isinstance(indices, tuple) or not indices:
                continue
            inner = [var for var in loop.vars if var in indices[-1].variables]
            if buffer.scope() == "global":
                width = extents[inner[-1]] if inner else 1
                rows = prod(extents[v] for v in extents if any(v in i.variables for i in indices))
                self._global(launch, buffer, [rows // max(1, width), width], runs, writes)
            elif len(loop.vars) > 1 and inner and inner[-1] is not loop.vars[-1]:
                size = self.size(buffer)
                launch.add("cache", times * _STRIDED[(size > _FIRST) + (size > _SECOND)])


def on_cores(func: S.PrimFunc, symbols: Mapping[str, int] | None = None) -> dict[str, float]:
    """Part of the machine -> seconds of a call of ``func`` that it takes, on all cores."""
    cores = os.cpu_count() or 1
    counted = _Cores(dict(symbols or {}))
    counted.visit(func.body, 1.0, {})
    parts = {"memory": work_of(func, symbols).bytes / (_MEMORY * cores)}
    for launch in counted.launches:
        launch.add("lanes", launch.narrow * _SCALAR)
        if launch.tiles > _SECOND and not launch.multiplies:  # tiles leave the cache of a core
            launch.add("cache", 0.1 * parts["memory"] * cores * (launch.tiles / _SECOND) ** 0.5)
        blocks = max(1.0, launch.blocks)
        share = ceil(blocks / cores) / blocks  # share of the core with the most blocks
        for name, seconds in launch.parts.items():
            parts[name] = parts.get(name, 0.0) + seconds * share
        parts["latency"] = parts.get("latency", 0.0) + _LAUNCH
    return parts
