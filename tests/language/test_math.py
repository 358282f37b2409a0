"""Elementwise functions, constants, choices, conversions, bits and vectors."""

from __future__ import annotations

import math
from typing import Any

import pytest
from vocabulary import buf

import tilelang.language as T
from tilelang.ir.expr import Binary, Call, Cast, Const, Lane, Select, Vector

x = T.float32()
h = T.float16()
n = T.int32()
u = T.uint32()
k = T.int32()
W = buf("W", (8,), "int32")


@pytest.mark.parametrize(
    "name",
    "exp exp2 exp10 log log2 log10 log1p sqrt rsqrt sigmoid tanh sin cos tan sinh cosh asin acos "
    "atan asinh acosh atanh erf floor ceil trunc nearbyint abs isnan isinf isfinite".split(),
)
def test_functions_keep_the_dtype_of_floats(name: str) -> None:
    found = getattr(T, name)(h)
    assert isinstance(found, Call) and found.op == name
    assert found.dtype == ("bool" if name.startswith("is") else "float16")


def test_rounding_keeps_integers() -> None:
    for name in ("floor", "ceil", "trunc", "nearbyint", "round"):
        assert getattr(T, name)(n) is n
    assert T.round(x).op == "nearbyint"
    assert T.round(x, "ties-away-from-zero").op == "round"
    assert T.abs(u) is u and T.abs(n).dtype == "int32" and T.fabs(n).dtype == "float32"


def test_powers_with_constant_exponents_are_products() -> None:
    assert repr(T.pow(x, 2)) == "v * v"
    assert T.pow(x, 0).value == 1.0 and T.pow(x, 1) is x
    fifth = T.pow(n, 5)
    assert isinstance(fifth, Binary) and fifth.dtype == "int32"
    assert repr(T.pow(x, -1)) == "T.float32(1.0) / v"
    assert T.pow(x, 0.5).op == "pow" and T.pow(x, n).op == "pow"
    assert T.ldexp(x, n).args[1] is n


def test_extremes_promote_and_stay_python_for_numbers() -> None:
    assert T.max(h, 0.0).dtype == "float32" and T.max(h, 0).dtype == "float16"
    assert T.max(3, 4) == 4 and type(T.max(3, 4)) is int
    assert T.min(3.5, 4) == 3.5 and type(T.min(3.5, 4)) is float
    assert list(range(T.min(2, 5))) == [0, 1]
    clamped = T.clamp(x, 0.0, 1.0)
    assert clamped.op == "fmin_nan" and clamped.args[0].op == "fmax_nan"
    whole = T.clamp(n, 0, 1)
    assert whole.op == "min" and whole.a.op == "max"
    nan = T.float32(math.nan)
    assert T.max(nan, T.float32(1)).value == 1.0


def test_choices() -> None:
    lazy = T.if_then_else(n > 0, h, x)
    assert isinstance(lazy, Select) and lazy.lazy and lazy.dtype == "float32"
    eager = T.Select(n > 0, 1, n)
    assert isinstance(eager, Select) and not eager.lazy
    assert T.if_then_else(True, n, h).dtype == "float16"
    assert int(T.if_then_else(False, 1, 2)) == 2
    assert T.if_then_else(n, 1, 2).cond.op == "ne"


def test_logic_short_circuits_in_order() -> None:
    found = T.And(n > 0, n < 8, n != 3)
    assert found.op == "land" and found.a.op == "land"
    assert T.Or(n > 0, n < 8).op == "lor" and T.Not(n > 0).op == "lnot"


def test_conversions() -> None:
    assert T.cast(n, "float16").dtype == "float16"
    assert T.Cast("float16", n) is T.cast(n, "float16")
    assert T.cast(3, "int8").value == 3
    assert T.cast(x, T.int32, "rn") is T.cast(x, "int32")
    rounded = T.cast(x, "float8_e4m3fn", round="rs", rbits=u)
    assert isinstance(rounded, Cast) and rounded.rounding == "rs" and rounded.rbits is u
    assert not T.cast(x, "float8_e4m3fn", sat=False).sat


def test_bit_casts_take_both_orders() -> None:
    a, b = T.reinterpret(x, "int32"), T.reinterpret("int32", x)
    assert a is b and a.op == "reinterpret" and a.dtype == "int32"
    assert T.reinterpret(T.uint64(0), dtype="handle").dtype == "handle"
    assert T.reinterpret(u, "float16x2").dtype == "float16x2"
    assert T.reinterpret(x, "float32") is x
    short = T.reinterpret(T.uint16(u) << 7 | 3, "bfloat16")  # literals take the integer's width
    assert short.dtype == "bfloat16" and short.args[0].dtype == "uint16"


