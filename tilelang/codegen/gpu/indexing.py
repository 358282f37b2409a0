"""Index arithmetic as text: in 32 bits where the values are known to fit, in 64 bits elsewhere.

Indices are exact integers: conditions and addresses are computed without overflow, so that both
always agree. A `Term` is a piece of text with the interval of its value and the width of its C
type; combining terms widens them where a result, or any step on the way to it, may not fit.
"""

from __future__ import annotations

import math

from tilelang.records import dataclass

LOW, HIGH = -(2**31), 2**31 - 1
LEAST, MOST = -(2**63), 2**63 - 1
ATOM, PRODUCT, SUM = 2, 1, 0  # how tightly the text binds


@dataclass(frozen=True)
class Term:
    """Text of C type int (or int64_t when `wide`) whose value lies in [low, high]."""

    text: str
    low: float
    high: float
    wide: bool = False
    level: int = ATOM

    @property
    def constant(self) -> int | None:
        """The value, when there is only one and the text is a plain number."""
        number = self.text.removeprefix("-").isdigit()
        return int(self.text) if number else None

    def at(self, level: int) -> str:
        """The text, in parentheses unless it binds at least as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"

    def widened(self) -> Term:
        """The same value with the type int64_t."""
        if self.wide:
            return self
        if self.constant is not None:
            return Term(f"INT64_C({self.text})", self.low, self.high, True)
        return Term(f"(int64_t){self.at(ATOM)}", self.low, self.high, True)


def number(value: int) -> Term:
    """A constant."""
    wide = not LOW <= value <= HIGH
    if wide:
        return Term(f"INT64_C({value})", value, value, True)
    level = ATOM if value >= 0 else SUM
    return Term("INT32_MIN" if value == LOW else str(value), value, value, False, level)


def fits(low: float, high: float) -> bool:
    """Whether every value of the interval is an int."""
    return low >= LOW and high <= HIGH


def combine(op: str, a: Term, b: Term, within: bool = False) -> Term:
    """`a op b` for an operation of index arithmetic, exact modulo 2**64.

    Args:
        within: the result is an offset in memory, which 64 bits hold.
    """
    if op in ("add", "sub", "mul"):
        return _ring(op, a, b, within)
    if op in ("min", "max"):
        pick = min if op == "min" else max
        low, high = pick(a.low, b.low), pick(a.high, b.high)
        wide = a.wide or b.wide
        name = f"tl_{op}_i{64 if wide else 32}"
        return Term(f"{name}({a.text}, {b.text})", low, high, wide)
    return _division(op, a, b)


def _ring(op: str, a: Term, b: Term, within: bool) -> Term:
    known = _plain(op, a, b)
    if known is not None:
        return known
    low, high = span(op, a.low, a.high, b.low, b.high)
    if not within and (low < LEAST or high > MOST):
        text = f"tl_{op}_i64({a.text}, {b.text})"  # C++ leaves an overflow undefined
        return Term(text, LEAST, MOST, True)
    wide = a.wide or b.wide or not fits(low, high)
    if wide and not (a.wide or b.wide):
        a = a.widened()
    if op == "mul":
        return Term(f"{a.at(PRODUCT)} * {b.at(ATOM)}", low, high, wide, PRODUCT)
    constant = b.constant
    if constant is not None and constant < 0:
        op, b = ("sub" if op == "add" else "add"), number(-constant)
    sign = "+" if op == "add" else "-"
    # A sum on the right needs no parentheses where no partial sum can be larger than the whole.
    grows = a.wide or (a.low >= 0 and b.low >= 0 and " - " not in b.text)
    right = b.text if op == "add" and grows else b.at(PRODUCT)
    return Term(f"{a.text} {sign} {right}", low, high, wide, SUM)


def _plain(op: str, a: Term, b: Term) -> Term | None:
    """Results that need no operation."""
    x, y = a.constant, b.constant
    if x is not None and y is not None:
        return number({"add": x + y, "sub": x - y, "mul": x * y}[op])
    if y == (1 if op == "mul" else 0):
        return a
    if (op, x) in (("add", 0), ("mul", 1)):
        return b
    return None


def _division(op: str, a: Term, b: Term) -> Term:
    low, high = span(op, a.low, a.high, b.low, b.high)
    wide = a.wide or b.wide
    divides = op.endswith("div")
    if b.low > 0 and (op.startswith("trunc") or a.low >= 0):
        sign = "/" if divides else "%"
        return Term(f"{a.at(PRODUCT)} {sign} {b.at(ATOM)}", low, high, wide, PRODUCT)
    constant = b.constant
    if constant is not None and constant > 0 and constant & (constant - 1) == 0:
        # Arithmetic shift and mask round toward minus infinity for negative values too.
        if divides:
            return Term(f"({a.at(PRODUCT)} >> {constant.bit_length() - 1})", low, high, wide)
        return Term(f"({a.at(PRODUCT)} & {constant - 1})", low, high, wide)
    return Term(f"tl_{op}_i{64 if wide else 32}({a.text}, {b.text})", low, high, wide)


def span(op: str, a: float, b: float, c: float, d: float) -> tuple[float, float]:
    """The interval of `x op y` for integers x in [a, b] and y in [c, d]."""
    if op == "add":
        return a + c, b + d
    if op == "sub":
        return a - d, b - c
    if op == "mul":
        corners = [_times(x, y) for x in (a, b) for y in (c, d)]
        return min(corners), max(corners)
    if op in ("min", "max"):
        pick = min if op == "min" else max
        return pick(a, c), pick(b, d)
    if op.endswith("div"):
        return _quotient(op, a, b, c, d)
    if op == "floormod" and c > 0:
        return 0, (min(d - 1, b) if a >= 0 else d - 1)
    size = max(abs(c), abs(d), 1) - 1
    if op == "truncmod" and a >= 0:
        return 0, min(size, b)
    return -size, size


def _quotient(op: str, a: float, b: float, c: float, d: float) -> tuple[float, float]:
    if c <= 0:  # a divisor of unknown sign: at most the size of the dividend (0 for a zero divisor)
        size = max(abs(a), abs(b))
        return -size, size
    corners = [_over(op, x, y) for x in (a, b) for y in (c, d)]
    return min(corners), max(corners)


def _times(x: float, y: float) -> float:
    return 0 if x == 0 or y == 0 else x * y


def _over(op: str, x: float, y: float) -> float:
    if math.isinf(x):
        return x
    if math.isinf(y):
        return 0 if x >= 0 or op == "truncdiv" else -1
    quotient = abs(int(x)) // int(y)
    if x >= 0:
        return quotient
    return -quotient if op == "truncdiv" else int(x) // int(y)
