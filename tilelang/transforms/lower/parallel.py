"""Lower parallel loops: each thread runs a loop over its registers with a lane loop inside.

The loop's register layout numbers the iterations of a thread like registers. The fastest mode
becomes a lane loop (kind "vectorized"), which :mod:`vectorize` turns into vector accesses. Where
several threads run the same iteration, only one of them stores to memory.

Runs after layout inference: an iteration accesses only registers of its own thread, and the
register number does not depend on the thread.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import gcd, prod

from tilelang.errors import InternalError
from tilelang.ir import effects, expr as E, stmt as S, visitor
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer
from tilelang.ir.hints import LoopHints
from tilelang.ir.indices import unravel
from tilelang.ir.simplify import simplified_with, simplify
from tilelang.ir.visitor import ExprRewriter, map_exprs, rebuild, substitute, substitute_in
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.analysis.combine import combine
from tilelang.transforms.analysis.loops import may_end_early, static_extents, values_of
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.vectors import MAX_LANES
from tilelang.transforms.layouts.access import Access, Registers, is_reducer, registers_of
from tilelang.transforms.layouts.loops import has_effect, has_private_results
from tilelang.transforms.lower.context import INT, Lowering, register_layout_of
from tilelang.transforms.lower.reducer import lower_reducer_update

# Iterations of serial loops in the body that are still unrolled: scans gain by it.
INNER_LIMIT = 2048
# Copies of the body of loops that may end before: their loads are in flight together, but each copy
# has to be fetched. A search of 256 elements takes 5.7, 5.1 and 4.9 us with 4, 8 and 16 on an H100.
EARLY_END = 16
UNROLL_LIMIT = 64  # registers of loops without fragments that are still unrolled


def lower_parallel(loop: S.Parallel, spread: RegisterLayout | None, ctx: Lowering) -> S.Stmt:
    """The iterations of ``loop`` that the executing thread runs.

    Args:
        spread: its register layout; None for extents that are not constants.
    """
    if spread is None or static_extents(loop) is None:
        return _dynamic(loop, ctx)
    spread = _in_rows(spread, ctx)
    lanes = _lanes(spread)
    steps = spread.register_count // lanes
    step, lane = E.Var("s", INT), E.Var("v", INT)
    register = E.binary("mul", step, E.const(lanes))
    bounds = ctx.bounds.with_range(step, 0, steps).with_range(lane, 0, lanes)
    start = [simplify(i, bounds) for i in spread.index_of(ctx.thread, register)]
    indices = list(start)
    if lanes > 1:
        dim = _lane_dim(spread)
        indices[dim] = E.binary("add", start[dim], lane)
    number = E.binary("add", register, lane) if lanes > 1 else register
    copy = spread.first_copy(ctx.thread)
    body = Body(loop, dict(zip(loop.vars, indices)), number, spread, ctx, copy)
    inner = body.rewrite(loop.body)
    exists = spread.valid(ctx.thread, register)
    conditions = [c for c in (exists, None if body.guarded else copy) if c is not None]
    # An asynchronous copy is one even where a thread has a single element of it.
    later = loop.hints.asynchronous
    tensors = [a.data for a in effects.accesses(inner, nested=True) if a.buffer.storage == "global"]
    if lanes > 1 or later or len(set(tensors)) < len(tensors):  # these may be neighbours
        inner = S.counted(
            lane,
            lanes,
            inner,
            "vectorized",
            LoopHints(asynchronous=later, independent=True),
            loop.loc,
        )
    if conditions:
        alone = exists if steps > 1 and len(conditions) == 1 and _is_own(loop, spread) else None
        early = None if alone is None else _loads_under(alone, inner)
        inner = early or S.If(cond=E.conjunction(conditions), then=inner, loc=loop.loc)
    if steps == 1:
        return simplified_with(inner, {step: E.const(0)})
    kind = "unroll" if body.uses_fragments or steps <= UNROLL_LIMIT else "serial"
    return S.counted(step, steps, inner, kind, loc=loop.loc)


def _is_own(loop: S.Parallel, spread: RegisterLayout) -> bool:
    """Whether all that an iteration of ``loop`` does is to write its element of fragments that are
    spread like it: a register without an iteration has no element, so that nothing reads it."""
    if spread.gaps("register") or spread.gaps("thread"):  # whose indices are those of an element
        return False
    own = frozenset(loop.vars)
    for access in effects.accesses(loop.body, nested=True):
        is_register = access.buffer.storage == FRAGMENT
        if access.writes or (is_register and any(i.variables & own for i in access.indices)):
            is_at_own = is_register and E.are_same_exprs(access.indices, loop.vars)
            if not is_at_own or register_layout_of(access.buffer) != spread:
                return False
    return all(isinstance(node, (S.Seq, S.Store)) for node in S.walk(loop.body))


def _loads_under(cond: E.Expr, body: S.Stmt) -> S.Stmt | None:
    """``body`` with its loads from tensors under ``cond``, so that those of all steps are in flight
    together. None where nothing is loaded, or not from tensors alone, or the body is not defined
    for all values."""
    exprs = [inner for node in S.walk(body) for expr in node.exprs() for inner in E.walk(expr)]
    memory = {e for e in exprs if isinstance(e, E.Load) and e.buffer.storage[:5] != "local"}
    loads = {load for load in memory if load.variables & cond.variables}
    is_shared = any(load.buffer.storage != "global" for load in loads)
    if not loads or is_shared or any(map(_needs_values, exprs)):
        return None
    known = {load: E.select(cond, load, E.const(0, load.dtype)) for load in loads}
    return map_exprs(body, partial(visitor.replace_nodes, known=known))


def _needs_values(expr: E.Expr) -> bool:
    """Whether a node does more than to compute, or is not defined for all values."""
    if isinstance(expr, E.Binary) and not isinstance(expr.b, E.Const):
        return expr.dtype.is_integer and expr.op.endswith(("div", "mod"))
    return isinstance(expr, E.Call) and expr.atom.effect is not Effect.NONE


def _in_rows(spread: RegisterLayout, ctx: Lowering) -> RegisterLayout:
    """``spread`` with its registers numbered along rows, where neighbours of a row are not adjacent
    in the registers of a thread, as results of products of wavefronts may: memory is accessed in
    vectors then, from registers that are not adjacent."""
    last_modes = spread.modes[-1] if spread.modes else ()  # an operation on one element has no loop
    last = next((mode for mode in reversed(last_modes) if mode.extent > 1), None)
    strided = last is not None and last.kind == "register" and last.stride > 1
    reorders = ctx.context.has("column_order") and strided and not spread.is_padded
    return spread.row_major() if reorders else spread


def _lane_dim(spread: RegisterLayout) -> int:
    """The dimension whose fastest mode is the fastest register mode; -1 when there is none."""
    for dim, modes in enumerate(spread.modes):
        real = [mode for mode in modes if mode.extent > 1]
        if real and real[-1].kind == "register" and real[-1].stride == 1:
            return dim
    return -1


def _lanes(spread: RegisterLayout) -> int:
    """Elements of the lane loop: a power of two that divides the fastest register mode."""
    dim = _lane_dim(spread)
    if dim < 0:
        return 1
    mode = next(d for d in reversed(spread.modes[dim]) if d.extent > 1)
    lanes = gcd(mode.extent, MAX_LANES)
    # Unused registers must not begin inside a vector.
    return gcd(lanes, spread.shape[dim]) if spread.is_padded else lanes


class Body(ExprRewriter):
    """The body of a loop for one register: indices for variables, registers for fragments."""

    def __init__(
        self, loop: S.Parallel, values: dict[E.Var, E.Expr], number: E.Expr, spread: RegisterLayout,
        ctx: Lowering, copy: E.Expr | None,
    ) -> None:  # fmt: skip
        self.loop = loop
        self.values = values
        self.number = number
        self.spread = spread
        self.ctx = ctx
        self.copy = copy  # condition of the first copy
        self.lets: dict[E.Var, E.Expr] = {}
        self.inner: tuple[tuple[E.Var, int, int], ...] = ()
        self.uses_fragments = False
        self.choosing: set[E.Var] = set()  # variables of inner loops that choose registers
        # With private results every copy runs the iteration, and effects are guarded one by one.
        self.guarded = has_private_results(loop.body)

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        """Accesses of fragments are resolved on the way down, while indices are the loop's."""
        if isinstance(stmt, S.Let) and stmt.value.dtype.is_integer:
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        if isinstance(stmt, S.Store) and stmt.buffer.storage == FRAGMENT:
            target, index = self.register(stmt.buffer, stmt.indices)
            return replace(stmt, buffer=target, indices=(index,), value=self.expr(stmt.value))
        if isinstance(stmt, S.ReducerUpdate):
            return self.update(stmt)
        return self.inner_loop(stmt) if isinstance(stmt, S.For) else super()._visit(stmt)

    def inner_loop(self, stmt: S.For) -> S.Stmt | list[S.Stmt]:
        """A loop in the body; unrolled where it chooses registers, or is not very long. What may
        end early is not written out: it would wait for instructions, copy by copy."""
        outer, extent, values = self.inner, 0, values_of(stmt)
        if values is not None and values.step == 1:
            extent = len(values)
            self.inner = (*outer, (stmt.var, values.start, extent))
        self.memo.clear()
        result = super()._visit(stmt)
        self.inner = outer
        self.memo.clear()
        if isinstance(result, S.For) and result.kind == "serial" and self.uses_fragments:
            if stmt.var not in self.choosing and may_end_early(result):
                return replace(result, kind="unroll", hints=LoopHints(unroll_factor=EARLY_END))
            if extent <= INNER_LIMIT or stmt.var in self.choosing:
                return replace(result, kind="unroll")
        return result

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        """Effects that others see run in one copy."""
        return self.first(stmt) if self.guarded and has_effect(stmt) else stmt

    def first(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` in the first copy only."""
        return stmt if self.copy is None else S.If(cond=self.copy, then=stmt, loc=stmt.loc)

    def update(self, stmt: S.ReducerUpdate) -> S.Stmt:
        """``partial = op(partial, value)``, once per iteration."""
        target, index = self.register(stmt.buffer, stmt.indices)
        new = combine(stmt.op, E.Load(target, (index,)), self.expr(stmt.value))
        value = E.cast(new, stmt.buffer.dtype)
        return self.first(S.Store(buffer=target, indices=(index,), value=value, loc=stmt.loc))

    # -- accesses --------------------------------------------------------------------------------
    def register(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> tuple[Buffer, E.Expr]:
        """The register of an element named by indices in loop variables."""
        self.uses_fragments = True
        outer = indices
        indices = tuple(substitute(index, self.lets) for index in indices)
        access = Access(buffer, indices, "read", self.inner)
        layout = register_layout_of(buffer)
        numbers = registers_of(access, layout, self.loop, self.spread)
        if numbers is None:
            if is_reducer(buffer) and layout.is_everywhere:
                register = layout.register_of([self.expr(index) for index in outer])
                self.choosing.update(register.variables)
                return self.ctx.registers(buffer), register
            raise InternalError(f"`{buffer.name}` does not fit the loop that uses it")
        number = self.number_of(numbers)
        self.choosing.update(number.variables)
        return self.ctx.registers(buffer), number

    def number_of(self, numbers: Registers) -> E.Expr:
        """The register index as an expression of the register and inner loops."""
        return simplify(numbers.expr(self.number), self.ctx.bounds)

    def node(self, expr: E.Expr) -> E.Expr:
        if isinstance(expr, E.Var):
            return self.values.get(expr, expr)
        if isinstance(expr, (E.Load, E.AddressOf)) and expr.buffer.storage == FRAGMENT:
            return E.moved_to(expr, *self.register(expr.buffer, expr.indices))
        return rebuild(expr, self.expr)


def _dynamic(loop: S.Parallel, ctx: Lowering) -> S.Stmt:
    """A loop whose extents are known at run time: threads take every n-th iteration."""
    total = prod(map(E.as_expr, loop.extents), start=E.as_expr(1))
    step = E.Var("s", INT)
    count = (total + (ctx.threads - 1)) // ctx.threads
    flat = E.Var("flat", total.dtype)
    indices = unravel(loop.extents, flat)
    values = {var: E.cast(index, var.dtype) for var, index in zip(loop.vars, indices)}
    body = substitute_in(loop.body, values)
    inner = visitor.map_stmts(body, S.ReducerUpdate, partial(lower_reducer_update, ctx=ctx))
    guarded = S.If(cond=flat < total, then=inner, loc=loop.loc)
    let = S.Let(var=flat, value=E.cast(step * ctx.threads + ctx.thread, total.dtype), loc=loop.loc)
    return S.counted(step, count, S.seq(let, guarded), loc=loop.loc)
