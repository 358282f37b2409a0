"""Pipelined loops: the result is that of the serial loop, whatever is said about stages."""

from __future__ import annotations

from functools import partial

import numpy as np
from tensor_types import F16, F32, I32

import tilelang.language as T

from .registry import F, H, I, Out, ints, program

_ints = partial(ints, low=-4, high=5)


def _product(stages, k_tiles, **hints):
    K = k_tiles * 32

    @T.prim_func
    def f(A: F16[32, K], B: F16[K, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(k_tiles, num_stages=stages, **hints):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = _ints((32, K), 1, H), _ints((K, 32), 2, H)
    return f, [a, b, Out(a.astype(F) @ b.astype(F))]


@program()
def a_product_without_stages():
    return _product(0, 3)


@program()
def a_product_with_one_stage():
    return _product(1, 3)


@program(also=("sm_90a",))
def a_product_with_two_stages():
    return _product(2, 4)


@program(also=("sm_90a",))
def a_product_with_three_stages_and_two_steps():
    return _product(3, 2)


@program()
def a_product_with_four_stages_and_five_steps():
    return _product(4, 5)


@program()
def a_product_of_one_step_with_four_stages():
    return _product(4, 1)


@program()
def a_product_with_order_and_stage_given():
    return _product(2, 4, order=[0, 1, 2], stage=[0, 0, 1])


@program()
def a_product_with_groups_given():
    return _product(2, 4, group=[[0], [1], [2]])


@program()
def sums_of_tiles_with_bounds_at_run_time():
    @T.prim_func
    def f(first: T.int32, last: T.int32, A: F32[8, 64], B: F32[64]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float32")
            x = T.alloc_fragment((64,), "float32")
            T.fill(x, 1)
            for k in T.Pipelined(first, last, num_stages=3):
                T.copy(A[k, 0:64], s)
                for i in T.Parallel(64):
                    x[i] = x[i] * 2 + s[63 - i]
            T.copy(x, B)

    def run(options):
        import tilelang

        kernel = tilelang.compile(f, **options)
        a = _ints((8, 64), 3)
        for first, last in ((0, 8), (2, 3), (5, 5), (6, 2), (1, 8), (3, 5)):
            x = np.ones(64, F)
            for k in range(first, last):
                x = x * 2 + a[k, ::-1]
            b = np.zeros(64, F)
            kernel(first, last, a, b)
            Out(x).check(f"{first} to {last}", b)

    return run


@program(also=("sm_90a",))
def a_condition_inside():
    @T.prim_func
    def f(M: I32[6], A: F16[6, 32, 32], B: F16[32, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(B, b)
            T.clear(c)
            for k in T.Pipelined(6, num_stages=2):
                if M[k] != 0:
                    T.copy(A[k, 0, 0], a)
                    T.gemm(a, b, c)
            T.copy(c, C)

    m = np.array([1, 0, 0, 1, 1, 0], I)
    a, b = _ints((6, 32, 32), 4, H), _ints((32, 32), 5, H)
    return f, [m, a, b, Out((a[m != 0].astype(F) @ b.astype(F)).sum(0))]


@program()
def a_condition_around_the_consumer_only():
    @T.prim_func
    def f(M: I32[6], A: F32[6, 64], B: F32[64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((64,), "float32")
            x = T.alloc_fragment((64,), "float32")
            T.clear(x)
            for k in T.Pipelined(6, num_stages=3):
                T.copy(A[k, 0:64], s)
                if M[k] > 0:
                    for i in T.Parallel(64):
                        x[i] += s[i] * M[k]
                else:
                    for i in T.Parallel(64):
                        x[i] = x[i] - s[(i + 1) % 64]
            T.copy(x, B)

    m = np.array([2, 0, -1, 3, 0, 1], I)
    a = _ints((6, 64), 6)
    x = np.zeros(64, F)
    for k in range(6):
        x = x + a[k] * m[k] if m[k] > 0 else x - np.roll(a[k], -1)
    return f, [m, a, Out(x.astype(F))]


@program()
def the_last_tile_is_seen_after_the_loop():
    @T.prim_func
    def f(A: F32[5, 32], B: F32[32], C: F32[32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "float32")
            x = T.alloc_fragment((32,), "float32")
            T.clear(x)
            for k in T.Pipelined(5, num_stages=2):
                T.copy(A[k, 0:32], s)
                for i in T.Parallel(32):
                    x[i] += s[i]
            for i in T.Parallel(32):
                C[i] = s[31 - i]
            T.copy(x, B)

    a = _ints((5, 32), 7)
    return f, [a, Out(a.sum(0)), Out(a[4, ::-1].copy())]


@program()
def a_tile_carried_to_the_next_iteration():
    """What one iteration leaves in shared memory is read by the next: stages must not hide it."""

    @T.prim_func
    def f(A: F32[6, 32], B: F32[6, 32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "float32")
            p = T.alloc_shared((32,), "float32")
            T.clear(p)
            for k in T.Pipelined(6, num_stages=2):
                T.copy(A[k, 0:32], s)
                for i in T.Parallel(32):
                    B[k, i] = s[i] + p[31 - i]
                for i in T.Parallel(32):
                    p[i] = s[i] * 2

    a = _ints((6, 32), 8)
    p = np.concatenate([np.zeros((1, 32), F), a[:-1] * 2])
    return f, [a, Out(a + p[:, ::-1])]


@program()
def a_copy_reads_what_the_iteration_before_stored():
    """A prefetch of row k would read it before iteration k - 1 has stored it."""

    @T.prim_func
    def f(A: F32[6, 32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "float32")
            for k in T.Pipelined(5, num_stages=3):
                T.copy(A[k, 0:32], s)
                for i in T.Parallel(32):
                    A[k + 1, i] = A[k + 1, i] + s[31 - i]

    a = _ints((6, 32), 9)
    want = a.copy()
    for k in range(5):
        want[k + 1] += want[k, ::-1]
    return f, [Out(want, a)]


@program()
def a_stage_changed_in_place_before_it_is_used():
    @T.prim_func
    def f(A: F16[4, 32, 32], B: F16[4, 32, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k, 0, 0], a)
                T.copy(B[k, 0, 0], b)
                for i, j in T.Parallel(32, 32):
                    a[i, j] = T.max(a[i, j], 0)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    a, b = _ints((4, 32, 32), 10, H), _ints((4, 32, 32), 11, H)
    want = sum(np.maximum(a[k], 0).astype(F) @ b[k].astype(F).T for k in range(4))
    return f, [a, b, Out(want)]


@program()
def two_pipelines_after_each_other_with_one_tile():
    @T.prim_func
    def f(A: F32[4, 64], B: F32[3, 64], C: F32[64]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float32")
            x = T.alloc_fragment((64,), "float32")
            T.clear(x)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k, 0:64], s)
                for i in T.Parallel(64):
                    x[i] += s[i]
            for k in T.Pipelined(3, num_stages=3):
                T.copy(B[k, 0:64], s)
                for i in T.Parallel(64):
                    x[i] = x[i] * 2 - s[63 - i]
            T.copy(x, C)

    a, b = _ints((4, 64), 12), _ints((3, 64), 13)
    x = a.sum(0)
    for k in range(3):
        x = x * 2 - b[k, ::-1]
    return f, [a, b, Out(x)]


@program()
def a_pipeline_inside_a_serial_loop():
    @T.prim_func
    def f(A: F32[3, 4, 32], B: F32[3, 32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "float32")
            x = T.alloc_fragment((32,), "float32")
            for r in T.serial(3):
                T.fill(x, r)
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[r, k, 0:32], s)
                    for i in T.Parallel(32):
                        x[i] += s[(i + k) % 32]
                T.copy(x, B[r, 0:32])

    a = _ints((3, 4, 32), 14)
    want = np.stack([r + sum(np.roll(a[r, k], -k) for k in range(4)) for r in range(3)])
    return f, [a, Out(want.astype(F))]


@program()
def a_pipeline_inside_a_pipeline():
    @T.prim_func
    def f(A: F32[3, 16], B: F32[3, 4, 16], C: F32[3, 16]):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16,), "float32")
            b = T.alloc_shared((16,), "float32")
            x = T.alloc_fragment((16,), "float32")
            for r in T.Pipelined(3, num_stages=2):
                T.copy(A[r, 0:16], a)
                T.clear(x)
                for k in T.Pipelined(4, num_stages=3):
                    T.copy(B[r, k, 0:16], b)
                    for i in T.Parallel(16):
                        x[i] += a[i] * b[15 - i]
                T.copy(x, C[r, 0:16])

    a, b = _ints((3, 16), 15), _ints((3, 4, 16), 16)
    return f, [a, b, Out((a[:, None] * b[:, :, ::-1]).sum(1))]


@program()
def copies_at_places_that_are_loaded():
    @T.prim_func
    def f(P: I32[5], A: F16[10, 64], B: F32[64]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float16")
            x = T.alloc_fragment((64,), "float32")
            T.clear(x)
            for k in T.Pipelined(5, num_stages=3):
                T.copy(A[P[k], 0:64], s)
                for i in T.Parallel(64):
                    x[i] = x[i] * 2 + s[i]
            T.copy(x, B)

    p = np.array([9, 0, 3, 3, 7], I)
    a = _ints((10, 64), 17, H)
    x = np.zeros(64, F)
    for k in p:
        x = x * 2 + a[k].astype(F)
    return f, [p, a, Out(x)]


@program()
def a_place_loaded_from_a_tile_of_the_same_iteration():
    @T.prim_func
    def f(P: I32[5, 4], A: F32[10, 32], B: F32[5, 32]):
        with T.Kernel(1, threads=32):
            p = T.alloc_shared((4,), "int32")
            s = T.alloc_shared((32,), "float32")
            for k in T.Pipelined(5, num_stages=2):
                T.copy(P[k, 0:4], p)
                T.copy(A[p[2], 0:32], s)
                for i in T.Parallel(32):
                    B[k, i] = s[i] + p[0]

    p = np.random.default_rng(18).integers(0, 10, (5, 4)).astype(I)
    a = _ints((10, 32), 19)
    return f, [p, a, Out(a[p[:, 2]] + p[:, :1].astype(F))]


@program()
def the_edges_of_the_data_are_in_the_pipeline():
    @T.prim_func
    def f(A: F16[30, 75], B: F16[75, 28], C: F32[30, 28]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(75, 32), num_stages=3):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C[0, 0])

    a, b = _ints((30, 75), 20, H), _ints((75, 28), 21, H)
    return f, [a, b, Out(a.astype(F) @ b.astype(F))]


@program()
def a_loop_that_is_left_early():
    @T.prim_func
    def f(N: I32[1], A: F32[8, 32], B: F32[32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "float32")
            x = T.alloc_fragment((32,), "float32")
            T.clear(x)
            for k in T.Pipelined(8, num_stages=2):
                if k < N[0]:
                    T.copy(A[k, 0:32], s)
                    for i in T.Parallel(32):
                        x[i] += s[i]
            T.copy(x, B)

    a = _ints((8, 32), 22)
    return f, [np.array([3], I), a, Out(a[:3].sum(0))]


@program()
def variables_counted_along_the_pipeline():
    @T.prim_func
    def f(A: F32[5, 32], B: F32[5, 32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "float32")
            n = T.alloc_var("int32", 1)
            for k in T.Pipelined(5, num_stages=2):
                T.copy(A[k, 0:32], s)
                for i in T.Parallel(32):
                    B[k, i] = s[i] * n
                n = n * 2 + k

    a = _ints((5, 32), 23)
    n, w = 1, []
    for k in range(5):
        w.append(a[k] * n)
        n = n * 2 + k
    return f, [a, Out(np.stack(w).astype(F))]


@program()
def copies_into_two_halves_of_one_tile():
    @T.prim_func
    def f(A: F32[4, 32], B: F32[4, 32], C: F32[4, 64]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k, 0:32], s[0:32])
                T.copy(B[k, 0:32], s[32:64])
                for i in T.Parallel(64):
                    C[k, i] = s[63 - i]

    a, b = _ints((4, 32), 24), _ints((4, 32), 25)
    return f, [a, b, Out(np.concatenate([a, b], 1)[:, ::-1].copy())]


@program()
def results_stored_from_inside():
    @T.prim_func
    def f(A: F16[6, 32, 32], W: F16[32, 32], C: F16[6, 32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            w = T.alloc_shared((32, 32), "float16")
            o = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(W, w)
            for k in T.Pipelined(6, num_stages=2):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, w, c, clear_accum=True)
                T.copy(c, o)
                T.copy(o, C[k, 0, 0])

    a, w = _ints((6, 32, 32), 26, H), _ints((32, 32), 27, H)
    return f, [a, w, Out((a.astype(F) @ w.astype(F)).astype(H))]


@program(also=("sm_90a",), but={"cpu": "threads of a block that wait for each other"})
def a_warpgroup_copies_for_another_one_with_barriers_of_the_program():
    @T.prim_func
    def f(A: F16[5, 32, 64], W: F16[64, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((32, 64), "float16")
            w = T.alloc_shared((64, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            ready, drained = T.alloc_barrier(128), T.alloc_barrier(128)
            T.copy(W, w)
            T.clear(c)
            for k in T.Pipelined(5, num_stages=2):
                with T.ws(1):
                    T.barrier_wait(drained, (k + 1) % 2)
                    T.copy(A[k, 0, 0], a)
                    T.barrier_arrive(ready)
                with T.ws(0):
                    T.barrier_wait(ready, k % 2)
                    T.gemm(a, w, c)
                    T.barrier_arrive(drained)
            with T.ws(0):
                T.copy(c, C)

    a, w = _ints((5, 32, 64), 28, H), _ints((64, 32), 29, H)
    return f, [a, w, Out(a.astype(F).sum(0) @ w.astype(F))]
