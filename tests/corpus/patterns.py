"""Patterns of kernels whose loops and tiles do not run the same way: results stored across, scores
filled by columns, iterations with effects whose results several threads hold."""

from __future__ import annotations

from functools import partial

import numpy as np
from tensor_types import F16, F32, I32

import tilelang.language as T

from .registry import F, H, Out, ints, program

_ints = partial(ints, dtype=H, low=-4, high=5)


@program(also=("sm_90a",))
def a_square_result_stored_transposed():
    @T.prim_func
    def f(A: F16[64, 32], B: F16[32, 64], C: F16[64, 64]):
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
    def f(A: F16[64, 32], B: F16[64, 32], C: F32[64, 64]):
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


@program(also=("sm_90a",))
def places_in_a_queue_by_atomics():
    """Fewer requests than threads: each takes its place once, though several threads hold it."""

    @T.prim_func
    def f(A: I32[5], B: I32[8], C: I32[5], D: I32[5]):
        with T.Kernel(1, threads=128):
            old = T.alloc_fragment((5,), "int32")
            for i in T.Parallel(5):
                old[i] = T.atomic_add(B[A[i]], i + 1, return_prev=True)
            T.copy(old, C)
            for i in T.Parallel(5):
                old[i] = old[i] * 2
            T.copy(old, D)

    where = np.array([6, 1, 4, 0, 3], np.int32)
    want = np.full(8, 7, np.int32)
    want[where] += np.arange(5, dtype=np.int32) + 1
    seven = np.full(5, 7, np.int32)
    return f, [where, Out(want, np.full(8, 7, np.int32)), Out(seven), Out(seven * 2)]


@program(also=("sm_90a",))
def counters_taken_and_reset():
    """A loop reads into registers what it then overwrites, with several threads for an element."""

    @T.prim_func
    def f(A: I32[6], B: I32[6], C: I32[6]):
        with T.Kernel(1, threads=64):
            held = T.alloc_shared((6,), "int32")
            steps = T.alloc_fragment((6,), "int32")
            total = T.alloc_fragment((1,), "int32")
            T.copy(A, held)
            T.clear(steps)
            for _ in T.serial(3):
                for i in T.Parallel(6):
                    if held[i] > 1:
                        held[i] = T.if_then_else(held[i] % 2 == 0, held[i] // 2, held[i] * 3 + 1)
                        steps[i] += 1
            T.copy(held, B)
            for i in T.Parallel(6):
                steps[i] += held[i]
                held[i] = 0
            T.reduce_sum(steps, total, dim=0)
            for i in T.Parallel(6):
                C[i] = steps[i] * 100 + total[0] + held[i]

    first = np.array([1, 2, 4, 3, 8, 7], np.int32)
    last, steps = np.array([1, 1, 1, 16, 1, 34], np.int32), np.array([0, 1, 2, 3, 3, 3], np.int32)
    # 3, 10, 5, 16 and 7, 22, 11, 34: three steps, or fewer where a number has become 1
    both = (steps + last).astype(np.int32)
    return f, [first, Out(last), Out((both * 100 + both.sum()).astype(np.int32))]


@program(also=("sm_90a",))
def one_place_in_a_queue_for_a_block():
    """What an atomic operation gave one thread, all threads of the block use."""

    @T.prim_func
    def f(B: I32[2], C: I32[32]):
        with T.Kernel(1, threads=32):
            place = T.alloc_fragment((1,), "int32")
            for i in T.Parallel(1):
                place[i] = T.atomic_add(B[1], 3, return_prev=True)
            for i in T.Parallel(32):
                C[i] = place[0] + i

    return f, [Out(np.array([5, 8], np.int32), np.full(2, 5, np.int32)),
               Out(np.arange(5, 37, dtype=np.int32))]  # fmt: skip
