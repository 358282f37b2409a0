"""Kernels whose authors distribute the work of Hopper themselves: warpgroups with roles, barriers in
memory, tiles that one group brings and others multiply. Tile operations inside of the roles."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tensor_types import F16, F32

import tilelang.language as T

FULL_ROW = T.GemmWarpPolicy.FullRow
LOG2E = 1.44269504


# -- products --------------------------------------------------------------------------------------
def single_role(M=256, N=256, K=256, bk=64, stages=0):
    """All threads bring tiles and multiply them; the program has a barrier for each operand."""
    bm, bn = 128, 128

    @T.prim_func
    def by_hand_one_role(A: F16[M, K], B: F16[K, N], C: F16[M, N]):
        with T.Kernel(N // bn, M // bm, threads=128) as (bx, by):
            A_tile = T.alloc_shared((bm, bk), "float16")
            B_tile = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            A_here = T.alloc_barrier(128)
            B_here = T.alloc_barrier(128)
            T.clear(acc)
            for k in T.Pipelined(K // bk, num_stages=stages):
                T.tma_copy(A[by * bm, k * bk], A_tile, barrier=A_here)
                T.barrier_arrive(A_here)
                T.tma_copy(B[k * bk, bx * bn], B_tile, barrier=B_here)
                T.barrier_arrive(B_here)
                T.mbarrier_wait_parity(A_here, k % 2)
                T.mbarrier_wait_parity(B_here, k % 2)
                T.gemm(A_tile, B_tile, acc)
            T.copy(acc, C[by * bm, bx * bn])

    return by_hand_one_role


def two_groups(M=256, N=256, K=256, bk=64, producer=1):
    """One warpgroup copies, the other multiplies, one tile of each operand."""
    bm, bn = 128, 128

    @T.prim_func
    def by_hand_two_groups(A: F16[M, K], B: F16[K, N], C: F16[M, N]):
        with T.Kernel(N // bn, M // bm, threads=256) as (bx, by):
            A_tile = T.alloc_shared((bm, bk), "float16")
            B_tile = T.alloc_shared((bk, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            here = T.alloc_barrier(arrive_count=128)
            done = T.alloc_barrier(arrive_count=128)
            with T.ws(1 - producer):
                T.clear(acc)
            for k in range(K // bk):
                with T.ws(producer):
                    T.barrier_wait(done, (k + 1) % 2)
                    T.copy(A[by * bm, k * bk], A_tile)
                    T.copy(B[k * bk, bx * bn], B_tile)
                    T.barrier_arrive(here)
                with T.ws(1 - producer):
                    T.barrier_wait(here, k % 2)
                    T.gemm(A_tile, B_tile, acc)
                    T.barrier_arrive(done)
            with T.ws(1 - producer):
                T.copy(acc, C[by * bm, bx * bn])

    return by_hand_two_groups


def ring(M=256, N=256, K=256, bk=64, stages=3, through_shared=True):
    """A warpgroup fills a ring of stages, two multiply; results leave through shared memory."""
    bm, bn = 128, 128

    @T.prim_func
    def by_hand_ring(A: F16[M, K], B: F16[N, K], C: F16[M, N]):
        with T.Kernel(N // bn, M // bm, threads=384) as (bx, by):
            A_tile = T.alloc_shared((stages, bm, bk), "float16")
            B_tile = T.alloc_shared((stages, bn, bk), "float16")
            C_tile = T.alloc_shared((bm, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([256] * stages)
            tx = T.get_thread_binding()
            if tx < 128:
                T.set_max_nreg(24, 0)
                for k in T.serial(K // bk):
                    s = k % stages
                    T.barrier_wait(empty[s], (k // stages) % 2 ^ 1)
                    rows, columns = by * bm, bx * bn
                    at = k * bk
                    T.tma_copy(A[rows : rows + bm, at : at + bk], A_tile[s, :, :], barrier=full[s])
                    T.tma_copy(
                        B[columns : columns + bn, at : at + bk], B_tile[s, :, :], barrier=full[s]
                    )
                    if tx == 0:
                        T.barrier_arrive(full[s])
            else:
                T.set_max_nreg(240, 1)
                T.clear(acc)
                for k in T.serial(K // bk):
                    s = k % stages
                    T.barrier_wait(full[s], (k // stages) % 2)
                    T.wgmma_gemm(A_tile[s, :, :], B_tile[s, :, :], acc, transpose_B=True)
                    T.wait_wgmma(0)
                    T.barrier_arrive(empty[s])
                if through_shared:
                    T.copy(acc, C_tile)
                    T.fence_proxy_async()
                    T.sync_threads(3, 256)
                    T.tma_copy(C_tile, C[by * bm, bx * bn])
                    T.tma_store_wait()
                else:
                    T.copy(acc, C[by * bm, bx * bn])

    return by_hand_ring


def in_flight(M=128, N=128, K=256, bk=64, stages=3):
    """A step's product may run while the next is issued; then the stage before is given back. One
    warp brings tiles."""

    @T.prim_func
    def by_hand_in_flight(A: F16[M, K], B: F16[N, K], C: F16[M, N]):
        with T.Kernel(1, threads=256):
            A_tile = T.alloc_shared((stages, M, bk), "float16")
            B_tile = T.alloc_shared((stages, N, bk), "float16")
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([128] * stages)
            tx = T.get_thread_binding()
            if tx >= 128:
                if tx < 160:
                    for k in T.serial(K // bk):
                        s = k % stages
                        at = k * bk
                        T.mbarrier_wait_parity(empty[s], (k // stages) % 2 ^ 1)
                        T.tma_copy(A[0:M, at : at + bk], A_tile[s, :, :], barrier=full[s])
                        T.tma_copy(B[0:N, at : at + bk], B_tile[s, :, :], barrier=full[s])
                        if T.shuffle_elect(32):
                            T.mbarrier_arrive(full[s])
            else:
                acc = T.alloc_fragment((M, N), "float32")
                for k in T.serial(K // bk):
                    s = k % stages
                    T.mbarrier_wait_parity(full[s], (k // stages) % 2)
                    T.wgmma_gemm(
                        A_tile[s, :, :], B_tile[s, :, :], acc, transpose_B=True, clear_accum=k == 0
                    )
                    if k > 0:
                        T.wait_wgmma(1)
                        T.mbarrier_arrive(empty[(k - 1) % stages])
                T.wait_wgmma(0)
                T.copy(acc, C)

    return by_hand_in_flight


def ping_pong(M=256, N=256, K=192, bk=64, stages=2, blocks=3):
    """Blocks take tile after tile; two warpgroups alternate between tiles, so that one multiplies while
    the other stores, ordered by named barriers."""
    bm, bn = 64, 128
    across, steps = N // bn, K // bk
    tiles = M // bm * across

    @T.macro
    def consumer(A_tile, B_tile, C_tile, C, full, empty, bx, own):
        T.set_max_nreg(240, 1)
        acc = T.alloc_fragment((bm, bn), "float32")
        for t in T.serial(T.ceildiv(tiles - bx, blocks)):
            if t % 2 == own:
                tile = bx + t * blocks
                T.sync_threads(2 + own, 256)  # the other group has issued its products
                for k in T.serial(steps):
                    turn = t * steps + k
                    s = turn % stages
                    T.barrier_wait(full[s], (turn // stages) % 2)
                    T.wgmma_gemm(
                        A_tile[s, :, :], B_tile[s, :, :], acc, transpose_B=True, policy=FULL_ROW,
                        clear_accum=k == 0,
                    )  # fmt: skip
                    T.wait_wgmma(0)
                    T.barrier_arrive(empty[s])
                T.named_barrier_arrive(3 - own, 256)
                T.copy(acc, C_tile[own, :, :])
                T.fence_proxy_async()
                T.sync_threads(4 + own, 128)
                T.tma_copy(C_tile[own, :, :], C[tile // across * bm, tile % across * bn])
                T.tma_store_wait()
                T.sync_threads(4 + own, 128)

    @T.prim_func
    def by_hand_ping_pong(A: F16[M, K], B: F16[N, K], C: F16[M, N]):
        with T.Kernel(blocks, threads=384) as bx:
            A_tile = T.alloc_shared((stages, bm, bk), "float16")
            B_tile = T.alloc_shared((stages, bn, bk), "float16")
            C_tile = T.alloc_shared((2, bm, bn), "float16")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([128] * stages)
            tx = T.get_thread_binding()
            if tx < 128:
                T.set_max_nreg(24, 0)
                for t in T.serial(T.ceildiv(tiles - bx, blocks)):
                    tile = bx + t * blocks
                    for k in T.serial(steps):
                        turn = t * steps + k
                        s = turn % stages
                        T.barrier_wait(empty[s], (turn // stages) % 2 ^ 1)
                        row, column = tile // across * bm, tile % across * bn
                        T.tma_copy(A[row, k * bk], A_tile[s, :, :], barrier=full[s])
                        T.tma_copy(B[column, k * bk], B_tile[s, :, :], barrier=full[s])
                        T.barrier_arrive(full[s])
            elif tx < 256:
                consumer(A_tile, B_tile, C_tile, C, full, empty, bx, 0)
            else:
                T.named_barrier_arrive(2, 256)
                consumer(A_tile, B_tile, C_tile, C, full, empty, bx, 1)

    return by_hand_ping_pong


def scaled(M=128, N=128, K=512, bk=128, stages=2):
    """8-bit floats with scales for each row, column and step: a product of its own each step, whose
    scales are brought with the tiles."""
    kind = "float8_e4m3fn"

    @T.prim_func
    def by_hand_scaled(
        A: T.Tensor((M, K), kind), B: T.Tensor((N, K), kind), SA: F32[K // bk, M],
        SB: F32[K // bk, N], C: F32[M, N],
    ):  # fmt: skip
        with T.Kernel(1, threads=256):
            A_tile = T.alloc_shared((stages, M, bk), kind)
            B_tile = T.alloc_shared((stages, N, bk), kind)
            SA_tile = T.alloc_shared((stages, M), "float32")
            SB_tile = T.alloc_shared((stages, N), "float32")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([128] * stages)
            with T.ws(1):
                for k in T.serial(K // bk):
                    s = k % stages
                    T.barrier_wait(empty[s], (k // stages) % 2 ^ 1)
                    T.tma_copy(
                        A[0, k * bk], A_tile[s, :, :], barrier=full[s],
                        eviction_policy="evict_last",
                    )  # fmt: skip
                    T.tma_copy(B[0, k * bk], B_tile[s, :, :], barrier=full[s])
                    T.tma_copy(SA[k, :], SA_tile[s, :], barrier=full[s])
                    T.tma_copy(SB[k, :], SB_tile[s, :], barrier=full[s])
                    T.barrier_arrive(full[s])
            with T.ws(0):
                acc = T.alloc_fragment((M, N), "float32")
                part = T.alloc_fragment((M, N), "float32")
                by_row = T.alloc_fragment((M,), "float32")
                by_column = T.alloc_fragment((N,), "float32")
                T.clear(acc)
                for k in T.serial(K // bk):
                    s = k % stages
                    T.barrier_wait(full[s], (k // stages) % 2)
                    T.wgmma_gemm(
                        A_tile[s, :, :], B_tile[s, :, :], part, transpose_B=True, policy=FULL_ROW,
                        clear_accum=True,
                    )  # fmt: skip
                    T.copy(SA_tile[s, 0:M], by_row)
                    T.copy(SB_tile[s, :], by_column)
                    T.wait_wgmma(0)
                    for i, j in T.Parallel(M, N):
                        acc[i, j] += part[i, j] * by_row[i] * by_column[j]
                    T.barrier_arrive(empty[s])
                T.copy(acc, C)

    return by_hand_scaled


def bulk(N=4096):
    """A row to shared memory and back, counted by a barrier at which one thread arrives."""

    @T.prim_func
    def by_hand_bulk(A: F32[4, N], C: F32[4, N]):
        with T.Kernel(4, threads=128) as bx:
            row = T.alloc_shared((N,), "float32")
            here = T.alloc_barrier([1])
            tx = T.get_thread_binding()
            T.tma_copy(A[bx, 0:N], row[0:N], barrier=here[0])
            if T.shuffle_elect(128):
                T.barrier_arrive(here[0])
            T.mbarrier_wait_parity(here[0], 0)
            for i in T.serial(N // 128):
                row[i * 128 + tx] = row[i * 128 + tx] * 2
            T.fence_proxy_async()
            T.sync_threads()
            T.tma_copy(row, C[bx, 0:N])
            T.tma_store_wait(0)

    return by_hand_bulk


def arrivals(own=True, M=128, N=128, K=128):
    """One warpgroup brings whole operands: each copy arrives itself (``own``), or one thread announces
    the bytes of both before."""
    notes = {"emit_arrive": 1} if own else None

    @T.prim_func
    def by_hand_arrivals(A: F16[M, K], B: F16[K, N], C: F16[M, N]):
        with T.Kernel(1, threads=256):
            A_tile = T.alloc_shared((M, K), "float16")
            B_tile = T.alloc_shared((K, N), "float16")
            here = T.alloc_barrier(2 if own else 1)
            with T.ws(1):
                if own:
                    T.tma_copy(A, A_tile, barrier=here, annotations=notes)
                    T.tma_copy(B, B_tile, barrier=here, annotations=notes)
                elif T.shuffle_elect(128):
                    T.mbarrier_arrive_expect_tx(here, (M * K + K * N) * 2)
                    T.tma_copy(A, A_tile, barrier=here)
                    T.tma_copy(B, B_tile, barrier=here)
            with T.ws(0):
                acc = T.alloc_fragment((M, N), "float32")
                T.mbarrier_wait_parity(here, 0)
                T.gemm(A_tile, B_tile, acc, clear_accum=True)
                T.copy(acc, C)

    return by_hand_arrivals


def persistent(M=256, N=256, K=128, bk=64, stages=2, blocks=3):
    """Two roles in the loops that all threads run: the tiles of a block one after the other."""
    bm, bn = 128, 128

    @T.prim_func
    def by_hand_persistent(A: F16[M, K], B: F16[K, N], C: F16[M, N]):
        with T.Kernel(blocks, threads=256) as bx:
            A_tile = T.alloc_shared((stages, bm, bk), "float16")
            B_tile = T.alloc_shared((stages, bk, bn), "float16")
            C_tile = T.alloc_shared((bm, bn), "float16")
            acc = T.alloc_fragment((bm, bn), "float32")
            full = T.alloc_barrier([128] * stages)
            empty = T.alloc_barrier([128] * stages)
            turn = T.alloc_var("int32", init=0)
            for row, column in T.Persistent([M // bm, N // bn], blocks, bx):
                for k in T.serial(K // bk):
                    s = turn % stages
                    with T.ws(1):
                        T.barrier_wait(empty[s], (turn // stages) % 2 ^ 1)
                        T.tma_copy(A[row * bm, k * bk], A_tile[s, :, :], barrier=full[s])
                        T.tma_copy(B[k * bk, column * bn], B_tile[s, :, :], barrier=full[s])
                        T.barrier_arrive(full[s])
                    with T.ws(0):
                        T.barrier_wait(full[s], (turn // stages) % 2)
                        T.wgmma_gemm(A_tile[s, :, :], B_tile[s, :, :], acc, clear_accum=k == 0)
                        T.wait_wgmma(0)
                        T.barrier_arrive(empty[s])
                    turn += 1
                with T.ws(0):
                    T.copy(acc, C_tile)
                    T.copy(C_tile, C[row * bm, column * bn])

    return by_hand_persistent


# -- attention -------------------------------------------------------------------------------------
@T.macro
def renewed(S, P, top, before, factor, part, total, scale, rows, columns):
    """Exponentials of scores against the new maximum of each row, and what that does to sums."""
    T.copy(top, before)
    T.reduce_max(S, top, dim=1, clear=False)
    for i in T.Parallel(rows):
        top[i] = T.max(top[i], before[i])
        factor[i] = T.exp2((before[i] - top[i]) * scale)
    for i, j in T.Parallel(rows, columns):
        S[i, j] = T.exp2((S[i, j] - top[i]) * scale)
    T.reduce_sum(S, part, dim=1)
    for i in T.Parallel(rows):
        total[i] = total[i] * factor[i] + part[i]
    T.copy(S, P)


def attention(batch=1, heads=2, length=256, dim=64, bn=64, stages=2, causal=False):
    """A warpgroup brings K and V, two have 64 queries each; P stays in registers."""
    half = 64
    bm = 2 * half
    shape = (batch, heads, length, dim)
    scale = LOG2E / math.sqrt(dim)

    @T.macro
    def consumer(Q_tile, K_tile, V_tile, O, Q_here, K_full, V_full, K_empty, V_empty, at, n, own):
        bx, by, bz = at
        T.inc_max_nreg(240)
        S = T.alloc_fragment((half, bn), "float32")
        P = T.alloc_fragment((half, bn), "float16")
        out = T.alloc_fragment((half, dim), "float32")
        top = T.alloc_fragment((half,), "float32")
        before = T.alloc_fragment((half,), "float32")
        factor = T.alloc_fragment((half,), "float32")
        part = T.alloc_fragment((half,), "float32")
        total = T.alloc_fragment((half,), "float32")
        T.fill(out, 0)
        T.fill(total, 0)
        T.fill(top, -T.infinity("float32"))
        T.barrier_wait(Q_here, 0)
        for k in T.serial(n):
            s = k % stages
            T.barrier_wait(K_full[s], (k // stages) % 2)
            T.wgmma_gemm(
                Q_tile[own, :, :], K_tile[s, :, :], S, transpose_B=True, clear_accum=True,
                policy=FULL_ROW,
            )  # fmt: skip
            T.wait_wgmma(0)
            T.barrier_arrive(K_empty[s])
            if causal:
                first = bx * bm + own * half
                for i, j in T.Parallel(half, bn):
                    S[i, j] = T.if_then_else(
                        first + i >= k * bn + j, S[i, j], -T.infinity("float32")
                    )
            renewed(S, P, top, before, factor, part, total, scale, half, bn)
            for i, j in T.Parallel(half, dim):
                out[i, j] *= factor[i]
            T.barrier_wait(V_full[s], (k // stages) % 2)
            T.wgmma_gemm(P, V_tile[s, :, :], out, policy=FULL_ROW)
            T.wait_wgmma(0)
            T.barrier_arrive(V_empty[s])
        for i, j in T.Parallel(half, dim):
            out[i, j] /= total[i]
        T.copy(out, O[bz, by, bx * bm + own * half, 0])

    @T.prim_func
    def by_hand_attention(
        Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"),
        V: T.Tensor(shape, "float16"), O: T.Tensor(shape, "float16"),
    ):  # fmt: skip
        with T.Kernel(length // bm, heads, batch, threads=384) as (bx, by, bz):
            Q_tile = T.alloc_shared((2, half, dim), "float16")
            K_tile = T.alloc_shared((stages, bn, dim), "float16")
            V_tile = T.alloc_shared((stages, bn, dim), "float16")
            Q_here = T.alloc_barrier(1)
            K_full = T.alloc_barrier([1] * stages)
            V_full = T.alloc_barrier([1] * stages)
            K_empty = T.alloc_barrier([256] * stages)
            V_empty = T.alloc_barrier([256] * stages)
            tx = T.get_thread_binding()
            n = T.ceildiv((bx + 1) * bm, bn) if causal else length // bn
            at = (bx, by, bz)
            if tx < 128:
                T.dec_max_nreg(24)
                for g in T.unroll(2):
                    row = bx * bm + g * half
                    T.tma_copy(Q[bz, by, row : row + half, :], Q_tile[g, :, :], barrier=Q_here)
                if tx == 0:
                    T.barrier_arrive(Q_here)
                for k in T.serial(n):
                    s = k % stages
                    row = k * bn
                    T.barrier_wait(K_empty[s], (k // stages) % 2 ^ 1)
                    T.tma_copy(K[bz, by, row : row + bn, :], K_tile[s, :, :], barrier=K_full[s])
                    if tx == 0:
                        T.barrier_arrive(K_full[s])
                    T.barrier_wait(V_empty[s], (k // stages) % 2 ^ 1)
                    T.tma_copy(V[bz, by, row : row + bn, :], V_tile[s, :, :], barrier=V_full[s])
                    if tx == 0:
                        T.barrier_arrive(V_full[s])
            elif tx < 256:
                consumer(
                    Q_tile, K_tile, V_tile, O, Q_here, K_full, V_full, K_empty, V_empty, at, n, 0
                )
            else:
                consumer(
                    Q_tile, K_tile, V_tile, O, Q_here, K_full, V_full, K_empty, V_empty, at, n, 1
                )

    return by_hand_attention


# -- what has to come out --------------------------------------------------------------------------
@dataclass(frozen=True)
class Entry:
    """A program, and its result from its arguments as float64 tensors of torch."""

    make: Callable[[], Any]
    expected: Callable[..., Any]
    tolerance: float = 2e-3


def _scaled(a, b, by_row, by_column):
    steps = zip(a.split(128, 1), b.split(128, 1), by_row, by_column, strict=True)
    return sum(x @ y.T * r[:, None] * c for x, y, r, c in steps)


def _attention(causal):
    def expected(q, k, v):
        scores = q @ k.mT / math.sqrt(q.shape[-1])
        if causal:
            unseen = scores.new_ones(scores.shape[-2:]).triu(1).bool()
            scores = scores.masked_fill(unseen, -math.inf)
        return scores.softmax(-1) @ v

    return expected


PROGRAMS = {
    "single_role": Entry(single_role, lambda a, b: a @ b),
    "one_role_in_a_pipeline": Entry(lambda: single_role(stages=2), lambda a, b: a @ b),
    "two_groups": Entry(two_groups, lambda a, b: a @ b),
    "two_groups_producer_first": Entry(lambda: two_groups(producer=0), lambda a, b: a @ b),
    "ring": Entry(ring, lambda a, b: a @ b.T),
    "ring_stored_directly": Entry(lambda: ring(through_shared=False), lambda a, b: a @ b.T),
    "in_flight": Entry(in_flight, lambda a, b: a @ b.T),
    "ping_pong": Entry(ping_pong, lambda a, b: a @ b.T),
    "arrivals_of_copies": Entry(arrivals, lambda a, b: a @ b),
    "arrivals_that_announce": Entry(lambda: arrivals(own=False), lambda a, b: a @ b),
    "persistent": Entry(persistent, lambda a, b: a @ b),
    "scaled": Entry(scaled, _scaled, 1e-3),
    "bulk": Entry(bulk, lambda a: 2 * a, 0.0),
    "attention": Entry(attention, _attention(False)),
    "attention_causal": Entry(lambda: attention(causal=True), _attention(True)),
}
