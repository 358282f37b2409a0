"""State of an execution: the run, a block of threads, and one control flow (strand) in it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from functools import cached_property
from typing import Any, Protocol, TextIO, TypeAlias

import numpy as np

from tilelang.errors import InternalError, Loc, TileError, TileNameError, TileRuntimeError
from tilelang.interpret import memory, observe, values
from tilelang.interpret.analysis import Facts
from tilelang.interpret.async_copies import CopiesInFlight
from tilelang.interpret.lanes import Active, Lanes, has_active, narrow, union
from tilelang.interpret.memory import Bound, Memory, Site
from tilelang.interpret.sync import MBarrier, PipelineState, Rendezvous
from tilelang.interpret.values import Array, Value
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const, Expr, Var
from tilelang.ir.facts import plain_values
from tilelang.ir.indices import is_index, is_long, is_sum
from tilelang.ir.stmt import Alloc, Launch, PrimFunc, View, walk
from tilelang.records import dataclass
from tilelang.warning import warn_caller

# The error of an uninitialized read, the lanes that make it, of which lanes.
Unwritten: TypeAlias = "tuple[TileError, Value, Lanes]"
Entry: TypeAlias = "tuple[Value, Lanes | None, Sequence[Unwritten]]"


class Evaluator(Protocol):
    """Evaluates expressions: the interface of :mod:`~tilelang.interpret.exprs`."""

    def evaluate(self, s: DivergentGroup, expr: Expr, active: Active) -> Value:
        """The value of ``expr`` in the active lanes."""

    def exact(self, s: DivergentGroup, expr: Expr, active: Active, long: bool) -> Value:
        """The exact value of index arithmetic."""


@dataclass
class Run:
    """State of the whole call."""

    exprs: Evaluator
    func: PrimFunc
    safe_memory: bool
    checks: bool
    seed: int | None
    stdout: TextIO
    facts: Facts = field(default_factory=Facts)
    # By identity; the node is kept, so that its identity is not given to another one.
    constants: dict[int, tuple[Const, Value]] = field(default_factory=dict)
    workspaces: dict[int, Memory] = field(default_factory=dict)  # alloc_global, per launch
    pointers: dict[int, Array] = field(default_factory=dict)  # arrays given for pointers
    index_forms: dict[Expr, bool] = field(default_factory=dict)
    uninitialized: str = "error"
    negative_indices: str = "outside"
    observer: observe.Observer | None = None
    late_copies: bool = False  # asynchronous copies of tiles arrive when they are waited for
    loc_of_stmt: Loc | None = None  # the statement that is being executed
    doubts: set[tuple[str | None, Loc | None]] = field(default_factory=set)
    # Uninitialized reads of a value that may be dropped, and their lanes.
    held: list[tuple[TileError, Value]] | None = None

    def unwritten(self, error: TileError, where: Value = None) -> None:
        """An uninitialized read in the lanes ``where`` is true, or for all."""
        if self.uninitialized == "warn":
            self.doubt(error)
        elif self.held is None:
            raise error
        else:
            error.loc = error.loc or self.loc_of_stmt
            self.held.append((error, where))

    def doubt(self, error: TileError, note: str = "it reads as 0 here; ") -> None:
        """Warn once for each buffer and statement; ``note`` begins the hint."""
        key = (error.expected, self.loc_of_stmt)
        if key not in self.doubts:
            self.doubts.add(key)
            error.loc = self.loc_of_stmt
            error.hint = f"{note}{error.hint}"
            warn_caller(str(error))

    def is_index(self, expr: Expr) -> bool:
        """Whether ``expr`` is index arithmetic, whose value is an exact integer."""
        cached = self.index_forms.get(expr)
        if cached is None:
            cached = self.index_forms[expr] = is_index(expr, self.plain_values)
        return cached

    @cached_property
    def plain_values(self) -> frozenset[Var]:
        """The variables that are not index arithmetic."""
        return plain_values(self.func.body)

    @cached_property
    def has_long(self) -> bool:
        """Whether some buffer has a dimension with indices of 64 bits."""
        buffers = [stmt.buffer for stmt in walk(self.func.body) if isinstance(stmt, (Alloc, View))]
        return any(is_long(n) for buffer in (*self.func.buffers, *buffers) for n in buffer.shape)

    def constant(self, expr: Const) -> Value:
        """The value of a literal."""
        cached = self.constants.get(id(expr))
        if cached is None:
            cached = self.constants[id(expr)] = (expr, values.constant(expr.value, expr.dtype))
        return cached[1]


@dataclass
class Scope:
    """Names: values of variables, memory behind data pointers, buffers with concrete shapes."""

    values: dict[Var, Entry] = field(default_factory=dict)
    memory: dict[Var, Memory] = field(default_factory=dict)
    bounds: dict[int, Bound] = field(default_factory=dict)
    # Exact values of names of integer arithmetic on loaded values: see :func:`exact`.
    long: dict[Var, Entry] = field(default_factory=dict)

    def copy(self) -> Scope:
        """An independent set of names for the same memory."""
        return Scope(dict(self.values), dict(self.memory), dict(self.bounds), dict(self.long))


class Block:
    """One thread block (or the host, when ``index`` is None)."""

    def __init__(
        self, run: Run, lanes: Lanes, index: tuple[int, int, int] | None, launch: Launch | None
    ) -> None:
        self.run = run
        self.lanes = lanes
        self.index = index
        self.launch = launch
        self.gone = lanes.empty.copy()  # threads that left the kernel
        self.barriers: dict[int, Rendezvous] = {}
        self.mbarriers: dict[tuple[Memory, int], MBarrier] = {}
        self.pipelines: dict[Var, PipelineState] = {}
        self.flight = CopiesInFlight(run.observer, self, lanes.count)
        self.grid = Rendezvous(lambda: lanes.count)  # shared by the blocks of a launch
        self.random: dict[str, Any] = {}
        self.safe_values: dict[int, Expr] = {}
        if launch is not None:
            for buffer, value in launch.hints.safe_value:
                self.safe_values[id(buffer)] = value

    def extents(self) -> tuple[int, int, int]:
        """Threads in x, y and z."""
        x, y, z = self.launch.threads if self.launch is not None else (1, 1, 1)
        return x, y, z

    def thread_index(self, lane: int) -> tuple[int, int, int]:
        """(x, y, z) of a linear thread index."""
        x, y, _ = self.extents()
        return lane % x, lane // x % y, lane // (x * y)

    def barrier(self, ident: int, count: int | None) -> Rendezvous:
        """The hardware barrier ``ident``; without ``count`` all threads still in the kernel."""
        known = self.barriers.get(ident)
        if known is None:
            known = self.barriers[ident] = Rendezvous(lambda: 0)
        if count is None:
            known.expected = lambda: self.lanes.count - int(np.count_nonzero(self.gone))
        else:
            known.expected = lambda: count
        return known


@dataclass
class LoopRecord:
    """Lanes that left the current iteration, or the loop, early."""

    continued: Active
    broken: Active


class DivergentGroup:
    """One control flow: the lanes it runs in step, and the names it sees."""

    def __init__(self, block: Block, scope: Scope, lanes: Lanes) -> None:
        self.block = block
        self.run = block.run
        self.exprs = block.run.exprs
        self.scope = scope
        self.lanes = lanes
        self.loops: list[LoopRecord] = []
        self.hoisted: set[int] = set()  # allocations that were made before the fork
        self.per_thread = False  # inside a shared loop whose iterations are distributed to threads

    def fork(self) -> DivergentGroup:
        """A control flow that shares memory and loops but binds its own names."""
        forked = DivergentGroup(self.block, self.scope.copy(), self.lanes)
        forked.loops = list(self.loops)
        forked.per_thread = self.per_thread
        return forked

    @contextlib.contextmanager
    def within(self, lanes: Lanes) -> Iterator[None]:
        """Execute in other lanes for a while."""
        before, loops = self.lanes, self.loops
        self.lanes, self.loops = lanes, []
        try:
            yield
        finally:
            self.lanes, self.loops = before, loops

    @property
    def site(self) -> Site:
        """The executing block and threads, for messages."""
        return Site(self.block.index, self.lanes)

    # -- values -------------------------------------------------------------------------------
    def eval(self, expr: Expr | int, active: Active) -> Value:
        """The value of ``expr`` in the active lanes."""
        return np.int32(expr) if isinstance(expr, int) else self.exprs.evaluate(self, expr, active)

    def exact(self, expr: Expr, active: Active) -> Value:
        """The exact value of index arithmetic, the value of anything else."""
        if self.run.is_index(expr):
            return self.exprs.exact(self, expr, active, False)
        return self.exprs.evaluate(self, expr, active)

    def element_indices(
        self, buffer: Buffer, exprs: tuple[Expr, ...], active: Active
    ) -> list[Value]:
        """The values of the index expressions of an element of ``buffer``."""
        values = self.corner(buffer, exprs, active)
        if self.run.negative_indices != "outside" and buffer.storage == "global":
            single = [index for index, expr in zip(values, exprs) if expr.dtype.lanes == 1]
            inside = np.logical_and.reduce(np.broadcast_arrays(True, *(i >= 0 for i in single)))
            failed, lane = self.failing(inside, active)
            if failed:
                error = memory.negative(buffer, values, lane, self.site)
                if self.run.negative_indices == "error":
                    raise error
                self.run.doubt(error, note="")
        return values

    def corner(self, buffer: Buffer, exprs: tuple[Expr, ...], active: Active) -> list[Value]:
        """The indices of the first element of a tile of ``buffer``."""
        return [
            self.exprs.exact(self, expr, active, True)
            if is_long(extent)
            else self.exact(expr, active)
            for expr, extent in zip(exprs, buffer.shape)
        ]

    def held(self, expr: Expr, active: Active) -> tuple[Value, list[Unwritten]]:
        """The value of ``expr``, and what is an error only where that is used."""
        before, self.run.held = self.run.held, []
        value = self.eval(expr, active)
        unwritten, self.run.held = self.run.held, before
        return value, [(error, where, self.lanes) for error, where in unwritten]

    def use(self, unwritten: Iterable[Unwritten], active: Active) -> None:
        """Complain of what active lanes have read before anything was written to it."""
        for error, where, lanes in unwritten:
            ids = self.lanes.index_in(lanes)
            if ids is not None and np.shape(where)[:1] == (lanes.count,):
                where = narrow(active, where.reshape(lanes.count, -1).any(-1)[ids])
                if where.any():
                    self.run.unwritten(error, where)
            elif has_active(active):
                self.run.unwritten(error)

    def lookup(self, var: Var, active: Active, long: bool = False) -> Value:
        """The value of a variable in the current lanes; with ``long`` the exact one of a name for
        integer arithmetic, as an index of a long dimension needs it."""
        entry = self.scope.long.get(var) if long else None
        if entry is None:
            entry = self.scope.values.get(var)
        if entry is None:
            raise TileNameError(
                f"the variable `{var.name}` has no value here",
                hint="it is used outside the region that defines it, or no argument determines it",
            )
        value, space, unwritten = entry
        self.use(unwritten, active)
        if space is None or space is self.lanes:
            return value
        ids = self.lanes.index_in(space)
        if ids is None:
            raise InternalError(f"`{var.name}` differs by thread inside a shared loop")
        return value[ids]

    def bind(self, var: Var, value: Value, unwritten: Sequence[Unwritten] = ()) -> None:
        """Give ``var`` its value; of index arithmetic that is the exact one."""
        varies = np.ndim(value) > (var.dtype.lanes > 1)
        self.scope.values[var] = (value, self.lanes if varies else None, unwritten)

    def let(self, var: Var, expr: Expr, active: Active) -> None:
        """Bind ``var`` to the value of ``expr``."""
        if self.run.is_index(expr):
            self.bind(var, self.exprs.exact(self, expr, active, False))
            return
        value, unwritten = self.held(expr, active)
        self.bind(var, value, unwritten)
        if self.run.has_long and is_sum(expr) and not unwritten:
            value = self.exprs.exact(self, expr, active, True)
            self.scope.long[var] = (value, self.lanes if np.ndim(value) else None, ())

    def collapse(self, value: Value, active: Active) -> Value:
        """``value`` as one number when all active lanes agree."""
        if np.ndim(value) == 0:
            return value
        chosen = value if active is None else value[active]
        return chosen[0] if chosen.size and (chosen == chosen[0]).all() else value

    def failing(self, cond: Value, active: Active) -> tuple[bool, int | None]:
        """Whether a condition is false in an active lane, and the lane if lanes differ."""
        bad = ~np.asarray(cond, np.bool_)
        if np.ndim(bad) == 0:
            return bool(bad), None if active is None else int(np.flatnonzero(active)[0])
        lanes = np.flatnonzero(narrow(active, bad))
        return bool(lanes.size), int(lanes[0]) if lanes.size else None

    def number(self, expr: Expr | int, active: Active, operand: str) -> int:
        """An integer that must be the same in all active lanes."""
        if isinstance(expr, int):
            return expr
        value = self.collapse(self.exact(expr, active), active)
        if np.ndim(value):
            raise TileRuntimeError(
                f"{operand} differs between the threads that execute it together",
                expected="one value for the whole thread group",
                got=f"`{expr!r}` {self.site.text(None)}",
            )
        return int(value)

    def spread(self, value: Value, lanes: int = 1) -> Array:
        """``value`` with one entry per lane."""
        shape = (self.lanes.count,) if lanes == 1 else (self.lanes.count, lanes)
        return np.broadcast_to(value, shape)

    # -- memory -------------------------------------------------------------------------------
    def bound(self, buffer: Buffer) -> Bound:
        """``buffer`` with memory and concrete shape."""
        attached = self.scope.bounds.get(id(buffer))
        return self.attach(buffer) if attached is None else attached

    def attach(self, buffer: Buffer, storage: Memory | None = None) -> Bound:
        """Bind ``buffer`` to ``storage``, or to the memory its data pointer already has."""
        if storage is None:
            storage = self.scope.memory.get(buffer.data)
            if storage is None:
                raise TileNameError(
                    f"the buffer `{buffer.name}` has no memory here",
                    hint="it is used outside the region that allocates it",
                )
        shape = tuple(self.number(e, None, f"the shape of `{buffer.name}`") for e in buffer.shape)
        if buffer.strides is None:
            steps = [1] * len(shape)
            for dim in range(len(shape) - 2, -1, -1):
                steps[dim] = steps[dim + 1] * shape[dim + 1]
            strides = tuple(steps)
        else:
            strides = tuple(self.number(e, None, "a stride") for e in buffer.strides)
        offset = self.number(buffer.elem_offset, None, "an offset")
        bound = Bound(buffer, storage, shape, strides, offset, self._safe_value(buffer))
        self.scope.memory[buffer.data] = storage
        self.scope.bounds[id(buffer)] = bound
        return bound

    def _safe_value(self, buffer: Buffer) -> Value:
        expr = self.block.safe_values.get(id(buffer))
        zero = values.constant(0, buffer.dtype) if not buffer.dtype.is_bool else np.False_
        if expr is None:
            return zero
        if not isinstance(expr, Expr):
            return values.constant(expr, buffer.dtype)
        return values.convert(self.eval(expr, None), expr.dtype, buffer.dtype)

    def copies(self, bound: Bound, extra: int = 0) -> Array | None:
        """The private copy that each lane uses, with ``extra`` axes appended; None for a single
        copy."""
        if bound.memory.copies == 1 or bound.memory.space is None:
            return None
        ids = self.lanes.index_in(bound.memory.space)
        if ids is None:
            raise InternalError(f"private `{bound.buffer.name}` used by a shared loop")
        return ids.reshape(ids.shape + (1,) * extra)

    def indices(
        self, buffer: Buffer, exprs: tuple[Expr, ...], active: Active, shift: int = 0
    ) -> tuple[list[Value], bool]:
        """The index arrays of elements, and whether an index is a vector, which adds a last
        axis."""
        values = self.element_indices(buffer, exprs, active)
        if shift:
            values[-1] = values[-1] + shift
        wide = any(isinstance(expr, Expr) and expr.dtype.lanes > 1 for expr in exprs)
        if wide:
            values = [
                value[:, None] if np.ndim(value) == 1 and expr.dtype.lanes == 1 else value
                for expr, value in zip(exprs, values)
            ]
        return values, wide

    def load(
        self, buffer: Buffer, exprs: tuple[Expr, ...], active: Active, shift: int = 0
    ) -> Value:
        """The elements of ``buffer`` at the index expressions, or ``shift`` positions further."""
        bound = self.bound(buffer)
        indices, wide = self.indices(buffer, exprs, active, shift)
        copy = self.copies(bound, int(wide))
        varies = copy is not None or any(np.ndim(index) > wide for index in indices)
        need = active if varies else None
        if need is not None and wide:
            need = need[:, None]
        loaded = memory.read(bound, indices, need, copy, self.site, self.run.safe_memory)
        if self.run.observer is not None:
            self.tell_elements(bound, indices, wide, active)
        if wide and buffer.dtype.lanes > 1:
            loaded = loaded.reshape(*loaded.shape[:-2], -1)
        if copy is not None and buffer.storage == "local.var" and not wide:
            return self.collapse(loaded, active)
        return loaded

    def store(
        self, buffer: Buffer, exprs: tuple[Expr, ...], value: Value, active: Active, shift: int = 0
    ) -> None:
        """``buffer[exprs] = value`` in the active lanes; see :meth:`load`."""
        bound = self.bound(buffer)
        indices, wide = self.indices(buffer, exprs, active, shift)
        if wide and buffer.dtype.lanes > 1:
            value = value.reshape(*value.shape[:-1], -1, buffer.dtype.lanes)
        tail = int(wide) + (buffer.dtype.lanes > 1)
        varies = np.ndim(value) > tail or any(np.ndim(index) > wide for index in indices)
        bound.memory.spread_for(self.lanes, active, varies)
        copy = self.copies(bound, int(wide))
        need = active if varies or copy is not None else None
        if need is not None and wide:
            need = need[:, None]
        memory.write(bound, indices, value, need, copy, self.site, self.run.safe_memory)
        if self.run.observer is not None:
            self.tell_elements(bound, indices, wide, active, value)

    def tell_bytes(
        self, bound: Bound, threads: Array, offsets: Array, write: bool, lost: bool = False
    ) -> None:
        """Report an access of bytes of shared memory by ``threads`` to the observer."""
        observer, known = self.run.observer, self.lanes.threads
        if observer is None or known is None or self.block.index is None or not threads.size:
            return
        name = bound.buffer.name
        access = observe.Access(bound.memory, name, known[threads], offsets, write, lost)
        observer.access(self.block, access)

    def tell_elements(
        self, bound: Bound, indices: list[Value], wide: bool, active: Active, *stored: Value
    ) -> None:
        """Report a plain load, or a store of the value ``stored``, to the observer."""
        buffer = bound.buffer
        if (
            self.lanes.threads is None
            or not buffer.storage.startswith("shared")
            or buffer.storage.endswith("barrier")
        ):
            return
        linear, _ = memory.locate(bound, indices, None)
        tail = linear.shape[-1:] if wide else ()
        linear = np.broadcast_to(linear, (self.lanes.count, *tail)).reshape(self.lanes.count, -1)
        members = self.lanes.members(active)
        nibbles = memory.nibbles_of(buffer.dtype)
        width = max(1, nibbles * buffer.dtype.lanes // 2)
        first = linear[members] * nibbles // 2
        offsets = (first[..., None] + np.arange(width)).reshape(members.size, -1)
        lost = bool(stored) and self._has_lost_store(bound, indices, wide, active, stored[0])
        self.tell_bytes(bound, members, offsets, bool(stored), lost)

    def _has_lost_store(
        self, bound: Bound, indices: list[Value], wide: bool, active: Active, value: Value
    ) -> bool:
        """Whether some element is not what one of the threads stored."""
        need = active if any(np.ndim(index) > wide for index in indices) else None
        need = need[:, None] if need is not None and wide else need
        reread = memory.read(bound, indices, need, None, self.site, self.run.safe_memory)
        if wide and bound.buffer.dtype.lanes > 1:
            reread, value = (np.reshape(x, (*np.shape(x)[:-2], -1)) for x in (reread, value))
        shape = np.broadcast_shapes(np.shape(reread), np.shape(value))
        if not shape or shape[0] != self.lanes.count:
            shape = (self.lanes.count, *shape)
        members = self.lanes.members(active)
        stored, new = (np.broadcast_to(x, shape)[members] for x in (reread, value))
        return not ((stored == new) | ((stored != stored) & (new != new))).all()

    def open_loop(self) -> LoopRecord:
        """A record for an iteration of a shared loop: `continue` ends it, outer loops are out of
        reach."""
        record = LoopRecord(self.lanes.empty, self.lanes.empty)
        self.loops = [record]
        return record

    # -- leaving ------------------------------------------------------------------------------
    def leave_kernel(self, active: Active) -> None:
        """The active threads return."""
        gone = narrow(active, ~self.block.gone) if self.lanes is self.block.lanes else None
        if gone is None:
            raise TileRuntimeError("T.thread_return() inside T.Parallel", expected="thread code")
        self.block.gone |= gone

    def leave_iteration(self, active: Active, loop_too: bool) -> None:
        """``break`` (with ``loop_too``) or ``continue`` of the active lanes."""
        if not self.loops:
            raise TileRuntimeError(
                "break or continue without a loop around it",
                hint="they end T.serial, T.unroll, range and while loops",
            )
        record = self.loops[-1]
        if loop_too:
            record.broken = union(record.broken, active)
        else:
            record.continued = union(record.continued, active)
