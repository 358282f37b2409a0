"""Programs that are deep: long sums, ladders of conditions, chains of choices, nested loops."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from columns import as_known
from executors import CPU, INTERPRETER, OPTIONS, SM_80
from written import kernel_of

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir.expr import Expr
from tilelang.ir.stmt import PrimFunc, walk

N = 1100  # beyond what Python recurses


def traced(body: str) -> PrimFunc:
    """A kernel of one thread with the float32 tensor ``X`` of 64 elements."""
    file = f"<deep {abs(hash(body))}>"
    made: PrimFunc = kernel_of(body, "X: T.Tensor((64,), 'float32')", file, 1, fold=fold)
    return made


def fold(step: Any, first: Expr, count: int = N) -> Any:
    """``step(k, step(..., step(0, first)))``"""
    value = first
    for k in range(count):
        value = step(k, value)
    return value


MACRO = """\
@T.macro
def nest(k):
    if k == 0:
        X[0] = X[0] + 1.0
    else:
        {opening}
            nest(k - 1)
"""

PROGRAMS: dict[str, tuple[str, float]] = {
    "a sum of many terms": ("X[0] = fold(lambda k, s: s + X[1], X[1])", N + 1),
    "a sum as text": ("X[0] = " + " + ".join(["X[1]"] * N), N),
    "smallest of many": ("X[0] = fold(lambda k, s: T.min(X[1] + k, s), X[1] + 5.0)", 1),
    "signs": ("X[0] = fold(lambda k, s: -T.abs(s), X[1])", -1),
    "wrapping arithmetic": (
        "v = fold(lambda k, s: s * 3 + 1, T.cast(X[1], 'int32'), 999)\n"
        "X[0] = T.cast(v % 1000, 'float32')",
        None,  # type: ignore[dict-item]  # computed below
    ),
    "wrapping arithmetic on values that are used twice": (
        "v = fold(lambda k, s: s * s + s, T.cast(X[1], 'int32'), 40)\n"
        "X[0] = T.cast(v % 1000, 'float32')",
        134,
    ),
    "choices between values that are used twice": (
        "X[0] = fold(lambda k, s: T.if_then_else(s > 3.0, s * X[2] - 2.0, s + X[1]), X[1], 40)",
        2,
    ),
    "choices": (
        "X[0] = fold(lambda k, s: T.if_then_else(X[1] == k + 2.0, X[1] + k, s), X[1] + 6.0)",
        7,
    ),
    "choices that guard accesses of a tile": (
        "S = T.alloc_local((4,), 'float32')\nS[1] = 5.0\ni = T.cast(X[1], 'int32')\n"
        "X[0] = fold(lambda k, s: T.if_then_else(X[1] == k + 2.0, S[i + k * 100], s), S[i])",
        5,
    ),
    "conjunctions that guard accesses of a tile": (
        "S = T.alloc_local((4,), 'float32')\nS[1] = 5.0\ni = T.cast(X[1], 'int32')\n"
        "if fold(lambda k, s: T.And(X[1] < k + 1.0, s), S[i + 100] > 0.0):\n    X[0] = 7.0\n"
        "else:\n    X[0] = 8.0",
        8,
    ),
    "a ladder of elif": (
        "v = X[1]\nif v == 500.0:\n    X[0] = 2.0\n"
        + "".join(f"elif v == {500 + k}.0:\n    X[0] = 3.0\n" for k in range(1, 300))
        + "else:\n    X[0] = 9.0",
        9,
    ),
    "nested conditions": (MACRO.format(opening="if X[1] != k + 5.0:") + "nest(100)", 2),
    "nested loops": (MACRO.format(opening="for i in T.serial(1):") + "nest(40)", 2),
    "a grid of many dimensions": (
        f"for {', '.join(f'i{k}' for k in range(40))} in T.grid({', '.join(['1'] * 40)}):\n"
        "    X[0] = 4.0",
        4,
    ),
    "values of values": (
        "v = T.get_thread_binding()\n" + "v = v + 1\n" * 1000 + "if v > 10:\n    X[v - 1000] = 6.0",
        6,
    ),
    "a sum in a parallel loop": (
        "S = T.alloc_shared((64,), 'float32')\nT.copy(X, S)\nfor i in T.Parallel(64):\n"
        "    S[i] = fold(lambda k, s: s + S[i], S[i])\nT.copy(S, X)",
        N + 1,
    ),
}


def wrapped() -> float:
    value = 1
    for _ in range(999):
        value = (value * 3 + 1) % 2**32
    value -= 2**32 if value >= 2**31 else 0
    return float(value % 1000)


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("executor", [INTERPRETER, CPU, SM_80])
def test_a_deep_program_runs(name: str, executor: str) -> None:
    body, want = PROGRAMS[name]
    x = np.ones(64, np.float32)
    tilelang.compile(traced(body), **OPTIONS[executor])(x)
    assert x[0] == (wrapped() if want is None else want)


def test_no_statement_of_a_traced_program_is_deep() -> None:
    func = traced(PROGRAMS["a sum of many terms"][0])
    assert max(expr.depth for stmt in walk(func.body) for expr in stmt.exprs()) <= 64


def test_a_deep_condition_of_a_while_is_an_error() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        traced(
            "k = T.alloc_var('int32', 0)\nwhile fold(lambda j, s: s + k, k, 100) < 3:\n    k += 1"
        )
    text = re.sub(r"<deep \d+>", "<deep>", f"{caught.value}\n")
    assert text == as_known(
        """\
the condition of `while` is too large
  expected: 64 operations inside each other, 512 in all
  got: 103 and 304
  hint: compute it in the body, into a T.alloc_var that the condition reads
 --> <deep>:5:15
    5 |         while fold(lambda j, s: s + k, k, 100) < 3:
      |               ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
"""
    )


def test_a_value_that_many_choices_inside_each_other_need_is_an_error() -> None:
    step = "T.if_then_else(X[1] > 0.0, T.if_then_else(X[2] > 0.0, s * X[3], s - X[4]), s)"
    with pytest.raises(TileUnsupportedError) as caught:
        traced(f"X[0] = fold(lambda k, s: {step}, X[1], 40)")
    assert str(caught.value).splitlines()[:2] == [
        "an expression has more than 500 choices inside each other",
        "  hint: give a part that several choices use a name in the kernel or a @T.macro",
    ]


def test_messages_show_the_start_of_long_expressions() -> None:
    v = T.dynamic("v")
    text = repr(fold(lambda k, s: s + v, v, 300))
    assert len(text) == 400
    assert text.endswith("...")
