"""Serial loops over tiles are pipelined where memory bounds them, and mean what they meant."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import GPUS, holds
from tensor_types import F32, I32

import tilelang
import tilelang.language as T

SM_90 = "cuda -arch=sm_90a"


def sums(rows=6, columns=8192, tile=2048, dtype="float16", threads=128, blocks=1, step=1):
    """Sums over tiles in shared memory; ``blocks`` copies of each row's block."""

    @T.prim_func
    def main(X: T.Tensor((rows, columns), dtype), Y: F32[rows]):
        with T.Kernel(rows, blocks, threads=threads) as (b, _):
            s = T.alloc_shared((tile,), dtype)
            acc = T.alloc_fragment((tile,), "float32")
            y = T.alloc_fragment((1,), "float32")
            T.clear(acc)
            for t in T.serial(0, columns // tile, step):
                T.copy(X[b, t * tile : (t + 1) * tile], s)
                for j in T.Parallel(tile):
                    acc[j] += T.cast(s[j], "float32")
            T.reduce_sum(acc, y, dim=0)
            Y[b] = y[0]

    return main


def shifted(columns=8192, tile=1024):
    """A loop whose tile is read from what an earlier round has written: it stays serial."""

    @T.prim_func
    def main(X: F32[4, columns], Y: F32[4, columns]):
        with T.Kernel(4, threads=128) as b:
            s = T.alloc_shared((tile,), "float32")
            T.copy(X[b, 0:tile], Y[b, 0:tile])
            for t in T.serial(1, columns // tile):
                T.copy(Y[b, (t - 1) * tile : t * tile], s)
                for j in T.Parallel(tile):
                    Y[b, t * tile + j] = s[j] + X[b, t * tile + j]

    return main


def last_tile(columns=8192, tile=1024):
    """The tile is used behind the loop: what its last round has left."""

    @T.prim_func
    def main(X: F32[4, columns], Y: F32[4, tile]):
        with T.Kernel(4, threads=128) as b:
            s = T.alloc_shared((tile,), "float32")
            acc = T.alloc_fragment((tile,), "float32")
            T.clear(acc)
            for t in T.serial(columns // tile):
                T.copy(X[b, t * tile : (t + 1) * tile], s)
                for j in T.Parallel(tile):
                    acc[j] += s[j]
            for j in T.Parallel(tile):
                Y[b, j] = acc[j] * s[j]

    return main


def conditional(columns=8192, tile=1024):
    """Rows of different lengths: the number of rounds is loaded, and blocks have a condition."""

    @T.prim_func
    def main(X: F32[8, columns], N: I32[8], Y: F32[8, tile]):
        with T.Kernel(8, threads=128) as b:
            s = T.alloc_shared((tile,), "float32")
            acc = T.alloc_fragment((tile,), "float32")
            T.clear(acc)
            for t in T.serial(T.ceildiv(N[b], tile)):
                if t % 2 == 0:
                    T.copy(X[b, t * tile : (t + 1) * tile], s)
                    for j in T.Parallel(tile):
                        acc[j] += s[j]
            T.copy(acc, Y[b, 0:tile])

    return main


def two_loops(columns=8192, tile=1024):
    """A loop in a loop: the inner one loads a tile of one tensor for each of the other's."""

    @T.prim_func
    def main(A: I32[3, columns], B: I32[columns], Y: I32[3, tile]):
        with T.Kernel(3, threads=64) as n:
            a = T.alloc_shared((tile,), "int32")
            b = T.alloc_shared((tile,), "int32")
            acc = T.alloc_fragment((tile,), "int32")
            T.clear(acc)
            for i in T.serial(columns // tile):
                T.copy(A[n, i * tile : (i + 1) * tile], a)
                for k in T.serial(columns // tile):
                    T.copy(B[k * tile : (k + 1) * tile], b)
                    for j in T.Parallel(tile):
                        acc[j] += a[j] * b[j]
            T.copy(acc, Y[n, 0:tile])

    return main


def is_pipelined(func) -> bool:
    return "stages:" in str(tilelang.compile(func, target=SM_90).explain())


CASES = [
    {},
    {"dtype": "bfloat16", "rows": 3},
    {"dtype": "float32", "tile": 1024},
    {"threads": 256, "tile": 4096, "dtype": "int8", "columns": 16384},
    {"columns": 16384, "step": 2},
    {"columns": 10000, "tile": 2500},
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_loops_that_wait_for_memory_are_pipelined(case) -> None:
    assert is_pipelined(sums(**case))


@pytest.mark.parametrize("case", [case for case in CASES if "bf" not in str(case)], ids=str)
def test_sums_are_those_of_numpy(case) -> None:
    func = sums(**case)
    shape = tuple(int(n) for n in func.params[0].shape)
    x = np.random.default_rng(1).integers(-4, 4, shape).astype(case.get("dtype", "float16"))
    tile, step = case.get("tile", 2048), case.get("step", 1)
    wanted = x.reshape(shape[0], -1, tile)[:, ::step].astype("float32").sum((1, 2))
    holds(func, (x, np.zeros(shape[0], "float32")), wanted, on=GPUS)


def test_small_tiles_and_grids_that_fill_the_device_need_no_versions() -> None:
    assert not is_pipelined(sums(tile=1024))
    assert not is_pipelined(sums(rows=132, blocks=16, tile=2048))


def test_what_depends_on_earlier_rounds_stays_serial() -> None:
    assert not is_pipelined(shifted())
    x = np.random.default_rng(2).integers(-4, 4, (4, 8192)).astype("float32")
    wanted = x.reshape(4, 8, 1024).cumsum(1).reshape(4, 8192)
    holds(shifted(), (x, np.zeros_like(x)), wanted, on=GPUS)


def test_a_tile_that_is_used_later_keeps_its_contents() -> None:
    x = np.random.default_rng(3).integers(-4, 4, (4, 8192)).astype("float32")
    parts = x.reshape(4, 8, 1024)
    y = np.zeros((4, 1024), "float32")
    holds(last_tile(), (x, y), parts.sum(1) * parts[:, -1], on=GPUS)


def test_rounds_under_conditions_and_of_any_number() -> None:
    x = np.random.default_rng(4).integers(-4, 4, (8, 8192)).astype("float32")
    n = np.array([0, 1, 1024, 1025, 2400, 4096, 8191, 8192], "int32")
    parts = x.reshape(8, 8, 1024)
    rounds = -(-n // 1024)
    wanted = np.stack([parts[b, : rounds[b] : 2].sum(0) for b in range(8)])
    holds(conditional(), (x, n, np.zeros((8, 1024), "float32")), wanted, on=GPUS)


def test_loops_in_loops() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(-4, 4, (3, 8192)).astype("int32"), rng.integers(-4, 4, 8192).astype("int32")
    wanted = a.reshape(3, 8, 1024).sum(1) * b.reshape(8, 1024).sum(0)
    holds(two_loops(), (a, b, np.zeros((3, 1024), "int32")), wanted, on=GPUS)
