"""Matrix products: transposes, types, policies, edges, chains."""

from __future__ import annotations

from functools import partial

import ml_dtypes
import numpy as np
from tensor_types import BF16, F16, F32, I32, U8

import tilelang
import tilelang.language as T

from .registry import BF, F, H, I, Out, ints, program

_ints = partial(ints, low=-4, high=5)


def _gemm(m, n, k, dtype, out, as_numpy, accumulate, left=False, right=False, threads=128, **hints):
    shape_a, shape_b = ((k, m) if left else (m, k)), ((n, k) if right else (k, n))

    @T.prim_func
    def f(A: T.Tensor(shape_a, dtype), B: T.Tensor(shape_b, dtype), C: T.Tensor((m, n), out)):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared(shape_a, dtype)
            b = T.alloc_shared(shape_b, dtype)
            c = T.alloc_fragment((m, n), out)
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c, transpose_A=left, transpose_B=right, **hints)
            T.copy(c, C)

    a, b = _ints(shape_a, 1, as_numpy), _ints(shape_b, 2, as_numpy)
    x = a.astype(np.float64)
    y = b.astype(np.float64)
    product = (x.T if left else x) @ (y.T if right else y)
    return f, [a, b, Out(product.astype(accumulate))]


@program(also=("sm_90a",))
def half_to_float():
    return _gemm(64, 64, 32, "float16", "float32", H, F)


@program()
def half_to_half():
    return _gemm(32, 64, 32, "float16", "float16", H, H)


@program(also=("sm_90a",))
def both_factors_transposed():
    return _gemm(64, 32, 48, "float16", "float32", H, F, left=True, right=True)


@program()
def the_left_factor_transposed():
    return _gemm(32, 48, 64, "bfloat16", "float32", BF, F, left=True)


@program(also=("sm_90a",))
def the_right_factor_transposed():
    return _gemm(64, 40, 32, "float16", "float32", H, F, right=True)


@program(also=("sm_90a",))
def bytes_to_integers():
    return _gemm(32, 32, 64, "int8", "int32", np.int8, I, right=True)


@program()
def bytes_to_integers_not_transposed():
    return _gemm(32, 24, 64, "int8", "int32", np.int8, I, threads=64)


