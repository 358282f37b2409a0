"""Layout inference for fragments, shared tiles and parallel loops.

Layouts propagate between operations (:mod:`propagation`). Where operations are left that do not fit
the propagated layouts, others are tried, and the cheapest for the whole launch are kept
(:mod:`search`). An operation that still does not fit works on a copy in shared memory (see
:mod:`conversion`).

Afterwards every fragment has a ``register_layout``, every shared buffer with a special order a
``layout``, every copy and parallel loop a ``loop_layout``, and every product a ``plan``.

Runs after software pipelining: shared buffers have all their versions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import partial

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.elementwise import loop_of
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import replace_buffers, rewrite_launches
from tilelang.layout.layout import Layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.target import Context
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts import accumulators
from tilelang.transforms.layouts.access import accesses
from tilelang.transforms.layouts.banks import Use, best_layout
from tilelang.transforms.layouts.conversion import Conversion, in_shared
from tilelang.transforms.layouts.group_fragments import in_their_groups
from tilelang.transforms.layouts.loops import free_mapping
from tilelang.transforms.layouts.nests import serial_inside
from tilelang.transforms.layouts.propagation import GroupsDifferError, NotInRegistersError, Op
from tilelang.transforms.layouts.search import Priced, cheapest
from tilelang.transforms.layouts.storage import to_shared
from tilelang.transforms.layouts.thread_mapping import mapping_by
from tilelang.transforms.layouts.tma_layouts import NotBoxedError, swizzles
from tilelang.transforms.notes import Note


def infer_layouts(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with a layout on every fragment and loop."""

    def inferred(launch: S.Launch) -> S.Stmt:
        flat = serial_inside(launch)
        moved: tuple[Note, ...] = ()
        while True:
            assert isinstance(flat, S.Launch)
            try:
                return _Inference(flat, context, moved).run()
            except NotInRegistersError as error:
                flat = to_shared(flat, error.note.data)
                moved = (*moved, error.note)
            except NotBoxedError as error:
                flat = error.rewrite(flat)
            except GroupsDifferError:
                before, flat = flat, in_their_groups(flat, context.limits.warp)
                if flat is before:
                    raise
            except _UpdateConflictError as error:
                flat = accumulators.as_reduction(flat, error.loop, error.buffer, error.conflict)

    return rewrite_launches(func, inferred)


class _UpdateConflictError(Exception):
    """A tile whose elements several threads of a loop would update at once; caught where inference
    starts."""

    def __init__(
        self, loop: S.Parallel, buffer: Buffer, conflict: accumulators.UpdateConflict
    ) -> None:
        super().__init__(buffer.name)
        self.loop = loop
        self.buffer = buffer
        self.conflict = conflict


