"""Negative indices of elements: known ones count from the end, others are outside at run time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import CPU, INTERPRETER, OPTIONS, SM_90A
from tensor_types import F16, F32, I32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir.stmt import PrimFunc

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

F = np.float32


@pytest.fixture(params=(INTERPRETER, CPU, SM_90A))
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    def call(func: PrimFunc, *args: Any) -> None:
        tilelang.compile(func, **OPTIONS[request.param])(*args)

    return call


def picked(a: np.ndarray, indices: Any) -> np.ndarray:
    """``a`` at ``indices``, 0 outside: what is negative is."""
    at = np.asarray(indices)
    return np.where((at >= 0) & (at < len(a)), a[np.clip(at, 0, len(a) - 1)], 0).astype(a.dtype)


def numbers(n: int) -> np.ndarray:
    return np.arange(1, n + 1, dtype=F)


def test_loaded_indices_below_zero_are_outside(run: Callable[..., None]) -> None:
    @T.prim_func
    def scattered(I: I32[64], A: F32[64], B: F32[64], C: I32[64]):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                B[I[bx * 32 + i]] = A[I[bx * 32 + i] - 1]
                T.atomic_add(C[I[bx * 32 + i] - 3], 1)

    at = np.random.default_rng(0).permutation(np.arange(-32, 32)).astype(np.int32)
    at[:4] = [-64, -65, 64, 63]
    a, b, c = numbers(64), np.zeros(64, F), np.zeros(64, np.int32)
    want, count = np.zeros(64, F), np.zeros(64, np.int32)
    for i in at:
        if 0 <= i < 64:
            want[i] = picked(a, i - 1)
        if 0 <= i - 3 < 64:
            count[i - 3] += 1
    run(scattered, at, a, b, c)
    assert np.array_equal(b, want)
    assert np.array_equal(c, count)


@pytest.mark.parametrize("kind", ["shared", "local"])
def test_a_ring_on_chip(run: Callable[..., None], kind: str) -> None:
    make = {"shared": T.alloc_shared, "local": T.alloc_local}[kind]

    @T.prim_func
    def rotated(A: F32[8], B: F32[8]):
        with T.Kernel(1, threads=32):
            s = make((8,), "float32")
            for i in T.serial(8):
                s[i - 8] = A[i]
            for i in T.serial(8):
                B[i] = s[(i - 5) % 8]

    a, b = numbers(8), np.zeros(8, F)
    run(rotated, a, b)
    assert np.array_equal(b, a[np.arange(8) - 5])


def test_dynamic_extents_begin_at_zero_for_elements_and_tiles(run: Callable[..., None]) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def mixed(A: F32[n, 8], B: F32[n, 8]):
        with T.Kernel(T.ceildiv(n, 16), threads=32) as bx:
            f = T.alloc_fragment((16, 8), "float32")
            T.copy(A[bx * 16 - 2, 0], f)
            for i, j in T.Parallel(16, 8):
                B[bx * 16 + i, j] = f[i, j] + A[bx * 16 + i - 3, j - 1]

    for size in (45, 16, 3):
        a = np.random.default_rng(size).random((size, 8)).astype(F)
        b = np.zeros_like(a)
        run(mixed, a, b)
        r, c = np.arange(size)[:, None], np.arange(8)
        tile = np.where(r >= 2, a[r - 2, c], 0)
        element = np.where((r >= 3) & (c >= 1), a[np.maximum(r - 3, 0), c - 1], 0)
        assert np.array_equal(b, (tile + element).astype(F))


def test_each_lane_of_a_vector_counts_from_the_end(run: Callable[..., None]) -> None:
    @T.prim_func
    def lanes(A: F32[16], B: F32[4, 4]):
        with T.Kernel(1, threads=1):
            for t in T.serial(4):
                B[t, T.Ramp(0, 1, 4)] = A[T.Ramp(t - 2, 1, 4)]
                A[T.Ramp(t - 3, 4, 2)] = A[T.Ramp(t - 3, 4, 2)]

    a, b = numbers(16), np.zeros((4, 4), F)
    run(lanes, a, b)
    assert np.array_equal(b, a[np.arange(4)[:, None] - 2 + np.arange(4)])


@pytest.mark.parametrize("off", [-5, 14, -18])
def test_so_do_those_of_a_run_time_start(run: Callable[..., None], off: int) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def window(A: F32[n], B: F32[4], off: T.int32):
        with T.Kernel(1, threads=1):
            B[T.Ramp(0, 1, 4)] = A[T.Ramp(off, 1, 4)]

    a, b, at = numbers(16), np.zeros(4, F), off + np.arange(4)
    run(window, a, b, off)
    assert np.array_equal(b, picked(a, np.where(at < 0, at + 16, at)))


def test_constants_count_from_the_end(run: Callable[..., None]) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def constants(A: F32[4], D: F32[n], B: F32[7]):
        with T.Kernel(1, threads=1):
            B[0] = A[-4]
            B[1] = A[-5]
            B[2] = A[-9]
            B[3] = D[-1]
            B[4] = D[-3]
            B[5] = D[-4]
            if n < 4:
                B[6] = D[-4]

    a, d, b = numbers(4), numbers(3), np.full(7, -1, F)
    run(constants, a, d, b)
    assert b.tolist() == [1, 0, 0, 3, 1, 0, 0]


def test_an_index_known_to_be_negative_counts_from_the_end(run: Callable[..., None]) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def known(A: I32[n], P: I32[1], B: I32[5, 4]):
        with T.Kernel(1, threads=32):
            for i in T.serial(4):
                B[0, i] = A[i - 4]
            for i in T.Parallel(4):
                B[1, i] = A[-1 - i]
            for i in T.serial(n):
                if i < 4:
                    B[2, i] = A[i - n]
            for i in T.serial(4):
                if i < 2:
                    B[3, i] = A[i - 2]
                else:
                    B[3, i] = A[i - 2]
            p = P[0]
            if p < 0:
                B[4, 0] = A[p]
                T.atomic_max(B[4, p], A[p])

    a, b = np.arange(1, 7, dtype=np.int32), np.zeros((5, 4), np.int32)
    run(known, a, np.array([-2], np.int32), b)
    assert b.tolist() == [[3, 4, 5, 6], [6, 5, 4, 3], [1, 2, 3, 4], [5, 6, 1, 2], [5, 0, 5, 0]]


def test_a_safe_value_is_read_in_front_of_a_tensor(run: Callable[..., None]) -> None:
    @T.prim_func
    def padded(A: I32[8], B: I32[8]):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: -7})
            for i in T.serial(4):
                B[i] = A[i - 4]
                B[i + 4] = A[i - 2] + A[-1]

    b = np.zeros(8, np.int32)
    run(padded, np.arange(8, dtype=np.int32), b)
    assert b.tolist() == [-7, -7, -7, -7, 0, 0, 7, 8]


def test_a_gather_of_rows_moves_whole_vectors_without_a_choice_of_index() -> None:
    @T.prim_func
    def gather(I: I32[64], A: F16[100, 64], B: F16[64, 64]):
        with T.Kernel(4, threads=128) as bx:
            for i, j in T.Parallel(16, 64):
                B[bx * 16 + i, j] = A[I[bx * 16 + i], j]

    text = tilelang.compile(gather, target="cuda -arch=sm_80").get_kernel_source()
    assert "tl_copy_16" in text
    assert "+ 100" not in text


def test_strides_of_a_tensor_do_not_change_where_its_end_is(run: Callable[..., None]) -> None:
    n, step = T.dynamic("n"), T.dynamic("step", "int64")

    @T.prim_func
    def strided(A: T.StridedTensor((n, 8), (step, 1), "int32"), B: I32[n, 8]):
        with T.Kernel(n, threads=32) as bx:
            for j in T.Parallel(8):
                B[bx, j] = A[-1 - bx, j - 8]

    a = np.arange(6 * 40, dtype=np.int32).reshape(6, 40)[:, :8]
    b = np.zeros((6, 8), np.int32)
    run(strided, a, b)
    assert np.array_equal(b, a[::-1])


def test_a_reducer_is_updated_from_the_end(run: Callable[..., None]) -> None:
    @T.prim_func
    def counted(B: F32[4]):
        with T.Kernel(1, threads=32):
            r = T.alloc_reducer((4,), "float32", op="sum")
            T.fill(r, 0)
            for i in T.Parallel(60):
                r[i % 4 - 4] += i
            T.finalize_reducer(r)
            T.copy(r, B)

    b = np.zeros(4, F)
    run(counted, b)
    assert b.tolist() == [sum(range(k, 60, 4)) for k in range(4)]


@pytest.mark.parametrize("minus", [0, 2])
@pytest.mark.parametrize("dtype", ["int8", "int64"])
def test_a_condition_decides_the_sign_of_loaded_numbers_of_every_width(dtype: str, minus: int):
    @T.prim_func
    def main(A: I32[5], S: T.Tensor((8,), dtype), B: I32[8]):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                if S[i] - minus < 0:
                    B[i] = A[S[i] - minus]

    a, s = np.arange(1, 6, dtype=np.int32), np.array([-3, -2, -1, 0, 1, 2, 3, 4], dtype)
    want = np.array([a[n - minus] if n < minus else 0 for n in s.tolist()], np.int32)
    for how in ({"execution_backend": "interpret"}, {}):
        b = np.zeros(8, np.int32)
        tilelang.compile(main, target="cpu", **how)(a, s, b)
        np.testing.assert_array_equal(b, want)
