"""Tiles change hands where that is cheapest: barriers, shared accesses and shuffles of whole programs,
bytes of shared tiles that they did not ask for, and results.

Each program has a tile that loops and operations could hand back and forth, or that could get a
layout early and be converted later. The table has upper bounds that may only become smaller; each
program runs as generated CUDA in the emulator, compared with the interpreter.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import INTERPRETER, SM_90A, compiled
from ptx_counts import ptx_counts
from tensor_types import F16, F32, I32

import tilelang.language as T
from tilelang.compiler import lower
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target


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


def in_a_branch() -> Any:
    """A statistic of rows, computed and used in one branch and read in the other."""

    @T.prim_func
    def main(X: F32[2, 32, 128], F: I32[2], Y: F32[2, 32, 128]):
        with T.Kernel(2, threads=128) as b:
            x = T.alloc_fragment((32, 128), "float32")
            top = T.alloc_fragment((32,), "float32")
            T.copy(X[b, 0, 0], x)
            T.fill(top, 3.0)
            if F[b] > 0:
                T.reduce_max(x, top, dim=1)
                for i, j in T.Parallel(32, 128):
                    x[i, j] = x[i, j] - top[i]
            else:
                for i, j in T.Parallel(32, 128):
                    x[i, j] = x[i, j] * top[i]
            T.copy(x, Y[b, 0, 0])

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


def squares(rows: int, columns: int, width: int, kind: str, n: int = 32, named: bool = False,
            threads: int = 128) -> Any:  # fmt: skip
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
                if named:
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


def softmax_through_shared_memory(
    rows: int, columns: int, threads: int, kind: str = "float32", parts: int = 1
) -> Any:
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


# The most barriers, loads and stores of shared memory and shuffles of its PTX, and bytes of shared
# tiles that it has not asked for.
CASES: dict[str, tuple[Any, tuple[int, int, int, int], int]] = {
    "rows of halves in a serial loop": (rows_in_a_serial_loop(8, 256, 256, "float16"), (0, 0, 0, 10), 0),
    "rows with fewer columns than threads": (rows_in_a_serial_loop(8, 64, 128), (0, 0, 0, 8), 0),
    "one row at a time": (one_row_at_a_time(4, 512, 128), (2, 2, 2, 10), 0),
    "one row at a time by a warp": (one_row_at_a_time(4, 256, 32), (0, 0, 0, 10), 0),
    "pairs of halves beside an accumulator": (pairs_beside_an_accumulator("float16"), (2, 32, 16, 0), 0),
    "in a branch": (in_a_branch(), (0, 0, 0, 17), 0),
    "turned in a loop": (turned_in_a_loop(3, "float32"), (1, 20, 4, 0), 4096),
    "floats squared in fours": (squares(32, 64, 4, "float32"), (2, 32, 0, 4), 0),
    "halves squared by name": (squares(64, 64, 16, "float16", named=True), (1, 16, 0, 4), 0),
    "halves squared in fours": (squares(64, 64, 4, "float16"), (4, 50, 2, 4), 8192),
    "more rows than a warpgroup has": (squares(128, 64, 8, "float16", n=64, threads=256), (1, 16, 0, 4), 0),
    "softmax of halves": (softmax_through_shared_memory(16, 256, 128, "float16"), (2, 4, 4, 20), 0),
    "softmax of many short rows": (softmax_through_shared_memory(64, 32, 128), (2, 4, 4, 24), 0),
    "softmax in parts of rows": (softmax_through_shared_memory(8, 256, 128, parts=4), (2, 4, 4, 20), 0),
    "maxima of rows in tiles": (scans(32, 128, 64, "float32", "max"), (3, 16, 16, 0), 0),
    "a recurrence of rows in tiles": (scans(64, 64, 32, "float16", "decay", 64), (5, 8, 8, 0), 0),
    "sums of rows without shared tiles": (scans(16, 256, 64, "float32", copied=False), (2, 66, 66, 0), 8192),
    "sums of as many rows as threads": (scans(128, 64, 32, "float16"), (5, 8, 8, 0), 0),
    "rows over warps by the odd": (norms(7, 300, 160), (1, 5, 1, 9), 0),
    "rows of three times sixteen threads": (norms(3, 35, 96), (0, 0, 0, 5), 0),
}  # fmt: skip


def added_bytes(func: S.PrimFunc, arch: str) -> int:
    """Bytes of the shared tiles through which fragments go."""
    laid: dict[str, S.PrimFunc] = {}
    lower(func, parse_target(f"cuda -arch={arch}"), Options(), laid.__setitem__)
    made = [node.buffer for node in S.find(laid["infer_layouts"].body, S.Alloc)]
    return sum(buffer.constant_bytes for buffer in made if buffer.attrs.converted
               and buffer.storage == "shared")  # fmt: skip


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("name", CASES)
def test_no_more_than_the_table_says(name: str) -> None:
    func, most, added = CASES[name]
    found = ptx_counts(func)
    assert all(count <= limit for count, limit in zip(found.values(), most, strict=True)), found
    assert added_bytes(func, "sm_90a") == added_bytes(func, "sm_80") == added


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    func = CASES[name][0]
    rng = np.random.default_rng(1)
    *inputs, result = (np.zeros([int(e) for e in b.shape], str(b.dtype)) for b in func.buffers)
    for array in inputs:
        array[...] = np.arange(array.size) % 2 if array.dtype == np.int32 else (
            0.5 + rng.random(array.shape))  # fmt: skip
    wanted, found = result.copy(), result.copy()
    compiled(func, INTERPRETER)(*inputs, wanted)
    compiled(func, SM_90A)(*inputs, found)
    np.testing.assert_allclose(found.astype(np.float32), wanted.astype(np.float32), 2e-2, 2e-2)


def test_loops_over_tensors_that_may_be_one_keep_their_order() -> None:
    @T.prim_func
    def main(X: F32[5, 64], Y: F32[5, 64]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((4, 64), "float32")
            T.copy(X[1:5, 0:64], x)
            for i in T.serial(4):
                for j in T.Parallel(64):
                    Y[i + 1, j] = x[i, j] + X[i, j]

    given = np.random.default_rng(24).integers(-9, 9, (5, 64)).astype(np.float32)
    wanted = given.copy()
    for i in range(4):
        wanted[i + 1] = given[i + 1] + wanted[i]
    compiled(main, SM_90A)(given, given)
    np.testing.assert_array_equal(given, wanted)
