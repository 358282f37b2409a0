"""Programs of users for Hopper's units that mix what other tests look at one by one: several
pipelines, roles by hand, products of parts of tiles, copies by the unit beside copies by threads.
The interpreter, the emulator with all its checks, and plain numpy agree."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import INTERPRETER, SM_90A, compiled, holds
from tensor_types import I8, I32

import tilelang.language as T
from tilelang.errors import TileWarning

HALF, SINGLE = "float16", "float32"


def numbers(*shape, seed=0, dtype=HALF, least=-3, most=3):
    """Small integers, of which every sum is exact."""
    values = np.random.default_rng(seed + sum(shape))
    return values.integers(least, most + 1, shape).astype(dtype)


def zeros(*shape, dtype=SINGLE):
    return np.zeros(shape, dtype)


def product(a, b):
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(SINGLE)


# -- roles by hand ---------------------------------------------------------------------------------
def rings_of_different_depth():
    """Two warps fill a ring each, of two and of three stages; two warpgroups multiply."""
    M, N, K, bk, few, many = 128, 128, 320, 64, 2, 3

    @T.prim_func
    def rings(A: T.Tensor((M, K), HALF), B: T.Tensor((K, N), HALF), C: T.Tensor((M, N), SINGLE)):
        with T.Kernel(1, threads=384):
            a = T.alloc_shared((few, M, bk), HALF)
            b = T.alloc_shared((many, bk, N), HALF)
            a_full, a_empty = T.alloc_barrier([1] * few), T.alloc_barrier([256] * few)
            b_full, b_empty = T.alloc_barrier([1] * many), T.alloc_barrier([256] * many)
            acc = T.alloc_fragment((M, N), SINGLE)
            tx = T.get_thread_binding()
            if tx >= 256:
                T.set_max_nreg(24, 0)
                if tx < 288:
                    for k in T.serial(K // bk):
                        T.mbarrier_wait_parity(a_empty[k % few], (k // few) % 2 ^ 1)
                        T.tma_copy(A[0, k * bk], a[k % few, :, :], barrier=a_full[k % few])
                        if T.shuffle_elect(32):
                            T.mbarrier_arrive(a_full[k % few])
                elif tx >= 352:
                    for k in T.serial(K // bk):
                        T.mbarrier_wait_parity(b_empty[k % many], (k // many) % 2 ^ 1)
                        T.tma_copy(B[k * bk, 0], b[k % many, :, :], barrier=b_full[k % many])
                        if T.shuffle_elect(32):
                            T.mbarrier_arrive(b_full[k % many])
            else:
                T.set_max_nreg(232, 1)
                T.clear(acc)
                for k in T.serial(K // bk):
                    T.mbarrier_wait_parity(a_full[k % few], (k // few) % 2)
                    T.mbarrier_wait_parity(b_full[k % many], (k // many) % 2)
                    T.gemm(a[k % few, :, :], b[k % many, :, :], acc)
                    T.mbarrier_arrive(a_empty[k % few])
                    T.mbarrier_arrive(b_empty[k % many])
                T.copy(acc, C)

    a, b = numbers(M, K), numbers(K, N, seed=1)
    return rings, (a, b, zeros(M, N)), product(a, b)


def columns_of_a_stage():
    """Each of two warpgroups multiplies its half of the columns of the same stages."""
    M, N, K, bk, stages = 64, 256, 256, 64, 2

    @T.macro
    def half(a, b, C, full, empty, own):
        with T.ws(own):
            acc = T.alloc_fragment((M, N // 2), SINGLE)
            first = own * (N // 2)
            for k in T.serial(K // bk):
                s = k % stages
                T.barrier_wait(full[s], (k // stages) % 2)
                T.gemm(a[s, :, :], b[s, :, first : first + N // 2], acc, clear_accum=k == 0)
                T.barrier_arrive(empty[s])
            T.copy(acc, C[0:M, first : first + N // 2])

    @T.prim_func
    def columns(A: T.Tensor((M, K), HALF), B: T.Tensor((K, N), HALF), C: T.Tensor((M, N), SINGLE)):
        with T.Kernel(1, threads=384):
            a = T.alloc_shared((stages, M, bk), HALF)
            b = T.alloc_shared((stages, bk, N), HALF)
            full, empty = T.alloc_barrier([128] * stages), T.alloc_barrier([256] * stages)
            with T.ws(2):
                for k in T.serial(K // bk):
                    s = k % stages
                    T.barrier_wait(empty[s], (k // stages) % 2 ^ 1)
                    T.tma_copy(A[0, k * bk], a[s, :, :], barrier=full[s])
                    T.tma_copy(B[k * bk, 0], b[s, :, :], barrier=full[s])
                    T.barrier_arrive(full[s])
            half(a, b, C, full, empty, 0)
            half(a, b, C, full, empty, 1)

    a, b = numbers(M, K), numbers(K, N, seed=1)
    return columns, (a, b, zeros(M, N)), product(a, b)


def slots_in_variables(one=True, outside=False, stride=False):
    """Blocks take several tiles; both roles count slot and phase in variables of their own. One
    thread copies, or a warp does; ``stride``: its threads have different slots."""
    M, N, K, stages = 192, 64, 192, 2
    arrivals = 1 if one else 32

    @T.prim_func
    def slots(A: T.Tensor((M, K), HALF), B: T.Tensor((N, K), HALF), C: T.Tensor((M, N), SINGLE)):
        with T.Kernel(2, threads=256) as bx:
            a = T.alloc_shared((stages, 64, 64), HALF)
            b = T.alloc_shared((stages, N, 64), HALF)
            full, empty = T.alloc_barrier([arrivals] * stages), T.alloc_barrier([128] * stages)
            tx = T.get_thread_binding()
            tiles = T.ceildiv(3 - bx, 2)
            if outside:
                slot, phase = T.alloc_var("int32", init=0), T.alloc_var("int32", init=1)
            if tx >= 128:
                T.set_max_nreg(40, 0)
                if tx < 128 + arrivals:
                    if not outside:
                        slot, phase = T.alloc_var("int32", init=0), T.alloc_var("int32", init=1)
                    for t in T.serial(tiles):
                        for k in T.serial(K // 64):
                            T.mbarrier_wait_parity(empty[slot], phase)
                            at = (bx + 2 * t) * 64
                            T.tma_copy(A[at, k * 64], a[slot, :, :], barrier=full[slot])
                            T.tma_copy(B[0, k * 64], b[slot, :, :], barrier=full[slot])
                            T.mbarrier_arrive(full[slot])
                            slot += T.if_then_else(tx < 130, 1, 0) if stride else 1
                            if slot == stages:
                                slot = 0
                                phase = phase ^ 1
            else:
                T.set_max_nreg(232, 1)
                acc = T.alloc_fragment((64, N), SINGLE)
                used, turn = T.alloc_var("int32", init=0), T.alloc_var("int32", init=0)
                for t in T.serial(tiles):
                    T.clear(acc)
                    for k in T.serial(K // 64):
                        T.mbarrier_wait_parity(full[used], turn)
                        T.gemm(a[used, :, :], b[used, :, :], acc, transpose_B=True)
                        T.mbarrier_arrive(empty[used])
                        used += 1
                        if used == stages:
                            used = 0
                            turn = turn ^ 1
                    T.copy(acc, C[(bx + 2 * t) * 64, 0])

    a, b = numbers(M, K), numbers(N, K, seed=1)
    return slots, (a, b, zeros(M, N)), product(a, b.T)


def a_group_between_others():
    """Warpgroups 1 and 2 of four share a product; the first brings its operands."""
    M, N, K = 128, 64, 128

    @T.prim_func
    def between(A: T.Tensor((M, K), HALF), B: T.Tensor((K, N), HALF), C: T.Tensor((M, N), SINGLE)):
        with T.Kernel(1, threads=512):
            a, b = T.alloc_shared((M, K), HALF), T.alloc_shared((K, N), HALF)
            here = T.alloc_barrier(128)
            with T.ws(0):
                T.tma_copy(A, a, barrier=here)
                T.tma_copy(B, b, barrier=here)
                T.barrier_arrive(here)
            with T.ws(1, 2):
                acc = T.alloc_fragment((M, N), SINGLE)
                T.barrier_wait(here, 0)
                T.gemm(a, b, acc, clear_accum=True)
                for i, j in T.Parallel(M, N):
                    acc[i, j] = T.max(acc[i, j], 0)
                T.copy(acc, C)

    a, b = numbers(M, K), numbers(K, N, seed=1)
    return between, (a, b, zeros(M, N)), np.maximum(product(a, b), 0)


# -- pipelines -------------------------------------------------------------------------------------
def pipelines_in_a_row():
    """Three, of different depth, that use the same tiles."""
    M, N, K = 64, 128, 256

    @T.prim_func
    def in_a_row(
        A: T.Tensor((M, K), HALF), B: T.Tensor((K, N), HALF), D: T.Tensor((N, K), HALF),
        C: T.Tensor((M, N), SINGLE),
    ):  # fmt: skip
        with T.Kernel(1, threads=256):
            a, b = T.alloc_shared((M, 64), HALF), T.alloc_shared((64, N), HALF)
            d = T.alloc_shared((N, 64), HALF)
            acc, other = T.alloc_fragment((M, N), SINGLE), T.alloc_fragment((M, N), SINGLE)
            T.clear(acc)
            for k in T.Pipelined(K // 64, num_stages=3):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, acc)
            T.clear(other)
            for k in T.Pipelined(K // 64, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(D[0, k * 64], d)
                T.gemm(a, d, other, transpose_B=True)
            for i, j in T.Parallel(M, N):
                acc[i, j] = acc[i, j] - 2 * other[i, j]
            for k in T.Pipelined(K // 64 - 1, num_stages=4):
                T.copy(A[0, k * 64 + 32], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C)

    a, b, d = numbers(M, K), numbers(K, N, seed=1), numbers(N, K, seed=2)
    wanted = product(a, b) - 2 * product(a, d.T) + product(a[:, 32:224], b[:192])
    return in_a_row, (a, b, d, zeros(M, N)), wanted


def a_loop_before_a_pipeline():
    """The same tiles are filled by all threads in a plain loop, and by the unit in a pipeline: in
    the first a barrier passes on what products of both warpgroups have read."""
    M, N, K = 120, 64, 256

    @T.prim_func
    def loop_first(
        A: T.Tensor((M, K), HALF), B: T.Tensor((N, K), HALF), C: T.Tensor((M, N), SINGLE)
    ):
        with T.Kernel(1, 2, threads=256) as (bx, by):
            a, b = T.alloc_shared((64, 64), HALF), T.alloc_shared((64, 64), HALF)
            acc = T.alloc_fragment((64, N), SINGLE)
            T.clear(acc)
            for k in T.Pipelined(K // 64, num_stages=0):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, acc, transpose_B=True)
            for k in T.Pipelined(K // 64, num_stages=3):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, C[by * 64, 0])

    a, b = numbers(M, K), numbers(N, K, seed=1)
    return loop_first, (a, b, zeros(M, N)), 2 * product(a, b.T)


def pipelines_under_conditions():
    """A table says for each group which of two loops runs, and how often, also never."""
    G, M, K = 6, 64, 128

    @T.prim_func
    def under_conditions(
        A: T.Tensor((G, M, K), HALF), B: T.Tensor((G, K, M), HALF), how: I32[G],
        C: T.Tensor((G, M, M), SINGLE),
    ):  # fmt: skip
        with T.Kernel(2, threads=128) as bx:
            a, b = T.alloc_shared((M, 32), HALF), T.alloc_shared((32, M), HALF)
            acc = T.alloc_fragment((M, M), SINGLE)
            for g in T.serial(3):
                at = bx * 3 + g
                if how[at] > 0:
                    T.clear(acc)
                    for k in T.Pipelined(K // 32, num_stages=3):
                        T.copy(A[at, 0, k * 32], a)
                        T.copy(B[at, k * 32, 0], b)
                        T.gemm(a, b, acc)
                else:
                    T.fill(acc, -1.0)
                    for k in T.Pipelined(how[at] + 3, num_stages=2):
                        T.copy(A[at, 0, k * 32], a)
                        T.copy(B[at, k * 32, 0], b)
                        T.gemm(a, b, acc)
                T.copy(acc, C[at, 0, 0])

    a, b = numbers(G, M, K), numbers(G, K, M, seed=1)
    how = np.array([1, 0, -1, 2, -2, -3], "int32")
    ends = [(K, 0) if n > 0 else (32 * (n + 3), -1) for n in how]
    wanted = np.stack([first + product(x[:, :k], y[:k]) for x, y, (k, first) in zip(a, b, ends)])
    return under_conditions, (a, b, how, zeros(G, M, M)), wanted


def boxes_beside_gathered_rows():
    """One tile of an item is a box, one is gathered by a table, one is a row of factors."""
    M, N, K = 64, 64, 256

    @T.prim_func
    def gathered(
        A: T.Tensor((512, K), HALF), rows: I32[M], B: T.Tensor((K, N), HALF),
        S: T.Tensor((K // 32, N), SINGLE), C: T.Tensor((M, N), SINGLE),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((M, 32), HALF), T.alloc_shared((32, N), HALF)
            s = T.alloc_shared((N,), SINGLE)
            acc, part = T.alloc_fragment((M, N), SINGLE), T.alloc_fragment((M, N), SINGLE)
            T.clear(acc)
            for k in T.Pipelined(K // 32, num_stages=3):
                for i, j in T.Parallel(M, 32):
                    a[i, j] = A[rows[i], k * 32 + j]
                T.copy(B[k * 32, 0], b)
                T.copy(S[k, 0:N], s)
                T.gemm(a, b, part, clear_accum=True)
                for i, j in T.Parallel(M, N):
                    acc[i, j] += part[i, j] * s[j]
            T.copy(acc, C)

    a, b, s = numbers(512, K), numbers(K, N, seed=1), numbers(K // 32, N, dtype=SINGLE)
    rows = np.random.default_rng(1).integers(0, 512, M).astype("int32")
    steps = [slice(k, k + 32) for k in range(0, K, 32)]
    wanted = sum(product(a[rows][:, at], b[at]) * s[k] for k, at in enumerate(steps))
    return gathered, (a, rows, b, s, zeros(M, N)), wanted


def shares_that_are_not_equal():
    """Stream-K: blocks take equal numbers of steps; parts of tiles are added by atomics."""
    M, N, K, bk, blocks = 128, 128, 320, 64, 3
    steps, across = K // bk, N // 64
    total = M // 64 * across * steps
    share = -(-total // blocks)

    @T.prim_func
    def stream(A: T.Tensor((M, K), HALF), B: T.Tensor((N, K), HALF), C: T.Tensor((M, N), SINGLE)):
        with T.Kernel(blocks, threads=128) as block:
            a, b = T.alloc_shared((64, bk), HALF), T.alloc_shared((64, bk), HALF)
            acc = T.alloc_fragment((64, 64), SINGLE)
            at, last = T.alloc_var("int32", init=0), T.alloc_var("int32", init=0)
            at = block * share
            last = T.min(total, (block + 1) * share)
            while at < last:
                tile, first = T.alloc_var("int32"), T.alloc_var("int32")
                count = T.alloc_var("int32")
                tile = at // steps
                first = at % steps
                count = T.min(steps - first, last - at)
                row, column = tile // across * 64, tile % across * 64
                T.clear(acc)
                for k in T.Pipelined(count, num_stages=2):
                    T.copy(A[row, (first + k) * bk], a)
                    T.copy(B[column, (first + k) * bk], b)
                    T.gemm(a, b, acc, transpose_B=True)
                if count == steps:
                    T.copy(acc, C[row, column])
                else:
                    for i, j in T.Parallel(64, 64):
                        T.atomic_add(C[row + i, column + j], acc[i, j])
                at = at + count

    a, b = numbers(M, K), numbers(N, K, seed=1)
    return stream, (a, b, zeros(M, N)), product(a, b.T)


def copies_under_conditions():
    """Items take their tile from two tensors in turn, and not all are multiplied."""
    M, N, K = 64, 64, 256

    @T.prim_func
    def in_turn(
        A: T.Tensor((M, K), HALF), A2: T.Tensor((M, K), HALF), B: T.Tensor((K, N), HALF),
        C: T.Tensor((M, N), SINGLE),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((M, 64), HALF), T.alloc_shared((64, N), HALF)
            acc = T.alloc_fragment((M, N), SINGLE)
            T.clear(acc)
            for k in T.Pipelined(K // 64, num_stages=2):
                if k % 2 == 0:
                    T.copy(A[0, k * 64], a)
                else:
                    T.copy(A2[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                if k != 1:
                    T.gemm(a, b, acc)
            T.copy(acc, C)

    a, other, b = numbers(M, K), numbers(M, K, seed=3), numbers(K, N, seed=1)
    steps = [(x, slice(64 * k, 64 * k + 64)) for k, x in ((0, a), (2, a), (3, other))]
    return (in_turn, (a, other, b, zeros(M, N)), sum(product(x[:, at], b[at]) for x, at in steps))


def iterations_left_out():
    """A table says which iterations of a pipelined loop are skipped, and where it ends."""
    M, N, K = 64, 64, 512

    @T.prim_func
    def left_out(
        A: T.Tensor((M, K), HALF), B: T.Tensor((K, N), HALF), what: I32[8],
        C: T.Tensor((M, N), SINGLE),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared((M, 64), HALF), T.alloc_shared((64, N), HALF)
            acc = T.alloc_fragment((M, N), SINGLE)
            T.clear(acc)
            for k in T.Pipelined(8, num_stages=2):
                if what[k] == 1:
                    continue
                if what[k] == 2:
                    break
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C)

    a, b = numbers(M, K), numbers(K, N, seed=1)
    what = np.array([0, 1, 0, 0, 1, 0, 2, 0], "int32")
    steps = [slice(64 * k, 64 * k + 64) for k in (0, 2, 3, 5)]
    return left_out, (a, b, what, zeros(M, N)), sum(product(a[:, at], b[at]) for at in steps)


# -- operands --------------------------------------------------------------------------------------
def state_in_an_accumulator():
    """Linear attention in chunks: a sum that is also an operand, through shared memory, and a tile
    that is multiplied in both orientations."""
    L, D = 256, 64

    @T.prim_func
    def chunks(
        Q: T.Tensor((L, D), HALF), K: T.Tensor((L, D), HALF), V: T.Tensor((L, D), HALF),
        O: T.Tensor((L, D), SINGLE),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            q, k, v, held = (T.alloc_shared((64, D), HALF) for _ in range(4))
            state, scores, out = (T.alloc_fragment((64, D), SINGLE) for _ in range(3))
            weights = T.alloc_fragment((64, 64), HALF)
            T.clear(state)
            for c in T.Pipelined(L // 64, num_stages=2):
                T.copy(Q[c * 64, 0], q)
                T.copy(K[c * 64, 0], k)
                T.copy(V[c * 64, 0], v)
                T.gemm(q, k, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 64):
                    weights[i, j] = T.if_then_else(i >= j, scores[i, j], 0.0)
                T.copy(state, held)
                T.gemm(q, held, out, clear_accum=True)
                T.gemm(weights, v, out)
                T.gemm(k, v, state, transpose_A=True)
                T.copy(out, O[c * 64, 0])

    q, k, v = (numbers(L, D, seed=n, least=-1, most=1) for n in range(3))
    return chunks, (q, k, v, zeros(L, D)), np.tril(product(q, k.T)) @ v.astype(SINGLE)


def one_tile_twice():
    """A tile times itself, transposed on either side."""
    M, K = 64, 128

    @T.prim_func
    def twice(
        A: T.Tensor((M, K), HALF), G: T.Tensor((M, M), SINGLE), H: T.Tensor((64, 64), SINGLE)
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, 64), HALF)
            g, h = T.alloc_fragment((M, M), SINGLE), T.alloc_fragment((64, 64), SINGLE)
            T.clear(g)
            T.clear(h)
            for k in T.Pipelined(K // 64, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.gemm(a, a, g, transpose_B=True)
                T.gemm(a, a, h, transpose_A=True)
            T.copy(g, G)
            T.copy(h, H)

    a = numbers(M, K)
    inner = product(a[:, :64].T, a[:, :64]) + product(a[:, 64:].T, a[:, 64:])
    return twice, (a, zeros(M, M), zeros(64, 64)), (product(a, a.T), inner)


def values_outside_that_are_not_zero():
    """Partial tiles of tensors whose outside reads as one and as two."""
    M, N, K = 70, 64, 96

    @T.prim_func
    def outside(A: T.Tensor((M, K), HALF), B: T.Tensor((K, N), HALF), C: T.Tensor((M, N), SINGLE)):
        with T.Kernel(2, threads=128) as by:
            a, b = T.alloc_shared((64, 64), HALF), T.alloc_shared((64, N), HALF)
            acc = T.alloc_fragment((64, N), SINGLE)
            T.annotate_safe_value({A: 1.0, B: 2.0})
            T.clear(acc)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=2):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * 64, 0])

    a, b = numbers(M, K), numbers(K, N, seed=1)
    wide, long = np.ones((M, 128), HALF), np.full((128, N), 2, HALF)
    wide[:, :K], long[:K] = a, b
    return outside, (a, b, zeros(M, N)), product(wide, long)


def bytes_that_become_halves():
    """A pipeline's tile of int8 is converted in shared memory; factors follow the product."""
    M, N, K = 64, 64, 256

    @T.prim_func
    def converted(
        A: T.Tensor((M, K), HALF), W: I8[K, N], S: T.Tensor((N,), SINGLE),
        C: T.Tensor((M, N), SINGLE),
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            a, w = T.alloc_shared((M, 64), HALF), T.alloc_shared((64, N), "int8")
            wide = T.alloc_shared((64, N), HALF)
            acc = T.alloc_fragment((M, N), SINGLE)
            T.clear(acc)
            for k in T.Pipelined(K // 64, num_stages=3):
                T.copy(A[0, k * 64], a)
                T.copy(W[k * 64, 0], w)
                T.copy(w, wide)
                T.gemm(a, wide, acc)
            for i, j in T.Parallel(M, N):
                acc[i, j] *= S[j]
            T.copy(acc, C)

    a, w = numbers(M, K), numbers(K, N, seed=1, dtype="int8", least=-128, most=127)
    s = numbers(N, seed=2, dtype=SINGLE)
    return converted, (a, w, s, zeros(M, N)), product(a, w) * s


def rows_by_a_table():
    """Grouped rows: gathered under a condition, and added to where they came from."""
    rows, K, N, groups = 40, 64, 64, 3

    @T.prim_func
    def grouped(
        X: T.Tensor((rows, K), HALF), W: T.Tensor((groups, K, N), HALF), ids: I32[groups, 64],
        count: I32[groups], Y: T.Tensor((rows, N), SINGLE),
    ):  # fmt: skip
        with T.Kernel(groups, threads=128) as e:
            a, b = T.alloc_shared((64, K), HALF), T.alloc_shared((K, N), HALF)
            acc = T.alloc_fragment((64, N), SINGLE)
            for i, j in T.Parallel(64, K):
                a[i, j] = T.if_then_else(i < count[e], X[ids[e, i], j], T.float16(0))
            T.copy(W[e, 0:K, 0:N], b)
            T.gemm(a, b, acc, clear_accum=True)
            for i, j in T.Parallel(64, N):
                if i < count[e]:
                    T.atomic_add(Y[ids[e, i], j], acc[i, j])

    x, w = numbers(rows, K), numbers(groups, K, N, seed=2)
    count, ids = np.array([40, 0, 17], "int32"), np.full((groups, 64), -1, "int32")
    wanted = zeros(rows, N)
    for e, some in enumerate(count):
        ids[e, :some] = np.random.default_rng(e).permutation(rows)[:some]
        wanted[ids[e, :some]] += product(x[ids[e, :some]], w[e])
    return grouped, (x, w, ids, count, zeros(rows, N)), wanted


def stores_in_flight():
    """Tiles come and go by the unit in a loop; one store may be in flight while the next is made."""
    M, N, rounds = 128, 64, 4

    @T.prim_func
    def in_flight(A: T.Tensor((rounds, M, N), HALF), C: T.Tensor((rounds, M, N), HALF)):
        with T.Kernel(M // 64, threads=128) as bx:
            tile = T.alloc_shared((2, 64, N), HALF)
            here = T.alloc_barrier([1, 1])
            tx = T.get_thread_binding()
            for r in T.serial(rounds):
                v = r % 2
                T.tma_store_wait(1)
                T.sync_threads()
                T.tma_copy(A[r, bx * 64 : bx * 64 + 64, :], tile[v, :, :], barrier=here[v])
                if tx == 0:
                    T.mbarrier_arrive(here[v])
                T.mbarrier_wait_parity(here[v], (r // 2) % 2)
                for i, j in T.Parallel(64, N):
                    tile[v, i, j] = tile[v, i, j] * T.float16(2) + T.float16(1)
                T.fence_proxy_async()
                T.sync_threads()
                T.tma_copy(tile[v, :, :], C[r, bx * 64 : bx * 64 + 64, :])
            T.tma_store_wait(0)

    a = numbers(rounds, M, N)
    return in_flight, (a, np.zeros_like(a)), 2 * a + 1


PROGRAMS = (
    rings_of_different_depth, columns_of_a_stage, slots_in_variables, a_group_between_others,
    pipelines_in_a_row, a_loop_before_a_pipeline, pipelines_under_conditions,
    boxes_beside_gathered_rows, shares_that_are_not_equal, copies_under_conditions, iterations_left_out,
    state_in_an_accumulator, one_tile_twice, values_outside_that_are_not_zero,
    bytes_that_become_halves, rows_by_a_table, stores_in_flight,
)  # fmt: skip


@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_a_program_on_the_interpreter_and_the_emulator(make) -> None:
    func, given, wanted = make()
    results = wanted if isinstance(wanted, tuple) else (wanted,)
    holds(func, given, *results, on=(INTERPRETER, SM_90A))


@pytest.mark.parametrize(("one", "outside"), [(True, True), (False, False)])
def test_who_copies_may_count_slots_in_variables(one: bool, outside: bool) -> None:
    func, given, wanted = slots_in_variables(one, outside)
    assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
    holds(func, given, wanted, on=(SM_90A,))


def test_slots_that_depend_on_the_thread_are_those_of_the_thread_that_copies() -> None:
    func, _, _ = slots_in_variables(one=False, stride=True)
    with pytest.warns(TileWarning, match="`slot.* is not proved uniform"):
        text = compiled(func, SM_90A).get_kernel_source()
    assert "tl_tma_load(" in text and "tl_tma_agree(" in text
