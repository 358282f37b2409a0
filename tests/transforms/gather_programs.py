"""Pipelined loops whose tiles are gathered: rows of global memory that an index tensor names.

Each entry has arguments and what plain numpy makes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from memory_programs import Case, numbers
from tensor_types import BF16, F16, F32, I32, I64

import tilelang.language as T

CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def _named(seed: int, shape: tuple[int, ...], rows: int, low: int = 0) -> Any:
    return np.random.default_rng(seed).integers(low, rows, shape).astype(np.int32)


def _product(a: Any, b: Any) -> Any:
    return a.astype(np.float32) @ np.swapaxes(b.astype(np.float32), -1, -2)


@case
def products_with_named_rows() -> Case:
    q, kv, i = numbers(2, 64, 64), numbers(96, 64, seed=1), _named(2, (2, 256), 96)

    @T.prim_func
    def main(Q: F16[2, 64, 64], KV: F16[96, 64], I: I32[2, 256], S: F32[2, 64, 256]):
        with T.Kernel(2, threads=128) as b:
            q = T.alloc_shared((64, 64), "float16")
            k = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[b, 0:64, 0:64], q)
            for t in T.Pipelined(4, num_stages=2):
                for i, d in T.Parallel(64, 64):
                    k[i, d] = KV[I[b, t * 64 + i], d]
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(s, S[b, 0:64, t * 64 : t * 64 + 64])

    return Case(main, (q, kv, i, np.zeros((2, 64, 256), np.float32)), _product(q, kv[i]))


@case
def rows_that_may_be_none() -> Case:
    bf16 = ml_dtypes.bfloat16
    q, kv = numbers(64, 128, dtype=bf16), numbers(80, 128, dtype=bf16, seed=1)
    i = _named(3, (192,), 80, low=-20)

    @T.prim_func
    def main(Q: BF16[64, 128], KV: BF16[80, 128], I: I32[192], S: F32[64, 192]):
        with T.Kernel(1, threads=128):
            q = T.alloc_shared((64, 128), "bfloat16")
            k = T.alloc_shared((32, 128), "bfloat16")
            s = T.alloc_fragment((64, 32), "float32")
            T.copy(Q, q)
            for t in T.Pipelined(6, num_stages=3):
                for i, d in T.Parallel(32, 128):
                    row = I[t * 32 + i]
                    k[i, d] = T.if_then_else(row >= 0, KV[row, d], T.cast(0, "bfloat16"))
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(s, S[0:64, t * 32 : t * 32 + 32])

    rows = np.where((i >= 0)[:, None], kv[np.maximum(i, 0)], bf16(0))
    return Case(main, (q, kv, i, np.zeros((64, 192), np.float32)), _product(q, rows))


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

    at = np.arange(128)
    rows = kv[table[:, at // 16] * 16 + at % 16]
    rows = np.where((at < lens[:, None])[..., None], rows, np.float16(0))
    return Case(main, (q, kv, table, lens, np.zeros((2, 64, 128), np.float32)), _product(q, rows))


@case
def one_loop_for_a_tile() -> Case:
    kv, i = numbers(50, 32, dtype=np.float32), _named(5, (160,), 50)

    @T.prim_func
    def main(KV: F32[50, 32], I: I32[160], Y: F32[32]):
        with T.Kernel(1, threads=64):
            rows = T.alloc_shared((16, 32), "float32")
            x = T.alloc_fragment((16, 32), "float32")
            part = T.alloc_fragment((32,), "float32")
            total = T.alloc_fragment((32,), "float32")
            T.clear(total)
            for t in T.Pipelined(10, num_stages=2):
                for n in T.Parallel(512):
                    rows[n // 32, n % 32] = KV[I[t * 16 + n // 32], n % 32]
                T.copy(rows, x)
                T.reduce_sum(x, part, dim=0)
                for j in T.Parallel(32):
                    total[j] = total[j] + part[j]
            T.copy(total, Y)

    return Case(main, (kv, i, np.zeros(32, np.float32)), kv[i].sum(0))


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

    s = np.clip(_product(q, k[i]), -4, 4)
    return Case(main, (q, k, v, i, np.zeros((64, 64), np.float32)), s @ v[i].astype(np.float32))


@case
def rows_beside_a_box() -> Case:
    a, kv, i = numbers(64, 256), numbers(300, 64, seed=1), _named(7, (256,), 300)

    @T.prim_func
    def main(A: F16[64, 256], B: F16[300, 64], I: I64[256], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, 64), "float16")
            w = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for t in T.Pipelined(4, num_stages=3):
                T.copy(A[0:64, t * 64 : t * 64 + 64], x)
                for i, j in T.Parallel(64, 64):
                    w[i, j] = B[I[t * 64 + i], j]
                T.gemm(x, w, c)
            T.copy(c, C)

    wanted = a.astype(np.float32) @ kv[i].astype(np.float32)
    return Case(main, (a, kv, i.astype(np.int64), np.zeros((64, 64), np.float32)), wanted)


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

    return Case(main, (x, i, np.zeros_like(x)), x[i])


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

    wanted = x.copy()
    for t in range(4):
        wanted[t * 16 : t * 16 + 16] = wanted[i[t * 16 : t * 16 + 16]] + 1
    return Case(main, (i, x), wanted)
