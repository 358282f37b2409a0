"""C text of expressions: exact literals, wrapping arithmetic, 64-bit indices, few parentheses."""

from __future__ import annotations

import math

import pytest

from tilelang.codegen.c import CPrinter, bare, is_packed, storage_type, term, value_type
from tilelang.codegen.names import Names
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.target.nvidia import ATOMS


def var(name: str, dtype: str = "int32") -> E.Var:
    return E.Var(name, DType(dtype))


def printer(*loops: E.Var) -> CPrinter:
    """A printer for which ``loops`` are loop variables from zero."""
    made = CPrinter(Names())
    made.wide.update(loops)
    made.at_least_zero.update(loops)
    return made


x, y = var("x"), var("y")
i, j = var("i"), var("j")


# -- literals -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("value", "dtype", "text"),
    [
        (1.0, "float32", "1.0f"), (-0.5, "float32", "(-0.5f)"), (0.1, "float32", "0.1f"),
        (-0.0, "float32", "(-0.0f)"), (1e20, "float32", "1e+20f"), (0.1, "float64", "0.1"),
        (3.0, "float16", "3.0f"), (math.inf, "float32", "INFINITY"),
        (-math.inf, "float64", "-INFINITY"), (math.nan, "float32", "NAN"),
        (math.nan, "float64", "(double)NAN"), (7, "int32", "7"), (-7, "int32", "(-7)"),
        (-(2**31), "int32", "INT32_MIN"), (2**32 - 1, "uint32", "4294967295u"),
        (2**40, "int64", "INT64_C(1099511627776)"), (-(2**63), "int64", "INT64_MIN"),
        (2**64 - 1, "uint64", "UINT64_C(18446744073709551615)"), (True, "bool", "1"),
        (-128, "int8", "(-128)"),
    ],
)  # fmt: skip
def test_a_literal_reads_back_as_its_value(value: float, dtype: str, text: str) -> None:
    assert printer().value(E.const(value, dtype)) == text


