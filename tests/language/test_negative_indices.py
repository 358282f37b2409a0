"""Negative indices of elements at run time count from the end; tiles do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import OutOfBoundsError
from tilelang.ir.stmt import PrimFunc

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

EXECUTORS = {
    "interpreter": {"target": "cpu", "execution_backend": "interpret"},
    "cpu": {"target": "cpu"},
    "sm_80": {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    "sm_90a": {"target": "cuda -arch=sm_90a", "execution_backend": "emulator"},
}
F = np.float32


@pytest.fixture(params=EXECUTORS)
def run(request: pytest.FixtureRequest) -> Callable[..., None]:
    def call(func: PrimFunc, *args: Any) -> None:
        tilelang.compile(func, **EXECUTORS[request.param])(*args)

    return call


def element(a: np.ndarray, index: int) -> Any:
    """``a[index]`` by the rule of the language: 0 where Python has an IndexError."""
    return a[index] if -len(a) <= index < len(a) else a.dtype.type(0)


def picked(a: np.ndarray, indices: Any) -> np.ndarray:
    return np.array([element(a, int(i)) for i in np.ravel(indices)], a.dtype)


def numbers(n: int) -> np.ndarray:
    return np.arange(1, n + 1, dtype=F)


def test_a_serial_loop_reads_before_the_start(run: Callable[..., None]) -> None:
    @T.prim_func
    def back(A: T.Tensor((16,), "float32"), B: T.Tensor((20,), "float32")):
        with T.Kernel(1, threads=32):
            for t in T.serial(20):
                B[t] = A[t - 2]

    a, b = numbers(16), np.full(20, -1, F)
    run(back, a, b)
    assert np.array_equal(b, picked(a, np.arange(20) - 2))


@pytest.mark.parametrize("off", [-3, 0, 5, -64, -70, 70])
def test_a_parallel_loop_reads_at_a_run_time_offset(run: Callable[..., None], off: int) -> None:
    @T.prim_func
    def shifted(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), off: T.int32):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                B[bx * 32 + i] = A[bx * 32 + i + off]

    a, b = numbers(64), np.full(64, -1, F)
    run(shifted, a, b, off)
    assert np.array_equal(b, picked(a, np.arange(64) + off))


def test_loaded_indices_wrap_in_loads_stores_and_atomics(run: Callable[..., None]) -> None:
    @T.prim_func
    def scattered(
        I: T.Tensor((64,), "int32"),
        A: T.Tensor((64,), "float32"),
        B: T.Tensor((64,), "float32"),
        C: T.Tensor((64,), "int32"),
    ):
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                B[I[bx * 32 + i]] = A[I[bx * 32 + i] - 1]
                T.atomic_add(C[I[bx * 32 + i] - 3], 1)

    at = np.random.default_rng(0).permutation(np.arange(-32, 32)).astype(np.int32)
    at[:4] = [-64, -65, 64, 63]
    a, b, c = numbers(64), np.zeros(64, F), np.zeros(64, np.int32)
    want, count = np.zeros(64, F), np.zeros(64, np.int32)
    for i in at:
        if -64 <= i < 64:
            want[i] = element(a, i - 1)
        if -64 <= i - 3 < 64:
            count[i - 3] += 1
    run(scattered, at, a, b, c)
    assert np.array_equal(b, want)
    assert np.array_equal(c, count)


@pytest.mark.parametrize("kind", ["shared", "local"])
def test_on_chip_elements_count_from_the_end(run: Callable[..., None], kind: str) -> None:
    make = {"shared": T.alloc_shared, "local": T.alloc_local}[kind]

    @T.prim_func
    def rotated(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            s = make((8,), "float32")
            for i in T.serial(8):
                s[i - 3] = A[i]
            for i in T.serial(8):
                B[i] = s[i - 5]

    a, b = numbers(8), np.zeros(8, F)
    run(rotated, a, b)
    s = np.zeros(8, F)
    s[np.arange(8) - 3] = a
    assert np.array_equal(b, s[np.arange(8) - 5])


def test_a_shared_tile_is_rotated_in_parallel(run: Callable[..., None]) -> None:
    @T.prim_func
    def rotated(A: T.Tensor((4, 32), "float32"), B: T.Tensor((4, 32), "float32")):
        with T.Kernel(4, threads=32) as bx:
            s = T.alloc_shared((32,), "float32")
            f = T.alloc_fragment((32,), "float32")
            for i in T.Parallel(32):
                s[i - 5] = A[bx, i]
            for i in T.Parallel(32):
                f[i] = s[i - 7] - s[i - 1]
            T.copy(f, B[bx, :])

    a = np.random.default_rng(0).random((4, 32)).astype(F)
    b = np.zeros_like(a)
    run(rotated, a, b)
    s = np.roll(a, -5, axis=1)
    i = np.arange(32)
    assert np.array_equal(b, s[:, i - 7] - s[:, i - 1])


def test_dynamic_extents_wrap_at_their_size_and_tiles_do_not(run: Callable[..., None]) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def mixed(A: T.Tensor((n, 8), "float32"), B: T.Tensor((n, 8), "float32")):
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
        assert np.array_equal(b, (tile + a[r - 3, c - 1]).astype(F))


def test_each_lane_of_a_vector_wraps(run: Callable[..., None]) -> None:
    @T.prim_func
    def lanes(A: T.Tensor((16,), "float32"), B: T.Tensor((4, 4), "float32")):
        with T.Kernel(1, threads=1):
            for t in T.serial(4):
                B[t, T.Ramp(0, 1, 4)] = A[T.Ramp(t - 2, 1, 4)]
                A[T.Ramp(t - 3, 4, 2)] = A[T.Ramp(t - 3, 4, 2)]

    a, b = numbers(16), np.zeros((4, 4), F)
    run(lanes, a, b)
    assert np.array_equal(b, picked(a, np.arange(4)[:, None] - 2 + np.arange(4)).reshape(4, 4))


def test_indices_of_narrow_dtypes_wrap_at_extents_beyond_them(run: Callable[..., None]) -> None:
    @T.prim_func
    def narrow(
        I: T.Tensor((8,), "int8"), A: T.Tensor((300,), "float32"), B: T.Tensor((8,), "float32")
    ):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                B[i] = A[I[i]]

    at = np.array([0, -1, 127, -128, 5, -5, 1, 2], np.int8)
    a, b = numbers(300), np.zeros(8, F)
    run(narrow, at, a, b)
    assert np.array_equal(b, a[at.astype(int)])


def test_constants_before_the_first_element_are_outside(run: Callable[..., None]) -> None:
    n = T.dynamic("n")

    @T.prim_func
    def constants(
        A: T.Tensor((4,), "float32"), D: T.Tensor((n,), "float32"), B: T.Tensor((6,), "float32")
    ):
        with T.Kernel(1, threads=1):
            B[0] = A[-4]
            B[1] = A[-5]
            B[2] = A[-9]
            B[3] = D[-1]
            B[4] = D[-3]
            B[5] = D[-4]

    a, d, b = numbers(4), numbers(3), np.full(6, -1, F)
    run(constants, a, d, b)
    assert b.tolist() == [1, 0, 0, 3, 1, 0]


def test_an_index_far_outside_a_tile_is_reported() -> None:
    @T.prim_func
    def far(I: T.Tensor((1,), "int32"), B: T.Tensor((1,), "float32")):
        with T.Kernel(1, threads=1):
            s = T.alloc_shared((4,), "float32")
            T.clear(s)
            B[0] = s[I[0]]

    kernel = tilelang.compile(far, target="cpu", execution_backend="interpret")
    kernel(np.array([-4], np.int32), np.zeros(1, F))
    with pytest.raises(OutOfBoundsError) as found:
        kernel(np.array([-5], np.int32), np.zeros(1, F))
    assert "`s[-5]` is outside the shared.dyn buffer `s`" in str(found.value)


def test_a_gather_of_rows_moves_whole_vectors() -> None:
    @T.prim_func
    def gather(
        I: T.Tensor((64,), "int32"),
        A: T.Tensor((100, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(4, threads=128) as bx:
            for i, j in T.Parallel(16, 64):
                B[bx * 16 + i, j] = A[I[bx * 16 + i], j]

    text = tilelang.compile(gather, target="cuda -arch=sm_80").get_kernel_source()
    assert "tl_copy_16" in text
    assert "? " in text


def test_a_tile_before_the_block_moves_in_vectors_of_one_sign(run: Callable[..., None]) -> None:
    @T.prim_func
    def before(A: T.Tensor((8 * 512,), "float16"), B: T.Tensor((8 * 512,), "float16")):
        with T.Kernel(8, threads=128) as bx:
            for i in T.Parallel(512):
                B[bx * 512 + i] = A[(bx - 1) * 512 + i]

    a = np.random.default_rng(0).random(8 * 512).astype(np.float16)
    b = np.zeros_like(a)
    run(before, a, b)
    assert np.array_equal(b, np.roll(a, 512))
    text = tilelang.compile(before, target="cuda -arch=sm_80").get_kernel_source()
    assert "tl_copy_8(&B[" in text and "for (" not in text


def test_strides_of_a_tensor_do_not_change_where_its_end_is(run: Callable[..., None]) -> None:
    n, step = T.dynamic("n"), T.dynamic("step", "int64")

    @T.prim_func
    def strided(A: T.StridedTensor((n, 8), (step, 1), "int32"), B: T.Tensor((n, 8), "int32")):
        with T.Kernel(n, threads=32) as bx:
            for j in T.Parallel(8):
                B[bx, j] = A[bx - 1, j - 3]

    a = np.arange(6 * 40, dtype=np.int32).reshape(6, 40)[:, :8]
    b = np.zeros((6, 8), np.int32)
    run(strided, a, b)
    assert np.array_equal(b, a[np.arange(6)[:, None] - 1, np.arange(8) - 3])


def test_a_variable_that_counts_down_passes_the_start(run: Callable[..., None]) -> None:
    @T.prim_func
    def down(A: T.Tensor((16,), "int32"), B: T.Tensor((16,), "int32")):
        with T.Kernel(1, threads=32):
            i = T.alloc_var("int32", init=5)
            while i > -16:
                B[i] = A[i - 1]
                i = i - 1

    a, b, want = np.arange(1, 17, dtype=np.int32), np.zeros(16, np.int32), np.zeros(16, np.int32)
    for i in range(5, -16, -1):
        want[i] = element(a, i - 1)
    run(down, a, b)
    assert np.array_equal(b, want)


def test_a_reducer_is_updated_from_the_end(run: Callable[..., None]) -> None:
    @T.prim_func
    def counted(B: T.Tensor((4,), "float32")):
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
