"""Random scalar expressions of the language, with bounds on what they can be.

A value carries its dtype, a bound of its magnitude and the number of binary modes behind the
point. With both small enough for the dtype every sum and product is exact, so results do not
depend on the order of a reduction and can be compared for equality.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .draws import Draw
from .shadow.values import FLOAT_DIGITS, INT_BITS, promote

MANTISSA = FLOAT_DIGITS
BITS = {dtype: bits for dtype, bits in INT_BITS.items() if dtype != "uint64"}
FLOATS = ("float32", "float16", "bfloat16", "float64")
INTS = ("int32", "int8", "int64", "uint8", "int16", "uint32", "uint16")


@dataclass(frozen=True)
class Value:
    """An expression: its text, dtype, largest magnitude, modes behind the point.

    ``prec`` is the number of exact leading modes once an inexact operation took part.
    """

    text: str
    dtype: str
    mag: float
    frac: int = 0
    prec: int = 53

    @property
    def exact(self) -> bool:
        return self.prec >= 53

    @property
    def is_float(self) -> bool:
        return self.dtype in MANTISSA


def int_literal(value: int, other: str) -> str:
    """The dtype that the int literal ``value`` gives next to ``other``."""
    return other if other in MANTISSA else promote("int32", other)


def fits(value: Value) -> bool:
    """Whether every value within the bounds is exact in the dtype."""
    modes = MANTISSA.get(value.dtype)
    if modes is None:
        return True
    limit = 60000.0 if value.dtype == "float16" else 1e30
    return value.mag * 2.0**value.frac <= 2.0**modes and value.mag <= limit


class Exprs:
    """Builds expressions from leaves."""

    def __init__(self, draw: Draw, leaves: Sequence[Value], inexact: bool = False) -> None:
        self.draw = draw
        self.leaves = list(leaves)
        self.inexact = inexact

    # -- numbers -----------------------------------------------------------------------------
    def leaf(self) -> Value:
        """A variable or a literal."""
        if self.leaves and self.draw.chance(0.8):
            return self.draw.choice(self.leaves)
        if self.draw.chance(0.5):
            number = self.draw.integer(-3, 4)
            return Value(str(number) if number >= 0 else f"({number})", "int32", abs(number))
        halves = self.draw.integer(-4, 6)
        number_text = f"{halves / 2}" if halves >= 0 else f"({halves / 2})"
        return Value(number_text, "float32", abs(halves) / 2, 1)

    def number(self, depth: int) -> Value:
        """Any numeric expression."""
        if depth <= 0:
            return self.leaf()
        value = self.number(depth - 1)
        return self.float_op(value, depth) if value.is_float else self.int_op(value, depth)

    def small(self, value: Value, limit: float = 8.0) -> Value:
        """``value`` clamped to ``limit``, for floats; for ints reduced by a modulus."""
        if value.mag <= limit:
            return value
        if value.is_float:
            text = f"T.min(T.max({value.text}, {-limit}), {limit})"
            return replace(value, text=text, dtype=promote(value.dtype, "float32"), mag=limit)
        size = max(1, int(limit))
        return Value(f"({value.text} % {size})", int_literal(size, value.dtype), size - 1)

    def whole(self, value: Value) -> Value:
        """``value`` without modes behind the point."""
        if value.frac == 0:
            return value
        call = self.draw.choice(("floor", "ceil", "trunc"))
        return replace(value, text=f"T.{call}({value.text})", frac=0, mag=value.mag + 1)

    def tamed(self, value: Value) -> Value:
        """``value``, or a smaller one where it would not be exact."""
        if fits(value):
            return value
        return self.small(self.whole(value) if value.exact else value)

    def as_float(self, value: Value) -> Value:
        """``value`` as a float of any dtype."""
        if value.is_float:
            return value
        value = self.small(value, 16)
        dtype = self.draw.choice(("float32", "float16", "float32", "bfloat16"))
        return Value(f"T.cast({value.text}, {dtype!r})", dtype, value.mag)

    def as_int(self, value: Value) -> Value:
        """``value`` as an int of any dtype."""
        if not value.is_float:
            return value
        dtype = self.draw.choice(("int32", "int8", "int64"))
        value = self.small(value, 64)
        return Value(f"T.cast({value.text}, {dtype!r})", dtype, value.mag + 1)

    def float_op(self, a: Value, depth: int) -> Value:
        """An operation on a float."""
        kinds = ["add", "sub", "mul", "min", "max", "select", "unary", "cast", "round"]
        if self.inexact:
            kinds += ["math", "div"]
        kind = self.draw.choice(kinds)
        if kind in ("add", "sub", "mul", "min", "max", "select"):
            b = self.number(depth - 1)
            if not b.is_float and b.mag > 16:
                b = self.small(b, 16)
            return self.tamed(self.float_pair(kind, a, b, depth))
        if kind == "unary":
            text = self.draw.choice((f"(-{a.text})", f"T.abs({a.text})"))
            return replace(a, text=text)
        if kind == "cast":
            return self.cast(a, self.draw.choice(FLOATS[:3]))
        if kind == "round" and a.exact:
            return self.whole(a)
        if kind == "div" and self.inexact:
            b = self.small(self.as_float(self.number(depth - 1)))
            dtype = promote(promote(a.dtype, b.dtype), "float32")
            text = f"({a.text} / (T.abs({b.text}) + 1.0))"
            return self.rounded(Value(text, dtype, a.mag, 0, min(a.prec, b.prec)))
        if kind == "math" and self.inexact:
            return self.math(a)
        return a

    def rounded(self, value: Value) -> Value:
        modes = MANTISSA[value.dtype]
        return replace(value, prec=min(value.prec, modes, 23))

    def math(self, a: Value) -> Value:
        """A function whose results are rounded in ways of their own."""
        a = self.small(a, 4.0)
        name = self.draw.choice(
            ("exp", "exp2", "sqrt", "rsqrt", "sigmoid", "tanh", "sin", "cos", "log", "erf")
        )
        inner, mag = a.text, 1.0
        if name in ("exp", "exp2"):
            mag = 64.0
        if name in ("sqrt", "rsqrt", "log"):
            inner, mag = f"T.abs({a.text}) + 1", 4.0
        return self.rounded(Value(f"T.{name}({inner})", a.dtype, mag, 0, a.prec))

    def float_pair(self, kind: str, a: Value, b: Value, depth: int) -> Value:
        dtype = promote(a.dtype, b.dtype)
        prec = min(a.prec, b.prec)
        if kind in ("add", "sub"):
            sign = "+" if kind == "add" else "-"
            text = f"({a.text} {sign} {b.text})"
            return Value(text, dtype, a.mag + b.mag, max(a.frac, b.frac), prec)
        if kind == "mul":
            a, b = self.small(a), self.small(b)
            dtype = promote(a.dtype, b.dtype)
            return Value(f"({a.text} * {b.text})", dtype, a.mag * b.mag, a.frac + b.frac, prec)
        mag, frac = max(a.mag, b.mag), max(a.frac, b.frac)
        if kind == "select":
            cond = self.condition(depth - 1)
            return Value(f"T.if_then_else({cond}, {a.text}, {b.text})", dtype, mag, frac, prec)
        return Value(f"T.{kind}({a.text}, {b.text})", dtype, mag, frac, prec)

    def int_op(self, a: Value, depth: int) -> Value:
        """An operation on an int; results wrap, so magnitudes do not matter."""
        kind = self.draw.choice(
            ("+", "-", "*", "min", "max", "&", "|", "^", "<<", ">>", "//", "%", "~", "cast",
             "select", "float")
        )  # fmt: skip
        if kind == "float":
            return self.as_float(a)
        if kind == "cast":
            return self.cast(a, self.draw.choice(INTS))
        if kind == "~":
            return replace(a, text=f"(~{a.text})", mag=2.0 ** BITS[a.dtype])
        if kind in ("<<", ">>"):
            by = self.draw.integer(0, min(7, BITS[a.dtype] - 1))
            dtype = int_literal(by, a.dtype)
            return Value(f"({a.text} {kind} {by})", dtype, 2.0 ** BITS[dtype])
        if kind in ("//", "%"):
            by = self.draw.integer(1, 9)
            dtype = int_literal(by, a.dtype)
            return Value(f"({a.text} {kind} {by})", dtype, 8 if kind == "%" else a.mag + 1)
        b = self.as_int(self.number(depth - 1))
        dtype = promote(a.dtype, b.dtype)
        if kind in ("min", "max"):
            a, b = fitting(a, dtype), fitting(b, dtype)
            return Value(f"T.{kind}({a.text}, {b.text})", dtype, 2.0 ** BITS[dtype])
        if kind == "select":
            cond = self.condition(depth - 1)
            mag = max(a.mag, b.mag)
            return Value(f"T.if_then_else({cond}, {a.text}, {b.text})", dtype, mag)
        mag = {"+": a.mag + b.mag, "-": a.mag + b.mag, "*": a.mag * b.mag}
        return Value(f"({a.text} {kind} {b.text})", dtype, mag.get(kind, 2.0 ** BITS[dtype]))

    # -- truth -------------------------------------------------------------------------------
    def exactly(self, depth: int) -> Value:
        """A number that both ways of running agree on to the last bit."""
        inexact, self.inexact = self.inexact, False
        leaves, self.leaves = self.leaves, [leaf for leaf in self.leaves if leaf.exact]
        value = self.number(depth)
        self.inexact, self.leaves = inexact, leaves
        return value

    def condition(self, depth: int) -> str:
        """A truth value."""
        if depth > 0 and self.draw.chance(0.25):
            joint = self.draw.choice(("and", "or"))
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            word = "T.And" if joint == "and" else "T.Or"
            return f"{word}({a}, {b})" if self.draw.chance(0.3) else f"({a} {joint} {b})"
        if depth > 0 and self.draw.chance(0.1):
            return f"(not {self.condition(depth - 1)})"
        a, b = self.exactly(min(depth, 1)), self.exactly(0)
        op = self.draw.choice(("<", ">", "<=", ">=", "==", "!="))
        if not self.leaves or a.text == b.text:
            return f"({a.text} {op} {b.text})" if _is_variable(a) else "(T.int32(1) > 0)"
        return f"({a.text} {op} {b.text})"

    # -- storing -----------------------------------------------------------------------------
    def cast(self, value: Value, dtype: str) -> Value:
        """``value`` in ``dtype``; ints that do not fit a float are made smaller first."""
        if dtype in MANTISSA:
            limit = min(448.0, 2.0 ** MANTISSA[dtype])
            value = self.small(value, limit) if not value.is_float else value
            made = Value("", dtype, value.mag, value.frac, value.prec)
            if value.exact and not fits(made):
                value = self.small(self.whole(value))
            prec = value.prec if value.exact else min(value.prec, MANTISSA[dtype])
            text = f"T.cast({value.text}, {dtype!r})"
            return Value(text, dtype, value.mag, value.frac, prec)
        if value.is_float:
            value = self.small(value, 64)
        form = self.draw.choice(("T.cast({0}, {1!r})", "T.{1}({0})", "T.Cast({1!r}, {0})"))
        mag = min(value.mag + 1, 2.0 ** BITS[dtype])
        if value.text.lstrip("(-").rstrip(")").replace(".", "").isdigit():
            form = "T.cast({0}, {1!r})"
            if dtype.startswith("u"):
                return Value(f"T.{dtype}(3)", dtype, 3)
        return Value(form.format(value.text, dtype), dtype, mag)

    def stored(self, value: Value, dtype: str, mag: float, frac: int) -> Value:
        """``value`` within the bounds that the destination promises."""
        if dtype not in MANTISSA:
            if value.is_float:
                value = self.small(self.as_exact(value), 64)
            return fitting(value, dtype)
        if not value.is_float and value.mag > mag:
            value = self.small(value, max(1, int(mag)))
        if value.exact and value.frac > frac:
            value = self.whole(value)
        return self.small(value, mag) if value.mag > mag else value

    def as_exact(self, value: Value) -> Value:
        """``value``, or a leaf without rounding where a store would cut modes."""
        return value if value.exact else self.exactly(1)


_MOST_BELOW_0 = re.compile(r"T.min\((.*, )?\(?(T.cast\()?\(-\d+\)(, '\w+'\))?( << |, |\)$)")
_WORDS = re.compile(r"'\w+'|T\.\w+|\b(and|or|not)\b")  # other letters are of variables
_LEAST_ABOVE_ALL = re.compile(r"T\.max\(.*~T\.uint\d+\(3\)")


def fitting(value: Value, dtype: str) -> Value:
    """``value``, or a constant that ``dtype`` has instead of one that it has not. What is at most a
    constant below 0, or at least one above all, keeps its low bits: it is an error otherwise."""
    is_unsigned = dtype.startswith("u")
    if (_MOST_BELOW_0 if is_unsigned else _LEAST_ABOVE_ALL).match(value.text):
        return replace(value, text=f"T.cast({value.text}, {dtype!r})")
    if is_unsigned and value.is_float and is_constant(value) and "-" in value.text:
        return Value("3", "int32", 3)
    if _is_variable(value):
        return value
    number = eval(value.text, {})  # of digits and operators alone
    half = 2 ** (BITS[dtype] - 1)
    low, high = (0, 2 * half) if is_unsigned or dtype == "bool" else (-half, half)
    return value if low <= number < high else replace(value, text=str(abs(number) % high))


def is_constant(value: Value) -> bool:
    """Whether ``value`` names no variable."""
    return not re.search("[A-Za-z]", _WORDS.sub("", value.text))


def _is_variable(value: Value) -> bool:
    return any(char.isalpha() for char in value.text)
