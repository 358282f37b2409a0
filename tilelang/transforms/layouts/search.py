"""Layout search: the cheapest layouts for a whole launch.

For most programs the propagated layouts are enough. Where an operation would have to work on a copy
of a fragment, the search tries each layout that the operations of that fragment prefer, propagates
it, and keeps it if the launch becomes cheaper.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from math import fsum, prod
from typing import TypeVar

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.layouts import access as A, cost, propagation
from tilelang.transforms.layouts.loops import free_mapping

Found = TypeVar("Found", bound="Priced")
MOST_TRIED = 32  # layouts that are tried instead of those that follow, at a time
MOST_REGISTERS = 144  # of a thread, in fragments
WORTH = 0.97  # of the cycles, or a barrier less: what takes more is not worth another layout


class Priced(propagation.Layouts):
    """Layouts of a launch, and what they cost."""

    def cost(self) -> float:
        """Cycles of a block in operations on fragments, and in the exchanges that they need."""
        return fsum(self.surroundings.times[op.stmt] * self.cost_of(op) for op in self.ops) + fsum(
            self.conversion_cost(op, buffer, layout)
            for op in self.ops
            for buffer, layout in self.conflicts(op.stmt)
        )

    def cost_of(self, op: propagation.Op) -> float:
        """Cycles of one operation, with its tiles in the layouts that it needs."""
        warp = self.context.limits.warp
        if isinstance(op.stmt, S.Reduce):
            source, target = self.endpoints_of(op.stmt)
            return 0.0 if source is None else cost.of_reduction(op.stmt, source, target, warp)
        spread = self.spread_of(op.stmt)
        if op.loop is None or spread is None or effects.uses_tma(op.stmt):
            return 0.0
        return cost.of_loop(op.loop, spread, warp)

    def conversion_cost(
        self, op: propagation.Op, buffer: Buffer, layout: RegisterLayout | None
    ) -> float:
        """Cycles that the block takes to bring ``buffer`` to ``op``, and back if it is written."""
        around = self.surroundings
        written = A.writes(op.stmt, buffer)
        steady = None if written else around.steady(op.stmt, buffer.data)
        times = around.times[op.stmt if steady is None else steady]
        current = self.layout_of(buffer)
        if current is not None and layout is not None:
            shuffles = cost.of_shuffles(current, layout, self.context.limits.warp)
            return times * (1 + written) * shuffles
        size = prod(propagation.constant_shape(buffer)) * buffer.dtype.bits // 8
        return times * cost.of_exchange(size, 2 + 2 * written, 2 + written)

    def register_count(self) -> int:
        """Registers of a thread for the fragments that are live at a time, at most."""
        counts = {
            buffer.data: -(-layout.register_count * buffer.dtype.bits // 32)
            for buffer, layout in self.registers.items()
        }
        live = self.surroundings.live
        return max((sum(counts.get(data, 0) for data in names) for names in live), default=0)

    @property
    def register_room(self) -> int:
        """Registers of a thread that fragments may take without a thought."""
        return min(MOST_REGISTERS, 32768 // self.block_threads)

    def offers(self, fixed: Collection[Buffer]) -> Iterator[tuple[Buffer, RegisterLayout]]:
        """Other layouts for the fragments of operations that need conversions, without those whose
        layouts are ``fixed``."""
        concerned = (
            buffer
            for op in self.ops
            if self.conflicts(op.stmt) or self.is_delivered(op)
            for buffer in propagation.fragments_of(op)
        )
        others = (
            (buffer, layout)
            for buffer in dict.fromkeys(concerned)
            if buffer not in fixed
            for layout in dict.fromkeys(self.layouts_for(buffer))
        )
        for buffer, layout in chain(others, self.rows_in_warps()):
            if not (buffer in fixed or A.is_reducer(buffer) or layout == self.layout_of(buffer)):
                yield buffer, layout

    def is_delivered(self, op: propagation.Op) -> bool:
        """Whether the results of a reduction go to other threads than those that have them."""
        if not isinstance(op.stmt, S.Reduce):
            return False
        src, dst = self.endpoints_of(op.stmt)
        if src is None or dst is None:
            return False
        return not src.drop(op.stmt.dim).with_shape(dst.shape).contains(dst)

    def rows_in_warps(self) -> Iterator[tuple[Buffer, RegisterLayout]]:
        """For tiles whose reductions combine elements of several warps, which they do in shared
        memory, the layouts that have each row in one warp."""
        warp = self.context.limits.warp
        for stmt in (op.stmt for op in self.ops if isinstance(op.stmt, S.Reduce)):
            source, _ = self.endpoints_of(stmt)
            layout = None if source is None else source.rows_in_warps(stmt.dim, warp)
            if source is None or layout is None:
                continue
            modes = (mode for mode in source.modes[stmt.dim] if mode.kind == "thread")
            if any(mode.extent * mode.stride > warp for mode in modes):
                yield stmt.src.buffer, layout

    def endpoints_of(self, stmt: S.Reduce) -> tuple[RegisterLayout | None, RegisterLayout | None]:
        """The layouts of the tiles of a reduction; None for memory and where parts are reduced."""
        if not (stmt.src.is_whole and stmt.dst.is_whole):
            return None, None
        return self.layout_of(stmt.src.buffer), self.layout_of(stmt.dst.buffer)

    def layouts_for(self, buffer: Buffer) -> Iterator[RegisterLayout]:
        """The layouts that the operations on ``buffer`` would choose, each for itself."""
        shape = propagation.constant_shape(buffer)
        for op in map(self.ops.__getitem__, self.users.get(buffer, ())):
            if isinstance(op.stmt, S.Reduce):
                source, _ = self.endpoints_of(op.stmt)
                if op.stmt.dst.buffer is buffer and source is not None:
                    yield source.drop(op.stmt.dim).with_shape(shape)
            elif op.loop is not None and op.extents is not None:
                others = (a for a in op.touched if a.buffer is not buffer)
                known = ((a, self.layout_of(a.buffer)) for a in others)
                spreads = [free_mapping(op.loop, op.extents, op.threads, op.bounds)]
                spreads += [
                    spread
                    for a, known_layout in known
                    if known_layout is not None
                    and (spread := A.mapping_from_layout(a, known_layout, op.loop, op.extents))
                    is not None
                ]
                for access in op.touched:
                    if access.buffer is buffer:
                        for spread in dict.fromkeys(spreads):
                            layout = A.layout_from_mapping(
                                access, op.loop, spread, shape, slices=True
                            )
                            if layout is not None:
                                yield layout
                                yield layout.alone()
        if prod(shape) * buffer.dtype.bits <= propagation.MAX_COPIED:
            yield RegisterLayout.fully_replicated(shape, self.fragments[buffer])


def cheapest(seeded: Found) -> Found:
    """The layouts that follow from those of ``seeded``, made better while another layout of one
    fragment makes the whole launch cheaper: the others follow it, or stay as they are."""
    best = seeded.propagate({})
    assert best is not None
    if not any(True for _ in best.offers(seeded.registers)):
        return best
    reasons = {
        (name, best.registers[name]): note
        for name, note in best.notes.items()
        if name in best.registers
    }
    pinned: dict[Buffer, RegisterLayout] = {}
    tried: set[tuple[Buffer, RegisterLayout, bool]] = set()
    lowest, registers = best.cost(), max(best.register_count(), seeded.register_room)
    while True:
        choice, least = None, max(WORTH * lowest, lowest - cost.BARRIER)
        for buffer, layout in best.offers(seeded.registers):
            stay = {
                name: known
                for name, known in best.registers.items()
                if name not in seeded.registers
            }
            for fixed in (pinned, stay):
                key = buffer, layout, fixed is stay
                if key in tried or len(tried) == MOST_TRIED:
                    continue
                tried.add(key)
                others = {n: known for n, known in fixed.items() if n.data is not buffer.data}
                layouts = {**others, buffer: layout}
                other = _propagated(seeded, layouts)
                if other is None or other.register_count() > registers:
                    continue
                costs = other.cost()
                if costs < least:
                    least, choice = costs, (other, layouts)
        if choice is None:
            best.notes.update(
                (n, reasons[n, h]) for n, h in best.registers.items() if (n, h) in reasons
            )
            return best
        (best, pinned), lowest = choice, least
        tried.clear()


def _propagated(seeded: Found, layouts: Mapping[Buffer, RegisterLayout]) -> Found | None:
    """:meth:`Layouts.propagate`; None, too, where an operation cannot be done so."""
    try:
        return seeded.propagate(layouts)
    except (propagation.NotInRegistersError, TileUnsupportedError):
        return None
