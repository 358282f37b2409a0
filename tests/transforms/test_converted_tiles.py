"""Shared tiles that convert elements on the way to registers: which are in registers themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import CPU, SM_80, SM_90A, agrees, compiled
from tensor_types import F32

import tilelang.language as T


def weighted(
    source: str = "float16", tile: str = "float32", held: str = "float32", twice: bool = False,
    half: bool = False,
) -> Any:  # fmt: skip
    """Sums of weighted rows, which a part of the block computes if ``half``."""

    @T.prim_func
    def kernel(X: T.Tensor((8, 4, 256), source), W: F32[4], Y: F32[8, 256]):
        with T.Kernel(8, threads=96) as bx:
            w = T.alloc_shared((4,), "float32")
            T.copy(W, w)
            if T.get_thread_binding() >= (32 if half else 0):
                for part in T.Pipelined(2, num_stages=2):
                    x = T.alloc_shared((4, 128), tile)
                    r = T.alloc_fragment((4, 128), held)
                    y = T.alloc_fragment((128,), "float32")
                    T.copy(X[bx, 0, part * 128], x)
                    T.copy(x, r)
                    T.clear(y)
                    for i in T.serial(4):
                        for j in T.Parallel(128):
                            y[j] += w[i] * r[i, j]
                    if twice:
                        for j in T.Parallel(128):
                            y[j] += x[0, 127 - j]
                    T.copy(y, Y[bx, part * 128])

    return kernel


def given(source: str = "float16") -> tuple[Any, ...]:
    random = np.random.default_rng(6)
    x = random.integers(-4, 5, (8, 4, 256)).astype(source)
    return x, np.arange(1, 5, dtype=np.float32), np.zeros((8, 256), np.float32)


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("source", "tile"), [("float16", "float32"), ("int8", "float16")])
def test_a_tile_that_only_passes_on_what_it_converts_is_in_registers(
    source: str, tile: str, half: bool
) -> None:
    func, arrays = weighted(source, tile, tile, half=half), given(source)
    agrees(func, arrays, on=(CPU, SM_80, SM_90A))
    text = compiled(func, SM_90A).get_kernel_source()
    assert "const x =" not in text
    assert text.count("__syncthreads()") + text.count("tl_bar_sync(") == 1  # for the weights


@pytest.mark.parametrize(
    "why",
    [{"tile": "float16"}, {"tile": "float32", "held": "float16"}, {"twice": True}],
    ids=["copied by a unit", "converted twice", "read twice"],
)
def test_other_tiles_are_shared(why: dict[str, Any]) -> None:
    func, arrays = weighted(**why), given()
    agrees(func, arrays, on=(SM_90A,))
    assert "const x =" in compiled(func, SM_90A).get_kernel_source()
