"""Kinds of wrong code that the trackers of tile compilers report: atomics.

Each program is written anew after the idea of a report; its comment names the kind of mistake.
"""

from __future__ import annotations

import numpy as np
from tensor_types import BF16, F16, F32, I32

import tilelang.language as T

from .registry import BF, F, H, I, Out, ints, program


@program()
def maxima_of_halves_with_a_literal_of_32_bits():
    # The low half of the bits of a float taken for a half.
    @T.prim_func
    def f(A: F32[40], B: F16[2], C: BF16[2]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(40):
                T.atomic_max(B[0], 42.0)
                T.atomic_min(B[1], A[i])
                T.atomic_max(C[0], A[i])
                T.atomic_min(C[1], -42.5)

    a = ints(40, 2)
    return f, [
        a,
        Out(np.array([42, a.min()], H), np.zeros(2, H)),
        Out(np.array([a.max(), -42.5], BF), np.zeros(2, BF)),
    ]


@program()
def quadruples_of_integers_and_halves_added():
    # The vector form of floats used for other types.
    @T.prim_func
    def f(A: F16[2, 32], B: F16[32]):
        with T.Kernel(2, threads=8) as b:
            t = T.get_thread_binding()
            T.atomic_addx4(B[t * 4], A[b, t * 4])

    a = ints((2, 32), 4, H)
    return f, [a, Out(a.sum(0) + H(1), np.ones(32, H))]


@program()
def old_values_of_maxima_of_floats():
    @T.prim_func
    def f(A: F32[6], M: F32[2], B: F32[2, 6]):
        with T.Kernel(1, threads=1):
            for i in T.serial(6):
                p = T.atomic_max(M[0], A[i], return_prev=True)
                q = T.atomic_min(M[1], A[i], return_prev=True)
                B[0, i] = p
                B[1, i] = q

    a = np.array([-3, 2, -7, 5, 1, -8], F)
    high = np.concatenate([[0], np.maximum.accumulate(np.maximum(a, 0))[:-1]])
    low = np.concatenate([[0], np.minimum.accumulate(np.minimum(a, 0))[:-1]])
    return f, [a, Out(np.array([5, -8], F), np.zeros(2, F)), Out(np.stack([high, low]).astype(F))]


@program()
def tiles_added_atomically_with_an_order():
    @T.prim_func
    def f(A: BF16[2, 48], B: BF16[48], C: F32[48]):
        with T.Kernel(2, threads=16) as b:
            x = T.alloc_fragment((48,), "bfloat16")
            T.copy(A[b, 0:48], x)
            T.atomic_add(B, x, memory_order="acq_rel")
            T.atomic_add(C, x, memory_order="relaxed")

    a = ints((2, 48), 5, BF, -8, 8)
    total = a.astype(F).sum(0)
    return f, [a, Out(total.astype(BF), np.zeros(48, BF)), Out(total, np.zeros(48, F))]


@program()
def a_maximum_over_a_whole_buffer_by_all_threads():
    # The documented form of a reduction: an element of the result, a value of each thread.
    @T.prim_func
    def f(A: I32[128], S: I32[1], M: I32[1], N: I32[1]):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            T.atomic_add(S[0], A[t])
            T.atomic_max(M[0], A[t])
            T.atomic_min(N[0], A[t])

    a = ints(128, 6, I)
    z = np.zeros(1, I)
    return f, [a, *(Out(np.array([x], I), z) for x in (a.sum(), max(a.max(), 0), min(a.min(), 0)))]
