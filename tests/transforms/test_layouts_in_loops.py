"""Tiles that loops share: barriers, shared accesses and shuffles of whole programs, and results.

Each program has a tile that loops and operations could hand back and forth. What its PTX does is a
table of upper bounds that may only become smaller; it runs in the interpreter and in the emulator,
beside numpy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from ptx_counts import ptx_counts
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.emulator.compilers import find_cxx

Arrays = dict[str, np.ndarray]
EMULATED = [{"target": "cpu", "execution_backend": "interpret"}]
if find_cxx() is not None:
    EMULATED.append({"target": "cuda -arch=sm_90a", "execution_backend": "emulator"})


def random(seed: int, *shape: int, kind: Any = np.float32) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(kind)


def norms(rows: int, columns: int, threads: int) -> Any:
    """Rows divided by their lengths."""

    @T.prim_func
    def main(X: F32[rows, columns], Y: F32[rows, columns]):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, columns), "float32")
            square = T.alloc_fragment((rows, columns), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(rows, columns):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = x[i, j] / T.sqrt(total[i])
            T.copy(x, Y)

    return main


@dataclass(frozen=True)
class Case:
    """A program, its inputs, what it computes, and what its PTX may have at most: barriers, loads
    and stores of shared memory, shuffles."""

    make: Callable[[], Any]
    inputs: Arrays
    result: Callable[..., np.ndarray]
    most: tuple[int, int, int, int]


# -- the operand of a product that a loop reads ------------------------------------------------
def squares(rows: int, columns: int, width: int, kind: str, n: int = 32, named: bool = False,
            turned: bool = False, threads: int = 128) -> Any:  # fmt: skip
    """A product whose operand in registers is also squared and summed, a few columns at a time."""
    steps = columns // width

    @T.prim_func
    def main(X: F16[rows, 2 * columns], W: T.Tensor((n, 2 * columns), kind), Y: F32[rows, n]):
        with T.Kernel(1, threads=threads):
            half = T.alloc_shared((rows, columns), "float16")
            w = T.alloc_shared((n, columns), kind)
            x = T.alloc_fragment((rows, columns), kind)
            acc = T.alloc_fragment((rows, n), "float32")
            part = T.alloc_fragment((rows, width), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.clear(acc)
            T.clear(part)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(X[0, k * columns], half)
                T.copy(W[0, k * columns], w)
                T.copy(half, x)
                if turned:
                    for q in T.serial(steps):
                        for j, i in T.Parallel(width, rows):
                            part[i, j] += T.cast(x[i, width * q + j] * x[i, width * q + j],
                                                 "float32")  # fmt: skip
                elif named:
                    for q in T.serial(1, steps + 1):
                        for i, j in T.Parallel(rows, width):
                            at = (q - 1) * width + j
                            value = T.cast(x[i, at], "float32")
                            part[i, j] = part[i, j] + value * value
                else:
                    for q in T.serial(steps):
                        for i, j in T.Parallel(rows, width):
                            part[i, j] += T.cast(x[i, q * width + j] * x[i, q * width + j],
                                                 "float32")  # fmt: skip
                T.gemm(x, w, acc, transpose_B=True)
            T.reduce_sum(part, total, dim=1)
            for i, j in T.Parallel(rows, n):
                Y[i, j] = acc[i, j] + total[i]

    return main


def product_and_squares(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    x, w = X.astype(np.float32), W.astype(np.float32)
    return x @ w.T + (x * x).sum(axis=1, keepdims=True)


def halves_of_an_operand(rows: int, columns: int, width: int) -> Any:
    """A product whose left operand is copied, and whose greatest element a row is looked for."""

    @T.prim_func
    def main(X: F16[rows, columns], W: F16[columns, 64], Y: F32[rows, 64]):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((rows, columns), "float16")
            w = T.alloc_shared((columns, 64), "float16")
            x = T.alloc_fragment((rows, columns), "float16")
            acc = T.alloc_fragment((rows, 64), "float32")
            top = T.alloc_fragment((rows, width), "float32")
            most = T.alloc_fragment((rows,), "float32")
            T.copy(X, s)
            T.copy(W, w)
            T.copy(s, x)
            T.fill(top, -T.infinity("float32"))
            for q in T.serial(columns // width):
                for i, j in T.Parallel(rows, width):
                    top[i, j] = T.max(top[i, j], T.cast(x[i, q * width + j], "float32"))
            T.gemm(x, w, acc, clear_accum=True)
            T.reduce_max(top, most, dim=1)
            for i, j in T.Parallel(rows, 64):
                Y[i, j] = acc[i, j] - most[i]

    return main


def product_less_maxima(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    x, w = X.astype(np.float32), W.astype(np.float32)
    return x @ w - x.max(axis=1, keepdims=True)


# -- rows in serial loops ----------------------------------------------------------------------
def softmax(rows: int, columns: int, threads: int, kind: str = "float32", parts: int = 1) -> Any:
    """Softmax through shared memory, with its rows and parts of its columns in serial loops."""
    width = columns // parts

    @T.prim_func
    def main(X: T.Tensor((rows, columns), kind), Y: T.Tensor((rows, columns), kind)):
        with T.Kernel(1, threads=threads):
            s = T.alloc_shared((rows, columns), kind)
            x = T.alloc_fragment((rows, columns), "float32")
            y = T.alloc_fragment((rows, columns), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X, s)
            T.copy(s, x)
            T.fill(largest, -T.infinity("float32"))
            T.reduce_max(x, largest, dim=1, clear=False)
            for i in T.serial(rows):
                for p in T.serial(parts):
                    for j in T.Parallel(width):
                        x[i, p * width + j] = T.exp(x[i, p * width + j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i in T.serial(rows):
                for j in T.Parallel(columns):
                    y[i, j] = x[i, j] / total[i]
            T.copy(y, s)
            T.copy(s, Y)

    return main


def softmax_of(X: np.ndarray) -> np.ndarray:
    e = np.exp(X.astype(np.float32) - X.max(axis=1, keepdims=True).astype(np.float32))
    return e / e.sum(axis=1, keepdims=True)


def log_sums(rows: int, columns: int, threads: int) -> Any:
    """The logarithm of the sum of exponentials of each row."""

    @T.prim_func
    def main(X: F32[rows, columns], Y: F32[rows]):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, columns), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X, x)
            T.reduce_max(x, largest, dim=1)
            for i in T.serial(rows):
                for j in T.Parallel(columns):
                    x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i in T.Parallel(rows):
                Y[i] = largest[i] + T.log(total[i])

    return main


def layer_norm(rows: int, columns: int, tile: int, threads: int) -> Any:
    """Rows of a length that is not a multiple of the tile, which is filled up with zeros."""
    tiles = -(-columns // tile)

    @T.prim_func
    def main(X: F16[rows, columns], Y: F16[rows, columns]):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, tiles * tile), "float32")
            part = T.alloc_fragment((rows, tile), "float32")
            mean = T.alloc_fragment((rows,), "float32")
            var = T.alloc_fragment((rows,), "float32")
            T.clear(part)
            for k in T.serial(tiles):
                for i, j in T.Parallel(rows, tile):
                    at = k * tile + j
                    x[i, at] = T.if_then_else(at < columns, T.cast(X[i, at], "float32"), 0.0)
            for k in T.serial(tiles):
                for i, j in T.Parallel(rows, tile):
                    part[i, j] += x[i, k * tile + j]
            T.reduce_sum(part, mean, dim=1)
            T.clear(part)
            for k in T.serial(tiles):
                for i, j in T.Parallel(rows, tile):
                    off = x[i, k * tile + j] - mean[i] / columns
                    part[i, j] += T.if_then_else(k * tile + j < columns, off * off, 0.0)
            T.reduce_sum(part, var, dim=1)
            for k in T.serial(tiles):
                for i, j in T.Parallel(rows, tile):
                    if k * tile + j < columns:
                        Y[i, k * tile + j] = T.cast(
                            (x[i, k * tile + j] - mean[i] / columns)
                            * T.rsqrt(var[i] / columns + 1e-5), "float16")  # fmt: skip

    return main


def normed(X: np.ndarray) -> np.ndarray:
    x = X.astype(np.float32)
    return (x - x.mean(axis=1, keepdims=True)) / np.sqrt(x.var(axis=1, keepdims=True) + 1e-5)


# -- a thread a row --------------------------------------------------------------------------------
def scans(rows: int, columns: int, tile: int, kind: str, op: str = "sum", threads: int = 128,
          copied: bool = True) -> Any:  # fmt: skip
    """Running values of each row, tile after tile: a thread a row."""

    @T.prim_func
    def main(X: T.Tensor((rows, columns), kind), Y: T.Tensor((rows, columns), kind)):
        with T.Kernel(1, threads=threads):
            s = T.alloc_shared((rows, tile), kind)
            o = T.alloc_shared((rows, tile), kind)
            x = T.alloc_fragment((rows, tile), "float32")
            y = T.alloc_fragment((rows, tile), "float32")
            acc = T.alloc_fragment((rows,), "float32")
            T.fill(acc, -1e30 if op == "max" else 0)
            for t in T.serial(columns // tile):
                if copied:
                    T.copy(X[0:rows, t * tile : t * tile + tile], s)
                    T.copy(s, x)
                else:
                    for i, j in T.Parallel(rows, tile):
                        x[i, j] = T.cast(X[i, t * tile + j], "float32")
                for i in T.Parallel(rows):
                    for j in T.serial(tile):
                        if op == "sum":
                            acc[i] = acc[i] + x[i, j]
                        elif op == "max":
                            acc[i] = T.max(acc[i], x[i, j])
                        else:
                            acc[i] = acc[i] * 0.5 + x[i, j]
                        y[i, j] = acc[i]
                if copied:
                    T.copy(y, o)
                    T.copy(o, Y[0:rows, t * tile : t * tile + tile])
                else:
                    T.copy(y, Y[0:rows, t * tile : t * tile + tile])

    return main


def decayed(X: np.ndarray) -> np.ndarray:
    y = X.astype(np.float32)
    for j in range(1, y.shape[1]):
        y[:, j] += 0.5 * y[:, j - 1]
    return y


def sums_of_rows(rows: int, columns: int, threads: int) -> Any:
    """A sum and a sum of squares of each row, by the thread that has it."""

    @T.prim_func
    def main(X: F32[rows, columns], Y: F32[rows, 2]):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, columns), "float32")
            one = T.alloc_fragment((rows,), "float32")
            two = T.alloc_fragment((rows,), "float32")
            T.copy(X, x)
            T.clear(one)
            T.clear(two)
            for i in T.Parallel(rows):
                for j in T.serial(columns):
                    one[i] += x[i, j]
                    two[i] += x[i, j] * x[i, j]
            for i in T.Parallel(rows):
                Y[i, 0] = one[i]
                Y[i, 1] = two[i]

    return main


def square_inputs(rows: int, columns: int, kind: Any, n: int = 32) -> Arrays:
    X = random(1, rows, 2 * columns, kind=np.float16)
    return {"X": X, "W": random(2, n, 2 * columns, kind=kind)}


HALF, FLOAT = np.float16, np.float32
CASES = {
    "floats squared in fours": Case(
        lambda: squares(32, 64, 4, "float32"), square_inputs(32, 64, FLOAT), product_and_squares, (2, 32, 0, 4)),
    "floats squared by columns": Case(
        lambda: squares(32, 64, 4, "float32", turned=True), square_inputs(32, 64, FLOAT),
        product_and_squares, (2, 32, 0, 4)),
    "halves squared in eights": Case(
        lambda: squares(64, 64, 8, "float16"), square_inputs(64, 64, HALF), product_and_squares, (1, 16, 0, 4)),
    "halves squared by name": Case(
        lambda: squares(64, 64, 16, "float16", named=True), square_inputs(64, 64, HALF),
        product_and_squares, (1, 16, 0, 4)),
    "halves squared in fours": Case(
        lambda: squares(64, 64, 4, "float16"), square_inputs(64, 64, HALF), product_and_squares, (5, 50, 2, 4)),
    "more rows than a warpgroup has": Case(
        lambda: squares(128, 64, 8, "float16", n=64, threads=256),
        square_inputs(128, 64, HALF, 64), product_and_squares, (1, 16, 0, 4)),
    "maxima of an operand": Case(
        lambda: halves_of_an_operand(64, 64, 8),
        {"X": random(3, 64, 64, kind=HALF), "W": random(4, 64, 64, kind=HALF)},
        product_less_maxima, (1, 16, 0, 4)),
    "maxima of an operand in sixteens": Case(
        lambda: halves_of_an_operand(64, 128, 16),
        {"X": random(5, 64, 128, kind=HALF), "W": random(6, 128, 64, kind=HALF)},
        product_less_maxima, (1, 32, 0, 4)),
    "softmax of sixteen rows": Case(
        lambda: softmax(16, 256, 256), {"X": random(7, 16, 256)}, softmax_of, (4, 8, 6, 20)),
    "softmax of halves": Case(
        lambda: softmax(16, 256, 128, "float16"), {"X": random(8, 16, 256, kind=HALF)}, softmax_of, (3, 4, 4, 20)),
    "softmax of few long rows": Case(
        lambda: softmax(4, 1024, 128), {"X": random(9, 4, 1024)}, softmax_of, (4, 16, 10, 20)),
    "softmax of many short rows": Case(
        lambda: softmax(64, 32, 128), {"X": random(10, 64, 32)}, softmax_of, (3, 4, 4, 24)),
    "softmax in parts of rows": Case(
        lambda: softmax(8, 256, 128, parts=4), {"X": random(11, 8, 256)}, softmax_of, (4, 8, 6, 20)),
    "log-sum-exp": Case(
        lambda: log_sums(16, 512, 256), {"X": random(12, 16, 512)},
        lambda X: np.log(np.exp(X).sum(axis=1)), (3, 8, 2, 34)),
    "log-sum-exp of few rows": Case(
        lambda: log_sums(4, 512, 128), {"X": random(13, 4, 512)},
        lambda X: np.log(np.exp(X).sum(axis=1)), (3, 8, 2, 20)),
    "layer normalization of a length that is no multiple": Case(
        lambda: layer_norm(4, 300, 128, 128), {"X": random(14, 4, 300, kind=HALF)}, normed, (0, 0, 0, 10)),
    "layer normalization of long rows": Case(
        lambda: layer_norm(2, 1000, 256, 128), {"X": random(15, 2, 1000, kind=HALF)}, normed, (3, 4, 2, 10)),
    "sums of rows in tiles": Case(
        lambda: scans(16, 256, 128, "float16"), {"X": random(16, 16, 256, kind=HALF)},
        lambda X: np.cumsum(X.astype(FLOAT), axis=1), (3, 16, 19, 0)),
    "maxima of rows in tiles": Case(
        lambda: scans(32, 128, 64, "float32", "max"), {"X": random(17, 32, 128)},
        lambda X: np.maximum.accumulate(X, axis=1), (3, 16, 19, 0)),
    "a recurrence of rows in tiles": Case(
        lambda: scans(64, 64, 32, "float16", "decay", 64), {"X": random(18, 64, 64, kind=HALF)},
        decayed, (5, 8, 11, 0)),
    "sums of long rows": Case(
        lambda: scans(16, 1024, 512, "float32"), {"X": random(19, 16, 1024)},
        lambda X: np.cumsum(X, axis=1), (4, 544, 547, 0)),
    "sums of rows without shared tiles": Case(
        lambda: scans(16, 256, 64, "float32", copied=False), {"X": random(20, 16, 256)},
        lambda X: np.cumsum(X, axis=1), (2, 66, 66, 0)),
    "sums of as many rows as threads": Case(
        lambda: scans(128, 64, 32, "float16"), {"X": random(21, 128, 64, kind=HALF)},
        lambda X: np.cumsum(X.astype(FLOAT), axis=1), (5, 8, 11, 0)),
    "sums and squares of rows": Case(
        lambda: sums_of_rows(32, 128, 128), {"X": random(22, 32, 128)},
        lambda X: np.stack([X.sum(axis=1), (X * X).sum(axis=1)], axis=1), (1, 34, 11, 0)),
    "sums and squares of long rows": Case(
        lambda: sums_of_rows(16, 512, 128), {"X": random(23, 16, 512)},
        lambda X: np.stack([X.sum(axis=1), (X * X).sum(axis=1)], axis=1), (1, 132, 16, 0)),
    "rows over warps by the odd": Case(
        lambda: norms(7, 300, 160), {"X": random(25, 7, 300)},
        lambda X: X / np.sqrt((X * X).sum(axis=1, keepdims=True)), (2, 10, 4, 20)),
    "rows of three times sixteen threads": Case(
        lambda: norms(3, 35, 96), {"X": random(26, 3, 35)},
        lambda X: X / np.sqrt((X * X).sum(axis=1, keepdims=True)), (2, 12, 4, 16)),
}  # fmt: skip


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("name", CASES)
def test_no_more_than_the_table_says(name: str) -> None:
    found = ptx_counts(CASES[name].make())
    most = dict(zip(("barriers", "loads", "stores", "shuffles"), CASES[name].most, strict=True))
    assert all(found[what] <= most[what] for what in most), (found, most)


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    case = CASES[name]
    for way in EMULATED:
        kernel = tilelang.compile(case.make(), out_idx=[-1], **way)
        got = kernel(*case.inputs.values())
        expected = case.result(**case.inputs)
        assert np.allclose(np.asarray(got, np.float32), expected, 3e-2, 3e-2), way


def test_loops_over_tensors_that_may_be_one_keep_their_order() -> None:
    @T.prim_func
    def main(X: F32[5, 64], Y: F32[5, 64]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((4, 64), "float32")
            T.copy(X[1:5, 0:64], x)
            for i in T.serial(4):
                for j in T.Parallel(64):
                    Y[i + 1, j] = x[i, j] + X[i, j]

    given = random(24, 5, 64)
    wanted = given.copy()
    for i in range(4):
        wanted[i + 1] = given[i + 1] + wanted[i]
    for way in EMULATED:
        both = given.copy()
        tilelang.compile(main, **way)(both, both)
        np.testing.assert_allclose(both, wanted, 1e-5)