# -- arithmetic -----------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("int32", "(x + y)"), ("float32", "(x + y)"), ("float16", "tl_round_f16(x + y)"),
        ("bfloat16", "tl_round_bf16(x + y)"), ("int8", "(int8_t)(x + y)"),
        ("uint16", "(uint16_t)(x + y)"), ("int4", "tl_wrap_i4(x + y)"),
        ("uint4", "((x + y) & 15)"),
    ],
)  # fmt: skip
def test_a_sum_is_brought_to_the_values_of_its_dtype(dtype: str, text: str) -> None:
    assert printer().value(E.binary("add", var("x", dtype), var("y", dtype))) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (E.unary("lnot", var("p", "bool")), "(!p)"),
        (E.unary("bitnot", var("b", "uint8")), "(uint8_t)(~b)"),
        (E.unary("neg", var("f", "float32")), "(-f)"),
        (E.unary("neg", x), "(-x)"),
        (E.binary("min", x, y), "tl_min_i32(x, y)"),
        (E.binary("max", var("h", "float16"), var("g", "float16")), "tl_max_f32(h, g)"),
        (E.binary("land", var("p", "bool"), var("q", "bool")), "(p && q)"),
        (E.select(var("p", "bool"), x, y), "(p ? x : y)"),
        (E.call("exp", var("f", "float32")), "tl_exp_f32(f)"),
        (E.call("exp", var("h", "float16")), "tl_round_f16(tl_exp_f32(h))"),
        (E.call("sqrt", var("d", "float64")), "tl_sqrt_f64(d)"),
        (E.call("popcount", var("w", "uint64")), "tl_popcount_64(w)"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_operations(expr: E.Expr, text: str) -> None:
    assert printer().value(expr) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        # The operand may be negative: C's / and % truncate, ours floor.
        (x // 8, "((x >> 3))"), (x % 8, "((x & 7))"),
        (x // 3, "(tl_floordiv_i32(x, 3))"), (x % 3, "(tl_floormod_i32(x, 3))"),
        (x // y, "(tl_floordiv_i32(x, y))"),
        (E.binary("truncdiv", x, E.const(3)), "((x / 3))"),
        (var("u", "uint32") // 3, "((u / 3u))"),
    ],
)  # fmt: skip
def test_division_floors(expr: E.Expr, text: str) -> None:
    assert printer().value(expr) == text


def test_division_of_a_loop_variable_is_that_of_c() -> None:
    assert printer(i).index(i // 3) == "(i / 3)"
    assert printer(i).index((i * 2 + 1) % 3) == "((i * 2 + 1) % 3)"
    assert printer(i).index((i - 1) // 3) == "tl_floordiv_i64((i - 1), 3)"


def test_a_cut_value_is_not_taken_for_non_negative() -> None:
    """130 as int8 is -126, whose remainder has to be floored."""
    cut = E.binary("floordiv", E.cast(i, DType("int8")), E.const(3, DType("int8")))
    kept = E.binary("floordiv", E.cast(i, DType("int64")), E.const(3, DType("int64")))
    assert "tl_floordiv" in printer(i).value(cut)
    assert "tl_floordiv" not in printer(i).value(kept)


@pytest.mark.parametrize(
    ("source", "target", "text"),
    [
        ("int32", "float32", "(float)x"), ("float16", "float32", "x"),
        ("float32", "float16", "tl_round_f16(x)"), ("int32", "float16", "tl_round_f16((float)x)"),
        ("float64", "bfloat16", "tl_round_bf16(tl_f64_to_f32_odd(x))"),
        ("float32", "int32", "tl_f32_to_i32(x)"), ("float64", "uint8", "tl_f64_to_u8(x)"),
        ("int32", "int8", "(int8_t)(x)"), ("int32", "int64", "(int64_t)x"),
        ("float32", "bool", "(x != 0)"), ("int32", "uint4", "((x) & 15)"),
    ],
)  # fmt: skip
def test_casts(source: str, target: str, text: str) -> None:
    assert printer().value(E.cast(var("x", source), DType(target))) == text


# -- indices --------------------------------------------------------------------------------
def test_indices_of_loop_variables_are_computed_in_64_bits() -> None:
    made = printer(i, j)
    assert made.index(i * 64 + j) == "(i * 64 + j)"
    assert made.value(i * 64 + j < 100) == "(i * 64 + j < 100)"
    assert made.value(i + 1) == "((int32_t)i + 1)"  # a value has its own dtype


def test_a_loaded_index_wraps_in_its_own_dtype() -> None:
    """Condition and address agree: both use the wrapped 32-bit sum."""
    A = Buffer("A", Shape((8,)), DType("int32"), "global")
    loaded = E.Load(A, (E.const(3),))
    assert printer(i).index(loaded + i) == "(int64_t)(A[3] + (int32_t)i)"
    assert printer(i).value(loaded + i < 8) == "((A[3] + (int32_t)i) < 8)"


def test_the_offset_follows_the_strides_and_leaves_zeros_out() -> None:
    made = printer(i, j)
    tile = Buffer("a", Shape((4, 8)), DType("float32"), "shared")
    padded = Buffer("p", Shape((4, 8)), DType("float32"), "shared", strides=(24, 1))
    assert made.flat_index(tile, (i, j)) == "i * 8 + j"
    assert made.flat_index(padded, (i + 1, j)) == "(i + 1) * 24 + j"
    assert made.flat_index(tile, (E.const(0), j)) == "j"
    assert made.flat_index(tile, (E.const(0), E.const(0))) == "0"


def test_the_offset_of_a_view_is_added() -> None:
    view = Buffer("v", Shape((4,)), DType("float32"), "shared", elem_offset=16)
    assert printer(i).flat_index(view, (i,)) == "i + 16"


@pytest.mark.parametrize(
    ("dtype", "text"),
    [
        ("float32", "b[i]"), ("float16", "tl_f16_to_f32(b[i])"), ("int8", "b[i]"),
        ("int4", "tl_load_i4(b, i)"), ("uint4", "tl_load_u4(b, i)"),
        ("float4_e2m1fn", "tl_load_e2m1fn(b, i)"),
        ("float8_e4m3fn", "tl_e4m3fn_to_f32(b[i])"),
    ],
)  # fmt: skip
def test_loads_convert_to_the_value_type(dtype: str, text: str) -> None:
    assert printer(i).value(E.Load(Buffer("b", Shape((8,)), DType(dtype), "shared"), (i,))) == text


def test_stores_convert_from_the_value_type() -> None:
    made = printer()
    assert made.stored(DType("float32"), "p", "3", "v") == "p[3] = v;"
    assert made.stored(DType("bfloat16"), "p", "3", "v") == "p[3] = tl_f32_to_bf16(v);"
    assert made.stored(DType("int4"), "p", "3", "v") == "tl_store_i4(p, 3, v);"


# -- types and parentheses ------------------------------------------------------------------
def test_types_in_memory_and_in_registers() -> None:
    found = {
        name: (storage_type(DType(name)), value_type(DType(name)), is_packed(DType(name)))
        for name in ("bool", "int4", "float16", "float4_e2m1fn", "float64")
    }
    assert found == {
        "bool": ("uint8_t", "uint8_t", False),
        "int4": ("uint8_t", "int32_t", True),
        "float16": ("uint16_t", "float", False),
        "float4_e2m1fn": ("uint8_t", "float", True),
        "float64": ("double", "double", False),
    }


def test_bare_takes_off_only_a_pair_around_everything() -> None:
    assert [bare(text) for text in ("(a + b)", "(a) + (b)", "a", "((a) + b)")] == [
        "a + b", "(a) + (b)", "a", "(a) + b",
    ]  # fmt: skip


def test_term_keeps_the_parentheses_that_a_sum_needs() -> None:
    assert [term(text) for text in ("(a + b)", "(a & 7)", "(a >> 2)", "(a ? b : c)")] == [
        "a + b", "(a & 7)", "(a >> 2)", "(a ? b : c)",
    ]  # fmt: skip


# -- refusals -------------------------------------------------------------------------------
def test_a_vector_value_is_refused() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        printer().value(E.Ramp(E.const(0), E.const(1), 4))
    assert str(caught.value) == (
        f"the vector value `{E.Ramp(E.const(0), E.const(1), 4)!r}` of dtype int32x4 cannot be "
        "printed here\n"
        "  hint: write the loop over the lanes with T.vectorized"
    )


def test_an_intrinsic_that_the_target_has_not_is_refused() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        printer().value(E.call(ATOMS["mbarrier_try_wait"], E.const(1), E.const(0)))
    assert str(caught.value) == (
        "T.mbarrier_try_wait is not available on this target\n  expected: sm_80"
    )


def test_a_dtype_without_storage_is_refused() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        storage_type(DType("int32x4"))
    assert str(caught.value) == "dtype int32x4 has no storage on this target"
