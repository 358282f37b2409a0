"""Index linearization: quotients and remainders of one number become that number.

``X[at // 3136, at // 56 % 56, at % 56]`` of a tensor of 56 x 56 pixels is element ``at`` of the
flat tensor: with ``x % n`` written as ``x - x // n * n`` all quotients cancel. An access whose flat
index advances by a constant becomes an access of the flat tensor, if all indices but the first are
known to be in bounds. The bounds check of the first index becomes one of the flat index.

All accesses of tensors of one shape and dtype change together, or none does: such tensors may
alias, and passes compare their elements by their indices.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype, max_value
from tilelang.ir.linear import Linear, parted
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import ExprRewriter, rebuild
from tilelang.transforms.analysis.dependence import steps_of


class Digits(ExprRewriter):
    """Joins the digits of accesses in a loop over ``var``."""

    def __init__(self, var: E.Var, known: Bounds) -> None:
        self.var, self.known = var, known
        self.rows: dict[Buffer, Buffer] = {}  # tensor -> itself as a single row
        self.numbers: dict[tuple[Buffer, tuple[E.Expr, ...]], tuple[E.Expr]] = {}

    def joined(self, body: S.Stmt) -> S.Stmt:
        """``body`` with accesses by numbers where that makes neighbours of them."""
        gains, stay, tables = set(), set(), dict[Buffer, tuple[dtype, Shape]]()
        for access in effects.accesses(body, nested=True):
            buffer, indices = access.buffer, access.indices
            if buffer.storage == "global":
                kind = tables[buffer] = (buffer.dtype, buffer.shape)
                number = self.number(buffer, indices)
                if access.kind is not effects.Kind.PLAIN or number is None:
                    stay.add(kind)
                    continue
                self.numbers[buffer, indices] = (number,)
                if None in steps_of(indices, self.var):
                    gains.add(kind)
        for buffer, kind in tables.items():
            if kind in gains - stay:
                self.rows[buffer] = replace(buffer, shape=Shape((prod(map(int, buffer.shape)),)))
        return self.rewrite(body) if self.rows else body

    def node(self, expr: E.Expr) -> E.Expr:
        if isinstance(expr, E.Load) and expr.buffer in self.rows:
            return E.Load(self.rows[expr.buffer], self.numbers[expr.buffer, expr.indices])
        return rebuild(expr, self.expr)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and stmt.buffer in self.rows:
            number = self.numbers[stmt.buffer, stmt.indices]
            return replace(stmt, buffer=self.rows[stmt.buffer], indices=number)
        return stmt

    def number(self, buffer: Buffer, indices: tuple[E.Expr, ...]) -> E.Expr | None:
        """The position of an element, if it moves on by a constant from one to the next."""
        total = Linear((), 0, indices[0].dtype)
        if buffer.strides is not None or not all(isinstance(n, int) for n in buffer.shape):
            return None
        for dim, (index, stride) in enumerate(zip(indices, buffer.stride_list())):
            limits = interval(index, self.known)
            inside = 0 <= limits.low <= limits.high < int(buffer.shape[dim])
            if index.dtype != total.dtype or not (inside or dim == 0):
                return None
            total = total.added(self.opened(Linear.of(index)), int(stride))
        number = simplify(total.expr(), self.known)
        fits = interval(number, self.known).high < max_value(total.dtype)
        return number if fits and parted(number, frozenset((self.var,))) is not None else None

    def opened(self, form: Linear) -> Linear:
        """``form`` with ``x - x // n * n`` for ``x % n``."""
        total = Linear((), form.constant, form.dtype)
        for term, factor in form.terms:
            parts = Linear(((term, 1),), 0, form.dtype)
            if isinstance(term, E.Binary) and term.op == "floormod" and isinstance(term.b, E.Const):
                quotient = simplify(E.binary("floordiv", term.a, term.b), self.known)
                multiples = self.opened(Linear.of(quotient))
                parts = self.opened(Linear.of(term.a)).added(multiples, -int(term.b.value))
            total = total.added(parts, factor)
        return total
