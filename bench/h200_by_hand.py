"""A decoding step of multi-head latent attention whose roles are written by hand, for ``h200.py``.

Two warpgroups take turns on the matrix unit. Each computes the scores of its own 64 of 128 keys,
their softmax beside the products of the other one, and its own half of the columns of the result:
of its own keys from registers, of the other's by the weights that it finds in shared memory. The
running maximum goes to and fro, and both scale their sums by both factors. The second one
multiplies the weights of the first before it computes its own, so that both halves of the first 64
keys are free early and come again while those of the others are in use. A third warpgroup brings
tiles, half a block of keys at a time, as soon as its last reader is done; scores begin with the
first 64 columns that are here.

The tiles leave 9 KiB: the rotary part of the queries is kept in registers, and its place holds the
weights of the second warpgroup.
"""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

import tilelang
import tilelang.language as T

FAST = {"tl.enable_fast_math": True}
ROWS = 64  # heads of a block, and keys of a warpgroup
FULL_ROW = T.GemmWarpPolicy.FullRow


@T.macro
def highest(S, top, before, factor, scale):
    """The new maximum of each row, and what that does to sums."""
    T.copy(top, before)
    T.reduce_max(S, top, dim=1, clear=False)
    for i in T.Parallel(ROWS):
        factor[i] = T.exp2((before[i] - top[i]) * scale)


@T.macro
def weigh(S, P, top, part, scale):
    """Weights and their sums."""
    for i, j in T.Parallel(ROWS, ROWS):
        S[i, j] = T.exp2((S[i, j] - top[i]) * scale)
    T.reduce_sum(S, part, dim=1)
    T.copy(S, P)


@T.macro
def scores(Q, K, S, full, turn, clear):
    """Scores by half of the columns, 64 of them as soon as they are here."""
    T.barrier_wait(full[0], turn)
    T.wgmma_gemm(Q[:, 0:64], K[:, 0:64], S, transpose_B=True, clear_accum=clear, policy=FULL_ROW)
    T.barrier_wait(full[1], turn)
    T.wgmma_gemm(Q[:, 64:128], K[:, 64:128], S, transpose_B=True, policy=FULL_ROW)
    T.barrier_wait(full[2], turn)
    T.wgmma_gemm(Q[:, 128:192], K[:, 128:192], S, transpose_B=True, policy=FULL_ROW)
    T.barrier_wait(full[3], turn)
    T.wgmma_gemm(Q[:, 192:256], K[:, 192:256], S, transpose_B=True, policy=FULL_ROW)


@T.macro
def fetch(KV, K, full, bid, row, at):
    """Half of the columns of 64 keys, from column ``at`` on; the last barrier lacks its arrival."""
    T.tma_copy(KV[bid, row : row + ROWS, at : at + 64], K[:, 0:64], barrier=full[0])
    T.barrier_arrive(full[0])
    T.tma_copy(KV[bid, row : row + ROWS, at + 64 : at + 128], K[:, 64:128], barrier=full[1])
    T.barrier_arrive(full[1])
    T.tma_copy(KV[bid, row : row + ROWS, at + 128 : at + 192], K[:, 128:192], barrier=full[2])
    T.barrier_arrive(full[2])
    T.tma_copy(KV[bid, row : row + ROWS, at + 192 : at + 256], K[:, 192:256], barrier=full[3])


