"""Copies: edges, anchors, ranks, casts, sizes of each call."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tensor_types import BF16, F16, F32, F64, I8, I16, I32, I64

import tilelang
import tilelang.language as T

from .registry import F, H, I, Out, ints, program


@program()
def edges_in_both_directions_by_all_scopes():
    @T.prim_func
    def f(A: F32[35, 27], B: F32[35, 27]):
        with T.Kernel(T.ceildiv(27, 16), T.ceildiv(35, 16), threads=64) as (x, y):
            s = T.alloc_shared((16, 16), "float32")
            r = T.alloc_fragment((16, 16), "float32")
            q = T.alloc_shared((16, 16), "float32")
            T.copy(A[y * 16, x * 16], s)
            T.copy(s, r)
            T.copy(r, q)
            T.copy(q, B[y * 16, x * 16])

    a = ints((35, 27))
    return f, [a, Out(a)]


@program()
def what_is_outside_reads_zero():
    @T.prim_func
    def f(A: F32[5, 6], B: F32[8, 8], C: F32[8, 8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 8), "float32")
            T.fill(s, 99)
            T.copy(A[0, 0], s)
            T.copy(s, B)
            T.copy(A[3, 2], s)
            T.copy(s, C)

    a = ints((5, 6), 1) + F(0.5)
    b = np.zeros((8, 8), F)
    b[:5, :6] = a
    c = np.zeros((8, 8), F)
    c[:2, :4] = a[3:, 2:]
    return f, [a, Out(b), Out(c)]


@program()
def a_safe_value_for_what_is_outside():
    @T.prim_func
    def f(A: I32[10], B: I32[16], C: I32[16]):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: -7})
            s = T.alloc_shared((16,), "int32")
            T.copy(A[4], s)
            T.copy(s, B)
            for i in T.Parallel(16):
                C[i] = A[i + 2] * 2

    a = np.arange(10, dtype=I)
    b = np.full(16, -7, I)
    b[:6] = a[4:]
    c = np.full(16, -14, I)
    c[:8] = a[2:] * 2
    return f, [a, Out(b), Out(c)]


@program()
def negative_indices_are_outside_of_a_tensor_with_a_safe_value():
    @T.prim_func
    def f(A: I32[10], B: I32[10, 4], C: I32[4]):
        with T.Kernel(1, threads=32):
            T.annotate_safe_value({A: -7})
            for i, k in T.Parallel(10, 4):  # a causal window
                B[i, k] = A[i + k - 3]
            for i in T.serial(4):
                C[i] = A[-1] + A[i - 2]

    a = np.arange(10, dtype=I)
    padded = np.concatenate([np.full(3, -7, I), a])
    b = np.stack([padded[k : k + 10] for k in range(4)], axis=1)
    return f, [a, Out(b), Out(np.array([2, 2, 9, 10], I))]


@program()
def a_shorter_slice_does_not_shorten_the_copy():
    @T.prim_func
    def f(A: F32[20], B: F32[16]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16,), "float32")
            T.copy(A[2:10], x)
            T.copy(x, B)

    a = ints(20, 2)
    return f, [a, Out(a[2:18].copy())]


@program()
def units_are_left_out():
    @T.prim_func
    def f(A: F32[3, 5, 4, 8], B: F32[5, 8], C: F32[1, 4, 1, 8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((5, 8), "float32")
            x = T.alloc_fragment((4, 8), "float32")
            T.copy(A[1, 0:5, 2, 0:8], s)
            T.copy(s, B)
            T.copy(A[2, 3, :, :], x)
            T.copy(x, C[0, :, 0, :])

    a = ints((3, 5, 4, 8), 3)
    return f, [a, Out(a[1, :, 2].copy()), Out(a[2, 3].reshape(1, 4, 1, 8).copy())]


@program()
def anchors_of_higher_rank():
    @T.prim_func
    def f(A: F16[2, 3, 20, 24], B: F16[2, 3, 20, 24]):
        with T.Kernel(3, 2, threads=64) as (h, b):
            s = T.alloc_shared((16, 16), "float16")
            T.copy(A[b, h, 8, 16], s)
            T.copy(s, B[b, h, 2, 1])

    a = ints((2, 3, 20, 24), 4, H)
    want = np.full((2, 3, 20, 24), 5, H)
    tile = np.zeros((2, 3, 16, 16), H)
    tile[:, :, :12, :8] = a[:, :, 8:, 16:]
    want[:, :, 2:18, 1:17] = tile
    return f, [a, Out(want, np.full((2, 3, 20, 24), 5, H))]


@program()
def single_elements():
    @T.prim_func
    def f(A: F32[4, 4], B: I32[4]):
        with T.Kernel(1, threads=1):
            x = T.alloc_local((2,), "float32")
            T.copy(A[1, 2], x[0])
            T.copy(A[3, 3], B[1])
            T.copy(x[0], B[0])
            T.copy(A[0, 0], x[1])
            B[2] = x[1]
            B[3] = x[0] + x[1]

    a = ints((4, 4), 5) + F(0.75)
    want = np.trunc(np.array([a[1, 2], a[3, 3], a[0, 0], a[1, 2] + a[0, 0]])).astype(I)
    return f, [a, Out(want)]


@program()
def casts_between_scopes():
    @T.prim_func
    def f(A: F32[12, 40], B: I8[12, 40], C: BF16[12, 40], D: F64[12, 40]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((12, 40), "float16")
            x = T.alloc_fragment((12, 40), "bfloat16")
            T.copy(A, s)
            T.copy(s, B)
            T.copy(s, x)
            T.copy(x, C)
            T.copy(x, D)

    a = ints((12, 40), 6) + F(0.3)
    s = a.astype(H)
    c = s.astype(F).astype(ml_dtypes.bfloat16)
    return f, [a, Out(np.trunc(s).astype(np.int8)), Out(c), Out(c.astype(np.float64))]


@program()
def global_to_global():
    @T.prim_func
    def f(A: F32[20, 30], B: F16[20, 30], C: F32[10, 10]):
        with T.Kernel(2, threads=64) as b:
            T.copy(A[b * 10 : b * 10 + 10, 0:30], B[b * 10 : b * 10 + 10, 0:30])
            if b == 1:
                T.copy(A[5:15, 20:30], C)

    a = ints((20, 30), 7)
    return f, [a, Out(a.astype(H)), Out(a[5:15, 20:30].copy())]


@program()
def shared_tiles_of_every_element_size():
    @T.prim_func
    def f(
        A: I8[50], B: I16[50], C: I64[50], D: T.Tensor((50,), "bool"), E: I8[50], G: I16[50],
        J: I64[50], K: T.Tensor((50,), "bool"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((50,), "int8")
            b = T.alloc_shared((50,), "int16")
            c = T.alloc_shared((50,), "int64")
            d = T.alloc_shared((50,), "bool")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.copy(D, d)
            for i in T.Parallel(50):
                E[i] = a[49 - i]
                G[i] = b[49 - i]
                J[i] = c[49 - i]
                K[i] = d[49 - i]

    arrays = [
        ints(50, 8, np.int8),
        ints(50, 9, np.int16),
        ints(50, 10, np.int64) * 2**40,
        ints(50, 11) > 0,
    ]
    return f, [*arrays, *(Out(x[::-1].copy()) for x in arrays)]


@program()
def tiles_larger_than_the_tensor():
    @T.prim_func
    def f(A: F32[3, 5], B: F32[3, 5], S: F32[1]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16, 16), "float32")
            r = T.alloc_fragment((16,), "float32")
            q = T.alloc_fragment((1,), "float32")
            T.copy(A[0, 0], x)
            T.reduce_sum(x, r, dim=1)
            T.reduce_sum(r, q)
            S[0] = q[0]
            for i, j in T.Parallel(16, 16):
                x[i, j] = x[i, j] + 1
            T.copy(x, B[0, 0])

    a = ints((3, 5), 12)
    return f, [a, Out(a + 1), Out(np.array([a.sum()], F))]


@program()
def rows_of_a_dynamic_tensor():
    n, m = T.dynamic("n, m")

    @T.prim_func
    def f(A: F32[n, m], B: F32[m, n]):
        with T.Kernel(T.ceildiv(m, 16), T.ceildiv(n, 16), threads=64) as (x, y):
            s = T.alloc_shared((16, 16), "float32")
            d = T.alloc_shared((16, 16), "float32")
            T.copy(A[y * 16, x * 16], s)
            T.transpose(s, d)
            T.copy(d, B[x * 16, y * 16])

    def run(options):
        kernel = tilelang.compile(f, **options)
        for shape in ((16, 16), (1, 1), (17, 3), (33, 50), (5, 64)):
            a = ints(shape, 13)
            b = np.zeros(shape[::-1], F)
            kernel(a, b)
            Out(a.T.copy()).check(str(shape), b)

    return run


@program()
def a_fill_with_a_value_of_the_run():
    @T.prim_func
    def f(v: T.float32, A: I32[3], B: F32[3, 40], C: I32[3, 40]):
        with T.Kernel(3, threads=32) as b:
            x = T.alloc_fragment((40,), "float32")
            s = T.alloc_shared((40,), "int32")
            T.fill(x, v * 2)
            T.fill(s, A[b] + b)
            T.copy(x, B[b, 0:40])
            T.copy(s, C[b, 0:40])

    a = np.array([5, -5, 100], I)
    return f, [
        1.5,
        a,
        Out(np.full((3, 40), 3, F)),
        Out(np.repeat((a + np.arange(3)).astype(I)[:, None], 40, 1)),
    ]


@program()
def copies_at_odd_places_of_small_types():
    @T.prim_func
    def f(A: I8[3, 101], B: I8[3, 99], C: F16[200], D: F16[67]):
        with T.Kernel(3, threads=32) as b:
            s = T.alloc_shared((96,), "int8")
            T.copy(A[b, 3], s)
            T.copy(s, B[b, 1:97])
            if b == 0:
                x = T.alloc_fragment((64,), "float16")
                T.copy(C[7], x)
                T.copy(x, D[3])

    a = ints((3, 101), 14, np.int8)
    c = ints(200, 15, H)
    b = np.full((3, 99), 9, np.int8)
    b[:, 1:97] = a[:, 3:99]
    d = np.full(67, 9, H)
    d[3:] = c[7:71]
    return f, [a, Out(b, np.full((3, 99), 9, np.int8)), c, Out(d, np.full(67, 9, H))]


@program()
def asynchronous_copies_with_waits():
    @T.prim_func
    def f(A: F32[4, 64], B: F32[4, 64]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((2, 64), "float32")
            T.async_copy(A[0, 0:64], s[0, :])
            for k in T.serial(4):
                if k + 1 < 4:
                    T.async_copy(A[k + 1, 0:64], s[(k + 1) % 2, :])
                    T.ptx_wait_group(1)
                else:
                    T.ptx_wait_group(0)
                T.sync_threads()
                for i in T.Parallel(64):
                    B[k, i] = s[k % 2, 63 - i]
                T.sync_threads()

    a = ints((4, 64), 16)
    return f, [a, Out(a[:, ::-1].copy())]


@program()
def the_same_source_and_destination():
    @T.prim_func
    def f(A: F32[4, 32]):
        with T.Kernel(4, threads=32) as b:
            s = T.alloc_shared((32,), "float32")
            T.copy(A[b, 0:32], s)
            for i in T.Parallel(32):
                s[i] = s[i] * s[i]
            T.copy(s, A[b, 0:32])

    a = ints((4, 32), 17)
    return f, [Out(a * a, a)]


@program()
def keywords_that_never_change_a_copy():
    @T.prim_func
    def f(A: F16[32, 64], B: F16[32, 64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((32, 64), "float16")
            x = T.alloc_fragment((32, 64), "float16")
            T.copy(A, s, disable_tma=True, eviction_policy="evict_first", prefer_instruction="sync")
            T.copy(s, x, coalesced_width=4)
            T.copy(x, B, eviction_policy="evict_last")

    a = ints((32, 64), 18, H)
    return f, [a, Out(a)]


@program()
def dynamic_slices_into_static_tiles():
    n = T.dynamic("n")

    @T.prim_func
    def f(C: I32[n], B: I32[8], D: I32[n]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8,), "int32")
            T.copy(C[: n - 1], s)
            T.copy(s, B)
            T.copy(C[1:n], D[0 : n - 1])
            D[n - 1] = -1

    def run(options):
        kernel = tilelang.compile(f, **options)
        for size in (2, 5, 8, 9):
            c = np.arange(1, size + 1, dtype=I)
            b, d = np.zeros(8, I), np.zeros(size, I)
            kernel(c, b, d)
            # the bound is the shape of the tensor, not the end of the slice
            Out(np.concatenate([c, np.zeros(8, I)])[:8]).check(f"B of {size}", b)
            Out(np.append(c[1:], I(-1))).check(f"D of {size}", d)

    return run


@program()
def slices_that_end_at_a_run_time_value():
    m, n = T.dynamic("m"), T.dynamic("n")

    @T.prim_func
    def f(A: F32[m, n], L: I32[2], k: T.int32, B: F32[2, 4, 8], C: F32[m, n]):
        with T.Kernel(2, threads=32) as b:
            x = T.alloc_fragment((4, 8), "float32")
            s = T.alloc_shared((4, 8), "float32")
            T.copy(A[L[b] : m - 1, k:n], x)
            T.copy(A[L[b] : L[b] + k, : n - k], s)
            for i, j in T.Parallel(4, 8):
                x[i, j] = x[i, j] * 100 + s[i, j]
            T.copy(x, B[b, :, :])
            if b == 1:
                T.copy(x, C[k : m - 1, 1:k])

    def run(options):
        kernel = tilelang.compile(f, **options)
        for rows, columns, k in ((5, 6, 2), (9, 20, 3), (3, 1, 1)):
            a, starts = ints((rows, columns), 5), np.array([0, 2], I)
            b, c = np.full((2, 4, 8), -1, F), np.full((rows, columns), -2, F)
            kernel(a, starts, k, b, c)
            # the tile says how much is copied, the shape of the tensor where it ends
            padded = np.zeros((rows + 4, columns + 8 + k), F)
            padded[:rows, :columns] = a
            wanted = np.stack(
                [padded[s : s + 4, k : k + 8] * 100 + padded[s : s + 4, :8] for s in starts]
            )
            Out(wanted).check(f"B of {rows} x {columns}", b)
            target = np.full((rows, columns), -2, F)
            part = target[k : k + 4, 1:9]
            part[:] = wanted[1, : part.shape[0], : part.shape[1]]
            Out(target).check(f"C of {rows} x {columns}", c)

    return run


@program()
def a_fill_of_global_memory():
    @T.prim_func
    def f(B: F16[10, 20], C: I64[10, 20]):
        with T.Kernel(2, threads=64) as b:
            T.fill(B[b * 5 : b * 5 + 5, 0:20], b + 1)
            if b == 0:
                T.clear(C)
                T.fill(C[3:7, 5:8], -1)

    want = np.zeros((10, 20), np.int64)
    want[3:7, 5:8] = -1
    return f, [Out(np.repeat([[1.0], [2.0]], 5, 0).repeat(20, 1).astype(H)), Out(want)]
