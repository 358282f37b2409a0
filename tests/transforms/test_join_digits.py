"""Programs that count the elements of a tensor by one number: what they compute, and how wide
their accesses are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import holds
from ptx_counts import global_counts

import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc

ROWS, WIDTH = 7, 331  # rows end anywhere in a vector
m, n, p = T.dynamic("m"), T.dynamic("n"), T.dynamic("p")
long_m, long_n = T.dynamic("lm", "int64"), T.dynamic("ln", "int64")


def numbers(*shape: int, dtype: str = "float32") -> Any:
    values = np.arange(np.prod(shape), dtype=np.int64)
    return ((values * 7) % 61 - 30).reshape(shape).astype(dtype)


@T.prim_func
def rows_of_a_constant(
    X: T.Tensor((ROWS, WIDTH), "float32"), Y: T.Tensor((ROWS, WIDTH), "float32")
):
    with T.Kernel(T.ceildiv(ROWS * WIDTH, 512), threads=128) as bx:
        for i in T.Parallel(512):
            at = bx * 512 + i
            if at < ROWS * WIDTH:
                Y[at // WIDTH, at % WIDTH] = X[at // WIDTH, at % WIDTH] * 2.0


@T.prim_func
def rows_of_a_symbol(X: T.Tensor((m, n), "float16"), Y: T.Tensor((m, n), "float16")):
    with T.Kernel(T.ceildiv(m * n, 1024), threads=128) as bx:
        for i in T.Parallel(1024):
            at = bx * 1024 + i
            if at < m * n:
                Y[at // n, at % n] = X[at // n, at % n] + X[at // n, at % n]


@T.prim_func
def sizes_of_64_bits(
    X: T.Tensor((long_m, long_n), "float32"), Y: T.Tensor((long_m, long_n), "float32")
):
    with T.Kernel(T.ceildiv(long_m * long_n, 512), threads=128) as bx:
        for i in T.Parallel(512):
            at = T.cast(bx, "int64") * 512 + i
            Y[at // long_n, at % long_n] = X[at // long_n, at % long_n] - 1.0


@T.prim_func
def lanes_of_a_thread(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
    with T.Kernel(T.ceildiv(m * n, 512), threads=128) as bx:
        t = T.get_thread_binding()
        for v in T.vectorized(4):
            at = (bx * 128 + t) * 4 + v
            row = at // n
            column = at % n
            Y[row, column] = T.if_then_else(at < m * n, X[row, column], 0.0) + 1.0


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
def a_tensor_updated(Y: T.Tensor((m, n), "float32")):
    with T.Kernel(T.ceildiv(m * n, 512), threads=128) as bx:
        for i in T.Parallel(512):
            at = bx * 512 + i
            if at < m * n:
                Y[at // n, at % n] += 5.0


@T.prim_func
def a_bias_of_rows(
    X: T.Tensor((m, n), "float32"), B: T.Tensor((n,), "float32"), Y: T.Tensor((m, n), "float32")
):
    with T.Kernel(T.ceildiv(m * n, 512), threads=128) as bx:
        for i in T.Parallel(512):
            at = bx * 512 + i
            Y[at // n, at % n] = X[at // n, at % n] + B[at % n]


@T.prim_func
def slots_of_pages(
    slots: T.Tensor((24,), "int32"), X: T.Tensor((p, 16, 64), "float32"),
    Y: T.Tensor((24, 64), "float32"),
):  # fmt: skip
    with T.Kernel(24, threads=64) as bx:
        for d in T.Parallel(64):
            Y[bx, d] = X[slots[bx] // 16, slots[bx] % 16, d]


@T.prim_func
def sums_of_all_threads(X: T.Tensor((m, n), "float32"), Y: T.Tensor((m, n), "float32")):
    with T.Kernel(T.ceildiv(m * n, 512), threads=128) as bx:
        for i in T.Parallel(512):
            at = bx * 512 + i
            if at < m * n:
                T.atomic_add(Y[at // n, at % n], X[at // n, at % n])


def _rows(change: Any, dtype: str = "float32") -> tuple[Any, Any, Any]:
    x = numbers(ROWS, WIDTH, dtype=dtype)
    return x, np.zeros_like(x), change(x)


SLOTS = np.array([0, 15, 16, 47, 48, 90, -1, -17, *range(5, 21)], "int32")
PAGES = numbers(3, 16, 64)
TAKEN = np.where(((SLOTS >= 0) & (SLOTS < 48))[:, None], PAGES.reshape(48, 64)[SLOTS % 48], 0)
CUBE, BIAS = numbers(3, 5, 67), numbers(WIDTH)

# program -> its arguments, the last result
CASES = {
    rows_of_a_constant: _rows(lambda x: x * 2),
    rows_of_a_symbol: _rows(lambda x: x * 2, "float16"),
    sizes_of_64_bits: _rows(lambda x: x - 1),
    lanes_of_a_thread: _rows(lambda x: x + 1),
    a_serial_loop: _rows(lambda x: x + 3),
    three_levels: (CUBE, np.zeros_like(CUBE), -CUBE),
    a_tensor_updated: (numbers(ROWS, WIDTH), numbers(ROWS, WIDTH) + 5),
    a_bias_of_rows: (numbers(ROWS, WIDTH), BIAS, np.zeros((ROWS, WIDTH), "float32"),
                     numbers(ROWS, WIDTH) + BIAS),
    slots_of_pages: (SLOTS, PAGES, np.zeros((24, 64), "float32"), TAKEN),
    sums_of_all_threads: (numbers(ROWS, WIDTH), numbers(ROWS, WIDTH), numbers(ROWS, WIDTH) * 2),
}  # fmt: skip


@pytest.mark.parametrize("func", CASES, ids=lambda func: func.name)
def test_it_computes_what_numpy_does(func: Any) -> None:
    *given, wanted = CASES[func]
    holds(func, tuple(given), wanted)


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
def test_the_accesses_are_wide(golden: Any) -> None:
    golden("join_digits.txt", "\n".join(f"{f.name}: {global_counts(f)}" for f in CASES))
