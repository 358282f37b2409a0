"""Parallel loops: index maps, predicates, broadcasts, loops inside and outside of them."""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, I32, I64

import tilelang.language as T

from .registry import F, I, Out, ints, program


@program()
def an_index_map_that_skews():
    @T.prim_func
    def f(A: F32[12, 20], B: F32[12, 20]):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(12, 20):
                B[i, (j + 3 * i) % 20] = A[i, j]

    a = ints((12, 20))
    want = np.stack([np.roll(a[i], 3 * i) for i in range(12)])
    return f, [a, Out(want)]


@program(also=("sm_90a",))
def digits_of_an_index_reversed():
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                j = (
                    (i & 1) << 5
                    | (i & 2) << 3
                    | (i & 4) << 1
                    | (i & 8) >> 1
                    | (i & 16) >> 3
                    | (i & 32) >> 5
                )
                B[j] = A[i]

    a = ints(64, 1, I)
    j = np.array([int(f"{i:06b}"[::-1], 2) for i in range(64)])
    want = np.zeros(64, I)
    want[j] = a
    return f, [a, Out(want)]


@program()
def quotient_and_remainder_of_one_index():
    @T.prim_func
    def f(A: F32[7, 9], B: F32[9, 7]):
        with T.Kernel(1, threads=32):
            for k in T.Parallel(63):
                B[k % 9, k // 9] = A[k // 9, k % 9] + k

    a = ints((7, 9), 2)
    k = np.arange(63, dtype=F).reshape(7, 9)
    return f, [a, Out((a + k).T.copy())]


@program()
def five_dimensions():
    @T.prim_func
    def f(A: I32[2, 3, 2, 5, 4], B: I32[4, 5, 2, 3, 2]):
        with T.Kernel(1, threads=64):
            for a, b, c, d, e in T.Parallel(2, 3, 2, 5, 4):
                B[e, d, c, b, a] = A[a, b, c, d, e]

    a = np.arange(240, dtype=I).reshape(2, 3, 2, 5, 4)
    return f, [a, Out(a.transpose(4, 3, 2, 1, 0).copy())]


@program()
def rows_and_columns_broadcast():
    @T.prim_func
    def f(A: F32[18], B: F32[25], C: F32[18, 25]):
        with T.Kernel(1, threads=64):
            r = T.alloc_fragment((18,), "float32")
            c = T.alloc_shared((25,), "float32")
            x = T.alloc_fragment((18, 25), "float32")
            T.copy(A, r)
            T.copy(B, c)
            for i, j in T.Parallel(18, 25):
                x[i, j] = r[i] * c[j] - r[i] + 3
            T.copy(x, C)

    a, b = ints(18, 3), ints(25, 4)
    return f, [a, b, Out(np.outer(a, b) - a[:, None] + 3)]


@program()
def a_fragment_read_along_its_diagonal():
    @T.prim_func
    def f(A: F32[16, 16], B: F32[16], C: F32[16, 16]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16, 16), "float32")
            T.copy(A, x)
            for i in T.Parallel(16):
                B[i] = x[i, i]
            for i, j in T.Parallel(16, 16):
                C[i, j] = x[j, i] + x[i, j]

    a = ints((16, 16), 5)
    return f, [a, Out(np.diag(a).copy()), Out(a + a.T)]


