"""Intervals with a congruence, and what operations make of them.

Machine integers wrap. Where an operation may leave the range of its dtype, only "any value of the
dtype" is concluded (and divisibility by powers of two, which wrapping keeps).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TypeAlias

from tilelang.ir.dtypes import dtype as DType, max_value, min_value
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
    def is_known(self) -> bool:
        """Whether both ends are finite."""
        return self.low > -INF and self.high < INF

    @property
    def is_single(self) -> bool:
        """Whether there is one value only."""
        return self.is_known and self.low == self.high

    def congruence(self) -> tuple[int, int]:
        """(modulus, remainder), exact for a single value."""
        return (0, int(self.low)) if self.is_single else (self.modulus, self.remainder)

    def within(self, other: Interval) -> Interval:
        """The integers of both; the ends of an empty interval are crossed."""
        (m, r), (n, s) = self.congruence(), other.congruence()
        modulus, remainder = (m, r) if n and (m == 0 or m % n == 0) else (n, s)
        low, high = max(self.low, other.low), min(self.high, other.high)
        if modulus > 1:
            low += (remainder - low) % modulus if low > -INF else 0
            high -= (high - remainder) % modulus if high < INF else 0
        return Interval(low, high, modulus, remainder)


ANY = Interval()


@lru_cache(maxsize=256)
def full(dtype: DType) -> Interval:
    """Every value of ``dtype``."""
    if dtype.is_integer:
        return Interval(int(min_value(dtype)), int(max_value(dtype)))
    return Interval(0, 1) if dtype.is_bool else ANY


def wrapped(bounds: Interval, dtype: DType) -> Interval:
    """The interval of the wrapped value, from that of the exact one."""
    if not dtype.is_integer:
        return bounds
    range_ = full(dtype)
    if bounds.low == -INF or bounds.high == INF:
        low = max(bounds.low, range_.low) if bounds.low > -INF else -INF
        high = min(bounds.high, range_.high) if bounds.high < INF else INF
        return Interval(low, high, bounds.modulus, bounds.remainder)
    if bounds.low < range_.low or bounds.high > range_.high:
        modulus = math.gcd(bounds.modulus, 1 << dtype.bits)
        return Interval(range_.low, range_.high, *congruent(modulus, bounds.remainder))
    return bounds


def congruent(modulus: int, remainder: int) -> tuple[int, int]:
    """With the remainder below the modulus."""
    return modulus, remainder % modulus if modulus else remainder


def either(a: Interval, b: Interval) -> Interval:
    """The values of both."""
    (m, r), (n, s) = a.congruence(), b.congruence()
    modulus, remainder = congruent(math.gcd(m, n, r - s), r)
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


def combined(op: str, a: Interval, b: Interval, dtype: DType) -> Interval:
    """The result of ``op`` for operands of these intervals, before it wraps."""
    (m, r), (n, s) = a.congruence(), b.congruence()
    match op:
        case "add":
            return Interval(a.low + b.low, a.high + b.high, *congruent(math.gcd(m, n), r + s))
        case "sub":
            return Interval(a.low - b.high, a.high - b.low, *congruent(math.gcd(m, n), r - s))
        case "mul":
            span = corners(a, b, product)
            modulus = math.gcd(m * n, m * s, n * r)
            return Interval(span.low, span.high, *congruent(modulus, r * s))
        case "min":
            union = either(a, b)
            return Interval(min(a.low, b.low), min(a.high, b.high), union.modulus, union.remainder)
        case "max":
            union = either(a, b)
            return Interval(max(a.low, b.low), max(a.high, b.high), union.modulus, union.remainder)
        case "floordiv" if b.low > 0:
            return _divided(a, b, corners(a, b, floored))
        case "truncdiv" if b.low > 0:
            return corners(a, b, truncated)
        case "floormod" if b.low > 0:
            return _modulo(a, b)
        case "floordiv" | "truncdiv" | "shr" if a.low >= 0 and b.low >= 0 and not b.is_single:
            return Interval(0, a.high)
        case "floormod" if b.low == 0 and not b.is_single:
            return Interval(0, b.high)
        case "truncmod" if b.low > 0:
            return Interval(min(0, max(1 - b.high, a.low)), max(0, min(b.high - 1, a.high)))
        case _:
            return _bits(op, a, b, dtype)


def _divided(a: Interval, b: Interval, span: Interval) -> Interval:
    m, r = a.congruence()
    if b.is_single and m and m % int(b.low) == 0:
        step = int(b.low)
        return Interval(span.low, span.high, *congruent(m // step, r // step))
    return span


def _modulo(a: Interval, b: Interval) -> Interval:
    m, r = a.congruence()
    if not b.is_single:
        return Interval(0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1)
    n = int(b.low)
    if m % n == 0:
        return Interval(r % n, r % n, 0, r % n)
    congruence = congruent(math.gcd(m, n), r)
    if a.is_known and floored(a.low, n) == floored(a.high, n):
        base = floored(a.low, n) * n
        return Interval(a.low - base, a.high - base, *congruence)
    return Interval(0, n - 1, *congruence)


def _bits(op: str, a: Interval, b: Interval, dtype: DType) -> Interval:
    """Shifts and bit operations."""
    if op in ("shl", "shr") and b.is_single and 0 <= b.low < dtype.bits:
        scale = 1 << int(b.low)
        if op == "shr":
            quotient = Interval(scale, scale, 0, scale)
            return _divided(a, quotient, Interval(floored(a.low, scale), floored(a.high, scale)))
        m, r = a.congruence()
        congruence = congruent(m * scale, r * scale)
        return Interval(product(a.low, scale), product(a.high, scale), *congruence)
    if op in ("shl", "shr") and b.low >= 0 and b.high < dtype.bits:
        powers = Interval(1 << int(b.low), 1 << int(b.high))
        return corners(a, powers, product if op == "shl" else floored)
    span = full(dtype)
    if op == "bitand" and (a.low >= 0 or b.low >= 0):
        span = Interval(0, min(bounds.high for bounds in (a, b) if bounds.low >= 0))
    if op in ("bitor", "bitxor") and a.low >= 0 and b.low >= 0:
        known = a.is_known and b.is_known
        span = Interval(0, (1 << int(max(a.high, b.high)).bit_length()) - 1 if known else INF)
    if op not in _BITWISE:
        return span
    # The low bits of the result are those that are known of both operands, or 0 of a mask.
    (m, r), (n, s) = a.congruence(), b.congruence()
    common = math.gcd(m, n)
    bits = common & -common
    if op == "bitand" and b.is_single:
        bits = max(bits, s & -s)
    return replace(span, modulus=max(1, bits), remainder=_BITWISE[op](r, s) % max(1, bits))


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
    is_equal = a.is_single and b.is_single and a.low == b.low
    if op == "eq":
        return False if disjoint else True if is_equal else None
    if op == "ne":
        return True if disjoint else False if is_equal else None
    return None
