"""Vector values are written out lane by lane."""

from __future__ import annotations

import pytest
from contexts import CPU
from script_text import body_of

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.dtypes import dtype as DType
from tilelang.transforms.normalize.scalarize_vectors import scalarize_vectors


def lanes(func: S.PrimFunc) -> str:
    return body_of(scalarize_vectors(func, CPU))


def test_a_program_without_vectors_is_the_same_object() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float16")):
        with T.Kernel(1, threads=1):
            A[0] = A[1]

    assert scalarize_vectors(kernel, CPU) is kernel


def run(value: E.Expr, count: int) -> list[E.Expr]:
    """The lanes of ``value`` stored to a vector buffer."""

    @T.prim_func
    def kernel(A: T.Tensor((8,), f"{value.dtype.element_of}x{count}")):
        with T.Kernel(1, threads=1):
            A[0] = value

    return [
        node.value
        for node in S.walk(scalarize_vectors(kernel, CPU).body)
        if isinstance(node, S.Let)
    ]


def test_a_ramp_counts_and_a_broadcast_repeats() -> None:
    assert [repr(lane) for lane in run(E.Ramp(E.const(5), E.const(3), 4), 4)] == [
        "5", "8", "11", "14",
    ]  # fmt: skip
    assert [repr(lane) for lane in run(E.Broadcast(E.const(5), 2), 2)] == ["5", "5"]


def test_a_wide_value_splits_into_narrow_lanes_from_the_low_bits() -> None:
    word = E.const(0x04030201, "uint32")
    value = E.call("reinterpret", word, dtype="uint8x4")
    got = [repr(lane) for lane in run(value, 4)]
    assert got == ["T.uint8(1)", "T.uint8(2)", "T.uint8(3)", "T.uint8(4)"]


def test_a_vector_of_an_unknown_kind_is_refused() -> None:
    pointer = E.StringImm("x")
    object.__setattr__(pointer, "dtype", DType("int32x2"))

    with pytest.raises(TileUnsupportedError) as caught:
        run(pointer, 2)
    assert str(caught.value).splitlines()[0] == (
        f"the vector value `{pointer!r}` cannot be split into lanes"
    )
