"""Tiles change hands where that is cheapest: barriers and shared tiles of whole programs, and results.

Each program is one whose tiles could get a layout early and be converted later. The barriers in its
text and the bytes of shared memory that it did not ask for are counted, and it runs in the
interpreter and as generated CUDA in the emulator, beside numpy.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tensor_types import F16, F32, I32

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.emulator.compilers import find_cxx
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

SM_90 = "cuda -arch=sm_90a"
Arrays = dict[str, np.ndarray]


def random(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def softmax(X: np.ndarray) -> np.ndarray:
    e = np.exp(X - X.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@dataclass(frozen=True)
class Case:
    """A program, its inputs, what it computes, and the most barriers and bytes it may need."""

    make: Callable[[], S.PrimFunc]
    inputs: Arrays
    result: Callable[..., np.ndarray]
    barriers: int
    added: int = 0  # bytes of shared tiles that the program has not asked for


def rows_in_a_serial_loop(rows: int, columns: int, threads: int, kind: str = "float32") -> Any:
    """Softmax with its rows in a serial loop."""

    @T.prim_func
    def main(X: T.Tensor((2 * rows, columns), kind), Y: T.Tensor((2 * rows, columns), kind)):
        with T.Kernel(2, threads=threads) as b:
            x = T.alloc_fragment((rows, columns), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            for i in T.serial(rows):
                for j in T.Parallel(columns):
                    x[i, j] = T.cast(X[b * rows + i, j], "float32")
            T.fill(largest, -T.infinity("float32"))
            T.reduce_max(x, largest, dim=1, clear=False)
            for i in T.serial(rows):
                for j in T.Parallel(columns):
                    x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i in T.serial(rows):
                for j in T.Parallel(columns):
                    Y[b * rows + i, j] = T.cast(x[i, j] / total[i], kind)

    return main


def one_row_at_a_time(rows: int, columns: int, threads: int) -> Any:
    """Softmax of one row in each iteration, over the only axis that its tile has."""

    @T.prim_func
    def main(X: F32[rows, columns], Y: F32[rows, columns]):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((columns,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for i in T.serial(rows):
                T.copy(X[i, 0:columns], x)
                T.reduce_max(x, largest, dim=0)
                for j in T.Parallel(columns):
                    x[j] = T.exp(x[j] - largest[0])
                T.reduce_sum(x, total, dim=0)
                for j in T.Parallel(columns):
                    x[j] = x[j] / total[0]
                T.copy(x, Y[i, 0:columns])

    return main


def rows_of_a_tile(rows: int, columns: int, threads: int) -> Any:
    """Softmax of all rows of a tile, without a loop."""

    @T.prim_func
    def main(X: F32[rows, columns], Y: F32[rows, columns]):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((rows, columns), "float32")
            largest = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            T.copy(X, x)
            T.reduce_max(x, largest, dim=1)
            for i, j in T.Parallel(rows, columns):
                x[i, j] = T.exp(x[i, j] - largest[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(rows, columns):
                Y[i, j] = x[i, j] / total[i]

    return main


def maxima_within_a_loop(steps: int, columns: int) -> Any:
    """Running maxima and totals of rows, over tiles of columns."""

    @T.prim_func
    def main(X: F16[16, steps * columns], Y: F32[2, 16]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((16, columns), "float32")
            top = T.alloc_fragment((16,), "float32")
            old = T.alloc_fragment((16,), "float32")
            total = T.alloc_fragment((16,), "float32")
            part = T.alloc_fragment((16,), "float32")
            T.fill(top, -1e30)
            T.clear(total)
            for k in T.serial(steps):
                for i, j in T.Parallel(16, columns):
                    x[i, j] = T.cast(X[i, k * columns + j], "float32")
                T.copy(top, old)
                T.reduce_max(x, top, dim=1, clear=False)
                for i, j in T.Parallel(16, columns):
                    x[i, j] = T.exp(x[i, j] - top[i])
                T.reduce_sum(x, part, dim=1)
                for i in T.Parallel(16):
                    total[i] = total[i] * T.exp(old[i] - top[i]) + part[i]
            for i in T.Parallel(16):
                Y[0, i] = top[i]
                Y[1, i] = total[i]

    return main


def maxima_and_totals(X: np.ndarray) -> np.ndarray:
    x = X.astype(np.float32)
    return np.stack([x.max(axis=1), np.exp(x - x.max(axis=1, keepdims=True)).sum(axis=1)])


def quads(lanes: Callable[..., Any], threads: int) -> Any:
    """A tile indexed by ``q * 4 + j`` with lanes inside a parallel loop."""

    @T.prim_func
    def main(X: F32[16, 64], Y: F32[16, 64]):
        with T.Kernel(1, threads=threads):
            x = T.alloc_fragment((16, 64), "float32")
            total = T.alloc_fragment((16,), "float32")
            for i, q in T.Parallel(16, 16):
                for j in T.vectorized(4):
                    x[i, q * 4 + j] = X[i, q * 4 + j]
            T.reduce_sum(x, total, dim=1)
            for i, q in T.Parallel(16, 16):
                for j in lanes(4):
                    x[i, q * 4 + j] = x[i, q * 4 + j] / total[i]
            for i, j in T.Parallel(16, 64):
                Y[i, j] = x[i, j] * 2.0

    return main


def columns_in_parts(parts: int) -> Any:
    """A tile filled and used by a serial loop over parts of its columns, and copied as a whole."""
    width = 256 // parts

    @T.prim_func
    def main(X: F32[16, 256], Y: F32[16, 256]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((16, 256), "float32")
            total = T.alloc_fragment((16,), "float32")
            for q in T.serial(parts):
                for i, j in T.Parallel(16, width):
                    x[i, q * width + j] = X[i, q * width + j]
            T.reduce_sum(x, total, dim=1)
            for q in T.serial(parts):
                for i, j in T.Parallel(16, width):
                    x[i, q * width + j] = x[i, q * width + j] / total[i] * 2.0
            T.copy(x, Y)

    return main


def twice_over_totals(X: np.ndarray) -> np.ndarray:
    return 2 * X / X.sum(axis=1, keepdims=True)


def two_accumulators() -> Any:
    """Maxima of the rows of one product scale another one, which has other columns, in a loop."""

    @T.prim_func
    def main(A: F16[64, 64], B: F16[64, 128], D: F16[64, 64], Y: F32[64, 192]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 128), "float16")
            d = T.alloc_shared((64, 64), "float16")
            one = T.alloc_fragment((64, 128), "float32")
            two = T.alloc_fragment((64, 64), "float32")
            top = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.copy(D, d)
            T.gemm(a, b, one, clear_accum=True)
            T.gemm(a, d, two, clear_accum=True)
            T.reduce_max(one, top, dim=1)
            for _ in T.serial(2):
                for i, j in T.Parallel(64, 64):
                    two[i, j] = two[i, j] * 0.5 + top[i]
            for i, j in T.Parallel(64, 128):
                one[i, j] = one[i, j] - top[i]
            T.copy(one, Y[0:64, 0:128])
            T.copy(two, Y[0:64, 128:192])

    return main


def two_products(A: np.ndarray, B: np.ndarray, D: np.ndarray) -> np.ndarray:
    a, b, d = (item.astype(np.float32) for item in (A, B, D))
    top = (a @ b).max(axis=1, keepdims=True)
    return np.hstack([a @ b - top, (a @ d) * 0.25 + top * 1.5])


def pairs_beside_an_accumulator(kind: str) -> Any:
    """Pairs of an accumulator through a transposed shared tile, in loops with a vector of 2."""

    @T.prim_func
    def main(A: F16[64, 64], B: F16[64, 64], Y: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            turned = T.alloc_shared((64, 64), kind)
            acc = T.alloc_fragment((64, 64), "float32")
            low = T.alloc_fragment((64, 64), kind)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, acc, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                low[i, j] = T.cast(acc[i, j], kind)
            for i, j in T.Parallel(64, 32):
                for v in T.vectorized(2):
                    turned[i, j * 2 + v] = low[i, j * 2 + v]
            for i, j in T.Parallel(64, 32):
                for v in T.vectorized(2):
                    low[i, j * 2 + v] = turned[j * 2 + v, i]
            for i, j in T.Parallel(64, 64):
                acc[i, j] -= T.cast(low[i, j], "float32")
            T.copy(acc, Y)

    return main


def minus_its_transposed(kind: Any) -> Callable[..., np.ndarray]:
    def result(A: np.ndarray, B: np.ndarray) -> np.ndarray:
        acc = A.astype(np.float32) @ B.astype(np.float32)
        return acc - acc.astype(kind).astype(np.float32).T

    return result


def in_a_branch() -> Any:
    """A statistic of rows, computed and used in one branch and read in the other."""

    @T.prim_func
    def main(X: F32[32, 128], F: I32[1], Y: F32[32, 128]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((32, 128), "float32")
            top = T.alloc_fragment((32,), "float32")
            T.copy(X, x)
            T.fill(top, 3.0)
            if F[0] > 0:
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(32, 128):
                    x[i, j] = x[i, j] - top[i]
            else:
                for i, j in T.Parallel(32, 128):
                    x[i, j] = x[i, j] * top[i]
            T.copy(x, Y)

    return main


def rows_and_columns(steps: int) -> Any:
    """One vector by rows and by columns of tiles in a loop, which changes nothing of it."""

    @T.prim_func
    def main(V: F32[64], X: F32[steps * 64, 64], Y: F32[steps * 64, 64]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((64, 64), "float32")
            v = T.alloc_fragment((64,), "float32")
            T.copy(V, v)
            for k in T.serial(steps):
                T.copy(X[k * 64, 0], x)
                for i, j in T.Parallel(64, 64):
                    x[i, j] = x[i, j] * v[i] + v[j]
                T.copy(x, Y[k * 64, 0])

    return main


def turned_in_a_loop(steps: int, kind: str) -> Any:
    """A tile that a loop reads as it is and turned: one exchange before the loop, two at most."""

    @T.prim_func
    def main(X: T.Tensor((32, 32), kind), Y: T.Tensor((steps, 32, 32), kind)):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((32, 32), kind)
            y = T.alloc_fragment((32, 32), kind)
            T.copy(X, x)
            for k in T.serial(steps):
                for i, j in T.Parallel(32, 32):
                    y[i, j] = x[j, i] * T.cast(k + 1, kind) + x[i, j]
                T.copy(y, Y[k, 0, 0])

    return main


def norm_of_rows(rows: int, columns: int) -> Any:
    """Statistics of rows for two tiles, of which a loop over rows reads one row by row."""

    @T.prim_func
    def main(X: F16[rows, columns], W: F32[columns], Y: F32[rows, columns]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((rows, columns), "float32")
            square = T.alloc_fragment((rows, columns), "float32")
            w = T.alloc_fragment((columns,), "float32")
            mean = T.alloc_fragment((rows,), "float32")
            var = T.alloc_fragment((rows,), "float32")
            T.copy(X, x)
            T.copy(W, w)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(rows):
                mean[i] = mean[i] / columns
            for i, j in T.Parallel(rows, columns):
                square[i, j] = (x[i, j] - mean[i]) * (x[i, j] - mean[i])
            T.reduce_sum(square, var, dim=1)
            for r in T.serial(rows):
                for j in T.Parallel(columns):
                    Y[r, j] = (x[r, j] - mean[r]) / T.sqrt(var[r] / columns + 1e-5) * w[j]

    return main


def parts_of_a_tile() -> Any:
    """Maxima of the rows of parts of a tile, which another loop reads turned."""

    @T.prim_func
    def main(X: F32[32, 32], Y: F32[32, 32]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((32, 32), "float32")
            y = T.alloc_fragment((32, 32), "float32")
            low = T.alloc_fragment((16,), "float32")
            high = T.alloc_fragment((32,), "float32")
            T.copy(X, x)
            T.reduce_max(x[0:16, 0:32], low, dim=1)
            T.reduce_max(x[16:32, 0:32], high[16:32], dim=1)
            for i, j in T.Parallel(32, 32):
                y[i, j] = x[j, i]
            for i, j in T.Parallel(16, 32):
                y[i, j] = y[i, j] + low[i]
            for i, j in T.Parallel(16, 32):
                y[i + 16, j] = y[i + 16, j] + high[i + 16]
            T.copy(y, Y)

    return main


def normed(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    x = X.astype(np.float32)
    return (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * W


def heads_in_shared_memory(rows: int, columns: int) -> Any:
    """A norm of heads, turned by halves: float32 in shared memory, 16 bytes of halves a thread."""
    half = columns // 2

    @T.prim_func
    def main(X: F16[rows, columns], W: F16[columns], Y: F16[rows, columns]):
        with T.Kernel(rows // 4, threads=64) as b:
            x = T.alloc_shared((4, columns), "float32")
            square = T.alloc_fragment((4, columns), "float32")
            total = T.alloc_fragment((4,), "float32")
            for i, j in T.Parallel(4, columns):
                x[i, j] = T.cast(X[b * 4 + i, j], "float32")
            for i, j in T.Parallel(4, columns):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, total, dim=1)
            for i, j in T.Parallel(4, columns):
                x[i, j] = x[i, j] * T.rsqrt(total[i]) * T.cast(W[j], "float32")
            for i, j in T.Parallel(4, half):
                Y[b * 4 + i, j] = T.cast(x[i, j] - x[i, j + half], "float16")
                Y[b * 4 + i, j + half] = T.cast(x[i, j + half] + x[i, j], "float16")

    return main


def turned_heads(X: np.ndarray, W: np.ndarray) -> np.ndarray:
    x = X.astype(np.float32)
    x = x / np.sqrt((x * x).sum(axis=1, keepdims=True)) * W.astype(np.float32)
    a, b = np.split(x, 2, axis=1)
    return np.concatenate([a - b, b + a], axis=1)


HALVES = {"A": random(1, 64, 64).astype(np.float16), "B": random(2, 64, 64).astype(np.float16)}
VECTOR = {"V": random(3, 64), "X": random(4, 192, 64)}
CASES = {
    "rows of halves in a serial loop": Case(
        lambda: rows_in_a_serial_loop(8, 256, 256, "float16"),
        {"X": random(5, 16, 256).astype(np.float16)},
        lambda X: softmax(X.astype(np.float32)), 4),
    "long rows in a serial loop": Case(
        lambda: rows_in_a_serial_loop(4, 1024, 128), {"X": random(6, 8, 1024)}, softmax, 4),
    "many rows in a serial loop": Case(
        lambda: rows_in_a_serial_loop(16, 128, 128), {"X": random(7, 32, 128)}, softmax, 4),
    "rows with fewer columns than threads": Case(
        lambda: rows_in_a_serial_loop(8, 64, 128), {"X": random(8, 16, 64)}, softmax, 4),
    "one row at a time": Case(
        lambda: one_row_at_a_time(4, 512, 128), {"X": random(9, 4, 512)}, softmax, 4),
    "one row at a time by a warp": Case(
        lambda: one_row_at_a_time(4, 256, 32), {"X": random(10, 4, 256)}, softmax, 0),
    "rows by warps": Case(
        lambda: rows_of_a_tile(4, 1024, 128), {"X": random(26, 4, 1024)}, softmax, 0),
    "odd rows by warps": Case(
        lambda: rows_of_a_tile(8, 1000, 64), {"X": random(27, 8, 1000)}, softmax, 0),
    "fewer rows than warps": Case(
        lambda: rows_of_a_tile(2, 512, 128), {"X": random(28, 2, 512)}, softmax, 4),
    "maxima within a loop": Case(
        lambda: maxima_within_a_loop(4, 64), {"X": random(11, 16, 256).astype(np.float16)},
        maxima_and_totals, 1),
    "quads in vectors": Case(
        lambda: quads(T.vectorized, 64), {"X": 2 + random(12, 16, 64)}, twice_over_totals, 0),
    "quads in serial loops": Case(
        lambda: quads(T.serial, 128), {"X": 2 + random(13, 16, 64)}, twice_over_totals, 0),
    "columns in parts": Case(
        lambda: columns_in_parts(4), {"X": 2 + random(14, 16, 256)}, twice_over_totals, 0),
    "columns in halves": Case(
        lambda: columns_in_parts(2), {"X": 2 + random(15, 16, 256)}, twice_over_totals, 0),
    "two accumulators": Case(
        two_accumulators,
        {"A": HALVES["A"], "B": random(16, 64, 128).astype(np.float16), "D": HALVES["B"]},
        two_products, 1),
    "pairs of halves beside an accumulator": Case(
        lambda: pairs_beside_an_accumulator("float16"), HALVES,
        minus_its_transposed(np.float16), 3),
    "pairs of floats beside an accumulator": Case(
        lambda: pairs_beside_an_accumulator("float32"), HALVES,
        minus_its_transposed(np.float32), 3),
    "in a branch that is taken": Case(
        in_a_branch, {"X": random(17, 32, 128), "F": np.array([1], np.int32)},
        lambda X, F: X - X.max(axis=1, keepdims=True), 0),
    "in a branch that is not taken": Case(
        in_a_branch, {"X": random(18, 32, 128), "F": np.array([0], np.int32)},
        lambda X, F: X * 3, 0),
    "a vector by rows and columns": Case(
        lambda: rows_and_columns(3), VECTOR,
        lambda V, X: X * np.tile(V, 3)[:, None] + V, 1, added=256),
    "turned in a loop": Case(
        lambda: turned_in_a_loop(3, "float32"), {"X": random(19, 32, 32)},
        lambda X: np.stack([X.T * (k + 1) + X for k in range(3)]), 1, added=4096),
    "halves turned in a loop": Case(
        lambda: turned_in_a_loop(2, "float16"), {"X": random(20, 32, 32).astype(np.float16)},
        lambda X: np.stack([X.T * (k + 1) + X for k in range(2)]), 1, added=2048),
    "reductions of parts of a tile": Case(
        parts_of_a_tile, {"X": random(23, 32, 32)},
        lambda X: X.T + X.max(axis=1, keepdims=True), 3, added=4096),
    "a norm with its rows in a serial loop": Case(
        lambda: norm_of_rows(8, 256), {"X": random(21, 8, 256).astype(np.float16),
                                       "W": random(22, 256)}, normed, 3),
    "heads in shared memory": Case(
        lambda: heads_in_shared_memory(8, 128),
        {"X": random(24, 8, 128).astype(np.float16), "W": random(25, 128).astype(np.float16)},
        turned_heads, 2),
}  # fmt: skip


def added_bytes(func: S.PrimFunc, arch: str) -> int:
    """Bytes of the shared tiles through which fragments go."""
    laid: dict[str, S.PrimFunc] = {}
    lower(func, parse_target(f"cuda -arch={arch}"), Options(), laid.__setitem__)
    made = [node.buffer for node in S.find(laid["infer_layouts"].body, S.Alloc)]
    return sum(buffer.constant_bytes for buffer in made if buffer.attrs.converted
               and buffer.storage == "shared")  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_no_more_barriers_and_tiles_than_needed(name: str) -> None:
    func = CASES[name].make()
    text = tilelang.lower(func, target=SM_90).kernel_source
    assert len(re.findall(r"__syncthreads\(\)|bar_sync", text)) <= CASES[name].barriers
    assert added_bytes(func, "sm_90a") == CASES[name].added
    assert added_bytes(func, "sm_80") == CASES[name].added


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    case = CASES[name]
    expected = case.result(**case.inputs)
    ways = [{"target": "cpu", "execution_backend": "interpret"}]
    if find_cxx() is not None:
        ways.append({"target": SM_90, "execution_backend": "emulator"})
    for way in ways:
        kernel = tilelang.compile(case.make(), out_idx=[-1], **way)
        got = kernel(*case.inputs.values())
        assert np.allclose(np.asarray(got, np.float32), expected, 2e-2, 2e-2), way
