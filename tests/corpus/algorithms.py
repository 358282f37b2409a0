"""Sorting, searching, scans, histograms, graphs, strings: small whole algorithms."""

from __future__ import annotations

from functools import partial

import numpy as np
from tensor_types import F32, F64, I32, U8

import tilelang.language as T

from .registry import F, I, Out, ints, program

_ints = partial(ints, dtype=I)


@program()
def a_bitonic_sort_of_a_shared_tile():
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "int32")
            T.copy(A, s)
            for size in T.serial(1, 7):
                for step in T.serial(size):
                    x = T.alloc_fragment((64,), "int32")
                    for i in T.Parallel(64):
                        p = i ^ (1 << (size - 1 - step))
                        up = (i & (1 << size)) == 0
                        low = T.min(s[i], s[p])
                        high = T.max(s[i], s[p])
                        x[i] = T.if_then_else((i < p) == up, low, high)
                    for i in T.Parallel(64):
                        s[i] = x[i]
            T.copy(s, B)

    a = _ints(64)
    return f, [a, Out(np.sort(a))]


@program(also=("sm_90a",))
def the_largest_four_of_each_row_one_after_the_other():
    @T.prim_func
    def f(A: F32[6, 40], V: F32[6, 4], P: I32[6, 4]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((6, 40), "float32")
            m = T.alloc_fragment((6,), "float32")
            k = T.alloc_fragment((6, 40), "int32")
            p = T.alloc_fragment((6,), "int32")
            T.copy(A, x)
            for r in T.serial(4):
                T.reduce_max(x, m, dim=1)
                for i, j in T.Parallel(6, 40):
                    k[i, j] = T.if_then_else(x[i, j] == m[i], j, 1 << 20)
                T.reduce_min(k, p, dim=1)
                for i, j in T.Parallel(6, 40):
                    if j == p[i]:
                        x[i, j] = -T.infinity("float32")
                for i in T.Parallel(6):
                    V[i, r] = m[i]
                    P[i, r] = p[i]

    a = ints((6, 40), 1, F)
    order = np.argsort(-a, 1, kind="stable")[:, :4]
    return f, [a, Out(np.take_along_axis(a, order, 1)), Out(order.astype(I))]


@program(also=("sm_90a",))
def a_histogram_in_shared_memory_joined_in_global_memory():
    @T.prim_func
    def f(A: U8[500], H: I32[16]):
        with T.Kernel(4, threads=64) as b:
            s = T.alloc_shared((16,), "int32")
            T.clear(s)
            for i in T.Parallel(128):
                if b * 128 + i < 500:
                    T.atomic_add(s[T.cast(A[b * 128 + i] // 16, "int32")], 1)
            for i in T.Parallel(16):
                T.atomic_add(H[i], s[i])

    a = np.random.default_rng(2).integers(0, 256, 500).astype(np.uint8)
    return f, [a, Out(np.bincount(a // 16, minlength=16).astype(I), np.zeros(16, I))]


@program()
def a_radix_sort_by_one_bit_at_a_time():
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "int32")
            d = T.alloc_shared((64,), "int32")
            zeros = T.alloc_shared((64,), "int32")
            T.copy(A, s)
            for bit in T.serial(6):
                for i in T.Parallel(64):
                    zeros[i] = 1 - ((s[i] >> bit) & 1)
                T.cumsum(zeros)
                for i in T.Parallel(64):
                    one = (s[i] >> bit) & 1
                    place = T.if_then_else(one == 0, zeros[i] - 1, zeros[63] + i - zeros[i])
                    d[place] = s[i]
                T.copy(d, s)
            T.copy(s, B)

    a = ints(64, 3, I, 0, 64)
    return f, [a, Out(np.sort(a))]


@program()
def two_sorted_lists_merged_by_ranks():
    @T.prim_func
    def f(A: I32[40], B: I32[24], C: I32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            low = T.alloc_var("int32", 0)
            if t < 40:
                high = T.alloc_var("int32", 24)
                while low < high:
                    m = (low + high) // 2
                    if B[m] < A[t]:
                        low = m + 1
                    else:
                        high = m
                C[t + low] = A[t]
            else:
                top = T.alloc_var("int32", 40)
                while low < top:
                    m = (low + top) // 2
                    if A[m] <= B[t - 40]:
                        low = m + 1
                    else:
                        top = m
                C[t - 40 + low] = B[t - 40]

    a, b = np.sort(_ints(40, 4)), np.sort(_ints(24, 5))
    return f, [a, b, Out(np.sort(np.concatenate([a, b])))]


@program(also=("sm_90a",))
def a_scan_over_blocks_in_three_kernels():
    @T.prim_func
    def f(A: I32[200], P: I32[7], B: I32[200]):
        with T.Kernel(7, threads=32) as b:
            x = T.alloc_shared((32,), "int32")
            T.copy(A[b * 32], x)
            T.cumsum(x)
            T.copy(x, B[b * 32])
            P[b] = x[31]
        with T.Kernel(1, threads=1):
            total = T.alloc_var("int32", 0)
            for i in T.serial(7):
                mine = P[i]
                P[i] = total
                total += mine
        with T.Kernel(7, threads=32) as b:
            for i in T.Parallel(32):
                if b * 32 + i < 200:
                    B[b * 32 + i] += P[b]

    a = _ints(200, 6)
    padded = np.concatenate([a, np.zeros(24, I)]).reshape(7, 32).sum(1)
    return f, [a, Out((np.cumsum(padded) - padded).astype(I)), Out(np.cumsum(a).astype(I))]


@program()
def the_edit_distance_of_two_words_by_diagonals():
    @T.prim_func
    def f(A: I32[12], B: I32[15], D: I32[13, 16]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((13, 16), "int32")
            for i in T.Parallel(13):
                s[i, 0] = i
            for j in T.Parallel(16):
                s[0, j] = j
            for d in T.serial(2, 28):
                for i in T.Parallel(12):
                    if d - (i + 1) >= 1 and d - (i + 1) <= 15:
                        j = d - (i + 1)
                        cost = T.if_then_else(A[i] == B[j - 1], 0, 1)
                        s[i + 1, j] = T.min(
                            T.min(s[i, j] + 1, s[i + 1, j - 1] + 1), s[i, j - 1] + cost
                        )
            T.copy(s, D)

    a, b = ints(12, 7, I, 0, 3), ints(15, 8, I, 0, 3)
    s = np.zeros((13, 16), I)
    s[:, 0], s[0] = np.arange(13), np.arange(16)
    for i in range(12):
        for j in range(15):
            s[i + 1, j + 1] = min(s[i, j + 1] + 1, s[i + 1, j] + 1, s[i, j] + (a[i] != b[j]))
    return f, [a, b, Out(s)]


@program()
def shortest_paths_between_all_pairs():
    @T.prim_func
    def f(A: I32[16, 16], B: I32[16, 16]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 16), "int32")
            T.copy(A, s)
            row = T.alloc_shared((16,), "int32")
            column = T.alloc_shared((16,), "int32")
            for k in T.serial(16):
                for i in T.Parallel(16):
                    row[i] = s[k, i]
                    column[i] = s[i, k]
                for i, j in T.Parallel(16, 16):
                    s[i, j] = T.min(s[i, j], column[i] + row[j])
            T.copy(s, B)

    a = ints((16, 16), 9, I, 1, 60)
    np.fill_diagonal(a, 0)
    d = a.copy()
    for k in range(16):
        d = np.minimum(d, d[:, k : k + 1] + d[k])
    return f, [a, Out(d)]


@program()
def a_life_of_cells():
    @T.prim_func
    def f(A: U8[20, 20], B: U8[20, 20]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((20, 20), "uint8")
            n = T.alloc_shared((20, 20), "uint8")
            T.copy(A, s)
            for step in T.serial(4):
                for i, j in T.Parallel(20, 20):
                    count = T.alloc_var("int32", 0)
                    for d in T.serial(9):
                        if d != 4:
                            count += s[(i + d // 3 + 19) % 20, (j + d % 3 + 19) % 20]
                    n[i, j] = T.cast(count == 3 or (count == 2 and s[i, j] == 1), "uint8")
                T.copy(n, s)
            T.copy(s, B)

    a = (np.random.default_rng(10).random((20, 20)) < 0.35).astype(np.uint8)
    x = a.astype(I)
    for _ in range(4):
        count = sum(np.roll(x, (p, q), (0, 1)) for p in (-1, 0, 1) for q in (-1, 0, 1)) - x
        x = ((count == 3) | ((count == 2) & (x == 1))).astype(I)
    return f, [a, Out(x.astype(np.uint8))]


@program()
def rows_of_a_sparse_matrix():
    @T.prim_func
    def f(P: I32[9], C: I32[20], V: F32[20], X: F32[10], Y: F32[8]):
        with T.Kernel(1, threads=32):
            for r in T.Parallel(8):
                total = T.alloc_var("float32", 0.0)
                for k in T.serial(P[r], P[r + 1]):
                    total += V[k] * X[C[k]]
                Y[r] = total

    p = np.array([0, 2, 2, 5, 9, 10, 15, 15, 20], I)
    c, v, x = ints(20, 11, I, 0, 10), ints(20, 12, F), ints(10, 13, F)
    want = np.array([(v[p[r] : p[r + 1]] * x[c[p[r] : p[r + 1]]]).sum() for r in range(8)], F)
    return f, [p, c, v, x, Out(want)]


@program()
def positions_of_tokens_by_expert():
    """Counts, offsets and a stable permutation, as routing of tokens needs them."""

    @T.prim_func
    def f(E: I32[50], N: I32[4], O: I32[5], P: I32[50]):
        with T.Kernel(1, threads=32):
            count = T.alloc_shared((4,), "int32")
            T.clear(count)
            for i in T.Parallel(50):
                T.atomic_add(count[E[i]], 1)
            T.copy(count, N)
            start = T.alloc_shared((5,), "int32")
            start[0] = 0
            for e in T.serial(4):
                start[e + 1] = start[e] + count[e]
            T.copy(start, O)
            for i in T.Parallel(50):
                rank = T.alloc_var("int32", 0)
                for k in T.serial(i):
                    if E[k] == E[i]:
                        rank += 1
                P[start[E[i]] + rank] = i

    e = ints(50, 14, I, 0, 4)
    n = np.bincount(e, minlength=4).astype(I)
    return f, [
        e,
        Out(n),
        Out(np.concatenate([[0], np.cumsum(n)]).astype(I)),
        Out(np.argsort(e, kind="stable").astype(I)),
    ]


@program()
def numbers_without_divisors():
    @T.prim_func
    def f(B: T.Tensor((100,), "bool")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(100):
                prime = T.alloc_var("bool", i > 1)
                d = T.alloc_var("int32", 2)
                while d * d <= i and prime:
                    if i % d == 0:
                        prime = False
                    d += 1
                B[i] = prime

    want = np.array([n > 1 and all(n % d for d in range(2, n)) for n in range(100)])
    return f, [Out(want)]


@program()
def the_longest_run_of_ones():
    @T.prim_func
    def f(A: I32[10, 40], B: I32[10]):
        with T.Kernel(1, threads=32):
            for r in T.Parallel(10):
                best = T.alloc_var("int32", 0)
                run = T.alloc_var("int32", 0)
                for j in T.serial(40):
                    if A[r, j] == 1:
                        run += 1
                        best = T.max(best, run)
                    else:
                        run = 0
                B[r] = best

    a = (np.random.default_rng(15).random((10, 40)) < 0.7).astype(I)
    want = [max(len(p) for p in "".join(map(str, r)).split("0")) for r in a]
    return f, [a, Out(np.array(want, I))]


@program()
def medians_of_windows():
    @T.prim_func
    def f(A: F32[14, 14], B: F32[12, 12]):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(12, 12):
                w = T.alloc_local((9,), "float32")
                for k in T.serial(9):
                    w[k] = A[i + k // 3, j + k % 3]
                for a in T.serial(5):
                    for b in T.serial(a + 1, 9):
                        if w[b] < w[a]:
                            w[a], w[b] = w[b], w[a]
                B[i, j] = w[4]

    a = ints((14, 14), 16, F)
    windows = np.lib.stride_tricks.sliding_window_view(a, (3, 3)).reshape(12, 12, 9)
    return f, [a, Out(np.median(windows, -1).astype(F))]


@program()
def a_matrix_inverted_step_by_step():
    @T.prim_func
    def f(A: F64[8, 8], B: F64[8, 8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 16), "float64")
            row = T.alloc_shared((16,), "float64")
            col = T.alloc_shared((8,), "float64")
            for i, j in T.Parallel(8, 8):
                s[i, j] = A[i, j]
                s[i, j + 8] = T.if_then_else(i == j, T.float64(1), T.float64(0))
            for k in T.serial(8):
                for j in T.Parallel(16):
                    row[j] = s[k, j] / s[k, k]
                for i in T.Parallel(8):
                    col[i] = s[i, k]
                for i, j in T.Parallel(8, 16):
                    s[i, j] = T.if_then_else(i == k, row[j], s[i, j] - col[i] * row[j])
            for i, j in T.Parallel(8, 8):
                B[i, j] = s[i, j + 8]

    a = np.random.default_rng(17).standard_normal((8, 8)) + 8 * np.eye(8)
    return f, [a, Out(np.linalg.inv(a), rtol=1e-10, atol=1e-12)]


@program()
def a_fast_transform_of_signs():
    @T.prim_func
    def f(A: F32[3, 64], B: F32[3, 64]):
        with T.Kernel(3, threads=32) as b:
            s = T.alloc_shared((64,), "float32")
            x = T.alloc_fragment((64,), "float32")
            T.copy(A[b, 0:64], s)
            for k in T.serial(6):
                for i in T.Parallel(64):
                    x[i] = T.if_then_else(
                        (i >> k) & 1 == 0, s[i] + s[i ^ (1 << k)], s[i ^ (1 << k)] - s[i]
                    )
                T.copy(x, s)
            T.copy(s, B[b, 0:64])

    a = ints((3, 64), 18, F)
    h = np.array([[1]])
    for _ in range(6):
        h = np.block([[h, h], [h, -h]])
    return f, [a, Out((a @ h).astype(F))]