@program()
def unsigned_bytes_to_integers():
    @T.prim_func
    def f(A: U8[32, 32], B: U8[32, 32], C: I32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "uint8")
            b = T.alloc_shared((32, 32), "uint8")
            c = T.alloc_fragment((32, 32), "int32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    a = ints((32, 32), 3, np.uint8, 100, 256)
    b = ints((32, 32), 4, np.uint8, 100, 256)
    return f, [a, b, Out(a.astype(I) @ b.astype(I).T)]


@program()
def doubles():
    return _gemm(32, 32, 16, "float64", "float64", np.float64, np.float64)


@program()
def singles_by_tensor_floats():
    """Small integers are exact in the ten bits of tf32."""
    return _gemm(32, 32, 16, "float32", "float32", F, F, right=True)


@program()
def small_floats_e4m3():
    return _gemm(32, 32, 64, "float8_e4m3fn", "float32", ml_dtypes.float8_e4m3fn, F, right=True)


@program()
def small_floats_e5m2():
    return _gemm(32, 32, 32, "float8_e5m2", "float32", ml_dtypes.float8_e5m2, F)


@program(also=("sm_90a",))
def a_policy_of_full_rows():
    return _gemm(64, 32, 32, "float16", "float32", H, F, policy=T.GemmWarpPolicy.FullRow)


@program()
def a_policy_of_full_columns():
    return _gemm(32, 64, 32, "float16", "float32", H, F, policy=T.GemmWarpPolicy.FullCol)


@program()
def hints_that_change_nothing():
    return _gemm(32, 32, 32, "float16", "float32", H, F, k_pack=2, threads=64)


@program()
def one_warp():
    return _gemm(16, 8, 16, "float16", "float32", H, F, threads=32)


@program()
def many_warps_for_a_wide_tile():
    return _gemm(16, 128, 32, "float16", "float32", H, F, right=True, threads=256)


@program()
def a_product_added_to_what_is_there():
    @T.prim_func
    def f(A: F16[32, 16], B: F16[16, 32], C: F32[32, 32], D: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((16, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, c)
            T.gemm(a, b, c)
            for i, j in T.Parallel(32, 32):
                c[i, j] = c[i, j] * 2 - i
            T.gemm(a, b, c)
            T.copy(c, D)

    a, b, c = _ints((32, 16), 5, H), _ints((16, 32), 6, H), _ints((32, 32), 7)
    p = a.astype(F) @ b.astype(F)
    return f, [a, b, c, Out((c + 2 * p) * 2 - np.arange(32, dtype=F)[:, None] + p)]


@program()
def an_accumulator_cleared_by_a_condition():
    @T.prim_func
    def f(n: T.int32, A: F16[4, 32, 32], B: F16[32, 32], C: F32[4, 32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(B, b)
            T.fill(c, 1000)
            for k in T.serial(4):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, b, c, clear_accum=k % n == 1)
                T.copy(c, C[k, 0, 0])

    a, b = _ints((4, 32, 32), 8, H), _ints((32, 32), 9, H)
    c, want = np.full((32, 32), 1000, F), []
    for k in range(4):
        c = (0 if k % 2 == 1 else c) + a[k].astype(F) @ b.astype(F)
        want.append(c)
    return f, [2, a, b, Out(np.stack(want))]


@program(also=("sm_90a",))
def a_chain_of_two_products():
    @T.prim_func
    def f(A: F16[32, 32], B: F16[32, 64], C: F16[64, 16], D: F32[32, 16]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_shared((64, 16), "float16")
            p = T.alloc_fragment((32, 64), "float32")
            h = T.alloc_fragment((32, 64), "float16")
            d = T.alloc_fragment((32, 16), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, p, clear_accum=True)
            T.copy(p, h)
            T.gemm(h, c, d, clear_accum=True)
            T.copy(d, D)

    a, b, c = (
        ints((32, 32), 10, H, -1, 2),
        ints((32, 64), 11, H, -1, 2),
        ints((64, 16), 12, H, -1, 2),
    )
    return f, [a, b, c, Out(a.astype(F) @ b.astype(F) @ c.astype(F))]


@program()
def a_product_whose_result_is_the_right_factor_of_another():
    @T.prim_func
    def f(A: F16[32, 32], B: F16[32, 32], D: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            s = T.alloc_shared((32, 32), "float16")
            p = T.alloc_fragment((32, 32), "float32")
            d = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, p, clear_accum=True)
            T.copy(p, s)
            T.gemm(a, s, d, transpose_A=True, transpose_B=True, clear_accum=True)
            T.copy(d, D)

    a, b = ints((32, 32), 13, H, -1, 2), ints((32, 32), 14, H, -1, 2)
    x, y = a.astype(F), b.astype(F)
    return f, [a, b, Out(x.T @ (x @ y).T)]


@program()
def a_grid_of_tiles_with_edges():
    @T.prim_func
    def f(A: F16[70, 50], B: F16[45, 50], C: F32[70, 45]):
        with T.Kernel(T.ceildiv(45, 32), T.ceildiv(70, 32), threads=64) as (x, y):
            a = T.alloc_shared((32, 16), "float16")
            b = T.alloc_shared((32, 16), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(50, 16), num_stages=2):
                T.copy(A[y * 32, k * 16], a)
                T.copy(B[x * 32, k * 16], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[y * 32, x * 32])

    a, b = _ints((70, 50), 15, H), _ints((45, 50), 16, H)
    return f, [a, b, Out(a.astype(F) @ b.astype(F).T)]


@program()
def sizes_that_each_call_chooses():
    m, n, k = T.dynamic("m, n, k")

    @T.prim_func
    def f(A: F16[m, k], B: F16[k, n], C: F32[m, n]):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 32), threads=64) as (x, y):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(k, 32), num_stages=3):
                T.copy(A[y * 32, i * 32], a)
                T.copy(B[i * 32, x * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[y * 32, x * 32])

    def run(options):
        kernel = tilelang.compile(f, **options)
        for rows, columns, inner in ((32, 32, 32), (1, 1, 1), (33, 17, 70), (5, 40, 3)):
            a, b = _ints((rows, inner), 17, H), _ints((inner, columns), 18, H)
            c = np.zeros((rows, columns), F)
            kernel(a, b, c)
            Out(a.astype(F) @ b.astype(F)).check(f"{rows} {columns} {inner}", c)

    return run


@program()
def a_factor_computed_in_registers():
    @T.prim_func
    def f(A: F32[32, 32], S: F32[32], B: F16[32, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((32, 32), "float16")
            s = T.alloc_fragment((32,), "float32")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(S, s)
            T.copy(B, b)
            for i, j in T.Parallel(32, 32):
                x[i, j] = A[i, j] * s[j] + i % 2
            T.gemm(x, b, c, clear_accum=True)
            T.copy(c, C)

    a, s, b = _ints((32, 32), 19), _ints(32, 20), _ints((32, 32), 21, H)
    x = a * s + (np.arange(32) % 2)[:, None]
    return f, [a, s, b, Out((x @ b.astype(F)).astype(F))]


@program()
def an_epilogue_with_rows_and_columns():
    @T.prim_func
    def f(A: F16[64, 32], B: F16[32, 48], R: F32[64], S: F32[48], C: F16[64, 48], M: F32[64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 48), "float16")
            c = T.alloc_fragment((64, 48), "float32")
            m = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(64, 48):
                c[i, j] = T.max(c[i, j] + S[j], 0) - R[i]
            T.reduce_max(c, m, dim=1)
            T.copy(c, C)
            T.copy(m, M)

    a, b = _ints((64, 32), 22, H), _ints((32, 48), 23, H)
    r, s = _ints(64, 24), _ints(48, 25)
    c = np.maximum(a.astype(F) @ b.astype(F) + s, 0) - r[:, None]
    return f, [a, b, r, s, Out(c.astype(H)), Out(c.max(1))]


@program()
def products_by_two_groups_of_warps():
    @T.prim_func
    def f(A: F16[2, 32, 32], B: F16[32, 32], C: F32[2, 32, 32]):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            a = T.alloc_shared((2, 32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            T.copy(A, a)
            T.copy(B, b)
            c = T.alloc_fragment((32, 32), "float32")
            d = T.alloc_fragment((32, 32), "float32")
            if t < 128:
                T.gemm(a[0, :, :], b, c, clear_accum=True)
                T.copy(c, C[0, 0, 0])
            else:
                T.gemm(a[1, :, :], b, d, transpose_A=True, clear_accum=True)
                T.copy(d, C[1, 0, 0])

    a, b = _ints((2, 32, 32), 26, H), _ints((32, 32), 27, H)
    x, y = a.astype(F), b.astype(F)
    return f, [a, b, Out(np.stack([x[0] @ y, x[1].T @ y]))]


@program()
def a_product_split_along_k_with_atomics():
    @T.prim_func
    def f(A: F16[32, 128], B: F16[128, 32], C: F32[32, 32]):
        with T.Kernel(4, threads=64) as z:
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A[0, z * 32], a)
            T.copy(B[z * 32, 0], b)
            T.gemm(a, b, c, clear_accum=True)
            T.atomic_add(C, c)

    a, b = _ints((32, 128), 28, H), _ints((128, 32), 29, H)
    return f, [a, b, Out(a.astype(F) @ b.astype(F) + 5, np.full((32, 32), 5, F))]


@program()
def a_batch_over_the_grid():
    @T.prim_func
    def f(A: BF16[3, 2, 32, 16], B: BF16[3, 32, 16], C: BF16[3, 2, 32, 32]):
        with T.Kernel(2, 3, threads=64) as (h, z):
            a = T.alloc_shared((32, 16), "bfloat16")
            b = T.alloc_shared((32, 16), "bfloat16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A[z, h, 0, 0], a)
            T.copy(B[z, 0, 0], b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            T.copy(c, C[z, h, 0, 0])

    a, b = _ints((3, 2, 32, 16), 30, BF), _ints((3, 32, 16), 31, BF)
    want = np.einsum("zhik,zjk->zhij", a.astype(F), b.astype(F))
    return f, [a, b, Out(want.astype(BF))]
