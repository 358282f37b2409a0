"""Casts between numbers of all kinds: rounding, saturation, all patterns of small floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tensor_types import BF16, F16, F32, F64, I8, I32, I64, U64

import tilelang.language as T

from .registry import BF, E4, E5, INF, NAN, F, H, I, Out, program


@program()
def numbers_rounded_to_half():
    @T.prim_func
    def f(A: F32[16], B: F16[16], C: F32[16]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i]
                C[i] = T.cast(T.cast(A[i], "float16"), "float32")

    ties = [
        1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-11 + 2**-20, 65519.0, 65520.0, -65520.0, 2**-25,
        2**-25 * 1.01,
    ]  # fmt: skip
    a = np.array([*ties, 2**-24, -(2**-26), INF, -INF, NAN, -0.0, 2**-14, 2**-15 * 1.001], F)
    with np.errstate(over="ignore"):
        return f, [a, Out(a.astype(H)), Out(a.astype(H).astype(F))]


@program()
def numbers_rounded_to_bfloat16():
    @T.prim_func
    def f(A: F32[14], B: BF16[14], C: F32[14]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(14):
                B[i] = A[i]
                C[i] = T.cast(A[i], "bfloat16") * 2

    a = np.array(
        [
            1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-8 + 2**-20, 3.4e38, -3.4e38, INF, -INF, NAN, -0.0,
            1e-40, -1e-45, 9.2e-41, 0.1, 65535.0,
        ],
        F,
    )  # fmt: skip
    b = a.astype(BF)
    with np.errstate(over="ignore"):
        c = (b.astype(F) * 2).astype(BF).astype(F)  # an integer literal takes the bfloat16 type
    return f, [a, Out(b), Out(c)]


@program()
def numbers_rounded_to_float8_saturate():
    @T.prim_func
    def f(A: F32[16], B: T.Tensor((16,), "float8_e4m3fn"), C: T.Tensor((16,), "float8_e5m2")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i]
                C[i] = A[i]

    a = np.array(
        [
            1.0625, 1.1875, 448, 449, 464, 500, -1e6, NAN, -0.0, 2**-9, 2**-10, 2**-10 * 1.01,
            57344, 61440, 2**-17, -(2**-16) * 0.75,
        ],
        F,
    )  # fmt: skip
    return f, [a, Out(np.clip(a, -448, 448).astype(E4)), Out(np.clip(a, -57344, 57344).astype(E5))]


@program()
def infinity_becomes_the_largest_float8():
    @T.prim_func
    def f(A: F32[4], B: F32[4], C: F32[4]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                B[i] = T.cast(T.cast(A[i], "float8_e4m3fn"), "float32")
                C[i] = T.cast(T.cast(A[i], "float8_e5m2"), "float32")

    a = np.array([INF, -INF, NAN, 1], F)
    return f, [a, Out(np.array([448, -448, NAN, 1], F)), Out(np.array([57344, -57344, NAN, 1], F))]


@program()
def all_patterns_of_float8_read():
    @T.prim_func
    def f(
        A: T.Tensor((256,), "float8_e4m3fn"), B: T.Tensor((256,), "float8_e5m2"), C: F32[2, 256],
        D: F16[2, 256],
    ):  # fmt: skip
        with T.Kernel(1, threads=64):
            for i in T.Parallel(256):
                C[0, i] = A[i]
                C[1, i] = B[i]
                D[0, i] = T.cast(A[i], "float16")
                D[1, i] = T.cast(B[i], "float16")

    bits = np.arange(256).astype(np.uint8)
    a, b = bits.view(E4), bits.view(E5)
    want = np.stack([a.astype(F), b.astype(F)])
    return f, [a, b, Out(want), Out(want.astype(H))]


@program()
def all_patterns_of_half_read_and_written():
    @T.prim_func
    def f(A: F16[65536], B: F32[65536], C: F16[65536]):
        with T.Kernel(16, threads=128) as b:
            for i in T.Parallel(4096):
                B[b * 4096 + i] = A[b * 4096 + i]
                C[b * 4096 + i] = T.cast(A[b * 4096 + i], "float32") * 0.5

    a = np.arange(65536).astype(np.uint16).view(H)
    with np.errstate(invalid="ignore"):
        a32 = a.astype(F)
        return f, [a, Out(a32), Out((a32 * F(0.5)).astype(H))]


@program()
def float_to_integer_truncates():
    @T.prim_func
    def f(A: F32[12], B: I32[12], C: I64[12], D: I8[12]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(12):
                B[i] = A[i]
                C[i] = T.cast(A[i] * 1e9, "int64")
                D[i] = T.cast(A[i] / 4, "int8")

    a = np.array([0.9, -0.9, 1.5, -1.5, 2.5, 100.99, -100.99, 0.0, -0.0, 7, -8, 500.25], F)
    return f, [
        a,
        Out(np.trunc(a).astype(I)),
        Out(np.trunc(a * F(1e9)).astype(np.int64)),
        Out(np.trunc(a / 4).astype(np.int8)),
    ]


@program()
def large_integers_rounded_to_floats():
    @T.prim_func
    def f(A: I64[8], B: F32[8], C: F64[8], U: U64[8], D: F32[8]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                B[i] = A[i]
                C[i] = A[i]
                D[i] = U[i]

    a = np.array([2**24 + 1, 2**24 + 3, -(2**53) - 1, 2**53 + 3, 2**62 + 1, -(2**63), 2**63 - 1, 7])
    u = np.array(
        [2**64 - 1, 2**63, 2**63 + 2**39, 2**63 + 2**39 + 1, 2**40 + 2**16, 1, 0, 2**32 + 1],
        np.uint64,
    )
    return f, [a, Out(a.astype(F)), Out(a.astype(np.float64)), u, Out(u.astype(F))]


@program()
def casts_between_all_float_types():
    @T.prim_func
    def f(A: F64[64], B: F32[64], C: F16[64], D: BF16[64], E: F16[64]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((64,), "float64")
            y = T.alloc_fragment((64,), "bfloat16")
            T.copy(A, x)
            T.copy(x, B)
            T.copy(x, C)
            T.copy(B, y)
            T.copy(y, D)
            T.copy(y, E)

    a = np.random.default_rng(5).standard_normal(64) * 10.0 ** np.arange(-12, 4).repeat(4)
    b = a.astype(F)
    d = b.astype(BF)
    return f, [a, Out(b), Out(a.astype(H)), Out(d), Out(d.astype(F).astype(H))]


@program(also=["sm_90a"])
def casts_without_saturation_leave_the_range():
    # Beyond the largest number: infinity, or NaN where the format has no infinity. 464 is halfway
    # between the largest number of e4m3fn, which is even, and the one above it.
    @T.prim_func
    def f(
        A: F32[16], D: F64[16], B: T.Tensor((3, 16), "float8_e5m2"),
        C: T.Tensor((2, 16), "float8_e4m3fn"), E: T.Tensor((16,), "float8_e3m4"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[0, i] = T.cast(A[i], "float8_e5m2", sat=False)
                B[1, i] = T.cast(D[i], "float8_e5m2", sat=False)
                B[2, i] = T.cast(-1e9, "float8_e5m2", sat=False)
                C[0, i] = T.cast(A[i], "float8_e4m3fn", sat=False)
                C[1, i] = T.cast(1e9, "float8_e4m3fn", sat=False)
                E[i] = T.cast(A[i], "float8_e3m4", sat=False)

    inf, nan = np.inf, np.nan
    a = np.array(
        [
            inf, -inf, nan, 1e9, -1e9, 61439, 61440, -61440, 464, 464.1, -464, 3, -0.0, 15.7,
            15.75, 448,
        ],
        np.float32,
    )  # fmt: skip
    e5 = a.astype(ml_dtypes.float8_e5m2)
    low = np.full(16, -inf).astype(ml_dtypes.float8_e5m2)
    e4 = np.array(
        [nan, nan, nan, nan, nan, nan, nan, nan, 448, nan, -448, 3, -0.0, 16, 16, 448]
    ).astype(ml_dtypes.float8_e4m3fn)
    none = np.full(16, nan).astype(ml_dtypes.float8_e4m3fn)
    e3 = np.array(
        [inf, -inf, nan, inf, -inf, inf, inf, -inf, inf, inf, -inf, 3, -0.0, 15.5, inf, inf]
    ).astype(ml_dtypes.float8_e3m4)
    return f, [
        a,
        a.astype(np.float64),
        Out(np.stack([e5, e5, low])),
        Out(np.stack([e4, none])),
        Out(e3),
    ]