class _Inference(Priced):
    """The layouts of a launch, and the launch with them."""

    def run(self) -> S.Launch:
        """The launch with layouts on its buffers and loops."""
        self.collect()
        self.seed()
        return cheapest(self).apply_layouts()

    def apply_layouts(self) -> S.Launch:
        """The launch as the layouts say."""
        self.check_updates()
        self.choose_shared()
        mapping = self.new_buffers()
        varies = Varying(self.launch).varies
        demotion = Conversion(
            self.spread_of, self.conflicts, self.groups, self.layout_of, varies, self.plans,
            self.surroundings, self.shared_room,
        )  # fmt: skip
        body = demotion.rewrite(self.launch.body)
        # Copies made by demotion touch the same fragments, so that nothing new is to be found.
        body = replace_buffers(body, {**mapping, **self.converted_tiles(body)})
        launch = self.launch.with_body(body)
        notes = (*self.moved, *self.notes.values())
        return replace(launch, hints=replace(launch.hints, notes=notes)) if notes else launch

    def check_updates(self) -> None:
        """Tiles in memory that loops update are updated by one thread for each element.

        Raises:
            _UpdateConflictError: threads have to collect for themselves.
            TileUnsupportedError: they cannot, as the result depends on the order of iterations.
        """
        for op in self.ops:
            if not isinstance(op.stmt, S.Parallel) or not (
                tiles := accumulators.updated_tiles(op.stmt)
            ):
                continue
            moved = {buffer for buffer, layout in self.conflicts(op.stmt) if layout is None}
            for buffer in tiles:
                if buffer.storage == FRAGMENT and buffer not in moved:
                    continue
                spreads = dict.fromkeys((self.spread_of(op.stmt), self.spread_in_shared(op, moved)))
                conflicts = (
                    accumulators.update_conflict(op.stmt, buffer, spread) for spread in spreads
                )
                conflict = next((each for each in conflicts if each is not None), None)
                if conflict is None:
                    continue
                if accumulators.can_collect(op.stmt, buffer):
                    raise _UpdateConflictError(op.stmt, buffer, conflict)
                if conflict.iterations:
                    accumulators.check_order(op.stmt, buffer, conflict)

    def spread_in_shared(self, op: Op, moved: Collection[Buffer]) -> RegisterLayout | None:
        """The distribution of the loop of ``op`` when the tiles ``moved`` are in shared memory:
        these require no layout any more."""
        if op.loop is None or op.extents is None or not moved:
            return self.spread_of(op.stmt)
        loop = replace_buffers(op.loop, {buffer: in_shared(buffer) for buffer in moved})
        assert isinstance(loop, S.Parallel)
        free = partial(free_mapping, loop, op.extents, op.threads, op.bounds)
        touched = tuple(access for access in op.touched if access.buffer not in moved)
        return mapping_by(loop, op.extents, touched, self.layout_of, op.threads, free) or free()

    @property
    def shared_room(self) -> int:
        """Half of the bytes of shared memory that tiles of the program leave."""
        tiles = [n.buffer for n in S.find(self.launch.body, S.Alloc)]
        sizes = [b.constant_bytes for b in tiles if b.storage.startswith("shared")]
        free = self.context.limits.shared_block - sum(sizes)
        return 0 if self.context.saves_shared else free // 2

    def choose_shared(self) -> None:
        """Layouts against bank conflicts for shared tiles that only loops touch."""
        uses: dict[Buffer, list[Use]] = {}
        excluded: set[E.Var] = set(self.storage.names)
        excluded.update(_plain_uses(self.launch.body))
        for op in self.ops:
            if op.loop is None or effects.uses_tma(op.stmt):
                continue
            spread = self.spread_of(op.stmt)
            for access in accesses(op.loop):
                if not access.buffer.storage.startswith("shared"):
                    continue
                if spread is None or access.kind == "update":
                    excluded.add(access.buffer.data)
                else:
                    uses.setdefault(access.buffer, []).append((op.loop, access, spread))
        for buffer, sites in uses.items():
            if buffer.data not in excluded and buffer not in self.layouts:
                layout = self.best(buffer, sites)
                if layout is not None:
                    self.layouts[buffer] = layout
                    self.note(buffer, "fewest bank conflicts of the layouts tried", sites[0][0])
        for buffer, copies in self.boxed.copies.items():
            layout = self.boxed.first(buffer, (None,))
            if buffer not in self.layouts and layout is not None:
                self.lay_out(buffer, layout, "required by TMA copies", copies[0])
            if not self.boxed.can_box(buffer, self.layouts.get(buffer)):
                self.boxed.give_up(buffer, f"`{buffer.name}` has another layout")

    def converted_tiles(self, body: S.Stmt) -> dict[Buffer, Buffer]:
        """The shared tiles through which fragments go in ``body``, each with a layout against bank
        conflicts."""
        uses: dict[Buffer, list[Use]] = {}
        excluded = set(_plain_uses(body))
        for loop in _loops(body):
            for access in accesses(loop):
                if access.buffer.attrs.converted:
                    if isinstance(loop.loop_layout, RegisterLayout):
                        uses.setdefault(access.buffer, []).append((loop, access, loop.loop_layout))
                    else:
                        excluded.add(access.buffer.data)
        excluded.update(node.buffer.data for node in S.find(body, S.View))
        result: dict[Buffer, Buffer] = {}
        for buffer, tile_uses in uses.items():
            free = buffer.data not in excluded
            layout = best_layout(buffer, tile_uses, self.context.limits) if free else None
            if layout is not None:
                result[buffer] = replace(buffer, attrs=replace(buffer.attrs, layout=layout))
        return result

    def best(self, buffer: Buffer, uses: list[Use]) -> Layout | None:
        """The layout of a shared tile that only loops touch; None for row-major order."""
        limits, tensor_maps = self.context.limits, self.context.has("tma")
        layout = best_layout(buffer, uses, limits, tensor_maps)
        if self.boxed.can_box(buffer, layout):
            return layout
        if layout is not None:
            self.boxed.give_up(buffer, f"the layout of `{buffer.name}` would have bank conflicts")
        allowed = [
            candidate for candidate in swizzles(buffer) if self.boxed.can_box(buffer, candidate)
        ]
        return best_layout(buffer, uses, limits, allowed=allowed)

    def new_buffers(self) -> dict[Buffer, Buffer]:
        """Each buffer with a layout, as a buffer that carries it."""
        result: dict[Buffer, Buffer] = {}
        for buffer, registers in self.registers.items():
            result[buffer] = replace(buffer, attrs=replace(buffer.attrs, register_layout=registers))
        for buffer, layout in self.layouts.items():
            result[buffer] = replace(buffer, attrs=replace(buffer.attrs, layout=layout))
        return result


def _plain_uses(stmt: S.Stmt) -> Iterator[E.Var]:
    """Storage that anything but a loop over elements touches."""
    if loop_of(stmt) is not None:
        return
    yield from (access.data for access in effects.accesses(stmt) if access.mode != effects.NAME)
    for block in stmt.blocks():
        yield from _plain_uses(block)


def _loops(stmt: S.Stmt) -> Iterator[S.Parallel]:
    """The loops over elements in ``stmt``, those of operations, too."""
    loop = loop_of(stmt)
    if loop is not None:
        yield loop
        return
    for block in stmt.blocks():
        yield from _loops(block)
