"""Programs that count the elements of a tensor by one number: what they compute, and how wide
their accesses are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import agrees
from ptx_counts import global_counts
from tensor_types import F32, I32

import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc

ROWS, WIDTH = 7, 331  # rows end anywhere in a vector
m, n, p = T.dynamic("m"), T.dynamic("n"), T.dynamic("p")
long_m, long_n = T.dynamic("lm", "int64"), T.dynamic("ln", "int64")


@T.prim_func
def rows_of_a_symbol(X: T.Tensor((m, n), "float16"), Y: T.Tensor((m, n), "float16")):
    with T.Kernel(T.ceildiv(m * n, 1024), threads=128) as bx:
        for i in T.Parallel(1024):
            at = bx * 1024 + i
            if at < m * n:
                Y[at // n, at % n] = X[at // n, at % n] + X[at // n, at % n]


@T.prim_func
def sizes_of_64_bits(X: F32[long_m, long_n], Y: F32[long_m, long_n]):
    with T.Kernel(T.ceildiv(long_m * long_n, 512), threads=128) as bx:
        for i in T.Parallel(512):
            at = T.cast(bx, "int64") * 512 + i
            Y[at // long_n, at % long_n] = X[at // long_n, at % long_n] - 1.0


@T.prim_func
def a_serial_loop(X: T.Tensor((ROWS, WIDTH), "float32"), Y: T.Tensor((ROWS, WIDTH), "float32")):
    with T.Kernel(3, threads=256) as bx:
        t = T.get_thread_binding()
        for k in T.serial(4):
            at = bx * 1024 + t * 4 + k
            if at < ROWS * WIDTH:
                Y[at // WIDTH, at % WIDTH] = X[at // WIDTH, at % WIDTH] + 3.0


@T.prim_func
def three_levels(X: T.Tensor((p, m, n), "float32"), Y: T.Tensor((p, m, n), "float32")):
    with T.Kernel(T.ceildiv(p * m * n, 512), threads=128) as bx:
        for i in T.Parallel(512):
            at = bx * 512 + i
            if at < p * m * n:
                Y[at // (m * n), at // n % m, at % n] = -X[at // (m * n), at % (m * n) // n, at % n]


@T.prim_func
def slots_of_pages(slots: I32[24], X: F32[p, 16, 64], Y: F32[24, 64]):
    with T.Kernel(24, threads=64) as bx:
        for d in T.Parallel(64):
            Y[bx, d] = X[slots[bx] // 16, slots[bx] % 16, d]


def numbers(*shape: int, dtype: str = "float32") -> Any:
    values = np.arange(np.prod(shape), dtype=np.int64)
    return ((values * 7) % 61 - 30).reshape(shape).astype(dtype)


X, CUBE = numbers(ROWS, WIDTH), numbers(3, 5, 67)
SLOTS = np.array([0, 15, 16, 47, 48, 90, -1, -17, *range(5, 21)], "int32")
CASES = {
    rows_of_a_symbol: (X.astype("float16"), np.zeros_like(X, "float16")),
    sizes_of_64_bits: (X, np.zeros_like(X)),
    a_serial_loop: (X, np.zeros_like(X)),
    three_levels: (CUBE, np.zeros_like(CUBE)),
    slots_of_pages: (SLOTS, numbers(3, 16, 64), np.zeros((24, 64), "float32")),
}


@pytest.mark.parametrize("func", CASES, ids=lambda func: func.name)
def test_it_computes_what_the_interpreter_does(func: Any) -> None:
    agrees(func, CASES[func])


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
def test_the_accesses_are_wide(golden: Any) -> None:
    golden("join_digits.txt", "\n".join(f"{f.name}: {global_counts(f)}" for f in CASES))
