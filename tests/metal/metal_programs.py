"""Programs that the tests of Metal share."""

from __future__ import annotations

import tilelang.language as T


@T.prim_func
def scaled(A: T.Tensor((1000,), "float32"), B: T.Tensor((1000,), "float32"), s: T.float32):
    with T.Kernel(T.ceildiv(1000, 128), threads=128) as bx:
        for i in T.Parallel(128):
            B[bx * 128 + i] = A[bx * 128 + i] * s


@T.prim_func
def softmax(A: T.Tensor((64, 128), "float16"), B: T.Tensor((64, 128), "float16")):
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

    @T.prim_func
    def gemm(
        A: T.Tensor((m, k), dtype), B: T.Tensor((k, n), dtype), C: T.Tensor((m, n), "float32")
    ):
        with T.Kernel(T.ceildiv(n, 32), T.ceildiv(m, 32), threads=64) as (bx, by):
            a = T.alloc_shared((32, 32), dtype)
            b = T.alloc_shared((32, 32), dtype)
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for step in T.Pipelined(T.ceildiv(k, 32), num_stages=2):
                T.copy(A[by * 32, step * 32], a)
                T.copy(B[step * 32, bx * 32], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * 32, bx * 32])

    return gemm


@T.prim_func
def counted(
    A: T.Tensor((256,), "int32"), total: T.Tensor((4,), "int32"), s: T.Tensor((1,), "float32")
):
    with T.Kernel(2, threads=128) as bx:
        own = T.alloc_shared((4,), "int32")
        for i in T.Parallel(4):
            own[i] = 0
        for i in T.Parallel(128):
            T.atomic_add(own[A[bx * 128 + i]], 1)
            T.atomic_max(s[0], T.cast(A[bx * 128 + i], "float32"))
        for i in T.Parallel(4):
            T.atomic_add(total[i], own[i])
