"""Whole programs of the language, traced and interpreted, against numpy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program
from tensor_types import F32, I32

import tilelang.language as T
from tilelang import interpret
from tilelang.errors import DeviceAssertError, OutOfBoundsError
from tilelang.ir import floats

rng = np.random.default_rng(11)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return rng.standard_normal(shape).astype(dtype)


def positive(c: Any, **names: Any) -> None:
    for i, j in T.Parallel(*c.shape):
        c[i, j] = T.max(c[i, j], 0)


@pytest.mark.parametrize(
    ("m", "n", "k", "blocks", "dtype"),
    [
        (128, 128, 128, (64, 64, 32), "float16"),
        (100, 70, 50, (32, 48, 24), "float32"),
        (33, 17, 9, (16, 16, 16), "bfloat16"),
        (64, 64, 64, (64, 32, 32), "float8_e4m3fn"),
    ],
)
def test_matmul_with_tails(
    m: int, n: int, k: int, blocks: tuple[int, int, int], dtype: str
) -> None:
    """Rules 4, 5 and 10: no tail handling is needed in the program."""
    a, b, c = rand(m, k), rand(k, n), np.zeros((m, n), np.float32)
    stored = floats.to_storage(a, dtype), floats.to_storage(b, dtype)
    func = gemm_program(m, n, k, blocks, 3, dtype=dtype, extra=positive)
    interpret.run(func, [*stored, c])
    x, y = (floats.from_storage(array, dtype).astype(np.float32) for array in stored)
    exact = x @ y
    np.testing.assert_allclose(c, np.maximum(exact, 0), rtol=1e-4, atol=1e-4)


def test_warp_specialised_pipeline() -> None:
    """Rules 12 and 13."""
    steps = 7

    @T.prim_func
    def main(A: F32[steps, 64], O: F32[64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            ring = T.alloc_shared((2, 64), "float32")
            acc = T.alloc_fragment((64,), "float32")
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([128, 128])
            if tx >= 128:
                for k in T.serial(steps):
                    T.barrier_wait(empty[k % 2], ((k // 2) & 1) ^ 1)
                    T.tma_copy(A[k, 0:64], ring[k % 2, :], barrier=full[k % 2])
                    T.barrier_arrive(full[k % 2])
            else:
                T.clear(acc)
                for k in T.serial(steps):
                    T.barrier_wait(full[k % 2], (k // 2) & 1)
                    for i in T.Parallel(64):
                        acc[i] += ring[k % 2, i]
                    T.barrier_arrive(empty[k % 2])
                T.copy(acc, O)

    a, o = rand(steps, 64), np.zeros(64, np.float32)
    interpret.run(main, [a, o])
    np.testing.assert_allclose(o, a.sum(0), rtol=1e-5, atol=1e-5)


def test_two_warp_groups_with_ws() -> None:
    """Rule 12: T.ws restricts the body to warpgroups."""

    @T.prim_func
    def main(O: I32[8], N: I32[2]):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((1,), "int32")
            ready = T.alloc_barrier(128)
            done = T.alloc_barrier(128)
            with T.ws(0):
                for k in T.serial(8):
                    T.barrier_wait(ready, k & 1)
                    O[k] = s[0]
                    T.atomic_add(N[0], 1)
                    T.barrier_arrive(done)
            with T.ws(1):
                for k in T.serial(8):
                    T.barrier_wait(done, (k & 1) ^ 1)
                    T.fill(s, k * k)
                    T.atomic_add(N[1], 1)
                    T.barrier_arrive(ready)

    o, n = np.zeros(8, np.int32), np.zeros(2, np.int32)
    interpret.run(main, [o, n])
    assert o.tolist() == [k * k for k in range(8)] and n.tolist() == [1024, 1024]


def test_variables_snapshots_and_swaps() -> None:
    """Rule 2."""

    @T.prim_func
    def main(A: I32[4], O: I32[4]):
        with T.Kernel(1, threads=32):
            x = A[3]
            v = T.alloc_var("int32", 1)
            for i in range(4):
                v += A[i]
            w = v
            v = 100
            A[3] = 50
            A[0], A[1] = A[1], A[0]
            O[0] = x
            O[1] = w
            O[2] = v
            O[3] = A[3] // 7 - 9 % 4

    a, o = np.array([1, 2, 3, 4], np.int32), np.zeros(4, np.int32)
    interpret.run(main, [a, o])
    assert o.tolist() == [4, 11, 100, 6] and a.tolist() == [2, 1, 3, 50]


def test_guarded_loads_and_short_circuit() -> None:
    """Rules 5 and 8."""

    @T.prim_func
    def main(A: F32[10], O: F32[16]):
        with T.Kernel(1, threads=16):
            tx = T.get_thread_binding()
            s = T.alloc_shared((10,), "float32")
            T.copy(A, s)
            if tx < 10 and s[tx] > 0:
                O[tx] = s[tx]
            else:
                O[tx] = A[tx] - 1.0 if tx % 2 == 0 else -7.0

    a, o = rand(10), np.zeros(16, np.float32)
    interpret.run(main, [a, o])
    wide = np.zeros(16, np.float32)
    wide[:10] = a
    even = np.arange(16) % 2 == 0
    assert (o == np.where(wide > 0, wide, np.where(even, wide - 1, -7))).all()


def test_dynamic_shapes_and_row_softmax() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def main(A: F32[n, 40], O: F32[n, 40]):
        with T.Kernel(T.ceildiv(n, 8), threads=64) as bx:
            f = T.alloc_fragment((8, 40), "float32")
            m = T.alloc_fragment((8,), "float32")
            T.copy(A[bx * 8, 0], f)
            T.reduce_max(f, m)
            for i, j in T.Parallel(8, 40):
                f[i, j] = T.exp(f[i, j] - m[i])
            T.reduce_sum(f, m)
            for i, j in T.Parallel(8, 40):
                f[i, j] = f[i, j] / m[i]
            T.copy(f, O[bx * 8, 0])

    a = rand(21, 40)
    o = np.zeros_like(a)
    interpret.run(main, [a, o])
    p = np.exp(a - a.max(1, keepdims=True))
    np.testing.assert_allclose(o, p / p.sum(1, keepdims=True), rtol=1e-5)


def test_reducers_in_both_protocols() -> None:
    @T.prim_func
    def main(A: F32[6, 70], S: F32[6], M: F32[6]):
        with T.Kernel(1, threads=64):
            old = T.alloc_reducer((6,), "float32", op="sum", replication="all")
            T.clear(old)
            for i, j in T.Parallel(6, 70):
                old[i] += A[i, j]
            T.finalize_reducer(old)
            T.copy(old, S)
            new = T.alloc_reducer((6,), "float32", op="max")
            out = T.alloc_fragment((6,), "float32")
            T.reducer_init(new)
            for i, j in T.Parallel(6, 70):
                T.reducer_update(new[i], A[i, j])
            T.finalize_reducer(new, out)
            T.copy(out, M)

    a, s, m = rand(6, 70), np.zeros(6, np.float32), np.zeros(6, np.float32)
    interpret.run(main, [a, s, m])
    np.testing.assert_allclose(s, a.sum(1), rtol=1e-4, atol=1e-5)
    assert (m == a.max(1)).all()


def test_print_and_device_assert() -> None:
    @T.prim_func
    def main(O: I32[1], n: T.int32):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding()
            if tx == 3 and bx == 1:
                T.print(n + 1, msg="next")
                T.device_assert(n < 5, "n is small")
            O[0] = n

    out = io.StringIO()
    interpret.run(main, [np.zeros(1, np.int32), 4], stdout=out)
    assert out.getvalue() == (
        "msg='next' BlockIdx=(1, 0, 0), ThreadIdx=(3, 0, 0): dtype=int value=5\n"
    )
    with pytest.raises(DeviceAssertError) as error:
        interpret.run(main, [np.zeros(1, np.int32), 5], stdout=out)
    assert error.value.message == "Device assert failed: n is small"
    assert error.value.got == "false in block (1, 0, 0), thread 3"


def test_errors_point_at_the_line_of_the_program() -> None:
    @T.prim_func
    def main(n: T.int32):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((4,), "float32")
            T.clear(s)
            s[n] = 1.0

    with pytest.raises(OutOfBoundsError) as error:
        interpret.run(main, [9])
    text = str(error.value)
    assert text.startswith("`s[9]` is outside the shared.dyn buffer `s`\n")
    assert "s[n] = 1.0" in text and "test_programs.py" in text


def test_loop_layout_decides_which_thread_runs_an_iteration() -> None:
    """Rule 15: with private data the mapping of a fragment layout is observable."""
    layout = T.Fragment((8, 8), forward_fn=lambda i, j: (j * 4 + i // 2, i % 2))

    @T.prim_func
    def main(O: I32[8, 8], C: I32[32]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            count = T.alloc_local((1,), "int32")
            count[0] = 0
            for i, j in T.Parallel(8, 8, loop_layout=layout):
                O[i, j] = tx
                count[0] += i
            C[tx] = count[0]

    o, c = np.zeros((8, 8), np.int32), np.zeros(32, np.int32)
    interpret.run(main, [o, c])
    i, j = np.indices((8, 8))
    assert (o == j * 4 + i // 2).all()
    assert c.tolist() == [4 * (t % 4) + 1 for t in range(32)]
