"""What needs no compilation: the compiler refuses what is pruned, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from gemm_program import gemm_program

import tilelang.language as T
from tilelang.autotuner.prune import reason_to_skip, reason_to_spill
from tilelang.compiler import compile
from tilelang.errors import SharedMemoryLimitError, TileError
from tilelang.options import Options
from tilelang.target import parse_target


def product(m: int, n: int, k: int, stages: int, threads: int) -> Any:
    return gemm_program(1024, 1024, 1024, (m, n, k), stages, threads)


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((128, 128, 64, 4, 256), None),
        ((128, 128, 64, 5, 256), None),  # exactly 160 KiB
        ((128, 128, 64, 6, 256), "at least 196608 bytes of shared memory, a block can have 166912"),
        ((256, 256, 256, 0, 256), "256 registers of accumulators, a thread can have 255"),
        ((128, 128, 32, 2, 2048), "2048 threads, a block can have 1024"),
    ],
)
def test_reasons_on_a_gpu(shape: tuple[int, ...], reason: str | None) -> None:
    target = parse_target("cuda -arch=sm_80")
    func = product(*shape)
    assert reason_to_skip(func, target) == reason
    assert reason_to_skip(func, parse_target("cpu")) is None
    if reason is None:
        compile(func, target, Options())
    elif "accumulators" not in reason:  # those would spill
        with pytest.raises(TileError) as error:
            compile(func, target, Options())
        assert isinstance(error.value, SharedMemoryLimitError) == ("shared" in reason)


def normalized(rows: int, threads: int, again: bool = False) -> Any:
    """Rows times their sums; ``again`` reads them once more instead of keeping them."""

    @T.prim_func
    def normalized(X: T.Tensor((64, 4096), "bfloat16"), Y: T.Tensor((64, 4096), "bfloat16")):
        with T.Kernel(64 // rows, threads=threads) as bx:
            x = T.alloc_fragment((rows, 4096), "float32")
            squares = T.alloc_fragment((rows, 4096), "float32")
            scale = T.alloc_fragment((rows,), "float32")
            T.copy(X[bx * rows, 0], x)
            for i, j in T.Parallel(rows, 4096):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, scale, dim=1)
            if again:
                T.copy(X[bx * rows, 0], x)
            for i, j in T.Parallel(rows, 4096):
                x[i, j] = x[i, j] * scale[i]
            T.copy(x, Y[bx * rows, 0])

    return normalized


@pytest.mark.parametrize(
    ("shape", "reason"),
    [
        ((4, 128), None),  # 128 registers: squares are gone when the sum is there
        ((8, 128), "256 registers of tiles are alive at a time, a thread can have 255"),
        ((8, 128, True), None),  # nothing of the tile is needed behind the sum
    ],
)
def test_tiles_live_across_a_reduction_count_as_registers(
    shape: tuple[Any, ...], reason: str | None
) -> None:
    func = normalized(*shape)
    assert reason_to_spill(func, parse_target("cuda -arch=sm_90a")) == reason
    assert reason_to_spill(func, parse_target("cpu")) is None
