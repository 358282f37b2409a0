"""Distances of iterations that touch one element, against every pair of iterations."""

from __future__ import annotations

from itertools import product

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import Buffer, Region, Shape
from tilelang.ir.dtypes import dtype
from tilelang.ir.intervals import ANY, Interval
from tilelang.transforms.analysis.dependence import (
    Iterations,
    Memory,
    is_same_region,
    may_overlap,
    steps_of,
    uses_by,
)

INT = dtype("int32")
i, j, n = (E.Var(name, INT) for name in "ijn")
A = Buffer("A", Shape((64, 64)), dtype("float32"), "shared")
PITCHED = Buffer("P", Shape((64, 64)), dtype("float32"), "shared", strides=(8, 1))
COUNT = 6


def access(*indices: object, buffer: Buffer = A) -> effects.Access:
    load = E.Load(buffer, tuple(map(E.as_expr, indices)))
    (only,) = effects.accesses(load)
    return only


def exactly(distance: int) -> Interval:
    return Interval(distance, distance)


TABLE = {
    "the same element": (access(i, 0), access(i, 0), exactly(0)),
    "the element before": (access(i, 0), access(i - 1, 0), exactly(1)),
    "the element behind": (access(i, 0), access(i + 2, 0), exactly(-2)),
    "two apart in steps of two": (access(i * 2, 0), access(i * 2 + 4, 0), exactly(-2)),
    "between steps of two": (access(i * 2, 0), access(i * 2 + 1, 0), None),
    "downwards": (access(9 - i, 0), access(8 - i, 0), exactly(-1)),
    "another row": (access(0, i), access(1, i + 1), None),
    "rows that are one or another": (access(n, i), access(n + 1, i), None),
    "a row that is not known": (access(n, i), access(j, i + 1), exactly(-1)),
    "farther than the loop is long": (access(i, 0), access(i + COUNT, 0), None),
    "one element for all": (access(3, 3), access(3, 3), Interval(1 - COUNT, COUNT - 1)),
    "another step": (access(i, 0), access(i * 2, 0), Interval(1 - COUNT, COUNT - 1)),
    "a diagonal": (access(i, i), access(i + 1, i + 1), exactly(-1)),
    "no common distance": (access(i, i), access(i + 1, i + 2), None),
    "a name": (access(j, 0), access(i + 1, 0), exactly(-1)),
}


@pytest.mark.parametrize("name", TABLE)
def test_a_distance(name: str) -> None:
    first, second, distance = TABLE[name]
    values: dict[E.Var, E.Expr] = {j: i} if name == "a name" else {}
    assert Iterations(i, values=values, extents={i: COUNT}).distance(first, second) == distance


def test_a_variable_of_the_iteration_may_have_any_value() -> None:
    loop = Iterations(i, frozenset((j,)))
    assert loop.distance(access(i, j), access(i, j)) == exactly(0)
    assert loop.distance(access(0, j), access(0, j)) == ANY


def test_rows_that_overlap_in_memory_are_compared_by_their_positions() -> None:
    first, second = access(1, i, buffer=PITCHED), access(0, i, buffer=PITCHED)
    assert Iterations(i).distance(first, second) == exactly(8)
    assert Iterations(i, extents={i: 8}).are_disjoint(first, second)
    assert not Iterations(i, extents={i: 9}).are_disjoint(first, second)


INDEX = st.tuples(st.integers(-3, 3), st.integers(0, 8))


@given(st.tuples(INDEX, INDEX), st.tuples(INDEX, INDEX), st.integers(1, 8))
@settings(deadline=None, max_examples=300)
def test_no_distance_is_left_out(
    first: tuple[tuple[int, int], ...], second: tuple[tuple[int, int], ...], count: int
) -> None:
    a, b = (access(*(i * step + start for step, start in side)) for side in (first, second))
    found = Iterations(i, extents={i: count}).distance(a, b)
    for x, y in product(range(count), repeat=2):
        if all(p * x + r == q * y + s for (p, r), (q, s) in zip(first, second)):
            assert found is not None and found.low <= y - x <= found.high


STEPS = st.tuples(*[st.integers(-9, 9)] * 3)


@given(STEPS, st.integers(-20, 20), st.tuples(*[st.integers(1, 4)] * 3))
@settings(deadline=None, max_examples=300)
def test_other_variables_may_have_any_of_their_values(
    steps: tuple[int, ...], gap: int, counts: tuple[int, ...]
) -> None:
    variables = (i, j, n)
    index: E.Expr = E.const(0)
    for var, step in zip(variables, steps):
        index = index + var * step
    extents = dict(zip(variables, counts))
    found = Iterations(i, frozenset(variables), extents=extents).distance(
        access(index + gap, 0), access(index, 0)
    )
    points = list(product(*map(range, counts)))
    met = {
        y[0] - x[0]
        for x, y in product(points, repeat=2)
        if sum(s * (q - p) for s, p, q in zip(steps, x, y)) == gap
    }
    assert all(found is not None and found.low <= distance <= found.high for distance in met)


def test_digits_of_an_index_identify_iterations() -> None:
    index, extents = i * 64 + j * 8 + n, {i: 5, j: 8, n: 8}
    for var in extents:
        loop = Iterations(var, frozenset(extents), extents=extents)
        assert loop.distance(access(index, 0), access(index, 0)) == exactly(0)
    longer = Iterations(i, frozenset(extents), extents={**extents, j: 9})
    assert not longer.are_disjoint(access(index, 0), access(index, 0))


@given(st.integers(0, 8), st.integers(1, 8), st.integers(0, 8), st.integers(1, 8))
@settings(deadline=None)
def test_regions_overlap_if_an_element_is_in_both(a: int, m: int, b: int, k: int) -> None:
    first, second = (Region(A, (n, E.const(low)), (4, size)) for low, size in ((a, m), (b, k)))
    bounds = Bounds().with_range(n, 0, 8)
    assert may_overlap(first, second, bounds) == bool({*range(a, a + m)} & {*range(b, b + k)})
    assert is_same_region(first, second, bounds, {}) == ((a, m) == (b, k))


def test_how_far_an_index_moves() -> None:
    indices = (i * 4 + n, n, i + j, i // 2)
    assert steps_of(indices, i, frozenset((j,))) == (4, 0, None, None)


def test_which_statements_may_write_a_tensor() -> None:
    x, y, z = (
        Buffer(name, Shape((size,)), dtype("float32"), "global")
        for name, size in (("x", 8), ("y", 8), ("z", 9))
    )
    at = (E.const(0),)
    store = S.Store(buffer=x, indices=at, value=E.Load(z, at))
    memory = Memory(S.PrimFunc("f", (x, y, z), store))
    assert [memory.is_written(tensor, store) for tensor in (x, y, z)] == [True, True, False]
    assert memory.is_unchanged_by(store, z) and not memory.is_unchanged_by(store, y)
    assert uses_by(store, S.Store, E.Load) == {x.data: 1, z.data: 1}
    assert uses_by(store, S.Store) == {x.data: 1}
