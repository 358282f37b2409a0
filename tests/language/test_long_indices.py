"""Indices of more than 32 bits: large tensors, products that int32 does not hold, names for them.

Large tensors are sparse files, of which a kernel touches a few pages.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import EVERYWHERE, OPTIONS
from tensor_types import BF16, F32, I32, I64, U8

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir.stmt import PrimFunc

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

FAR = 2**30
LONG = 2**32 + 64


@pytest.fixture(params=EVERYWHERE)
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    def call(func: PrimFunc, *args: Any) -> None:
        tilelang.compile(func, **OPTIONS[request.param])(*args)

    return call


def sparse(shape: tuple[int, ...], dtype: str) -> np.memmap:
    """Zeros that take no memory until they are touched."""
    with tempfile.TemporaryFile() as file:
        count = int(np.prod(shape, dtype=np.int64))
        os.ftruncate(file.fileno(), count * np.dtype(dtype).itemsize)
        return np.memmap(file, dtype=dtype, mode="r+", shape=shape)


@pytest.mark.parametrize("extent", ["constant", "int64"])
def test_a_tensor_of_more_than_four_gibibytes_is_filled_far_out(
    run: Callable[..., None], extent: str
) -> None:
    n = LONG if extent == "constant" else T.dynamic("n", "int64")

    @T.prim_func
    def fill(X: U8[n]):
        with T.Kernel(5, threads=32) as bx:
            for i in T.Parallel(64):
                X[bx * FAR + i] = bx + 1

    x = sparse((LONG,), "uint8")
    run(fill, x)
    for b in range(5):
        assert (x[b * FAR : b * FAR + 64] == b + 1).all()
        assert b == 4 or x[b * FAR + 64] == 0


def test_rows_of_two_int32_sizes_have_offsets_above_2_31(run: Callable[..., None]) -> None:
    n, m = T.dynamic("n, m")

    @T.prim_func
    def rows(X: U8[n, m]):
        with T.Kernel(T.ceildiv(n, 32768), threads=32) as bx:
            s = T.alloc_shared((1, 64), "uint8")
            T.fill(s, bx + 1)
            T.copy(s, X[bx * 32768, 32:96])

    x = sparse((65547, 65537), "uint8")
    run(rows, x)
    for b in range(3):
        assert (x[b * 32768, 32:96] == b + 1).all()
        assert x[b * 32768, 31] == x[b * 32768, 96] == 0


def test_pipelined_tiles_at_offsets_above_2_31(run: Callable[..., None]) -> None:
    @T.prim_func
    def tiles(X: U8[LONG], Y: U8[4, 2, 1024]):
        with T.Kernel(4, threads=32) as bx:
            s = T.alloc_shared((1024,), "uint8")
            for k in T.Pipelined(2, num_stages=2):
                T.copy(X[bx * FAR + k * 64], s)
                T.copy(s, Y[bx, k, :])

    x = sparse((LONG,), "uint8")
    y, want = np.zeros((4, 2, 1024), np.uint8), np.zeros((4, 2, 1024), np.uint8)
    for b in range(4):
        x[b * FAR : b * FAR + 2048] = np.arange(2048) % 251 + b
        for k in range(2):
            want[b, k] = x[b * FAR + k * 64 : b * FAR + k * 64 + 1024]
    run(tiles, x, y)
    assert np.array_equal(y, want)


def test_loaded_values_address_a_long_dimension_through_names(run: Callable[..., None]) -> None:
    n = T.dynamic("n", "int64")

    @T.prim_func
    def gather(I: I32[4], X: U8[n], Y: U8[4, 64], C: I32[n]):
        with T.Kernel(4, threads=32) as bx:
            page = I[bx]
            base = page * FAR
            for i in T.Parallel(64):
                Y[bx, i] = X[base + i] + X[I[bx] * FAR + i]
            if T.get_thread_binding() == 0:
                T.atomic_add(C[base], 1)

    x, c = sparse((LONG,), "uint8"), sparse((LONG,), "int32")
    for b in range(4):
        x[b * FAR : b * FAR + 64] = np.arange(64) + b
    pages, y = np.array([3, 1, 2, 0], np.int32), np.zeros((4, 64), np.uint8)
    run(gather, pages, x, y, c)
    assert np.array_equal(y, (2 * (np.arange(64) + pages[:, None])).astype(np.uint8))
    assert [c[b * FAR] for b in range(4)] == [1, 1, 1, 1]


def test_index_arithmetic_is_exact_and_a_value_wraps(run: Callable[..., None]) -> None:
    @T.prim_func
    def steps(A: F32[64], B: F32[64], C: F32[64], D: I64[64], E: I32[64]):
        with T.Kernel(64, threads=32) as bx:
            B[bx] = A[bx * 65536 * 65536 // 65536 // 65536]
            far = bx * 65536 * 65536
            if bx * 65536 * 65536 >= 5 * 65536:
                C[bx] = A[far // 65536 // 65536]
            D[bx] = T.int64(bx * 65536 * 65536)
            E[bx] = bx * 65536 * 65537

    a, numbers = np.arange(64, dtype=np.float32), np.arange(64, dtype=np.int64)
    b, c, d, e = np.zeros_like(a), np.zeros_like(a), 0 * numbers, np.zeros(64, np.int32)
    run(steps, a, b, c, d, e)
    assert np.array_equal(b, a) and np.array_equal(c, a)
    assert np.array_equal(d, numbers * 2**32)
    assert np.array_equal(e, (numbers * 65536 * 65537).astype(np.int32))


def test_kernels_without_long_dimensions_stay_in_32_bits() -> None:
    @T.prim_func
    def add(A: BF16[65536, 16384], B: BF16[65536, 16384]):
        with T.Kernel(32, 65536 // 4, threads=128) as (bx, by):
            for i, j in T.Parallel(4, 512):
                B[by * 4 + i, bx * 512 + j] = A[by * 4 + i, bx * 512 + j] + 1

    text = tilelang.compile(add, target="cuda -arch=sm_80").get_kernel_source()
    assert "int64_t" not in text


def test_block_offsets_are_computed_in_64_bits() -> None:
    n = T.dynamic("n", "int64")

    @T.prim_func
    def fill(X: BF16[n]):
        with T.Kernel(T.ceildiv(n, 512), threads=128) as bx:
            for i in T.Parallel(512):
                X[bx * 512 + i] = 1.0

    text = tilelang.compile(fill, target="cuda -arch=sm_80").get_kernel_source()
    assert "const int64_t at = (int64_t)bx * 512 + tx * 4;" in text
    assert "if (at + v_1 < n) {" in text  # of the vector that the border splits


@pytest.mark.parametrize("steps", [3, 40])
def test_index_arithmetic_that_leaves_64_bits_wraps_there(
    run: Callable[..., None], steps: int
) -> None:
    @T.prim_func
    def hashed(A: I32[100], X: I32[32], Y: I32[32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            v = t
            for _ in [0] * steps:
                v = v * 1103515245 + 12345
            X[t] = A[v % 100]
            Y[t] = A[((t * 1103515245 + 12345) * 1103515245 + 12345) * 1103515245 // 7 % 100]

    def wrapped(value: int) -> int:
        return (value + 2**63) % 2**64 - 2**63

    a, x, y = np.arange(100, dtype=np.int32), np.zeros(32, np.int32), np.zeros(32, np.int32)
    run(hashed, a, x, y)
    for t in range(32):
        v = t
        for _ in range(steps):
            v = wrapped(v * 1103515245 + 12345)
        assert x[t] == v % 100
        w = wrapped(((t * 1103515245 + 12345) * 1103515245 + 12345) * 1103515245)
        assert y[t] == w // 7 % 100
