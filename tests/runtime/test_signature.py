"""The signature as data: programs over symbols, JSON, and what cannot be a signature."""

from __future__ import annotations

import pickle

import pytest

from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir.postfix import evaluate
from tilelang.runtime.dims import dim_text, solvable_in, solve, symbols_in
from tilelang.runtime.native import encode
from tilelang.runtime.signature import Check, LaunchSpec, Symbol, scalar, tensor

M, N = ("$0",), ("$1",)


@pytest.mark.parametrize(
    ("dim", "value", "text"),
    [
        (7, 7, "7"),
        (M, 10, "m"),
        (("$0", 4, "mul", 1, "add"), 41, "(m*4)+1"),
        (("$0", 3, "add", 4, "floordiv"), 3, "(m+3)//4"),
        (("$0", "$1", "min"), 3, "min(m, n)"),
        ((0, "$0", "sub", 4, "floordiv"), -3, "(0-m)//4"),
        ((0, "$0", "sub", 4, "truncdiv"), -2, "truncdiv(0-m, 4)"),
        ((0, "$0", "sub", 4, "truncmod"), -2, "truncmod(0-m, 4)"),
        (("$0", "$1", "lt", 1, 2, "select"), 2, "1 if (m < n) else 2"),
        (("$0", 1, "shl", "$1", "bitxor"), 23, "(m << 1) ^ n"),
        (("$0", "lnot", "$1", "lor"), 1, "(not m) or n"),
        (("$0", "neg", "$1", "add"), -7, "(-m)+n"),
    ],
)
def test_programs_are_evaluated_and_printed(dim: object, value: int, text: str) -> None:
    assert evaluate(dim, (10, 3)) == value  # type: ignore[arg-type]  # parametrised
    assert dim_text(dim, ("m", "n")) == text  # type: ignore[arg-type]  # parametrised


def test_linear_forms_can_be_solved() -> None:
    form = ("$0", "$1", "mul", 5, "add")
    assert symbols_in(form) == (0, 1)
    assert solvable_in(form) == {0, 1}
    assert solvable_in(("$0", "$0", "mul")) == frozenset()
    assert solvable_in(("$0", 4, "floordiv", "$1", "add")) == {1}
    assert solve(form, 1, 26, (7, None)) == 3
    assert solve(form, 1, 27, (7, None)) is None
    assert solve((10, "$0", "sub"), 0, 4, (None,)) == 6
    assert solve((10, "$0", "sub"), 0, 11, (None,)) is None


def full() -> LaunchSpec:
    return LaunchSpec(
        "f",
        (
            tensor("A", "float16", (M, ("$1", 4, "mul")), (N, 1), nullable=True, align=16),
            scalar("n", "int32", 1),
            tensor("C", "bfloat16", (M,), is_output=True),
        ),
        (Symbol("m", "int64"), Symbol("n", param=1)),
        outputs=(2,),
        returns="one",
        checks=(Check(("$0", 2, "floormod"), "odd"),),
        messages=("no",),
        device="cuda",
    )


def test_signature_survives_pickle() -> None:
    spec = full()
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert spec.inputs == (0, 1)
    assert spec.free_symbols == (0,)


def test_signature_that_is_too_large_for_c_is_left_to_python() -> None:
    assert encode(full()) is not None
    assert encode(LaunchSpec("f", tuple(scalar(f"s{i}", "int32") for i in range(60)))) is None
    assert encode(LaunchSpec("f", (tensor("A", "int8", (1,) * 13),))) is None
    assert encode(LaunchSpec("f", (tensor("A", "int8", (2**70,)),))) is None


def test_a_symbol_without_an_argument_is_refused() -> None:
    with pytest.raises(TileValueError) as found:
        LaunchSpec("f", (tensor("A", "int8", (("$0", 4, "floordiv"),)),), (Symbol("m"),))
    assert str(found.value) == (
        "kernel f: no argument determines the value of m\n"
        "  expected: an input with m, or a linear form such as m*4, as a dimension or stride, "
        "or a scalar parameter\n"
        "  hint: declare the size as a parameter, e.g. `n: T.int32`"
    )
    with pytest.raises(TileValueError, match="no argument determines the value of m"):
        LaunchSpec("f", (tensor("C", "int8", (M,), is_output=True),), (Symbol("m"),), (0,), "one")


def test_result_with_strides_is_refused() -> None:
    with pytest.raises(TileUnsupportedError, match="the result C has strides"):
        LaunchSpec("f", (tensor("C", "int8", (2,), (2,), is_output=True),), (), (0,), "one")
