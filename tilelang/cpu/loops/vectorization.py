"""Vectorization: which loops become vector loops, and how wide the vectors are.

A loop with independent iterations ("parallel", ``T.vectorized``), a reduction ("reduction") or a
running total (``scan``) gets the hint ``vector``: the bits of the widest value that it computes,
from which the printer derives the number of lanes. So does a serial loop without loop-carried
dependences except minima, maxima and integer sums, whose order does not matter; float sums keep the
order of the program. Legality is proved here, and the printer relies on it:

* the body consists of stores, names, private variables, uniform conditions and uniform loops,
  without other effects;
* every store writes adjacent elements, one per iteration;
* there is no loop-carried dependence through memory: accesses of the same memory have the same
  indices, a constant distance that no vector spans, or indices that never meet by the ends of the
  loops around. In a serial loop two tensors may be one; the printer lets the loop go in order where
  they overlap in part;
* the accumulator of a reduction is read only to compute its new value.

A serial loop whose lanes are a known distance apart in memory stays one: it is faster in order.

A loop that reads nothing that it stores is "idempotent": iterations may run twice, so the last
vector may overlap the one before it.

Names of indices (``row = i * 4``) are substituted, so that an index is the loop variable plus an
invariant. Runs after guards are inserted and indices simplified.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.loops.loop_bounds import loop_ranges, tightened
from tilelang.cpu.loops.nests import LaunchWalker
from tilelang.cpu.loops.private_arrays import with_variables
from tilelang.cpu.nontemporal_stores import bytes_of
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.effects import NAME, Access
from tilelang.ir.hints import LoopHints
from tilelang.ir.indices import INDEX_OPS
from tilelang.ir.tables import BINARY
from tilelang.ir.visitor import inline_lets
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import Iterations, steps_of
from tilelang.transforms.analysis.loops import steps_by_one, trip_count

FEWEST = 4  # iterations that justify a vector
SHORTEST = 16  # of a serial loop, which a C compiler may unroll
WIDEST = 512  # bits of the longest vector
TABLE = 16 << 10  # bytes of a tile that stays in the L1 cache
_NEAR = (0, 1, 2, 3, 4, -1)  # elements from one lane to the next that cost few lines
_EXTREMES = ("min", "max")
_EXACT = (*_EXTREMES, "add", "mul", "bitand", "bitor", "bitxor")  # in any order, of integers
_NODES = (E.Const, E.Var, E.Unary, E.Binary, E.Cast, E.Select, E.Load, E.Call)


def mark_vector_loops(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with the hint ``vector`` at loops that become vectors."""
    values: dict[E.Var, E.Var] = {}
    ranges = loop_ranges(func)
    for node in S.walk(func.body):
        if isinstance(node, S.View) and node.source is not None:
            for var in node.source.variables:  # a view is another name for what it is made of
                values[node.buffer.data] = values.get(var, var)

    class Mark(LaunchWalker):
        def visit(self, stmt: S.Stmt) -> S.Stmt:
            return self.marked(super().visit(stmt))

        def marked(self, stmt: S.Stmt) -> S.Stmt:
            if isinstance(stmt, S.For) and stmt.hints.parallel is not None:
                tight = tightened(stmt, S.seq(inline_lets(stmt.body, is_position)), ranges)
                if isinstance(tight, S.If):
                    return replace(tight, then=self.marked(tight.then))
                stmt = tight
            if not isinstance(stmt, S.For) or not _is_candidate(stmt):
                return stmt
            loop = replace(stmt, body=inline_lets(stmt.body, is_position))
            is_serial = not _is_marked(loop)
            loop = loop if is_serial else with_variables(loop)
            if is_serial:
                loop = replace(loop, hints=LoopHints(reduction=_totals(loop, func)))
            candidate = _Loop(loop, values, self, is_serial)
            bits = candidate.bits()
            if is_serial and bits <= 0:
                return stmt  # loops around it may still become vectors
            apart = bits >= 0 and not (candidate.inner or candidate.totals or candidate.scan)
            hints = replace(loop.hints, independent=apart, vector=max(bits, 0))
            if bits <= 0:
                return replace(stmt, hints=hints) if apart else stmt
            pairs, is_idempotent = tuple(candidate.pairs.values()), candidate.is_idempotent()
            return replace(loop, hints=replace(hints, idempotent=is_idempotent, pairs=pairs))

    return func.with_body(Mark(func).visit(func.body))


