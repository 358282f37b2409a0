"""Programs whose speed depends on how threads share out accesses of global memory: partners half a
row away, rows of odd lengths, tensors that lie across a loop, rows that an index tensor names.

Each entry has arguments and what plain numpy makes of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from tensor_types import BF16, F16, F32, I32, I64

import tilelang.language as T


@dataclass(frozen=True)
class Case:
    """A program, its arguments, and the last of them afterwards."""

    func: Any
    given: tuple[Any, ...]
    wanted: Any


CASES: dict[str, Callable[[], Case]] = {}


def case(make: Callable[[], Case]) -> Callable[[], Case]:
    CASES[make.__name__] = make
    return make


def numbers(*shape: int, dtype: Any = np.float16, seed: int = 0) -> Any:
    """Small integers, of which sums and products are exact."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)


# -- partners half a row away -------------------------------------------------------------------
def _turned(x: Any, c: Any, s: Any) -> Any:
    half = x.shape[-1] // 2
    wide = x.astype(np.float32)
    partner = np.concatenate([-wide[..., half:], wide[..., :half]], -1)
    c, s = (np.concatenate([a, a], -1).astype(np.float32) for a in (c, s))
    return (wide * c + partner * s).astype(x.dtype)


@case
def partner_by_choice_in_one_loop() -> Case:
    x, c, s = numbers(32, 4, 64), numbers(32, 32, seed=1), numbers(32, 32, seed=2)

    @T.prim_func
    def main(X: F16[32, 4, 64], C: F16[32, 32], S: F16[32, 32], Y: F16[32, 4, 64]):
        with T.Kernel(8, threads=128) as b:
            for t in T.Parallel(1024):
                at = b * 1024 + t
                d = at % 64
                h = at // 64 % 4
                n = at // 256
                other = T.if_then_else(d < 32, d + 32, d - 32)
                left = T.cast(X[n, h, d], "float32") * T.cast(C[n, d % 32], "float32")
                y = T.cast(X[n, h, other], "float32")
                y = T.if_then_else(d < 32, -y, y)
                Y[n, h, d] = T.cast(left + y * T.cast(S[n, d % 32], "float32"), "float16")

    wanted = _turned(x, c[:, None], s[:, None])
    return Case(main, (x, c, s, np.zeros_like(x)), wanted)


@case
def partner_by_remainder_in_two_loops() -> Case:
    bf16 = ml_dtypes.bfloat16
    x, c, s = (
        numbers(64, 128, dtype=bf16),
        numbers(64, 64, dtype=bf16),
        numbers(64, 64, dtype=bf16, seed=3),
    )

    @T.prim_func
    def main(X: BF16[64, 128], C: BF16[64, 64], S: BF16[64, 64], Y: BF16[64, 128]):
        with T.Kernel(8, threads=128) as b:
            for i, d in T.Parallel(8, 128):
                y = T.cast(X[b * 8 + i, (d + 64) % 128], "float32")
                turned = T.if_then_else(d // 64 == 0, -y, y) * T.cast(
                    S[b * 8 + i, d % 64], "float32"
                )
                kept = T.cast(X[b * 8 + i, d], "float32") * T.cast(C[b * 8 + i, d % 64], "float32")
                Y[b * 8 + i, d] = T.cast(kept + turned, "bfloat16")

    return Case(main, (x, c, s, np.zeros_like(x)), _turned(x, c, s))


@case
def partner_by_a_bit_and_rows_by_position() -> Case:
    rows = T.dynamic("rows")
    x, c, s = (
        numbers(40, 2, 64, dtype=np.float32),
        numbers(50, 32, dtype=np.float32, seed=1),
        numbers(50, 32, dtype=np.float32, seed=2),
    )
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

    wanted = _turned(x, c[p][:, None], s[p][:, None])
    return Case(main, (x, p, c, s, np.zeros_like(x)), wanted)


@case
def partner_next_to_it() -> Case:
    x = numbers(16, 256)

    @T.prim_func
    def main(X: F16[16, 256], Y: F16[16, 256]):
        with T.Kernel(16, threads=64) as b:
            for d in T.Parallel(256):
                Y[b, d] = T.if_then_else(d % 2 == 0, -X[b, d + 1], X[b, d - 1])

    wanted = np.stack([-x[:, 1::2], x[:, ::2]], -1).reshape(x.shape)
    return Case(main, (x, np.zeros_like(x)), wanted)


@case
def halves_of_a_row_gated() -> Case:
    x = numbers(16, 512, dtype=np.float32)

    @T.prim_func
    def main(X: F32[16, 512], Y: F32[16, 256]):
        with T.Kernel(4, threads=128) as b:
            for t in T.Parallel(1024):
                i = b * 4 + (t >> 8)
                j = t & 255
                Y[i, j] = X[i, j] * X[i, j + 256]

    return Case(main, (x, np.zeros((16, 256), np.float32)), x[:, :256] * x[:, 256:])


@case
def the_last_row_repeats() -> Case:
    x = numbers(100, 64)

    @T.prim_func
    def main(X: F16[100, 64], Y: F16[128, 64]):
        with T.Kernel(4, threads=64) as b:
            for i, j in T.Parallel(32, 64):
                Y[b * 32 + i, j] = X[T.min(b * 32 + i, 99), j]

    wanted = x[np.minimum(np.arange(128), 99)]
    return Case(main, (x, np.zeros((128, 64), np.float16)), wanted)


