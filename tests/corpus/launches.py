"""Launches and arguments: several kernels, results, scalars, absent tensors, sizes of each call."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from tensor_types import F32, F64, I32, I64, U32

import tilelang
import tilelang.language as T

from .registry import F, I, Out, ints, program


@program()
def three_kernels_in_order():
    @T.prim_func
    def f(A: F32[100], B: F32[100], C: F32[4], D: F32[100]):
        with T.Kernel(4, threads=32) as b:
            for i in T.Parallel(25):
                B[b * 25 + i] = A[b * 25 + i] * 2
        with T.Kernel(4, threads=32) as b:
            x = T.alloc_fragment((25,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(B[b * 25], x)
            T.reduce_sum(x, s)
            T.copy(s, C[b])
        with T.Kernel(2, threads=64) as b:
            for i in T.Parallel(50):
                D[b * 50 + i] = B[99 - (b * 50 + i)] - C[b * 2]

    a = ints(100)
    b = a * 2
    c = b.reshape(4, 25).sum(1)
    return f, [a, Out(b), Out(c), Out(b[::-1] - np.repeat(c[::2], 50))]


@program()
def a_workspace_of_the_program():
    @T.prim_func
    def f(A: F32[64, 64], B: F32[64, 64]):
        w = T.alloc_global((64, 64), "float32")
        with T.Kernel(2, 2, threads=64) as (x, y):
            for i, j in T.Parallel(32, 32):
                w[x * 32 + j, y * 32 + i] = A[y * 32 + i, x * 32 + j] + 1
        with T.Kernel(64, threads=32) as r:
            for j in T.Parallel(64):
                B[r, j] = w[r, j] * 2

    a = ints((64, 64), 1)
    return f, [a, Out((a.T + 1) * 2)]


@program()
def a_grid_that_depends_on_a_parameter():
    @T.prim_func
    def f(n: T.int32, B: I32[100]):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i in T.Parallel(32):
                if b * 32 + i < n:
                    B[b * 32 + i] = n - (b * 32 + i)

    def run(options):
        kernel = tilelang.compile(f, **options)
        for n in (0, 1, 32, 33, 100):
            b = np.full(100, -1, I)
            kernel(n, b)
            want = np.full(100, -1, I)
            want[:n] = n - np.arange(n)
            Out(want).check(str(n), b)

    return run


@program()
def two_results_between_inputs():
    @T.prim_func
    def f(A: F32[30], S: F32[1], B: F32[30], C: I32[30]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((30,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(A, x)
            T.reduce_sum(x, s)
            T.copy(s, S)
            for i in T.Parallel(30):
                C[i] = T.cast(x[i] + B[i], "int32")

    a, b = ints(30, 2), ints(30, 3)
    return f, [a, Out(np.array([a.sum()], F)), b, Out((a + b).astype(I))], {"out_idx": [1, -1]}


@program()
def results_with_sizes_of_the_inputs():
    n, m = T.dynamic("n, m")

    @T.prim_func
    def f(A: F32[n], B: F32[m], C: F32[n, m], D: F32[n + m]):
        with T.Kernel(n, threads=32) as i:
            for j in T.Parallel(m):
                C[i, j] = A[i] * B[j]
            for j in T.Parallel(n + m):
                if i == 0:
                    D[j] = T.if_then_else(j < n, A[j], B[j - n])

    def run(options):
        kernel = tilelang.compile(f, out_idx=[2, 3], **options)
        for rows, columns in ((1, 1), (4, 7), (20, 3)):
            a, b = ints(rows, 4), ints(columns, 5)
            c, d = kernel(a, b)
            Out(np.outer(a, b)).check("C", np.asarray(c))
            Out(np.concatenate([a, b])).check("D", np.asarray(d))

    return run


@program()
def scalars_of_every_integer_type():
    @T.prim_func
    def f(
        a: T.int8, b: T.int16, c: T.int32, d: T.int64, e: T.uint8, g: T.uint16, h: T.uint32,
        k: T.uint64, p: T.bool, O: I64[9],
    ):  # fmt: skip
        with T.Kernel(1, threads=1):
            O[0] = a
            O[1] = b
            O[2] = c
            O[3] = d
            O[4] = e
            O[5] = g
            O[6] = h
            O[7] = T.cast(k >> 1, "int64")
            O[8] = T.if_then_else(p, 1, 0)

    values = [-128, -32768, -(2**31), -(2**63), 255, 65535, 2**32 - 1, 2**64 - 1, True]
    want = [*values[:7], (2**64 - 1) >> 1, 1]
    return f, [*values, Out(np.array(want, np.int64))]


@program()
def scalars_of_every_float_type():
    @T.prim_func
    def f(a: T.float16, b: T.bfloat16, c: T.float32, d: T.float64, O: F64[4]):
        with T.Kernel(1, threads=1):
            O[0] = a
            O[1] = b
            O[2] = c
            O[3] = d

    v = 1 / 3
    want = [float(np.float16(v)), float(ml_dtypes.bfloat16(v)), float(F(v)), v]
    return f, [v, v, v, v, Out(np.array(want))]


@program()
def scalars_in_conditions_and_loops():
    @T.prim_func
    def f(flag: T.bool, n: T.int32, x: T.float32, A: F32[16], B: F32[16]):
        with T.Kernel(1, threads=16):
            t = T.get_thread_binding()
            v = T.alloc_var("float32", A[t])
            for i in T.serial(n):
                if flag:
                    v = v * x
                else:
                    v = v - x
            B[t] = v

    def run(options):
        kernel = tilelang.compile(f, **options)
        a = ints(16, 6)
        for flag, n, x in ((True, 3, 2.0), (False, 4, 0.5), (True, 0, 7.0)):
            b = np.zeros(16, F)
            kernel(flag, n, x, a, b)
            Out((a * F(x) ** n if flag else a - n * F(x)).astype(F)).check(str((flag, n, x)), b)

    return run


@program()
def an_absent_tensor_that_is_not_used():
    def make(bias):
        @T.prim_func
        def f(A: F32[20], B: F32[20], C: F32[20]):
            with T.Kernel(1, threads=32):
                for i in T.Parallel(20):
                    C[i] = A[i] + B[i] if bias else A[i]

        return f

    def run(options):
        a, b = ints(20, 7), ints(20, 8)
        for bias in (True, False):
            c = np.zeros(20, F)
            tilelang.compile(make(bias), **options)(a, b if bias else None, c)
            Out(a + b if bias else a).check(str(bias), c)

    return run


@program()
def tensors_of_size_zero():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: F32[n, 4], B: F32[n], C: I32[2]):
        with T.Kernel(T.ceildiv(n, 8), threads=32) as b:
            for i in T.Parallel(8):
                if b * 8 + i < n:
                    B[b * 8 + i] = A[b * 8 + i, 0] + A[b * 8 + i, 3]
        with T.Kernel(1, threads=32):
            C[0] = n
            C[1] = n * 4

    def run(options):
        kernel = tilelang.compile(f, **options)
        for n in (0, 1, 20, 0):
            a, b, c = ints((n, 4), 9), np.zeros(n, F), np.zeros(2, I)
            kernel(a, b, c)
            Out(a[:, 0] + a[:, 3]).check("B", b)
            Out(np.array([n, 4 * n], I)).check("C", c)

    return run


@program()
def extents_that_are_expressions_of_symbols():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: I32[n * 4], B: I32[n + 1], C: I32[n, 4]):
        with T.Kernel(n, threads=32) as b:
            for j in T.Parallel(4):
                C[b, j] = A[b * 4 + j] + B[b + 1] - B[b]

    def run(options):
        kernel = tilelang.compile(f, **options)
        for n in (1, 3, 10):
            a, b, c = ints(4 * n, 10, I), ints(n + 1, 11, I), np.zeros((n, 4), I)
            kernel(a, b, c)
            Out(a.reshape(n, 4) + np.diff(b)[:, None]).check(str(n), c)

    return run


@program()
def values_of_the_host_between_kernels():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: F32[n], B: F32[n]):
        half = n // 2
        rest = n - half
        with T.Kernel(T.ceildiv(half, 16), threads=32) as b:
            for i in T.Parallel(16):
                if b * 16 + i < half:
                    B[b * 16 + i] = A[b * 16 + i] + half
        with T.Kernel(T.ceildiv(rest, 16), threads=32) as b:
            for i in T.Parallel(16):
                if b * 16 + i < rest:
                    B[half + b * 16 + i] = A[half + b * 16 + i] - rest

    def run(options):
        kernel = tilelang.compile(f, **options)
        for n in (1, 2, 33, 64):
            a, b = ints(n, 12), np.zeros(n, F)
            kernel(a, b)
            half = n // 2
            Out(np.concatenate([a[:half] + half, a[half:] - (n - half)]).astype(F)).check(str(n), b)

    return run


@program()
def a_kernel_called_again_with_other_data():
    @T.prim_func
    def f(A: F32[8, 8], B: F32[8]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 8), "float32")
            r = T.alloc_fragment((8,), "float32")
            T.copy(A, x)
            T.reduce_max(x, r, dim=0)
            T.copy(r, B)

    def run(options):
        kernel = tilelang.compile(f, out_idx=-1, **options)
        kept = []
        for seed in range(3):
            a = ints((8, 8), seed)
            kept.append((a.max(0), kernel(a)))
        for want, got in kept:
            Out(want).check("B", np.asarray(got))

    return run


@program()
def a_result_of_another_kernel_as_argument():
    @T.prim_func
    def f(A: F32[6, 7], B: F32[7, 6]):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(6, 7):
                B[j, i] = A[i, j]

    @T.prim_func
    def g(A: F32[7, 6], B: F32[7]):
        with T.Kernel(7, threads=32) as r:
            v = T.alloc_var("float32", 0.0)
            for j in T.serial(6):
                v += A[r, j]
            B[r] = v

    def run(options):
        first = tilelang.compile(f, out_idx=-1, **options)
        second = tilelang.compile(g, out_idx=-1, **options)
        a = ints((6, 7), 13)
        Out(a.sum(0)).check("B", np.asarray(second(first(a))))

    return run


@program()
def torch_tensors_and_strided_views_of_them():
    torch = pytest.importorskip("torch", reason="its tensors are passed")

    @T.prim_func
    def f(A: T.StridedTensor((5, 6), (12, 2), "bfloat16"), B: F32[5, 6], C: T.Tensor((5,), "bool")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(5, 6):
                B[i, j] = A[i, j] * 2
            for i in T.Parallel(5):
                C[i] = A[i, 0] > 0

    def run(options):
        base = torch.arange(60, dtype=torch.float32).reshape(5, 12).to(torch.bfloat16) - 20
        a = base[:, ::2]
        b, c = tilelang.compile(f, out_idx=[1, 2], **options)(a)
        assert torch.equal(b, a.float() * 2), b
        assert torch.equal(c, a[:, 0] > 0), c

    return run


@program()
def pointers_made_tensors():
    @T.prim_func
    def f(p: T.ptr, n: T.int32, B: F32[8]):
        with T.Kernel(1, threads=32):
            A = T.make_tensor(p, (n, 4), "float32")
            for i in T.Parallel(8):
                B[i] = A[i // 4 + 1, 3 - i % 4]

    def run(options):
        a = ints((5, 4), 14)
        b = np.zeros(8, F)
        tilelang.compile(f, **options)(a.ctypes.data, 5, b)
        Out(a[1:3, ::-1].reshape(-1).copy()).check("B", b)

    return run


@program()
def a_table_of_addresses():
    @T.prim_func
    def f(P: T.Tensor((3,), T.ptr), N: I32[3], B: F32[3]):
        with T.Kernel(3, threads=1) as g:
            A = T.make_tensor(P[g], (N[g],), "float32")
            v = T.alloc_var("float32", 0.0)
            for i in T.serial(N[g]):
                v += A[i] * (i + 1)
            B[g] = v

    def run(options):
        parts = [ints(n, 15 + n) for n in (4, 1, 7)]
        table = np.array([p.ctypes.data for p in parts], np.int64)
        b = np.zeros(3, F)
        tilelang.compile(f, **options)(table, np.array([4, 1, 7], I), b)
        want = [float((p * np.arange(1, len(p) + 1)).sum()) for p in parts]
        Out(np.array(want, F)).check("B", b)

    return run


@program()
def random_numbers_are_spread_evenly():
    @T.prim_func
    def f(B: F32[64, 64], C: U32[64, 64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            T.rng_init(1234)
            for i in T.serial(64):
                C[t, i] = T.rng_rand()
            for i in T.serial(64):
                B[t, i] = T.rng_rand_float()

    def run(options):
        b, c = np.zeros((64, 64), F), np.zeros((64, 64), np.uint32)
        tilelang.compile(f, **options)(b, c)
        assert ((b >= 0) & (b <= 1)).all()
        assert abs(b.mean() - 0.5) < 0.03
        assert abs(b.std() - 12**-0.5) < 0.03
        assert len(np.unique(c)) > 4090
        assert abs((c >> 31).mean() - 0.5) < 0.05
        assert abs((c & 1).mean() - 0.5) < 0.05
        assert abs(np.corrcoef(b[:-1].reshape(-1), b[1:].reshape(-1))[0, 1]) < 0.06

    return run
