"""Interval bounds and congruences of integer values, and what follows from them.

Machine integers wrap. Every result here is about the wrapped value: where an operation may leave
the range of its dtype, only "any value of the dtype" is concluded (and divisibility by powers of
two, which wrapping keeps).

There is one assumption, and the caller makes it: a variable whose interval has an *infinite* end
(a block index below a symbolic extent, say) stands for an index of unknown size, and arithmetic
with it is taken not to overflow. A variable without an interval may have any value of its dtype.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypeAlias

from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.dtypes import max_value, min_value
from tilelang.ir.expr import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Ramp,
    Select,
    Unary,
    Var,
    as_expr,
)
from tilelang.ir.linear import unwrapped
from tilelang.records import dataclass

_BITWISE = {"bitand": operator.and_, "bitor": operator.or_, "bitxor": operator.xor}
INF = math.inf
End: TypeAlias = "int | float"  # an int, or plus or minus infinity


@dataclass(frozen=True)
class Interval:
    """All integers from ``low`` to ``high`` (which may be infinite) that are ``remainder`` modulo
    ``modulus``. A modulus of 0 says that the only value is ``remainder``."""

    low: End = -INF
    high: End = INF
    modulus: int = 1
    remainder: int = 0

    @property
    def known(self) -> bool:
        """Whether both ends are finite."""
        return self.low > -INF and self.high < INF

    @property
    def single(self) -> bool:
        """Whether there is one value only."""
        return self.known and self.low == self.high

    def congruence(self) -> tuple[int, int]:
        """(modulus, remainder), exact for a single value."""
        return (0, int(self.low)) if self.single else (self.modulus, self.remainder)


ANY = Interval()


@dataclass(frozen=True, eq=False)
class Bounds:
    """Intervals of variables; immutable, extended by the ``with_`` methods.

    ``memo`` keeps results derived from these bounds, so asking again costs nothing.
    """

    ranges: Mapping[Var, Interval] = field(default_factory=dict)
    memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def with_range(self, var: Var, start: object, stop: object, step: object = 1) -> Bounds:
        """With ``var`` in ``range(start, stop, step)`` for a positive step."""
        return self.with_interval(var, self.within(start, stop, step))

    def within(self, start: object, stop: object, step: object = 1) -> Interval:
        """What a variable of ``range(start, stop, step)`` can be, for a positive step."""
        first, last = self._end(start), self._end(stop)
        stride = step.value if isinstance(step, Const) else step
        modulus, remainder = 1, 0
        if isinstance(stride, (int, float)) and int(stride) > 0:
            have, remainder = first.congruence()
            modulus = math.gcd(have, int(stride))
            remainder %= modulus
        # An end that may be anything is one of unknown size: see the module docstring.
        low = -INF if first.low <= _least(first, start) else first.low
        high = INF if last.high >= _most(last, stop) else last.high - 1
        return Interval(low, high, modulus, remainder)

    def _end(self, of: object) -> Interval:
        value = of.value if isinstance(of, Const) else of
        if isinstance(value, int):
            return Interval(value, value, 0, value)
        return interval(as_expr(of), self)

    def with_interval(self, var: Var, found: Interval) -> Bounds:
        """With ``var`` in ``found``; the same object every time."""
        key = ("with", var, found)
        known = self.memo.get(key)
        if isinstance(known, Bounds):
            return known
        narrowed = self.memo[key] = Bounds({**self.ranges, var: found})
        return narrowed

    def with_ranges(self, ranges: Iterable[Range | Name]) -> Bounds:
        """With each ``var`` of (var, start, stop, step) in its range and each of (var, value) as
        its value is, the earlier ones known to the later. The same ranges give the same object, so
        that passes share what was derived."""
        known = dict(self.ranges)
        for var, *of in ranges:
            at = Bounds(known)
            known[var] = at.within(*of) if len(of) > 1 else interval(as_expr(of[0]), at)
        return _bounds_of(frozenset(known.items()))

    def of(self, var: Var) -> Interval:
        """What is known of ``var``."""
        bounds = self.ranges.get(var)
        return full(var.dtype) if bounds is None else bounds


Range: TypeAlias = "tuple[Var, object, object, object]"
Name: TypeAlias = "tuple[Var, Expr]"


@lru_cache(maxsize=8)
def _bounds_of(ranges: frozenset[tuple[Var, Interval]]) -> Bounds:
    return Bounds(dict(ranges))


def _least(bounds: Interval, of: object) -> End:
    if bounds.single:
        return -INF
    expr = as_expr(of)
    return -INF if not expr.dtype.is_int else int(min_value(expr.dtype))


def _most(bounds: Interval, of: object) -> End:
    if bounds.single:
        return INF
    expr = as_expr(of)
    return INF if not expr.dtype.is_integer else int(max_value(expr.dtype))


@lru_cache(maxsize=256)
def full(dtype: DType) -> Interval:
    """Every value of ``dtype``."""
    if dtype.is_integer:
        return Interval(int(min_value(dtype)), int(max_value(dtype)))
    return Interval(0, 1) if dtype.is_bool else ANY


def interval(expr: Expr, bounds: Bounds | None = None) -> Interval:
    """An interval and congruence that hold for every value of the integer expression ``expr``."""
    bounds = bounds if bounds is not None else Bounds()
    memo: dict[Any, Any] = bounds.memo
    stack = [expr]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        pending = [operand for operand in _inputs(node) if operand not in memo]
        if pending:
            stack.extend(pending)
            continue
        memo[node] = _settled(_value(node, memo, bounds), node.dtype)
        stack.pop()
    result: Interval = memo[expr]
    return result


def _inputs(node: Expr) -> tuple[Expr, ...]:
    """The sub-expressions whose intervals decide that of ``node``."""
    if not node.dtype.is_integer:
        return ()
    if isinstance(node, Binary):
        return (node.a, node.b)
    if isinstance(node, Unary):
        return (node.a,)
    if isinstance(node, (Cast, Broadcast)):
        return (node.value,)
    if isinstance(node, Select):
        return (node.t, node.f)
    if isinstance(node, Ramp):
        return (node.base, node.stride)
    if isinstance(node, Call) and (node.atom.identity or node.op == "abs"):
        return node.args[:1]
    return ()


def _settled(bounds: Interval, dtype: DType) -> Interval:
    """The interval of the wrapped value, from that of the exact one."""
    if not dtype.is_integer:
        return bounds
    whole = full(dtype)
    if bounds.low == -INF or bounds.high == INF:
        return Interval(
            max(bounds.low, whole.low) if bounds.low > -INF else -INF,
            min(bounds.high, whole.high) if bounds.high < INF else INF,
            bounds.modulus,
            bounds.remainder,
        )
    if bounds.low < whole.low or bounds.high > whole.high:
        modulus = math.gcd(bounds.modulus, 1 << dtype.bits)
        return Interval(whole.low, whole.high, *_congruent(modulus, bounds.remainder))
    return bounds


def _congruent(modulus: int, remainder: int) -> tuple[int, int]:
    return modulus, remainder % modulus if modulus else remainder


def _value(node: Expr, memo: Mapping[Any, Interval], bounds: Bounds) -> Interval:
    """The interval of the exact result of ``node`` on the intervals of its inputs."""
    if isinstance(node, Const):
        if isinstance(node.value, float):
            return ANY
        return Interval(int(node.value), int(node.value), 0, int(node.value))
    if isinstance(node, Var):
        return bounds.of(node)
    if not node.dtype.is_integer:
        return full(node.dtype)
    if isinstance(node, Binary):
        return _binary(node, memo[node.a], memo[node.b])
    if isinstance(node, Unary):
        a = memo[node.a]
        shift = -1 if node.op == "bitnot" and node.dtype.is_int else 0
        if node.op == "neg" or shift:
            modulus, remainder = _congruent(a.modulus, shift - a.remainder)
            return Interval(shift - a.high, shift - a.low, modulus, remainder)
        return full(node.dtype)
    if isinstance(node, (Cast, Broadcast)):
        source = node.value.dtype
        return memo[node.value] if source.is_integer or source.is_bool else full(node.dtype)
    if isinstance(node, Select):
        return _chosen(node, memo[node.t], memo[node.f])
    if isinstance(node, Ramp):
        steps = Interval(0, node.lanes - 1)
        far = corners(memo[node.stride], steps, product)
        base = memo[node.base]
        return Interval(base.low + far.low, base.high + far.high)
    if isinstance(node, Call):
        return _call(node, memo)
    return full(node.dtype)


def _chosen(node: Select, t: Interval, f: Interval) -> Interval:
    """One of two sides; of an index that counts from the end where it is negative, each side has
    its sign."""
    linear = unwrapped(node)
    if linear is None:
        return _either(t, f)
    added = linear[1]
    t = replace(t, high=min(t.high, added.constant - 1)) if not added.terms else t
    return _either(t, replace(f, low=max(f.low, 0)))


def _call(node: Call, memo: Mapping[Any, Interval]) -> Interval:
    if node.atom.identity:
        return memo[node.args[0]]
    if node.op == "abs":
        a = memo[node.args[0]]
        low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
        return Interval(low, max(abs(a.low), abs(a.high)))
    if node.op in ("popcount", "clz", "ffs"):
        return Interval(0, 64)
    return full(node.dtype)


def _either(a: Interval, b: Interval) -> Interval:
    (m, r), (n, s) = a.congruence(), b.congruence()
    modulus, remainder = _congruent(math.gcd(m, n, r - s), r)
    return Interval(min(a.low, b.low), max(a.high, b.high), modulus, remainder)


def product(a: End, b: End) -> End:
    """Return ``a * b``."""
    return 0 if a == 0 or b == 0 else a * b


def floored(a: End, b: End) -> End:
    """``a // b`` for a positive ``b``."""
    if a in (INF, -INF):
        return a
    if b == INF:
        return 0 if a >= 0 else -1
    return a // b


