"""Reducers: what many threads and loops collect, read after it is finalised."""

from __future__ import annotations

from functools import partial

import numpy as np
from tensor_types import F16, F32, F64, I32

import tilelang.language as T

from .registry import F, I, Out, ints, program

_ints = partial(ints, low=-20, high=20)


@program()
def sums_of_columns_over_several_loops():
    @T.prim_func
    def f(A: F32[40, 24], B: F32[24]):
        with T.Kernel(1, threads=64):
            r = T.alloc_reducer((24,), "float32", op="sum")
            T.clear(r)
            for k in T.serial(4):
                for i, j in T.Parallel(10, 24):
                    r[j] += A[k * 10 + i, j]
            for j in T.Parallel(24):
                r[j] += 100
            T.finalize_reducer(r)
            T.copy(r, B)

    a = _ints((40, 24))
    return f, [a, Out(a.sum(0) + 100)]


@program()
def maxima_and_minima_of_rows():
    @T.prim_func
    def f(A: F32[9, 70], B: F32[9], C: F32[9]):
        with T.Kernel(1, threads=32):
            high = T.alloc_reducer((9,), "float32", op="max")
            low = T.alloc_reducer((9,), "float32", op="min")
            T.fill(high, -T.infinity("float32"))
            T.fill(low, T.infinity("float32"))
            for i, j in T.Parallel(9, 70):
                high[i] = T.max(high[i], A[i, j])
                low[i] = T.min(low[i], A[i, j])
            T.finalize_reducer(high)
            T.finalize_reducer(low)
            T.copy(high, B)
            T.copy(low, C)

    a = _ints((9, 70), 1)
    return f, [a, Out(a.max(1)), Out(a.min(1))]


@program()
def a_reducer_of_integers_replicated():
    @T.prim_func
    def f(A: I32[50, 8], B: I32[50, 8]):
        with T.Kernel(1, threads=64):
            r = T.alloc_reducer((8,), "int32", op="sum", replication="all")
            T.clear(r)
            for i, j in T.Parallel(50, 8):
                r[j] += A[i, j]
            T.finalize_reducer(r)
            for i, j in T.Parallel(50, 8):
                B[i, j] = A[i, j] * 100 - r[j]

    a = _ints((50, 8), 2, I)
    return f, [a, Out((a * 100 - a.sum(0)).astype(I))]


@program()
def one_total_of_a_whole_tile():
    @T.prim_func
    def f(A: F32[3, 37, 11], B: F32[3]):
        with T.Kernel(3, threads=96) as b:
            r = T.alloc_reducer((1,), "float32", op="sum", replication="all")
            T.clear(r)
            for i, j in T.Parallel(37, 11):
                r[0] += A[b, i, j]
            T.finalize_reducer(r)
            B[b] = r[0]

    a = _ints((3, 37, 11), 3)
    return f, [a, Out(a.sum((1, 2)))]


@program()
def a_reducer_started_and_updated_by_words():
    @T.prim_func
    def f(A: I32[30, 6], B: I32[6], C: I32[6]):
        with T.Kernel(1, threads=32):
            r = T.alloc_reducer((6,), "int32", op="sum")
            out = T.alloc_fragment((6,), "int32")
            T.reducer_init(r, 5)
            for i, j in T.Parallel(30, 6):
                T.reducer_update(r[j], A[i, j])
            T.finalize_reducer(r, out)
            T.copy(out, B)
            m = T.alloc_reducer((6,), "int32", op="max")
            T.reducer_init(m)
            for i, j in T.Parallel(30, 6):
                T.reducer_update(m[j], A[i, j] * 2)
            T.finalize_reducer(m, out)
            T.copy(out, C)

    a = _ints((30, 6), 4, I)
    return f, [a, Out((a.sum(0) + 5).astype(I)), Out(a.max(0) * 2)]


@program()
def bits_collected_by_reducers():
    @T.prim_func
    def f(A: I32[40, 5], B: I32[3, 5]):
        with T.Kernel(1, threads=32):
            x = T.alloc_reducer((5,), "int32", op="bitand")
            y = T.alloc_reducer((5,), "int32", op="bitor")
            z = T.alloc_reducer((5,), "int32", op="bitxor")
            out = T.alloc_fragment((5,), "int32")
            T.reducer_init(x)
            T.reducer_init(y)
            T.reducer_init(z)
            for i, j in T.Parallel(40, 5):
                T.reducer_update(x[j], A[i, j] | 24)
                T.reducer_update(y[j], A[i, j] & 7)
                T.reducer_update(z[j], A[i, j])
            T.finalize_reducer(x, out)
            T.copy(out, B[0, 0:5])
            T.finalize_reducer(y, out)
            T.copy(out, B[1, 0:5])
            T.finalize_reducer(z, out)
            T.copy(out, B[2, 0:5])

    a = _ints((40, 5), 5, I)
    want = [np.bitwise_and.reduce(a | 24), np.bitwise_or.reduce(a & 7), np.bitwise_xor.reduce(a)]
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def a_reducer_updated_under_a_condition():
    @T.prim_func
    def f(A: F32[64, 10], B: F32[10], N: I32[1]):
        with T.Kernel(1, threads=64):
            r = T.alloc_reducer((10,), "float32", op="sum", replication="all")
            n = T.alloc_reducer((1,), "int32", op="sum", replication="all")
            T.clear(r)
            T.clear(n)
            for i, j in T.Parallel(64, 10):
                if A[i, j] > 0:
                    r[j] += A[i, j]
                    n[0] += 1
            T.finalize_reducer(r)
            T.finalize_reducer(n)
            T.copy(r, B)
            N[0] = n[0]

    a = _ints((64, 10), 6)
    return f, [a, Out(np.where(a > 0, a, 0).sum(0)), Out(np.array([(a > 0).sum()], I))]


