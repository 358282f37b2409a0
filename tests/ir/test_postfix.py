"""Integer programs of the host: their words, their values, and those that have none."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tilelang.errors import InternalError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, Var, as_expr, call
from tilelang.ir.postfix import OPERATORS, Program, decode, depth_of, encode, evaluate, program_of

ITEMS = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(0, 63).map(lambda number: f"${number}"),
    st.sampled_from(list(OPERATORS)),
)


@given(st.lists(ITEMS, min_size=1).map(tuple))
def test_postfix_code_round_trip(program: Program) -> None:
    length, *words = encode(program)
    assert length == len(program)
    assert decode(list(zip(words[::2], words[1::2]))) == program


def test_an_unknown_operator_is_an_internal_error() -> None:
    with pytest.raises(InternalError, match="the host program has the unknown operation 'xyz'"):
        encode((1, "xyz"))


@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "select"])
def test_operands_without_a_value_leave_none_unless_they_do_not_matter(name: str) -> None:
    count, meaning = OPERATORS[name]
    lazy = {"land": 0, "lor": 1}
    for first in (0, 1):
        operands = (first, None)[2 - count :]
        assert meaning(*operands) == (first if lazy.get(name) == first else None)


def test_the_side_that_is_not_chosen_needs_no_value() -> None:
    for condition, wanted in ((0, None), (1, 5), (None, None)):
        assert evaluate(("$0", 5, 1, 0, "floordiv", "select"), [condition]) == wanted


def test_values_wrap_at_64_bits() -> None:
    assert evaluate((2**62, 2, "mul"), ()) == -(2**63)
    assert evaluate((-(2**63), -1, "floordiv"), ()) == -(2**63)


@pytest.mark.parametrize(
    ("program", "depth"), [(7, 1), ((1,), 1), ((1, 2, 3, "add", "add"), 3), ((1, "neg", "neg"), 1)]
)
def test_the_depth_is_that_of_the_stack(program: int | Program, depth: int) -> None:
    assert depth_of(program) == depth


def test_expressions_are_encoded_as_postfix() -> None:
    n = Var("n", DType("int32"))

    def leaf(expr: Expr) -> Program:
        assert expr is n
        return ("$3",)

    assert program_of((n + 3) // 4, leaf) == ("$3", 3, "add", 4, "floordiv")
    assert program_of(~n, leaf) == ("$3", -1, "bitxor")
    likely = call("likely", as_expr(n > 2))
    assert evaluate(program_of(likely, leaf), [0, 0, 0, 5]) == 1
