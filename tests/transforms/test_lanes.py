"""How expressions change from lane to lane: what is claimed holds for every value."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.evaluate import evaluate
from tilelang.transforms.analysis.lanes import Lanes

INT = DType("int32")
X, Y = E.Var("x", INT), E.Var("y", INT)
BOUNDS = Bounds().with_range(X, 0, 128).with_range(Y, 0, 16)


def made(rng: random.Random, depth: int) -> E.Expr:
    """A random expression in x and y."""
    if depth == 0:
        return rng.choice((X, X, Y, E.const(rng.choice((1, 3, 8, 16, 32)))))
    a, number = made(rng, depth - 1), E.const(rng.choice((1, 2, 3, 4, 8, 12, 16, 32, 64)))
    op = rng.choice(("add", "sub", "mul", "floordiv", "floormod", "min", "max", "bits", "select"))
    if op in ("mul", "floordiv", "floormod"):
        return E.binary(op, a, number)
    if op == "bits":
        bits = rng.choice((7, 8, 24, 31, 32, 63, 64, -8))
        return E.binary(rng.choice(("bitand", "bitor", "bitxor")), a, E.const(bits))
    b = made(rng, depth - 1)
    if op == "select":
        cond = E.binary(rng.choice(("lt", "le", "gt", "ge", "eq")), a, b)
        return E.select(cond, made(rng, depth - 1), made(rng, depth - 1))
    return E.binary(op, a, b)


def values(expr: E.Expr) -> np.ndarray:
    """By y, and then by x."""
    x, y = np.arange(128), np.arange(16)[:, None]
    return np.broadcast_to(evaluate(expr, {X: x, Y: y}), (16, 128))


@pytest.mark.parametrize("seed", range(40))
def test_offsets_are_those_of_every_vector(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        expr = made(rng, rng.randint(1, 4))
        for count in (2, 4, 8):
            offsets = Lanes(X, count, BOUNDS).offsets(expr)
            if offsets is not None:
                lanes = values(expr).reshape(16, -1, count)
                assert (lanes == lanes[..., :1] + offsets).all(), (repr(expr), count, offsets)


@pytest.mark.parametrize(
    "expr, offsets",
    [
        (X ^ 1, (0, -1, 2, 1)),
        (X ^ 3, (0, -1, -2, -3)),
        (X // 2, (0, 0, 1, 1)),
        (X * 2 + 1, (0, 2, 4, 6)),
        (127 - X, (0, -1, -2, -3)),
        ((X & -2) + (X + 1) % 2, (0, -1, 2, 1)),
        (X % 2 * 64 + X // 2, (0, 64, 1, 65)),
        ((X * Y) % 8, None),
        (E.select((X & 1).equal(0), X + 1, X - 1), (0, -1, 2, 1)),
        (E.select(X % 4 < 2, X, X * 2), None),
    ],
    ids=repr,
)
def test_lane_positions_are_known_in_any_order(
    expr: E.Expr, offsets: tuple[int, ...] | None
) -> None:
    assert Lanes(X, 4, BOUNDS).offsets(expr) == offsets


@pytest.mark.parametrize("seed", range(20))
def test_conditions_agree_where_they_are_said_to(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(25):
        op = rng.choice(("lt", "le", "gt", "ge", "eq", "ne"))
        cond = E.binary(op, made(rng, 2), made(rng, 2))
        for count in (2, 4, 8):
            if Lanes(X, count, BOUNDS).is_uniform(cond):
                lanes = values(cond).reshape(16, -1, count)
                assert (lanes == lanes[..., :1]).all(), (repr(cond), count)


@pytest.mark.parametrize(
    ("expr", "step"),
    [(X, 1), (X + 8, 1), (X * 2 + 1, 2), (X % 64, 1), (X // 8, 0), (X & 31, 1), (X ^ 32, 1),
     (X | 64, 1), ((X + Y * 64) % 512, 1)], ids=repr,
)  # fmt: skip
def test_quotients_and_masks_at_multiples_are_seen_through(expr: E.Expr, step: int) -> None:
    assert Lanes(X, 8, BOUNDS).offsets(expr) == tuple(step * lane for lane in range(8))


def test_a_partner_half_a_row_away_is_as_wide_as_the_row() -> None:
    place = X % 64
    partner = E.select(place < 32, place + 32, place - 32)
    assert Lanes(X, 8, BOUNDS).offsets(partner) == tuple(range(8))
    assert Lanes(X, 8, BOUNDS).offsets(E.select(place < 33, place + 32, place - 32)) is None
