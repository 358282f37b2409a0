"""Parallel loops run over the iterations that pass their guard: the same results, fewer tests."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tests.cpu.modes import agree
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
OPERATORS = {word: getattr(operator, word) for word in ("lt", "le", "gt", "ge", "eq", "ne")}
SIZE = 9


def guarded(
    first: Callable[..., Any], second: Callable[..., Any], third: Callable[..., Any]
) -> Any:
    """Counts the iterations of a nest in a loop over `k` that pass three conditions."""

    @T.prim_func
    def kernel(Y: T.Tensor((SIZE, SIZE), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((SIZE, SIZE), "int32")
            T.clear(tile)
            for k in T.serial(SIZE):
                for i, j in T.Parallel(SIZE, SIZE):
                    if first(i, k + 1) and second(2 * k - j, i - 3) and third(j + k, SIZE // 2):
                        tile[i, j] += k + 1
            T.copy(tile, Y)

    return kernel


def decomposed(n: int) -> Any:
    """The factor of Cholesky, column by column, in a tile."""

    @T.prim_func
    def kernel(A: T.Tensor((n, n), "float32"), L: T.Tensor((n, n), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((n, n), "float32")
            T.copy(A, a)
            for k in T.serial(n):
                d = T.sqrt(a[k, k])
                for i in T.Parallel(n):
                    if i > k:
                        a[i, k] = a[i, k] / d
                a[k, k] = d
                for i, j in T.Parallel(n, n):
                    if i > k and j > k and j <= i:
                        a[i, j] -= a[i, k] * a[j, k]
            for i, j in T.Parallel(n, n):
                L[i, j] = T.if_then_else(j <= i, a[i, j], 0.0)

    return kernel


@pytest.mark.share(6)
@pytest.mark.parametrize("second", [*OPERATORS])
@pytest.mark.parametrize("number, first", [*enumerate(OPERATORS)])
def test_the_iterations_that_pass_are_the_same(number: int, first: str, second: str) -> None:
    words = [*OPERATORS]
    third = words[(number + words.index(second)) % len(words)]
    chosen = [OPERATORS[word] for word in (first, second, third)]
    agree(guarded(*chosen), np.full((SIZE, SIZE), -1, np.int32))


def test_a_triangle_is_no_square_with_a_condition() -> None:
    kernel = tilelang.compile(decomposed(16), target="cpu")
    text = kernel.get_kernel_source()
    assert text.count("= (k + 1); ") == 3  # of `i`, of `i` again and of `j`
    assert "if (" not in text[text.index("int64_t k = 0") : text.index("TL_SIGNS")]
    half = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
    a, out = half @ half.T + 16 * np.eye(16, dtype=np.float32), np.zeros((16, 16), np.float32)
    kernel(a, out)
    np.testing.assert_allclose(out, np.linalg.cholesky(a), rtol=1e-4, atol=1e-5)
