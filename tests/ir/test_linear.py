"""Sums of multiples of variables and a rest."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.linear import depends_on, parted
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute

i, j, n = (E.Var(name, DType("int32")) for name in "ijn")
LOOPS = frozenset((i, j))


@pytest.mark.parametrize(
    ("expr", "coeffs", "rest"),
    [
        (E.const(7), {}, 7),
        (i, {i: 1}, 0),
        (i * 4 + j - 3, {i: 4, j: 1}, -3),
        (4 * (i - j) + i, {i: 5, j: -4}, 0),
        ((i + 2) * 3 - (j + 1), {i: 3, j: -1}, 5),
        (E.cast(i * 2 + 1, DType("int64")) + E.const(5, "int64"), {i: 2}, 6),
    ],
    ids=repr,
)
def test_sums_and_constant_multiples_are_linear(
    expr: E.Expr, coeffs: dict[E.Var, int], rest: int
) -> None:
    parts = parted(expr, LOOPS)
    assert parts is not None
    assert dict(parts[0].terms) == coeffs
    assert isinstance(parts[1], E.Const) and parts[1].value == rest


def test_terms_without_the_variables_are_the_rest() -> None:
    parts = parted(i + n * n, LOOPS)
    assert parts is not None
    assert parts[0].terms == ((i, 1),)
    assert repr(simplify(parts[1])) == "n * n"


@pytest.mark.parametrize(
    "expr",
    [
        i * j,
        i * n,
        i // 2,
        i % 3,
        E.binary("min", i, j),
        E.cast(i, DType("int8")),
        E.cast(i, DType("float32")),
    ],
    ids=repr,
)
def test_other_forms_are_none(expr: E.Expr) -> None:
    assert parted(expr, LOOPS) is None


def test_depends_on_visits_subexpressions() -> None:
    assert depends_on(n + (i // 2) % 3, LOOPS)
    assert not depends_on(n * 2, LOOPS)


@st.composite
def sums(draw: st.DrawFn) -> E.Expr:
    found = draw(st.sampled_from([i, j, n, E.const(3), E.const(-2)]))
    for _ in range(draw(st.integers(0, 5))):
        op = draw(st.sampled_from(["add", "sub", "mul"]))
        other = draw(st.sampled_from([i, j, n, E.const(2), E.const(-5)]))
        found = E.binary(op, found, other if op != "mul" else E.const(draw(st.integers(-4, 4))))
    return found


@given(sums(), st.tuples(*[st.integers(-50, 50)] * 3))
def test_the_form_has_the_value_of_the_expression(expr: E.Expr, at: tuple[int, int, int]) -> None:
    parts = parted(expr, LOOPS)
    assert parts is not None
    point: dict[E.Var, E.Expr] = {var: E.const(value) for var, value in zip((i, j, n), at)}

    def value(item: E.Expr) -> int:
        found = simplify(substitute(item, point))
        assert isinstance(found, E.Const)
        return int(found.value)

    total = value(parts[1]) + sum(c * value(var) for var, c in parts[0].terms)
    assert total == value(expr)
