"""Programs whose speed depends on how threads divide accesses of global memory: partners half a
row away, rows of odd lengths, tensors across a loop, rows that an index tensor names, and
what a program says about its indices.

Each entry has a program and its arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tensor_types import BF16, F16, F32, I32, I64, U8

import tilelang.language as T


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and the last of them afterwards if the interpreter need not say it."""

    func: Any
    given: tuple[Any, ...]
    wanted: Any = None


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def numbers(*shape: int, dtype: Any = np.float16, seed: int = 0) -> Any:
    """Small integers, of which sums and products are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


# -- partners half a row away -------------------------------------------------------------------
@case
def partner_by_a_bit_and_rows_by_position() -> Case:
    rows = T.dynamic("rows")
    x = numbers(40, 2, 64, dtype=np.float32)
    c, s = (numbers(50, 32, dtype=np.float32, seed=k) for k in (1, 2))
    p = np.random.default_rng(3).integers(0, 50, 40).astype(np.int32)

    @T.prim_func
    def main(
        X: F32[rows, 2, 64], P: I32[rows], C: F32[50, 32], S: F32[50, 32], Y: F32[rows, 2, 64],
    ):  # fmt: skip
        with T.Kernel(rows, threads=32) as n:
            for h, d in T.Parallel(2, 64):
                at = P[n]
                y = X[n, h, d ^ 32]
                if (d & 32) == 0:
                    Y[n, h, d] = X[n, h, d] * C[at, d & 31] - y * S[at, d & 31]
                else:
                    Y[n, h, d] = X[n, h, d] * C[at, d & 31] + y * S[at, d & 31]

    return Case(main, (x, p, c, s, np.zeros_like(x)))


@case
def the_last_row_repeats() -> Case:
    x = numbers(100, 64)

    @T.prim_func
    def main(X: F16[100, 64], Y: F16[128, 64]):
        with T.Kernel(4, threads=64) as b:
            for i, j in T.Parallel(32, 64):
                Y[b * 32 + i, j] = X[T.min(b * 32 + i, 99), j]

    return Case(main, (x, np.zeros((128, 64), np.float16)))


# -- no wide access ---------------------------------------------------------------------------------
@case
def rows_of_odd_length() -> Case:
    x = numbers(8, 1025)

    @T.prim_func
    def main(X: F16[8, 1025], Y: F16[8, 1025]):
        with T.Kernel(8, threads=128) as b:
            for j in T.Parallel(1025):
                Y[b, j] = X[b, j] + X[b, j]

    return Case(main, (x, np.zeros_like(x)))


@case
def a_transpose_in_place_of_a_copy() -> Case:
    x = numbers(64, 128, dtype=np.float32)

    @T.prim_func
    def main(X: F32[64, 128], Y: F32[128, 64]):
        with T.Kernel(4, threads=128) as b:
            for i, j in T.Parallel(32, 64):
                Y[b % 2 * 64 + j, b // 2 * 32 + i] = X[b // 2 * 32 + i, b % 2 * 64 + j]

    return Case(main, (x, np.zeros((128, 64), np.float32)))


# -- rows that an index tensor names ------------------------------------------------------------------
def _named(seed: int, shape: Any, rows: int, low: int = 0) -> Any:
    return np.random.default_rng(seed).integers(low, rows, shape).astype(np.int32)


@case
def named_rows_with_none() -> Case:
    x, i = numbers(96, 256, dtype=ml_dtypes.bfloat16), _named(1, 64, 96, low=-8)

    @T.prim_func
    def main(X: BF16[96, 256], I: I32[64], Y: BF16[64, 256]):
        with T.Kernel(8, threads=32) as b:
            for r in T.serial(8):
                for j in T.Parallel(256):
                    row = I[b * 8 + r]
                    inside = (row >= 0) & (row < 96)
                    Y[b * 8 + r, j] = T.if_then_else(inside, X[row, j], T.cast(0, "bfloat16"))

    wanted = np.where((i >= 0)[:, None], x[np.maximum(i, 0)], ml_dtypes.bfloat16(0))
    return Case(main, (x, i, np.zeros_like(wanted)))


@case
def named_rows_added_to() -> Case:
    x, y = numbers(64, 128), numbers(96, 128, seed=4)
    i = np.random.default_rng(5).permutation(96)[:64].astype(np.int64)

    @T.prim_func
    def main(X: F16[64, 128], I: I64[64], Y: F16[96, 128]):
        with T.Kernel(8, threads=128) as b:
            for r, j in T.Parallel(8, 128):
                Y[I[b * 8 + r], j] = Y[I[b * 8 + r], j] + X[b * 8 + r, j]

    return Case(main, (x, i, y))


# -- what a program says about its indices -----------------------------------------------------------
@case
def a_flat_index_of_chained_names_under_if() -> Case:
    @T.prim_func
    def f(A: F32[64 * 96], B: F32[64 * 96]):
        with T.Kernel(3, 16, threads=32) as (bx, by):
            start = by * 4
            for i, j in T.Parallel(4, 32):
                row = start + i
                at = row * 96 + bx * 32 + j
                if row < 64 and not (at >= 64 * 96):
                    B[at] = A[at] + 1.0

    a = numbers(64 * 96, dtype=np.float32)
    return Case(f, (a, np.zeros_like(a)))


@case
def edges_that_eight_lanes_agree_on() -> Case:
    @T.prim_func
    def f(A: BF16[20, 104], B: BF16[32, 128]):
        with T.Kernel(2, 4, threads=64) as (bx, by):
            m0, n0 = by * 8, bx * 64
            for i, j in T.Parallel(8, 64):
                inside = (m0 + i < 20) & (n0 + j < 104)
                B[m0 + i, n0 + j] = T.if_then_else(inside, A[m0 + i, n0 + j], T.cast(0, "bfloat16"))

    a = numbers(20, 104, dtype=ml_dtypes.bfloat16)
    b = np.zeros((32, 128), ml_dtypes.bfloat16)
    b[:20, :104] = a
    return Case(f, (a, np.ones_like(b)))


@case
def a_tail_of_a_dynamic_length() -> Case:
    n = T.dynamic("n")

    @T.prim_func
    def f(A: F32[n], B: F32[n]):
        with T.Kernel(T.ceildiv(n, 256), threads=64) as b:
            for i in T.Parallel(256):
                if b * 256 + i < n:
                    B[b * 256 + i] = A[b * 256 + i] * 2.0

    a = numbers(1001, dtype=np.float32)
    return Case(f, (a, np.zeros_like(a)))


@case
def a_length_that_is_loaded() -> Case:
    @T.prim_func
    def f(A: F16[16, 256], L: I32[16], B: F16[16, 256]):
        with T.Kernel(16, threads=32) as b:
            n = L[b]
            for j in T.Parallel(256):
                B[b, j] = T.if_then_else(j < n, A[b, j], T.cast(-1, "float16"))

    a, n = numbers(16, 256), _named(1, 16, 260)
    return Case(f, (a, n, np.zeros_like(a)))


@case
def four_lanes_of_a_sum_at_an_edge() -> Case:
    @T.prim_func
    def f(A: F32[16, 100], B: F32[16, 128], C: F32[16, 128]):
        with T.Kernel(16, threads=32) as b:
            for j in T.Parallel(128):
                C[b, j] = T.if_then_else(j < 100, A[b, j], -1.0) + B[b, j]

    a, b = numbers(16, 100, dtype=np.float32), numbers(16, 128, dtype=np.float32, seed=1)
    return Case(f, (a, b, np.zeros_like(b)))


# -- pipelined loops that gather their tiles ---------------------------------------------------------
@case
def pages_under_a_branch() -> Case:
    q, kv, table = numbers(2, 64, 64), numbers(8 * 16, 64, seed=1), _named(4, (2, 8), 8)
    lens = np.array([100, 37], np.int32)

    @T.prim_func
    def main(
        Q: F16[2, 64, 64], KV: F16[128, 64], Table: I32[2, 8], Len: I32[2], S: F32[2, 64, 128],
    ):  # fmt: skip
        with T.Kernel(2, threads=128) as b:
            q = T.alloc_shared((64, 64), "float16")
            k = T.alloc_shared((32, 64), "float16")
            s = T.alloc_fragment((64, 32), "float32")
            T.copy(Q[b, 0:64, 0:64], q)
            n = Len[b]
            for t in T.Pipelined(4, num_stages=2):
                for i, d in T.Parallel(32, 64):
                    at = t * 32 + i
                    if at < n:
                        k[i, d] = KV[Table[b, at // 16] * 16 + at % 16, d]
                    else:
                        k[i, d] = T.cast(0, "float16")
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(s, S[b, 0:64, t * 32 : t * 32 + 32])

    return Case(main, (q, kv, table, lens, np.zeros((2, 64, 128), np.float32)))


@case
def named_rows_beside_their_mask() -> Case:
    q, kv, i = numbers(64, 64), numbers(96, 64, seed=1), _named(6, (256,), 96, low=-30)

    @T.prim_func
    def main(Q: F16[64, 64], KV: F16[96, 64], I: I32[256], S: F32[64, 256]):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 64), "float16")
            k = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            mask = T.alloc_fragment((64,), "bool")
            T.copy(Q, q)
            for t in T.Pipelined(4, num_stages=2):
                for i in T.Parallel(64):
                    row = I[t * 64 + i]
                    mask[i] = row >= 0
                for i, d in T.Parallel(64, 64):
                    row = I[t * 64 + i]
                    k[i, d] = KV[row, d]
                for h, i in T.Parallel(64, 64):
                    s[h, i] = T.if_then_else(mask[i], 0, -1000)
                T.gemm(q, k, s, transpose_B=True)
                T.copy(s, S[0:64, t * 64 : t * 64 + 64])

    return Case(main, (q, kv, i, np.zeros((64, 256), np.float32)))


@case
def keys_and_values_of_dynamic_tensors() -> Case:
    rows, count = T.dynamic("rows"), T.dynamic("count")
    q, k, v = numbers(64, 64), numbers(70, 64, seed=1), numbers(70, 64, seed=2)
    i = _named(6, (150,), 70)

    @T.prim_func
    def main(Q: F16[64, 64], K: F16[rows, 64], V: F16[rows, 64], I: I32[count], O: F32[64, 64]):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 64), "float16")
            ks = T.alloc_shared((32, 64), "float16")
            vs = T.alloc_shared((32, 64), "float16")
            s = T.alloc_fragment((64, 32), "float32")
            p = T.alloc_shared((64, 32), "float16")
            o = T.alloc_fragment((64, 64), "float32")
            T.copy(Q, q)
            T.clear(o)
            for t in T.Pipelined(T.ceildiv(count, 32), num_stages=2):
                for i, d in T.Parallel(32, 64):
                    ks[i, d] = T.if_then_else(
                        t * 32 + i < count, K[I[t * 32 + i], d], T.cast(0, "float16")
                    )
                for i, d in T.Parallel(32, 64):
                    vs[i, d] = T.if_then_else(
                        t * 32 + i < count, V[I[t * 32 + i], d], T.cast(0, "float16")
                    )
                T.gemm(q, ks, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(64, 32):
                    s[i, j] = T.max(T.min(s[i, j], 4.0), -4.0)
                T.copy(s, p)
                T.gemm(p, vs, o)
            T.copy(o, O)

    return Case(main, (q, k, v, i, np.zeros((64, 64), np.float32)))


@case
def indices_in_registers() -> Case:
    x, i = numbers(64, 64), _named(8, (64,), 64)

    @T.prim_func
    def main(X: F16[64, 64], I: I32[64], Y: F16[64, 64]):
        with T.Kernel(1, threads=128):
            at = T.alloc_fragment((64,), "int32")
            T.copy(I, at)
            for i, j in T.Parallel(64, 64):
                Y[i, j] = X[at[i], j]

    return Case(main, (x, i, np.zeros_like(x)))


@case
def a_loop_that_writes_the_rows() -> Case:
    x, i = numbers(64, 32, dtype=np.float32), _named(9, (64,), 64)

    @T.prim_func
    def main(I: I32[64], X: F32[64, 32]):
        with T.Kernel(1, threads=64):
            rows = T.alloc_shared((16, 32), "float32")
            for t in T.Pipelined(4, num_stages=2):
                for i, j in T.Parallel(16, 32):
                    rows[i, j] = X[I[t * 16 + i], j]
                for i, j in T.Parallel(16, 32):
                    X[t * 16 + i, j] = rows[i, j] + 1.0

    return Case(main, (i, x))


@case
def loads_inside_of_indices_and_conditions() -> Case:
    q = np.random.default_rng(10).integers(0, 256, (8, 1000)).astype(np.uint8)

    @T.prim_func
    def main(Q: U8[8, 1000], B: F16[1024], C: F16[1000], X: F16[8, 1024], Y: F16[8, 1000]):
        with T.Kernel(8, threads=128) as r:
            for j in T.Parallel(1024):
                looked_up, other = B[(Q[r, j // 2] >> (j % 2 * 4)) & 15], (j + 512) % 1024
                X[r, j] = looked_up * T.if_then_else(j < 512, -B[other], B[other])
            for j in T.Parallel(1024):
                if j < 1000:
                    Y[r, j] = T.if_then_else(Q[r, j] > 99 and j >= r, C[j] + C[j], T.float16(0))

    outputs = np.zeros((8, 1024), np.float16), np.zeros((8, 1000), np.float16)
    return Case(main, (q, numbers(1024), numbers(1000), *outputs))
