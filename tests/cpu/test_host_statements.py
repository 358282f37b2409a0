"""Programs that compute outside of ``T.Kernel``, where cores run the host code as well."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError

from .modes import CORES, holds

NUMBERS = np.arange(64, dtype=np.float32)


def test_a_parallel_loop_without_a_kernel() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        for i in T.Parallel(64):
            B[i] = A[i] * 2

    holds(kernel, [NUMBERS, 0 * NUMBERS], [NUMBERS * 2], CORES)


def test_loops_values_variables_and_tiles_without_a_kernel() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        total = T.alloc_var("float32")
        tile = T.alloc_shared((64,), "float32")
        T.copy(A, tile)
        for i in T.serial(64):
            if i % 3 == 0:
                total = total + tile[i]
        half = total / 2
        n = T.alloc_var("int32", 5)
        while n > 0:
            n = n - 1
            tile[n] = half + n
        T.copy(tile, B)

    wanted = NUMBERS.copy()
    wanted[:5] = NUMBERS[::3].sum() / 2 + NUMBERS[:5]
    holds(kernel, [NUMBERS, 0 * NUMBERS], [wanted], CORES)


def test_statements_before_between_and_after_kernels() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), n: T.int32):
        m = n * 2
        work = T.alloc_global((64,), "float32")
        for i in T.serial(64):
            work[i] = A[i] + m
        with T.Kernel(2, threads=32) as b:
            tx = T.get_thread_binding()
            B[b * 32 + tx] = work[63 - b * 32 - tx]
        B[0] = B[0] * m
        first = B[1]
        with T.Kernel(1, threads=32):
            B[2] = first + B[3]
        T.fill(B[60:64], 1.0)

    def run(args: list[np.ndarray]) -> np.ndarray:
        work = args[0] + 6
        out = work[::-1].copy()
        out[0] *= 6
        out[2] = out[1] + out[3]
        out[60:] = 1
        return out

    for mode in CORES:
        given = [NUMBERS.copy(), 0 * NUMBERS]
        options = {"execution_backend": "interpret"} if mode == "interpret" else {}
        tilelang.compile(kernel, target="cpu", **options)(*given, 3)  # type: ignore[call-overload]  # options by name
        np.testing.assert_array_equal(given[1], run([NUMBERS]), err_msg=mode)


def test_loops_around_kernels_and_statements() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        for k in range(3):
            B[k] = A[k] + 1
            with T.Kernel(64, threads=1) as b:
                B[b] = B[b] + k
            if k == 1:
                B[63] = B[63] * 2

    out = 0 * NUMBERS
    for k in range(3):
        out[k] = NUMBERS[k] + 1
        out += k
        if k == 1:
            out[63] *= 2
    holds(kernel, [NUMBERS, 0 * NUMBERS], [out], CORES)


@pytest.mark.parametrize("target", ["cpu", "cuda -arch=sm_80", "hip -mcpu=gfx942", "metal"])
@pytest.mark.parametrize("memory", ["shared.dyn", "local.fragment", "local"])
def test_kernels_allocate_their_own_memory(memory: str, target: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        tile = T.alloc_buffer((64,), "float32", scope=memory)
        with T.Kernel(1, threads=32):
            T.copy(tile, A)

    for made in (tilelang.lower, partial(tilelang.compile, execution_backend="interpret")):
        with pytest.raises(TileUnsupportedError) as caught:
            made(kernel, target=target)
        assert str(caught.value).split("\n -->")[0] == (
            "`tile` is allocated outside of the kernels that use it\n"
            "  expected: memory that lives as long as one kernel, or T.alloc_global\n"
            f"  got: {memory} memory made before and used in a later kernel\n"
            "  hint: allocate it in the `with T.Kernel(...)` that uses it"
        )