# -- no wide access ---------------------------------------------------------------------------------
@case
def rows_of_odd_length() -> Case:
    x = numbers(8, 1025)

    @T.prim_func
    def main(X: F16[8, 1025], Y: F16[8, 1025]):
        with T.Kernel(8, threads=128) as b:
            for j in T.Parallel(1025):
                Y[b, j] = X[b, j] + X[b, j]

    return Case(main, (x, np.zeros_like(x)), x + x)


@case
def odd_rows_into_a_tile() -> Case:
    x = numbers(64, 257)

    @T.prim_func
    def main(X: F16[64, 257], Y: F16[64, 256]):
        with T.Kernel(2, threads=128) as b:
            tile = T.alloc_shared((64, 128), "float16")
            for i, j in T.Parallel(64, 128):
                tile[i, j] = X[i, b * 128 + j + 1]
            T.copy(tile, Y[0:64, b * 128 : b * 128 + 128])

    return Case(main, (x, np.zeros((64, 256), np.float16)), x[:, 1:])


@case
def a_tensor_across_the_loop() -> Case:
    x = numbers(128, 64, dtype=np.float32)

    @T.prim_func
    def main(X: F32[128, 64], Y: F32[128, 64]):
        with T.Kernel(4, threads=128) as b:
            for i, j in T.Parallel(64, 32):
                Y[b * 32 + j, i] = X[b * 32 + j, i] * 2.0

    return Case(main, (x, np.zeros_like(x)), x * 2)


@case
def a_transpose_in_place_of_a_copy() -> Case:
    x = numbers(64, 128, dtype=np.float32)

    @T.prim_func
    def main(X: F32[64, 128], Y: F32[128, 64]):
        with T.Kernel(4, threads=128) as b:
            for i, j in T.Parallel(32, 64):
                Y[b % 2 * 64 + j, b // 2 * 32 + i] = X[b // 2 * 32 + i, b % 2 * 64 + j]

    return Case(main, (x, np.zeros((128, 64), np.float32)), x.T)


@case
def a_channel_of_pixels() -> Case:
    x = numbers(16, 128, 3)

    @T.prim_func
    def main(X: F16[16, 128, 3], Y: F16[3, 16, 128]):
        with T.Kernel(16, threads=128) as b:
            for c, j in T.Parallel(3, 128):
                Y[c, b, j] = X[b, j, c]

    return Case(main, (x, np.zeros((3, 16, 128), np.float16)), x.transpose(2, 0, 1))


# -- rows that an index tensor names ------------------------------------------------------------------
def _named(seed: int, count: int, rows: int, low: int = 0) -> Any:
    return np.random.default_rng(seed).integers(low, rows, count).astype(np.int32)


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
    return Case(main, (x, i, np.zeros_like(wanted)), wanted)


@case
def named_rows_of_dynamic_tensors() -> Case:
    rows, count = T.dynamic("rows"), T.dynamic("count")
    x, i = numbers(30, 64, dtype=np.float32), _named(2, 50, 30)

    @T.prim_func
    def main(X: F32[rows, 64], I: I32[count], Y: F32[count, 64]):
        with T.Kernel(T.ceildiv(count, 8), threads=128) as b:
            for r, j in T.Parallel(8, 64):
                if b * 8 + r < count:
                    Y[b * 8 + r, j] = X[I[b * 8 + r], j]

    return Case(main, (x, i, np.zeros((50, 64), np.float32)), x[i])


@case
def named_rows_added_to() -> Case:
    x, y, i = (
        numbers(64, 128),
        numbers(96, 128, seed=4),
        np.random.default_rng(5).permutation(96)[:64],
    )
    i = i.astype(np.int64)

    @T.prim_func
    def main(X: F16[64, 128], I: I64[64], Y: F16[96, 128]):
        with T.Kernel(8, threads=128) as b:
            for r, j in T.Parallel(8, 128):
                Y[I[b * 8 + r], j] = Y[I[b * 8 + r], j] + X[b * 8 + r, j]

    wanted = y.copy()
    wanted[i] += x
    return Case(main, (x, i, y), wanted)


@case
def pages_of_a_table() -> Case:
    x, table = numbers(16 * 16, 64), _named(6, 4 * 4, 16).reshape(4, 4)
    lens = np.array([5, 64, 33, 17], np.int32)

    @T.prim_func
    def main(X: F16[256, 64], Table: I32[4, 4], Len: I32[4], Y: F16[4, 64, 64]):
        with T.Kernel(4, threads=128) as b:
            k = T.alloc_shared((64, 64), "float16")
            n = Len[b]
            for i, d in T.Parallel(64, 64):
                safe = T.if_then_else(i < n, i, 0)
                row = Table[b, safe // 16] * 16 + safe % 16
                if i < n:
                    k[i, d] = X[row, d]
                else:
                    k[i, d] = T.cast(0, "float16")
            T.copy(k, Y[b, 0:64, 0:64])

    at = np.arange(64)
    rows = table[:, at // 16] * 16 + at % 16
    wanted = np.where((at < lens[:, None])[..., None], x[rows], np.float16(0))
    return Case(main, (x, table, lens, np.zeros_like(wanted)), wanted)


@case
def experts_rows_scaled() -> Case:
    x, i, w = (
        numbers(32, 64, dtype=np.float32),
        _named(7, 64, 32 * 2),
        numbers(64, dtype=np.float32),
    )

    @T.prim_func
    def main(X: F32[32, 64], I: I32[64], W: F32[64], Y: F32[64, 64]):
        with T.Kernel(4, threads=256) as b:
            for t in T.Parallel(1024):
                r = b * 16 + t // 64
                Y[r, t % 64] = X[I[r] // 2, t % 64] * W[r]

    return Case(main, (x, i, w, np.zeros((64, 64), np.float32)), x[i // 2] * w[:, None])
