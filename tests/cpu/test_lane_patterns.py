"""Quotients, remainders and masks of a loop's variable: vectors, and the same as in the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.lane_patterns import LanePatterns
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import expr as E
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType

from .modes import agree

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
# What a number is for an int and for arrays alike, below the same multiple of four.
PLACES: dict[str, Callable[[Any], Any]] = {
    "j ^ 1": lambda j: j ^ 1, "j ^ 3": lambda j: j ^ 3, "j // 2": lambda j: j // 2,
    "j >> 1": lambda j: j >> 1, "j // 4": lambda j: j // 4, "j | 1": lambda j: j | 1,
    "j & -2": lambda j: j & -2, "pairs": lambda j: j // 2 * 2 + 1 - j % 2,
    "fours": lambda j: j // 4 * 4 + 3 - j % 4, "mixed": lambda j: (j ^ 2) // 2 * 2 + j % 2,
    "remainder": lambda j: j % 4, "eights": lambda j: j ^ 4, "thirds": lambda j: j // 3,
}  # fmt: skip
TESTS: dict[str, Callable[[Any], Any]] = {
    "even": lambda j: j % 2 == 0,
    "first": lambda j: j % 4 < 3,
    "bit": lambda j: (j & 2) != 0,
    "row": lambda j: j < 24,
}


def kernel(dtype: str, width: int, place: str, other: str, test: str) -> tilelang.PrimFunc:
    at, at_other, on = PLACES[place], PLACES[other], TESTS[test]
    wide = width + 4

    @T.prim_func
    def main(X: T.Tensor((3, wide), dtype), Z: T.Tensor((3, wide), dtype),
             Y: T.Tensor((3, width), dtype), V: T.Tensor((3, width), dtype)):  # fmt: skip
        with T.Kernel(3, threads=32) as b:
            for j in T.Parallel(width):
                Y[b, j] = T.if_then_else(on(j), X[b, at(j)], Z[b, at_other(j)])
            for j in T.Parallel(width):
                if on(j):
                    V[b, j] = X[b, at_other(j)] + T.cast(j % 2, dtype)
                else:
                    V[b, j] = T.cast(1, dtype)

    return main


@needs_compiler
@pytest.mark.parametrize("seed", range(10))
def test_patterns_agree_with_the_interpreter(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = str(rng.choice(["float32", "float16", "int8", "int32", "float64", "uint16"]))
    width = int(rng.choice([64, 48, 128, 20, 36, 50, 33, 100, 257]))
    place, other = (str(name) for name in rng.choice(list(PLACES), 2))
    test = str(rng.choice(list(TESTS)))
    x, z = (rng.integers(0, 50, (3, width + 4)).astype(dtype) for _ in range(2))
    y = np.zeros((3, width), dtype)
    for lanes in (16, 32, 64):
        agree(kernel(dtype, width, place, other, test), x, z, y, y, width=lanes)


@pytest.mark.parametrize("place", ["j ^ 1", "j ^ 3", "j // 2", "j >> 1", "pairs", "fours", "mixed"])
def test_they_are_no_gathers(place: str) -> None:
    @T.prim_func
    def main(X: T.Tensor((3, 64), "float16"), Y: T.Tensor((3, 64), "float16")):
        with T.Kernel(3, threads=32) as b:
            for j in T.Parallel(64):
                Y[b, j] = T.if_then_else(j % 2 == 0, X[b, j], -X[b, j]) + X[b, PLACES[place](j)]

    source = tilelang.compile(main, target="cpu").get_kernel_source()
    block = source[source.index("_kernel_block(") :]
    assert "TL_PATTERN" in block and "TL_EACH" not in block and "TL_GATHER" not in block


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize(("kind", "gathers"), [("int32", True), ("int64", False)])
def test_lanes_compute_indices_together(dtype: str, kind: str, gathers: bool) -> None:
    @T.prim_func
    def main(X: T.Tensor((9, 40), dtype), Y: T.Tensor((93,), dtype)):
        with T.Kernel(1):
            for j in T.Parallel(93):
                at = T.max((T.cast(j, "float32") + 0.5) * 0.40625 - 0.5, 0.0)
                low = T.cast(T.floor(at), kind)
                Y[j] = X[4, low] + X[T.abs(low - 20) // 3, T.min(low + 1, 39)]

    x = np.random.default_rng(0).integers(-50, 50, (9, 40)).astype(dtype)
    for width in (16, 32, 64):
        assert ("TL_GATHER(" in agree(main, x, np.zeros(93, dtype), width=width)) == gathers


def test_a_load_reads_only_requested_elements() -> None:
    """Of `j ^ 1` where j is even these are the odd ones: the last even one may be behind the end."""
    j, x = E.Var("j", DType("int32")), Buffer("X", Shape((64,)), DType("float32"))
    patterns = LanePatterns(j, 4, 16)
    swapped, halved = (patterns.element(x, (PLACES[name](j),)) for name in ("j ^ 1", "j // 2"))
    even = patterns.holds(TESTS["even"](j))
    assert even == (True, False, True, False)
    assert swapped is not None and halved is not None
    assert not swapped.covers(even) and swapped.covers(patterns.all) and halved.covers(even)
    assert patterns.element(x, (PLACES["thirds"](j),)) is None
    assert patterns.holds(TESTS["row"](j)) is None
