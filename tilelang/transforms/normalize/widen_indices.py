"""Index arithmetic that needs 64 bits gets them.

In a program, index arithmetic is exact (``ir.indices``). In later passes an expression wraps like
its dtype. Where the two could differ, this pass rewrites the expression in int64, with conversions
at its variables:

* all arithmetic of an index of a dimension whose extent is an int64 or a constant above 2**31,
  including arithmetic on loaded values and in the definitions of names;
* an index, a side of a comparison, or an operand of a conversion to int64, if known ranges or
  constants show that an intermediate value overflows (``bx * 65536 * 65536``).

Other indices stay in 32 bits: they are small, or they count blocks and elements of unknown number.
The printers compute those exactly, too: in 32 bits where the possible ranges fit, otherwise in 64
bits, above all the product of block index and block size, and offsets of elements. So the pass
leaves most programs as they are.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.facts import plain_values, ranges_of
from tilelang.ir.indices import is_index, is_long, is_sum, is_widening
from tilelang.ir.intervals import Interval, full
from tilelang.ir.visitor import Rewriter, postorder, rebuild
from tilelang.records import dataclass
from tilelang.transforms.rules import Cursor, rule

INT64 = DType("int64")
_UNKNOWN = Interval(0, 2)  # the bound of values of any size


@rule(S.PrimFunc)
def widen_indices(func: S.PrimFunc, cursor: Cursor) -> S.PrimFunc:
    """Compute indices in 64 bits where 32 may overflow.

    Runs before all passes that simplify what would wrap.
    """
    return func.with_body(_Widen(func).rewrite(func.body))


@dataclass(frozen=True, eq=False)
class _Modest(Bounds):
    """Bounds that take what is unknown for small: what overflows then does so in any case."""

    def of(self, var: E.Var) -> Interval:
        known = self.ranges.get(var, _UNKNOWN)
        return known if known.is_known else _UNKNOWN


class _Widen(Rewriter):
    def __init__(self, func: S.PrimFunc) -> None:
        self.values = plain_values(func.body)
        known: dict[E.Var, Interval] = {}
        self.bounds = _Modest(known)
        for var, start, stop, step in ranges_of(func.body):
            known[var] = self.bounds.within(start, stop, step)
        self.known = known
        buffers = (*func.buffers, *[stmt.buffer for stmt in S.find(func.body, S.Alloc, S.View)])
        self.has_long = any(is_long(extent) for buffer in buffers for extent in buffer.shape)
        self.exact_names: dict[E.Var, E.Var] = {}  # of index arithmetic that overflows
        self.long_names: dict[E.Var, E.Var] = {}  # of other arithmetic, for long dimensions
        self.memo: dict[E.Expr, E.Expr] = {}
        self.exact_forms: dict[bool, dict[E.Expr, E.Expr]] = {False: {}, True: {}}

    # -- statements --------------------------------------------------------------------------------
    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if isinstance(stmt, S.Let):
            return self.let(stmt)
        if isinstance(stmt, (S.Store, S.ReducerUpdate)):
            indices = self.widened(stmt.buffer, stmt.indices)
            value = self.expr(stmt.value)
            if value is stmt.value and all(a is b for a, b in zip(indices, stmt.indices)):
                return stmt
            return replace(stmt, indices=indices, value=value)
        return super()._visit(stmt)

    def _visit_operand(self, old: Any) -> Any:
        if not isinstance(old, Region):
            return super()._visit_operand(old)
        mins = self.widened(old.buffer, old.mins)
        region = old.map(self.expr)
        if all(a is b for a, b in zip(mins, region.mins)):
            return region
        return replace(region, mins=mins)

    def let(self, stmt: S.Let) -> S.Stmt | list[S.Stmt]:
        """A name; one of 64 bits for arithmetic that needs them."""
        if is_index(stmt.value, self.values):
            self.known[stmt.var] = interval(stmt.value, self.bounds)
            if self.overflows(stmt.value):
                var = self.exact_names[stmt.var] = E.Var(stmt.var.name, INT64)
                return replace(stmt, var=var, value=self.exact(stmt.value, False))
        value = self.expr(stmt.value)
        plain = stmt if value is stmt.value else replace(stmt, value=value)
        if not self.has_long or not is_sum(stmt.value) or E.holds(stmt.value, E.Call):
            return plain
        if is_index(stmt.value, self.values) or stmt.var.dtype == INT64:
            return plain
        var = self.long_names[stmt.var] = E.Var(stmt.var.name, INT64)
        return [plain, replace(stmt, var=var, value=self.exact(stmt.value, True))]

    # -- expressions -------------------------------------------------------------------------------
    def expr(self, expr: E.Expr) -> E.Expr:
        """``expr`` as a value, with the indices in it as they have to be."""
        if expr not in self.memo:
            for node in postorder(expr):  # what is below is known then: no deep recursion
                if node not in self.memo:
                    self.memo[node] = self._expr(node)
        return self.memo[expr]

    def _expr(self, expr: E.Expr) -> E.Expr:
        if isinstance(expr, E.Var):
            name = self.exact_names.get(expr)
            return expr if name is None else E.cast(name, expr.dtype)
        if not expr.children():
            return expr
        if isinstance(expr, (E.Load, E.AddressOf)):
            indices = self.widened(expr.buffer, expr.indices)
            unchanged = all(a is b for a, b in zip(indices, expr.indices))
            return expr if unchanged else replace(expr, indices=indices)
        if isinstance(expr, E.Binary) and expr.dtype.is_bool and expr.a.dtype.is_int:
            sides = (expr.a, expr.b)
            if all(is_index(side, self.values) for side in sides):
                if any(self.overflows(side) for side in sides):
                    return E.binary(expr.op, *(self.exact(side, False) for side in sides))
        if isinstance(expr, E.Cast) and is_widening(expr) and is_index(expr.value, self.values):
            if self.overflows(expr.value):
                return self.exact(expr.value, False)
        return rebuild(expr, self.expr)

    def widened(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> tuple[E.Expr, ...]:
        """The indices of an element or the start of a tile, in 64 bits where needed."""
        return tuple(self.index(index, extent) for index, extent in zip(indices, buffer.shape))

    def index(self, index: E.Expr, extent: int | E.Expr) -> E.Expr:
        """One index of a dimension."""
        if is_long(extent):
            return self.exact(index, True)
        if is_index(index, self.values) and self.overflows(index):
            return self.exact(index, False)
        return self.expr(index)

    def exact(self, expr: E.Expr, long: bool) -> E.Expr:
        """``expr`` in 64 bits; operands other than index arithmetic only if ``long``."""
        known = self.exact_forms[long]
        if expr not in known:
            stack = [expr]
            while stack:  # operands first: no deep recursion
                node = stack[-1]
                operands = (node.a, node.b) if isinstance(node, E.Binary) and is_sum(node) else ()
                pending = [operand for operand in operands if operand not in known]
                stack += pending
                if not pending:
                    known[stack.pop()] = self._exact(node, long)
        return known[expr]

    def _exact(self, expr: E.Expr, long: bool) -> E.Expr:
        match expr:
            case E.Const() if expr.dtype.lanes == 1:
                return E.const(int(expr.value), INT64)
            case E.Var():
                name = self.exact_names.get(expr)
                if name is None and long:
                    name = self.long_names.get(expr)
                return E.cast(expr, INT64) if name is None else name
            case E.Cast() if is_widening(expr):
                return self.exact(expr.value, long)
            case E.Binary() if is_sum(expr):
                return E.binary(expr.op, self.exact(expr.a, long), self.exact(expr.b, long))
            case E.Ramp():
                base, stride = self.exact(expr.base, long), self.exact(expr.stride, long)
                return E.Ramp(base, stride, expr.lanes)
            case E.Broadcast() if expr.value.dtype.lanes == 1:
                return E.Broadcast(self.exact(expr.value, long), expr.lanes)
        plain = self.expr(expr)
        return E.cast(plain, INT64) if plain.dtype.lanes == 1 else plain

    def overflows(self, expr: E.Expr) -> bool:
        """Whether a step of index arithmetic may leave its dtype however small all sizes are."""
        for node in postorder(expr):
            if not is_sum(node) and not isinstance(node, E.Var):
                continue
            if node in self.exact_names:
                return True
            values, limits = interval(node, self.bounds), full(node.dtype)
            if values.low <= limits.low and values.high >= limits.high:
                return True
        return False
