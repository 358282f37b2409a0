"""Programs whose lanes are no plain vector: they differ in a condition, own variables, work in
place, or come in an order that matters.

Each entry has a program, its arguments, and what plain numpy makes of the last of them.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from memory_programs import Case, numbers

import tilelang.language as T

BF16 = ml_dtypes.bfloat16


def masked(kind: str, rows: int, columns: int, dtype: Any) -> Case:
    """Conditions in which the lanes of a vector differ."""
    name = np.dtype(dtype).name
    x, z = (numbers(rows, columns, dtype=dtype, seed=k) for k in (0, 1))
    i, j = np.arange(rows)[:, None], np.arange(columns)[None]
    shape = (rows, columns)

    @T.prim_func
    def causal(X: T.Tensor(shape, name), Z: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(T.ceildiv(rows, 4), threads=32) as b:
            for r, j in T.Parallel(4, columns):
                i = b * 4 + r
                Y[i, j] = T.if_then_else(j <= i, X[i, j] + Z[i, j], T.cast(3, name))

    @T.prim_func
    def band(X: T.Tensor(shape, name), Z: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=32) as i:
            for j in T.Parallel(columns):
                if j > i - 3 and j < i + 9:
                    Y[i, j] = X[i, j]
                else:
                    Y[i, j] = Z[i, j]

    @T.prim_func
    def neither(X: T.Tensor(shape, name), Z: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=32) as i:
            for j in T.Parallel(columns):
                Y[i, j] = T.Select(not (j < 5 or j >= columns - i), X[i, j], Z[i, j])

    @T.prim_func
    def by_length(X: T.Tensor(shape, name), Z: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=32) as i:
            for j in T.Parallel(columns):
                if T.cast(j, "float32") < T.abs(T.cast(Z[i, 0], "float32")) + 5.0:
                    Y[i, j] = X[i, j]

    @T.prim_func
    def border(X: T.Tensor(shape, name), Z: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=32) as i:
            for j in T.Parallel(columns):
                if i > 0 and i < rows - 1 and j > 0 and j < columns - 1:
                    Y[i, j] = X[i - 1, j] + X[i + 1, j] + X[i, j - 1] + X[i, j + 1] - Z[i, j]

    many = T.dynamic("many")

    @T.prim_func
    def of_any_size(
        X: T.Tensor((many,), name), Z: T.Tensor((many,), name), Y: T.Tensor((many,), name)
    ):
        with T.Kernel(T.ceildiv(many, 128), threads=16) as b:
            for j in T.Parallel(128):
                Y[b * 128 + j] = X[b * 128 + j] - Z[b * 128 + j]

    wide = z.astype(np.float32)
    wanted = {
        "causal": np.where(j <= i, x + z, np.array(3, dtype)),
        "band": np.where((j > i - 3) & (j < i + 9), x, z),
        "neither": np.where((j < 5) | (j >= columns - i), z, x),
        "by_length": np.where(j < np.abs(wide[:, :1]) + 5, x, np.zeros_like(x)),
        "border": np.zeros_like(x),
        "of_any_size": (x - z).reshape(-1),
    }
    wanted["border"][1:-1, 1:-1] = (
        (((x[:-2, 1:-1] + x[2:, 1:-1]) + x[1:-1, :-2]) + x[1:-1, 2:]) - z[1:-1, 1:-1]
    )  # fmt: skip
    ways = {f.name: f for f in (causal, band, neither, by_length, border, of_any_size)}
    if kind == "of_any_size":
        x, z = x.reshape(-1), z.reshape(-1)
    return Case(ways[kind], (x, z, np.zeros_like(x)), wanted[kind].astype(dtype))


def owned(kind: str, rows: int, columns: int, dtype: Any) -> Case:
    """Lanes with variables of their own, or that write what they have read."""
    name, half, shape = np.dtype(dtype).name, columns // 2, (rows, columns)
    x, z = (numbers(rows, columns, dtype=dtype, seed=k) for k in (0, 1))
    taps = numbers(columns, 4, dtype=dtype, seed=2)

    @T.prim_func
    def halves_in_place(X: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(half):
                a = Y[i, j]
                b = Y[i, j + half]
                Y[i, j] = a * X[i, j] - b
                Y[i, j + half] = b * X[i, j] + a

    @T.prim_func
    def pairs_in_place(X: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(half):
                a = Y[i, 2 * j]
                b = Y[i, 2 * j + 1]
                Y[i, 2 * j] = a * X[i, j] - b
                Y[i, 2 * j + 1] = b * X[i, j] + a

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
    def two_of_four(X: T.Tensor(shape, name), Y: T.Tensor(shape, name)):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(columns):
                best = T.alloc_local((2,), name)
                best[0] = X[i, j]
                best[1] = X[i, j]
                for k in T.serial(4):
                    other = X[(i + k) % rows, j]
                    if other > best[0]:
                        best[1] = best[0]
                        best[0] = other
                Y[i, j] = best[0] - best[1]

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

    wide, other = x.astype(np.float32), z.astype(np.float32)
    given: tuple[Any, ...] = (x, z)
    wanted = z.copy()
    if kind in ("halves_in_place", "pairs_in_place"):
        parts = (slice(0, half), slice(half, None))
        first, second = (
            parts if kind == "halves_in_place" else (slice(0, None, 2), slice(1, None, 2))
        )
        a, b, by = other[:, first], other[:, second], wide[:, :half]
        wanted[:, first], wanted[:, second] = a * by - b, b * by + a
    elif kind == "sum_is_kept":
        wanted = ((wide + other) + (wide + other) ** 2).astype(dtype)
    elif kind == "taps_in_turn":
        padded = np.vstack([np.zeros((3, columns), np.float32), wide])
        total = sum(padded[k : k + rows] * taps.astype(np.float32)[:, k] for k in range(4))
        given, wanted = (x, taps, np.zeros_like(x)), np.asarray(total).astype(dtype)
    elif kind == "two_of_four":
        best, second = wide.copy(), wide.copy()
        for k in range(4):
            more = np.roll(wide, -k, 0) > best
            best, second = np.where(more, np.roll(wide, -k, 0), best), np.where(more, best, second)
        wanted = (best - second).astype(dtype)
    elif kind == "more_for_later_lanes":
        counts = np.arange(columns) % 3
        later = sum(np.where(counts > k, np.roll(wide, -k, 0), 0) for k in range(2))
        wanted = np.asarray(1 + later).astype(dtype)
    else:
        wanted = np.zeros((rows, columns + 4), dtype)
        for at in range(columns):
            wanted[:, at : at + 4] = wide[:, at : at + 1] + np.arange(4)
        given = (x, np.zeros_like(wanted))
    ways = {f.name: f for f in (halves_in_place, pairs_in_place, sum_is_kept, taps_in_turn,
                                two_of_four, more_for_later_lanes, overlapping)}  # fmt: skip
    return Case(ways[kind], given, wanted)


def ordered(kind: str, rows: int, columns: int, dtype: Any) -> Case:
    """A thread a row, whose elements come one after the other, and sums in memory."""
    name, shape = np.dtype(dtype).name, (rows, columns)
    x = numbers(rows, columns, dtype=dtype)
    wide = x.astype(np.float32)

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
    def running_sum(X: T.Tensor(shape, name), Y: T.Tensor(shape, "float32")):
        with T.Kernel(T.ceildiv(rows, 32), threads=32) as b:
            t = T.get_thread_binding()
            if b * 32 + t < rows:
                total = T.alloc_var("float32", init=0.0)
                for e in T.serial(columns):
                    total += T.cast(X[b * 32 + t, e], "float32")
                    Y[b * 32 + t, e] = total

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
    def sums_of_rows(X: T.Tensor(shape, name), Y: T.Tensor((3, columns), "float32")):
        with T.Kernel(rows, threads=16) as i:
            for j in T.Parallel(columns):
                if i != 1:
                    T.atomic_add(Y[i % 3, j], T.cast(X[i, j], "float32"))

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

    every = (
        two_largest,
        running_sum,
        until_some,
        counts,
        sums_of_rows,
        halves_in_turn,
        from_before,
    )
    ways = {f.name: f for f in every}
    if kind == "two_largest":
        wanted = np.sort(wide, axis=1)[:, :-3:-1].copy()
    elif kind == "running_sum":
        wanted = np.cumsum(wide, axis=1, dtype=np.float32)
    elif kind == "until_some":
        last = np.ones((rows, 1), bool)
        wanted = np.argmax(np.hstack([wide > 3, last]), axis=1).astype(np.int32)
    elif kind == "counts":
        wanted = np.bincount(wide.astype(int).reshape(-1) + 8, minlength=16).astype(np.int32)
    elif kind in ("halves_in_turn", "from_before"):
        wanted, parts = np.zeros_like(wide), wide[:, : columns // 8 * 8].reshape(rows, -1, 2, 4)
        scale = 2.0 ** (np.arange(rows) % 2)[:, None].astype(np.float32)
        sums = np.cumsum(parts.reshape(rows, -1, 8), axis=2, dtype=np.float32)
        turned = parts[:, :, ::-1].reshape(rows, -1) * scale
        wanted[:, : columns // 8 * 8] = (
            turned if kind == "halves_in_turn" else sums.reshape(rows, -1)
        )
    else:
        kept = [i for i in range(rows) if i != 1]
        wanted = np.zeros((3, columns), np.float32)
        np.add.at(wanted, np.array(kept) % 3, wide[kept])
    return Case(ways[kind], (x, np.zeros_like(wanted)), wanted)


MASKED = ("causal", "band", "neither", "by_length", "border", "of_any_size")
OWNED = (
    "halves_in_place", "pairs_in_place", "sum_is_kept", "taps_in_turn", "two_of_four",
    "more_for_later_lanes", "overlapping",
)  # fmt: skip
ORDERED = (
    "two_largest", "running_sum", "until_some", "counts", "sums_of_rows", "halves_in_turn",
    "from_before",
)  # fmt: skip
SIZES = (64, 40, 38)  # rows of whole vectors, and of halves and quarters of them
DTYPES = (np.float32, np.float16, BF16)


def all_cases() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """What makes each case, and with what."""
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    for make, kinds in ((masked, MASKED), (owned, OWNED), (ordered, ORDERED)):
        for n, kind in enumerate(kinds):
            for k, size in enumerate(SIZES):
                found[f"{make.__name__}_{kind}_{size}"] = make, (kind, 7, size, DTYPES[(n + k) % 3])
    return found
