"""Patterns of kernels that need a turn: results stored across, scores filled column by column."""

from __future__ import annotations

import numpy as np

import tilelang.language as T

from .registry import Out, program

F = np.float32
H = np.float16


def _ints(shape, seed=0, dtype=H, low=-4, high=5):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


@program(also=("sm_90a",))
def a_square_result_stored_transposed():
    @T.prim_func
    def f(
        A: T.Tensor((64, 32), "float16"),
        B: T.Tensor((32, 64), "float16"),
        C: T.Tensor((64, 64), "float16"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                C[i, j] = c[j, i]

    a, b = _ints((64, 32), 1), _ints((32, 64), 2)
    return f, [a, b, Out((a.astype(F) @ b.astype(F)).T.astype(H))]


@program(also=("sm_90a",))
def causal_scores_filled_column_by_column():
    @T.prim_func
    def f(
        A: T.Tensor((64, 32), "float16"),
        B: T.Tensor((64, 32), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(2, threads=128) as bx:
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A[bx * 32, 0], a)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(B[k * 32, 0], b)
                for j, i in T.Parallel(32, 32):
                    c[i, j] = T.if_then_else(bx * 32 + i >= k * 32 + j, 0, -1000)
                T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[bx * 32, k * 32])

    a, b = _ints((64, 32), 3), _ints((64, 32), 4)
    return f, [a, b, Out(a.astype(F) @ b.astype(F).T + np.where(np.tri(64), 0, -1000).astype(F))]
