"""Sign analysis: which integer expressions are not negative, by ranges, conditions and facts.

A fact is a linear form that is at least 0: ``stop - 1 - i`` for a loop variable, ``i - 2`` below
``if i >= 2``. An expression is not negative if its parts are not, or if what is left of it without
the facts that share its terms has no negative value. Index arithmetic is exact, so no step of this
overflows.

What is loaded is known only where nothing writes it, or for variables (``T.alloc_var``) that never
become negative.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace

from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds, Interval, interval
from tilelang.ir.indices import widens
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass

_DEPTH = 3  # facts that are put together for one answer
_HEIGHT = 16  # levels of an expression that are looked at part by part
_NEGATED = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}


@dataclass(frozen=True)
class Form:
    """``sum(factor * term) + constant`` over unbounded integers."""

    terms: tuple[tuple[E.Expr, int], ...]
    constant: int

    def less(self, other: Form, times: int) -> Form:
        """``self - times * other``."""
        factors = dict(self.terms)
        for term, factor in other.terms:
            factors[term] = factors.get(term, 0) - times * factor
        kept = tuple(pair for pair in factors.items() if pair[1])
        return Form(kept, self.constant - times * other.constant)


def form_of(expr: E.Expr) -> Form:
    """``expr`` with sums and products with constants opened."""
    terms: dict[E.Expr, int] = {}
    constant, stack = 0, [(expr, 1)]
    while stack:
        node, factor = stack.pop()
        match node:
            case E.Const():
                constant += factor * int(node.value)
            case E.Unary(op="neg"):
                stack.append((node.a, -factor))
            case E.Binary(op="add" | "sub"):
                stack += [(node.a, factor), (node.b, factor if node.op == "add" else -factor)]
            case E.Binary(op="mul", b=E.Const(value=value)):
                stack.append((node.a, factor * int(value)))
            case E.Binary(op="mul", a=E.Const(value=value)):
                stack.append((node.b, factor * int(value)))
            case E.Cast() if widens(node):
                stack.append((node.value, factor))
            case _:
                terms[node] = terms.get(node, 0) + factor
    return Form(tuple(pair for pair in terms.items() if pair[1]), constant)


@dataclass(frozen=True, eq=False)
class Signs:
    """What is known at one place of a program.

    Attributes:
        bounds: ranges of variables.
        facts: forms that are at least 0.
        lets: names for arithmetic without loads.
        rising: storage of variables that never hold a negative number.
    """

    bounds: Bounds
    facts: tuple[Form, ...] = ()
    lets: Mapping[E.Var, E.Expr] = field(default_factory=dict)
    rising: frozenset[E.Var] = frozenset()

    def given(self, cond: E.Expr, holds: bool = True, written: Collection[E.Var] = ()) -> Signs:
        """With ``cond`` known to hold, or not to.

        Args:
            written: the storage that changes where this is known.
        """
        facts = [
            fact for conjunct in _parts(cond, holds) for fact in self._facts(conjunct, written)
        ]
        return self.with_facts(facts) if facts else self

    def with_facts(self, facts: Iterable[Form]) -> Signs:
        """With further forms that are at least 0."""
        return replace(self, facts=(*self.facts, *facts))

    def within(self, var: E.Var, first: E.Expr, stop: E.Expr, step: int) -> Signs:
        """With ``var`` in ``range(first, stop, step)``; a step of 0 is an unknown one."""
        first, stop = (self.resolved(end) for end in (first, stop))
        if step > 0:
            known = replace(self, bounds=self.bounds.with_range(var, first, stop, step))
            return known.given(E.binary("ge", var, first)).given(E.binary("lt", var, stop))
        if step == 0:
            return self
        low, high = interval(stop, self.bounds).low + 1, interval(first, self.bounds).high
        known = replace(self, bounds=self.bounds.with_interval(var, Interval(low, high)))
        return known.given(E.binary("le", var, first)).given(E.binary("gt", var, stop))

    def _facts(
        self, cond: tuple[str, E.Expr, E.Expr], written: Collection[E.Var]
    ) -> Iterator[Form]:
        op, a, b = cond
        if not (a.dtype.is_integer and a.dtype.lanes == 1):
            return
        if any(E.holds(side, E.Call) for side in (a, b)):
            return
        if any(load.buffer.data in written for side in (a, b) for load in E.find(side, E.Load)):
            return
        left, right = (form_of(self.resolved(side)) for side in (a, b))
        if op in ("ge", "gt", "eq"):
            yield Form(left.terms, left.constant - (op == "gt")).less(right, 1)
        if op in ("le", "lt", "eq"):
            yield Form(right.terms, right.constant - (op == "lt")).less(left, 1)

    def resolved(self, expr: E.Expr) -> E.Expr:
        """``expr`` without names for arithmetic."""
        return substitute(expr, dict(self.lets))

    # -- questions ---------------------------------------------------------------------------------
    def nonnegative(self, expr: E.Expr) -> bool:
        """Whether no value of ``expr`` is negative."""
        return self._nonnegative(self.resolved(expr))

    def _nonnegative(self, expr: E.Expr, height: int = 0) -> bool:
        if expr.dtype.is_uint or interval(expr, self.bounds).low >= 0:
            return True
        if height > _HEIGHT:
            return False
        return self._by_parts(expr, height) or self._by_facts(form_of(expr), _DEPTH)

    def _by_parts(self, expr: E.Expr, height: int = 0) -> bool:
        def holds(operand: E.Expr) -> bool:
            return self._nonnegative(operand, height + 1)

        match expr:
            case E.Load():
                return expr.buffer.data in self.rising
            case E.Cast():
                return widens(expr) and holds(expr.value)
            case E.Select():
                yes, no = self.given(expr.cond), self.given(expr.cond, False)
                return yes._nonnegative(expr.t, height + 1) and no._nonnegative(expr.f, height + 1)
            case E.Binary(op="max" | "bitand"):
                return holds(expr.a) or holds(expr.b)
            case E.Binary(op="floormod"):
                return holds(expr.b)
            case E.Binary(op="shr" | "truncmod"):
                return holds(expr.a)
            case E.Binary(op="add" | "mul" | "min" | "floordiv" | "truncdiv" | "bitor" | "bitxor"):
                return expr.dtype.bits >= 32 and holds(expr.a) and holds(expr.b)
            case E.Ramp():
                last = expr.base + expr.stride * (expr.lanes - 1)
                return holds(expr.base) and holds(E.as_expr(last))
            case E.Broadcast():
                return holds(expr.value)
            case E.Vector():
                return all(holds(element) for element in expr.elements)
            case _:
                return False

    def _by_facts(self, form: Form, depth: int) -> bool:
        """Whether ``form`` is at least 0, alone or less multiples of facts."""
        if self._least(form) >= 0:
            return True
        if depth == 0:
            return False
        factors = dict(form.terms)
        for fact in self.facts:
            for term, factor in fact.terms:
                times, remainder = divmod(factors.get(term, 0), factor)
                if (
                    remainder == 0
                    and times > 0
                    and self._by_facts(form.less(fact, times), depth - 1)
                ):
                    return True
        return False

    def _least(self, form: Form) -> float:
        """The least value of ``form`` by the ranges of its terms."""
        total: float = form.constant
        for term, factor in form.terms:
            values = interval(term, self.bounds)
            if factor > 0:
                low = values.low if values.low >= 0 or not self._by_parts(term) else 0
                total += factor * low
            else:
                total += factor * values.high
        return total


def _parts(cond: E.Expr, holds: bool) -> Iterator[tuple[str, E.Expr, E.Expr]]:
    """The comparisons that hold if ``cond`` does, or does not."""
    if isinstance(cond, E.Unary) and cond.op == "lnot":
        yield from _parts(cond.a, not holds)
    elif isinstance(cond, E.Binary) and cond.op == ("land" if holds else "lor"):
        yield from _parts(cond.a, holds)
        yield from _parts(cond.b, holds)
    elif isinstance(cond, E.Call) and cond.op == "likely":
        yield from _parts(cond.args[0], holds)
    elif isinstance(cond, E.Binary) and cond.op in _NEGATED:
        yield (cond.op if holds else _NEGATED[cond.op]), cond.a, cond.b