@program()
def dot_products_of_all_pairs_of_rows():
    @T.prim_func
    def f(A: F32[4, 64], B: F32[4, 4]):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((4, 64), "float32")
            T.copy(A, a)
            r = T.alloc_reducer((4, 4), "float32", replication="all")
            T.clear(r)
            for i in T.serial(4):
                for j in T.serial(i, 4):
                    for k in T.Parallel(64):
                        r[i, j] += a[i, k] * a[j, k]
            T.finalize_reducer(r)
            T.copy(r, B)

    a = _ints((4, 64), 7)
    return f, [a, Out(np.triu(a @ a.T))]


@program()
def groups_chosen_by_the_data():
    @T.prim_func
    def f(A: F32[128], G: I32[128], B: F32[5]):
        with T.Kernel(1, threads=64):
            r = T.alloc_reducer((5,), "float32", op="sum", replication="all")
            T.clear(r)
            for i in T.Parallel(128):
                r[G[i]] += A[i]
            T.finalize_reducer(r)
            T.copy(r, B)

    a = _ints(128, 8)
    g = (np.random.default_rng(9).integers(0, 5, 128)).astype(I)
    return f, [a, g, Out(np.bincount(g, a, 5).astype(F))]


@program()
def reducers_in_every_iteration_of_a_loop():
    @T.prim_func
    def f(A: F32[6, 32, 8], B: F32[6, 8]):
        with T.Kernel(1, threads=64):
            for k in T.serial(6):
                r = T.alloc_reducer((8,), "float32", op="max")
                T.fill(r, -T.infinity("float32"))
                for i, j in T.Parallel(32, 8):
                    r[j] = T.max(r[j], A[k, i, j])
                T.finalize_reducer(r)
                T.copy(r, B[k, 0:8])

    a = _ints((6, 32, 8), 10)
    return f, [a, Out(a.max(1))]


@program()
def a_matrix_times_a_vector():
    @T.prim_func
    def f(A: F16[20, 96], X: F16[96], Y: F32[20]):
        with T.Kernel(5, threads=32) as b:
            r = T.alloc_reducer((4,), "float32", op="sum")
            T.clear(r)
            for k in T.serial(3):
                for i, j in T.Parallel(4, 32):
                    r[i] += T.cast(A[b * 4 + i, k * 32 + j], "float32") * T.cast(
                        X[k * 32 + j], "float32"
                    )
            T.finalize_reducer(r)
            T.copy(r, Y[b * 4])

    a = _ints((20, 96), 11, np.float16)
    x = _ints(96, 12, np.float16)
    return f, [a, x, Out(a.astype(F) @ x.astype(F))]


@program()
def a_reducer_of_float16_and_of_float64():
    @T.prim_func
    def f(A: F16[32, 6], B: F16[6], C: F64[32, 6], D: F64[6]):
        with T.Kernel(1, threads=32):
            r = T.alloc_reducer((6,), "float16", op="max")
            T.fill(r, -T.infinity("float16"))
            q = T.alloc_reducer((6,), "float64", op="sum")
            T.clear(q)
            for i, j in T.Parallel(32, 6):
                r[j] = T.max(r[j], A[i, j])
                q[j] += C[i, j]
            T.finalize_reducer(r)
            T.finalize_reducer(q)
            T.copy(r, B)
            T.copy(q, D)

    a = _ints((32, 6), 13, np.float16)
    c = _ints((32, 6), 14, np.float64) * 2.0**40 + 1
    return f, [a, Out(a.max(0)), c, Out(c.sum(0))]


@program()
def a_reducer_that_a_few_threads_read():
    @T.prim_func
    def f(A: F32[5, 8], S: F32[5], B: F32[5, 3]):
        with T.Kernel(1, threads=32):
            # Three of the threads hold it, and with it the loop that reads the reducer.
            s = T.alloc_fragment((5,), "float32")
            T.annotate_layout({s: T.Fragment((5,), forward_fn=lambda i: (i // 2, i % 2))})
            T.copy(S, s)
            r = T.alloc_reducer((3,), "float32", op="sum")
            T.clear(r)
            for i, j in T.Parallel(5, 8):
                r[(i + j) % 3] += A[i, j]
            T.finalize_reducer(r)
            for i, j in T.Parallel(5, 3):
                B[i, j] = s[i] * 100 + r[j]

    a, s = _ints((5, 8), 15), _ints(5, 16)
    sums = np.zeros(3, F)
    np.add.at(sums, np.add.outer(np.arange(5), np.arange(8)) % 3, a)
    return f, [a, s, Out(s[:, None] * 100 + sums)]
