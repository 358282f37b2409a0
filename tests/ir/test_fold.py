"""Promotion, operand checks and exact constant folding."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from refusals import refusal

from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.fold import (
    build_binary,
    build_call,
    build_cast,
    build_select,
    build_unary,
    to_range,
)
from tilelang.ir.tables import portable


def var(kind: str, name: str = "x") -> E.Var:
    return E.Var(name, DType(kind))


# -- promotion -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "result"), [("bfloat16", "float16", "float16"), ("bool", "float16", "float16")]
)
def test_two_expressions_promote(a: str, b: str, result: str) -> None:
    x, y = var(a), var(b, "y")
    for expr in (build_binary("max", x, y), build_select(True, x, y), build_binary("add", y, x)):
        assert expr.dtype == result
    assert build_binary("lt", x, y).dtype == "bool"


LITERALS = [
    ("float16", 1, "float16"), ("float16", 1.5, "float32"), ("bfloat16", 0.0, "float32"),
    ("float64", 1.5, "float64"), ("float8_e5m2", 2, "float8_e5m2"), ("int8", 1, "int32"),
    ("uint8", 1, "int32"), ("uint32", 1, "uint32"), ("int64", 1, "int64"), ("uint64", 1, "uint64"),
    ("int32", 2**31, "int64"), ("uint32", 2**31, "int64"), ("uint64", 2**31, "uint64"),
    ("int32", 2**63, "uint64"), ("int32", -(2**31) - 1, "int64"), ("int8", 1.0, "float32"),
    ("int8", True, "int8"), ("bool", 1, "int32"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "literal", "result"), LITERALS)
def test_a_literal_takes_its_dtype_from_the_other_side(
    kind: str, literal: float, result: str
) -> None:
    x = var(kind)
    assert build_binary("add", x, literal).dtype == result
    assert build_binary("sub", literal, x).dtype == result


def test_literals_alone_are_bool_int32_int64_uint64_or_float32() -> None:
    kinds = [E.const(v).dtype for v in (True, 1, 2**31, 2**63, 1.5)]
    assert kinds == ["bool", "int32", "int64", "uint64", "float32"]
    assert refusal(TileValueError, E.const, 2**64) == (
        "the integer 18446744073709551616 does not fit any dtype\n  expected: 64 bits"
    )


def test_arithmetic_on_bools_is_int32_and_bit_operations_are_logical() -> None:
    p, q = var("bool", "p"), var("bool", "q")
    assert build_binary("add", p, q).dtype == "int32"
    assert build_binary("bitand", p, q).dtype == "bool"
    assert (~p).dtype == "bool" and repr(~p) == "not p"


def test_a_scalar_is_broadcast_to_a_vector() -> None:
    vector, scalar = var("float16x4"), var("float16", "s")
    assert repr(vector + scalar) == "x + T.Broadcast(s, 4)"
    assert (vector + 1).dtype == "float16x4"
    assert (vector < scalar).dtype == "boolx4"


def test_variables_made_by_alloc_var_denote_their_value() -> None:
    count = Buffer("count", Shape((1,)), DType("int32"), "local.var")
    assert repr(build_binary("add", count, 1)) == "count[0] + 1"
    assert repr(1 + count) == "1 + count[0]"


# -- folding -------------------------------------------------------------------------------------
INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
INT_OPS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv,
    "floormod": operator.mod, "bitand": operator.and_, "bitor": operator.or_,
    "bitxor": operator.xor, "min": min, "max": max,
}  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(INTEGERS), st.sampled_from(sorted(INT_OPS)), st.integers(), st.integers())
def test_integers_fold_with_wrapping_as_numpy(kind: str, op: str, x: int, y: int) -> None:
    a, b = E.const(x, kind), E.const(y, kind)
    if b.value == 0 and op in ("floordiv", "floormod"):
        return
    found = build_binary(op, a, b)
    exact = INT_OPS[op](int(a.value), int(b.value))
    wrapped = np.array(exact % 2**64, np.uint64).astype(kind)
    assert isinstance(found, E.Const) and found.value == int(wrapped) and found.dtype == kind


FLOAT_OPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(("float16", "float32", "float64")),
    st.sampled_from(sorted(FLOAT_OPS)),
    st.floats(),
    st.floats(),
)
def test_floats_fold_rounded_once_as_numpy(kind: str, op: str, x: float, y: float) -> None:
    a, b = E.const(x, kind), E.const(y, kind)
    found = build_binary(op, a, b)
    if op == "div" and b.value == 0:
        assert not isinstance(found, E.Const)
        return
    with np.errstate(all="ignore"):
        expected = FLOAT_OPS[op](np.array(a.value, kind), np.array(b.value, kind))
    assert isinstance(found, E.Const) and found.dtype == kind
    np.testing.assert_equal(np.array(found.value, kind), expected)


@given(st.floats(), st.floats())
def test_min_and_max_ignore_nan_and_order_zeros(x: float, y: float) -> None:
    a, b = E.const(x, "float64"), E.const(y, "float64")
    low, high = build_binary("min", a, b), build_binary("max", a, b)
    assert isinstance(low, E.Const) and isinstance(high, E.Const)
    if math.isnan(x) or math.isnan(y):
        kept = y if math.isnan(x) else x
        np.testing.assert_equal([low.value, high.value], [kept, kept])
    else:
        assert low.value == min(x, y) and high.value == max(x, y)
        if x == y == 0 and math.copysign(1, x) != math.copysign(1, y):
            assert math.copysign(1, low.value) == -1 and math.copysign(1, high.value) == 1


CASTS = [
    (300, "uint8", 44),
    (-1, "uint32", 2**32 - 1),
    (200, "int8", -56),
    (3.99, "int32", 3),
    (-3.99, "int32", -3),
    (1e20, "int32", 2**31 - 1),
    (-1.5, "uint8", 0),
    (float("nan"), "int32", 0),
    (1e6, "float16", math.inf),
    (1e6, "float8_e4m3fn", 448.0),
    (0.1, "float32", float(np.float32(0.1))),
    (1.00390625, "bfloat16", 1.0),
    (10**400, "float32", math.inf),
    (2**60 + 2**36 + 1, "float32", float(2**60 + 2**37)),  # float64 in between would round down
    (2, "bool", True),
    (True, "float16", 1.0),
]


@pytest.mark.parametrize(("value", "kind", "result"), CASTS, ids=range(len(CASTS)))
def test_casts_of_constants_fold(value: float, kind: str, result: float) -> None:
    assert to_range(value, DType(kind)) == result
    if not isinstance(value, int) or abs(value) < 2**63:
        source = E.const(value, "float64") if isinstance(value, float) else E.const(value)
        found = build_cast(source, DType(kind))
        assert isinstance(found, E.Const) and found.value == result and found.dtype == kind


X = var("int32")
F = var("float32", "f")
P = var("bool", "p")

IDENTITIES = [
    (X + 0, X), (0 + X, X), (X - 0, X), (X * 1, X), (1 * X, X), (X // 1, X), (X << 0, X),
    (X * 0, E.const(0)), (X % 1, E.const(0)), (X.equal(X), E.const(True)), (X < X, E.const(False)),
    (build_binary("land", False, P), E.const(False)), (build_binary("land", True, P), P),
    (build_binary("lor", P, False), P), (build_binary("lor", True, P), E.const(True)),
    (build_binary("land", P, False), E.const(False)), (build_binary("lor", P, True), E.const(True)),
    (build_select(True, X, F), E.cast(X, DType("float32"))), (build_select(P, X, X), X),
    (build_unary("lnot", build_unary("lnot", P)), P), (E.cast(X, DType("int32")), X),
]  # fmt: skip


@pytest.mark.parametrize(("expr", "result"), IDENTITIES)
def test_trivial_integer_and_bool_results_fold(expr: E.Expr, result: E.Expr) -> None:
    assert expr is result


def test_no_float_identity_folds() -> None:
    for expr in (F + 0.0, F * 1.0, F * 0.0, F - F, F.equal(F), build_binary("max", F, F)):
        assert isinstance(expr, E.Binary)


def test_a_false_left_side_decides_and_a_false_right_side_does_not() -> None:
    load = E.Load(Buffer("b", Shape((4,)), DType("bool")), (X,))
    assert build_binary("land", False, load) is E.const(False)
    assert isinstance(build_binary("land", load, False), E.Binary)  # the load still happens


def test_float_functions_convert_integers() -> None:
    found = build_call(portable("exp"), (X,), None, ())
    assert isinstance(found, E.Call) and isinstance(found.args[0], E.Cast)
    assert repr(found) == "T.exp(x)" and found.dtype == "float32"  # printed as it is written
    assert build_call(portable("exp"), (var("float16"),), None, ()).dtype == "float16"
    assert build_call(portable("isnan"), (F,), None, ()).dtype == "bool"


# -- errors --------------------------------------------------------------------------------------
ERRORS: list[tuple[Callable[[], object], str]] = [
    (lambda: X / 2,
     "`/` on two integers\n  expected: a float operand\n  got: int32\n"
     "  hint: use `//` for floor division, or convert with T.float32(x)"),
    (lambda: F // 2,
     "`//` on float32 operands\n  expected: integers\n  got: float32\n"
     "  hint: use `/` and T.floor, or T.fmod"),
    (lambda: F << 1,
     "`<<` on float32 operands\n  expected: integers\n  got: float32\n"
     "  hint: convert with T.int32(x)"),
    (lambda: F & 1,
     "`&` on float32 operands\n  expected: integers or bools\n  got: float32\n"
     "  hint: convert with T.int32(x), or T.reinterpret(x, dtype) for the bits"),
    (lambda: build_binary("land", P, X),
     "`and` on a int32 operand\n  expected: boolean operands\n  got: `x` of dtype int32\n"
     "  hint: compare it, e.g. `x != 0`"),
    (lambda: build_unary("lnot", F),
     "`not` on a float32 operand\n  expected: boolean operands\n  got: `f` of dtype float32\n"
     "  hint: compare it, e.g. `x != 0`"),
    (lambda: ~F, "`~` on a float32 operand\n  expected: an integer\n  got: float32"),
    (lambda: var("float8_e4m3") + var("float8_e5m2"),
     "float8_e4m3 and float8_e5m2 have no common type\n"
     "  expected: operands with a common type\n  got: float8_e4m3 and float8_e5m2\n"
     "  hint: cast one operand first, e.g. T.cast(x, 'float32')"),
    (lambda: var("float16x2") + var("float16x4"),
     "operands of `+` have different lanes\n  expected: equal lanes, or a scalar\n"
     "  got: float16x2 and float16x4"),
    (lambda: X // 0, "division by zero: `x // 0`\n  expected: a divisor that is not 0"),
    (lambda: build_binary("floormod", 7, 0),
     "division by zero: `7 % 0`\n  expected: a divisor that is not 0"),
    (lambda: build_call(portable("exp"), (F, F), None, ()), "T.exp takes 1 operands\n  got: 2"),
    (lambda: build_call(portable("popcount"), (F,), None, ()),
     "T.popcount on a float32 operand\n  expected: an integer\n  got: float32"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), ERRORS, ids=[text.split("\n")[0] for _, text in ERRORS])
def test_wrong_operands_are_reported(make: Callable[[], object], text: str) -> None:
    assert refusal((TileTypeError, TileValueError), make) == text
