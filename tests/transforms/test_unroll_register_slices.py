"""Short loops over slices of fragments are written out, and guards of parallel loops are extents."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import SM_90
from script_text import body_of
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.transforms.normalize.loops import unroll_register_slices
from tilelang.transforms.normalize.simplify import simplify_func


def halves(*, steps: int = 2, guarded: bool = False, copied: bool = False) -> Any:
    """A product whose result leaves in slices of rows through a smaller shared tile."""
    rows = 32 // steps

    @T.prim_func
    def kernel(A: F16[32, 64], B: F16[64, 64], C: F32[32, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((32, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((32, 64), "float32")
            part = T.alloc_shared((rows, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            for k in range(steps):
                if copied:
                    T.copy(c[k * rows : (k + 1) * rows, :], part)
                elif guarded:
                    for i, j in T.Parallel(32, 64):
                        if i < rows:
                            part[i, j] = c[i + k * rows, j] * 2.0
                else:
                    for i, j in T.Parallel(rows, 64):
                        part[i, j] = c[i + k * rows, j] * 2.0
                T.copy(part, C[k * rows : (k + 1) * rows, :])

    return kernel


@T.prim_func
def named_rows(A: F32[32, 64], C: F32[32, 64]):
    """The shared tile has another name, which only an iteration knows."""
    with T.Kernel(1, threads=128):
        c = T.alloc_fragment((32, 64), "float32")
        part = T.alloc_shared((2, 16, 64), "float32")
        T.copy(A, c)
        for k in range(2):
            flat = T.reshape(part, (32 * 64,))
            for i, j in T.Parallel(16, 64):
                flat[k * 1024 + i * 64 + j] = c[i + k * 16, j] * 2.0
            T.copy(part[k, :, :], C[k * 16 : (k + 1) * 16, :])


def test_a_loop_that_gives_a_tile_another_name_is_not_written_out() -> None:
    func = simplify_func(named_rows, SM_90)
    assert unroll_register_slices(func, SM_90) is func
    made = tilelang.compile(named_rows, target="cuda -arch=sm_80", execution_backend="emulator")
    given = np.arange(32 * 64, dtype=np.float32).reshape(32, 64)
    found = np.zeros_like(given)
    made(given, found)
    np.testing.assert_array_equal(found, 2 * given)


@pytest.mark.parametrize("target", ["cuda -arch=sm_80", "cuda -arch=sm_90a"])
@pytest.mark.parametrize("form", [{}, {"guarded": True}, {"copied": True}, {"steps": 1}])
def test_slices_leave_their_registers_without_an_exchange(
    form: dict[str, Any], target: str
) -> None:
    kernel = tilelang.compile(
        halves(**form), out_idx=[-1], target=target, execution_backend="emulator"
    )
    assert "c_shared" not in kernel.get_kernel_source()
    random = np.random.default_rng(5)
    a = random.integers(-4, 5, (32, 64)).astype(np.float16)
    b = random.integers(-4, 5, (64, 64)).astype(np.float16)
    factor = 1 if form.get("copied") else 2
    np.testing.assert_array_equal(kernel(a, b), factor * (a.astype(np.float32) @ b))


def weighted(kind: str, count: int = 6) -> Any:
    """Rows of X in slices of a fragment, and their sum, which each row adds to."""

    @T.prim_func
    def kernel(X: F16[count, 256], S: F32[256], P: F32[count, 256]):
        with T.Kernel(1, threads=64):
            total = T.alloc_fragment((256,), "float32")
            part = T.alloc_fragment((count, 256), "float32")
            T.clear(total)
            for m in T.unroll(count) if kind == "unroll" else T.serial(count):
                for c in T.Parallel(256):
                    total[c] += T.cast(X[m, c], "float32")
                    part[m, c] = total[c] * T.cast(X[m, c], "float32")
            T.copy(total, S)
            T.copy(part, P)

    return kernel


@pytest.mark.parametrize("kind", ["unroll", "serial"])
def test_a_loop_that_adds_up_is_written_out_where_it_is_to_be_unrolled(kind: str) -> None:
    func = weighted(kind)
    after = body_of(unroll_register_slices(simplify_func(func, SM_90), SM_90))
    assert after.count("T.Parallel(256)") == (6 if kind == "unroll" else 1)
    kernel = tilelang.compile(func, target="cuda -arch=sm_90a", execution_backend="emulator")
    if kind == "unroll":
        assert kernel.get_kernel_source().count("tl_copy_8(X_vec") == 6
    X = np.random.default_rng(0).integers(-4, 5, (6, 256)).astype(np.float16)
    S, P = np.zeros(256, np.float32), np.zeros((6, 256), np.float32)
    kernel(X, S, P)
    sums = np.cumsum(X.astype(np.float32), 0)
    np.testing.assert_array_equal(S, sums[-1])
    np.testing.assert_array_equal(P, sums * X)
