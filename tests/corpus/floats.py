"""Special floats: infinities, NaN, zeros with signs, denormal numbers, each rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tensor_types import BF16, F16, F32, F64, I32, U8

import tilelang.language as T

from .registry import BF, E5, INF, NAN, SPECIAL, F, H, I, Out, program, rows_of


def _pairs():
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    return a.reshape(-1).copy(), b.reshape(-1).copy()


@program()
def sums_and_products_of_special_numbers():
    def rows(a, b):
        return [a + b, a - b, a * b, a / b]

    f = rows_of(rows, F32[256], F32[256], F32[4, 256], threads=64)

    a, b = _pairs()
    with np.errstate(all="ignore"):
        want = np.stack([a + b, a - b, a * b, a / b])
    return f, [a, b, Out(want)]


@program()
def comparisons_with_nan():
    @T.prim_func
    def f(A: F32[256], B: F32[256], C: T.Tensor((6, 256), "bool")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(256):
                C[0, i] = A[i] < B[i]
                C[1, i] = A[i] <= B[i]
                C[2, i] = A[i] == B[i]
                C[3, i] = A[i] != B[i]
                C[4, i] = not (A[i] < B[i])
                C[5, i] = not (A[i] == B[i])

    a, b = _pairs()
    return f, [a, b, Out(np.stack([a < b, a <= b, a == b, a != b, ~(a < b), ~(a == b)]))]


@program()
def negated_comparisons_are_not_turned_round():
    """`not (a < b)` is not `a >= b` when one of them is NaN."""

    @T.prim_func
    def f(A: F32[256], B: F32[256], C: I32[256]):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(256):
                if not (A[i] < B[i]) and not (A[i] > B[i]):
                    C[i] = 1
                else:
                    C[i] = T.if_then_else(T.Not(A[i] >= B[i]), 2, 3)

    a, b = _pairs()
    return f, [a, b, Out(np.where(~(a < b) & ~(a > b), 1, np.where(~(a >= b), 2, 3)).astype(I))]


@program()
def what_kind_of_number_it_is():
    @T.prim_func
    def f(A: F32[16], C: T.Tensor((3, 16), "bool"), D: T.Tensor((3, 16), "bool")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                C[0, i] = T.isnan(A[i])
                C[1, i] = T.isinf(A[i])
                C[2, i] = T.isfinite(A[i])
                h = T.cast(A[i], "float64") * 10
                D[0, i] = T.isnan(h)
                D[1, i] = T.isinf(h)
                D[2, i] = T.isfinite(h)

    want = np.stack([np.isnan(SPECIAL), np.isinf(SPECIAL), np.isfinite(SPECIAL)])
    return f, [SPECIAL, Out(want), Out(want)]


@program()
def maxima_ignore_nan():
    def rows(a):
        return [T.max(a, 1.5), T.min(a, 1.5), T.max(-2.0, a), T.min(T.max(a, -1.0), 1.0)]

    f = rows_of(rows, F32[16], F32[4, 16])

    s = SPECIAL
    want = np.stack(
        [
            np.fmax(s, F(1.5)),
            np.fmin(s, F(1.5)),
            np.fmax(s, F(-2)),
            np.fmin(np.fmax(s, F(-1)), F(1)),
        ]
    )
    return f, [s, Out(want)]


@program()
def maxima_of_halves_ignore_nan():
    f = rows_of(lambda a, b: [T.max(a, b), T.min(a, b)], F16[12], F16[12], F16[2, 12])

    a = np.array([NAN, 1, NAN, INF, -INF, NAN, 2, 3, -1, 6e-8, 65504, 1], H)
    b = np.array([1, NAN, NAN, NAN, 2, -INF, INF, -3, -2, 1, -65504, 1], H)
    return f, [a, b, Out(np.stack([np.fmax(a, b), np.fmin(a, b)]))]


@program()
def each_half_operation_rounds():
    def rows(a, b):
        return [(a + b) - a, a * b + b, (a + 1) * (b - 1)]

    f = rows_of(rows, F16[64], F16[64], F16[3, 64])

    rng = np.random.default_rng(0)
    a = (rng.standard_normal(64) * 50).astype(H)
    b = rng.standard_normal(64).astype(H)
    one = H(1)
    return f, [a, b, Out(np.stack([(a + b) - a, a * b + b, (a + one) * (b - one)]))]


@program()
def each_bfloat16_operation_rounds():
    f = rows_of(lambda a, b: [(a + b) - a, a * b + b], BF16[64], BF16[64], BF16[2, 64])

    rng = np.random.default_rng(1)
    a = (rng.standard_normal(64) * 50).astype(BF)
    b = rng.standard_normal(64).astype(BF)
    f32 = lambda x: x.astype(F)
    total = (f32(a) + f32(b)).astype(BF)
    product = (f32(a) * f32(b)).astype(BF)
    return f, [
        a,
        b,
        Out(np.stack([(f32(total) - f32(a)).astype(BF), (f32(product) + f32(b)).astype(BF)])),
    ]


@program()
def a_float_literal_widens_a_half_and_an_integer_literal_does_not():
    @T.prim_func
    def f(A: F16[32], B: F32[32], C: F32[32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = A[i] + 2048.0
                C[i] = A[i] + 2048

    a = (np.arange(32) / 8).astype(H)
    return f, [a, Out(a.astype(F) + 2048), Out((a + H(2048)).astype(F))]


@program()
def half_and_bfloat16_meet_in_half():
    @T.prim_func
    def f(A: F16[16], B: BF16[16], C: F32[16]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                C[i] = A[i] * B[i]

    a = (np.arange(16) / 7).astype(H)
    b = (np.arange(16) / 3).astype(BF)
    return f, [a, b, Out((a * b.astype(F).astype(H)).astype(F))]


@program()
def rounding_functions():
    def rows(a):
        return [T.floor(a), T.ceil(a), T.trunc(a), T.round(a), T.nearbyint(a)]

    f = rows_of(rows, F32[14], F32[5, 14])

    a = np.array(
        [
            0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.49999997, -0.2, 8388609.0, 4194304.5, INF, -INF,
            NAN, -0.0,
        ],
        F,
    )  # fmt: skip
    return f, [a, Out(np.stack([np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), np.rint(a)]))]


@program()
def functions_at_special_places():
    def rows(a):
        return [T.exp(a), T.log(a), T.sqrt(a), T.tanh(a), T.exp2(a), T.abs(a)]

    f = rows_of(rows, F32[8], F32[6, 8])

    a = np.array([0.0, -0.0, 1.0, INF, -INF, NAN, -1.0, 200.0], F)
    with np.errstate(all="ignore"):
        want = np.stack([np.exp(a), np.log(a), np.sqrt(a), np.tanh(a), np.exp2(a), np.abs(a)])
    return f, [a, Out(want.astype(F), rtol=1e-6)]


@program()
def functions_of_two_numbers():
    def rows(a, b):
        return [T.copysign(a, b), T.fmod(a, b), T.hypot(a, b), T.nextafter(a, b)]

    f = rows_of(rows, F32[10], F32[10], F32[4, 10])

    a = np.array([5.5, -5.5, 5.5, -0.0, 0.0, 1.0, 7.0, -7.0, 1.0, 3e38], F)
    b = np.array([2.0, 2.0, -2.0, 1.0, -1.0, INF, 2.5, 2.5, 1.0, 1e30], F)
    with np.errstate(all="ignore"):
        want = np.stack([np.copysign(a, b), np.fmod(a, b), np.hypot(a, b), np.nextafter(a, b)])
    want2 = want.copy()
    return f, [a, b, Out(want2, rtol=2e-7, atol=1e-45)]


@program()
def powers_of_negative_bases():
    f = rows_of(lambda a, b: [T.pow(a, b), T.pow(a, 3), T.pow(a, 2)], F32[9], F32[9], F32[3, 9])

    a = np.array([2, -2, -2, 0, 4, -8, 1.5, INF, 3], F)
    b = np.array([10, 3, 2, 0, 0.5, 1, -2, 2, -INF], F)
    with np.errstate(all="ignore"):
        return f, [a, b, Out(np.stack([a**b, a**3, a**2]), rtol=1e-6)]


@program()
def denormal_numbers_survive():
    @T.prim_func
    def f(A: F32[8], B: F32[8], C: F64[8], D: F64[8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8,), "float32")
            T.copy(A, s)
            for i in T.Parallel(8):
                B[i] = s[i] + s[i]
                D[i] = C[i] * 0.25

    a = np.array([1e-45, 3e-45, 1e-39, -1e-39, 1.17549435e-38, 2e-38, 0, -1e-45], F)
    c = np.array([5e-324, 1e-320, -2e-310, 4e-308, 1, 2, 0, -5e-324])
    with np.errstate(under="ignore"):
        return f, [a, Out(a + a), c, Out(c * 0.25)]


@program()
def infinities_as_constants():
    @T.prim_func
    def f(B: F32[4], C: F16[4], D: F64[4], E: BF16[4]):
        with T.Kernel(1, threads=32):
            T.fill(B, T.infinity("float32"))
            T.fill(C, -T.infinity("float16"))
            T.fill(D, T.infinity("float64"))
            T.fill(E, -T.infinity("bfloat16"))
            B[1] = -T.infinity("float32")
            B[2] = float("nan")
            C[3] = float("inf")
            D[0] = T.max_value("float64")
            E[2] = T.min_value("bfloat16")

    bf = np.array([-INF, -INF, 0, -INF], BF)
    bf[2] = ml_dtypes.finfo(BF).min
    return f, [
        Out(np.array([INF, -INF, NAN, INF], F)),
        Out(np.array([-INF, -INF, -INF, INF], H)),
        Out(np.array([np.finfo(np.float64).max, INF, INF, INF])),
        Out(bf),
    ]


@program()
def the_sign_of_zero_survives():
    f = rows_of(lambda a: [-a, 0.0 - a, a * -1.0, a + 0.0, T.abs(a) * 0.0], F32[6], F32[5, 6])

    a = np.array([0.0, -0.0, 1, -1, 5e-40, -2], F)
    return f, [a, Out(np.stack([-a, F(0) - a, a * F(-1), a + F(0), np.abs(a) * F(0)]))]


@program()
def sums_are_not_reassociated():
    @T.prim_func
    def f(A: F32[32, 3], B: F32[32], C: F32[32]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(32):
                B[i] = (A[i, 0] + A[i, 1]) + A[i, 2]
                C[i] = (A[i, 0] + A[i, 1]) - A[i, 0]

    rng = np.random.default_rng(2)
    a = (rng.standard_normal((32, 3)) * [1e8, 1, 1e8]).astype(F)
    a[:, 2] = -a[:, 0]
    return f, [a, Out((a[:, 0] + a[:, 1]) + a[:, 2]), Out((a[:, 0] + a[:, 1]) - a[:, 0])]


@program()
def a_number_minus_itself_and_times_zero():
    """Rules of real numbers that floats do not have: x - x, x * 0, x / x, x == x."""

    @T.prim_func
    def f(A: F32[16], B: F32[3, 16], C: T.Tensor((2, 16), "bool")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[0, i] = A[i] - A[i]
                B[1, i] = A[i] * 0.0
                B[2, i] = A[i] / A[i]
                C[0, i] = A[i] == A[i]
                C[1, i] = A[i] != A[i]

    s = SPECIAL
    with np.errstate(all="ignore"):
        return f, [s, Out(np.stack([s - s, s * F(0), s / s])), Out(np.stack([s == s, s != s]))]


@program()
def reductions_of_special_numbers():
    @T.prim_func
    def f(A: F32[6, 40], M: F32[6], N: F32[6], S: F32[6]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((6, 40), "float32")
            m = T.alloc_fragment((6,), "float32")
            T.copy(A, x)
            T.reduce_max(x, m, dim=1)
            T.copy(m, M)
            T.reduce_min(x, m, dim=1)
            T.copy(m, N)
            T.reduce_sum(x, m, dim=1)
            T.copy(m, S)

    a = np.random.default_rng(3).integers(-9, 9, (6, 40)).astype(F)
    a[0, 3] = NAN
    a[1, 39] = INF
    a[2, 0] = -INF
    a[3, 5], a[3, 6] = INF, -INF
    a[4, 1:] = NAN
    with np.errstate(invalid="ignore"):
        return f, [a, Out(np.fmax.reduce(a, 1)), Out(np.fmin.reduce(a, 1)), Out(a.sum(1))]


@program()
def float64_keeps_its_digits():
    f = rows_of(lambda a: [a + 1, a * a, T.sqrt(T.abs(a))], F64[32], F64[3, 32])

    a = np.random.default_rng(4).standard_normal(32) * 1e-9
    return f, [a, Out(np.stack([a + 1, a * a, np.sqrt(np.abs(a))]))]


@program()
def a_clamp_keeps_nan():
    @T.prim_func
    def f(A: F32[16], B: F32[16], C: I32[16], D: I32[16]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = T.clamp(A[i], -1.0, 1.0)
                D[i] = T.clamp(C[i], -3, 5)

    c = np.arange(-8, 8, dtype=I)
    return f, [SPECIAL, Out(np.clip(SPECIAL, -1, 1)), c, Out(np.clip(c, -3, 5))]


# Infinity and NaN of e5m2: conversions to it saturate, what is moved or computed in it keeps them.
CODES = np.arange(256).astype(np.uint8).view(E5)


def _converted(x):
    return np.clip(x, -57344, 57344).astype(E5)


def _computed(x):
    return np.where(np.isinf(x), x, np.clip(x, -57344, 57344)).astype(E5)


@program(also=["sm_90a"])
def infinity_of_small_floats():
    # A constant of e5m2 is infinite; a cast of one saturates, as all casts to it do.
    @T.prim_func
    def f(B: F32[8], C: F32[8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8,), "float8_e5m2")
            T.fill(s, -T.infinity("float8_e5m2"))
            for i in T.Parallel(8):
                B[i] = T.cast(s[i], "float32")
                C[i] = T.cast(T.max_value("float8_e4m3fn"), "float32")

    return f, [Out(np.full(8, -np.inf, F)), Out(np.full(8, 448, F))]


@program(also=["sm_90a"])
def e5m2_is_filled_with_infinity_and_nan():
    @T.prim_func
    def f(
        A: T.Tensor((8,), "float8_e5m2"), B: U8[8], C: T.Tensor((8,), "float8_e5m2"),
        D: T.Tensor((8,), "float8_e5m2"), E: T.Tensor((8,), "float8_e3m4"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            T.fill(A, T.infinity("float8_e5m2"))
            T.fill(C, T.float8_e5m2(float("nan")))
            T.fill(E, T.infinity("float8_e3m4"))
            v = T.alloc_var("float8_e5m2", init=T.infinity("float8_e5m2"))
            for i in T.Parallel(8):
                B[i] = T.reinterpret(T.infinity("float8_e5m2"), "uint8")
                D[i] = T.if_then_else(i < 4, -T.infinity("float8_e5m2"), v)

    want = np.where(np.arange(8) < 4, -np.inf, np.inf)
    return f, [
        Out(np.full(8, np.inf, E5)),
        Out(np.full(8, 0x7C, np.uint8)),
        Out(np.full(8, np.nan, E5)),
        Out(want.astype(E5)),
        Out(np.full(8, np.inf, ml_dtypes.float8_e3m4)),
    ]


@program(also=["sm_90a"])
def every_e5m2_is_moved_with_its_bits():
    @T.prim_func
    def f(A: T.Tensor((256,), "float8_e5m2"), P: I32[256], B: T.Tensor((5, 256), "float8_e5m2")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((256,), "float8_e5m2")
            r = T.alloc_fragment((256,), "float8_e5m2")
            T.copy(A, s)
            T.copy(s, r)
            T.copy(r, B[0, :])
            for i in T.Parallel(256):
                B[1, i] = A[P[i]]
                B[2, i] = T.if_then_else(P[i] % 2 == 0, A[i], r[i])
                B[3, i] = T.reinterpret(T.reinterpret(s[i], "uint8"), "float8_e5m2")
            for i in T.serial(256):
                v = T.alloc_var("float8_e5m2")
                v = A[i]
                B[4, i] = v

    order = np.random.default_rng(5).permutation(256).astype(I)
    return f, [CODES, order, Out(np.stack([CODES, CODES[order], CODES, CODES, CODES]))]


@program(also=["sm_90a"])
def signs_and_extremes_of_e5m2_keep_infinity():
    @T.prim_func
    def f(
        A: T.Tensor((256,), "float8_e5m2"), B: T.Tensor((256,), "float8_e5m2"),
        C: T.Tensor((4, 256), "float8_e5m2"), D: F32[256], E: F16[256],
    ):  # fmt: skip
        with T.Kernel(1, threads=64):
            for i in T.Parallel(256):
                C[0, i] = -A[i]
                C[1, i] = T.abs(A[i])
                C[2, i] = T.max(A[i], B[i])
                C[3, i] = T.min(A[i], B[i])
                D[i] = T.cast(A[i], "float32")
                E[i] = T.cast(A[i], "float16")

    a = CODES.astype(F)
    b = np.roll(CODES, 99)
    b[np.isnan(b.astype(F)) | (b == 0)] = (
        1  # maxima with NaN, and of zeros, have tests of their own
    )
    wide = b.astype(F)
    want = np.stack([-a, np.abs(a), np.fmax(a, wide), np.fmin(a, wide)]).astype(E5)
    return f, [CODES, b, Out(want), Out(a), Out(a.astype(H))]


@program(also=["sm_90a"])
def arithmetic_of_e5m2_saturates_and_keeps_infinity():
    # Finite results that are too large become the largest number; infinite ones stay infinite.
    @T.prim_func
    def f(
        A: T.Tensor((1024,), "float8_e5m2"), B: T.Tensor((1024,), "float8_e5m2"),
        C: T.Tensor((4, 1024), "float8_e5m2"), D: F32[1024],
    ):  # fmt: skip
        with T.Kernel(1, threads=64):
            for i in T.Parallel(1024):
                C[0, i] = A[i] + B[i]
                C[1, i] = A[i] - B[i]
                C[2, i] = A[i] * B[i]
                C[3, i] = A[i] / B[i]
                D[i] = T.cast(A[i] + B[i], "float32")

    some = np.concatenate([CODES[::11], CODES[[0x7B, 0x7C, 0xFB, 0xFC, 0x7F, 0x00, 0x80, 0x3C]]])[
        :32
    ]
    a, b = (x.reshape(-1).copy() for x in np.meshgrid(some, some))
    x, y = a.astype(F), b.astype(F)
    with np.errstate(all="ignore"):
        want = _computed(np.stack([x + y, x - y, x * y, x / y]))
    return f, [a, b, Out(want), Out(want[0].astype(F))]


@program(also=["sm_90a"])
def reductions_of_e5m2_keep_infinity():
    @T.prim_func
    def f(
        A: T.Tensor((8, 32), "float8_e5m2"),
        B: T.Tensor((4, 8), "float8_e5m2"),
        C: T.Tensor((8, 32), "float8_e5m2"),
    ):
        with T.Kernel(1, threads=32):
            r = T.alloc_fragment((8, 32), "float8_e5m2")
            s = T.alloc_shared((8, 32), "float8_e5m2")
            high = T.alloc_fragment((8,), "float8_e5m2")
            low = T.alloc_fragment((8,), "float8_e5m2")
            total = T.alloc_fragment((8,), "float8_e5m2")
            T.copy(A, r)
            T.copy(A, s)
            T.reduce_max(r, high, dim=1)
            T.reduce_min(r, low, dim=1)
            T.reduce_sum(r, total, dim=1)
            T.copy(high, B[0, :])
            T.copy(low, B[1, :])
            T.copy(total, B[2, :])
            highest = T.alloc_reducer((8,), "float8_e5m2", op="max")
            T.fill(highest, -T.infinity("float8_e5m2"))
            for i, j in T.Parallel(8, 32):
                highest[i] = T.max(highest[i], r[i, j])
            T.finalize_reducer(highest)
            T.copy(highest, B[3, :])
            T.cumsum(s, dim=1)
            T.copy(s, C)

    a = np.zeros((8, 32), F)
    a[1, 3], a[2, 5], a[3], a[4], a[5, 7], a[6, 31] = INF, -INF, INF, -INF, 4, NAN
    a[7, 2], a[7, 9] = INF, -INF
    with np.errstate(invalid="ignore"):
        high = np.fmax.reduce(a, 1)
        want = np.stack([high, np.fmin.reduce(a, 1), a.sum(1), high])
        running = np.cumsum(a, 1)
    return f, [a.astype(E5), Out(_computed(want)), Out(_computed(running))]


@program(also=["sm_90a"])
def conversions_to_e5m2_saturate_infinity():
    @T.prim_func
    def f(
        A: F32[16], H: F16[16], D: F64[16], x: T.float8_e5m2, B: T.Tensor((6, 16), "float8_e5m2"),
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16,), "float32")
            T.copy(A, s)
            T.copy(s, B[0, :])
            for i in T.Parallel(16):
                B[1, i] = A[i]
                B[2, i] = T.cast(H[i], "float8_e5m2")
                B[3, i] = D[i]
                B[4, i] = T.cast(T.infinity("float32"), "float8_e5m2")
                B[5, i] = x

    with np.errstate(over="ignore"):
        half = SPECIAL.astype(np.float16)
    full = np.full(16, 57344, F)
    want = np.stack([SPECIAL, SPECIAL, half.astype(F), SPECIAL, full, -full])
    return f, [SPECIAL, half, SPECIAL.astype(np.float64), -np.inf, Out(_converted(want))]
