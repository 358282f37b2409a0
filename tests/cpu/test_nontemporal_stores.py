"""Results that fill the caches are stored past them, if nothing reads them again."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.compiler import compile as compile_text
from tilelang.cpu.toolchain import find_compiler
from tilelang.target import parse_target


def sums(M: Any, N: Any, dtype: str = "float32", block: int = 256, again: bool = False) -> Any:
    """C = A + B; ``again``: C is read in the same launch."""

    @T.prim_func
    def add(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, 4), threads=32) as (bx, by):
            for i, j in T.Parallel(4, block):
                C[by * 4 + i, bx * block + j] = A[by * 4 + i, bx * block + j] + B[by * 4 + i, bx * block + j]  # fmt: skip
            if again:
                for i, j in T.Parallel(4, block):
                    C[by * 4 + i, bx * block + j] = C[by * 4 + i, bx * block + j] * 2

    return add


def text(func: Any) -> str:
    source: str = compile_text(func, parse_target("cpu")).source
    return source


def test_large_results_are_stored_past_the_caches_and_fenced() -> None:
    printed = text(sums(2048, 2048))
    assert printed.count("TL_STREAM(tl_w_f32, C + ") == 1
    assert "TL_STORE(" not in printed
    assert printed.count("    if (!args->tl_ordinary) TL_PAST_FENCE();\n}") == 1
    assert "tl_fits(50331648.0)" in printed


def test_the_call_decides_where_shapes_are_dynamic() -> None:
    printed = text(sums(T.dynamic("m"), T.dynamic("n")))
    assert "TL_STREAM(tl_w_f32, C + " in printed
    assert "tl_fits(0.0 + 4 * (double)((int64_t)m) * (double)((int64_t)n) + " in printed


@pytest.mark.parametrize(
    "func",
    [sums(64, 256), sums(1 << 18, 40, block=40), sums(2048, 2048, again=True)],
    ids=["small", "short rows", "read again"],
)
def test_other_results_are_stored_as_ever(func: Any) -> None:
    printed = text(func)
    assert "TL_STREAM" not in printed
    assert "tl_ordinary" not in printed


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.share(3)
@pytest.mark.parametrize("arch", ["", " -arch=x86-64-v3", " -arch=x86-64-v2"])
@pytest.mark.parametrize(("dtype", "shift"), [("float32", 0), ("float32", 1), ("int8", 0)])
def test_results_are_right_at_any_address(dtype: str, shift: int, arch: str) -> None:
    if arch and platform.machine() != "x86_64":
        pytest.skip("needs x86-64")
    M, N = (1 << 23) // np.dtype(dtype).itemsize // 1003, 1003  # more than common caches hold
    arrays = [np.full(M * N * 3 + 128, 7, dtype) for _ in range(3)]
    a, b, c = (array[shift : shift + M * N * 3].reshape(3 * M, N) for array in arrays)
    rng = np.random.default_rng(0)
    a[...], b[...] = rng.integers(-50, 50, a.shape), rng.integers(-50, 50, b.shape)
    func = sums(T.dynamic("m"), T.dynamic("n"), dtype)
    tilelang.compile(func, target=f"cpu{arch}")(a, b, c)
    np.testing.assert_array_equal(c, a + b)
    assert (arrays[2][:shift] == 7).all() and (arrays[2][shift + c.size :] == 7).all()
