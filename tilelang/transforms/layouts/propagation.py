"""Layout propagation: from fixed layouts through loops, copies and reductions to all others.

Fixed layouts come first: annotated ones, operands and results of matrix instructions, and fragments
that every thread reads as a whole. They propagate until nothing changes. Then the first loop
without a layout takes the one that coalesces its memory accesses best, and propagation continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from heapq import heappop, heappush
from math import prod
from typing import TypeVar

import numpy as np

from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer
from tilelang.ir.elementwise import loop_of
from tilelang.ir.facts import bounds_of, in_branches
from tilelang.layout.fragment import Fragment
from tilelang.layout.layout import Layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.layout.validity import check_threads
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.analysis.groups import thread_groups
from tilelang.transforms.analysis.loops import static_extents
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts import gemm_plan
from tilelang.transforms.layouts.access import (
    Access,
    accesses,
    is_reducer,
    layout_from_mapping,
    mapping_from_layout,
    registers_of,
)
from tilelang.transforms.layouts.coalesce import is_coalesced
from tilelang.transforms.layouts.loops import free_mapping, needs_single_thread
from tilelang.transforms.layouts.sharing import check_sharing
from tilelang.transforms.layouts.shuffles import warp_shuffles
from tilelang.transforms.layouts.storage import Storage
from tilelang.transforms.layouts.thread_mapping import mapping_by
from tilelang.transforms.layouts.tma_layouts import BoxedTiles
from tilelang.transforms.layouts.trip_counts import Surroundings
from tilelang.transforms.notes import Note

Known = TypeVar("Known", bound="Layouts")
# Why a fragment is in shared memory.
_NAMES = "no register layout fits all its views, so it is in shared memory"
_WRITTEN = "threads write its elements at their own indices, so it is in shared memory"
MAX_COPIED = 64 * 32  # bits of a fragment with several names that each thread may hold


class NotInRegistersError(Exception):
    """A fragment whose views no common layout fits; caught where inference starts."""

    def __init__(self, note: Note) -> None:
        super().__init__(note.why)
        self.note = note


class GroupsDifferError(TileUnsupportedError):
    """A fragment is used by groups of different sizes; caught where inference starts, as an
    operation of the larger one may be one of the smaller, too."""

    def __init__(self, buffer: Buffer, before: int, threads: int, stmt: S.Stmt) -> None:
        super().__init__(
            f"the fragment `{buffer.name}` is used by {before} threads and by {threads}",
            expected="a fragment used by one group of threads",
            got=f"groups of {before} and {threads} threads",
            hint="use a fragment per branch, or exchange the tile through shared memory",
            loc=stmt.loc,
        )


@dataclass(frozen=True)
class Op:
    """A collective statement with the threads that run it."""

    stmt: S.Stmt
    threads: int
    lo: int
    bounds: Bounds  # what is known there
    loop: S.Parallel | None = None
    extents: tuple[int, ...] | None = None  # of the loop, if constant
    touched: tuple[Access, ...] = ()  # accesses of fragments


class Layouts:
    """The layouts of a launch, as far as they are known."""

    def __init__(self, launch: S.Launch, context: Context, moved: tuple[Note, ...]) -> None:
        self.launch = launch
        self.context = context
        self.moved = moved  # of fragments that are in shared memory instead
        self.storage = Storage(launch)
        self.bounds = bounds_of(launch)
        self.boxed = BoxedTiles(launch, self.bounds)
        self.groups = thread_groups(launch, context.limits.warp)
        self.registers: dict[Buffer, RegisterLayout] = {}
        self.layouts: dict[Buffer, Layout] = {}  # of shared buffers
        self.plans: dict[S.Stmt, gemm_plan.GemmPlan] = {}
        self.notes: dict[Buffer, Note] = {}
        self.fragments: dict[Buffer, int] = {}  # fragment -> threads of its group
        self.floating: dict[Buffer, set[E.Var]] = {}  # -> names in indices of plain writes
        self.ops: list[Op] = []
        self.known: dict[S.Stmt, Op] = {}
        self.users: dict[Buffer, list[int]] = {}  # fragment -> positions in ops, in order
        self.changed: set[int] = set()  # positions in ops for which a layout has changed
        self.surroundings = Surroundings(launch, self.groups)

    def propagate(self: Known, layouts: Mapping[Buffer, RegisterLayout]) -> Known | None:
        """A copy of this, after :meth:`seed`, with all layouts, where fragments have those of
        ``layouts``; None where they cannot have them."""
        result = copy(self)
        result.registers, result.notes = dict(self.registers), dict(self.notes)
        result.changed = set()
        why = "cheapest of the layouts that its operations allow"
        for buffer, layout in layouts.items():
            if not result.hold(buffer, layout, why, self.launch):
                return None
        result.spread(range(len(self.ops)))
        for _ in result.choices():
            result.spread(result.changed)
        result.replicate_reducers()
        return result

    def note(self, buffer: Buffer, why: str, stmt: S.Stmt) -> None:
        """Say why ``buffer`` has the layout that it has got now."""
        self.notes.setdefault(buffer, Note(buffer.data, why, stmt.loc))

    # -- queries ----------------------------------------------------------------------------
    def collect(self) -> None:
        """Collect the operations with their thread groups, the fragments, and their plain uses."""
        self._collect((self.launch.body,))
        for buffer, threads in tuple(self.fragments.items()):
            for name in self.storage.of(buffer):
                self.fragments.setdefault(name, threads)
        for position, op in enumerate(self.ops):
            for buffer in dict.fromkeys(fragments_of(op)):
                self.users.setdefault(buffer, []).append(position)

    def _collect(self, around: tuple[S.Stmt, ...]) -> None:
        stmt = around[-1]
        if isinstance(stmt, (S.TileOp, S.Parallel)):
            self.ops.append(self.op_of(stmt, around))
            return
        for access in effects.accesses(stmt):
            if access.mode != effects.NAME and access.buffer.storage == FRAGMENT:
                named = self.floating.setdefault(access.buffer, set())
                if access.writes and not is_reducer(access.buffer):
                    named.update(*map(_names, access.indices))
                self.fragments.setdefault(access.buffer, self.groups.of(stmt)[1])
        for block in stmt.blocks():
            self._collect((*around, block))

    def op_of(self, stmt: S.Stmt, around: tuple[S.Stmt, ...] = ()) -> Op:
        """``stmt``, which is inside the statements ``around``, as an operation; registers its
        fragments.

        Raises:
            TileUnsupportedError: its threads cannot divide it (see :func:`check_sharing`), or a
                fragment is used by two groups of threads.
        """
        op = self.known.get(stmt)
        if op is None:
            op = self.known[stmt] = self._op_of(stmt, in_branches(self.bounds, around))
        return op

    def _op_of(self, stmt: S.Stmt, bounds: Bounds) -> Op:
        check_sharing(stmt, self.groups)
        lo, threads = self.groups.of(stmt)
        loop = loop_of(stmt)
        extents = static_extents(loop) if loop is not None else None
        touched: tuple[Access, ...] = ()
        buffers: Iterable[Buffer] = [access.buffer for access in effects.own(stmt)]
        if loop is not None:
            touched = tuple(a for a in accesses(loop) if a.buffer.storage == FRAGMENT)
            buffers = [access.buffer for access in touched]
        for buffer in buffers:
            if buffer.storage == FRAGMENT:
                self.fragments.setdefault(buffer, threads)
                names = self.storage.of(buffer)
                before = next(self.fragments[n] for n in names if n in self.fragments)
                if before != threads:
                    raise GroupsDifferError(buffer, before, threads, stmt)
        return Op(stmt, threads, lo, bounds, loop, extents, touched)

    # -- fixed layouts ----------------------------------------------------------------------------
    def seed(self) -> None:
        """Annotations, matrix instructions, fragments that every thread reads."""
        for buffer, layout in dict(self.launch.hints.layout_map).items():
            if isinstance(layout, Fragment):
                self.annotated_fragment(buffer, layout)
            elif buffer.storage.startswith("shared"):
                self.annotate(buffer, layout)
        for buffer, threads in self.fragments.items():
            if buffer in self.floating and buffer not in self.registers:
                # An element that one thread writes is not in the copies of the others.
                if self.users.get(buffer) and self.thread_names & self.floating[buffer]:
                    raise self.not_in_registers(buffer, _WRITTEN)
                everywhere = RegisterLayout.fully_replicated(constant_shape(buffer), threads)
                why = "used outside T.Parallel, so every thread holds it"
                if not self.hold(buffer, everywhere, why, self.launch):
                    raise self.not_in_registers(buffer)
        products = [(op, op.stmt) for op in self.ops if isinstance(op.stmt, S.Gemm)]
        pairs = [(stmt, (op.lo, op.threads)) for op, stmt in products]
        side = gemm_plan.max_mma_rows(pairs, self.context)
        free = gemm_plan.free_column_order(pairs, self.context, side)
        annotated = dict(self.launch.hints.layout_map)
        for op, stmt in products:
            self.plan(op, stmt, side, stmt in free and stmt.c.buffer not in annotated)

    def hold(self, buffer: Buffer, layout: RegisterLayout, why: str, stmt: S.Stmt) -> bool:
        """Give a fragment the layout ``layout``, and its other names what follows for them; whether
        all of them can have it."""
        aliases = self.storage.register_layouts(buffer, layout)
        if aliases is None:
            return False
        for name, seen in aliases.items():
            self.registers[name] = seen
            self.changed.update(self.users.get(name, ()))
            self.note(name, why, stmt)
        return True

    @cached_property
    def thread_names(self) -> set[E.Var]:
        """The number of the thread, and names of what is made of it."""
        names = set(self.launch.thread_vars)
        for stmt in S.find(self.launch.body, S.Let):
            if names & _names(stmt.value):
                names.add(stmt.var)
        return names

    def not_in_registers(self, buffer: Buffer, why: str = _NAMES) -> NotInRegistersError:
        """``buffer`` has to be in shared memory instead."""
        return NotInRegistersError(Note(buffer.data, why, self.launch.loc))

    @property
    def block_threads(self) -> int:
        """Threads of the block."""
        return prod(self.launch.threads)

    def annotated_fragment(self, buffer: Buffer, layout: Fragment) -> None:
        """A layout of a fragment that the program asks for."""
        threads = self.fragments.get(buffer, self.block_threads)
        check_threads(buffer, layout, threads, self.launch.loc)
        registers = RegisterLayout.of_fragment(layout, threads)
        if registers is None:
            raise self.not_in_registers(buffer)
        before = self.registers.get(buffer)
        if before is not None and not before.is_equivalent(registers):
            raise self.disagree(buffer)
        if before is None and not self.hold(buffer, registers, "T.annotate_layout", self.launch):
            raise self.not_in_registers(buffer)

    def annotate(self, buffer: Buffer, layout: Layout) -> None:
        """A layout of a shared tile that the program asks for.

        Raises:
            TileUnsupportedError: other names of the tile cannot have it.
        """
        layout = staged(layout, buffer)
        before = self.layouts.get(buffer)
        if before is not None and not np.array_equal(before.addresses(), layout.addresses()):
            raise self.disagree(buffer)
        if before is None and not self.lay_out(buffer, layout, "T.annotate_layout", self.launch):
            raise self.storage.does_not_fit(buffer, layout, self.launch.loc)

    def lay_out(self, buffer: Buffer, layout: Layout, why: str, stmt: S.Stmt) -> bool:
        """Give a shared tile and its other names a layout; whether all of them can have it."""
        aliases = self.storage.laid_out(buffer, layout)
        if aliases is None:
            return False
        for name, seen in aliases.items():
            self.layouts[name] = seen
            self.note(name, why, stmt)
        return True

    def disagree(self, buffer: Buffer) -> TileValueError:
        """Two names of a tile are annotated, and not with the same layout."""
        names = ", ".join(f"`{name.name}`" for name in self.storage.of(buffer))
        return TileValueError(
            f"the layout of `{buffer.name}` differs from that of another view of its memory",
            expected="one layout for a tile and its views",
            got=f"T.annotate_layout for more than one of {names}",
            hint="annotate the allocated tile only; its views follow",
            loc=self.launch.loc,
        )

    def plan(self, op: Op, stmt: S.Gemm, side: int, interleave: bool) -> None:
        """The instruction of a product decides layouts of operands that have none yet."""
        group = op.lo, op.threads
        plan = gemm_plan.plan_gemm(
            stmt, group, self.context, self.layout_in_shared, self.bounds, side, interleave
        )
        self.plans[stmt] = plan
        for region, operand in plan.operands(stmt):
            buffer = region.buffer
            if isinstance(operand, gemm_plan.Registers):
                if buffer not in self.registers:
                    self.hold(buffer, operand.spread, f"registers of {plan.instruction}", stmt)
            elif operand.layout is not None and buffer not in self.layouts:
                why = f"read by {plan.instruction}"
                layout = self.boxed.first(buffer, (staged(operand.layout, buffer),))
                if layout is not None:
                    self.lay_out(buffer, layout, why, stmt)

    def layout_in_shared(self, buffer: Buffer, default: Layout | None) -> Layout | None:
        """The layout of a shared tile that a product wants to have in ``default``."""
        known = self.layouts.get(buffer)
        if known is None and default is not None:
            known = staged(default, buffer)
            known = known if self.storage.laid_out(buffer, known) is not None else None
        return known

    # -- spreading --------------------------------------------------------------------------------
    def spread(self, positions: Iterable[int]) -> None:
        """Carry known layouts through the operations at ``positions``, and through those that what
        is found there changes, in rounds from the first to the last until nothing changes.

        What an operation gives follows from the layouts of its own fragments, so that one is
        looked at again only when these have changed.
        """
        coming = set(positions)
        while coming:
            queue, ahead, coming = sorted(coming), coming, set()
            self.changed.clear()
            while queue:
                position = heappop(queue)
                ahead.remove(position)
                self.spread_op(self.ops[position])
                for other in self.changed - ahead:
                    if other <= position:
                        coming.add(other)
                    else:
                        ahead.add(other)
                        heappush(queue, other)
                self.changed.clear()

    def spread_op(self, op: Op) -> None:
        """Give layouts to the fragments of ``op`` that follow from its known ones."""
        if isinstance(op.stmt, S.Reduce):
            self.spread_reduce(op.stmt)
            return
        unknown = [access for access in op.touched if access.buffer not in self.registers]
        if op.loop is None or op.extents is None or not unknown:
            return
        known = [access for access in op.touched if access.buffer in self.registers]
        free = (a for a in known if a.kind == "read" or _contributes(a))
        if [a for a in free if self.registers[a.buffer].is_everywhere] == known:
            return  # any thread map suits them: the loop is free to choose
        mapping = self.known_mapping(op)
        if mapping is not None and not self.costs_coalescing(op, mapping):
            self.assign(op, mapping, "follows the other tiles of")

    def costs_coalescing(self, op: Op, spread: RegisterLayout) -> bool:
        """Whether a fragment with fewer dimensions than the loop asks for ``spread``, which would
        cost accesses of global memory too much: those of the loop, or of loops that would have to
        follow. Such a fragment is moved to the layout that the loop chooses."""
        assert op.loop is not None and op.extents is not None
        dims = sum(extent > 1 for extent in op.extents)
        for access in op.touched:
            if access.buffer in self.registers and sum(e > 1 for e in access.buffer.shape) >= dims:
                return False
        if not self.is_coalesced(op, spread):
            return True
        for access in op.touched:
            if access.buffer in self.registers:
                continue
            fragment = layout_from_mapping(access, op.loop, spread, constant_shape(access.buffer))
            views = fragment and self.storage.register_layouts(access.buffer, fragment)
            if not all(self.can_coalesce(name, layout) for name, layout in (views or {}).items()):
                return True
        return False

    def is_coalesced(self, op: Op, spread: RegisterLayout) -> bool:
        """Whether ``spread`` is good enough for what ``op`` asks of global memory."""
        assert op.loop is not None and op.extents is not None
        free = free_mapping(op.loop, op.extents, op.threads, op.bounds)
        return is_coalesced(op.loop, spread, free, self.context.limits.warp)

    def can_coalesce(self, buffer: Buffer, layout: RegisterLayout) -> bool:
        """Whether the loops that touch a fragment access global memory well with this layout of
        it."""
        for op in map(self.ops.__getitem__, self.users.get(buffer, ())):
            for access in op.touched:
                if access.buffer is not buffer or op.loop is None or op.extents is None:
                    continue
                spread = mapping_from_layout(access, layout, op.loop, op.extents)
                if spread is not None and not self.is_coalesced(op, spread):
                    return False
        return True

    def assign(self, op: Op, spread: RegisterLayout, why: str, slices: bool = False) -> bool:
        """Set the layouts of unknown fragments when ``spread`` divides the loop of ``op``."""
        why = f"{why} {operation_name(op.stmt)}"
        changed = False
        for access in op.touched:
            if access.buffer not in self.registers and op.loop is not None:
                shape = constant_shape(access.buffer)
                layout = layout_from_mapping(access, op.loop, spread, shape, slices)
                if layout is not None:
                    changed |= self.hold(access.buffer, layout, why, op.stmt)
        return changed

    def spread_reduce(self, stmt: S.Reduce) -> None:
        """The threads that held the reduced elements hold the result."""
        src, dst = stmt.src, stmt.dst
        source = self.registers.get(src.buffer)
        if source is None or dst.buffer in self.registers or dst.buffer.storage != FRAGMENT:
            return
        keep = len(dst.buffer.shape) == len(src.buffer.shape)
        if not src.is_whole or not dst.is_whole:
            return
        result = source.drop(stmt.dim, keep)
        if result.shape != constant_shape(dst.buffer):
            if prod(result.shape) != 1 or prod(constant_shape(dst.buffer)) != 1:
                return
            result = replace(result, shape=(1,), modes=((),))
        self.hold(dst.buffer, result, f"the result of reducing `{src.buffer.name}`", stmt)

    def known_mapping(self, op: Op) -> RegisterLayout | None:
        """The register layout of the loop of ``op`` as its known fragments ask for it."""
        assert op.loop is not None and op.extents is not None
        free = partial(free_mapping, op.loop, op.extents, op.threads, op.bounds)
        return mapping_by(op.loop, op.extents, op.touched, self.layout_of, op.threads, free)

    def layout_of(self, buffer: Buffer) -> RegisterLayout | None:
        """The layout of a fragment, if it is known."""
        return self.registers.get(buffer) or buffer.attrs.register_layout

    # -- choices ----------------------------------------------------------------------------------
    def choices(self) -> Iterator[None]:
        """Give one free loop or fragment a layout at a time, until none is left.

        A loop that gives no layout now gives none later, so each is tried once.
        """
        free = [op for op in self.ops if op.extents is not None and self.is_free(op)]
        free.sort(key=_order)
        fills = [op for op in free if isinstance(op.stmt, S.Fill)]
        ops = [op for op in free if not isinstance(op.stmt, S.Fill)]
        # A loop over one slice of a tile says less than one over the whole, and more than a fill.
        for slices, candidates in ((False, ops), (True, ops), (False, fills)):
            for op in filter(self.is_free, candidates):
                assert op.loop is not None and op.extents is not None
                spread = free_mapping(op.loop, op.extents, op.threads, op.bounds)
                if self.assign(op, spread, "chosen for the memory accesses of", slices):
                    yield
        for buffer, threads in self.fragments.items():
            if buffer not in self.registers:
                self.spread_evenly(buffer, threads)
                yield

    def is_free(self, op: Op) -> bool:
        """Whether a fragment that the loop of ``op`` touches has no layout yet."""
        return any(access.buffer not in self.registers for access in op.touched)

    def spread_evenly(self, buffer: Buffer, threads: int) -> None:
        """A layout for a fragment that no operation gives one."""
        shape = constant_shape(buffer)
        tried = [RegisterLayout.linear(shape, threads)]
        if buffer.data in self.storage.names:
            even = self.storage.even_layout(buffer, threads)
            tried += [even] if even is not None else []
            # A tile whose views split it differently is better in shared memory, where a
            # reducer cannot be: its copies are partial results.
            small = even is not None and prod(shape) * buffer.dtype.bits <= MAX_COPIED
            if small or is_reducer(buffer):
                tried.append(RegisterLayout.fully_replicated(shape, threads))
        why = "distributed evenly; no operation requires another layout"
        if not any(self.hold(buffer, layout, why, self.launch) for layout in tried):
            raise self.not_in_registers(buffer)

    def replicate_reducers(self) -> None:
        """Replicate reducers in all threads if a loop contributes in threads without a copy, at
        computed indices for example: then every thread has a copy for its contribution."""
        missed = True
        while missed:
            missed = False
            for op in self.ops:
                for access in op.touched:
                    if self.misses(op, access):
                        shape = constant_shape(access.buffer)
                        threads = self.fragments[access.buffer]
                        everywhere = RegisterLayout.fully_replicated(shape, threads)
                        operation = operation_name(op.stmt)
                        why = f"updated at indices other than loop variables by {operation}"
                        for name in self.storage.of(access.buffer):
                            self.notes.pop(name, None)
                        if not self.hold(access.buffer, everywhere, why, op.stmt):
                            raise self.not_in_registers(access.buffer)
                        missed = True

    def misses(self, op: Op, access: Access) -> bool:
        """Whether ``access`` contributes to a reducer where the thread may hold no copy."""
        if op.loop is None or not _contributes(access):
            return False
        layout, spread = self.registers[access.buffer], self.spread_of(op.stmt)
        if layout.is_everywhere:
            return False
        return spread is None or registers_of(access, layout, op.loop, spread) is None

    # -- what follows -----------------------------------------------------------------------------
    def spread_of(self, stmt: S.Stmt) -> RegisterLayout | None:
        """The register layout of the loop of a statement; None without one."""
        op = self.op_of(stmt)
        if op.loop is None or op.extents is None:
            return None
        return self.known_mapping(op) or free_mapping(op.loop, op.extents, op.threads, op.bounds)

    def conflicts(self, stmt: S.Stmt) -> list[tuple[Buffer, RegisterLayout | None]]:
        """The fragments of ``stmt`` whose layouts it cannot use, each with a layout that it could;
        None: shared memory."""
        if isinstance(stmt, S.Gemm):
            pairs = [
                (
                    region.buffer,
                    operand.spread if isinstance(operand, gemm_plan.Registers) else None,
                )
                for region, operand in self.plans[stmt].operands(stmt)
                if region.buffer.storage == FRAGMENT
            ]
            return [(buffer, layout) for buffer, layout in pairs if self.differs(buffer, layout)]
        op = self.op_of(stmt)
        if op.loop is None:
            return []
        spread = self.spread_of(stmt)
        buffers: dict[Buffer, None] = {}
        for access in op.touched:
            layout = self.layout_of(access.buffer)
            if layout is None or (layout.is_everywhere and _contributes(access)):
                continue
            if spread is None or registers_of(access, layout, op.loop, spread) is None:
                buffers.setdefault(access.buffer)
        return [(buffer, self.wanted(op, buffer, spread)) for buffer in buffers]

    def differs(self, buffer: Buffer, layout: RegisterLayout | None) -> bool:
        """Whether a fragment has another layout than a product needs."""
        return layout is None or not self.registers[buffer].is_equivalent(layout)

    def wanted(
        self, op: Op, buffer: Buffer, spread: RegisterLayout | None
    ) -> RegisterLayout | None:
        """The layout in which the loop of ``op`` could use ``buffer``, if shuffles can convert to
        it; None: shared memory."""
        uses = [access for access in op.touched if access.buffer is buffer]
        current = self.layout_of(buffer)
        if spread is None or op.loop is None or current is None or is_reducer(buffer):
            return None
        layout = layout_from_mapping(uses[0], op.loop, spread, constant_shape(buffer))
        if layout is None or warp_shuffles(current, layout, self.context.limits.warp) is None:
            return None
        if any(registers_of(access, layout, op.loop, spread) is None for access in uses):
            return None
        written = any(access.kind != "read" for access in uses)
        if written and warp_shuffles(layout, current, self.context.limits.warp) is None:
            return None
        return layout


def _contributes(access: Access) -> bool:
    """Whether each thread adds to its own copy of a reducer."""
    return is_reducer(access.buffer) and access.kind == "update"


def fragments_of(op: Op) -> Iterator[Buffer]:
    """The fragments whose layouts say what follows from ``op`` (see ``spread_op``)."""
    yield from (access.buffer for access in op.touched)
    if isinstance(op.stmt, S.Reduce):
        yield from (op.stmt.src.buffer, op.stmt.dst.buffer)


def staged(layout: Layout, buffer: Buffer) -> Layout:
    """``layout`` of a tile for a buffer with further leading dimensions (pipeline stages)."""
    extra = len(buffer.shape) - len(layout.shape)
    if extra <= 0:
        return layout
    lead = tuple(int(extent) for extent in buffer.shape[:extra] if isinstance(extent, int))

    def forward(*indices: E.Expr) -> tuple[E.Expr, ...]:
        return (*indices[:extra], *layout.map_forward_index(indices[extra:]))

    return Layout((*lead, *layout.shape), forward)


def _names(expr: E.Expr) -> set[E.Var]:
    return {node for node in E.walk(expr) if isinstance(node, E.Var)}


def operation_name(stmt: S.Stmt) -> str:
    """The statement's name in the language."""
    return {"Copy": "T.copy", "Fill": "T.fill"}.get(type(stmt).__name__, "T.Parallel")


def _order(op: Op) -> tuple[bool, bool, int, int]:
    """Free loops choose in this order: those that allow no copies first, fills last; of others,
    those that ask most of memory, where a tensor counts as much as eight shared tiles."""
    alone, size = op.loop is not None and needs_single_thread(op.loop), prod(op.extents or ())
    used = {a.buffer.storage for a in accesses(op.loop)} if op.loop is not None else set()
    price = 8 if "global" in used else int(any(scope.startswith("shared") for scope in used))
    return isinstance(op.stmt, S.Fill), not alone, -price * size, -size


def constant_shape(buffer: Buffer) -> tuple[int, ...]:
    """Extents of a fragment, which are constants.

    Raises:
        TileValueError: one of them is not.
    """
    if not all(isinstance(extent, int) for extent in buffer.shape):
        raise TileValueError(
            f"the fragment `{buffer.name}` has an extent that is not a constant",
            expected="compile-time extents for fragments",
            got=str(tuple(buffer.shape)),
        )
    return tuple(extent for extent in buffer.shape if isinstance(extent, int))
