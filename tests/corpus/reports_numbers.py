"""Kinds of wrong code that the trackers of tile compilers report: numbers, casts, atomics, folding.

Each program is written anew after the idea of a report; its comment names the kind of mistake.
"""

from __future__ import annotations

import numpy as np
from tensor_types import BF16, F16, F32, F64, I8, I16, I32, I64, U8, U32, U64

import tilelang.language as T

from .registry import BF, E4, E5, F, H, I, Out, U, ints, program, rows_of


@program()
def bytes_filled_with_a_negative_number():
    # Lanes packed into a word without masking their signs.
    @T.prim_func
    def f(B: I8[16, 64], C: I16[64], D: I8[64]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 64), "int8")
            T.fill(s, -7)
            T.copy(s, B)
            T.fill(C, -300)
            for i in T.Parallel(64):
                D[i] = -100

    return f, [
        Out(np.full((16, 64), -7, np.int8)),
        Out(np.full(64, -300, np.int16)),
        Out(np.full(64, -100, np.int8)),
    ]


@program()
def complements_of_vectors():
    @T.prim_func
    def f(A: I16[256], B: U32[256], C: I8[256], D: I16[256], E: U32[256], G: I8[256]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                D[i] = ~A[i]
                E[i] = ~B[i]
                G[i] = ~C[i]

    a, b, c = ints(256, 0, np.int16), ints(256, 1, U, 0, 2**31), np.arange(256).astype(np.int8)
    return f, [a, b, c, Out(~a), Out(~b), Out(~c)]


@program()
def integers_rounded_to_bfloat16():
    # Truncation towards zero in place of the nearest number.
    @T.prim_func
    def f(A: I32[12], B: BF16[12], C: F16[12]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(12):
                B[i] = A[i]
                C[i] = A[i]

    a = np.array([257, 258, 259, 261, -259, 33000, 33001, 2049, 2051, -2051, 4099, 1], I)
    return f, [a, Out(a.astype(F).astype(BF)), Out(a.astype(H))]


@program()
def floor_and_ceiling_of_constants():
    # Constants folded in more digits than their type has.
    @T.prim_func
    def f(A: F32[3], B: F32[6]):
        with T.Kernel(1, threads=1):
            B[0] = T.ceil(T.float32(8388608.5))
            B[1] = T.floor(T.float16(0.99999))
            B[2] = T.trunc(T.float32(16777216.9))
            B[3] = T.ceil(A[0])
            B[4] = T.floor(T.float32(0.1) * 10)
            B[5] = T.float32(0.1) + T.float32(0.2)

    a = np.array([8388608.5, 0, 0], F)
    want = [
        np.ceil(F(8388608.5)),
        np.floor(H(0.99999)),
        F(16777216),
        np.ceil(a[0]),
        np.floor(F(0.1) * F(10)),
        F(0.1) + F(0.2),
    ]
    return f, [a, Out(np.array(want, F))]


@program()
def constants_that_add_up_beyond_31_bits():
    # (a + c) + c is made one constant that does not fit.
    def rows(a):
        return [(a + 2000000000) + 2000000000, (a * 65536) * 65536, (a - 2000000000) - 2000000000]

    f = rows_of(rows, I32[8], I32[3, 8])

    a = np.arange(-4, 4, dtype=I)
    with np.errstate(over="ignore"):
        c = I(2000000000)
        return f, [a, Out(np.stack([(a + c) + c, a * I(65536) * I(65536), (a - c) - c]))]


@program()
def comparisons_after_sums_that_wrap():
    # a + 1 > a does not hold for the largest number.
    @T.prim_func
    def f(A: U32[4], S: I8[4], B: T.Tensor((2, 4), "bool")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[0, i] = A[i] + 1 > A[i]
                B[1, i] = A[i] - 1 < A[i]

    a = np.array([0, 1, 2**31, 2**32 - 1], U)
    with np.errstate(over="ignore"):
        return f, [a, np.zeros(4, np.int8), Out(np.stack([a + U(1) > a, a - U(1) < a]))]


@program()
def constants_of_64_bits_without_sign():
    @T.prim_func
    def f(A: U64[2], B: U64[3]):
        with T.Kernel(1, threads=1):
            B[0] = T.uint64(2**62) + T.uint64(2**63)
            B[1] = T.uint64(2**32) * T.uint64(2**31)
            B[2] = A[0] + T.uint64(2**64 - 1)

    a = np.array([5, 0], np.uint64)
    return f, [a, Out(np.array([2**62 + 2**63, 2**63, 4], np.uint64))]


@program()
def loops_that_count_without_sign_and_in_64_bits():
    @T.prim_func
    def f(S: U64[1], L: U32[1], B: U64[3], C: I64[3]):
        with T.Kernel(1, threads=1):
            k = T.alloc_var("int32", 0)
            for i in T.serial(S[0], S[0] + 3):
                B[k] = i
                k += 1
            m = T.alloc_var("int32", 0)
            for i in T.serial(L[0], L[0] + 3):
                C[m] = i
                m += 1

    s, l = 2**40 + 1, 2**31 + 5
    return f, [
        np.array([s], np.uint64),
        np.array([l], U),
        Out(np.array([s, s + 1, s + 2], np.uint64)),
        Out(np.array([l, l + 1, l + 2])),
    ]


@program()
def a_stride_whose_products_pass_31_bits_only_inside_the_compiler():
    @T.prim_func
    def f(A: I32[8], B: I64[8]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = T.cast(A[i], "int64") * 600000000 + i * 268435455

    a = np.arange(8, dtype=I)
    return f, [a, Out(a.astype(np.int64) * 600000000 + np.arange(8) * 268435455)]


@program()
def functions_of_halves_and_bfloat16():
    # Functions that exist for floats only, or that call themselves.
    @T.prim_func
    def f(A: F16[32], B: BF16[32], C: F16[8, 32], D: BF16[8, 32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                C[0, i] = T.exp(A[i])
                C[1, i] = T.log(A[i])
                C[2, i] = T.sqrt(A[i])
                C[3, i] = T.tanh(A[i])
                C[4, i] = T.sin(A[i])
                C[5, i] = T.floor(A[i])
                C[6, i] = T.round(A[i])
                C[7, i] = T.abs(-A[i])
                D[0, i] = T.exp(B[i])
                D[1, i] = T.log(B[i])
                D[2, i] = T.sqrt(B[i])
                D[3, i] = T.tanh(B[i])
                D[4, i] = T.cos(B[i])
                D[5, i] = T.ceil(B[i])
                D[6, i] = T.trunc(B[i])
                D[7, i] = T.rsqrt(B[i])

    a = np.linspace(0.1, 4, 32).astype(H)
    b = np.linspace(0.1, 4, 32).astype(BF)
    x, y = a.astype(F), b.astype(F)
    c = [np.exp(x), np.log(x), np.sqrt(x), np.tanh(x), np.sin(x), np.floor(x), np.rint(x), x]
    d = [
        np.exp(y), np.log(y), np.sqrt(y), np.tanh(y), np.cos(y), np.ceil(y), np.trunc(y),
        1 / np.sqrt(y),
    ]  # fmt: skip
    return f, [
        a,
        b,
        Out(np.stack(c).astype(H), rtol=2e-3, atol=1e-3),
        Out(np.stack(d).astype(BF), rtol=1e-2, atol=4e-3),
    ]


@program()
def functions_of_two_halves():
    @T.prim_func
    def f(A: F16[8], B: F16[8], C: F16[3, 8], D: BF16[8], E: BF16[2, 8]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                C[0, i] = T.copysign(A[i], B[i])
                C[1, i] = T.pow(T.abs(A[i]), B[i])
                C[2, i] = T.atan2(A[i], B[i])
                E[0, i] = T.pow(T.abs(D[i]), D[i])
                E[1, i] = T.copysign(D[i], -D[i])

    a = np.array([1, -2, 0.5, 3, -1, 2, -0.25, 4], H)
    b = np.array([-1, 2, -0.5, 1, 2, -2, 0.5, 0.25], H)
    x, y = a.astype(F), b.astype(F)
    d = a.astype(BF)
    return f, [
        a,
        b,
        Out(np.stack([np.copysign(x, y), np.abs(x) ** y, np.arctan2(x, y)]).astype(H), rtol=2e-3),
        d,
        Out(np.stack([np.abs(x) ** x, -x]).astype(BF), rtol=1e-2),
    ]


@program()
def maxima_of_small_floats():
    @T.prim_func
    def f(
        A: T.Tensor((64,), "float8_e4m3fn"), B: T.Tensor((64,), "float8_e4m3fn"),
        C: T.Tensor((3, 64), "float8_e4m3fn"), D: T.Tensor((64,), "float8_e5m2"),
        E: T.Tensor((64,), "float8_e5m2"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                C[0, i] = T.max(A[i], B[i])
                C[1, i] = T.min(A[i], B[i])
                C[2, i] = T.clamp(A[i], T.cast(-2.0, "float8_e4m3fn"), T.cast(2.0, "float8_e4m3fn"))
                E[i] = T.max(D[i], T.cast(0.5, "float8_e5m2"))

    a, b = ints(64, 7, F, -9, 9).astype(E4), ints(64, 8, F, -9, 9).astype(E4)
    d = ints(64, 9, F, -3, 3).astype(E5)
    x, y = a.astype(F), b.astype(F)
    return f, [
        a,
        b,
        Out(np.stack([np.maximum(x, y), np.minimum(x, y), np.clip(x, -2, 2)]).astype(E4)),
        d,
        Out(np.maximum(d.astype(F), 0.5).astype(E5)),
    ]


@program()
def small_floats_added_and_multiplied():
    @T.prim_func
    def f(A: T.Tensor((32,), "float8_e4m3fn"), H_: F16[32], C: F32[2, 32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                C[0, i] = A[i] * H_[i]
                C[1, i] = T.cast(A[i], "float32") + 0.25

    a = ints(32, 10, F, -9, 9).astype(E4)
    h = ints(32, 11, H, -9, 9)
    return f, [a, h, Out(np.stack([a.astype(F) * h.astype(F), a.astype(F) + F(0.25)]))]


@program()
def rounding_halves_away_from_zero():
    @T.prim_func
    def f(A: F32[8], B: F32[2, 8], C: BF16[8], D: BF16[8], E: F64[8], G: F64[8]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[0, i] = T.round(A[i], "ties-away-from-zero")
                B[1, i] = T.round(A[i], "ties-to-even")
                D[i] = T.round(C[i], "ties-away-from-zero")
                G[i] = T.round(E[i], "ties-away-from-zero")

    a = np.array([0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.3, -3.7], F)
    away = np.trunc(a + np.copysign(F(0.5), a))
    e = a.astype(np.float64)
    return f, [
        a,
        Out(np.stack([away, np.rint(a)])),
        a.astype(BF),
        Out(away.astype(BF)),
        e,
        Out(away.astype(np.float64)),
    ]


@program()
def arithmetic_with_a_rounding_of_its_own():
    @T.prim_func
    def f(A: F32[16], B: F32[16], C: F32[4, 16], D: F64[16], E: F64[2, 16]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                C[0, i] = T.ieee_add(A[i], B[i], "rn")
                C[1, i] = T.ieee_mul(A[i], B[i], "rn")
                C[2, i] = T.ieee_fmaf(A[i], B[i], A[i], "rn")
                C[3, i] = T.ieee_fdiv(A[i], B[i], "rn")
                E[0, i] = T.ieee_add(D[i], D[i], "rn")
                E[1, i] = T.ieee_fsqrt(D[i], "rn")

    rng = np.random.default_rng(12)
    a, b = rng.standard_normal((2, 16)).astype(F)
    d = np.abs(rng.standard_normal(16))
    # A product of two singles is exact in a double; the sum with a single is rounded twice only
    # where the double is a tie, which these numbers are not.
    fma = (a.astype(np.float64) * b + a).astype(F)
    return f, [
        a,
        b,
        Out(np.stack([a + b, a * b, fma, a / b])),
        d,
        Out(np.stack([d + d, np.sqrt(d)])),
    ]


@program()
def quotients_of_negative_sums():
    # Common factors taken out of a quotient must keep the direction of rounding.
    def rows(a):
        return [
            (-3 * (a + 5)) // 6, ((a * 2680) - 195640) // -23, (a * 6 + 4) // 4, (a * -4 + 2) % 8,
            (a // 4) * 4 + a % 4, (a + 7) // 3 - a // 3,
        ]  # fmt: skip

    f = rows_of(rows, I32[120], I32[6, 120])

    a = np.arange(-60, 60, dtype=I)
    want = [
        (-3 * (a + 5)) // 6,
        ((a * 2680) - 195640) // -23,
        (a * 6 + 4) // 4,
        (a * -4 + 2) % 8,
        a,
        (a + 7) // 3 - a // 3,
    ]
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def remainders_of_remainders_and_scaled_quotients():
    @T.prim_func
    def f(A: I32[96], B: I32[5, 96]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(96):
                B[0, i] = (A[i] % 32) % 12
                B[1, i] = (A[i] % 12) // 5 * 5
                B[2, i] = ((i * 7) % 96) // 7
                B[3, i] = (i // 6 * 6 + i % 6) % 4
                B[4, i] = (((i * 3 - 4) // 3 + i) * 4 + 1) // 7

    a = np.arange(-48, 48, dtype=I)
    i = np.arange(96)
    want = [
        a % 32 % 12,
        a % 12 // 5 * 5,
        i * 7 % 96 // 7,
        i % 4,
        (((i * 3 - 4) // 3 + i) * 4 + 1) // 7,
    ]
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def minima_and_maxima_of_bounds_that_cross():
    @T.prim_func
    def f(A: I32[64], B: I32[4, 64]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[0, i] = T.max(T.min(A[i], 5), 10)
                B[1, i] = T.min(T.max(A[i], i), i + 3) - i
                B[2, i] = T.max(A[i] // 4, -(A[i] // -4))
                B[3, i] = T.min(i % 8, 7) + T.max(i % 8, 0)

    a = np.arange(-32, 32, dtype=I)
    i = np.arange(64)
    want = [
        np.maximum(np.minimum(a, 5), 10),
        np.minimum(np.maximum(a, i), i + 3) - i,
        np.maximum(a // 4, -(a // -4)),
        2 * (i % 8),
    ]
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def selections_with_equal_sides_and_nested_conditions():
    @T.prim_func
    def f(A: F32[32], B: F32[3, 32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[0, i] = T.if_then_else(
                    A[i] > 0, T.if_then_else(A[i] > 0, 1.0, 2.0), T.if_then_else(A[i] > 0, 3.0, 4.0)
                )
                B[1, i] = T.if_then_else(A[i] >= 0, A[i], -A[i]) + T.if_then_else(
                    A[i] != A[i], 5.0, 0.0
                )
                B[2, i] = T.if_then_else(
                    i % 2 == 0 and i % 3 == 0, 6.0, T.if_then_else(i % 2 == 0, 2.0, 1.0)
                )

    a = ints(32, 13)
    a[3] = np.nan
    i = np.arange(32)
    one = np.where(a >= 0, a, -a) + np.where(np.isnan(a), 5, 0)
    want = [np.where(a > 0, 1, 4), one, np.where(i % 6 == 0, 6, np.where(i % 2 == 0, 2, 1))]
    return f, [a, Out(np.stack(want).astype(F))]


@program()
def stores_of_wider_numbers_into_bytes_in_vectors():
    @T.prim_func
    def f(
        A: I32[256], B: U8[256], C: F32[256], D: T.Tensor((256,), "float8_e4m3fn"),
        E: T.Tensor((256,), "bool"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            for i in T.Parallel(256):
                B[i] = A[i] * 3
                D[i] = C[i] * 100
                E[i] = A[i] % 3 == 0

    a, c = np.arange(-128, 128, dtype=I), ints(256, 14, F, -9, 9)
    return f, [
        a,
        Out((a * 3).astype(np.uint8)),
        c,
        Out(np.clip(c * 100, -448, 448).astype(E4)),
        Out(a % 3 == 0),
    ]


@program()
def the_ceiling_of_a_quotient_with_a_negative_divisor():
    @T.prim_func
    def f(A: I32[40], B: I32[40], C: I32[40], D: I32[2]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                C[i] = T.ceildiv(A[i], B[i])
            D[0] = T.ceildiv(7, -3)
            D[1] = T.ceildiv(T.int32(-7), -2)

    a, b = (x.reshape(-1).astype(I) for x in np.meshgrid(np.arange(-5, 5), [-3, -1, 2, 4]))
    return f, [a, b, Out(-(-a // b)), Out(np.array([-2, 4], I))]
