"""Kinds of wrong code that the trackers of tile compilers report: tiles, layouts, reductions.

Each program is written anew after the idea of a report; its comment names the kind of mistake.
"""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, I32, U16, U32

import tilelang.language as T
from tilelang.layout import make_swizzled_layout

from .registry import F, H, I, Out, ints, program


@program()
def a_large_loop_over_a_fragment_that_a_small_one_used_first():
    # The smaller loop fixes the layout, and the iterations of the larger one outside are dropped.
    @T.prim_func
    def f(A: F32[256], B: F32[256], C: F32[100]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((256,), "float32")
            for i in T.Parallel(100):
                x[i] = A[i] + 1
            for i in T.Parallel(100):
                C[i] = x[i] * 2
            for i in T.Parallel(256):
                x[i] = A[i] * 3
            for i in T.Parallel(256):
                B[i] = x[i]

    a = ints(256)
    return f, [a, Out(a * 3), Out((a[:100] + 1) * 2)]


@program()
def a_fragment_read_at_two_places():
    # Two different indices of one fragment in a loop body.
    @T.prim_func
    def f(A: F32[128], B: F32[128]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((128,), "float32")
            T.copy(A, x)
            for i in T.Parallel(128):
                B[i] = x[i] + x[(i + 1) % 128] * 2

    a = ints(128, 1)
    return f, [a, Out(a + np.roll(a, -1) * 2)]


@program()
def a_fragment_wider_than_the_block_by_an_odd_number():
    # No layout for widths that are not a multiple of the threads.
    @T.prim_func
    def f(A: F32[229], B: F32[229]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((229,), "float32")
            T.copy(A, x)
            for i in T.Parallel(229):
                x[i] = x[i] * x[i] + i
            T.copy(x, B)

    a = ints(229, 2)
    return f, [a, Out(a * a + np.arange(229, dtype=F))]


@program()
def a_remainder_inside_a_fused_loop():
    # (k % 32) % 12 is not k % 12 when 12 does not divide 32.
    @T.prim_func
    def f(A: F32[16, 32], W: F32[12], B: F32[16, 32]):
        with T.Kernel(1, threads=64):
            w = T.alloc_shared((12,), "float32")
            T.copy(W, w)
            for i, j in T.Parallel(16, 32):
                B[i, j] = A[i, j] * w[j % 12] + W[(i + j) % 12]

    a, w = ints((16, 32), 3), ints(12, 4)
    i, j = np.mgrid[:16, :32]
    return f, [a, w, Out(a * w[j % 12] + w[(i + j) % 12])]


@program()
def a_part_of_a_fragment_visited_at_an_offset():
    @T.prim_func
    def f(A: F32[8, 32], B: F32[16, 32]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((16, 32), "float32")
            T.fill(x, -1)
            for i, j in T.Parallel(8, 32):
                x[i + 3, j] = A[i, j]
            T.copy(x, B)

    a = ints((8, 32), 5)
    want = np.full((16, 32), -1, F)
    want[3:11] = a
    return f, [a, Out(want)]


@program()
def a_copy_into_the_middle_of_a_fragment():
    @T.prim_func
    def f(A: F32[8], B: F32[16]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((16,), "float32")
            T.clear(x)
            T.copy(A, x[3:11])
            T.copy(x, B)

    a = ints(8, 6)
    want = np.zeros(16, F)
    want[3:11] = a
    return f, [a, Out(want)]


@program(also=("sm_90a",))
def an_operand_of_a_product_copied_afterwards():
    # Registers of an operand have the layout of the instruction, also when they are copied.
    @T.prim_func
    def f(A: F16[64, 32], B: F16[32, 32], C: F32[64, 32], D: F16[64, 32], E: F16[64, 32]):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((64, 32), "float16")
            s = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((64, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(a, s)
            T.copy(c, C)
            T.copy(s, D)
            T.copy(a, E)

    a, b = ints((64, 32), 7, H, -4, 5), ints((32, 32), 8, H, -4, 5)
    return f, [a, b, Out(a.astype(F) @ b.astype(F)), Out(a), Out(a)]


def _operands(left, right):
    @T.prim_func
    def f(A: F16[32, 64], B: F16[64, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = left((32, 64), "float16")
            b = right((64, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 1000)
            T.gemm(a, b, c, clear_accum=True)
            T.gemm(a, b, c)
            T.copy(c, C)

    a, b = ints((32, 64), 9, H, -4, 5), ints((64, 32), 10, H, -4, 5)
    return f, [a, b, Out(2 * (a.astype(F) @ b.astype(F)))]


@program()
def both_operands_in_registers_with_a_cleared_accumulator():
    # The flag that clears is forgotten for one combination of scopes.
    return _operands(T.alloc_fragment, T.alloc_fragment)


@program()
def the_right_operand_in_registers_with_a_cleared_accumulator():
    # The accumulator is cleared again at each step of k.
    return _operands(T.alloc_shared, T.alloc_fragment)


@program()
def a_scan_of_a_part_of_a_shared_tile():
    # Rows of the part are further apart than they are long.
    @T.prim_func
    def f(A: I32[8, 40], B: I32[8, 40]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 40), "int32")
            T.copy(A, s)
            T.cumsum(s[0:8, 0:24], dim=1)
            T.copy(s, B)

    a = ints((8, 40), 11, I)
    want = a.copy()
    want[:, :24] = np.cumsum(a[:, :24], 1)
    return f, [a, Out(want)]


@program()
def a_scan_by_an_odd_number_of_warps():
    @T.prim_func
    def f(A: I32[5, 100], B: I32[5, 100], C: I32[5, 100]):
        with T.Kernel(1, threads=96):
            s = T.alloc_shared((5, 100), "int32")
            x = T.alloc_fragment((5, 100), "int32")
            T.copy(A, s)
            T.copy(A, x)
            T.cumsum(s, dim=1)
            T.cummax(x, dim=0)
            T.copy(s, B)
            T.copy(x, C)

    a = ints((5, 100), 12, I)
    return f, [a, Out(np.cumsum(a, 1).astype(I)), Out(np.maximum.accumulate(a, 0))]


@program()
def a_scan_and_a_sum_of_the_same_tile():
    @T.prim_func
    def f(A: F32[16, 16], B: F32[16, 16], C: F32[16, 16]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((16, 16, 16), "float32")
            y = T.alloc_fragment((16, 16), "float32")
            for i, j, k in T.Parallel(16, 16, 16):
                x[i, j, k] = A[i, j] * B[i, k]
            for step in T.serial(15):
                for j, k in T.Parallel(16, 16):
                    x[step + 1, j, k] = x[step + 1, j, k] + x[step, j, k]
            T.reduce_sum(x, y, dim=1)
            T.copy(y, C)

    a, b = ints((16, 16), 13, low=-4, high=5), ints((16, 16), 14, low=-4, high=5)
    kv = np.cumsum(a[:, :, None] * b[:, None, :], 0)
    return f, [a, b, Out(kv.sum(1).astype(F))]


@program()
def sums_over_a_number_of_threads_that_is_no_power_of_two():
    # A butterfly over 48 lanes would leave out 16 of them.
    @T.prim_func
    def f(A: I32[48], B: I32[1], C: I32[6, 48], D: I32[6]):
        with T.Kernel(1, threads=48):
            x = T.alloc_fragment((48,), "int32")
            r = T.alloc_fragment((1,), "int32")
            y = T.alloc_fragment((6, 48), "int32")
            q = T.alloc_fragment((6,), "int32")
            T.copy(A, x)
            T.reduce_sum(x, r)
            T.copy(r, B)
            T.copy(C, y)
            T.reduce_max(y, q, dim=1)
            T.copy(q, D)

    a, c = np.arange(1, 49, dtype=I), ints((6, 48), 15, I)
    return f, [a, Out(np.array([a.sum()], I)), c, Out(c.max(1))]


@program()
def a_reduction_in_batches():
    # A workspace sized for the threads of a row, indexed by all threads of the block.
    @T.prim_func
    def f(A: F32[16, 64], B: F32[16], C: F32[16]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((16, 64), "float32")
            r = T.alloc_fragment((16,), "float32")
            T.copy(A, x)
            T.reduce_sum(x, r, dim=1, batch=4)
            T.copy(r, B)
            T.reduce_max(x, r, dim=1, batch=2)
            T.copy(r, C)

    a = ints((16, 64), 16)
    return f, [a, Out(a.sum(1)), Out(a.max(1))]


@program()
def nan_kept_by_a_reduction_that_adds_to_its_result():
    # The merge with what was there forgets that NaN is to be kept.
    @T.prim_func
    def f(A: F16[3, 32], B: F16[3], C: F16[3]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((3, 32), "float16")
            r = T.alloc_fragment((3,), "float16")
            T.copy(A, x)
            T.fill(r, -1)
            T.reduce_max(x, r, dim=1, clear=False, nan_propagate=True)
            T.copy(r, B)
            T.fill(r, 100)
            T.reduce_min(x, r, dim=1, clear=False, nan_propagate=True)
            T.copy(r, C)

    a = ints((3, 32), 17, H, -9, -2)
    a[1, 30] = np.nan
    nan = np.isnan(a).any(1)
    return f, [
        a,
        Out(np.where(nan, H(np.nan), np.fmax(np.fmax.reduce(a, 1), H(-1)))),
        Out(np.where(nan, H(np.nan), np.fmin.reduce(a, 1))),
    ]


@program()
def reductions_of_booleans():
    @T.prim_func
    def f(A: T.Tensor((8, 32), "bool"), B: T.Tensor((3, 8), "bool")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((8, 32), "bool")
            r = T.alloc_fragment((8,), "bool")
            T.copy(A, x)
            T.reduce_max(x, r, dim=1)
            T.copy(r, B[0, 0:8])
            T.reduce_min(x, r, dim=1)
            T.copy(r, B[1, 0:8])
            T.reduce_absmax(x, r, dim=1)
            T.copy(r, B[2, 0:8])

    a = np.random.default_rng(18).random((8, 32)) < 0.9
    a[3] = True
    a[4] = False
    return f, [a, Out(np.stack([a.max(1), a.min(1), a.max(1)]))]


@program()
def an_absolute_maximum_of_six_numbers_in_each_thread():
    # A loop of a thread that leaves out one number and takes another one twice.
    @T.prim_func
    def f(A: F32[2, 768], B: F32[2]):
        with T.Kernel(2, threads=128) as b:
            x = T.alloc_fragment((768,), "float32")
            m = T.alloc_fragment((1,), "float32")
            for i in T.Parallel(768):
                x[i] = T.if_then_else(i < 576, A[b, i], 0.0)
            T.reduce_absmax(x, m)
            B[b] = m[0]

    a = ints((2, 768), 19)
    a[0, 575], a[1, 2] = -99, 98
    return f, [a, Out(np.abs(a[:, :576]).max(1))]


@program()
def a_reducer_where_the_tile_does_not_divide_the_threads():
    # Groups of threads that do the same work are counted several times.
    @T.prim_func
    def f(A: F32[12, 40], X: F32[40], Y: F32[12]):
        with T.Kernel(1, threads=128):
            r = T.alloc_reducer((12,), "float32", op="sum", replication="all")
            T.clear(r)
            for i, j in T.Parallel(12, 40):
                r[i] += A[i, j] * X[j]
            T.finalize_reducer(r)
            T.copy(r, Y)

    a, x = ints((12, 40), 20, low=-9, high=9), ints(40, 21, low=-9, high=9)
    return f, [a, x, Out(a @ x)]


@program()
def a_reducer_finalised_in_batches():
    # Only the first elements are combined.
    @T.prim_func
    def f(A: F32[64, 12], B: F32[12]):
        with T.Kernel(1, threads=64):
            r = T.alloc_reducer((12,), "float32", op="sum", replication="all")
            T.clear(r)
            for i, j in T.Parallel(64, 12):
                r[j] += A[i, j]
            T.finalize_reducer(r, batch=4)
            T.copy(r, B)

    a = ints((64, 12), 22)
    return f, [a, Out(a.sum(0))]


@program()
def a_column_of_a_padded_tile_copied():
    # The distance of rows is that of the tile, not that of the part.
    @T.prim_func
    def f(A: F16[16, 32], B: F16[16, 32]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 40), "float16")
            T.fill(s, 7)
            T.copy(A, s[:, 0:32])
            T.copy(s[:, 0:32], B)

    a = ints((16, 32), 30, H)
    return f, [a, Out(a)]


@program()
def a_part_of_a_result_at_a_column_that_is_not_aligned():
    @T.prim_func
    def f(A: I32[32, 32], B: I32[32, 40]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((32, 32), "int32")
            T.copy(A, s)
            T.copy(s, B[0:32, 1:33])

    a = ints((32, 32), 31, I)
    want = np.full((32, 40), 4, I)
    want[:, 1:33] = a
    return f, [a, Out(want, np.full((32, 40), 4, I))]


@program()
def a_safe_value_for_a_whole_tile():
    @T.prim_func
    def f(A: I32[60, 60], B: I32[64, 64]):
        with T.Kernel(1, threads=128):
            T.annotate_safe_value({A: -99})
            s = T.alloc_shared((64, 64), "int32")
            T.copy(A[0:64, 0:64], s)
            T.copy(s, B)

    a = ints((60, 60), 32, I)
    want = np.full((64, 64), -99, I)
    want[:60, :60] = a
    return f, [a, Out(want)]


@program()
def a_product_of_a_tile_seen_as_a_matrix():
    @T.prim_func
    def f(A: F16[1024], B: F16[32, 32], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((1024,), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(T.reshape(a, (32, 32)), b, c, clear_accum=True)
            T.copy(c, C)

    a, b = ints(1024, 33, H, -4, 5), ints((32, 32), 34, H, -4, 5)
    return f, [a, b, Out(a.reshape(32, 32).astype(F) @ b.astype(F))]


@program()
def shared_memory_used_again_in_another_width():
    # A view of other words over a tile that carries a swizzle.
    @T.prim_func
    def f(A: F16[32, 64], B: F16[32, 64], C: F32[32, 32]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 64), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, transpose_B=True, clear_accum=True)
            w = T.view(a, (32, 32), "float32")
            T.copy(c, w)
            for i, j in T.Parallel(32, 32):
                C[i, j] = w[j, i]

    a, b = ints((32, 64), 35, H, -4, 5), ints((32, 64), 36, H, -4, 5)
    return f, [a, b, Out((a.astype(F) @ b.astype(F).T).T.copy())]


@program()
def words_of_another_width_of_a_fragment():
    @T.prim_func
    def f(A: U32[64], B: U16[128]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((64,), "uint32")
            T.copy(A, x)
            v = T.view(x, (128,), "uint16")
            for i in T.Parallel(128):
                B[i] = v[i]

    a = np.random.default_rng(37).integers(0, 2**32, 64).astype(np.uint32)
    return f, [a, Out(a.view("<u2"))]


@program()
def a_vector_width_that_does_not_fit():
    # A hint that cannot be followed is not an error.
    @T.prim_func
    def f(A: F32[7, 33], B: F32[7, 33]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((7, 33), "float32")
            T.copy(A, s, coalesced_width=2)
            for i, j in T.Parallel(7, 33, coalesced_width=8):
                B[i, j] = s[i, j] + 1

    a = ints((7, 33), 40)
    return f, [a, Out(a + 1)]


@program()
def tiles_of_48_and_80_columns():
    # Widths that no swizzle of a power of two fits.
    @T.prim_func
    def f(A: F16[32, 96], B: F16[96, 80], C: F32[32, 80]):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 48), "float16")
            b = T.alloc_shared((48, 80), "float16")
            c = T.alloc_fragment((32, 80), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 48], a)
                T.copy(B[k * 48, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = ints((32, 96), 41, H, -4, 5), ints((96, 80), 42, H, -4, 5)
    return f, [a, b, Out(a.astype(F) @ b.astype(F))]


@program()
def any_and_all_of_a_row_of_a_swizzled_tile():
    # A scan over neighbours in memory does not see the row.
    @T.prim_func
    def f(A: F16[16, 64], B: I32[2, 16]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 64), "float16")
            T.annotate_layout({s: make_swizzled_layout(s)})
            T.copy(A, s)
            for i in T.serial(16):
                if T.all_of(s[i, 0:64]):
                    B[0, i] = 1
                else:
                    B[0, i] = 0
                if T.any_of(s[i, 0:64]):
                    B[1, i] = 1
                else:
                    B[1, i] = 0

    a = np.ones((16, 64), H)
    a[::3, 17] = 0
    a[5] = 0
    a[6] = 0
    a[6, 63] = 1
    return f, [a, Out(np.stack([(a != 0).all(1), (a != 0).any(1)]).astype(I))]