def stride_of(
    buffer: Buffer, indices: tuple[E.Expr, ...], var: E.Var, names: frozenset[E.Var]
) -> int | None:
    """The elements by which an access of ``buffer`` moves for each step of ``var``; None where that
    is not a constant, or where the indices also depend on ``names``, which change in the loop."""
    total = 0
    for step, stride in zip(steps_of(indices, var, names), buffer.stride_list()):
        if step is None or (step and not isinstance(stride, int)):
            return None
        total += step * stride if isinstance(stride, int) else 0
    return total


def value_bits(dtype: DType) -> int:
    """Bits of a value in a register: small floats are computed in float32, nibbles in int32."""
    if dtype.is_bool:
        return 8
    return max(32, dtype.bits) if dtype.is_float or dtype.bits < 8 else dtype.bits


def is_position(expr: E.Expr) -> bool:
    """Whether ``expr`` is integer arithmetic on names and constants: no memory, no calls."""
    if isinstance(expr, E.Binary):
        return expr.op in INDEX_OPS and is_position(expr.a) and is_position(expr.b)
    if isinstance(expr, E.Cast):
        return expr.dtype.is_int and is_position(expr.value)
    return isinstance(expr, (E.Const, E.Var)) and expr.dtype.is_int


def added_value(store: S.Store, op: str) -> E.Expr | None:
    """The value that a store combines with the variable that it stores to; None where it does
    not. Either operand may come first: sums of integers are ordered by names."""
    value = store.value
    if not isinstance(value, E.Binary) or value.op != op:
        return None
    if _is_of(value.a, store.buffer):
        return value.b
    return value.a if _is_of(value.b, store.buffer) else None


def is_chosen(expr: E.Expr, dtype: DType) -> bool:
    """Whether ``expr`` is an element of ``dtype`` in memory, a constant, or a choice of such."""
    if isinstance(expr, E.Select):
        return is_chosen(expr.t, dtype) and is_chosen(expr.f, dtype)
    if isinstance(expr, E.Load):
        return expr.dtype == dtype and not expr.buffer.is_var
    return isinstance(expr, E.Const)


def _is_marked(loop: S.For) -> bool:
    """Whether iterations of ``loop`` are known to have no order."""
    hints = loop.hints
    independent = loop.kind == "vectorized" or hints.parallel is not None
    return independent or bool(hints.reduction) or hints.scan is not None


def _is_candidate(loop: S.For) -> bool:
    if not steps_by_one(loop) or loop.hints.threads:
        return False
    count, is_marked = trip_count(loop), _is_marked(loop)
    is_plain = loop.kind == "serial" and not loop.hints and not S.holds(loop.body, S.For)
    fewest = FEWEST if is_marked else SHORTEST
    return (is_marked or is_plain) and (count is None or count >= fewest)


def _totals(loop: S.For, func: S.PrimFunc) -> tuple[tuple[str, Buffer], ...]:
    """The reductions of a serial loop whose order does not matter; none if an order matters. Minima
    and maxima of floats ignore a NaN, so the initial value must not be NaN: it must be a
    constant."""
    own = {node.buffer.data for node in S.find(loop.body, S.Alloc)}
    totals: list[tuple[str, Buffer]] = []
    for store in S.find(loop.body, S.Store):
        total, op = store.buffer, getattr(store.value, "op", "")
        if not total.is_var or total.data in own:
            continue
        if op not in _EXACT or added_value(store, op) is None:
            return ()
        if total.dtype.is_float and not (op in _EXTREMES and _is_number(total, op, func)):
            return ()
        totals.append((op, total))
    return tuple(totals)


def _is_number(total: Buffer, op: str, func: S.PrimFunc) -> bool:
    changes = [
        node for node in S.find(func.body, S.Alloc, S.Store) if node.buffer.data is total.data
    ]
    values = [
        node.init if isinstance(node, S.Alloc) else node.value
        for node in changes
        if isinstance(node, S.Alloc) or added_value(node, op) is None
    ]
    return all(x is None or (isinstance(x, E.Const) and x.value == x.value) for x in values)


