"""Reductions and scans of tiles: kinds, dimensions, scopes, old contents of the result."""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, I8, I32, U8, U32

import tilelang.language as T

from .registry import F, H, I, Out, program

NAN = np.nan
KINDS = (
    T.reduce_sum, T.reduce_max, T.reduce_min, T.reduce_absmax, T.reduce_bitand, T.reduce_bitor,
    T.reduce_bitxor,
)  # fmt: skip


def _ints(shape, seed=0, low=-50, high=50, dtype=I):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


@program()
def all_kinds_along_rows():
    @T.prim_func
    def f(A: I32[12, 40], B: I32[8, 12]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((12, 40), "int32")
            r = T.alloc_fragment((12,), "int32")
            T.copy(A, x)
            for row, reduce in enumerate((*KINDS[:4], T.reduce_abssum, *KINDS[4:])):
                reduce(x, r, dim=1)
                T.copy(r, B[row, 0:12])

    a = _ints((12, 40)) | 4
    want = [
        a.sum(1), a.max(1), a.min(1), np.abs(a).max(1), np.abs(a).sum(1),
        np.bitwise_and.reduce(a, 1), np.bitwise_or.reduce(a, 1), np.bitwise_xor.reduce(a, 1),
    ]  # fmt: skip
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def all_kinds_added_to_what_was_there():
    @T.prim_func
    def f(A: I32[8, 33], S: I32[8], B: I32[7, 8]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 33), "int32")
            r = T.alloc_fragment((8,), "int32")
            T.copy(A, x)
            for row, reduce in enumerate(KINDS):
                T.copy(S, r)
                reduce(x, r, dim=1, clear=False)
                T.copy(r, B[row, 0:8])

    a = _ints((8, 33), 1)
    s = np.array([1000, -1000, 0, 49, -51, 7, 3, -7], I)
    want = [
        s + a.sum(1), np.maximum(s, a.max(1)), np.minimum(s, a.min(1)), np.maximum(s, np.abs(a).max(1)),
        s & np.bitwise_and.reduce(a, 1), s | np.bitwise_or.reduce(a, 1), s ^ np.bitwise_xor.reduce(a, 1),
    ]  # fmt: skip
    return f, [a, s, Out(np.stack(want).astype(I))]


@program(also=("sm_90a",))
def along_columns_with_odd_extents():
    @T.prim_func
    def f(A: F32[37, 19], B: F32[19], C: F32[19]):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((37, 19), "float32")
            r = T.alloc_fragment((19,), "float32")
            T.copy(A, x)
            T.reduce_sum(x, r, dim=0)
            T.copy(r, B)
            T.reduce_max(x, r, dim=0)
            T.copy(r, C)

    a = _ints((37, 19), 2, dtype=F)
    return f, [a, Out(a.sum(0)), Out(a.max(0))]


