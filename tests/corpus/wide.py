"""64-bit arithmetic and extents, indices that are negative at run time, far offsets."""

from __future__ import annotations

import numpy as np
from tensor_types import F32, I32, I64, U8, U32, U64

import tilelang
import tilelang.language as T

from .registry import F, I, Out, program, rows_of

L = np.int64


@program()
def arithmetic_of_64_bits():
    def rows(a, b):
        return [a + b, a * b, a // b, a % b, (a >> 7) ^ (b << 3), T.max(a, b)]

    f = rows_of(rows, I64[40], I64[40], I64[6, 40])

    rng = np.random.default_rng(0)
    a = rng.integers(-(2**62), 2**62, 40)
    b = rng.integers(1, 2**40, 40) * rng.choice([-1, 1], 40)
    with np.errstate(over="ignore"):
        want = [a + b, a * b, a // b, a % b, (a >> 7) ^ (b << 3), np.maximum(a, b)]
    return f, [a, b, Out(np.stack(want))]


@program()
def products_that_need_64_bits():
    @T.prim_func
    def f(A: I32[32], B: I64[32], C: I64[32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = T.cast(A[i], "int64") * A[i]
                C[i] = A[i] * A[i]

    a = (np.arange(32) * 100003).astype(I)
    with np.errstate(over="ignore"):
        return f, [a, Out(a.astype(L) * a), Out((a * a).astype(L))]


@program()
def extents_of_64_bits_with_small_data():
    n = T.dynamic("n", "int64")

    @T.prim_func
    def f(A: F32[n], B: F32[n], C: I64[1]):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i in T.Parallel(32):
                if b * 32 + i < n:
                    B[b * 32 + i] = A[n - 1 - (b * 32 + i)]
            if b == 0:
                C[0] = n * 4000000000

    def run(options):
        kernel = tilelang.compile(f, **options)
        for size in (1, 32, 33, 100):
            a = np.arange(size, dtype=F)
            b, c = np.zeros(size, F), np.zeros(1, L)
            kernel(a, b, c)
            Out(a[::-1].copy()).check(str(size), b)
            Out(np.array([size * 4000000000])).check("size", c)

    return run


@program()
def indices_of_64_bits_in_loops_and_copies():
    n = T.dynamic("n", "int64")

    @T.prim_func
    def f(A: F32[n, 16], R: I64[8], B: F32[8, 16]):
        with T.Kernel(8, threads=32) as b:
            x = T.alloc_fragment((16,), "float32")
            row = R[b]
            T.copy(A[row, 0:16], x)
            for i in T.serial(T.min(row, T.int64(3))):
                for j in T.Parallel(16):
                    x[j] = x[j] + T.cast(i, "float32")
            T.copy(x, B[b, 0:16])

    a = np.arange(320, dtype=F).reshape(20, 16)
    r = np.array([19, 0, 1, 5, 5, 2, 10, 3])
    add = np.array([sum(range(min(int(x), 3))) for x in r], F)
    return f, [a, r, Out(a[r] + add[:, None])]


@program()
def scalar_parameters_of_64_bits():
    @T.prim_func
    def f(n: T.int64, m: T.uint64, A: I64[3], U: U64[2]):
        with T.Kernel(1, threads=1):
            A[0] = n
            A[1] = n // 1000
            A[2] = n * 2 + 1
            U[0] = m
            U[1] = m >> 60

    n, m = -(2**40) - 7, 2**64 - 3
    return f, [
        n,
        m,
        Out(np.array([n, n // 1000, n * 2 + 1])),
        Out(np.array([m, m >> 60], np.uint64)),
    ]


@program()
def loop_variables_of_64_bits():
    @T.prim_func
    def f(S: I64[2], B: I64[6]):
        with T.Kernel(1, threads=1):
            k = T.alloc_var("int32", 0)
            for i in T.serial(S[0], S[1]):
                B[k] = i * 3
                k += 1

    start = 2**33
    s = np.array([start, start + 6])
    return f, [s, Out((start + np.arange(6)) * 3)]


@program()
def a_strided_tensor_with_far_rows():
    """The row distance times the row number passes 2**31 bytes in 32-bit arithmetic of the index."""

    s = T.dynamic("s", "int64")

    @T.prim_func
    def f(A: T.StridedTensor((3, 4), (s, 1), "int8"), B: I32[3, 4]):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(3, 4):
                B[i, j] = A[i, j]

    def run(options):
        # Only the touched pages of this exist.
        stride = 2**30 + 2**28
        base = np.zeros(2 * stride + 8, np.int8)
        a = np.lib.stride_tricks.as_strided(base, (3, 4), (stride, 1))
        a[...] = np.arange(12).reshape(3, 4)
        b = np.zeros((3, 4), I)
        tilelang.compile(f, **options)(a, b)
        Out(np.arange(12, dtype=I).reshape(3, 4)).check("B", b)

    return run


@program()
def regions_that_start_before_a_tensor_read_zero():
    """Regions of tile operations do not wrap: what precedes the tensor is outside."""

    @T.prim_func
    def f(A: F32[20], B: F32[3, 16]):
        with T.Kernel(3, threads=32) as b:
            s = T.alloc_shared((16,), "float32")
            T.copy(A[b * 8 - 5], s)
            T.copy(s, B[b, 0:16])

    a = np.arange(1, 21, dtype=F)
    padded = np.concatenate([np.zeros(5, F), a, np.zeros(20, F)])
    return f, [a, Out(np.stack([padded[k * 8 : k * 8 + 16] for k in range(3)]))]


@program()
def unsigned_indices():
    @T.prim_func
    def f(A: F32[16], P: U8[16], Q: U32[16], B: F32[2, 16]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[0, i] = A[P[i]]
                B[1, i] = A[Q[i] % 16]

    a = np.arange(16, dtype=F) + 0.5
    p = (np.arange(16) * 7 % 16).astype(np.uint8)
    q = (np.arange(16) * np.uint32(2**31 + 5)).astype(np.uint32)
    return f, [a, p, q, Out(np.stack([a[p], a[q % 16]]))]


@program()
def constant_indices_from_the_end():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: I32[n, 5], B: I32[4]):
        with T.Kernel(1, threads=1):
            B[0] = A[-1, -1]
            B[1] = A[-2, 0]
            B[-1] = A[0, -5]
            B[-2] = A[n - 1, 2]

    a = np.arange(35, dtype=I).reshape(7, 5)
    return f, [a, Out(np.array([a[-1, -1], a[-2, 0], a[-1, 2], a[0, -5]], I))]


@program()
def a_difference_of_addresses_beyond_32_bits():
    """Products of extents in index arithmetic are made in 64 bits: the quotient is small again."""

    n = T.dynamic("n", "int64")

    @T.prim_func
    def f(A: I32[n], B: I32[n]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[(i * 3000000000 + 5) // 3000000000]

    a = np.arange(10, 30, dtype=I)
    return f, [a, Out(a)]


@program()
def sums_of_64_bit_integers_reduced():
    @T.prim_func
    def f(A: I64[4, 50], B: I64[4], C: I64[4], D: I64[4, 50]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((4, 50), "int64")
            s = T.alloc_fragment((4,), "int64")
            T.copy(A, x)
            T.reduce_sum(x, s, dim=1)
            T.copy(s, B)
            T.reduce_max(x, s, dim=1)
            T.copy(s, C)
            T.cumsum(x, dim=1)
            T.copy(x, D)

    a = np.random.default_rng(2).integers(-(2**40), 2**40, (4, 50))
    return f, [a, Out(a.sum(1)), Out(a.max(1)), Out(np.cumsum(a, 1))]


@program()
def an_index_that_is_negative_at_run_time_is_outside():
    @T.prim_func
    def f(A: F32[16], B: F32[6]):
        with T.Kernel(1, threads=32):
            for t in T.serial(6):
                B[t] = A[t - 3]

    a = np.arange(16, dtype=F)
    return f, [a, Out(np.array([0, 0, 0, 0, 1, 2], F))]


@program()
def loaded_indices_that_are_negative_are_outside():
    @T.prim_func
    def f(A: I32[10, 4], P: I32[12], B: I32[12, 4]):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(12, 4):
                B[i, j] = A[P[i], j - 4]

    a = np.arange(40, dtype=I).reshape(10, 4)
    p = np.array([0, -1, -10, 5, -3, 9, 1, -9, 2, -2, -5, 3], I)
    return f, [a, p, Out(np.where((p < 0)[:, None], 0, a[p]).astype(I))]


@program()
def negative_indices_of_stores_are_dropped():
    @T.prim_func
    def f(P: I32[8], B: I32[16]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[P[i]] = i + 1

    p = np.array([-1, -16, 3, -4, 5, -9, 8, -2], I)
    want = np.zeros(16, I)
    want[[3, 5, 8]] = [3, 5, 7]
    return f, [p, Out(want, np.zeros(16, I))]


@program()
def a_ring_of_tiles_walked_backwards():
    @T.prim_func
    def f(A: F32[8], B: F32[8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8,), "float32")
            T.copy(A, s)
            for i in T.Parallel(8):
                B[i] = s[(i - 1) % 8] - s[i]

    a = np.array([1, 4, 9, 16, 25, 36, 49, 64], F)
    return f, [a, Out(np.roll(a, 1) - a)]


@program()
def negative_indices_of_atomics_are_dropped():
    @T.prim_func
    def f(P: I32[40], B: I32[5]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                T.atomic_add(B[P[i]], 1)

    p = (np.arange(40) % 10 - 5).astype(I)
    return f, [p, Out(np.full(5, 4, I), np.zeros(5, I))]


@program()
def an_index_that_is_known_to_be_negative_counts_from_the_end():
    @T.prim_func
    def f(A: I32[8], B: I32[12], C: I32[8]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(10):
                B[i] = A[i - 10]
            for i in T.serial(2):
                B[10 + i] = A[-1 - i]
            for i in T.Parallel(10):
                C[i - 10] = i

    a = np.arange(1, 9, dtype=I)
    want = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 8, 7], I)
    return f, [a, Out(want), Out(np.arange(2, 10, dtype=I))]


@program()
def a_stencil_with_a_ring_boundary():
    @T.prim_func
    def f(A: F32[6, 10], B: F32[6, 10]):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(6, 10):
                B[i, j] = (
                    A[(i - 1) % 6, j]
                    + A[i, (j - 1) % 10]
                    - 2 * A[i, j]
                    + A[(i + 1) % 6, j]
                    + A[i, (j + 1) % 10]
                )

    a = np.random.default_rng(1).integers(-9, 9, (6, 10)).astype(F)
    want = np.roll(a, 1, 0) + np.roll(a, 1, 1) - 2 * a + np.roll(a, -1, 0) + np.roll(a, -1, 1)
    return f, [a, Out(want)]


@program()
def remainders_as_indices():
    """`(i - k) % n` is never negative, `T.truncmod` may be and is outside then."""

    @T.prim_func
    def f(A: I32[7], B: I32[2, 30]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(30):
                B[0, i] = A[(i - 15) % 7]
                B[1, i] = A[T.truncmod(i - 15, 7)]

    a = np.arange(10, 17, dtype=I)
    i = np.arange(30) - 15
    return f, [a, Out(np.stack([a[i % 7], np.where(np.fmod(i, 7) < 0, 0, a[np.fmod(i, 7)])]))]
