"""Index text means the exact integer, whatever the width of its parts."""

from __future__ import annotations

import re
from collections.abc import Callable

from hypothesis import assume, given, settings, strategies as st

from tilelang.codegen.gpu import indexing
from tilelang.codegen.gpu.indexing import HIGH, LOW, Term

OPS = ("add", "sub", "mul", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max")


class Int:
    """A C integer: arithmetic in the wider of the two types, which must not overflow."""

    def __init__(self, value: int, wide: bool = False) -> None:
        assert wide or LOW <= value <= HIGH, f"int overflow: {value}"
        self.value, self.wide = value, wide

    def _with(self, other: object, value: int) -> Int:
        return Int(value, self.wide or (isinstance(other, Int) and other.wide))

    def __add__(self, other: Int) -> Int:
        return self._with(other, self.value + other.value)

    def __sub__(self, other: Int) -> Int:
        return self._with(other, self.value - other.value)

    def __mul__(self, other: Int) -> Int:
        return self._with(other, self.value * other.value)

    def __floordiv__(self, other: Int) -> Int:  # C's /
        return self._with(other, truncated(self.value, other.value))

    def __mod__(self, other: Int) -> Int:
        value = self.value - truncated(self.value, other.value) * other.value
        return self._with(other, value)

    def __neg__(self) -> Int:
        return Int(-self.value, self.wide)

    def __invert__(self) -> Int:  # the cast to int64_t
        return Int(self.value, True)

    def __pos__(self) -> Int:  # the cast to int, which has to keep the value
        assert LOW <= self.value <= HIGH
        return Int(self.value, False)

    def __rshift__(self, other: Int) -> Int:
        return Int(self.value >> other.value, self.wide)

    def __and__(self, other: Int) -> Int:
        return self._with(other, self.value & other.value)


def truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) if b else 0


def exact(op: str, a: int, b: int) -> int:
    if op in ("min", "max"):
        return min(a, b) if op == "min" else max(a, b)
    if op in ("add", "sub", "mul"):
        return {"add": a + b, "sub": a - b, "mul": a * b}[op]
    if b == 0:
        return 0
    quotient = a // b if op.startswith("floor") else truncated(a, b)
    return quotient if op.endswith("div") else a - quotient * b


def function(op: str, width: int) -> Callable[[Int, Int], Int]:
    def call(a: Int, b: Int) -> Int:
        assert width == 64 or not (a.wide or b.wide)
        return Int(exact(op, a.value, b.value), width == 64)

    return call


@st.composite
def trees(draw: st.DrawFn, depth: int = 4, path: str = "v") -> tuple[Term, int, dict[str, Int]]:
    """A term, its exact value, and the variables in it."""
    if depth == 0 or draw(st.booleans()):
        low = draw(st.one_of(st.integers(-40, 40), st.integers(LOW, HIGH)))
        high = min(HIGH, low + draw(st.one_of(st.integers(0, 50), st.integers(0, 2**31))))
        value = draw(st.integers(low, high))
        if draw(st.booleans()):
            return indexing.number(value), value, {}
        return Term(path, low, high), value, {path: Int(value)}
    a, x, known = draw(trees(depth - 1, path + "a"))
    b, y, more = draw(trees(depth - 1, path + "b"))
    op = draw(st.sampled_from(OPS))
    term = indexing.combine(op, a, b)
    assume(max(abs(term.low), abs(term.high)) < 2**62)  # others are more than indices can be
    return term, exact(op, x, y), {**known, **more}


@settings(max_examples=400, deadline=None)
@given(trees())
def test_text_computes_the_exact_value_without_overflow(
    tree: tuple[Term, int, dict[str, Int]],
) -> None:
    term, value, known = tree
    if len(term.text) > 2000:
        return
    assert term.low <= value <= term.high
    python = term.text.replace("INT64_C", "wide").replace("(int64_t)", "~")
    python = python.replace("(int)", "+")
    python = re.sub(r"(?<!\w)(\d+)", lambda m: f"Int({m[1]}, {int(m[1]) > HIGH})", python)
    python = python.replace("INT32_MIN", f"Int({LOW})").replace("/", "//")
    names: dict[str, object] = {**known, "Int": Int, "wide": lambda v: Int(v.value, True)}
    for op in OPS:
        names[f"tl_{op}_i32"], names[f"tl_{op}_i64"] = function(op, 32), function(op, 64)
    found = eval(python, {}, names)
    assert found.value == value
    assert found.wide == term.wide


def test_products_of_blocks_stay_narrow_while_they_fit() -> None:
    bx, tx = Term("bx", 0, 1023), Term("tx", 0, 127)
    at = indexing.combine("add", indexing.combine("mul", bx, indexing.number(128)), tx)
    assert (at.text, at.wide, at.high) == ("bx * 128 + tx", False, 1023 * 128 + 127)
    row = indexing.combine("mul", at, indexing.number(65536))
    assert (row.text, row.wide) == ("(int64_t)(bx * 128 + tx) * 65536", True)


def test_divisions_use_operators_where_signs_allow() -> None:
    up, any_sign = Term("a", 0, 100), Term("b", -50, 50)
    eight, six = indexing.number(8), indexing.number(6)
    assert indexing.combine("floordiv", up, six).text == "a / 6"
    assert indexing.combine("floordiv", any_sign, eight).text == "(b >> 3)"
    assert indexing.combine("floormod", any_sign, eight).text == "(b & 7)"
    assert indexing.combine("floordiv", any_sign, six).text == "tl_floordiv_i32(b, 6)"
    assert indexing.combine("truncmod", any_sign, six).text == "b % 6"