@program()
def every_dimension_of_three():
    @T.prim_func
    def f(A: I32[4, 6, 10], B: I32[6, 10], C: I32[4, 10], D: I32[4, 6]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((4, 6, 10), "int32")
            p = T.alloc_fragment((6, 10), "int32")
            q = T.alloc_fragment((4, 10), "int32")
            r = T.alloc_fragment((4, 6), "int32")
            T.copy(A, x)
            T.reduce_sum(x, p, dim=0)
            T.reduce_max(x, q, dim=-2)
            T.reduce_min(x, r, dim=2)
            T.copy(p, B)
            T.copy(q, C)
            T.copy(r, D)

    a = _ints((4, 6, 10), 3)
    return f, [a, Out(a.sum(0).astype(I)), Out(a.max(1)), Out(a.min(2))]


@program()
def the_reduced_dimension_is_kept_with_extent_one():
    @T.prim_func
    def f(A: F32[6, 24], B: F32[6, 1], C: F32[1, 24]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((6, 24), "float32")
            r = T.alloc_fragment((6, 1), "float32")
            c = T.alloc_fragment((1, 24), "float32")
            T.copy(A, x)
            T.reduce_sum(x, r, dim=1)
            T.reduce_absmax(x, c, dim=0)
            T.copy(r, B)
            T.copy(c, C)

    a = _ints((6, 24), 4, dtype=F)
    return f, [a, Out(a.sum(1, keepdims=True)), Out(np.abs(a).max(0, keepdims=True))]


@program()
def a_row_to_one_number():
    @T.prim_func
    def f(A: F32[5, 77], B: F32[5], C: F32[5]):
        with T.Kernel(5, threads=128) as b:
            x = T.alloc_fragment((77,), "float32")
            r = T.alloc_fragment((1,), "float32")
            m = T.alloc_shared((1,), "float32")
            T.copy(A[b, 0:77], x)
            T.reduce_sum(x, r)
            B[b] = r[0]
            T.reduce_max(x, m, dim=0)
            C[b] = m[0]

    a = _ints((5, 77), 5, dtype=F)
    return f, [a, Out(a.sum(1)), Out(a.max(1))]


@program()
def from_and_to_shared_tiles():
    @T.prim_func
    def f(A: F32[16, 20], B: F32[16], C: F32[20], D: F32[16]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 20), "float32")
            x = T.alloc_fragment((16, 20), "float32")
            sr = T.alloc_shared((16,), "float32")
            fc = T.alloc_fragment((20,), "float32")
            T.copy(A, s)
            T.copy(A, x)
            T.reduce_sum(s, sr, dim=1)
            T.reduce_sum(s, fc, dim=0)
            T.copy(sr, B)
            T.copy(fc, C)
            T.reduce_max(x, sr, dim=1)
            T.copy(sr, D)

    a = _ints((16, 20), 6, dtype=F)
    return f, [a, Out(a.sum(1)), Out(a.sum(0)), Out(a.max(1))]


@program()
def local_arrays_are_reduced_by_each_thread():
    @T.prim_func
    def f(A: I32[64, 8], B: I32[64], C: I32[64, 2]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            x = T.alloc_local((8,), "int32")
            y = T.alloc_local((2, 4), "int32")
            r = T.alloc_local((1,), "int32")
            q = T.alloc_local((2,), "int32")
            for j in T.serial(8):
                x[j] = A[t, j]
                y[j // 4, j % 4] = A[t, j]
            T.reduce_sum(x, r)
            T.reduce_max(y, q, dim=1)
            B[t] = r[0]
            C[t, 0] = q[0]
            C[t, 1] = q[1]

    a = _ints((64, 8), 7)
    return f, [a, Out(a.sum(1).astype(I)), Out(a.reshape(64, 2, 4).max(2))]


@program()
def nan_is_ignored_or_kept():
    @T.prim_func
    def f(A: F32[4, 48], B: F32[4, 4]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((4, 48), "float32")
            r = T.alloc_fragment((4,), "float32")
            T.copy(A, x)
            T.reduce_max(x, r, dim=1)
            T.copy(r, B[0, 0:4])
            T.reduce_max(x, r, dim=1, nan_propagate=True)
            T.copy(r, B[1, 0:4])
            T.reduce_min(x, r, dim=1, nan_propagate=True)
            T.copy(r, B[2, 0:4])
            T.reduce_absmax(x, r, dim=1, nan_propagate=True)
            T.copy(r, B[3, 0:4])

    a = _ints((4, 48), 8, dtype=F)
    a[0, 47], a[2, 0] = NAN, NAN
    a[3, 1] = -np.inf
    want = [np.fmax.reduce(a, 1), a.max(1), a.min(1), np.abs(a).max(1)]
    return f, [a, Out(np.stack(want))]


@program()
def sums_accumulate_in_the_dtype_of_the_result():
    @T.prim_func
    def f(A: F16[4, 512], B: F32[4], C: I32[4], D: I8[4, 100]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((4, 512), "float16")
            r = T.alloc_fragment((4,), "float32")
            y = T.alloc_fragment((4, 100), "int8")
            q = T.alloc_fragment((4,), "int32")
            T.copy(A, x)
            T.reduce_sum(x, r, dim=1)
            T.copy(r, B)
            T.copy(D, y)
            T.reduce_sum(y, q, dim=1)
            T.copy(q, C)

    a = _ints((4, 512), 9, 100, 200, H)
    d = _ints((4, 100), 10, 50, 127, np.int8)
    return f, [a, Out(a.astype(F).sum(1)), Out(d.astype(I).sum(1).astype(I)), d]


@program()
def unsigned_maxima_and_minima():
    @T.prim_func
    def f(A: U32[6, 30], B: U32[6], C: U32[6], D: U8[6, 30], E: U8[6]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((6, 30), "uint32")
            r = T.alloc_fragment((6,), "uint32")
            y = T.alloc_fragment((6, 30), "uint8")
            q = T.alloc_fragment((6,), "uint8")
            T.copy(A, x)
            T.copy(D, y)
            T.reduce_max(x, r, dim=1)
            T.copy(r, B)
            T.reduce_min(x, r, dim=1)
            T.copy(r, C)
            T.reduce_min(y, q, dim=1)
            T.copy(q, E)

    a = np.random.default_rng(11).integers(0, 2**32, (6, 30)).astype(np.uint32)
    d = np.random.default_rng(12).integers(100, 256, (6, 30)).astype(np.uint8)
    return f, [a, Out(a.max(1)), Out(a.min(1)), d, Out(d.min(1))]


@program()
def a_result_used_for_every_element_again():
    @T.prim_func
    def f(A: F32[20, 50], B: F32[20, 50]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((20, 50), "float32")
            m = T.alloc_fragment((20,), "float32")
            c = T.alloc_fragment((50,), "float32")
            T.copy(A, x)
            for k in T.serial(3):
                T.reduce_max(x, m, dim=1)
                for i, j in T.Parallel(20, 50):
                    x[i, j] = x[i, j] - m[i]
                T.reduce_min(x, c, dim=0)
                for i, j in T.Parallel(20, 50):
                    x[i, j] = x[i, j] - c[j] + k
            T.copy(x, B)

    a = _ints((20, 50), 13, dtype=F)
    w = a.copy()
    for k in range(3):
        w = w - w.max(1, keepdims=True)
        w = w - w.min(0) + k
    return f, [a, Out(w.astype(F))]


@program()
def an_argument_of_the_maximum_by_two_reductions():
    @T.prim_func
    def f(A: F32[9, 40], P: I32[9]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((9, 40), "float32")
            m = T.alloc_fragment((9,), "float32")
            p = T.alloc_fragment((9, 40), "int32")
            first = T.alloc_fragment((9,), "int32")
            T.copy(A, x)
            T.reduce_max(x, m, dim=1)
            for i, j in T.Parallel(9, 40):
                p[i, j] = T.if_then_else(x[i, j] == m[i], j, 1000)
            T.reduce_min(p, first, dim=1)
            T.copy(first, P)

    a = _ints((9, 40), 14, 0, 8, F)
    return f, [a, Out(a.argmax(1).astype(I))]


@program(also=("sm_90a",))
def scans_forward_and_backward():
    @T.prim_func
    def f(A: I32[10, 24], B: I32[4, 10, 24]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((10, 24), "int32")
            y = T.alloc_fragment((10, 24), "int32")
            s = T.alloc_shared((10, 24), "int32")
            T.copy(A, x)
            T.cumsum(x, y, dim=1)
            T.copy(y, B[0, 0:10, 0:24])
            T.cumsum(x, y, dim=0, reverse=True)
            T.copy(y, B[1, 0:10, 0:24])
            T.copy(A, s)
            T.cumsum(s, dim=-1, reverse=True)
            T.copy(s, B[2, 0:10, 0:24])
            T.cummax(x, y, dim=0)
            T.copy(y, B[3, 0:10, 0:24])

    a = _ints((10, 24), 15)
    back = lambda x, axis: np.flip(np.cumsum(np.flip(x, axis), axis), axis)
    want = [np.cumsum(a, 1), back(a, 0), back(a, 1), np.maximum.accumulate(a, 0)]
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def a_scan_longer_than_the_block():
    @T.prim_func
    def f(A: F32[300], B: F32[300], C: F32[300]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((300,), "float32")
            x = T.alloc_fragment((300,), "float32")
            T.copy(A, s)
            T.cumsum(s)
            T.copy(s, B)
            T.copy(A, x)
            T.cummax(x, dim=0, reverse=True)
            T.copy(x, C)

    a = _ints(300, 16, dtype=F)
    return f, [a, Out(np.cumsum(a).astype(F)), Out(np.maximum.accumulate(a[::-1])[::-1].copy())]


@program()
def reductions_of_one_row_and_one_column():
    @T.prim_func
    def f(A: F32[1, 64], B: F32[64, 1], C: F32[1], D: F32[64], E: F32[1]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((1, 64), "float32")
            y = T.alloc_fragment((64, 1), "float32")
            r = T.alloc_fragment((1,), "float32")
            q = T.alloc_fragment((64,), "float32")
            T.copy(A, x)
            T.copy(B, y)
            T.reduce_sum(x, r, dim=1)
            T.copy(r, C)
            T.reduce_sum(y, q, dim=1)
            T.copy(q, D)
            T.reduce_min(y, r, dim=0)
            T.copy(r, E)

    a = _ints((1, 64), 17, dtype=F)
    b = _ints((64, 1), 18, dtype=F)
    return f, [a, b, Out(a.sum(1)), Out(b[:, 0].copy()), Out(b.min(0))]


@program()
def a_partial_tile_reduced_with_its_safe_value():
    """Elements outside the tensor take part with the safe value: the identity has to be chosen."""

    @T.prim_func
    def f(A: F32[5, 50], B: F32[5]):
        with T.Kernel(1, threads=64):
            T.annotate_safe_value({A: -1e30})
            x = T.alloc_fragment((8, 64), "float32")
            r = T.alloc_fragment((8,), "float32")
            T.copy(A[0, 0], x)
            T.reduce_max(x, r, dim=1)
            T.copy(r, B[0])

    a = _ints((5, 50), 19, -50, -1, F)
    return f, [a, Out(a.max(1))]


@program()
def reductions_inside_a_loop_over_tiles():
    @T.prim_func
    def f(A: F32[16, 100], M: F32[16], S: F32[16]):
        with T.Kernel(2, threads=64) as b:
            x = T.alloc_fragment((8, 32), "float32")
            m = T.alloc_fragment((8,), "float32")
            s = T.alloc_fragment((8,), "float32")
            T.fill(m, -T.infinity("float32"))
            T.clear(s)
            for k in T.serial(T.ceildiv(100, 32)):
                T.copy(A[b * 8, k * 32], x)
                for i, j in T.Parallel(8, 32):
                    x[i, j] = T.if_then_else(k * 32 + j < 100, x[i, j], -T.infinity("float32"))
                T.reduce_max(x, m, dim=1, clear=False)
                for i, j in T.Parallel(8, 32):
                    x[i, j] = T.if_then_else(k * 32 + j < 100, x[i, j], 0.0)
                T.reduce_sum(x, s, dim=1, clear=False)
            T.copy(m, M[b * 8])
            T.copy(s, S[b * 8])

    a = _ints((16, 100), 20, -90, -1, F)
    return f, [a, Out(a.max(1)), Out(a.sum(1))]


@program()
def a_reduction_by_some_of_the_threads():
    @T.prim_func
    def f(A: F32[8, 64], B: F32[8], C: F32[8]):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            if t < 128:
                x = T.alloc_fragment((8, 64), "float32")
                r = T.alloc_fragment((8,), "float32")
                T.copy(A, x)
                T.reduce_sum(x, r, dim=1)
                T.copy(r, B)
            else:
                y = T.alloc_fragment((8, 64), "float32")
                q = T.alloc_fragment((8,), "float32")
                T.copy(A, y)
                T.reduce_max(y, q, dim=1)
                T.copy(q, C)

    a = _ints((8, 64), 21, dtype=F)
    return f, [a, Out(a.sum(1)), Out(a.max(1))]


@program()
def an_accumulating_loop_over_a_missing_index():
    @T.prim_func
    def f(A: F32[12, 30], B: F32[12], C: F32[30]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((12, 30), "float32")
            r = T.alloc_fragment((12,), "float32")
            c = T.alloc_fragment((30,), "float32")
            T.copy(A, x)
            T.clear(r)
            T.fill(c, 1.0)
            for i, j in T.Parallel(12, 30):
                r[i] += x[i, j]
            for i, j in T.Parallel(12, 30):
                c[j] += x[i, j] * 2
            T.copy(r, B)
            T.copy(c, C)

    a = _ints((12, 30), 22, dtype=F)
    return f, [a, Out(a.sum(1)), Out(a.sum(0) * 2 + 1)]
