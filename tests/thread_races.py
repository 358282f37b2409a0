"""Runs programs of threads with a watch over shared memory.

Finds accesses to shared memory that no barrier orders, with a vector clock per thread.

An access by thread u happened before one by thread t when t's clock has seen u's. Barriers, warp
barriers and memory barriers exchange clocks; shuffles and matrix instructions do not, as they
order nothing in memory. Atomic operations are not looked at.
"""

from __future__ import annotations

import io
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilelang import interpret
from tilelang.interpret.machine import Block
from tilelang.interpret.memory import Memory
from tilelang.interpret.observe import Access, Observer
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var


def simulate(
    launch: S.Stmt, arrays: Mapping[Buffer, np.ndarray[Any, Any]],
    symbols: Mapping[Var, int] | None = None, *, safe_memory: bool = False, races: bool = True,
    stdout: Any = None,
) -> None:  # fmt: skip
    """Run all blocks of ``launch`` (or any statement around it) on ``arrays``, in place.

    Args:
        launch: a ``Launch`` in Thread IR.
        arrays: an array of storage elements for each global buffer (bfloat16 as uint16, ...).
        symbols: values of scalar parameters and of the symbols in shapes.
        safe_memory: apply the out-of-bounds rule to plain global loads and stores instead of
            raising; instructions that move several elements always raise.
        races: whether unordered shared accesses are an error.
        stdout: where prints go.
    """
    given = dict(symbols or {})
    interpret.run(
        S.PrimFunc("kernel", (*given, *arrays), launch),
        (*given.values(), *arrays.values()),
        safe_memory=safe_memory,
        stdout=io.StringIO() if stdout is None else stdout,
        observer=Watch() if races else None,
    )


class RaceError(AssertionError):
    """Two threads touch one element, at least one writes, and nothing orders them."""


@dataclass
class Accesses:
    """The last accesses of each unit of a memory."""

    unit: int
    writer: Any  # (units,) thread, -1 before the first write
    written: Any  # (units,) the writer's own clock then
    read: Any  # (units, threads) each reader's own clock at its last read, 0 for none


class Races:
    """Accesses and clocks of one block."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.clock = np.eye(threads, dtype=np.int32)
        self.tables: dict[Memory, Accesses] = {}
        self.published: dict[object, Any] = {}

    def _table(self, memory: Memory) -> Accesses:
        found = self.tables.get(memory)
        if found is None:
            unit = max(1, memory.unit // 2)
            count = -(-memory.size // unit)
            found = self.tables[memory] = Accesses(
                unit,
                np.full(count, -1, np.int32),
                np.zeros(count, np.int32),
                np.zeros((count, self.threads), np.int32),
            )
        return found

    # -- accesses -----------------------------------------------------------------------------
    def touch(self, memory: Memory, name: str, threads: Any, offsets: Any, write: bool) -> None:
        """Threads (n,) touch the bytes ``offsets`` (n, count)."""
        if threads.size == 0:
            return
        table = self._table(memory)
        units = np.asarray(offsets) // table.unit
        # The bytes of an element are in the same units, in order.
        units = units[:, np.append(True, (units[:, 1:] != units[:, :-1]).any(0))]
        writer = table.writer[units]
        other = (writer >= 0) & (writer != threads[:, None])
        seen = self.clock[threads[:, None], np.maximum(writer, 0)]
        bad = other & (seen < table.written[units])
        self._complain(bad, name, threads, writer, units, table, "writes", write)
        if write:
            late = table.read[units] > self.clock[threads][:, None, :]
            reader = late.argmax(-1)
            self._complain(late.any(-1), name, threads, reader, units, table, "reads", write)
            mine = np.broadcast_to(threads[:, None], units.shape)
            table.writer[units] = mine
            table.written[units] = self.clock[mine, mine]
            table.read[units] = 0
        else:
            mine = np.broadcast_to(threads[:, None], units.shape)
            table.read[units, mine] = self.clock[mine, mine]

    def _complain(
        self, bad: Any, name: str, threads: Any, others: Any, units: Any, table: Accesses,
        what: str, write: bool,
    ) -> None:  # fmt: skip
        if not bad.any():
            return
        row, column = (int(axis[0]) for axis in np.nonzero(bad))
        raise RaceError(
            f"thread {int(threads[row])} {'writes' if write else 'reads'} bytes from "
            f"{int(units[row, column]) * table.unit} of `{name}`, which thread "
            f"{int(others[row, column])} {what} with no barrier between"
        )

    # -- order --------------------------------------------------------------------------------
    def publish(self, key: object, members: Any) -> None:
        """``members`` arrive at ``key``."""
        seen = self.clock[members].max(axis=0)
        before = self.published.get(key)
        self.published[key] = seen if before is None else np.maximum(before, seen)
        self.clock[members, members] += 1

    def acquire(self, key: object, members: Any) -> None:
        """``members`` have waited for ``key``."""
        seen = self.published.get(key)
        if seen is not None:
            self.clock[members] = np.maximum(self.clock[members], seen)

    def sync_warps(self, members: Any) -> None:
        """The members of each warp meet."""
        for warp in np.unique(members // 32):
            group = members[members // 32 == warp]
            self.clock[group] = self.clock[group].max(axis=0)
            self.clock[group, group] += 1


class Watch(Observer):
    """Raises :class:`RaceError` for accesses of shared memory that nothing orders."""

    def __init__(self) -> None:
        self.blocks: dict[Block, Races] = {}

    def _races(self, block: Block) -> Races:
        found = self.blocks.get(block)
        if found is None:
            found = self.blocks[block] = Races(block.lanes.count)
        return found

    def access(self, block: Block, access: Access) -> None:
        offsets = access.offsets
        self._races(block).touch(access.memory, access.name, access.threads, offsets, access.write)
        if access.lost:
            raise RaceError(f"threads store different values to one element of `{access.name}`")

    def arrive(self, block: Block, barrier: Hashable, threads: Any) -> None:
        self._races(block).publish(barrier, threads)

    def leave(self, block: Block, barrier: Hashable, threads: Any) -> None:
        self._races(block).acquire(barrier, threads)

    def warp_barrier(self, block: Block, threads: Any) -> None:
        self._races(block).sync_warps(threads)
