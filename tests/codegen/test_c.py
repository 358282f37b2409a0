"""C text of expressions: exact literals, wrapping arithmetic, 64-bit indices, few parentheses."""

from __future__ import annotations

import math

import pytest
from refusals import refusal

from tilelang.codegen.c import CPrinter, storage_type, term
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


def test_a_cut_value_is_not_taken_for_non_negative() -> None:
    """130 as int8 is -126, whose remainder has to be floored."""
    cut = E.binary("floordiv", E.cast(i, DType("int8")), E.const(3, DType("int8")))
    kept = E.binary("floordiv", E.cast(i, DType("int64")), E.const(3, DType("int64")))
    assert "tl_floordiv" in printer(i).value(cut)
    assert "tl_floordiv" not in printer(i).value(kept)


# -- indices --------------------------------------------------------------------------------


def test_a_loaded_index_wraps_in_its_dtype() -> None:
    """Condition and address agree: both use the wrapped 32-bit sum."""
    loaded = E.Load(Buffer("A", Shape((8,)), DType("int32"), "global"), (E.const(3),))
    assert printer(i).index(loaded + i) == "(int64_t)(A[3] + (int32_t)i)"
    assert printer(i).value(loaded + i < 8) == "((A[3] + (int32_t)i) < 8)"


# -- types and parentheses ------------------------------------------------------------------


def test_term_keeps_the_parentheses_that_a_sum_needs() -> None:
    assert [term(text) for text in ("(a + b)", "(a & 7)", "(a >> 2)", "(a ? b : c)")] == [
        "a + b", "(a & 7)", "(a >> 2)", "(a ? b : c)",
    ]  # fmt: skip


# -- refusals -------------------------------------------------------------------------------
def test_a_vector_value_is_refused() -> None:
    assert refusal(TileUnsupportedError, printer().value, E.Ramp(E.const(0), E.const(1), 4)) == (
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
