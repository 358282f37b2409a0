"""The simplifier keeps the value of every expression, with wrapping, and reaches normal forms."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from ir_evaluate import evaluate
from refusals import refusal

from tilelang.errors import InternalError
from tilelang.ir import expr as E, simplify as engine
from tilelang.ir.bounds import Bounds, interval, is_divisible
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.intervals import INF, Interval
from tilelang.ir.prover import prove
from tilelang.ir.simplify import simplify
from tilelang.ir.simplify_rules import RULES, Rule
from tilelang.ir.tables import portable

I32 = DType("int32")


def var(name: str, kind: str = "int32") -> E.Var:
    return E.Var(name, DType(kind))


# -- random expressions with sampled values -------------------------------------------------------
KINDS = ("int8", "uint8", "int16", "int32", "uint32", "int64")
ARITHMETIC = ("add", "sub", "mul", "add", "sub", "mul", "min", "max", "bitand", "bitor", "bitxor")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


class Program:
    """Variables of one dtype with bounds, and values within them."""

    def __init__(self, draw: Any) -> None:
        self.kind = DType(draw(st.sampled_from(KINDS)))
        low, high = (int(f(self.kind)) for f in (_least, _most))
        self.vars = [E.Var(name, self.kind) for name in "abc"]
        self.bounds = Bounds()
        self.samples: list[dict[E.Var, int]] = [{} for _ in range(8)]
        for item in self.vars:
            a, b = low, high
            if draw(st.booleans()):
                small = st.integers(max(low, -40), min(high, 300))
                a, b = sorted((draw(small), draw(small)))
            step = draw(st.sampled_from((1, 1, 2, 3, 4, 8)))
            if (a, b) != (low, high) or step > 1:
                known = Interval(a, b, step, a % step)
                narrowed = {**self.bounds.narrowed, item: known}  # of a value, which may wrap
                self.bounds = replace(self.bounds, narrowed=narrowed)
            ends = st.sampled_from((a, a + (b - a) // step * step))
            inside = st.integers(0, (b - a) // step).map(lambda k, a=a, s=step: a + k * s)
            for sample in self.samples:
                sample[item] = draw(ends | inside)


def _least(kind: DType) -> int:
    return -(2 ** (kind.bits - 1)) if kind.is_int else 0


def _most(kind: DType) -> int:
    return 2 ** (kind.bits - kind.is_int) - 1


def _number(draw: Any, program: Program, depth: int) -> E.Expr:
    choice = draw(st.integers(0, 9 if depth else 2))
    if choice <= 1:
        return draw(st.sampled_from(program.vars))
    if choice == 2:
        value = draw(st.integers(-9, 40) | st.sampled_from((64, 100, 127, -128, 2**31 - 1, 255)))
        return E.const(value, program.kind)
    a = _number(draw, program, depth - 1)
    if choice == 3:
        divisor = E.const(draw(st.sampled_from((1, 2, 3, 4, 7, 8, 12, 32, 127))), program.kind)
        return E.Binary(draw(st.sampled_from(("floordiv", "floormod"))), a, divisor)
    if choice == 4:
        return E.Unary("neg", a)
    if choice == 5:
        cond = _truth(draw, program, depth - 1)
        return E.Select(cond, a, _number(draw, program, depth - 1))
    if choice == 6:
        through = DType(draw(st.sampled_from(KINDS)))
        return E.Cast(E.Cast(a, through), program.kind) if through != program.kind else a
    b = _number(draw, program, depth - 1)
    return E.Binary(draw(st.sampled_from(ARITHMETIC)), a, b)


def _truth(draw: Any, program: Program, depth: int) -> E.Expr:
    if depth > 0 and draw(st.integers(0, 2)) == 0:
        a, b = _truth(draw, program, depth - 1), _truth(draw, program, depth - 1)
        return E.Binary(draw(st.sampled_from(("land", "lor"))), a, b)
    if depth > 0 and draw(st.integers(0, 5)) == 0:
        return E.Unary("lnot", _truth(draw, program, depth - 1))
    a, b = _number(draw, program, depth - 1), _number(draw, program, depth - 1)
    return E.Binary(draw(st.sampled_from(COMPARISONS)), a, b)


@st.composite
def cases(draw: Any, truth: bool = False) -> tuple[Program, E.Expr]:
    program = Program(draw)
    build = _truth if truth else _number
    return program, build(draw, program, draw(st.integers(1, 4)))


@settings(max_examples=120, deadline=None)
@given(cases())
def test_integer_expressions_keep_their_wrapped_values(case: tuple[Program, E.Expr]) -> None:
    program, expr = case
    simple = simplify(expr, program.bounds)
    for sample in program.samples:
        assert evaluate(simple, sample) == evaluate(expr, sample), (expr, simple, sample)


@settings(max_examples=120, deadline=None)
@given(cases(truth=True))
def test_conditions_keep_their_values(case: tuple[Program, E.Expr]) -> None:
    program, expr = case
    simple = simplify(expr, program.bounds)
    decided = prove(expr, program.bounds)
    for sample in program.samples:
        value = evaluate(expr, sample)
        assert evaluate(simple, sample) == value, (expr, simple, sample)
        assert decided in (None, bool(value)), (expr, sample)


@settings(max_examples=100, deadline=None)
@given(cases(), st.sampled_from((2, 3, 4, 8, 12)))
def test_intervals_and_divisibility_hold(case: tuple[Program, E.Expr], n: int) -> None:
    program, expr = case
    found = interval(expr, program.bounds)
    modulus, remainder = found.congruence()
    divisible = is_divisible(expr, n, program.bounds)
    for sample in program.samples:
        value = evaluate(expr, sample)
        assert found.low <= value <= found.high
        assert (value - remainder) % modulus == 0 if modulus else value == remainder
        assert not divisible or value % n == 0


@settings(max_examples=60, deadline=None)
@given(cases())
def test_simple_expressions_stay_themselves(case: tuple[Program, E.Expr]) -> None:
    program, expr = case
    simple = simplify(expr, program.bounds)
    assert simplify(simple, program.bounds) is simple
    assert simplify(simple, Bounds(program.bounds.ranges)) is simple


# -- normal forms --------------------------------------------------------------------------------
BX, K, J, N = var("bx"), var("k"), var("j"), var("n")
KNOWN = Bounds().with_range(BX, 0, 8).with_range(J, 0, 32).with_range(K, 0, N)

NORMAL = [
    ((K + 1) * 32 - K * 32, "32"),
    (BX * 128 + 128 - BX * 128, "128"),
    (J + BX * 128, "bx * 128 + j"),
    (3 - J - BX, "3 - bx - j"),
    (-(J - 5), "5 - j"),
    ((BX * 128 + J) // 128, "bx"),
    ((BX * 128 + J) % 128, "j"),
    ((BX * 128 + J) // 32, "bx * 4"),
    ((K * 128 + J) // 128, "k"),
    (J // 4 * 4 + J % 4, "j"),
    (N // 4 // 8, "n // 32"),
    (N % 32 % 8, "n % 8"),
    (N % 30 % 8, "n % 30 % 8"),
    ((J * 4 + 5) // 8, "(j + 1) // 2"),
    (N * 4 % 4, "0"),
    (N * 4 // 4, "n * 4 // 4"),  # may wrap
    (E.binary("min", J, 31), "j"),
    (E.binary("max", J + 1, J), "j + 1"),
    (E.binary("min", E.binary("min", N, 7), 5), "T.min(n, 5)"),
    (J + 3 < 10, "j < 7"),
    (N + 3 < 10, "n + 3 < 10"),  # may wrap
    (N + 3 < N + 5, "n + 3 < n + 5"),  # may wrap
    ((N + 3).equal(N + 5), "T.bool(False)"),
    ((N + 3).equal(10), "n == 7"),  # holds with wrapping too
    (BX * 128 + J < 1024, "T.bool(True)"),
    (BX * 128 + J < 512, "bx < 4"),
    (BX * 128 + J >= 192, "bx * 2 >= 3"),
    (BX * 128 + J < 500, "bx * 128 + j < 500"),
    (E.unary("lnot", N < 4), "n >= 4"),
    (E.select(J < 32, N, K), "n"),
    (E.cast(E.cast(N, DType("int64")), I32), "n"),
    (E.cast(E.cast(N, DType("int8")), DType("int64")), 'T.Cast("int64", T.Cast("int8", n))'),
]


@pytest.mark.parametrize(("expr", "text"), NORMAL, ids=[text for _, text in NORMAL])
def test_index_arithmetic_reaches_its_normal_form(expr: E.Expr, text: str) -> None:
    assert repr(simplify(expr, KNOWN)) == text


def test_sums_of_the_same_terms_are_one_object() -> None:
    assert simplify(K + BX * 4 + J) is simplify(J + K + BX * 4)


def test_floats_are_not_simplified() -> None:
    x = var("x", "float32")
    for expr in (x + 0, x * 1, x - x, E.unary("lnot", x < 1)):
        assert simplify(expr) is expr


def test_effects_are_neither_dropped_nor_merged() -> None:
    from tilelang.ir.buffer import Buffer, Shape

    counter = Buffer("c", Shape((1,)), I32)
    place = E.AddressOf(counter, (E.const(0),))
    ticket = E.Call(portable("atomic_add"), (place, E.const(1)), I32)
    assert simplify(ticket - ticket) is ticket - ticket


def test_division_by_constant_zero_is_not_folded() -> None:
    expr = E.Binary("floordiv", N + 0, E.const(0))
    assert simplify(expr) is expr


def test_very_deep_expressions_are_no_problem() -> None:
    deep: E.Expr = N
    for number in range(3000):
        deep = E.Binary("add", E.Binary("bitxor", deep, K), E.const(number))
    assert simplify(deep).dtype == "int32"


def test_rules_that_undo_each_other_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(ctx: object, match: dict[str, E.Expr]) -> E.Expr:
        return E.Binary("shl", match["y"], match["x"])

    monkeypatch.setitem(engine._BY_OP, "shl", (Rule("swap", ("shl", "x", "y"), swap),))
    assert refusal(InternalError, simplify, E.Binary("shl", N, K)) == (
        "the simplifier does not terminate on `n << k`\n"
        "  got: these rules undo each other: swap, swap, swap, swap"
    )


def test_every_rule_has_a_name_and_a_known_operator() -> None:
    from tilelang.ir.tables import BINARY, UNARY

    for rule in RULES:
        assert rule.name and rule.pattern[0] in {**BINARY, **UNARY}


# -- bounds --------------------------------------------------------------------------------------
def test_a_range_with_a_step_gives_a_congruence() -> None:
    known = Bounds().with_range(K, 4, 64, 8)
    assert interval(K, known) == Interval(4, 63, 8, 4)
    assert is_divisible(K, 4, known) and not is_divisible(K, 8, known)
    assert is_divisible(K * 2 + 8, 8, known)
    assert prove((K * 1).equal(6), known) is False


def test_a_range_below_an_unknown_extent_has_no_upper_end() -> None:
    assert interval(K, KNOWN) == Interval(0, INF)
    assert prove(K * 128 + J >= 0, KNOWN) is True


def test_a_quotient_below_the_count_of_groups() -> None:
    rows, tile = var("rows", "int64"), var("tile", "int64")
    known = (
        Bounds().with_range(rows, 0, 2**31).with_range(tile, 0, 2**40).assuming(tile < rows * 32)
    )
    assert prove(tile // 32 < rows, known) is True
    assert prove(tile // 32 <= rows - 1, known) is True
    assert prove(tile // 31 < rows, known) is None
    assert prove(tile // 32 < rows - 1, known) is None
    assert prove(tile // 48 * 3 <= rows * 2, known) is True
    known = known.assuming(tile >= rows * 32 - 32)
    assert prove(tile // 32 >= rows - 1, known) is True
    assert prove(tile // 32 > rows - 1, known) is False


def test_conditions_on_quotient_and_remainder_bound_the_dividend() -> None:
    pixel, tap = var("pixel"), var("tap")
    row, column = pixel // 28 - tap, pixel % 28 - tap
    known = Bounds().with_range(pixel, 0, 784).with_range(tap, 0, 9)
    assert prove(row * 28 + column >= 0, known) is None
    known = known.assuming(row >= 0).assuming(column >= 0)
    assert prove(row * 28 + column >= 0, known) is True
    assert prove(row * 28 + column < 0, known) is False
    assert prove(row * 28 + column > 0, known) is None
    assert prove(row * 28 + column <= pixel, known) is True  # put together: pixel - 29 * tap
    assert prove(row * 28 + column < 784, known) is True


def test_remainders_of_different_dividends_are_never_equal() -> None:
    x, y = var("x"), var("y")
    index = Bounds().with_range(x, 0, INF)
    for shift, n in ((1, 2), (3, 2), (-1, 4), (5, 4)):
        assert prove(((x + shift) % n).equal(x % n)) is False, (shift, n)
    assert prove(((x + 2) % 2).equal(x % 2)) is None
    assert prove(((x + 1) % 3).equal(x % 3)) is None  # x + 1 may wrap
    assert prove(((x + 1) % 3).equal(x % 3), index) is False
    assert prove(((2 * x + 1) % 4).equal(2 * y % 4)) is False
    assert prove(((2 * x + 2) % 4).equal(2 * y % 4)) is None


def test_a_free_variable_may_have_any_value() -> None:
    assert interval(N) == Interval(-(2**31), 2**31 - 1)
    assert prove(N * 2 >= -(2**31)) is True
    assert prove(N * 2 < N) is None


def test_an_infinite_bound_is_unknown_after_a_cast() -> None:
    size = var("size")
    known = Bounds().assuming(size >= 0)
    assert interval(E.cast(~size, DType("uint32")), known) == Interval(0, 2**32 - 1)
    assert interval(E.cast(size, DType("uint32")), known) == Interval(0, 2**31 - 1)
    assert interval(E.cast(size, DType("int64")), known) == Interval(0, 2**31 - 1)
    assert interval(E.cast(~size, DType("int8")), known) == Interval(-128, 127)


def test_64_bit_ends_are_exact() -> None:
    big = var("big", "int64")
    assert interval(big).high == 2**63 - 1
    assert prove(big <= 2**63 - 1) is True
    assert prove(big < 2**63 - 1) is None
