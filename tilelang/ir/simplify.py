"""Simplification of expressions with interval bounds.

Integer sums are kept in a canonical linear form, so equal index expressions become the same
object and differences of them constants: ``(k + 1) * 32 - k * 32`` is ``32``. Ring identities hold
modulo 2**bits; rules with division or comparison assume that index arithmetic does not overflow.
"""

from __future__ import annotations

from tilelang.ir.bounds import Bounds, divisible_by, interval, prove
from tilelang.ir.expr import Binary, Const, Expr, Unary, as_expr, binary, const
from tilelang.ir.visitor import rebuild

Terms = dict[Expr, int]


def simplify(expr: object, bounds: Bounds | None = None) -> Expr:
    """An expression with the same value, smaller where a rule applies."""
    return _Simplifier(bounds or Bounds()).visit(as_expr(expr))


class _Simplifier:
    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.memo: dict[int, Expr] = {}
        self.keep: list[Expr] = []

    def visit(self, expr: Expr) -> Expr:
        found = self.memo.get(id(expr))
        if found is None:
            found = self.memo[id(expr)] = self.node(rebuild(expr, self.visit))
            self.keep.append(expr)
        return found

    def node(self, expr: Expr) -> Expr:
        """One node whose children are simple."""
        if isinstance(expr, (Binary, Unary)):
            return self.operator(expr)
        from tilelang.ir.expr import Cast, Select

        if isinstance(expr, Select):
            decided = prove(expr.cond, self.bounds)
            if decided is not None:
                return expr.t if decided else expr.f
        if isinstance(expr, Cast) and isinstance(expr.value, Const):
            return const(expr.value.value, expr.dtype) if not expr.rounding else expr
        return expr

    def operator(self, expr: Binary | Unary) -> Expr:
        """Operators: linear form for sums, then the rules."""
        if isinstance(expr, Unary):
            if expr.op == "neg" and expr.dtype.is_int:
                return self.linear(expr)
            return _again(expr)
        if expr.dtype.lanes > 1:
            return expr
        if expr.op in ("add", "sub", "mul") and expr.dtype.is_int:
            return self.linear(expr)
        if expr.op in ("floordiv", "floormod"):
            return self.division(expr)
        if expr.op in ("min", "max") and expr.dtype.is_integer:
            return self.extreme(expr)
        if expr.dtype.is_bool:
            return self.condition(expr)
        return _again(expr)

    # -- sums ----------------------------------------------------------------------------------
    def linear(self, expr: Expr) -> Expr:
        """The canonical sum of an integer expression."""
        terms: Terms = {}
        constant = _collect(expr, 1, terms)
        return _sum(terms, constant, expr)

    # -- division ---------------------------------------------------------------------------------
    def division(self, expr: Binary) -> Expr:
        """``//`` and ``%`` by a positive constant."""
        if not (isinstance(expr.b, Const) and expr.dtype.is_int and int(expr.b.value) > 0):
            return _again(expr)
        n = int(expr.b.value)
        known = interval(expr.a, self.bounds)
        if known.known and known.low // n == known.high // n:
            whole = int(known.low // n)
            if expr.op == "floordiv":
                return const(whole, expr.dtype)
            return self.linear(expr.a - whole * n) if whole else expr.a
        terms: Terms = {}
        constant = _collect(expr.a, 1, terms)
        inside: Terms = {}
        outside: Terms = {}
        for term, factor in terms.items():
            if factor % n == 0:
                outside[term] = factor // n
            else:
                inside[term] = factor
        rest = constant % n
        if not outside and rest == constant:
            return self.nested(expr, n)
        core = _sum(inside, rest, expr)
        low = self.division_core(expr.op, core, n, expr)
        if expr.op == "floormod":
            return low
        return self.linear(_sum(outside, constant // n, expr) + low)

    def division_core(self, op: str, core: Expr, n: int, expr: Binary) -> Expr:
        """``core // n`` or ``core % n`` without multiples of ``n`` in ``core``."""
        known = interval(core, self.bounds)
        if known.low >= 0 and known.high < n:
            return const(0, expr.dtype) if op == "floordiv" else core
        return binary(op, core, const(n, expr.dtype))

    def nested(self, expr: Binary, n: int) -> Expr:
        """``x // a // b`` and ``x % a % b``."""
        a = expr.a
        if isinstance(a, Binary) and isinstance(a.b, Const) and int(a.b.value) > 0:
            inner = int(a.b.value)
            if a.op == "floordiv" and expr.op == "floordiv" and inner * n < 2**31:
                return binary("floordiv", a.a, const(inner * n, expr.dtype))
            if a.op == "floormod" and expr.op == "floormod" and inner % n == 0:
                return binary("floormod", a.a, const(n, expr.dtype))
        if expr.op == "floormod" and divisible_by(a, n):
            return const(0, expr.dtype)
        return _again(expr)

    # -- choices -----------------------------------------------------------------------------------
    def extreme(self, expr: Binary) -> Expr:
        """min and max decided by the interval of the difference."""
        less = self.decide(binary("le", expr.a, expr.b))
        if less is None:
            return _again(expr)
        return expr.a if less == (expr.op == "min") else expr.b

    def condition(self, expr: Binary) -> Expr:
        """Comparisons and logic."""
        decided = self.decide(expr)
        return const(decided) if decided is not None else _again(expr)

    def decide(self, cond: Expr) -> bool | None:
        """Truth of a condition, also through the interval of the difference of its sides."""
        found = prove(cond, self.bounds)
        if found is not None or not isinstance(cond, Binary):
            return found
        if cond.op not in ("lt", "le", "gt", "ge", "eq", "ne") or not cond.a.dtype.is_int:
            return None
        terms: Terms = {}
        constant = _collect(cond.a, 1, terms) + _collect(cond.b, -1, terms)
        difference = _sum(terms, constant, cond.a)
        zero = const(0, cond.a.dtype)
        return prove(binary(cond.op, difference, zero), self.bounds)


def _again(expr: Expr) -> Expr:
    """``expr`` built anew, so that constants among its operands fold."""
    if isinstance(expr, Binary):
        return binary(expr.op, expr.a, expr.b)
    return expr


def _collect(expr: Expr, factor: int, terms: Terms) -> int:
    """Add ``factor * expr`` to ``terms``; gives the constant part."""
    if isinstance(expr, Const):
        return factor * int(expr.value)
    if isinstance(expr, Unary) and expr.op == "neg":
        return _collect(expr.a, -factor, terms)
    if isinstance(expr, Binary):
        if expr.op in ("add", "sub"):
            sign = 1 if expr.op == "add" else -1
            return _collect(expr.a, factor, terms) + _collect(expr.b, sign * factor, terms)
        if expr.op == "mul":
            if isinstance(expr.b, Const):
                return _collect(expr.a, factor * int(expr.b.value), terms)
            if isinstance(expr.a, Const):
                return _collect(expr.b, factor * int(expr.a.value), terms)
    total = terms.get(expr, 0) + factor
    if total:
        terms[expr] = total
    else:
        del terms[expr]
    return 0


def _sum(terms: Terms, constant: int, like: Expr) -> Expr:
    """``terms`` and ``constant`` as one expression, positive terms first."""
    result: Expr | None = None
    ordered = sorted(terms.items(), key=lambda item: item[1] < 0)  # stable: written order
    for term, factor in ordered:
        size = abs(factor)
        part = term if size == 1 else binary("mul", term, const(size, like.dtype))
        if result is None:
            result = part if factor > 0 else binary("mul", term, const(factor, like.dtype))
        else:
            result = binary("add" if factor > 0 else "sub", result, part)
    if result is None:
        return const(constant, like.dtype)
    if constant < 0:
        return binary("sub", result, const(-constant, like.dtype))
    return binary("add", result, const(constant, like.dtype))
