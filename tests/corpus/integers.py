"""Integers: division, shifts, wrapping, promotion, bits, booleans."""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, I8, I16, I32, I64, U8, U16, U32, U64

import tilelang.language as T

from .registry import F, I, Out, U, program, rows_of


@program()
def division_and_remainder_round_down():
    def rows(a, b):
        return [a // b, a % b, T.truncdiv(a, b), T.truncmod(a, b)]

    f = rows_of(rows, I32[84], I32[84], I32[4, 84])

    a, b = (x.reshape(-1).astype(I) for x in np.meshgrid(np.arange(-7, 7), [-5, -3, -1, 1, 2, 5]))
    quotient = np.trunc(a / b).astype(I)
    return f, [a, b, Out(np.stack([a // b, a % b, quotient, a - quotient * b]))]


@program()
def division_by_constants():
    def rows(a):
        return [
            a // 8, a % 8, a // 7, a % 7, a // -4, a % -4, (a * 6) // 4,
            (a * 8 + 5) % 4 + (a * 8 + 5) // 4,
        ]  # fmt: skip

    f = rows_of(rows, I32[101], I32[8, 101])

    a = np.arange(-50, 51, dtype=I)
    want = [
        a // 8, a % 8, a // 7, a % 7, a // -4, a % -4, (a * 6) // 4,
        (a * 8 + 5) % 4 + (a * 8 + 5) // 4,
    ]  # fmt: skip
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def quotients_simplified_across_sums():
    """Rules such as (x + c*n) // n hold for rounding down, also where x is negative."""

    @T.prim_func
    def f(A: I32[64], C: I32[6, 64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                C[0, i] = (A[i] + 12) // 4
                C[1, i] = (A[i] - 12) % 4
                C[2, i] = (A[i] // 3) // 4
                C[3, i] = (A[i] % 12) // 4
                C[4, i] = (A[i] % 12) % 4
                C[5, i] = (i * 4 + A[i] % 4) // 4

    a = np.arange(-32, 32, dtype=I)
    want = [(a + 12) // 4, (a - 12) % 4, a // 3 // 4, a % 12 // 4, a % 12 % 4, np.arange(64)]
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def the_smallest_integer():
    f = rows_of(lambda a: [-a, a - 1, a * 2, a // 2, a % 10], I32[4], I32[5, 4])

    a = np.array([-(2**31), 2**31 - 1, -1, -(2**31) + 1], I)
    with np.errstate(over="ignore"):
        return f, [a, Out(np.stack([-a, a - I(1), a * I(2), a // 2, a % 10]).astype(I))]


@program()
def sums_and_products_wrap():
    @T.prim_func
    def f(A: I32[64], V: U32[64], B: I32[2, 64], C: U32[3, 64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[0, i] = A[i] * 1103515245 + 12345
                B[1, i] = A[i] * A[i] * A[i]
                C[0, i] = V[i] * V[i]
                C[1, i] = V[i] - 1000
                C[2, i] = -V[i]

    a = (np.arange(64) * 99991 + 1).astype(I)
    v = a.astype(U)
    with np.errstate(over="ignore"):
        return f, [
            a,
            v,
            Out(np.stack([a * I(1103515245) + I(12345), a * a * a])),
            Out(np.stack([v * v, v - U(1000), U(0) - v])),
        ]


@program()
def small_integers_wrap_in_their_own_type():
    @T.prim_func
    def f(A: I8[64], B: U8[64], C: I32[3, 64], D: I32[3, 64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                C[0, i] = A[i] + A[i]
                C[1, i] = A[i] * A[i]
                C[2, i] = A[i] + 100
                D[0, i] = B[i] - B[63 - i]
                D[1, i] = B[i] * B[i]
                D[2, i] = B[i] - 200

    a = np.arange(-128, 128, 4).astype(np.int8)
    b = np.arange(0, 256, 4).astype(np.uint8)
    with np.errstate(over="ignore"):
        return f, [
            a,
            b,
            Out(np.stack([(a + a).astype(I), (a * a).astype(I), a.astype(I) + 100])),
            Out(np.stack([(b - b[::-1]).astype(I), (b * b).astype(I), b.astype(I) - 200])),
        ]


@program()
def sixteen_bit_integers():
    @T.prim_func
    def f(A: I16[32], B: U16[32], C: I16[2, 32], D: U16[2, 32], E: I32[32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                C[0, i] = A[i] * A[i]
                C[1, i] = A[i] >> 3
                D[0, i] = B[i] + B[i]
                D[1, i] = B[i] >> 3
                E[i] = A[i] + B[i]

    a = (np.arange(32) * 2047 - 32000).astype(np.int16)
    b = (np.arange(32) * 2111).astype(np.uint16)
    with np.errstate(over="ignore"):
        return f, [
            a,
            b,
            Out(np.stack([a * a, a >> 3])),
            Out(np.stack([b + b, b >> 3])),
            Out((a.astype(np.uint16) + b).astype(I)),  # equal widths: unsigned
        ]


@program()
def signed_meets_unsigned():
    @T.prim_func
    def f(A: I32[6], B: U32[6], C: I32[3, 6], D: I64[6]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(6):
                C[0, i] = T.if_then_else(A[i] < B[i], 1, 0)
                C[1, i] = T.if_then_else(A[i] < T.cast(B[i], "int32"), 1, 0)
                C[2, i] = T.if_then_else(T.cast(A[i], "int64") < B[i], 1, 0)
                D[i] = A[i] + B[i]

    a = np.array([-1, 1, 0, -5, 7, 2**31 - 1], I)
    b = np.array([1, 2, 0, 3, 3, 2**31], U)
    au = a.astype(U)
    with np.errstate(over="ignore"):
        return f, [
            a,
            b,
            Out(
                np.stack([a < b.astype(np.int64), a < b.astype(I), a.astype(np.int64) < b]).astype(
                    I
                )
            ),
            Out((au + b).astype(np.int64)),
        ]


@program()
def shifts_of_signed_and_unsigned():
    @T.prim_func
    def f(A: I32[32], B: U32[32], C: I32[3, 32], D: U32[3, 32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                C[0, i] = A[i] >> i
                C[1, i] = A[i] << i
                C[2, i] = (A[i] >> 4) << 4
                D[0, i] = B[i] >> i
                D[1, i] = B[i] << i
                D[2, i] = (B[i] >> 31) | (B[i] << 1)

    a = (np.arange(32, dtype=np.int64) * -123456789 % 2**32).astype(U).astype(I)
    b = a.astype(U)
    i = np.arange(32)
    return f, [
        a,
        b,
        Out(np.stack([a >> i, a << i, (a >> 4) << 4]).astype(I)),
        Out(np.stack([b >> i.astype(U), b << i.astype(U), (b >> U(31)) | (b << U(1))])),
    ]


@program()
def bit_operations():
    def rows(a, b):
        return [
            a & b, a | b, a ^ b, ~a, a & ~b | 1, T.popcount(a),
            T.bitwise_xor(T.bitwise_and(a, 255), T.bitwise_or(b, 3)),
        ]  # fmt: skip

    f = rows_of(rows, I32[32], I32[32], I32[7, 32])

    rng = np.random.default_rng(0)
    a = rng.integers(-(2**31), 2**31, 32).astype(I)
    b = rng.integers(-(2**31), 2**31, 32).astype(I)
    ones = np.array([bin(int(x) & 0xFFFFFFFF).count("1") for x in a])
    want = [a & b, a | b, a ^ b, ~a, a & ~b | 1, ones, (a & 255) ^ (b | 3)]
    return f, [a, b, Out(np.stack(want).astype(I))]


@program()
def operations_of_booleans():
    @T.prim_func
    def f(
        A: T.Tensor((4,), "bool"), B: T.Tensor((4,), "bool"), C: T.Tensor((6, 4), "bool"),
        D: I32[2, 4],
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[0, i] = A[i] & B[i]
                C[1, i] = A[i] | B[i]
                C[2, i] = A[i] and not B[i]
                C[3, i] = ~A[i]
                C[4, i] = A[i] == B[i]
                C[5, i] = A[i] or B[i]
                D[0, i] = A[i] + T.cast(B[i], "int32")
                D[1, i] = T.if_then_else(A[i] != B[i], 5, 6)

    a = np.array([0, 0, 1, 1], bool)
    b = np.array([0, 1, 0, 1], bool)
    want = np.stack([a & b, a | b, a & ~b, ~a, a == b, a | b])
    return f, [a, b, Out(want), Out(np.stack([a + b.astype(I), np.where(a != b, 5, 6)]).astype(I))]


@program()
def an_integer_stored_as_a_boolean():
    @T.prim_func
    def f(A: I32[8], X: F32[8], B: T.Tensor((2, 8), "bool"), C: I32[8]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[0, i] = T.cast(A[i], "bool")
                B[1, i] = T.cast(X[i], "bool")
                C[i] = T.cast(T.cast(A[i], "bool"), "int32") + 1

    a = np.array([0, 1, 2, 256, -1, 65536, 0, -256], I)
    x = np.array([0, 0.5, -0.0, 1e-40, np.nan, np.inf, -3, 256], F)
    return f, [a, x, Out(np.stack([a != 0, x != 0])), Out((a != 0) + I(1))]


@program()
def narrowing_keeps_the_low_bits():
    @T.prim_func
    def f(A: I64[16], B: I32[16], C: I8[16], D: U8[16], E: U16[16]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i]
                C[i] = T.cast(A[i], "int8")
                D[i] = A[i]
                E[i] = T.cast(B[i], "uint16")

    a = (np.arange(16) - 8) * 0x123456789B
    return f, [
        a,
        Out(a.astype(I)),
        Out(a.astype(np.int8)),
        Out(a.astype(np.uint8)),
        Out(a.astype(I).astype(np.uint16)),
    ]


@program()
def widening_keeps_the_sign():
    @T.prim_func
    def f(A: I8[64], B: I64[64], C: U32[64], D: F32[64], V: U8[64], E: I64[64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = A[i]
                C[i] = A[i]
                D[i] = A[i]
                E[i] = V[i]

    a = np.arange(-128, 128, 4).astype(np.int8)
    v = a.view(np.uint8)
    return f, [
        a,
        Out(a.astype(np.int64)),
        Out(a.astype(U)),
        Out(a.astype(F)),
        v,
        Out(v.astype(np.int64)),
    ]


@program()
def unsigned_division_and_comparison_of_large_numbers():
    @T.prim_func
    def f(A: U32[6], B: U32[4, 6], C: T.Tensor((6,), "bool"), L: U64[6], M: U64[2, 6]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(6):
                B[0, i] = A[i] // 3
                B[1, i] = A[i] % 10
                B[2, i] = A[i] // 16
                B[3, i] = T.max(A[i], 5) - T.min(A[i], 5)
                C[i] = A[i] > 2000000000
                M[0, i] = L[i] // 7
                M[1, i] = L[i] % 1000

    a = np.array([0, 1, 2**31, 2**32 - 1, 3000000000, 7], U)
    v = np.array([2**64 - 1, 2**63, 2**63 + 5, 0, 1, 10**18], np.uint64)
    return f, [
        a,
        Out(
            np.stack([a // U(3), a % U(10), a // U(16), np.maximum(a, U(5)) - np.minimum(a, U(5))])
        ),
        Out(a > 2000000000),
        v,
        Out(np.stack([v // np.uint64(7), v % np.uint64(1000)])),
    ]


@program()
def literals_beyond_31_bits():
    @T.prim_func
    def f(A: I64[4], B: I64[4], C: U32[4], D: U32[4]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = A[i] + 0x1_0000_0001
                D[i] = C[i] ^ T.uint32(0xDEADBEEF)
            B[0] = B[0] + 9223372036854775807 - 9223372036854775807

    a = np.array([0, -1, 5, -(2**40)])
    c = np.array([0, 1, 2**32 - 1, 77], U)
    return f, [a, Out(a + 0x1_0000_0001), c, Out(c ^ U(0xDEADBEEF))]


@program()
def a_hash_of_many_steps():
    """The finaliser of a well-known hash: multiplications that wrap, and shifts without sign."""

    @T.prim_func
    def f(A: U32[100], B: U32[100]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(100):
                h = T.alloc_var("uint32", A[i])
                h ^= h >> 16
                h *= T.uint32(0x85EBCA6B)
                h ^= h >> 13
                h *= T.uint32(0xC2B2AE35)
                h ^= h >> 16
                B[i] = h

    a = np.arange(100, dtype=U)
    h = a.copy()
    with np.errstate(over="ignore"):
        h ^= h >> U(16)
        h *= U(0x85EBCA6B)
        h ^= h >> U(13)
        h *= U(0xC2B2AE35)
        h ^= h >> U(16)
    return f, [a, Out(h)]


@program()
def a_generator_of_xorshift():
    @T.prim_func
    def f(S: U64[32], B: U64[32, 5]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x = T.alloc_var("uint64", S[t])
            for i in T.serial(5):
                x = x ^ (x << 13)
                x = x ^ (x >> 7)
                x = x ^ (x << 17)
                B[t, i] = x

    s = np.arange(1, 33, dtype=np.uint64) * np.uint64(88172645463325252)
    out, x = [], s.copy()
    with np.errstate(over="ignore"):
        for _ in range(5):
            x = x ^ (x << np.uint64(13))
            x = x ^ (x >> np.uint64(7))
            x = x ^ (x << np.uint64(17))
            out.append(x)
    return f, [s, Out(np.stack(out, 1))]


@program()
def maxima_of_signed_and_unsigned_integers():
    @T.prim_func
    def f(A: I32[32], B: I32[32], C: I32[4, 32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                C[0, i] = T.max(A[i], B[i])
                C[1, i] = T.min(T.min(A[i], B[i]), 0)
                C[2, i] = T.cast(T.max(T.cast(A[i], "uint32"), T.cast(B[i], "uint32")), "int32")
                C[3, i] = T.abs(A[i] - B[i])

    rng = np.random.default_rng(1)
    a, b = rng.integers(-100, 100, (2, 32)).astype(I)
    want = [
        np.maximum(a, b),
        np.minimum(np.minimum(a, b), 0),
        np.maximum(a.astype(U), b.astype(U)).astype(I),
        np.abs(a - b),
    ]
    return f, [a, b, Out(np.stack(want).astype(I))]


@program()
def selection_by_arithmetic_on_comparisons():
    @T.prim_func
    def f(A: I32[32], B: I32[32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                positive = T.cast(A[i] > 0, "int32")
                negative = T.cast(A[i] < 0, "int32")
                B[i] = (positive - negative) * 10 + T.Select(A[i] == 3, 7, A[i] & 1)

    a = np.arange(-16, 16, dtype=I)
    return f, [a, Out((np.sign(a) * 10 + np.where(a == 3, 7, a & 1)).astype(I))]


@program()
def bits_reinterpreted():
    @T.prim_func
    def f(A: F32[16], B: I32[16], C: F32[16], D: U16[16], E: F16[16]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = T.reinterpret(A[i], "int32")
                C[i] = T.reinterpret(
                    T.reinterpret(A[i], "uint32") & T.uint32(0x7FFFFFFF), "float32"
                )
                E[i] = T.reinterpret(D[i], "float16")

    a = np.array([0, -0.0, 1, -1, np.inf, -np.inf, 1e-40, 3.5] * 2, F)
    d = (np.arange(16) * 4099).astype(np.uint16)
    return f, [a, Out(a.view(I)), Out(np.abs(a)), d, Out(d.view(np.float16))]


@program()
def counts_of_leading_zeros():
    @T.prim_func
    def f(A: I32[32], B: I32[32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = T.clz(A[i])

    a = (np.int64(1) << np.arange(32)).astype(U).astype(I)
    return f, [a, Out(np.arange(31, -1, -1).astype(I))]


@program()
def integer_functions_of_ceiling_and_alignment():
    n = T.dynamic("n")

    @T.prim_func
    def f(A: I32[n], B: I32[3, n]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[0, i] = T.ceildiv(A[i], 4)
                B[1, i] = T.floordiv(A[i], 4) * 4 + T.floormod(A[i], 4)
                B[2, i] = T.ceildiv(n, 3) * 3 - n

    a = np.arange(-9, 20, dtype=I)
    return f, [a, Out(np.stack([-(-a // 4), a, np.full(29, 1)]).astype(I))]


@program()
def sums_of_bytes_in_wide_accumulators():
    @T.prim_func
    def f(A: U8[8, 64], B: I32[8], C: I32[8]):
        with T.Kernel(8, threads=32) as b:
            x = T.alloc_fragment((64,), "int32")
            s = T.alloc_fragment((1,), "int32")
            T.copy(A[b, 0:64], x)
            T.reduce_sum(x, s)
            B[b] = s[0]
            total = T.alloc_var("int32", 0)
            for j in T.serial(64):
                total += A[b, j]
            C[b] = total

    a = np.random.default_rng(2).integers(0, 256, (8, 64)).astype(np.uint8)
    want = a.sum(1, dtype=I)
    return f, [a, Out(want), Out(want)]
