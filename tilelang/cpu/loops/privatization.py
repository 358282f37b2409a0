"""Privatization: loops over the threads of a block, and the variables that each iteration owns.

Private storage that differs between threads gets a leading dimension with one slot per thread. A
value that a later loop over the threads needs is kept in such a slot, or recomputed if it depends
on thread indices alone.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from math import lcm, prod

from tilelang.errors import Loc
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.hints import LoopHints
from tilelang.ir.memo import memoized
from tilelang.ir.print_expr import shape_vars
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import ExprRewriter

INT = DType("int32")
BOOL = DType("bool")


class ThreadLoops:
    """The loops over the threads of one launch."""

    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch
        self.varying = Varying(launch, lockstep=True, exchanges=True)
        self.count = prod(launch.threads)
        self.recompute: dict[E.Var, E.Expr] = {}  # lets of thread indices and uniform values
        self.spilled: dict[E.Var, Buffer] = {}  # lets that later loops use, in memory
        self.alive: Buffer | None = None  # threads that have not returned
        self._views = _view_units(launch)
        self._bases: dict[E.Var, Buffer] = {}  # storage -> its allocation
        self._handles: dict[E.Var, E.Var] = {}  # storage -> that with slots
        self._wide: dict[int, tuple[Buffer, Buffer]] = {}  # by identity; the buffer stays alive

    # -- loops ---------------------------------------------------------------------------------
    def over(self, body: list[S.Stmt], mask: E.Expr | None, t: E.Var | None = None) -> S.For:
        """``body`` for each thread ``t`` that has not returned and passes ``mask``."""
        t = E.Var("t", INT) if t is None else t
        inner: S.Stmt = S.seq(*body)
        if mask is not None:
            inner = S.If(cond=mask, then=inner)
        if self.alive is not None:
            inner = S.If(cond=E.Load(self.alive, (t,)), then=inner)
        return thread_loop(t, self.count, self.at_thread(inner, t), self.alive)

    def at_thread(self, stmt: S.Stmt, t: E.Var) -> S.Stmt:
        """``stmt`` as run by thread ``t``: private storage gets its slot, thread indices their
        value, and recomputed lets their definition in front."""
        rewritten = _AtThread(self, t, {n.buffer.data for n in S.find(stmt, S.Alloc)}).rewrite(stmt)
        needed = self._needed(rewritten)
        recomputed = ((var, value) for var, value in self.recompute.items() if var in needed)
        lets = [S.Let(var=var, value=_AtThread(self, t).expr(value)) for var, value in recomputed]
        x, y, _ = self.launch.threads
        used = {v for node in (*lets, rewritten) for v in vars_in(node)}
        indices = (t % x, t // x % y, t // (x * y))
        plain = (t, E.const(0), E.const(0))
        only_x = self.count == x
        for var, full, simple in reversed(list(zip(self.launch.thread_vars, indices, plain))):
            if var in used:
                lets.insert(0, S.Let(var=var, value=E.as_expr(simple if only_x else full)))
        return S.seq(*lets, rewritten)

    def _needed(self, stmt: S.Stmt) -> set[E.Var]:
        needed = set(vars_in(stmt))
        for var in reversed(self.recompute):
            if var in needed:
                needed.update(self.recompute[var].variables)
        return needed

    # -- slots ---------------------------------------------------------------------------------
    def keep(self, var: E.Var, loc: Loc | None = None) -> tuple[S.Stmt, Buffer]:
        """A slot per thread for the value of ``var``, and the statement that makes it."""
        buffer = Buffer(var.name, Shape((self.count,)), var.dtype, "local")
        self.spilled[var] = buffer
        self.varying.names.add(var)
        return S.Alloc(buffer=buffer, loc=loc), buffer

    def spill(
        self, name: str, value: E.Expr, mask: E.Expr | None, loc: Loc | None = None
    ) -> tuple[list[S.Stmt], E.Var]:
        """Statements that evaluate ``value`` in each thread that passes ``mask``, and a variable
        for what each of them found."""
        var = E.Var(name, value.dtype)
        t = E.Var("t", INT)
        slots = Buffer(name, Shape((self.count,)), value.dtype, "local")
        loop = self.over([S.Store(buffer=slots, indices=(t,), value=value, loc=loc)], mask, t)
        self.spilled[var] = slots
        self.varying.names.add(var)
        return [S.Alloc(buffer=slots), loop], var

    def is_private(self, buffer: Buffer) -> bool:
        """Whether threads have storage of their own behind ``buffer``."""
        return buffer.data in self.varying.names

    def has_slots(self, buffer: Buffer) -> bool:
        """Whether ``buffer`` is one that :meth:`slot_buffer` made."""
        return any(handle is buffer.data for handle in self._handles.values())

    def slot_buffer(self, buffer: Buffer) -> Buffer:
        """``buffer``, an allocation or a view of one, with a leading dimension of one slot per
        thread."""
        cached = self._wide.get(id(buffer))
        if cached is not None:
            return cached[1]
        base = self._bases.get(buffer.data)
        units = self._views.get(buffer.data)
        strides = None
        if units is not None:  # views of one slot have the same stride from slot to slot
            narrow_bits = storage_bits(buffer.dtype)
            parent = buffer if base is None else base
            unit = lcm(storage_bits(parent.dtype), *units)
            bits = -(-parent.constant_span() * storage_bits(parent.dtype) // unit) * unit
            dense = buffer.strides is None and buffer.constant_span() * narrow_bits == bits
            strides = None if dense else (bits // narrow_bits, *buffer.stride_list())
        data = self._handles.setdefault(buffer.data, E.Var(buffer.name, DType("handle")))
        shape = Shape((self.count, *buffer.shape))
        wide = replace(buffer, shape=shape, storage="local", strides=strides, data=data)
        self._wide[id(buffer)] = buffer, wide
        self._bases.setdefault(buffer.data, buffer)
        return wide


class _AtThread(ExprRewriter):
    """Rewrites a statement for one thread: slots of private storage, kept lets.

    Args:
        inner: storage that exists inside the statement only, which needs no slots.
    """

    def __init__(self, loops: ThreadLoops, t: E.Var, inner: Set[E.Var] = frozenset()) -> None:
        self.loops = loops
        self.t = t
        self.inner = inner

    def node(self, expr: E.Expr) -> E.Expr:
        if isinstance(expr, E.Var):
            spill = self.loops.spilled.get(expr)
            return expr if spill is None else E.Load(spill, (self.t,))
        if isinstance(expr, (E.Load, E.AddressOf)) and self._is_private(expr.buffer):
            return E.moved_to(expr, self._slots(expr.buffer), self.t, *map(self.expr, expr.indices))
        return super().node(expr)

    @memoized
    def buffer(self, buffer: Buffer) -> Buffer:
        """A view whose place is computed from kept values, with those."""
        if buffer.strides is None and isinstance(buffer.elem_offset, int):
            return buffer
        if self.loops.spilled.keys().isdisjoint(shape_vars(buffer)):
            return buffer
        offset = self.expr(E.as_expr(buffer.elem_offset))
        strides = buffer.strides and tuple(self._extent(stride) for stride in buffer.strides)
        return replace(buffer, elem_offset=offset, strides=strides)

    def _extent(self, extent: int | E.Expr) -> int | E.Expr:
        return extent if isinstance(extent, int) else self.expr(extent)

    def _slots(self, buffer: Buffer) -> Buffer:
        return self.buffer(self.loops.slot_buffer(buffer))

    def _is_private(self, buffer: Buffer) -> bool:
        return self.loops.is_private(buffer) and buffer.data not in self.inner

    def _visit_operand(self, old: object) -> object:
        if isinstance(old, Region) and self._is_private(old.buffer):
            region = old.map(self.expr)
            return Region(self._slots(old.buffer), (self.t, *region.mins), (1, *region.extents))
        return super()._visit_operand(old)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and self._is_private(stmt.buffer):
            return replace(stmt, buffer=self._slots(stmt.buffer), indices=(self.t, *stmt.indices))
        if isinstance(stmt, S.View) and self._is_private(stmt.buffer):
            return replace(stmt, buffer=self._slots(stmt.buffer))
        if isinstance(stmt, S.Alloc) and stmt.init is None and stmt.buffer.is_var:
            return replace(stmt, init=E.const(0, stmt.buffer.dtype))  # variables start as zero
        if isinstance(stmt, (S.Reduce, S.Scan)) and self.loops.has_slots(stmt.src.buffer):
            return replace(stmt, dim=stmt.dim + 1)  # the slot is the first dimension
        return stmt


def thread_loop(t: E.Var, count: int, body: S.Stmt, alive: Buffer | None = None) -> S.For:
    """A loop over the threads of a block; a return in it continues with the next one."""
    return S.counted(t, count, body, hints=LoopHints(threads=True, alive=alive))


def vars_in(stmt: S.Stmt) -> list[E.Var]:
    """The variables that the expressions of ``stmt`` mention, and the places of its buffers."""
    variables: list[E.Var] = []
    for nested in S.walk(stmt):
        for access in effects.accesses(nested):
            variables += _place_vars(access.buffer)
        for expr in nested.exprs():
            variables += [node for node in E.walk(expr) if isinstance(node, E.Var)]
    return variables


def _place_vars(buffer: Buffer) -> list[E.Var]:
    plain = buffer.strides is None and isinstance(buffer.elem_offset, int)
    return [] if plain else list(shape_vars(buffer))


def storage_bits(dtype: DType) -> int:
    """Bits of one element in memory."""
    return 4 if dtype.packing > 1 else -(-dtype.bits // 8) * 8


def _view_units(launch: S.Launch) -> dict[E.Var, set[int]]:
    """Bits of the elements of the views of each storage: a slot holds whole ones."""
    units: dict[E.Var, set[int]] = {}
    for node in S.find(launch.body, S.View):
        if node.source is None:
            units.setdefault(node.buffer.data, set()).add(storage_bits(node.buffer.dtype))
    return units
