"""Serial loops over tiles are pipelined where memory bounds them, and mean what they meant."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import GPUS, holds
from tensor_types import F32

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


def is_pipelined(func) -> bool:
    return "stages:" in str(tilelang.compile(func, target=SM_90).explain())


@pytest.mark.parametrize(
    "case",
    [
        {"dtype": "float32", "tile": 1024},
        {"threads": 256, "tile": 4096, "dtype": "int8", "columns": 16384},
        {"columns": 16384, "step": 2},
        {"columns": 10000, "tile": 2500},
    ],
    ids=str,
)
def test_loops_that_wait_for_memory_are_pipelined(case) -> None:
    func, dtype = sums(**case), case.get("dtype", "float16")
    assert is_pipelined(func)
    shape = tuple(int(n) for n in func.params[0].shape)
    x = np.random.default_rng(1).integers(-4, 4, shape).astype(dtype)
    tile, step = case.get("tile", 2048), case.get("step", 1)
    wanted = x.reshape(shape[0], -1, tile)[:, ::step].astype("float32").sum((1, 2))
    holds(func, (x, np.zeros(shape[0], "float32")), wanted, on=GPUS)


def test_small_tiles_and_grids_that_fill_the_device_need_no_versions() -> None:
    assert not is_pipelined(sums(tile=1024))
    assert not is_pipelined(sums(rows=132, blocks=16, tile=2048))
