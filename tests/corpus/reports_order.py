"""Kinds of wrong code that the trackers of tile compilers report: order, pipelines, names, control.

Each program is written anew after the idea of a report; its comment names the kind of mistake.
"""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, I32

import tilelang
import tilelang.language as T

from .registry import F, H, I, Out, ints, program


@program()
def a_pipeline_that_uses_a_tile_before_it_loads_the_next():
    # Use, then load: the load may not run ahead of the use of the iteration before.
    @T.prim_func
    def f(A: I32[8, 32], S: I32[32], B: I32[32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "int32")
            x = T.alloc_fragment((32,), "int32")
            T.clear(x)
            for i in T.Parallel(32):
                s[i] = S[i]
            for k in T.Pipelined(8, num_stages=2):
                for i in T.Parallel(32):
                    x[i] = x[i] * 2 + s[i]
                T.copy(A[k, 0:32], s)
            T.copy(x, B)

    a, s = ints((8, 32), 23, I), ints(32, 24, I)
    x = np.zeros(32, I)
    for row in [s, *a[:7]]:
        x = x * 2 + row
    return f, [a, s, Out(x)]


@program()
def a_pipeline_that_reads_what_an_atomic_added_before():
    # A dependence through an atomic is one, too.
    @T.prim_func
    def f(A: F32[6, 32], C: F32[32], B: F32[6, 32]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "float32")
            c = T.alloc_shared((32,), "float32")
            for k in T.Pipelined(6, num_stages=2):
                T.copy(A[k, 0:32], s)
                T.copy(C, c)
                for i in T.Parallel(32):
                    B[k, i] = c[31 - i]
                for i in T.Parallel(32):
                    T.atomic_add(C[i], s[i])

    a = ints((6, 32), 25)
    before = np.cumsum(a, 0) - a
    return f, [a, Out(a.sum(0), np.zeros(32, F)), Out(before[:, ::-1].astype(F))]


@program()
def sibling_pipelines_of_different_depth():
    @T.prim_func
    def f(A: F16[32, 128], B: F16[128, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            for k in T.Pipelined(2, num_stages=4):
                T.copy(A[0, 64 + k * 32], a)
                T.copy(B[64 + k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = ints((32, 128), 26, H, -4, 5), ints((128, 32), 27, H, -4, 5)
    return f, [a, b, Out(a.astype(F) @ b.astype(F))]


@program()
def a_stage_read_after_the_loop_by_a_product():
    @T.prim_func
    def f(A: F16[4, 32, 32], C: F32[32, 32], D: F16[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=3):
                T.copy(A[k, 0, 0], a)
                T.gemm(a, a, c)
            T.gemm(a, a, c, transpose_B=True)
            T.copy(a, D)
            T.copy(c, C)

    a = ints((4, 32, 32), 28, H, -3, 4)
    x = a.astype(F)
    return f, [a, Out(sum(m @ m for m in x) + x[3] @ x[3].T), Out(a[3])]


@program()
def a_condition_on_threads_that_fills_part_of_a_row():
    # The barrier after a branch of some threads is for all of them.
    @T.prim_func
    def f(B: F32[512]):
        with T.Kernel(1, threads=512):
            t = T.get_thread_binding()
            s = T.alloc_shared((32,), "float32")
            if t < 32:
                s[t] = t * 2
            B[t] = s[t % 32]

    return f, [Out((np.arange(512) % 32 * 2).astype(F))]


@program()
def a_branch_of_threads_that_are_no_whole_warps():
    # A write by 48 threads, read by others of them inside the same branch.
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            s = T.alloc_shared((48,), "int32")
            if t < 48:
                s[t] = A[t]
            T.sync_threads()
            if t < 48:
                B[t] = s[47 - t]
            else:
                B[t] = -1

    a = ints(64, 29, I)
    return f, [a, Out(np.where(np.arange(64) < 48, a[(47 - np.arange(64)) % 64], -1).astype(I))]


@program()
def a_mask_built_in_shared_memory_by_rows():
    @T.prim_func
    def f(R: I32[8], M: I32[8, 8]):
        with T.Kernel(1, threads=64):
            m = T.alloc_shared((8, 8), "int32")
            r = T.alloc_shared((8,), "int32")
            T.copy(R, r)
            T.clear(m)
            for i in T.Parallel(8):
                m[i, r[i]] = 1
            for i, j in T.Parallel(8, 8):
                if i >= 4 and r[j] >= 4:
                    m[i, j] = m[i, j] + 2
            T.copy(m, M)

    r = np.array([3, 0, 7, 7, 2, 5, 1, 4], I)
    i, j = np.mgrid[:8, :8]
    want = (j == r[:, None]) + 2 * ((i >= 4) & (r[None, :] >= 4))
    return f, [r, Out(want.astype(I))]


@program()
def persistent_tiles_of_a_number_that_the_group_does_not_divide():
    # The last, incomplete group of columns is left out.
    @T.prim_func
    def f(B: I32[3, 13]):
        with T.Kernel(5, threads=32) as b:
            for i, j in T.Persistent([3, 13], 5, b):
                B[i, j] = i * 100 + j

    i, j = np.mgrid[:3, :13]
    return f, [Out((i * 100 + j).astype(I))]


@program()
def a_fragment_written_by_serial_loops():
    # A guard made of loop variables that is used again outside of the loops.
    @T.prim_func
    def f(B: I32[16, 16]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((16, 16), "int32")
            for i in T.serial(16):
                for j in T.serial(16):
                    x[i, j] = i * 16 + j
            T.copy(x, B)

    return f, [Out(np.arange(256, dtype=I).reshape(16, 16))]


@program()
def two_elements_that_a_branch_leaves_alone():
    # Vectors that store lanes which the program does not write.
    @T.prim_func
    def f(A: F32[64], M: I32[64], B: F16[64]):
        with T.Kernel(1, threads=16):
            for i in T.Parallel(64):
                if M[i] > 0:
                    if M[i] > 1:
                        B[i] = A[i] * 2
                else:
                    B[i] = -A[i]

    a, m = ints(64, 38), np.random.default_rng(39).integers(0, 4, 64).astype(I)
    want = np.where(m > 1, a * 2, np.where(m > 0, 1234, -a)).astype(H)
    return f, [a, m, Out(want, np.full(64, 1234, H))]


@program()
def a_value_kept_across_a_store_to_its_place():
    # A bound value that is computed again after its source has changed.
    @T.prim_func
    def f(A: F32[64], B: F32[64], C: F32[64], D: F32[64]):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                tmp = T.max(A[i], 1)
                A[i] = tmp * 2
                B[i] = tmp / 2
            for i in T.Parallel(64):
                tmp = T.max(C[i], 1)
                D[i] = tmp / 2
                C[i] = tmp * 2

    a, c = ints(64, 43), ints(64, 44)
    x, y = np.maximum(a, 1), np.maximum(c, 1)
    return f, [Out(x * 2, a), Out(x / 2), Out(y * 2, c), Out(y / 2)]


@program()
def a_dynamic_extent_used_in_a_macro():
    n = T.dynamic("n")

    @T.macro
    def scaled(A, B, b):
        for i in T.Parallel(32):
            if b * 32 + i < n:
                B[b * 32 + i] = A[b * 32 + i] * n

    @T.prim_func
    def f(A: F32[n], B: F32[n]):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            scaled(A, B, b)

    def run(options):
        kernel = tilelang.compile(f, **options)
        for size in (3, 70):
            a, b = ints(size, 45), np.zeros(size, F)
            kernel(a, b)
            Out(a * size).check(str(size), b)

    return run


@program()
def kernels_of_closures_with_the_same_text():
    # A cache that does not look at what a function has captured.
    def build(width):
        @tilelang.jit(**_options)
        def make():
            m = T.dynamic("m")

            @T.prim_func
            def f(X: F32[m, width], Y: F32[m, width]):
                with T.Kernel(m, threads=32) as r:
                    for j in T.Parallel(width):
                        Y[r, j] = X[r, j] + width

            return f

        return make()

    _options = {}

    def run(options):
        _options.update(options)
        for width in (8, 24):
            x = ints((3, width), width)
            y = np.zeros((3, width), F)
            build(width)(x, y)
            Out(x + width).check(str(width), y)

    return run


@program()
def an_if_that_is_followed_by_a_store_of_the_same_name():
    # Two lines that seem to do nothing change the result of others.
    @T.prim_func
    def f(A: F32[20, 2], B: F32[20, 2], n: T.int32, C: T.Tensor((20,), "bool")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(20):
                v = A[i, 0]
                x = T.alloc_var("float32", v)
                if i == n:
                    x = x + 0
                v = B[i, 0]
                C[i] = x == v

    a, b = ints((20, 2), 46, low=0, high=3), ints((20, 2), 47, low=0, high=3)
    return f, [a, b, 15, Out(a[:, 0] == b[:, 0])]


@program()
def a_continue_at_the_end_of_a_branch():
    # An iteration that ends early, followed by a test of what it has changed.
    @T.prim_func
    def f(S: I32[6], X: I32[6]):
        with T.Kernel(1, threads=1):
            for p in T.serial(6):
                X[p] = 0
                if S[p] == 0:
                    X[p] = 1
                    continue
                if S[p] != 0:
                    X[p] += 10

    s = np.array([0, 1, 0, 2, 2, 0], I)
    return f, [s, Out(np.where(s == 0, 1, 10).astype(I))]


@program()
def a_condition_that_is_a_sum_of_comparisons():
    # `(a < 3) + (b < 1)` is true when either is.
    @T.prim_func
    def f(A: F32[3, 5], B: F32[3, 5]):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(3, 5):
                n = T.cast(i < 1, "int32") + T.cast(j < 2, "int32")
                B[i, j] = T.if_then_else(n != 0, A[i, j], 0.0)

    a = ints((3, 5), 48)
    i, j = np.mgrid[:3, :5]
    return f, [a, Out(np.where((i < 1) | (j < 2), a, 0).astype(F))]


@program()
def the_counter_of_a_loop_named_as_a_variable():
    # The name of a loop is a new one, also where a variable has the same name.
    @T.prim_func
    def f(B: I32[4]):
        with T.Kernel(1, threads=1):
            total = T.alloc_var("int32", 0)
            for i in T.serial(4):
                for k in T.serial(i + 1):
                    total += k
                B[i] = total
            for total in T.serial(2):
                B[total] += 100

    want = np.cumsum([0, 1, 3, 6]).astype(I)
    want[:2] += 100
    return f, [Out(want)]


@program()
def global_memory_written_and_read_back_by_other_threads():
    @T.prim_func
    def f(A: F32[128], B: F32[128], C: F32[128]):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                B[i] = A[i] * 2
            for i in T.Parallel(128):
                C[i] = B[127 - i]

    a = np.arange(128, dtype=F)
    return f, [a, Out(a * 2), Out(a[::-1] * 2)]


@program()
def global_memory_written_twice():
    @T.prim_func
    def f(C: I32[16, 20]):
        with T.Kernel(1, threads=128):
            T.clear(C)
            for k in T.serial(3):
                T.fill(C[k * 4 + 1 : k * 4 + 4, 3 + k : 11 + k], k + 1)

    c = np.zeros((16, 20), I)
    for k in range(3):
        c[k * 4 + 1 : k * 4 + 4, 3 + k : 11 + k] = k + 1
    return f, [Out(c)]


@program()
def an_array_in_global_memory_shifted_by_each_thread():
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            A[t] = A[t] * 3
            B[t] = A[(t + 1) % 64]

    a = np.arange(64, dtype=I)
    return f, [Out(a * 3, a), Out(np.roll(a * 3, -1))]


@program()
def a_tile_read_before_its_place_is_overwritten():
    @T.prim_func
    def f(A: I32[128], B: I32[128]):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                B[i] = A[127 - i]
            for i in T.Parallel(128):
                A[i] = 0

    a = np.arange(128, dtype=I)
    return f, [Out(a * 0, a), Out(a[::-1].copy())]


@program()
def a_workspace_between_two_tiles():
    @T.prim_func
    def f(A: F32[2, 16, 16], C: F32[2, 16, 16]):
        with T.Kernel(2, threads=128) as b:
            w = T.alloc_global((2, 16, 16), "float32")
            x = T.alloc_fragment((16, 16), "float32")
            T.copy(A[b, 0, 0], x)
            T.copy(x, w[b, 0, 0])
            for i, j in T.Parallel(16, 16):
                C[b, i, j] = w[b, j, i]

    a = np.arange(512, dtype=F).reshape(2, 16, 16)
    return f, [a, Out(a.transpose(0, 2, 1).copy())]