@program()
def a_fragment_read_backwards():
    @T.prim_func
    def f(A: F32[60], B: F32[60]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((60,), "float32")
            y = T.alloc_fragment((60,), "float32")
            T.copy(A, x)
            for i in T.Parallel(60):
                y[i] = x[59 - i] * 2
            for i in T.Parallel(60):
                B[i] = y[i] + x[(i + 1) % 60]

    a = ints(60, 6)
    return f, [a, Out(a[::-1] * 2 + np.roll(a, -1))]


@program()
def predicates_of_the_index_and_of_the_data():
    @T.prim_func
    def f(A: I32[20, 20], B: I32[20, 20]):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(20, 20):
                B[i, j] = 0
                if i >= j and (i + j) % 3 == 0:
                    if A[i, j] > 0:
                        B[i, j] = A[i, j]
                    else:
                        B[i, j] = -1
                elif i == 0 or j == 19:
                    B[i, j] = 7

    a = ints((20, 20), 7, I)
    i, j = np.mgrid[:20, :20]
    want = np.where(
        (i >= j) & ((i + j) % 3 == 0), np.where(a > 0, a, -1), np.where((i == 0) | (j == 19), 7, 0)
    )
    return f, [a, Out(want.astype(I))]


@program()
def a_serial_loop_inside():
    @T.prim_func
    def f(A: F32[10, 33], B: F32[33, 8], C: F32[10, 8]):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(10, 8):
                total = T.alloc_var("float32", 0.0)
                for k in T.serial(33):
                    total += A[i, k] * B[k, j]
                C[i, j] = total

    a, b = ints((10, 33), 8, low=-5, high=5), ints((33, 8), 9, low=-5, high=5)
    return f, [a, b, Out(a @ b)]


@program()
def a_serial_loop_with_bounds_of_the_outer_index():
    @T.prim_func
    def f(A: F32[24], B: F32[24]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((24,), "float32")
            T.copy(A, s)
            for i in T.Parallel(24):
                B[i] = 0
                for k in T.serial(T.max(i - 3, 0), i + 1):
                    if s[k] > 40:
                        break
                    B[i] += s[k]

    a = ints(24, 10)
    want = np.zeros(24, F)
    for i in range(24):
        for k in range(max(i - 3, 0), i + 1):
            if a[k] > 40:
                break
            want[i] += a[k]
    return f, [a, Out(want)]


@program()
def inside_a_serial_loop_with_a_tile_that_is_updated():
    @T.prim_func
    def f(A: F32[16], B: F32[16]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16,), "float32")
            s = T.alloc_shared((16,), "float32")
            T.copy(A, x)
            for k in T.serial(5):
                for i in T.Parallel(16):
                    s[i] = x[i] + k
                for i in T.Parallel(16):
                    x[i] = s[15 - i] - s[(i + k) % 16]
            T.copy(x, B)

    a = ints(16, 11)
    x = a.copy()
    for k in range(5):
        s = x + k
        x = s[::-1] - np.roll(s, -k)
    return f, [a, Out(x.astype(F))]


@program()
def extents_known_at_run_time_only():
    @T.prim_func
    def f(n: T.int32, m: T.int32, A: I32[20, 20], B: I32[20, 20]):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(n, m):
                B[i, j] = A[i, j] * 2 + n

    a = ints((20, 20), 12, I)
    want = np.full((20, 20), -1, I)
    want[:7, :11] = a[:7, :11] * 2 + 7
    return f, [7, 11, a, Out(want, np.full((20, 20), -1, I))]


@program()
def empty_loops():
    @T.prim_func
    def f(n: T.int32, B: I32[8]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = 1
            for i, j in T.Parallel(4, n):
                B[i + j] = 2
            for i in T.serial(n):
                for j in T.Parallel(8):
                    B[j] = 3

    return f, [0, Out(np.full(8, 9, I), np.full(8, 9, I))]


@program()
def one_index_and_more_threads_than_work():
    @T.prim_func
    def f(A: F32[3], B: F32[1, 3, 1]):
        with T.Kernel(1, threads=256):
            x = T.alloc_fragment((3,), "float32")
            T.copy(A, x)
            for i, j, k in T.Parallel(1, 3, 1):
                B[i, j, k] = x[j] + i + k

    a = ints(3, 13)
    return f, [a, Out(a.reshape(1, 3, 1).copy())]


@program()
def neighbours_in_shared_memory():
    @T.prim_func
    def f(A: F32[18, 34], B: F32[16, 32]):
        with T.Kernel(2, 2, threads=64) as (x, y):
            s = T.alloc_shared((10, 18), "float32")
            T.copy(A[y * 8, x * 16], s)
            for i, j in T.Parallel(8, 16):
                B[y * 8 + i, x * 16 + j] = (
                    s[i, j + 1]
                    + s[i + 2, j + 1]
                    + s[i + 1, j]
                    + s[i + 1, j + 2]
                    - 4 * s[i + 1, j + 1]
                )

    a = ints((18, 34), 14)
    want = a[:-2, 1:-1] + a[2:, 1:-1] + a[1:-1, :-2] + a[1:-1, 2:] - 4 * a[1:-1, 1:-1]
    return f, [a, Out(want)]


@program()
def a_scatter_and_a_gather():
    @T.prim_func
    def f(A: F32[50], P: I32[50], B: F32[50], C: F32[50]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((50,), "float32")
            for i in T.Parallel(50):
                s[P[i]] = A[i]
            for i in T.Parallel(50):
                B[i] = s[i]
                C[i] = s[P[P[i]]]

    a = ints(50, 15)
    p = np.random.default_rng(16).permutation(50).astype(I)
    s = np.zeros(50, F)
    s[p] = a
    return f, [a, p, Out(s), Out(s[p[p]])]


@program()
def two_stores_of_one_iteration_to_different_places():
    @T.prim_func
    def f(A: I32[40], B: I32[80]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                B[i * 2] = A[i]
                B[i * 2 + 1] = -A[39 - i]

    a = ints(40, 17, I)
    return f, [a, Out(np.stack([a, -a[::-1]], 1).reshape(-1))]


@program()
def a_store_of_a_constant_and_of_the_index():
    @T.prim_func
    def f(B: F16[3, 130], C: I64[3, 130]):
        with T.Kernel(3, threads=64) as b:
            for i in T.Parallel(130):
                B[b, i] = 0.5
                C[b, i] = i * 1000 + b

    want = np.arange(130) * 1000 + np.arange(3)[:, None]
    return f, [Out(np.full((3, 130), 0.5, np.float16)), Out(want)]


@program()
def a_vector_width_as_hint():
    @T.prim_func
    def f(A: F16[8, 64], B: F16[8, 64]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((8, 64), "float16")
            T.copy(A, x, coalesced_width=2)
            for i, j in T.Parallel(8, 64, coalesced_width=4):
                x[i, j] = x[i, j] * 2
            T.copy(x, B, coalesced_width=8)

    a = ints((8, 64), 18, np.float16)
    return f, [a, Out(a * np.float16(2))]


@program()
def a_loop_layout_as_hint():
    @T.prim_func
    def f(A: F32[16, 16], B: F32[16, 16]):
        with T.Kernel(1, threads=64):
            layout = T.Fragment((16, 16), lambda i, j: (i % 8 * 8 + j % 8, i // 8 * 2 + j // 8))
            for i, j in T.Parallel(16, 16, loop_layout=layout):
                B[j, i] = A[i, j] + i

    a = ints((16, 16), 19)
    return f, [a, Out((a + np.arange(16, dtype=F)[:, None]).T.copy())]


@program()
def threads_in_three_dimensions():
    @T.prim_func
    def f(A: F32[6, 50], B: F32[6, 50], C: I32[4, 2, 8]):
        with T.Kernel(2, threads=(8, 2, 4)) as b:
            tx, ty, tz = T.get_thread_bindings()
            for i, j in T.Parallel(3, 50):
                B[b * 3 + i, j] = A[b * 3 + i, 49 - j]
            C[tz, ty, tx] = tz * 100 + ty * 10 + tx

    a = ints((6, 50), 20)
    z, y, x = np.mgrid[:4, :2, :8]
    return f, [a, Out(a[:, ::-1].copy()), Out((z * 100 + y * 10 + x).astype(I))]


@program()
def grids_in_three_dimensions():
    @T.prim_func
    def f(B: I32[2, 3, 4], C: I32[3]):
        with T.Kernel(4, 3, 2, threads=32) as (x, y, z):
            B[z, y, x] = x + y * 10 + z * 100
            C[0] = T.get_block_extent(0)
            C[1] = T.get_block_extent(1)
            C[2] = T.get_block_extent(2)

    z, y, x = np.mgrid[:2, :3, :4]
    return f, [Out((x + y * 10 + z * 100).astype(I)), Out(np.array([4, 3, 2], I))]


@program()
def a_swizzled_order_of_blocks():
    @T.prim_func
    def f(A: F32[40, 56], B: F32[40, 56]):
        with T.Kernel(7, 5, threads=32) as (x, y):
            T.use_swizzle(3)
            for i, j in T.Parallel(8, 8):
                B[y * 8 + i, x * 8 + j] = A[y * 8 + i, x * 8 + j] + 1

    a = ints((40, 56), 21)
    return f, [a, Out(a + 1)]


@program()
def persistent_blocks():
    @T.prim_func
    def f(B: I32[5, 7]):
        with T.Kernel(4, threads=32) as b:
            for i, j in T.Persistent([5, 7], 4, b, group_size=3):
                B[i, j] += i * 10 + j + 1

    i, j = np.mgrid[:5, :7]
    return f, [Out((i * 10 + j + 1).astype(I), np.zeros((5, 7), I))]


@program()
def values_bound_inside_and_used_by_several_stores():
    @T.prim_func
    def f(A: F32[48], B: F32[48], C: I32[48]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((48,), "float32")
            T.copy(A, x)
            for i in T.Parallel(48):
                v = x[i] * 2
                k = T.cast(v, "int32")
                w = v + T.cast(k % 4, "float32")
                x[i] = w
                B[i] = w * v
                C[i] = k - T.cast(x[i], "int32")

    a = ints(48, 22)
    v = a * 2
    k = v.astype(I)
    w = v + (k % 4).astype(F)
    return f, [a, Out(w * v), Out(k - w.astype(I))]


@program()
def a_loop_over_pairs_in_one_tile():
    """Iterations read what other iterations read, and each writes its own place."""

    @T.prim_func
    def f(A: I32[32], R: I32[32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "int32")
            T.copy(A, s)
            for i in T.Parallel(32):
                rank = T.alloc_var("int32", 0)
                for j in T.serial(32):
                    if s[j] < s[i] or (s[j] == s[i] and j < i):
                        rank += 1
                R[rank] = s[i]

    a = ints(32, 23, I, 0, 10)
    return f, [a, Out(np.sort(a))]


@program()
def nested_parallel_loops():
    @T.prim_func
    def f(A: F32[6, 40], B: F32[6, 40]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(6):
                for j in T.Parallel(40):
                    B[i, j] = A[5 - i, 39 - j]

    a = ints((6, 40), 24)
    return f, [a, Out(a[::-1, ::-1].copy())]


@program()
def a_parallel_loop_with_an_unrolled_one_inside():
    @T.prim_func
    def f(A: F32[32, 4], B: F32[32], C: F32[32, 4]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                x = T.alloc_local((4,), "float32")
                for k in T.unroll(4):
                    x[k] = A[i, k] * (k + 1)
                B[i] = x[0] + x[1] * x[2] - x[3]
                for k in T.vectorized(4):
                    C[i, k] = x[k]

    a = ints((32, 4), 25)
    x = a * np.arange(1, 5, dtype=F)
    return f, [a, Out(x[:, 0] + x[:, 1] * x[:, 2] - x[:, 3]), Out(x)]


@program()
def pieces_of_a_loop_around_a_triangle():
    """The inner loops of all pieces have one variable, and each has ends of its own."""

    @T.prim_func
    def f(A: I32[48], B: I32[48]):
        with T.Kernel(1, threads=48):
            for i in T.Parallel(48):
                B[i] = T.if_then_else(i < 16, 0, A[i])
                for j in T.serial(i + 1, 48):
                    if j < 4:
                        B[i] += A[j]

    a = ints(48, 26, I)
    want = np.where(np.arange(48) < 16, 0, a)
    want[2::-1] += a[3:0:-1].cumsum()
    return f, [a, Out(want)]