def test_limits_are_typed_constants() -> None:
    assert T.infinity("float16").dtype == "float16"
    assert (-T.infinity("float32")).value == -math.inf
    assert T.infinity("float8_e4m3fn").value == 448.0
    assert (-T.infinity("float8_e5m2")).value == -math.inf
    assert T.float8_e5m2("inf") is T.infinity("float8_e5m2")  # as the printer writes it
    assert T.cast(T.infinity("float32"), "float8_e5m2").value == 57344.0
    assert T.max_value("int8").value == 127 and T.min_value("uint8").value == 0


def test_index_arithmetic_on_numbers_gives_numbers() -> None:
    for found, wanted in (
        (T.ceildiv(9, 4), 3), (T.cdiv(8, 4), 2), (T.align_up(9, 4), 12), (T.floordiv(-9, 4), -3),
        (T.floormod(-9, 4), 3), (T.truncdiv(-9, 4), -2), (T.truncmod(-9, 4), -1),
        (T.bitwise_and(6, 3), 2), (T.bitwise_or(6, 3), 7), (T.bitwise_xor(6, 3), 5),
        (T.bitwise_not(6), -7), (T.shift_left(1, 4), 16), (T.shift_right(-8, 1), -4),
        (T.ceildiv(7, -3), -2), (T.ceildiv(-7, -2), 4), (T.ceildiv(-7, 2), -3),
    ):  # fmt: skip
        assert type(found) is int and found == wanted
    assert repr(T.ceildiv(n, 4)) == "(v + 3) // 4"
    assert repr(T.ceildiv(n, -4)) == repr(-(-n // -4))
    assert repr(T.ceildiv(n, n)) == repr(-(-n // n))  # its sign is not known
    assert T.index_to_coordinates(23, (2, 3, 4)) == [1, 2, 3]


def test_node_names_build_the_operators() -> None:
    for name, op in (
        ("Add", "add"), ("Sub", "sub"), ("Mul", "mul"), ("FloorDiv", "floordiv"),
        ("FloorMod", "floormod"), ("Mod", "truncmod"), ("Div", "truncdiv"), ("Min", "min"),
        ("Max", "max"), ("EQ", "eq"), ("NE", "ne"), ("LT", "lt"), ("LE", "le"), ("GT", "gt"),
        ("GE", "ge"), ("bitwise_and", "bitand"), ("bitwise_or", "bitor"),
        ("bitwise_xor", "bitxor"), ("shift_left", "shl"), ("shift_right", "shr"),
    ):  # fmt: skip
        assert getattr(T, name)(n, k).op == op
    assert T.Div(x, x).op == "div" and T.bitwise_not(n).op == "bitnot"
    assert T.popcount(u).dtype == "int32" and T.clz(n).op == "clz"
    assert T.IntImm("int64", 3).dtype == "int64" and T.FloatImm("float16", 0.5).value == 0.5
    assert isinstance(n, T.Var) and isinstance(n, T.PrimExpr) and isinstance(W[0], T.BufferLoad)
    assert T.Call("float32", "tir.exp", [x]) is T.exp(x)
    assert repr(T.Let(n, 3, n + 1)) == "4"


def test_random_numbers() -> None:
    assert T.rng_rand().dtype == "uint32"
    assert T.rng_rand_float().dtype == "float32"
    normal: Any = T.rng_rand_float(64, "normal")
    assert normal.dtype == "float64" and normal.attr("dist") == "normal"
    assert isinstance(T.type_annotation("int8"), Const)


def test_vectorization() -> None:
    ramp = T.Ramp(n, 1, 4)
    assert ramp.dtype == "int32x4"
    assert T.Broadcast(x, 2).dtype == "float32x2"
    assert isinstance(T.extract_lane(ramp, 2), Lane)
    shuffled = T.Shuffle([ramp], [3, 0])
    assert isinstance(shuffled, Vector) and shuffled.dtype == "int32x2"
    assert T.Shuffle([n, u.astype("int32")], [0]) is n
    pair = T.float16x2(1, 2)
    for name in ("add2", "sub2", "mul2", "max2", "min2"):
        assert getattr(T, name)(pair, pair).dtype == "float16x2"
    assert T.fma2(pair, pair, pair).op == "fma2" and T.abs2(pair).op == "abs2"