class _Loop:
    """A candidate for vectorisation."""

    def __init__(
        self, loop: S.For, values: dict[E.Var, E.Var], walk: LaunchWalker, is_serial: bool
    ) -> None:
        self.loop, self.same, self.memory, self.is_serial = loop, values, walk.memory, is_serial
        self.nodes = nodes = list(S.walk(loop.body))
        self.stores = [node for node in nodes if isinstance(node, S.Store)]
        self.own = {node.buffer.data for node in nodes if isinstance(node, S.Alloc)}
        self.lets = frozenset(node.var for node in nodes if isinstance(node, S.Let))
        self.inner = [node for node in nodes if isinstance(node, S.For)]
        self.totals = [total for _, total in loop.hints.reduction]
        self.scan = loop.hints.scan
        all_accesses = self.memory.facts(loop.body).by_key.values()
        self.accesses = [a for a in all_accesses if not a.buffer.is_var and a.mode != NAME]
        extents = {each.var: n for each in (loop, *self.inner) if (n := trip_count(each))}
        variables = {store.buffer.data for store in self.stores if store.buffer.is_var}
        self.changing = self.lets | self.own | variables  # in each iteration
        varying = self.changing.union(each.var for each in self.inner)
        self.iterations = Iterations(loop.var, varying, {}, extents, walk.inside(loop), loop)
        self.pairs: dict[frozenset[E.Var], tuple[Buffer, Buffer]] = {}  # tensors that may alias

    def bits(self) -> int:
        """Bits of the widest value; 0 where iterations are independent, but no vectors in memory,
        -1 where they are not."""
        if not self.stores or not all(map(self.is_plain, self.nodes)):
            return -1
        widths = [self.width_of(node) for node in self.nodes]
        is_sum = self.scan is None or self.is_running_total(*self.scan)
        if min(widths) < 0 or not (is_sum and all(map(self.is_reduction, self.totals))):
            return -1
        stores = [access for access in self.accesses if access.writes]
        if any(self.may_conflict(a, b) for a in stores for b in self.accesses):
            return -1
        strides = {access: self.stride(access) for access in self.accesses}
        near = (*_NEAR, None) if self.is_serial else _NEAR
        are_near = all(s in near or self.may_gather(a) for a, s in strides.items())
        if not are_near or (self.inner and (self.totals or self.scan)):
            return 0  # lanes would be gathered in each round, from as many lines
        are_vectors = 1 in strides.values() and all(strides[store] == 1 for store in stores)
        return max(8, *widths) if are_vectors else 0

    def is_idempotent(self) -> bool:
        """Whether no iteration reads what one may store."""
        if self.totals or self.scan is not None:
            return False
        stored, read = (
            [access for access in self.accesses if access.writes is kind] for kind in (True, False)
        )
        return not any(self.memory.may_alias(a.buffer, b.buffer) for a in stored for b in read)

    def is_plain(self, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` is vectorisable."""
        if isinstance(stmt, S.Alloc):
            return stmt.buffer.is_var and stmt.buffer.dtype.bits >= 8
        if isinstance(stmt, S.Store):
            data = stmt.buffer.data
            total = any(buffer.data is data for buffer in self.totals)
            total |= self.scan is not None and self.scan[1].data is data
            if stmt.buffer.is_var and not (data in self.own or total):
                return False  # the last iteration counts
            return stmt.buffer.dtype.bits >= 8 and stmt.buffer.dtype.lanes == 1
        if isinstance(stmt, S.For):  # all lanes go through it together
            ends = E.binary("sub", stmt.stop, stmt.start)
            is_uniform = self.is_uniform(ends) and not E.holds(ends, E.Load)
            return is_uniform and steps_by_one(stmt) and stmt.hints.has_only("reduction")
        return isinstance(stmt, (S.Seq, S.Let, S.If))

    def is_uniform(self, *exprs: E.Expr) -> bool:
        """Whether no name or variable of an iteration is in ``exprs``."""
        own = self.lets | self.own | {self.loop.var}
        return all(own.isdisjoint(expr.variables) for expr in exprs)

    def width_of(self, stmt: S.Stmt) -> int:
        """Bits of the widest value of ``stmt`` itself; -1 if it cannot be vectorised."""
        if isinstance(stmt, S.Store) and self.is_chosen_for_all(stmt):
            return stmt.buffer.dtype.bits
        widest = 0
        for name, role in stmt.role_table().items():
            expr = getattr(stmt, name)
            if role == "expr" and isinstance(expr, E.Expr) and not isinstance(stmt, S.For):
                width = self.width(expr)
                if width < 0:
                    return -1
                widest = max(widest, width)
        return widest

    def is_chosen_for_all(self, store: S.Store) -> bool:
        """Whether a store moves an element, or one that all lanes of whole vectors choose alike."""
        bits, value, count = store.buffer.dtype.bits, store.value, trip_count(self.loop) or 1
        if bits < 8 or not is_chosen(value, store.buffer.dtype):
            return False
        is_whole = isinstance(value, E.Load) or count % (WIDEST // bits) == 0
        return is_whole and self.is_uniform(*(each.cond for each in E.find(value, E.Select)))

    def width(self, expr: E.Expr) -> int:
        """Bits of the widest value in ``expr``; -1 if it cannot be vectorised."""
        if not isinstance(expr, _NODES) or expr.dtype.lanes > 1 or expr.dtype == "handle":
            return -1
        if isinstance(expr, E.Load):
            is_plain = all(self.width(index) > 0 for index in expr.indices)
            return value_bits(expr.dtype) if is_plain else -1
        if isinstance(expr, E.Call) and expr.atom.effect is not Effect.NONE:
            return -1
        if isinstance(expr, E.Binary) and BINARY[expr.op].compares:
            if is_position(expr.a) and is_position(expr.b):
                return 8
        widths = [self.width(child) for child in expr.children() if isinstance(child, E.Expr)]
        return -1 if -1 in widths else max(value_bits(expr.dtype), *widths, 8)

    def is_reduction(self, total: Buffer) -> bool:
        """Whether the total of a reduction is read where its own new value is computed, once."""
        data, dtype = total.data, total.dtype
        if dtype.is_bool or dtype.bits < 8 or (dtype.is_float and dtype.bits < 32):
            return False  # rounded in each step
        own_stores = [store for store in self.stores if store.buffer.data is data]
        exprs = [expr for node in self.nodes for expr in node.exprs()]
        loads = [x for expr in exprs for x in E.find(expr, E.Load) if x.buffer.data is data]
        if len(own_stores) != 1 or len(loads) != 1:
            return False
        return any(load is loads[0] for load in E.find(own_stores[0].value, E.Load))

    def is_running_total(self, op: str, total: Buffer) -> bool:
        """Whether the running total gets its new value once, from its old one and a value that
        does not need it, before anything reads it."""
        if (
            total.dtype.is_bool
            or total.dtype.bits < 8
            or value_bits(total.dtype) != total.dtype.bits
        ):
            return False  # rounded in each step
        has_update = False
        for node in self.nodes:
            if isinstance(node, S.Store) and node.buffer.data is total.data:
                value = added_value(node, op)
                if has_update or value is None:
                    return False
                if any(_is_of(load, total) for load in E.find(value, E.Load)):
                    return False
                has_update = True
            elif not has_update and any(
                _is_of(x, total) for y in node.exprs() for x in E.find(y, E.Load)
            ):
                return False
        return has_update and not any(isinstance(node, S.If) for node in self.nodes)

    def stride(self, access: Access) -> int | None:
        """Elements from one iteration to the next."""
        return stride_of(access.buffer, access.indices, self.loop.var, self.changing)

    def may_gather(self, access: Access) -> bool:
        """Whether lanes may read elements apart: not of what the loop stores, which is slower than
        in order, and in the rounds of a loop in it only of a tile that stays in the L1 cache."""
        size = None if access.buffer.storage == "global" else bytes_of(access.buffer)
        is_near = not self.inner or (size is not None and size <= TABLE)
        is_read = all(access.data is not store.buffer.data for store in self.stores)
        return not self.is_serial and is_near and is_read

    def may_conflict(self, store: Access, other: Access) -> bool:
        """Whether ``other`` may access what another iteration stores: a loop-carried dependence."""
        a, b = (self.same.get(access.data, access.data) for access in (store, other))
        if a is not b:
            if not self.is_serial or not self.memory.may_alias(store.buffer, other.buffer):
                return False
            self.pairs[frozenset((a, b))] = store.buffer, other.buffer
        anywhere = self.is_serial and not self.memory.any_address.isdisjoint((a, b))
        return anywhere or not self.iterations.are_disjoint(store, other)


def _is_of(expr: E.Expr, total: Buffer) -> bool:
    """Whether ``expr`` is the value of the variable ``total``."""
    return isinstance(expr, E.Load) and expr.buffer.data is total.data
