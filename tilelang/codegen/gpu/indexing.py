"""Index arithmetic as text: in 32 bits where the values are known to fit, in 64 bits elsewhere.

Indices are exact integers: conditions and addresses are computed without overflow, so that both
always agree. A `Term` is a piece of text with the interval of its value and the width of its C
type; combining terms widens them where a result, or any step on the way to it, may not fit.
"""

from __future__ import annotations

from tilelang.ir.intervals import Interval, corners, floored, product, truncated
from tilelang.records import dataclass

LOW, HIGH = -(2**31), 2**31 - 1
LEAST, MOST = -(2**63), 2**63 - 1
ATOM, PRODUCT, SUM = 2, 1, 0  # operator precedence of the text


@dataclass(frozen=True)
class Term:
    """Text of C type int (or int64_t when `wide`) with a value in [low, high]."""

    text: str
    low: float
    high: float
    wide: bool = False
    level: int = ATOM

    @property
    def values(self) -> Interval:
        """The range of the value."""
        return Interval(self.low, self.high)

    @property
    def constant(self) -> int | None:
        """The value, when there is only one and the text is a plain number."""
        return int(self.text) if self.text.removeprefix("-").isdigit() else None

    def at(self, level: int) -> str:
        """The text, in parentheses unless it binds at least as tightly as `level`."""
        return self.text if self.level >= level else f"({self.text})"

    def widened(self) -> Term:
        """The same value with the type int64_t."""
        if self.wide:
            return self
        text = f"(int64_t){self.at(ATOM)}" if self.constant is None else f"INT64_C({self.text})"
        return Term(text, self.low, self.high, True)

    def narrowed(self) -> Term:
        """The same value with the type int, where every value is one."""
        if not self.wide or not fits(self.low, self.high):
            return self
        return Term(f"(int){self.at(ATOM)}", self.low, self.high)


def number(value: int) -> Term:
    """A constant."""
    if not LOW <= value <= HIGH:
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
    return (_function if op in ("min", "max") else _division)(op, a, b).narrowed()


def _function(op: str, a: Term, b: Term) -> Term:
    """A call of the header's function."""
    values, wide = span(op, a.values, b.values), a.wide or b.wide
    return Term(f"tl_{op}_i{64 if wide else 32}({a.text}, {b.text})", values.low, values.high, wide)


def _ring(op: str, a: Term, b: Term, within: bool) -> Term:
    simplified = _plain(op, a, b)
    if simplified is not None:
        return simplified
    values = span(op, a.values, b.values)
    low, high = values.low, values.high
    if not within and (low < LEAST or high > MOST):
        # C++ leaves an overflow undefined.
        return Term(f"tl_{op}_i64({a.text}, {b.text})", LEAST, MOST, True)
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
    return b if (op, x) in (("add", 0), ("mul", 1)) else None


def _division(op: str, a: Term, b: Term) -> Term:
    values, wide = span(op, a.values, b.values), a.wide or b.wide
    low, high = values.low, values.high
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
    return _function(op, a, b)


def span(op: str, a: Interval, b: Interval) -> Interval:
    """The interval of `x op y` for integers x in `a` and y in `b`."""
    if op == "add":
        return Interval(a.low + b.low, a.high + b.high)
    if op == "sub":
        return Interval(a.low - b.high, a.high - b.low)
    if op == "mul":
        return corners(a, b, product)
    if op in ("min", "max"):
        return corners(a, b, min if op == "min" else max)
    if op.endswith("div"):
        if b.low > 0:
            return corners(a, b, floored if op == "floordiv" else truncated)
        # A divisor of unknown sign: at most the size of the dividend (0 for a zero divisor).
        size = max(abs(a.low), abs(a.high))
        return Interval(-size, size)
    if op == "floormod" and b.low > 0:
        return Interval(0, min(b.high - 1, a.high) if a.low >= 0 else b.high - 1)
    size = max(abs(b.low), abs(b.high), 1) - 1
    if op == "truncmod" and a.low >= 0:
        return Interval(0, min(size, a.high))
    return Interval(-size, size)