def truncated(a: End, b: End) -> End:
    """``a / b`` rounded toward zero, for a positive ``b``."""
    return floored(a, b) if a >= 0 else -floored(-a, b)


def corners(a: Interval, b: Interval, fn: Callable[[End, End], End]) -> Interval:
    """The values of a function that is monotonic in each operand."""
    values = [fn(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
    return Interval(min(values), max(values))


def _binary(node: Binary, a: Interval, b: Interval) -> Interval:
    (m, r), (n, s) = a.congruence(), b.congruence()
    match node.op:
        case "add":
            return Interval(a.low + b.low, a.high + b.high, *_congruent(math.gcd(m, n), r + s))
        case "sub":
            return Interval(a.low - b.high, a.high - b.low, *_congruent(math.gcd(m, n), r - s))
        case "mul":
            span = corners(a, b, product)
            modulus = math.gcd(m * n, m * s, n * r)
            return Interval(span.low, span.high, *_congruent(modulus, r * s))
        case "min":
            both = _either(a, b)
            return Interval(min(a.low, b.low), min(a.high, b.high), both.modulus, both.remainder)
        case "max":
            both = _either(a, b)
            return Interval(max(a.low, b.low), max(a.high, b.high), both.modulus, both.remainder)
        case "floordiv" if b.low > 0:
            return _divided(a, b, corners(a, b, floored))
        case "truncdiv" if b.low > 0:
            return corners(a, b, truncated)
        case "floormod" if b.low > 0:
            return _modulo(a, b)
        case "truncmod" if b.low > 0:
            most = max(0, min(b.high - 1, a.high))
            return Interval(min(0, max(1 - b.high, a.low)), most)
        case _:
            return _bits(node, a, b)


def _divided(a: Interval, b: Interval, span: Interval) -> Interval:
    m, r = a.congruence()
    if b.single and m and m % int(b.low) == 0:
        step = int(b.low)
        return Interval(span.low, span.high, *_congruent(m // step, r // step))
    return span


def _modulo(a: Interval, b: Interval) -> Interval:
    m, r = a.congruence()
    if not b.single:
        return Interval(0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1)
    n = int(b.low)
    if m % n == 0:
        return Interval(r % n, r % n, 0, r % n)
    congruence = _congruent(math.gcd(m, n), r)
    if a.known and floored(a.low, n) == floored(a.high, n):
        base = floored(a.low, n) * n
        return Interval(a.low - base, a.high - base, *congruence)
    return Interval(0, n - 1, *congruence)


def _bits(node: Binary, a: Interval, b: Interval) -> Interval:
    """Shifts and bit operations."""
    if node.op in ("shl", "shr") and b.single and 0 <= b.low < node.dtype.bits:
        scale = 1 << int(b.low)
        if node.op == "shr":
            quotient = Interval(scale, scale, 0, scale)
            return _divided(a, quotient, Interval(floored(a.low, scale), floored(a.high, scale)))
        m, r = a.congruence()
        congruence = _congruent(m * scale, r * scale)
        return Interval(product(a.low, scale), product(a.high, scale), *congruence)
    span = full(node.dtype)
    if node.op == "bitand" and (a.low >= 0 or b.low >= 0):
        span = Interval(0, min(bounds.high for bounds in (a, b) if bounds.low >= 0))
    if node.op in ("bitor", "bitxor") and a.low >= 0 and b.low >= 0 and a.known and b.known:
        span = Interval(0, (1 << int(max(a.high, b.high)).bit_length()) - 1)
    if node.op not in _BITWISE:
        return span
    # The low bits of the result are those that are known of both operands, or 0 of a mask.
    (m, r), (n, s) = a.congruence(), b.congruence()
    common = math.gcd(m, n)
    known = common & -common
    if node.op == "bitand" and b.single:
        known = max(known, s & -s)
    return replace(span, modulus=max(1, known), remainder=_BITWISE[node.op](r, s) % max(1, known))


def divisible_by(expr: Expr, n: int, bounds: Bounds | None = None) -> bool:
    """Whether every value of ``expr`` is certainly a multiple of ``n``."""
    if n == 0 or not expr.dtype.is_integer:
        return False
    modulus, remainder = interval(expr, bounds).congruence()
    return modulus % n == 0 and remainder % n == 0


def prove(cond: Expr, bounds: Bounds | None = None) -> bool | None:
    """True or False where ``cond`` is decided, None where it is not."""
    known = bounds if bounds is not None else Bounds()
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
    if cond.a is cond.b:
        return {"eq": True, "le": True, "ge": True}.get(cond.op, False)
    return compare(cond.op, interval(cond.a, known), interval(cond.b, known))


def compare(op: str, a: Interval, b: Interval) -> bool | None:
    """``a op b`` where every value of the two intervals agrees."""
    if op in ("gt", "ge"):
        return compare("lt" if op == "gt" else "le", b, a)
    if op == "lt":
        return True if a.high < b.low else False if a.low >= b.high else None
    if op == "le":
        return True if a.high <= b.low else False if a.low > b.high else None
    (m, r), (n, s) = a.congruence(), b.congruence()
    common = math.gcd(m, n)
    disjoint = a.high < b.low or b.high < a.low or (common > 0 and (r - s) % common != 0)
    same = a.single and b.single and a.low == b.low
    if op == "eq":
        return False if disjoint else True if same else None
    if op == "ne":
        return True if disjoint else False if same else None
    return None
