"""Whole tiles are compared by identity, and a program that is traced does not ask for that."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from columns import as_known
from refusals import refusal
from written import executed

import tilelang.language as T
from tilelang.errors import TileTypeError

_HEAD = (
    "@T.prim_func\ndef f(A: T.Tensor((8, 8), 'float32'), n: T.int32):\n"
    "    with T.Kernel(1, threads=32) as bx:\n"
    "        a = T.alloc_fragment((8,), 'float32')\n"
    "        b = T.alloc_shared((8, 8), 'float32')\n        "
)
_LOOP = "compare elements in a loop of T.Parallel, "
_IS = "; `is` tells whether two names are one tile"


def traced(line: str, **names: Any) -> Any:
    return executed(_HEAD + line + "\n", "<compared>", np=np, **names)["f"]


@pytest.mark.parametrize(
    ("line", "at", "sign", "got", "hint"),
    [
        ("x = a == 3", "a == 3", "==", "a == 3", f"{_LOOP}`a[i] == 3`"),
        ("x = 1.5 == a", "1.5 == a", "==", "a == 1.5", f"{_LOOP}`a[i] == 1.5`"),
        ("x = a == b", "a == b", "==", "a == b", f"{_LOOP}`a[i] == b[i, j]`{_IS}"),
        ("x = b[0, :] == 2", "b[0, :] == 2", "==", "b[0, 0:8] == 2", f"{_LOOP}`b[i, j] == 2`"),
        ("x = np.equal(a, 2)", "np.equal(a, 2)", "==", "a == 2", f"{_LOOP}`a[i] == 2`"),
        ("x = a in (1, 2)", "a in (1, 2)", "==", "a == 1", f"{_LOOP}`a[i] == 1`"),
        (
            "x = a == [1, 2]", "a == [1, 2]", "==", "a == [1, 2]",
            "pass the numbers as a tensor, and compare elements in a loop of T.Parallel",
        ),
        ("x = any(t != b for t in (b, a))", "t != b", "!=", "a != b", f"{_LOOP}`a[i] != b[i, j]`{_IS}"),
        ("x = same(a, 2)", "same(a, 2)", "==", "a == 2", f"{_LOOP}`a[i] == 2`"),
    ],
)  # fmt: skip
def test_comparing_a_whole_tile_is_an_error_with_a_hint(
    line: str, at: str, sign: str, got: str, hint: str
) -> None:
    space: dict[str, Any] = {}
    exec("def same(x, y):\n    return x == y\n", space)  # noqa: S102
    with pytest.raises(TileTypeError) as caught:
        traced(line, same=space["same"])
    column = 9 + line.index(at)
    where = f" --> <compared>:6:{column}\n    6 |         {line}\n      | {' ' * (column - 1)}{'^' * len(at)}"
    if "same" in line:
        where = " --> <string>:2"
    start = as_known(
        f"a whole tile is compared with `{sign}`\n  expected: an element on each side\n"
        f"  got: `{got}`\n  hint: {hint}\n{where}"
    )
    assert str(caught.value).startswith(start)


@pytest.mark.parametrize(
    "condition",
    [
        "a is a", "a == a", "a is not b", "a != None", "a != 'none'", "n != 'none'", "a in (b, a)",
        "[b, a].index(a) == 1", "[x for x in (a, b) if x is not b] == [a]", "differ(a, b)",
        "{a: 1, b: 2}[b] == 2",
    ],
)  # fmt: skip
def test_tiles_are_compared_by_identity(condition: str) -> None:
    def differ(x: object, y: object) -> bool:
        return x != y

    func = traced(f"if {condition}: A[0, 0] = 1", differ=differ)
    assert "A[0, 0] = " in str(func)


def test_buffers_outside_of_a_trace_are_compared_by_identity() -> None:
    found: list[Any] = []

    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            found.append(A)

    assert (found[0] == 3) is False
    assert (found[0] != found[0]) is False


def test_an_element_of_a_slice_is_an_element_of_its_buffer() -> None:
    assert refusal(TileTypeError, traced, "x = b[0, 0:4][0]") == as_known(
        "the slice `b[0, 0:4]` is indexed\n  expected: a buffer\n"
        "  hint: index the buffer `b` itself\n --> <compared>:6:13\n"
        "    6 |         x = b[0, 0:4][0]\n      |             ^^^^^^^^^^^^"
    )
