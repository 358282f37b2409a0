"""Numbers that a dtype does not have: errors at the line, and comparisons as Python's."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction

import pytest
from written import executed

import tilelang.language as T
from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir import expr as E

HEAD = (
    "@T.prim_func\ndef f(A: T.Tensor((8,), 'int32'), B: T.Tensor((8,), 'int8'), "
    "U: T.Tensor((8,), 'uint32')):\n    with T.Kernel(1, threads=8):\n        "
)
INT32 = "-2147483648 to 2147483647"
BITS = "to keep the low bits, write the conversion: T.cast(x, {!r})"
BOTH = "convert the other operand to a dtype that has both, as T.cast(x, 'int64')"


def traced(line: str) -> None:
    executed(f"{HEAD}{line}\n", "<number>")


@pytest.mark.parametrize(
    ("line", "what", "expected", "got", "hint"),
    [
        ("A[0] = 2**31", "the constant 2147483648 does not fit int32", INT32, "2147483648",
         BITS.format("int32")),
        ("A[0] = 1 << 70", f"the constant {2**70} does not fit int32", INT32, f"{2**70}",
         BITS.format("int32")),
        ("A[0] = 3e9", "the constant 3000000000.0 does not fit int32", INT32, "3000000000.0",
         BITS.format("int32")),
        ("T.fill(B, 300)", "the constant 300 does not fit int8", "-128 to 127", "300",
         BITS.format("int8")),
        ("B[0] = 300", "the constant 300 does not fit int8", "-128 to 127", "300",
         BITS.format("int8")),
        ("U[0] = -1", "the constant -1 does not fit uint32", "0 to 4294967295", "-1",
         BITS.format("uint32")),
        ("T.atomic_max(U[0], -1)", "the constant -1 does not fit uint32", "0 to 4294967295", "-1",
         BITS.format("uint32")),
        ("A[0] = T.max(A[0], 2**31)",
         'no value of `T.max(T.Cast("int64", A[0]), T.int64(2147483648))` fits int32', INT32,
         "2147483648 to 2147483648", BITS.format("int32")),
        ("B[0] = T.clamp(A[0], 200, 300)", "no value of `T.min(T.max(A[0], 200), 300)` fits int8",
         "-128 to 127", "200 to 300", BITS.format("int8")),
        ("A[0] = T.max(U[0], -1)",
         "the constant -1 does not fit uint32, the dtype of the other operand of `T.max`",
         "0 to 4294967295", "-1", BOTH),
        ("A[0] = U[0] // -2",
         "the constant -2 does not fit uint32, the dtype of the other operand of `//`",
         "0 to 4294967295", "-2", BOTH),
        ("A[0] = T.min(A[0], 2**63)",
         f"the constant {2**63} does not fit int32, the dtype of the other operand of `T.min`",
         INT32, f"{2**63}", BOTH),
    ],
)  # fmt: skip
def test_a_number_that_the_dtype_does_not_have_is_refused(
    line: str, what: str, expected: str, got: str, hint: str
) -> None:
    with pytest.raises(TileValueError) as caught:
        traced(line)
    message = f"{what}\n  expected: {expected}\n  got: {got}\n  hint: {hint}\n --> <number>:4"
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("value", "hint"),
    [(Fraction(1, 2), "convert it in front: float(x)"), (Decimal(1), "convert it in front: float(x)"),
     (1j, None)],
)  # fmt: skip
def test_numbers_of_other_kinds_are_converted_first(value: object, hint: str | None) -> None:
    with pytest.raises(TileTypeError) as caught:
        E.as_expr(value)
    assert caught.value.hint == hint


@pytest.mark.parametrize(
    "line",
    [
        "A[0] = T.int32(2**31)", "B[0] = T.cast(300, 'int8')", "U[0] = 0xFFFFFFFF",
        "T.atomic_add(U[0], -1)", "U[0] = U[0] + -1", "U[0] = U[0] & -4", "B[0] = A[0]",
        "B[0] = B[0] + 300", "A[0] = A[0] ^ 0x80000000", "A[0] = T.max(A[0], T.int32(-5))",
        "B[0] = T.infinity('float32')", "A[0] = T.max(B[0], 300)",
    ],
)  # fmt: skip
def test_bits_and_conversions_are_not(line: str) -> None:
    traced(line)


def test_comparisons_that_numbers_decide_are_constants() -> None:
    u, s, wide = T.Var("u", "uint32"), T.Var("s", "int64"), T.Var("w", "uint64")
    true, false = E.const(True), E.const(False)
    assert [u > -1, u >= -1, u != -1, -1 < u] == [true] * 4
    assert [u < -1, u <= -1, u == -1, -5 > u] == [false] * 4
    assert [s < 2**63, s != 2**70, wide < 2**64, wide > -(2**40)] == [true] * 4
    assert [s == 2**64 - 1, wide >= 2**64] == [false] * 2


def test_comparisons_of_both_signs_hold_both() -> None:
    byte, small, u = T.Var("b", "uint8"), T.Var("s", "int8"), T.Var("u", "uint32")
    i, wide = T.Var("i", "int32"), T.Var("w", "uint64")
    assert repr(u > i) == 'T.Cast("int64", u) > T.Cast("int64", i)'
    assert repr(small == byte) == 'T.Cast("int32", b) == T.Cast("int32", s)'
    assert repr(wide < i) == 'not i < 0 and w < T.Cast("uint64", i)'
    assert repr(i < wide) == 'i < 0 or w > T.Cast("uint64", i)'
    assert repr(u < (i & 7)) == 'u < T.Cast("uint32", i & 7)'  # no negative number to hold
    assert repr(byte < i) == 'T.Cast("int32", b) < i'
    assert repr(i < T.uint32(5)) == "5 > i"
