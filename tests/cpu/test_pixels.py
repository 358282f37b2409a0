"""Convolutions of each channel that take several pixels at a time, compared with plain numpy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

WIDTHS = (16, 64)  # bytes of a vector
TYPES: dict[str, Any] = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


def depthwise(
    rows: int, columns: int, channels: int, taps: int, stride: int = 1, dilation: int = 1,
    tile: int = 0, dtype: str = "float32",
) -> Any:  # fmt: skip
    """Two pictures, channels last; a block has ``tile`` pixels of a row, or all."""
    height = (rows - 1) * stride + (taps - 1) * dilation + 1
    width = (columns - 1) * stride + (taps - 1) * dilation + 1
    pixels = tile or columns

    @T.prim_func
    def kernel(X: T.Tensor((2, height, width, channels), dtype),
               W: T.Tensor((taps, taps, channels), dtype),
               Y: T.Tensor((2, rows, columns, channels), dtype)):  # fmt: skip
        with T.Kernel(T.ceildiv(columns, pixels), rows, 2, threads=32) as (b, i, n):
            y = T.alloc_fragment((pixels, channels), "float32")
            T.clear(y)
            for r, s in T.grid(taps, taps):
                for j, c in T.Parallel(pixels, channels):
                    y[j, c] += T.cast(
                        X[
                            n,
                            i * stride + r * dilation,
                            (b * pixels + j) * stride + s * dilation,
                            c,
                        ],
                        "float32",
                    ) * T.cast(W[r, s, c], "float32")
            T.copy(y, Y[n, i, b * pixels, 0])

    return kernel


def expected(x: np.ndarray, w: np.ndarray, y: np.ndarray, stride: int, dilation: int) -> np.ndarray:
    """Tap after tap in float32, as the program has it."""
    total = np.zeros(y.shape, np.float64)
    rows, columns = y.shape[1:3]
    for r in range(w.shape[0]):
        for s in range(w.shape[1]):
            at = x[:, r * dilation :: stride, s * dilation :: stride][:, :rows, :columns]
            total += at.astype(np.float64) * w[r, s].astype(np.float64)
    return total


CASES = {
    "pairs of rows": dict(rows=32, columns=12, channels=32, taps=3),
    "a pixel is left over": dict(rows=5, columns=13, channels=48, taps=3),
    "channels that no vector divides": dict(rows=16, columns=9, channels=37, taps=3),
    "five taps": dict(rows=16, columns=10, channels=16, taps=5),
    "seven taps": dict(rows=3, columns=9, channels=16, taps=7),
    "every second pixel": dict(rows=16, columns=11, channels=32, taps=3, stride=2),
    "windows with gaps": dict(rows=16, columns=11, channels=32, taps=3, dilation=2),
    "tiles that end outside": dict(rows=16, columns=13, channels=32, taps=3, tile=8),
    "tiles, and every second pixel": dict(rows=8, columns=9, channels=20, taps=3, stride=2, tile=4),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_numpy(case: str, dtype: str, width: int) -> None:
    sizes: dict[str, Any] = CASES[case]
    func = depthwise(**sizes, dtype=dtype)
    kernel = tilelang.compile(func, target="cpu", compile_flags=[f"-DTL_VECTOR_BYTES={width}"])
    assert "at a time (register tiling)" in kernel.explain()
    rng = np.random.default_rng(0)
    x, w, y = (
        rng.standard_normal([int(n) for n in param.shape]).astype(TYPES.get(dtype, dtype))
        for param in func.buffers
    )
    kernel(x, w, y)
    wanted = expected(x, w, y, sizes.get("stride", 1), sizes.get("dilation", 1))
    tolerance = {"float32": 2e-6, "float16": 2e-3, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(y.astype(np.float64), wanted, rtol=tolerance, atol=tolerance * 4)
