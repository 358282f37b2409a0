"""Programs whose lanes access memory in pairs, mixed, repeated or backwards. The elements of adjacent
lanes are not adjacent in memory, but all of them are in a few aligned vectors.

Each entry has a program, its arguments, and the expected last argument, computed by numpy.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from memory_programs import Case, numbers

import tilelang.language as T

BF16 = ml_dtypes.bfloat16


def turned(x: Any, c: Any, s: Any) -> Any:
    """Pairs of neighbours as complex numbers."""
    wide = x.astype(np.float32)
    first, second = wide[..., 0::2], wide[..., 1::2]
    out = np.empty_like(wide)
    out[..., 0::2] = first * c - second * s
    out[..., 1::2] = second * c + first * s
    return out.astype(x.dtype)


def pairs(style: str, tokens: int, heads: int, dim: int, dtype: Any) -> Case:
    """Rotary embedding of neighbours, written in two ways."""
    half, kind = dim // 2, np.dtype(dtype).name
    x = numbers(tokens, heads, dim, dtype=dtype)
    c, s = (numbers(tokens, half, dtype=np.float32, seed=k) for k in (1, 2))
    shape, table = (tokens, heads, dim), (tokens, half)

    @T.macro
    def by_two(X, C, S, Y, n):
        for h, i in T.Parallel(heads, half):
            a = T.cast(X[n, h, 2 * i], "float32")
            b = T.cast(X[n, h, 2 * i + 1], "float32")
            Y[n, h, 2 * i] = T.cast(a * C[n, i] - b * S[n, i], kind)
            Y[n, h, 2 * i + 1] = T.cast(b * C[n, i] + a * S[n, i], kind)

    @T.macro
    def by_a_bit(X, C, S, Y, n):
        for h, d in T.Parallel(heads, dim):
            sign = T.if_then_else(d % 2 == 0, -1.0, 1.0)
            other = T.cast(X[n, h, d ^ 1], "float32") * sign
            kept = T.cast(X[n, h, d], "float32") * C[n, d // 2]
            Y[n, h, d] = T.cast(kept + other * S[n, d >> 1], kind)

    write = {"by_two": by_two, "by_a_bit": by_a_bit}[style]

    @T.prim_func
    def main(
        X: T.Tensor(shape, kind), C: T.Tensor(table, "float32"), S: T.Tensor(table, "float32"),
        Y: T.Tensor(shape, kind),
    ):  # fmt: skip
        with T.Kernel(tokens, threads=64) as block:
            write(X, C, S, Y, block)

    wanted = turned(x, c[:, None], s[:, None])
    return Case(main, (x, c, s, np.zeros_like(x)), wanted)


def moved(kind: str, rows: int, columns: int, dtype: Any) -> Case:
    """Elements of a row that only change places."""
    name = np.dtype(dtype).name
    x = numbers(rows, columns, dtype=dtype)
    places = {
        "backwards": lambda j: columns - 1 - j,
        "twice": lambda j: j // 2,
        "swapped_in_fours": lambda j: j ^ 3,
        "every_other": lambda j: j * 2 % columns,
        "one_further": lambda j: (j + 1) % columns,
        "halves_in_turn": lambda j: j % 2 * (columns // 2) + j // 2,
    }
    at = places[kind]

    @T.prim_func
    def main(X: T.Tensor((rows, columns), name), Y: T.Tensor((rows, columns), name)):
        with T.Kernel(rows, threads=32) as b:
            for j in T.Parallel(columns):
                Y[b, j] = X[b, at(j)]

    past_the_end = np.concatenate([x, np.zeros_like(x)], axis=1)  # reads as zero
    wanted = past_the_end[:, [at(j) for j in range(columns)]]
    return Case(main, (x, np.zeros_like(x)), wanted)


def scattered(kind: str, rows: int, columns: int, dtype: Any) -> Case:
    """Stores that make whole vectors together, or in another order than the lanes."""
    name, half = np.dtype(dtype).name, columns // 2
    x = numbers(rows, columns, dtype=dtype)
    wanted, end = np.zeros_like(x), half - (3 if kind == "odd_end" else 4)

    @T.macro
    def interleaved(X, Y, b):
        for j in T.Parallel(half):
            if j < end:
                Y[b, 2 * j] = X[b, j]
                Y[b, 2 * j + 1] = X[b, half + j]

    @T.macro
    def backwards(X, Y, b):
        for j in T.Parallel(columns):
            Y[b, columns - 1 - j] = X[b, j]

    @T.macro
    def one_of_two(X, Y, b):
        for j in T.Parallel(half):
            Y[b, 2 * j + 1] = X[b, 2 * j]

    @T.macro
    def second_reads_first(X, Y, b):
        for j in T.Parallel(half):
            Y[b, 2 * j] = X[b, j] + X[b, j]
            Y[b, 2 * j + 1] = Y[b, 2 * j]

    write = {"interleaved": interleaved, "odd_end": interleaved, "backwards": backwards,
             "one_of_two": one_of_two, "second_reads_first": second_reads_first}[kind]  # fmt: skip

    @T.prim_func
    def main(X: T.Tensor((rows, columns), name), Y: T.Tensor((rows, columns), name)):
        with T.Kernel(rows, threads=32) as b:
            write(X, Y, b)

    if kind in ("interleaved", "odd_end"):
        wanted[:, 0 : 2 * end : 2] = x[:, :end]
        wanted[:, 1 : 2 * end : 2] = x[:, half : half + end]
    elif kind == "backwards":
        wanted = np.ascontiguousarray(x[:, ::-1])
    elif kind == "one_of_two":
        wanted[:, 1::2] = x[:, ::2]
    else:
        wanted = np.repeat(x[:, :half] + x[:, :half], 2, axis=1)
    return Case(main, (x, np.zeros_like(x)), wanted)


PAIRS = ("by_two", "by_a_bit")
MOVED = (
    "backwards", "twice", "swapped_in_fours", "every_other", "one_further", "halves_in_turn",
)  # fmt: skip
SCATTERED = ("interleaved", "odd_end", "backwards", "one_of_two", "second_reads_first")
SIZES = (64, 40, 38)  # rows of whole vectors, and of halves and quarters of them
DTYPES = (np.float32, np.float16, BF16, np.int8)


def all_cases() -> dict[str, tuple[Any, tuple[Any, ...]]]:
    """What makes each case, and with what."""
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    for n, style in enumerate(PAIRS):
        for k, dim in enumerate((64, 32, 20)):
            dtype = (np.float16, np.float32, BF16)[(n + k) % 3]
            found[f"pairs_{style}_{dim}"] = pairs, (style, 6, 3, dim, dtype)
    for make, kinds in ((moved, MOVED), (scattered, SCATTERED)):
        for n, kind in enumerate(kinds):
            for k, size in enumerate(SIZES):
                found[f"{make.__name__}_{kind}_{size}"] = (
                    make,
                    (kind, 5, size, DTYPES[(n + k) % len(DTYPES)]),
                )
    return found