def latent_program(batch: int, heads: int, length: int, dim: int, rope: int) -> Any:
    """The program; ``length`` is a multiple of 128, ``heads`` of 64, ``dim`` is 512."""
    half, pairs, scale = dim // 2, length // (2 * ROWS), 1.44269504 / math.sqrt(dim + rope)

    @T.macro
    def first(Q, K, P, state, bars, O, at):
        Ql, Qr, Qe = Q
        K0l, K0r, K0e, K1l = K
        P0, P1 = P
        tops, factors, others, totals = state
        Q_here, L0_full, R0_full, L0_empty, L1_empty, first_top, second_top, P0_full, P1_full = bars
        hid, bid = at
        T.set_max_nreg(232, 1)
        E = T.alloc_fragment((ROWS, rope), "float16")
        S = T.alloc_fragment((ROWS, ROWS), "float32")
        W = T.alloc_fragment((ROWS, ROWS), "float16")
        out = T.alloc_fragment((ROWS, half), "float32")
        top = T.alloc_fragment((ROWS,), "float32")
        before = T.alloc_fragment((ROWS,), "float32")
        factor = T.alloc_fragment((ROWS,), "float32")
        part = T.alloc_fragment((ROWS,), "float32")
        total = T.alloc_fragment((ROWS,), "float32")
        T.fill(out, 0)
        T.fill(total, 0)
        T.fill(top, -T.infinity("float32"))
        T.barrier_wait(Q_here, 0)
        T.copy(Qe, E)
        for k in T.serial(pairs):
            scores(Ql, K0l, S, L0_full, k & 1, True)
            T.wgmma_gemm(E, K0e, S, transpose_B=True, policy=FULL_ROW)
            scores(Qr, K0r, S, R0_full, k & 1, False)
            T.wait_wgmma(0)
            highest(S, top, before, factor, scale)
            T.copy(top, tops)
            T.copy(factor, factors)
            T.barrier_arrive(first_top)
            weigh(S, W, top, part, scale)
            for i in T.Parallel(ROWS):
                total[i] = total[i] * factor[i] + part[i]
            for i, j in T.Parallel(ROWS, half):
                out[i, j] *= factor[i]
            T.wgmma_gemm(W, K0l, out, policy=FULL_ROW)
            T.copy(S, P0)
            T.fence_proxy_async()
            T.barrier_arrive(P0_full)
            T.barrier_wait(second_top, k & 1)
            T.copy(others, factor)
            T.copy(tops, top)
            for i in T.Parallel(ROWS):
                total[i] *= factor[i]
            T.wait_wgmma(0)
            T.barrier_arrive(L0_empty)
            for i, j in T.Parallel(ROWS, half):
                out[i, j] *= factor[i]
            T.barrier_wait(P1_full, k & 1)
            T.wgmma_gemm(P1, K1l, out, policy=FULL_ROW)
            T.wait_wgmma(0)
            T.barrier_arrive(L1_empty)
        T.copy(total, totals)
        T.barrier_arrive(first_top)
        T.barrier_wait(second_top, pairs & 1)
        T.copy(others, part)
        for i in T.Parallel(ROWS):
            total[i] += part[i]
        for i, j in T.Parallel(ROWS, half):
            out[i, j] /= total[i]
        T.copy(out, Ql)
        T.copy(Ql, O[bid, hid * ROWS : (hid + 1) * ROWS, 0:half])

    @T.macro
    def second(Q, K, P, state, bars, O, at):
        Ql, Qr, Qe = Q
        K1l, K1r, K1e, K0r = K
        P0, P1 = P
        tops, factors, others, totals = state
        Q_here, L1_full, R1_full, R1_empty, R0_empty, first_top, second_top, P0_full, P1_full = bars
        hid, bid = at
        T.set_max_nreg(232, 1)
        E = T.alloc_fragment((ROWS, rope), "float16")
        S = T.alloc_fragment((ROWS, ROWS), "float32")
        W = T.alloc_fragment((ROWS, ROWS), "float16")
        out = T.alloc_fragment((ROWS, half), "float32")
        top = T.alloc_fragment((ROWS,), "float32")
        before = T.alloc_fragment((ROWS,), "float32")
        factor = T.alloc_fragment((ROWS,), "float32")
        given = T.alloc_fragment((ROWS,), "float32")
        part = T.alloc_fragment((ROWS,), "float32")
        total = T.alloc_fragment((ROWS,), "float32")
        T.fill(out, 0)
        T.fill(total, 0)
        T.barrier_wait(Q_here, 0)
        T.copy(Qe, E)
        for k in T.serial(pairs):
            scores(Ql, K1l, S, L1_full, k & 1, True)
            scores(Qr, K1r, S, R1_full, k & 1, False)
            T.wgmma_gemm(E, K1e, S, transpose_B=True, policy=FULL_ROW)
            T.wait_wgmma(0)
            T.barrier_wait(first_top, k & 1)
            T.copy(tops, top)
            T.copy(factors, given)
            highest(S, top, before, factor, scale)
            T.copy(top, tops)
            T.copy(factor, others)
            T.barrier_arrive(second_top)
            for i, j in T.Parallel(ROWS, half):
                out[i, j] *= given[i]
            T.barrier_wait(P0_full, k & 1)
            T.wgmma_gemm(P0, K0r, out, policy=FULL_ROW)
            weigh(S, W, top, part, scale)
            T.copy(W, P1)
            T.fence_proxy_async()
            T.barrier_arrive(P1_full)
            for i in T.Parallel(ROWS):
                total[i] = total[i] * given[i] * factor[i] + part[i]
            T.wait_wgmma(0)
            T.barrier_arrive(R0_empty)
            for i, j in T.Parallel(ROWS, half):
                out[i, j] *= factor[i]
            T.wgmma_gemm(W, K1r, out, policy=FULL_ROW)
            T.wait_wgmma(0)
            T.barrier_arrive(R1_empty)
        T.barrier_wait(first_top, pairs & 1)
        T.copy(totals, part)
        T.copy(total, others)
        T.barrier_arrive(second_top)
        for i in T.Parallel(ROWS):
            total[i] += part[i]
        for i, j in T.Parallel(ROWS, half):
            out[i, j] /= total[i]
        T.copy(out, Qr)
        T.copy(Qr, O[bid, hid * ROWS : (hid + 1) * ROWS, half:dim])

    @T.prim_func
    def kernel(
        Q: T.Tensor((batch, heads, dim), "float16"),
        Q_rope: T.Tensor((batch, heads, rope), "float16"),
        KV: T.Tensor((batch, length, dim), "float16"),
        K_rope: T.Tensor((batch, length, rope), "float16"),
        O: T.Tensor((batch, heads, dim), "float16"),
    ):
        with T.Kernel(heads // ROWS, batch, threads=384) as (hid, bid):
            Ql = T.alloc_shared((ROWS, half), "float16")
            Qr = T.alloc_shared((ROWS, half), "float16")
            Qe = T.alloc_shared((ROWS, rope), "float16")
            K0l = T.alloc_shared((ROWS, half), "float16")
            K0r = T.alloc_shared((ROWS, half), "float16")
            K0e = T.alloc_shared((ROWS, rope), "float16")
            K1l = T.alloc_shared((ROWS, half), "float16")
            K1r = T.alloc_shared((ROWS, half), "float16")
            K1e = T.alloc_shared((ROWS, rope), "float16")
            P0 = T.alloc_shared((ROWS, ROWS), "float16")
            tops = T.alloc_shared((ROWS,), "float32")
            factors = T.alloc_shared((ROWS,), "float32")
            others = T.alloc_shared((ROWS,), "float32")
            totals = T.alloc_shared((ROWS,), "float32")
            Q_here = T.alloc_barrier(128)
            L0_full = T.alloc_barrier([128] * 4)
            R0_full = T.alloc_barrier([128] * 4)
            L1_full = T.alloc_barrier([128] * 4)
            R1_full = T.alloc_barrier([128] * 4)
            L0_empty = T.alloc_barrier(128)
            R0_empty = T.alloc_barrier(128)
            L1_empty = T.alloc_barrier(128)
            R1_empty = T.alloc_barrier(128)
            first_top = T.alloc_barrier(128)
            second_top = T.alloc_barrier(128)
            P0_full = T.alloc_barrier(128)
            P1_full = T.alloc_barrier(128)
            tx = T.get_thread_binding()
            tiles, state, at = (Ql, Qr, Qe), (tops, factors, others, totals), (hid, bid)
            if tx < 128:
                first(
                    tiles, (K0l, K0r, K0e, K1l), (P0, Qe), state,
                    (Q_here, L0_full, R0_full, L0_empty, L1_empty, first_top, second_top, P0_full,
                     P1_full), O, at,
                )  # fmt: skip
            elif tx < 256:
                second(
                    tiles, (K1l, K1r, K1e, K0r), (P0, Qe), state,
                    (Q_here, L1_full, R1_full, R1_empty, R0_empty, first_top, second_top, P0_full,
                     P1_full), O, at,
                )  # fmt: skip
            else:
                T.set_max_nreg(40, 0)
                row = hid * ROWS
                T.tma_copy(Q[bid, row : row + ROWS, 0:half], Ql, barrier=Q_here)
                T.tma_copy(Q[bid, row : row + ROWS, half:dim], Qr, barrier=Q_here)
                T.tma_copy(Q_rope[bid, row : row + ROWS, :], Qe, barrier=Q_here)
                T.barrier_arrive(Q_here)
                for k in T.serial(pairs):
                    one, two = k * (2 * ROWS), k * (2 * ROWS) + ROWS
                    T.barrier_wait(L0_empty, (k & 1) ^ 1)
                    fetch(KV, K0l, L0_full, bid, one, 0)
                    T.tma_copy(K_rope[bid, one : one + ROWS, :], K0e, barrier=L0_full[3])
                    T.barrier_arrive(L0_full[3])
                    T.barrier_wait(R0_empty, (k & 1) ^ 1)
                    fetch(KV, K0r, R0_full, bid, one, half)
                    T.barrier_arrive(R0_full[3])
                    T.barrier_wait(L1_empty, (k & 1) ^ 1)
                    fetch(KV, K1l, L1_full, bid, two, 0)
                    T.barrier_arrive(L1_full[3])
                    T.barrier_wait(R1_empty, (k & 1) ^ 1)
                    fetch(KV, K1r, R1_full, bid, two, half)
                    T.tma_copy(K_rope[bid, two : two + ROWS, :], K1e, barrier=R1_full[3])
                    T.barrier_arrive(R1_full[3])

    return kernel


def latent(batch: int, heads: int, length: int, dim: int, rope: int) -> Any:
    """The compiled kernel."""
    program = latent_program(batch, heads, length, dim, rope)
    return tilelang.compile(program, out_idx=-1, target="cuda", pass_configs=FAST)
