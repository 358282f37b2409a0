"""Quantised numbers: packed nibbles, scales, look-up tables, products with unpacked factors."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
from tensor_types import BF16, F32, I8

import tilelang.language as T

from .registry import F, H, I, Out, ints, program

U8 = np.uint8
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], F)


def _bytes(shape, seed=0):
    return np.random.default_rng(seed).integers(0, 256, shape).astype(U8)


_ints = partial(ints, low=-4, high=5)


def _nibbles(packed):
    return np.stack([packed & 15, packed >> 4], -1).reshape(*packed.shape[:-1], -1)


@program()
def unsigned_nibbles():
    @T.prim_func
    def f(A: T.Tensor((16, 32), "uint8"), B: T.Tensor((16, 64), "int32")):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(16, 64):
                B[i, j] = T.cast(
                    (A[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15), "int32"
                )

    a = _bytes((16, 32))
    return f, [a, Out(_nibbles(a).astype(I))]


@program()
def signed_nibbles_by_shifts():
    @T.prim_func
    def f(A: T.Tensor((16, 32), "int8"), B: T.Tensor((16, 64), "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 32), "int8")
            b = T.alloc_fragment((16, 64), "float16")
            T.copy(A, a)
            for i, j in T.Parallel(16, 64):
                low = (a[i, j // 2] << T.cast(4 - j % 2 * 4, "int8")) >> T.int8(4)
                b[i, j] = T.cast(low, "float16")
            T.copy(b, B)

    a = _bytes((16, 32), 1)
    n = _nibbles(a).astype(I)
    return f, [a.view(np.int8), Out(np.where(n > 7, n - 16, n).astype(H))]


@program(also=("sm_90a",))
def weights_of_four_bits_with_scales_of_groups():
    @T.prim_func
    def f(
        A: T.Tensor((16, 64), "float16"), Q: T.Tensor((32, 32), "uint8"),
        S: T.Tensor((32, 2), "float16"), C: T.Tensor((16, 32), "float32"),
    ):  # fmt: skip
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 32), "float16")
            q = T.alloc_shared((32, 16), "uint8")
            w = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((16, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(Q[0, k * 16], q)
                for i, j in T.Parallel(32, 32):
                    nibble = (q[i, j // 2] >> T.cast(4 * (j % 2), "uint8")) & T.uint8(15)
                    w[i, j] = (T.cast(nibble, "float16") - T.float16(8)) * S[i, k]
                T.gemm(a, w, c, transpose_B=True)
            T.copy(c, C)

    a, q = _ints((16, 64), 2, H), _bytes((32, 32), 3)
    s = np.array([0.5, 1, 2, 0.25], H)[np.random.default_rng(4).integers(0, 4, (32, 2))]
    w = (_nibbles(q).astype(F) - 8) * s.astype(F).repeat(32, 1)
    return f, [a, q, s, Out(a.astype(F) @ w.T)]


@program()
def fours_bits_of_floats_by_a_table():
    @T.prim_func
    def f(
        Q: T.Tensor((16, 16), "uint8"),
        L: T.Tensor((16,), "float32"),
        B: T.Tensor((16, 32), "float32"),
    ):
        with T.Kernel(1, threads=32):
            table = T.alloc_shared((16,), "float32")
            T.copy(L, table)
            for i, j in T.Parallel(16, 32):
                B[i, j] = table[
                    T.cast((Q[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15), "int32")
                ]

    q = _bytes((16, 16), 5)
    return f, [q, E2M1, Out(E2M1[_nibbles(q)])]


@program()
def four_bits_of_floats_by_arithmetic():
    """Sign, two bits of exponent and one of mantissa become those of a half by shifts."""

    @T.prim_func
    def f(Q: T.Tensor((16, 16), "uint8"), B: T.Tensor((16, 32), "float16")):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(16, 32):
                n = T.cast((Q[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15), "uint16")
                sign = (n & T.uint16(8)) << T.uint16(12)
                body = (n & T.uint16(7)) << T.uint16(9)
                B[i, j] = T.reinterpret(sign | body, "float16") * T.float16(16384)

    q = _bytes((16, 16), 6)
    return f, [q, Out(E2M1[_nibbles(q)].astype(H))]


@program()
def packing_two_numbers_into_a_byte():
    @T.prim_func
    def f(A: T.Tensor((8, 64), "float32"), B: T.Tensor((8, 32), "uint8")):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((8, 64), "float32")
            T.copy(A, x)
            s = T.alloc_shared((8, 64), "uint8")
            for i, j in T.Parallel(8, 64):
                s[i, j] = T.cast(T.clamp(T.round(x[i, j]), 0.0, 15.0), "uint8")
            for i, j in T.Parallel(8, 32):
                B[i, j] = s[i, 2 * j] | (s[i, 2 * j + 1] << T.uint8(4))

    a = np.random.default_rng(7).uniform(-3, 20, (8, 64)).astype(F)
    q = np.clip(np.rint(a), 0, 15).astype(U8)
    return f, [a, Out(q[:, ::2] | (q[:, 1::2] << 4))]


@program(also=("sm_90a",))
def rows_scaled_to_int8():
    @T.prim_func
    def f(A: F32[12, 96], Q: I8[12, 96], S: F32[12]):
        with T.Kernel(3, threads=64) as b:
            x = T.alloc_fragment((4, 96), "float32")
            m = T.alloc_fragment((4,), "float32")
            q = T.alloc_fragment((4, 96), "int8")
            T.copy(A[b * 4, 0], x)
            T.reduce_absmax(x, m, dim=1)
            for i in T.Parallel(4):
                m[i] = T.max(m[i], 1e-4) / 127.0
            for i, j in T.Parallel(4, 96):
                q[i, j] = T.cast(T.clamp(T.round(x[i, j] / m[i]), -127.0, 127.0), "int8")
            T.copy(q, Q[b * 4, 0])
            T.copy(m, S[b * 4])

    a = np.random.default_rng(8).standard_normal((12, 96)).astype(F)
    a[5] = 0
    s = (np.maximum(np.abs(a).max(1), F(1e-4)) / F(127)).astype(F)
    q = np.clip(np.rint(a / s[:, None]), -127, 127).astype(np.int8)
    return f, [a, Out(q), Out(s)]


@program()
def groups_scaled_to_float8():
    @T.prim_func
    def f(A: BF16[8, 128], Q: T.Tensor((8, 128), "float8_e4m3fn"), S: F32[8, 4]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((8, 4, 32), "float32")
            m = T.alloc_fragment((8, 4), "float32")
            for i, g, j in T.Parallel(8, 4, 32):
                x[i, g, j] = A[i, g * 32 + j]
            T.reduce_absmax(x, m, dim=2)
            for i, g in T.Parallel(8, 4):
                m[i, g] = T.max(m[i, g], 1e-4) / 448.0
                S[i, g] = m[i, g]
            for i, g, j in T.Parallel(8, 4, 32):
                Q[i, g * 32 + j] = T.cast(x[i, g, j] / m[i, g], "float8_e4m3fn")

    a = np.random.default_rng(9).standard_normal((8, 128)).astype(ml_dtypes.bfloat16)
    x = a.astype(F).reshape(8, 4, 32)
    s = (np.maximum(np.abs(x).max(2), F(1e-4)) / F(448)).astype(F)
    q = (x / s[:, :, None]).reshape(8, 128)
    return f, [a, Out(np.clip(q, -448, 448).astype(ml_dtypes.float8_e4m3fn)), Out(s)]


@program(also=("sm_90a",))
def products_of_bytes_scaled_by_rows_and_columns():
    @T.prim_func
    def f(A: I8[32, 64], B: I8[32, 64], R: F32[32], S: F32[32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "int8")
            b = T.alloc_shared((32, 32), "int8")
            c = T.alloc_fragment((32, 32), "int32")
            d = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[0, k * 32], b)
                T.gemm(a, b, c, transpose_B=True)
            for i, j in T.Parallel(32, 32):
                d[i, j] = T.cast(c[i, j], "float32") * R[i] * S[j]
            T.copy(d, C)

    a, b = ints((32, 64), 10, np.int8, -128, 128), ints((32, 64), 11, np.int8, -128, 128)
    r = F(2.0) ** _ints(32, 12, F)
    s = F(2.0) ** _ints(32, 13, F)
    return f, [a, b, r, s, Out((a.astype(I) @ b.astype(I).T).astype(F) * r[:, None] * s)]


@program()
def three_bits_across_the_edges_of_words():
    """Ten numbers of three bits in each word of 32 bits: offsets that are not powers of two."""

    @T.prim_func
    def f(W: T.Tensor((13,), "uint32"), B: T.Tensor((130,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(130):
                B[i] = T.cast((W[i // 10] >> T.cast(i % 10 * 3, "uint32")) & 7, "int32") - 4

    w = np.random.default_rng(14).integers(0, 2**30, 13).astype(np.uint32)
    i = np.arange(130)
    return f, [w, Out(((w[i // 10] >> (i % 10 * 3).astype(np.uint32)) & 7).astype(I) - 4)]


@program()
def single_bits_as_signs():
    @T.prim_func
    def f(
        W: T.Tensor((4, 8), "uint8"), X: T.Tensor((64,), "float32"), Y: T.Tensor((4,), "float32")
    ):
        with T.Kernel(4, threads=32) as r:
            p = T.alloc_fragment((64,), "float32")
            s = T.alloc_fragment((1,), "float32")
            for j in T.Parallel(64):
                bit = (W[r, j // 8] >> T.cast(j % 8, "uint8")) & T.uint8(1)
                p[j] = T.if_then_else(bit == 1, X[j], -X[j])
            T.reduce_sum(p, s)
            Y[r] = s[0]

    w, x = _bytes((4, 8), 15), _ints(64, 16)
    bits = np.unpackbits(w, axis=1, bitorder="little").astype(bool)
    return f, [w, x, Out(np.where(bits, x, -x).sum(1).astype(F))]


@program()
def zero_points_and_scales_loaded_by_column():
    @T.prim_func
    def f(
        Q: T.Tensor((64, 16), "uint8"), Z: T.Tensor((4, 8), "uint8"),
        S: T.Tensor((4, 16), "float16"), B: T.Tensor((64, 16), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=32) as g:
            for i, j in T.Parallel(16, 16):
                zero = (Z[g, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15)
                value = T.cast(Q[g * 16 + i, j], "int32") - T.cast(zero, "int32")
                B[g * 16 + i, j] = T.cast(value, "float16") * S[g, j]

    q, z = _bytes((64, 16), 17), _bytes((4, 8), 18)
    s = np.array([0.5, 1, 2, 0.25], H)[np.random.default_rng(19).integers(0, 4, (4, 16))]
    value = q.astype(I) - _nibbles(z).astype(I).repeat(16, 0)
    return f, [q, z, s, Out(value.astype(H) * s.repeat(16, 0))]


@program()
def bytes_unpacked_from_words_in_registers():
    @T.prim_func
    def f(W: T.Tensor((32, 4), "uint32"), B: T.Tensor((32, 16), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            words = T.alloc_local((4,), "uint32")
            for k in T.vectorized(4):
                words[k] = W[t, k]
            chars = T.view(words, (16,), "int8")
            for k in T.serial(16):
                B[t, k] = chars[k]

    w = np.random.default_rng(20).integers(0, 2**32, (32, 4)).astype(np.uint32)
    return f, [w, Out(w.view(np.int8).astype(F))]
