"""Programs whose lanes are no plain vector: they differ in a condition, own variables, work in
place, or come in an order that matters.

Each entry has a program and its arguments. The interpreter says what they compute.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from memory_programs import numbers

import tilelang.language as T

BF16 = ml_dtypes.bfloat16
Case = tuple[Any, tuple[Any, ...]]  # a program and its arguments


def masked(kind: str, rows: int, columns: int, dtype: Any) -> Case:
    """Conditions in which the lanes of a vector differ."""
    name = np.dtype(dtype).name
    x, z = (numbers(rows, columns, dtype=dtype, seed=k) for k in (0, 1))
    tensor, many = T.Tensor((rows, columns), name), T.dynamic("many")
    row = T.Tensor((many,), name)

    @T.prim_func
    def causal(X: tensor, Z: tensor, Y: tensor):
        with T.Kernel(T.ceildiv(rows, 4), threads=32) as b:
            for r, j in T.Parallel(4, columns):
                i = b * 4 + r
                Y[i, j] = T.if_then_else(j <= i, X[i, j] + Z[i, j], T.cast(3, name))

    @T.prim_func
    def band(X: tensor, Z: tensor, Y: tensor):
        with T.Kernel(rows, threads=32) as i:
            for j in T.Parallel(columns):
                if j > i - 3 and j < i + 9:
                    Y[i, j] = X[i, j]
                else:
                    Y[i, j] = Z[i, j]

    @T.prim_func
    def of_any_size(X: row, Z: row, Y: row):
        with T.Kernel(T.ceildiv(many, 128), threads=16) as b:
            for j in T.Parallel(128):
                Y[b * 128 + j] = X[b * 128 + j] - Z[b * 128 + j]

    ways = {f.name: f for f in (causal, band, of_any_size)}
    if kind == "of_any_size":
        x, z = x.reshape(-1), z.reshape(-1)
    return ways[kind], (x, z, np.zeros_like(x))


def owned(kind: str, rows: int, columns: int, dtype: Any) -> Case:
    """Lanes with variables of their own, or that write what they have read."""
    name, half, shape = np.dtype(dtype).name, columns // 2, (rows, columns)
    x, z = (numbers(rows, columns, dtype=dtype, seed=k) for k in (0, 1))

    @T.prim_func
    def halves_in_place(X: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(half):
                a = Y[i, j]
                b = Y[i, j + half]
                Y[i, j] = a * X[i, j] - b
                Y[i, j + half] = b * X[i, j] + a

    @T.prim_func
    def sum_is_kept(X: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=32) as i:
            kept = T.alloc_fragment((columns,), name)
            for j in T.Parallel(columns):
                t = X[i, j] + Y[i, j]
                Y[i, j] = t
                kept[j] = t * t
            for j in T.Parallel(columns):
                Y[i, j] = Y[i, j] + kept[j]

    @T.prim_func
    def taps_in_turn(
        X: T.Tensor(shape, name), W: T.Tensor((columns, 4), name), Y: T.Tensor(shape, name)
    ):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(columns):
                total = T.alloc_var("float32")
                total = 0.0
                for k in T.serial(4):
                    if i + k >= 3:
                        total += T.cast(X[i + k - 3, j], "float32") * T.cast(W[j, k], "float32")
                Y[i, j] = T.cast(total, name)

    @T.prim_func
    def more_for_later_lanes(X: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(columns):
                total = T.alloc_var("float32", init=1.0)
                for k in T.serial(j % 3):
                    total += T.cast(X[(i + k) % rows, j], "float32")
                Y[i, j] = T.cast(total, name)

    @T.prim_func
    def overlapping(X: T.Tensor(shape, name), Y: T.Tensor((rows, columns + 4), name)):
        with T.Kernel(rows, threads=1) as i:
            for j in T.vectorized(columns):
                for k in T.serial(4):
                    Y[i, j + k] = X[i, j] + T.cast(k, name)

    given = {
        "taps_in_turn": (x, numbers(columns, 4, dtype=dtype, seed=2), np.zeros_like(x)),
        "overlapping": (x, np.zeros((rows, columns + 4), dtype)),
    }
    ways = {f.name: f for f in (halves_in_place, sum_is_kept, taps_in_turn,
                                more_for_later_lanes, overlapping)}  # fmt: skip
    return ways[kind], given.get(kind, (x, z))


def ordered(kind: str, rows: int, columns: int, dtype: Any) -> Case:
    """A thread a row, whose elements come one after the other, and sums in memory."""
    name, shape = np.dtype(dtype).name, (rows, columns)
    x = numbers(rows, columns, dtype=dtype)

    @T.prim_func
    def two_largest(X: T.Tensor(shape, name), Y: T.Tensor((rows, 2), "float32")):
        with T.Kernel(T.ceildiv(rows, 32), threads=32) as b:
            for r in T.Parallel(32):
                best = T.alloc_var("float32", init=-100.0)
                second = T.alloc_var("float32", init=-100.0)
                for e in T.serial(columns):
                    v = T.cast(X[b * 32 + r, e], "float32")
                    if v > best:
                        second = best
                        best = v
                    elif v > second:
                        second = v
                Y[b * 32 + r, 0] = best
                Y[b * 32 + r, 1] = second

    @T.prim_func
    def until_some(X: T.Tensor(shape, name), Y: T.Tensor((rows,), "int32")):
        with T.Kernel(T.ceildiv(rows, 32), threads=32) as b:
            for r in T.Parallel(32):
                found = T.alloc_var("int32", init=0)
                for e in T.serial(columns):
                    if T.cast(X[b * 32 + r, e], "float32") > 3.0:
                        break
                    found += 1
                Y[b * 32 + r] = found

    @T.prim_func
    def counts(X: T.Tensor(shape, name), Y: T.Tensor((16,), "int32")):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(columns):
                T.atomic_add(Y[T.cast(X[i, j], "int32") + 8], 1)

    @T.prim_func
    def halves_in_turn(X: T.Tensor(shape, name), Y: T.Tensor(shape, "float32")):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(columns // 8):
                scale = T.exp2(T.cast(i % 2, "float32"))
                for e in T.serial(8):
                    Y[i, j * 8 + e] = T.cast(X[i, j * 8 + (e + 4) % 8], "float32") * scale

    @T.prim_func
    def from_before(X: T.Tensor(shape, name), Y: T.Tensor(shape, "float32")):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(columns // 8):
                Y[i, j * 8] = T.cast(X[i, j * 8], "float32")
                for e in T.serial(7):
                    Y[i, j * 8 + e + 1] = Y[i, j * 8 + e] + T.cast(X[i, j * 8 + e + 1], "float32")

    result = {
        "two_largest": np.zeros((rows, 2), "float32"), "until_some": np.zeros(rows, "int32"),
        "counts": np.zeros(16, "int32"),
    }.get(kind, np.zeros(shape, "float32"))  # fmt: skip
    ways = {f.name: f for f in (two_largest, until_some, counts,
                                halves_in_turn, from_before)}  # fmt: skip
    return ways[kind], (x, result)


KINDS = {
    masked: ("causal", "band", "of_any_size"),
    owned: ("halves_in_place", "sum_is_kept", "taps_in_turn",
            "more_for_later_lanes", "overlapping"),
    ordered: ("two_largest", "until_some", "counts",
              "halves_in_turn", "from_before"),
}  # fmt: skip
SIZES = (64, 40, 38)  # rows of whole vectors, and of halves and quarters of them
DTYPES = (np.float32, np.float16, BF16)


def all_cases() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """What makes each case, and with what."""
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    for make, kinds in KINDS.items():
        for n, kind in enumerate(kinds):
            for k, size in enumerate(SIZES):
                found[f"{make.__name__}_{kind}_{size}"] = make, (kind, 7, size, DTYPES[(n + k) % 3])
    return found
