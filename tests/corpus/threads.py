"""Code of single threads: exchange through shared memory, barriers, warps, own arrays."""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, F64, I32, I64, U32

import tilelang.language as T

from .registry import F, I, Out, ints, program


@program()
def neighbours_exchange_through_shared_memory():
    @T.prim_func
    def f(A: I32[128], B: I32[128]):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            s[t] = A[t]
            T.sync_threads()
            B[t] = s[(t + 1) % 128] - s[t]

    a = ints(128, 0, I)
    return f, [a, Out(np.roll(a, -1) - a)]


@program(also=("sm_90a",))
def a_tree_of_sums_with_barriers():
    @T.prim_func
    def f(A: F32[2, 64], B: F32[2]):
        with T.Kernel(2, threads=64) as b:
            t = T.get_thread_binding()
            s = T.alloc_shared((64,), "float32")
            s[t] = A[b, t]
            T.sync_threads()
            for k in T.serial(6):
                if t < 32 >> k:
                    s[t] += s[t + (32 >> k)]
                T.sync_threads()
            if t == 0:
                B[b] = s[0]

    a = ints((2, 64), 1)
    return f, [a, Out(a.sum(1))]


@program(also=("sm_90a",))
def a_fragment_of_each_thread_sums_its_own_row():
    @T.prim_func
    def f(A: F32[64, 8], B: F32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            row = T.alloc_local((8,), "float32")
            for j in T.serial(8):
                row[j] = A[t, j]
            total = T.alloc_fragment((1,), "float32")
            total[0] = 0.0
            for j in T.serial(8):
                total[0] += row[j]
            B[t] = total[0]

    a = ints((64, 8), 1)
    return f, [a, Out(a.sum(1))]


@program(also=("sm_90a",))
def a_recurrence_of_each_thread_in_fragments():
    @T.prim_func
    def f(A: I32[3, 32], B: I32[3, 32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            last = T.alloc_fragment((2,), "int32")
            last[0] = 1
            last[1] = t
            for step in T.serial(3):
                new = T.alloc_fragment((1,), "int32")
                new[0] = A[step, t] * last[0] + last[1]
                if new[0] > 0:
                    last[1] = last[0]
                last[0] = new[0] % 17
                B[step, t] = new[0]

    a = ints((3, 32), 2, I)
    first, second, want = np.ones(32, I), np.arange(32, dtype=I), []
    for row in a:
        new = row * first + second
        second = np.where(new > 0, first, second)
        first = np.mod(new, 17)
        want.append(new)
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def a_scan_with_two_buffers():
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            s = T.alloc_shared((2, 64), "int32")
            s[0, t] = A[t]
            T.sync_threads()
            for k in T.serial(6):
                d = 1 << k
                if t >= d:
                    s[(k + 1) % 2, t] = s[k % 2, t] + s[k % 2, t - d]
                else:
                    s[(k + 1) % 2, t] = s[k % 2, t]
                T.sync_threads()
            B[t] = s[0, t]

    a = ints(64, 2, I)
    return f, [a, Out(np.cumsum(a).astype(I))]


@program()
def loops_with_bounds_of_the_thread():
    @T.prim_func
    def f(A: F32[200], B: F32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            total = T.alloc_var("float32", 0.0)
            for i in T.serial(t, 200, 64):
                total += A[i]
            for i in T.serial(t % 5):
                total += i
            B[t] = total

    a = ints(200, 11)
    t = np.arange(64)
    want = np.array([a[k::64].sum() + sum(range(k % 5)) for k in t], F)
    return f, [a, Out(want)]


@program()
def own_arrays_sorted_by_each_thread():
    @T.prim_func
    def f(A: I32[64, 7], B: I32[64, 7]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            x = T.alloc_local((7,), "int32")
            for j in T.serial(7):
                x[j] = A[t, j]
            for i in T.serial(1, 7):
                key = T.alloc_var("int32", x[i])
                j = T.alloc_var("int32", i - 1)
                while j >= 0 and x[j] > key:
                    x[j + 1] = x[j]
                    j -= 1
                x[j + 1] = key
            for j in T.serial(7):
                B[t, j] = x[j]

    a = ints((64, 7), 13, I)
    return f, [a, Out(np.sort(a, 1))]


@program()
def own_histograms_in_rows_of_shared_memory():
    @T.prim_func
    def f(A: I32[32, 20], B: I32[4]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            c = T.alloc_shared((32, 4), "int32")
            for k in T.serial(4):
                c[t, k] = 0
            for j in T.serial(20):
                c[t, A[t, j]] += 1
            T.sync_threads()
            if t < 4:
                total = T.alloc_var("int32", 0)
                for r in T.serial(32):
                    total += c[r, t]
                B[t] = total

    a = ints((32, 20), 14, I, 0, 4)
    return f, [a, Out(np.bincount(a.reshape(-1), minlength=4).astype(I))]


@program()
def two_groups_with_barriers_of_their_own():
    @T.prim_func
    def f(A: I32[2, 64], B: I32[2, 64]):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            s = T.alloc_shared((2, 64), "int32")
            if t < 64:
                s[0, t] = A[0, t]
                T.sync_threads(1, 64)
                B[0, t] = s[0, 63 - t]
            else:
                s[1, t - 64] = A[1, t - 64] * 2
                T.sync_threads(2, 64)
                B[1, t - 64] = s[1, (t - 64 + 5) % 64]

    a = ints((2, 64), 16, I)
    return f, [a, Out(np.stack([a[0, ::-1], np.roll(a[1] * 2, -5)]))]


@program()
def tile_operations_by_parts_of_the_block():
    @T.prim_func
    def f(A: F32[2, 300], B: F32[2, 300]):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            s = T.alloc_shared((2, 300), "float32")
            if t < 128:
                T.copy(A[0, 0:300], s[0, :])
            else:
                for i in T.Parallel(300):
                    s[1, i] = A[1, i] * 3
            T.sync_threads()
            for i in T.Parallel(300):
                B[0, i] = s[1, 299 - i]
                B[1, i] = s[0, i] + 1

    a = ints((2, 300), 17)
    return f, [a, Out(np.stack([a[1, ::-1] * 3, a[0] + 1]))]


@program()
def warpgroups_named_by_numbers():
    @T.prim_func
    def f(A: I32[256], B: I32[256]):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            B[t] = 0
            T.sync_threads()
            with T.ws(1):
                for i in T.Parallel(100):
                    B[i] = A[i] + 1
            with T.ws(0):
                for i in T.Parallel(100):
                    B[i + 100] = A[i + 100] - 1

    a = ints(256, 18, I)
    want = np.zeros(256, I)
    want[:100], want[100:200] = a[:100] + 1, a[100:200] - 1
    return f, [a, Out(want)]


@program()
def lanes_and_warps_of_threads():
    @T.prim_func
    def f(B: I32[3, 256]):
        with T.Kernel(1, threads=256):
            t = T.get_thread_binding()
            B[0, t] = T.get_lane_idx()
            B[1, t] = T.get_warp_idx()
            B[2, t] = T.get_warp_group_idx()

    t = np.arange(256)
    return f, [Out(np.stack([t % 32, t // 32, t // 128]).astype(I))]


@program()
def one_thread_writes_what_all_read():
    @T.prim_func
    def f(A: F32[3, 64], B: F32[3, 64]):
        with T.Kernel(3, threads=64) as b:
            t = T.get_thread_binding()
            mean = T.alloc_shared((1,), "float32")
            if t == 17:
                total = T.alloc_var("float32", 0.0)
                for i in T.serial(64):
                    total += A[b, i]
                mean[0] = total / 64
            T.sync_threads()
            B[b, t] = A[b, t] - mean[0]

    a = ints((3, 64), 19)
    return f, [a, Out(a - a.sum(1, keepdims=True) / F(64))]


@program()
def a_value_of_the_thread_inside_a_bound_chain():
    @T.prim_func
    def f(A: I32[128], B: I32[128], C: I32[128]):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            warp = t // 32
            lane = t % 32
            base = warp * 32
            other = base + (lane ^ 1)
            v = A[other]
            w = v * 2 + lane
            if lane < 16:
                B[t] = w
                C[other] = w - v
            else:
                B[t] = v
                C[other] = w + warp

    a = ints(128, 20, I)
    t = np.arange(128)
    lane, warp = t % 32, t // 32
    other = warp * 32 + (lane ^ 1)
    v = a[other]
    w = v * 2 + lane
    c = np.zeros(128, I)
    c[other] = np.where(lane < 16, w - v, w + warp)
    return f, [a, Out(np.where(lane < 16, w, v).astype(I)), Out(c)]


@program()
def a_barrier_in_a_loop_with_a_bound_of_the_block():
    @T.prim_func
    def f(N: I32[3], B: I32[3, 32]):
        with T.Kernel(3, threads=32) as b:
            t = T.get_thread_binding()
            s = T.alloc_shared((32,), "int32")
            s[t] = t
            for k in T.serial(N[b]):
                T.sync_threads()
                v = s[(t + 1) % 32]
                T.sync_threads()
                s[t] = v
            B[b, t] = s[t]

    n = np.array([0, 3, 5], I)
    t = np.arange(32)
    return f, [n, Out(np.stack([(t + k) % 32 for k in n]).astype(I))]


@program()
def a_variable_and_a_local_array_in_nested_branches():
    @T.prim_func
    def f(A: I32[64, 4], B: I32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            x = T.alloc_local((4,), "int32")
            best = T.alloc_var("int32", -1)
            for j in T.unroll(4):
                x[j] = A[t, j]
            for j in T.serial(4):
                if x[j] > 0:
                    if best < 0 or x[j] < x[best]:
                        best = j
            if best >= 0:
                B[t] = x[best] * 10 + best
            else:
                B[t] = -1

    a = ints((64, 4), 25, I, -30, 20)
    want = []
    for r in a:
        best = -1
        for j in range(4):
            if r[j] > 0 and (best < 0 or r[j] < r[best]):
                best = j
        want.append(r[best] * 10 + best if best >= 0 else -1)
    return f, [a, Out(np.array(want, I))]


@program()
def sums_of_warps():
    @T.prim_func
    def f(A: F32[96], B: F32[3, 96]):
        with T.Kernel(1, threads=96):
            t = T.get_thread_binding()
            B[0, t] = T.warp_reduce_sum(A[t])
            B[1, t] = T.warp_reduce_max(A[t])
            B[2, t] = T.warp_reduce_min(A[t] * 2)

    a = ints(96, 3)
    w = a.reshape(3, 32)
    spread = lambda x: np.repeat(x, 32)
    return f, [a, Out(np.stack([spread(w.sum(1)), spread(w.max(1)), spread(w.min(1) * 2)]))]


@program()
def bits_of_warps():
    @T.prim_func
    def f(A: I32[64], B: I32[2, 64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            B[0, t] = T.warp_reduce_bitand(A[t])
            B[1, t] = T.warp_reduce_bitor(A[t])

    a = ints(64, 4, I, 0, 2**20) | 64
    w = a.reshape(2, 32)
    return f, [
        a,
        Out(
            np.stack(
                [
                    np.repeat(np.bitwise_and.reduce(w, 1), 32),
                    np.repeat(np.bitwise_or.reduce(w, 1), 32),
                ]
            )
        ),
    ]


@program()
def lanes_exchanged_by_shuffles():
    @T.prim_func
    def f(A: I32[64], B: I32[5, 64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            v = A[t]
            B[0, t] = T.shfl_xor(v, 5)
            B[1, t] = T.shfl_down(v, 3)
            B[2, t] = T.shfl_up(v, 2)
            B[3, t] = T.shfl_sync(v, 7)
            B[4, t] = T.shfl_sync(v, t % 4 * 8)

    a = ints(64, 5, I)
    lane, warp = np.arange(64) % 32, np.arange(64) // 32 * 32
    down = np.where(lane + 3 < 32, lane + 3, lane)
    up = np.where(lane >= 2, lane - 2, lane)
    places = [lane ^ 5, down, up, lane * 0 + 7, lane % 4 * 8]
    return f, [a, Out(np.stack([a[warp + p] for p in places]))]


@program()
def shuffles_in_parts_of_a_warp():
    @T.prim_func
    def f(A: F32[32], B: F32[3, 32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            B[0, t] = T.shfl_sync(A[t], 2, width=8)
            B[1, t] = T.shfl_down(A[t], 1, width=4)
            B[2, t] = T.shfl_up(A[t], 1, width=16)

    a = ints(32, 6)
    t = np.arange(32)
    down = np.where(t % 4 < 3, t + 1, t)
    up = np.where(t % 16 > 0, t - 1, t)
    return f, [a, Out(np.stack([a[t // 8 * 8 + 2], a[down], a[up]]))]


@program()
def a_sum_by_exchange_of_halves():
    @T.prim_func
    def f(A: F32[4, 32], B: F32[4], C: F64[4]):
        with T.Kernel(4, threads=32) as b:
            t = T.get_thread_binding()
            v = T.alloc_var("float32", A[b, t])
            w = T.alloc_var("float64", A[b, t])
            for k in T.unroll(5):
                v += T.shfl_xor(v, 1 << k)
                w += T.shfl_xor(w, 16 >> k)
            if t == 3:
                B[b] = v
                C[b] = w

    a = ints((4, 32), 7)
    return f, [a, Out(a.sum(1)), Out(a.sum(1).astype(np.float64))]


@program()
def ballots_of_warps():
    @T.prim_func
    def f(A: I32[64], B: U32[64], C: I32[2, 64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            mask = T.ballot(A[t] > 0)
            B[t] = T.cast(mask, "uint32")
            C[0, t] = T.cast(T.any_sync(A[t] > 48), "int32")
            C[1, t] = T.cast(T.all_sync(A[t] > -50), "int32")

    a = ints(64, 8, I)
    bits = [sum(1 << k for k in range(32) if a[w * 32 + k] > 0) for w in range(2)]
    w = a.reshape(2, 32)
    return f, [
        a,
        Out(np.repeat(np.array(bits, np.uint32), 32)),
        Out(np.stack([np.repeat((w > 48).any(1), 32), np.repeat((w > -50).all(1), 32)]).astype(I)),
    ]


@program()
def positions_by_ballot_and_popcount():
    @T.prim_func
    def f(A: I32[32], N: I32[1], B: I32[32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            B[t] = -1
            T.sync_threads()
            mask = T.cast(T.ballot(A[t] % 3 == 0), "uint32")
            before = T.popcount(mask & (T.shift_left(T.uint32(1), T.cast(t, "uint32")) - 1))
            if A[t] % 3 == 0:
                B[before] = A[t]
            N[0] = T.cast(T.popcount(mask), "int32")

    a = ints(32, 9, I)
    hit = a[a % 3 == 0]
    want = np.full(32, -1, I)
    want[: len(hit)] = hit
    return f, [a, Out(np.array([len(hit)], I)), Out(want)]


@program()
def counts_over_the_block():
    @T.prim_func
    def f(A: I32[128], B: I32[3, 128]):
        with T.Kernel(1, threads=128):
            t = T.get_thread_binding()
            B[0, t] = T.syncthreads_count(A[t] > 0)
            B[1, t] = T.if_then_else(T.syncthreads_or(A[t] == 49) != 0, 1, 0)
            B[2, t] = T.if_then_else(T.syncthreads_and(A[t] < 50) != 0, 1, 0)

    a = ints(128, 10, I)
    want = [
        np.full(128, (a > 0).sum()),
        np.full(128, (a == 49).any()),
        np.full(128, (a < 50).all()),
    ]
    return f, [a, Out(np.stack(want).astype(I))]


@program()
def strided_loops_that_fill_shared_memory():
    @T.prim_func
    def f(A: I32[150], B: I32[150]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            s = T.alloc_shared((150,), "int32")
            for i in T.serial(t, 150, 64):
                s[i] = A[i] * 2
            T.sync_threads()
            for i in T.serial(t, 150, 64):
                B[i] = s[149 - i]

    a = ints(150, 12, I)
    return f, [a, Out(a[::-1] * 2)]


@program()
def a_block_wide_sum_by_warps():
    @T.prim_func
    def f(A: F32[2, 256], B: F32[2, 256]):
        with T.Kernel(2, threads=256) as b:
            t = T.get_thread_binding()
            part = T.alloc_shared((8,), "float32")
            s = T.warp_reduce_sum(A[b, t])
            if t % 32 == 0:
                part[t // 32] = s
            T.sync_threads()
            total = T.alloc_var("float32", 0.0)
            for w in T.serial(8):
                total += part[w]
            B[b, t] = A[b, t] - total

    a = ints((2, 256), 21)
    return f, [a, Out(a - a.sum(1, keepdims=True))]


@program()
def odd_even_sort_of_a_block():
    @T.prim_func
    def f(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            s[t] = A[t]
            T.sync_threads()
            for k in T.serial(64):
                if t % 2 == k % 2 and t < 63:
                    if s[t] > s[t + 1]:
                        s[t], s[t + 1] = s[t + 1], s[t]
                T.sync_threads()
            B[t] = s[t]

    a = ints(64, 22, I)
    return f, [a, Out(np.sort(a))]


@program()
def wide_values_exchanged_by_shuffles():
    @T.prim_func
    def f(A: I64[32], H: F16[32], B: I64[32], C: F16[32]):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            B[t] = T.shfl_xor(A[t], 1)
            C[t] = T.shfl_down(H[t], 4)

    a = ints(32, 23, np.int64) * 2**35
    h = ints(32, 24, np.float16)
    t = np.arange(32)
    return f, [a, h, Out(a[t ^ 1]), Out(h[np.where(t + 4 < 32, t + 4, t)])]


@program(
    but={"cpu": "the threads of a block run one after the other there and cannot wait in turn"}
)
def a_producer_warp_and_consumer_warps():
    @T.prim_func
    def f(A: F32[5, 32], B: F32[32]):
        with T.Kernel(1, threads=64):
            t = T.get_thread_binding()
            s = T.alloc_shared((2, 32), "float32")
            full = T.alloc_barrier([32, 32])
            empty = T.alloc_barrier([32, 32])
            if t < 32:
                for k in T.serial(5):
                    T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                    s[k % 2, t] = A[k, t]
                    T.barrier_arrive(full[k % 2])
            else:
                total = T.alloc_var("float32", 0.0)
                for k in T.serial(5):
                    T.barrier_wait(full[k % 2], k // 2 % 2)
                    total = total * 2 + s[k % 2, 63 - t]
                    T.barrier_arrive(empty[k % 2])
                B[t - 32] = total

    a = ints((5, 32), 15, low=-5, high=5)
    want = np.zeros(32, F)
    for k in range(5):
        want = want * 2 + a[k, ::-1]
    return f, [a, Out(want)]


@program(also=("sm_90a",))
def one_thread_merges_sorted_rows_in_fragments_of_its_own():
    rows, count = 3, 5

    @T.prim_func
    def f(A: I32[rows, count], B: I32[rows * count]):
        with T.Kernel(1, threads=64):
            merged = T.alloc_shared((rows * count,), "int32")
            if T.get_thread_binding() == 37:
                values = T.alloc_fragment((rows, count), "int32")
                at = T.alloc_fragment((rows,), "int32")
                T.copy(A, values)
                for r in T.Parallel(rows):
                    at[r] = 0
                for k in T.serial(rows * count):
                    best = T.alloc_var("int32", -1)
                    for r in T.serial(rows):
                        if at[r] < count:
                            if best < 0:
                                best = r
                            elif values[r, at[r]] < values[best, at[best]]:
                                best = r
                    merged[k] = values[best, at[best]]
                    at[best] += 1
            for k in T.Parallel(rows * count):
                B[k] = merged[k]

    a = np.sort(np.random.default_rng(8).integers(-99, 100, (rows, count)).astype(I), axis=1)
    return f, [a, Out(np.sort(a.reshape(-1)))]


@program(also=("sm_90a",))
def a_parallel_loop_over_the_threads_exchanges_values():
    @T.prim_func
    def f(A: F32[3, 10, 4], B: F32[3, 10, 4]):
        with T.Kernel(3, threads=64) as b:
            for i, j in T.Parallel(10, 4):
                v = T.alloc_var("float32", A[b, i, j])
                if A[b, i, 0] > 0:
                    v += T.shfl_xor(v, 1)
                    v += T.shfl_xor(v, 2)
                B[b, i, j] = v

    a = ints((3, 10, 4))
    sums = np.broadcast_to(a.sum(2, keepdims=True), a.shape)
    return f, [a, Out(np.where(a[..., :1] > 0, sums, a).astype(F))]


@program()
def sums_of_warps_of_which_the_last_has_fewer_lanes():
    @T.prim_func
    def f(A: F32[52], B: F32[3, 52], K: I32[52]):
        with T.Kernel(1, threads=52):
            t = T.get_thread_binding()
            B[0, t] = T.warp_reduce_sum(A[t])
            B[1, t] = T.warp_reduce_max(A[t] - 9)
            B[2, t] = T.warp_reduce_sum(T.cast(A[t], "float16"))
            K[t] = T.warp_reduce_min(T.cast(A[t], "int32") + 9)

    a = ints(52, 3)
    rows = lambda how, x: np.concatenate([np.full(32, how(x[:32])), np.full(20, how(x[32:]))])
    want = np.stack([rows(np.sum, a), rows(np.max, a - 9), rows(np.sum, a)])
    return f, [a, Out(want.astype("float32")), Out(rows(np.min, a + 9).astype(I))]
