"""Programs whose accesses are wide if the compiler knows what they say about their indices.

Each is written in another way: with names or without, by `if` or by a choice, with macros, dynamic
sizes, 64 bits, loops of one dimension or two. ``PROGRAMS`` has for each a function that gives the
program, its arguments and its last array's values in plain numpy, and the most loads and stores of
global memory that its PTX for sm_90a may have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

import tilelang.language as T

PROGRAMS: dict[str, tuple[Callable[[], tuple[Any, ...]], int, int]] = {}
Case = tuple[Any, tuple[Any, ...], Any]
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


def program(loads: int, stores: int) -> Any:
    def add(make: Callable[[], Case]) -> Callable[[], Case]:
        PROGRAMS[make.__name__] = (make, loads, stores)
        return make

    return add


def numbers(
    shape: Any, dtype: Any = np.float32, seed: int = 0, low: int = -8, high: int = 8
) -> Any:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


# -- facts ----------------------------------------------------------------------------------------
@program(2, 2)
def names_of_starts_under_a_choice() -> Case:
    @T.prim_func
    def f(A: T.Tensor((64, 256), "bfloat16"), B: T.Tensor((64, 256), "bfloat16")):
        with T.Kernel(4, 4, threads=64) as (bx, by):
            m0 = by * 16
            n0 = bx * 64
            for i, j in T.Parallel(16, 64):
                row = m0 + i
                column = n0 + j
                inside = (row < 64) & (column < 256)
                B[row, column] = T.if_then_else(inside, A[row, column], T.cast(0, "bfloat16"))

    a = numbers((64, 256), BF16)
    return f, (a, np.zeros_like(a)), a


@program(1, 1)
def a_flat_index_of_chained_names_under_if() -> Case:
    @T.prim_func
    def f(A: T.Tensor((64 * 96,), "float32"), B: T.Tensor((64 * 96,), "float32")):
        with T.Kernel(3, 16, threads=32) as (bx, by):
            start = by * 4
            for i, j in T.Parallel(4, 32):
                row = start + i
                at = row * 96 + bx * 32 + j
                if row < 64 and not (at >= 64 * 96):
                    B[at] = A[at] + 1.0

    a = numbers(64 * 96)
    return f, (a, np.zeros_like(a)), a + 1


@program(1, 1)
def quotients_of_one_loop() -> Case:
    @T.prim_func
    def f(A: T.Tensor((8, 6, 64), "float16"), B: T.Tensor((8, 6, 64), "float16")):
        with T.Kernel(6, threads=64) as b:
            for t in T.Parallel(512):
                at = b * 512 + t
                d = at % 64
                h = at // 64 % 6
                n = at // 384
                if n < 8:
                    B[n, h, d] = A[n, h, d]

    a = numbers((8, 6, 64), np.float16)
    return f, (a, np.zeros_like(a)), a


@program(1, 1)
def shifts_and_masks_of_one_loop() -> Case:
    @T.prim_func
    def f(A: T.Tensor((48, 64), "float16"), B: T.Tensor((48, 64), "float16")):
        with T.Kernel(6, threads=64) as b:
            for t in T.Parallel(512):
                at = b * 512 + t
                j = (at & 63) | 0
                i = (at >> 6) + (at & 1) * (b & 0)
                B[i, j] = A[i, j]

    a = numbers((48, 64), np.float16)
    return f, (a, np.zeros_like(a)), a


@program(2, 2)
def starts_of_a_macro() -> Case:
    @T.macro
    def start(block: Any, size: Any) -> Any:
        return block * size

    @T.prim_func
    def f(A: T.Tensor((64, 128), "bfloat16"), B: T.Tensor((64, 128), "bfloat16")):
        with T.Kernel(4, threads=128) as b:
            m0 = start(b, 16)
            for i, j in T.Parallel(16, 128):
                B[m0 + i, j] = T.if_then_else(m0 + i < 64, A[m0 + i, j], T.cast(1, "bfloat16"))

    a = numbers((64, 128), BF16)
    return f, (a, np.zeros_like(a)), a


@program(1, 1)
def names_of_64_bits() -> Case:
    @T.prim_func
    def f(A: T.Tensor((64, 64), "int32"), B: T.Tensor((64, 64), "int32")):
        with T.Kernel(16, threads=64) as b:
            m0 = T.cast(b, "int64") * 4
            for i, j in T.Parallel(4, 64):
                if (m0 + i >= 0) & (m0 + i < 64):
                    B[m0 + i, j] = A[m0 + i, j] * 2

    a = numbers((64, 64), np.int32)
    return f, (a, np.zeros_like(a)), a * 2


@program(4, 4)
def a_size_that_is_assumed_to_be_a_multiple() -> Case:
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        T.assume(n % 4 == 0)
        with T.Kernel(T.ceildiv(n, 256), threads=64) as b:
            for i in T.Parallel(256):
                if b * 256 + i < n:
                    B[b * 256 + i] = A[b * 256 + i]

    a = numbers(1004)
    return f, (a, np.zeros_like(a)), a


@program(1, 1)
def rows_that_are_clamped() -> Case:
    @T.prim_func
    def f(A: T.Tensor((40, 64), "float32"), B: T.Tensor((48, 64), "float32")):
        with T.Kernel(12, threads=64) as b:
            for i, j in T.Parallel(4, 64):
                row = T.max(T.min(b * 4 + i, 39), 0)
                B[b * 4 + i, j] = A[row, j]

    a = numbers((40, 64))
    return f, (a, np.zeros((48, 64), np.float32)), a[np.minimum(np.arange(48), 39)]


@program(1, 1)
def one_block_and_one_round() -> Case:
    @T.prim_func
    def f(A: T.Tensor((4, 128), "float32"), B: T.Tensor((4, 128), "float32")):
        with T.Kernel(1, 1, threads=128) as (bx, by):
            for k in T.serial(T.ceildiv(128, 1024)):
                for i, j in T.Parallel(4, 128):
                    at = bx * 128 + j + k
                    if at < 128 or i < 0:
                        B[by * 4 + i, at] = A[by * 4 + i, at]

    a = numbers((4, 128))
    return f, (a, np.zeros_like(a)), a


# -- guards of vectors ----------------------------------------------------------------------------
@program(1, 1)
def edges_that_eight_lanes_agree_on() -> Case:
    @T.prim_func
    def f(A: T.Tensor((20, 104), "bfloat16"), B: T.Tensor((32, 128), "bfloat16")):
        with T.Kernel(2, 4, threads=64) as (bx, by):
            m0, n0 = by * 8, bx * 64
            for i, j in T.Parallel(8, 64):
                inside = (m0 + i < 20) & (n0 + j < 104)
                B[m0 + i, n0 + j] = T.if_then_else(inside, A[m0 + i, n0 + j], T.cast(0, "bfloat16"))

    a = numbers((20, 104), BF16)
    b = np.zeros((32, 128), BF16)
    b[:20, :104] = a
    return f, (a, np.ones_like(b)), b


@program(1, 1)
def bytes_of_sixteen_at_an_edge() -> Case:
    @T.prim_func
    def f(A: T.Tensor((16, 48), "float8_e4m3fn"), B: T.Tensor((16, 64), "float8_e4m3fn")):
        with T.Kernel(2, threads=32) as b:
            for i, j in T.Parallel(8, 64):
                zero = T.cast(0, "float8_e4m3fn")
                B[b * 8 + i, j] = T.if_then_else(j < 48, A[b * 8 + i, j], zero)

    a = numbers((16, 48), E4M3)
    b = np.zeros((16, 64), E4M3)
    b[:, :48] = a
    return f, (a, np.ones_like(b)), b


@program(4, 4)
def a_tail_of_a_dynamic_length() -> Case:
    n = T.dynamic("n")

    @T.prim_func
    def f(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256), threads=64) as b:
            for i in T.Parallel(256):
                if b * 256 + i < n:
                    B[b * 256 + i] = A[b * 256 + i] * 2.0

    a = numbers(1001)
    return f, (a, np.zeros_like(a)), a * 2


@program(9, 1)
def a_length_that_is_loaded() -> Case:
    @T.prim_func
    def f(
        A: T.Tensor((16, 256), "float16"),
        L: T.Tensor((16,), "int32"),
        B: T.Tensor((16, 256), "float16"),
    ):
        with T.Kernel(16, threads=32) as b:
            n = L[b]
            for j in T.Parallel(256):
                B[b, j] = T.if_then_else(j < n, A[b, j], T.cast(-1, "float16"))

    a, n = numbers((16, 256), np.float16), np.random.default_rng(1).integers(0, 260, 16, np.int32)
    wanted = np.where(np.arange(256) < n[:, None], a, np.float16(-1))
    return f, (a, n, np.zeros_like(a)), wanted


@program(2, 1)
def rows_by_number_under_if() -> Case:
    @T.prim_func
    def f(
        A: T.Tensor((50, 64), "bfloat16"),
        I: T.Tensor((32,), "int32"),
        B: T.Tensor((32, 64), "bfloat16"),
    ):
        with T.Kernel(8, threads=32) as b:
            for i, j in T.Parallel(4, 64):
                row = I[b * 4 + i]
                if row >= 0 and row < 50:
                    B[b * 4 + i, j] = A[row, j]

    a = numbers((50, 64), BF16)
    i = np.random.default_rng(2).integers(-10, 50, 32, np.int32)
    return f, (a, i, np.zeros((32, 64), BF16)), np.where((i >= 0)[:, None], a[i], BF16(0))


@program(2, 1)
def rows_by_numbers_of_64_bits() -> Case:
    @T.prim_func
    def f(
        A: T.Tensor((50, 32), "float32"),
        I: T.Tensor((32,), "int64"),
        B: T.Tensor((32, 32), "float32"),
    ):
        with T.Kernel(8, threads=32) as b:
            for t in T.Parallel(128):
                row = I[b * 4 + t // 32]
                known = (row >= 0) & (row < 50)
                B[b * 4 + t // 32, t % 32] = T.if_then_else(known, A[row, t % 32], 0.0)

    a = numbers((50, 32))
    i = np.random.default_rng(3).integers(0, 60, 32, np.int64)
    wanted = np.where((i < 50)[:, None], a[np.minimum(i, 49)], np.float32(0))
    return f, (a, i, np.zeros((32, 32), np.float32)), wanted


@program(9, 8)
def rows_through_a_page_table() -> Case:
    @T.prim_func
    def f(
        A: T.Tensor((64, 64), "float16"), P: T.Tensor((4, 4), "int32"), L: T.Tensor((4,), "int32"),
        B: T.Tensor((4, 32, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=64) as b:
            n = L[b]
            for t in T.serial(4):
                for i, d in T.Parallel(8, 64):
                    at = t * 8 + i
                    safe = T.if_then_else(at < n, at, 0)
                    row = P[b, safe // 8] * 8 + safe % 8
                    if at < n:
                        B[b, at, d] = A[row, d]
                    else:
                        B[b, at, d] = T.cast(0, "float16")

    a = numbers((64, 64), np.float16)
    p = np.random.default_rng(4).integers(0, 8, (4, 4), np.int32)
    n = np.array([32, 1, 17, 9], np.int32)
    at = np.arange(32)
    rows = p[:, at // 8] * 8 + at % 8
    wanted = np.where((at < n[:, None])[..., None], a[rows], np.float16(0))
    return f, (a, p, n, np.zeros((4, 32, 64), np.float16)), wanted


@program(2, 1)
def rows_by_number_without_a_test() -> Case:
    @T.prim_func
    def f(
        A: T.Tensor((50, 128), "float8_e4m3fn"),
        I: T.Tensor((16,), "int32"),
        B: T.Tensor((16, 128), "float8_e4m3fn"),
    ):
        with T.Kernel(4, threads=32) as b:
            for i, j in T.Parallel(4, 128):
                B[b * 4 + i, j] = A[I[b * 4 + i], j]

    a = numbers((50, 128), E4M3)
    i = np.random.default_rng(5).integers(0, 50, 16, np.int32)
    return f, (a, i, np.zeros((16, 128), E4M3)), a[i]


@program(5, 1)
def four_lanes_of_a_sum_at_an_edge() -> Case:
    @T.prim_func
    def f(
        A: T.Tensor((16, 100), "float32"),
        B: T.Tensor((16, 128), "float32"),
        C: T.Tensor((16, 128), "float32"),
    ):
        with T.Kernel(16, threads=32) as b:
            for j in T.Parallel(128):
                C[b, j] = T.if_then_else(j < 100, A[b, j], -1.0) + B[b, j]

    a, b = numbers((16, 100)), numbers((16, 128), seed=1)
    padded = np.full((16, 128), -1, np.float32)
    padded[:, :100] = a
    return f, (a, b, np.zeros_like(b)), padded + b
