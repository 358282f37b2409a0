"""Programs that the tests of Metal share."""

from __future__ import annotations

from gemm_program import gemm_program
from tensor_types import F16, F32, I32

import tilelang.language as T


@T.prim_func
def scaled(A: F32[1000], B: F32[1000], s: T.float32):
    with T.Kernel(T.ceildiv(1000, 128), threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i] * s


@T.prim_func
def softmax(A: F16[64, 128], B: F16[64, 128]):
    with T.Kernel(4, threads=128) as bx:
        tile = T.alloc_shared((16, 128), "float16")
        values = T.alloc_fragment((16, 128), "float32")
        top = T.alloc_fragment((16,), "float32")
        total = T.alloc_fragment((16,), "float32")
        T.copy(A[bx * 16, 0], tile)
        T.copy(tile, values)
        T.reduce_max(values, top, dim=1)
        for i, j in T.Parallel(16, 128):
            values[i, j] = T.exp(values[i, j] - top[i])
        T.reduce_sum(values, total, dim=1)
        for i, j in T.Parallel(16, 128):
            values[i, j] = values[i, j] / total[i]
        T.copy(values, B[bx * 16, 0])


def product(dtype: str, m: int = 64, n: int = 64, k: int = 64):
    """C = A B by blocks of 32 x 32, in float32."""
    return gemm_program(m, n, k, (32, 32, 32), threads=64, dtype=dtype)


@T.prim_func
def counted(A: I32[256], total: I32[4], s: F32[1]):
    with T.Kernel(2, threads=128) as bx:
        own = T.alloc_shared((4,), "int32")
        for i in T.Parallel(4):
            own[i] = 0
        for i in T.Parallel(128):
            T.atomic_add(own[A[bx * 128 + i]], 1)
            T.atomic_max(s[0], T.cast(A[bx * 128 + i], "float32"))
        for i in T.Parallel(4):
            T.atomic_add(total[i], own[i])


def attention(dtype: str = "float16", rows: int = 32, keys: int = 64, size: int = 32):
    """softmax(Q K^T) V for one head: products whose sums are scaled between, and one whose left
    factor is in registers."""

    @T.prim_func
    def flash(
        Q: T.Tensor((rows, size), dtype),
        K: T.Tensor((keys, size), dtype),
        V: T.Tensor((keys, size), dtype),
        O: T.Tensor((rows, size), dtype),  # noqa: E741  # the usual name
    ):
        with T.Kernel(1, threads=64):
            q = T.alloc_shared((rows, size), dtype)
            k = T.alloc_shared((32, size), dtype)
            v = T.alloc_shared((32, size), dtype)
            scores = T.alloc_fragment((rows, 32), "float32")
            weights = T.alloc_fragment((rows, 32), dtype)
            sums = T.alloc_fragment((rows, size), "float32")
            top = T.alloc_fragment((rows,), "float32")
            before = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")
            T.copy(Q, q)
            T.fill(sums, 0)
            T.fill(total, 0)
            T.fill(top, -T.infinity("float32"))
            for step in T.Pipelined(keys // 32, num_stages=1):
                T.copy(K[step * 32, 0], k)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                T.copy(top, before)
                T.reduce_max(scores, top, dim=1, clear=False)
                for i, j in T.Parallel(rows, 32):
                    scores[i, j] = T.exp(scores[i, j] - top[i])
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(rows):
                    total[i] = total[i] * T.exp(before[i] - top[i]) + part[i]
                for i, j in T.Parallel(rows, size):
                    sums[i, j] = sums[i, j] * T.exp(before[i] - top[i])
                T.copy(scores, weights)
                T.copy(V[step * 32, 0], v)
                T.gemm(weights, v, sums)
            for i, j in T.Parallel(rows, size):
                sums[i, j] = sums[i, j] / total[i]
            T.copy(sums, O)

    return flash


def turned(trans_a: bool, trans_b: bool, dtype: str = "float16", result: str = "float32"):
    """C += A B of one block, with the factors in memory in either order."""
    a_shape = (32, 16) if trans_a else (16, 32)
    b_shape = (24, 32) if trans_b else (32, 24)

    @T.prim_func
    def gemm(
        A: T.Tensor(a_shape, dtype), B: T.Tensor(b_shape, dtype), C: T.Tensor((16, 24), result)
    ):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared(a_shape, dtype)
            b = T.alloc_shared(b_shape, dtype)
            c = T.alloc_fragment((16, 24), result)
            T.copy(A, a)
            T.copy(B, b)
            T.copy(C, c)
            T.gemm(a, b, c, transpose_A=trans_a, transpose_B=trans_b)
            T.copy(c, C)

    return gemm
