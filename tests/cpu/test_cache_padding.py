"""Tiles that products add to have rows that do not meet in the caches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import CPU

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import stmt as S


def program(columns: int, use: str = "", dtype: str = "float32") -> Any:
    """A product into a tile, of which the largest elements and a sum are kept."""

    @T.prim_func
    def kernel(A: T.Tensor((20, 32), dtype), B: T.Tensor((32, columns), dtype),
               C: T.Tensor((20, columns), "float32"), R: T.Tensor((20,), "float32")):  # fmt: skip
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((20, 32), dtype)
            b = T.alloc_shared((32, columns), dtype)
            c = T.alloc_shared((20, columns), "float32")
            r = T.alloc_fragment((20,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 1.0)
            T.gemm(a, b, c)
            T.reduce_sum(c, r, dim=1)
            if use == "view":
                flat = T.reshape(c, (20 * columns,))
                for i in T.Parallel(20 * columns):
                    flat[i] = flat[i] * 2.0
            elif use == "address":
                T.atomic_add(c[3, 4], 1.0)
            else:
                for i, j in T.Parallel(20, columns):
                    c[i, j] = T.max(c[i, j], r[i])
            T.copy(c, C)
            T.copy(r, R)

    return kernel


def rows_of(func: Any) -> dict[str, Any]:
    lowered = lower(func, CPU.target, CPU.options)
    made = (n.buffer for n in S.walk(lowered.body) if isinstance(n, S.Alloc))
    return {buffer.name: buffer.strides for buffer in made}


@pytest.mark.parametrize(
    ("columns", "strides"), [(256, (272, 1)), (1024, (1040, 1)), (264, None), (128, None)]
)
def test_rows_with_a_large_power_of_two_stride_are_padded(columns: int, strides: Any) -> None:
    assert rows_of(program(columns))["c"] == strides


@pytest.mark.parametrize("use", ["view", "address"])
def test_a_tile_of_which_more_than_elements_is_used_is_one_piece(use: str) -> None:
    assert rows_of(program(256, use))["c"] is None


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize("use", ["", "view"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_results_are_those_of_numpy_and_of_the_interpreter(use: str, dtype: str) -> None:
    draw = np.random.default_rng(0)
    A, B = (draw.integers(-4, 5, shape).astype(dtype) for shape in ((20, 32), (32, 512)))
    want = A.astype("float32") @ B.astype("float32") + 1
    total = want.sum(1)
    want = want * 2 if use == "view" else np.maximum(want, total[:, None])
    for backend in ("auto", "interpret"):
        C, R = np.zeros((20, 512), "float32"), np.zeros(20, "float32")
        run = tilelang.compile(program(512, use, dtype), target="cpu", execution_backend=backend)
        run(A, B, C, R)
        np.testing.assert_array_equal(R, total)
        np.testing.assert_array_equal(C, want)
