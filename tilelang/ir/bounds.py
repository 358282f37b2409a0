"""What is known of integer variables: intervals, and what follows for expressions.

Index arithmetic is taken not to overflow its dtype; an interval that leaves the range of the dtype
is dropped to "unknown", so nothing is concluded where wrapping could matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilelang.ir.dtypes import max_value, min_value
from tilelang.ir.expr import Binary, Cast, Const, Expr, Select, Unary, Var, as_expr

INF = float("inf")


@dataclass(frozen=True)
class Interval:
    """All integers from ``low`` to ``high``, which may be infinite."""

    low: float = -INF
    high: float = INF

    @property
    def known(self) -> bool:
        """Whether both ends are finite."""
        return self.low > -INF and self.high < INF


ANY = Interval()


@dataclass(frozen=True)
class Bounds:
    """Intervals of variables; immutable, extended by :meth:`with_range`."""

    ranges: Mapping[Var, Interval] = None  # type: ignore[assignment]  # set in __post_init__

    def __post_init__(self) -> None:
        if self.ranges is None:
            object.__setattr__(self, "ranges", {})

    def with_range(self, var: Var, start: object, stop: object) -> Bounds:
        """With ``start <= var < stop``."""
        low = interval(as_expr(start), self).low
        high = interval(as_expr(stop), self).high - 1
        return self.with_interval(var, Interval(low, high))

    def with_interval(self, var: Var, found: Interval) -> Bounds:
        """With ``var`` in ``found``."""
        return Bounds({**self.ranges, var: found})

    def of(self, var: Var) -> Interval:
        """What is known of ``var``."""
        return self.ranges.get(var, ANY)


def _mul(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def _corners(a: Interval, b: Interval) -> Interval:
    found = [_mul(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(found), max(found))


def interval(expr: Expr, bounds: Bounds | None = None) -> Interval:
    """An interval that holds every value of the integer expression ``expr``."""
    found = _interval(expr, bounds or Bounds())
    if not expr.dtype.is_integer:
        return found
    least, most = float(min_value(expr.dtype)), float(max_value(expr.dtype))
    if found.low < least or found.high > most:
        known_low = max(found.low, least) if found.high <= most else least
        known_high = min(found.high, most) if found.low >= least else most
        if found.low == -INF or found.high == INF:  # unknown, not overflowing
            return Interval(max(found.low, least), min(found.high, most))
        return Interval(known_low, known_high)
    return found


def _interval(expr: Expr, bounds: Bounds) -> Interval:
    if isinstance(expr, Const):
        if isinstance(expr.value, float):
            return ANY
        return Interval(int(expr.value), int(expr.value))
    if isinstance(expr, Var):
        return bounds.of(expr)
    if isinstance(expr, Cast) and expr.value.dtype.is_integer:
        inner = interval(expr.value, bounds)
        fits = inner.known and min_value(expr.dtype) <= inner.low and inner.high <= max_value(
            expr.dtype
        )
        return inner if fits else ANY
    if isinstance(expr, Unary) and expr.op == "neg":
        inner = interval(expr.a, bounds)
        return Interval(-inner.high, -inner.low)
    if isinstance(expr, Select):
        a, b = interval(expr.t, bounds), interval(expr.f, bounds)
        return Interval(min(a.low, b.low), max(a.high, b.high))
    if isinstance(expr, Binary):
        return _binary(expr, interval(expr.a, bounds), interval(expr.b, bounds))
    return ANY


def _binary(expr: Binary, a: Interval, b: Interval) -> Interval:
    match expr.op:
        case "add":
            return Interval(a.low + b.low, a.high + b.high)
        case "sub":
            return Interval(a.low - b.high, a.high - b.low)
        case "mul":
            return _corners(a, b)
        case "min":
            return Interval(min(a.low, b.low), min(a.high, b.high))
        case "max":
            return Interval(max(a.low, b.low), max(a.high, b.high))
        case "floordiv" if b.low > 0:
            ends = [_floor(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
            return Interval(min(ends), max(ends))
        case "truncdiv" if b.low > 0 and a.low >= 0:
            return Interval(_floor(a.low, b.high), _floor(a.high, b.low))
        case "floormod" if b.low > 0:
            if b.low == b.high and a.known and _floor(a.low, b.low) == _floor(a.high, b.low):
                base = _floor(a.low, b.low) * b.low
                return Interval(a.low - base, a.high - base)
            return Interval(0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1)
        case "truncmod" if b.low > 0 and a.low >= 0:
            return Interval(0, min(b.high - 1, a.high))
        case "bitand" if b.low >= 0:
            return Interval(0, b.high)
        case "shr" if b.low == b.high and 0 <= b.low < 64:
            return Interval(_floor(a.low, 2.0**b.low), _floor(a.high, 2.0**b.low))
        case _:
            return ANY


def _floor(a: float, b: float) -> float:
    if a in (INF, -INF):
        return a
    if b == INF:
        return 0 if a >= 0 else -1
    return a // b


def divisible_by(expr: Expr, n: int) -> bool:
    """Whether every value of ``expr`` is certainly a multiple of ``n``."""
    if n in (1, -1):
        return True
    if isinstance(expr, Const):
        return not isinstance(expr.value, float) and int(expr.value) % n == 0
    if isinstance(expr, Cast):
        return expr.value.dtype.is_integer and divisible_by(expr.value, n)
    if isinstance(expr, Binary):
        if expr.op in ("add", "sub", "min", "max"):
            return divisible_by(expr.a, n) and divisible_by(expr.b, n)
        if expr.op == "mul":
            return divisible_by(expr.a, n) or divisible_by(expr.b, n)
    return False


def prove(cond: Expr, bounds: Bounds | None = None) -> bool | None:
    """True or False where ``cond`` is decided, None where it is not."""
    known = bounds or Bounds()
    if isinstance(cond, Const):
        return bool(cond.value)
    if isinstance(cond, Unary) and cond.op == "lnot":
        inner = prove(cond.a, known)
        return None if inner is None else not inner
    if not isinstance(cond, Binary):
        return None
    if cond.op in ("land", "lor"):
        a, b = prove(cond.a, known), prove(cond.b, known)
        stop = cond.op == "lor"
        if a is stop or b is stop:
            return stop
        return (not stop) if a is (not stop) and b is (not stop) else None
    if not cond.a.dtype.is_integer:
        return None
    return _compare(cond.op, interval(cond.a, known), interval(cond.b, known))


def _compare(op: str, a: Interval, b: Interval) -> bool | None:
    if op in ("gt", "ge"):
        return _compare("lt" if op == "gt" else "le", b, a)
    if op == "lt":
        return True if a.high < b.low else False if a.low >= b.high else None
    if op == "le":
        return True if a.high <= b.low else False if a.low > b.high else None
    apart = a.high < b.low or b.high < a.low
    same = a.low == a.high == b.low == b.high
    if op == "eq":
        return False if apart else True if same else None
    if op == "ne":
        return True if apart else False if same else None
    return None
