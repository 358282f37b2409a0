"""Flat loops become rows, loops across borders pieces: the same results, and vectors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tilelang.language as T

from .modes import agree


def halves(form: str, dtype: str, rows: int, columns: int, block: int) -> Any:
    """Rows and columns are quotients and remainders of the number of an element; or the same by two
    branches, with int64 and halves of a row in the order of memory."""
    half = columns // 2

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), dtype), B: T.Tensor((half,), dtype),
               Y: T.Tensor((rows, columns), dtype)):  # fmt: skip
        with T.Kernel(rows * columns // block, threads=64) as b:
            for t in T.Parallel(block):
                at = T.cast(b, "int64" if form == "joined" else "int32") * block + t
                row = at // columns
                d = at % columns
                if form == "flat":
                    other = T.if_then_else(d < half, d + half, d - half)
                    Y[row, d] = X[row, other] + B[d % half]
                elif d >= half:
                    Y[row, d] = X[row, d - half] + B[d - half]
                else:
                    Y[row, d] = X[row, d + half] + B[d]

    return kernel


SIZES = [(64, 64, 512), (12, 96, 384), (6, 100, 200), (4, 48, 16), (40, 32, 64)]


@pytest.mark.share(6)
@pytest.mark.parametrize("form", ["flat", "joined"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_halves_of_rows_are_swapped(form: str, dtype: str, sizes: tuple[int, int, int]) -> None:
    rows, columns, block = sizes
    rng = np.random.default_rng(rows)
    x, b = (rng.integers(-50, 50, shape).astype(dtype) for shape in ((rows, columns), columns // 2))
    text = agree(halves(form, dtype, *sizes), x, b, np.zeros_like(x))
    if block % columns == 0 and columns // 2 % 16 == 0:
        block_text = text.split("kernel_block(")[1].split("kernel_run(")[0]
        assert "TL_STORE(" in block_text
        assert "TL_EACH" not in block_text
        assert "TL_SELECT" not in block_text


def normed(dtype: str, form: str, images: int, channels: int, size: int, block: int) -> Any:
    """A bias of each channel added to flat pixels of rows that no block ends with."""
    shape = (images, channels, size, size)

    @T.prim_func
    def kernel(X: T.Tensor(shape, dtype), B: T.Tensor((channels,), dtype),
               Y: T.Tensor(shape, dtype)):  # fmt: skip
        with T.Kernel(T.ceildiv(images * channels * size * size, block), threads=64) as b:
            for t in T.Parallel(block):
                at = b * block + t
                n = at // (size * size * channels)
                c = at // (size * size) % channels
                h = at // size % size
                w = at % size
                if form == "turned":
                    if n < images:
                        Y[n, c, w, h] = X[n, c, h, w] + B[c]
                elif form == "named":
                    Y[n, c, h, w] = X[n, c, h, w] + B[c]
                elif form == "mirrored":
                    y = T.abs(size - 4 - T.abs(h - 3))
                    Y[n, c, h, w] = X[n, c, y, size - 1 - T.abs(size - 4 - T.abs(w - 3))] + B[c]
                else:
                    Y[n, c, h, w] = X[n, c, h, (w + 1) % size] + B[c]

    return kernel


@pytest.mark.share(6)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", ["named", "moved", "turned", "mirrored"])
@pytest.mark.parametrize(
    "sizes", [(2, 3, 56, 256), (1, 5, 28, 100), (2, 2, 18, 128), (3, 1, 33, 64), (1, 2, 20, 48)]
)
def test_blocks_end_within_rows(dtype: str, form: str, sizes: tuple[int, int, int, int]) -> None:
    images, channels, size, block = sizes
    rng = np.random.default_rng(size)
    shape = (images, channels, size, size)
    x, b = (rng.integers(-50, 50, s).astype(dtype) for s in (shape, channels))
    text = agree(normed(dtype, form, *sizes), x, b, np.zeros_like(x))
    if form in ("named", "mirrored"):
        assert "TL_EACH" not in text.split("kernel_block(")[1].split("kernel_run(")[0]


def test_remainders_of_values_that_the_loop_changes_split_no_loop() -> None:
    @T.prim_func
    def kernel(X: T.Tensor((96,), "int8"), Y: T.Tensor((96,), "int64")):
        with T.Kernel(3, threads=96) as b:
            x = T.alloc_fragment((32,), "int8")
            T.copy(X[b * 32 : b * 32 + 32], x)
            for i in T.Parallel(32):
                x[i] = (x[i] + i) % 16
            for i in T.Parallel(32):
                Y[b * 32 + i] = x[i]

    x = np.random.default_rng(3).integers(-90, 90, 96).astype(np.int8)
    agree(kernel, x, np.zeros(96, np.int64))


def padded_rows(rows: int, width: int, pad: int, dtype: str, form: str) -> Any:
    """A normal distribution's rows, in tiles of a power of two."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, width), dtype), Y: T.Tensor((3, rows), "float32"),
               Z: T.Tensor((rows, width), dtype)):  # fmt: skip
        with T.Kernel(T.ceildiv(rows, 4), threads=64) as b:
            x = T.alloc_fragment((4, pad), "float32")
            sums = T.alloc_fragment((3, 4), "float32")
            total = T.alloc_fragment((4,), "float32")
            T.copy(X[b * 4 : b * 4 + 4, 0:pad], x)
            T.reduce_sum(x, total, dim=1)
            T.copy(total, sums[0, 0])
            for i, j in T.Parallel(4, pad):
                if form == "chosen":
                    x[i, j] = T.if_then_else(j < width, x[i, j] * 2 + j, 0)
                elif form == "branch":
                    if j < width:
                        x[i, j] = x[i, j] * 2 + j
                else:
                    x[i, j] = T.if_then_else(j >= width, -1, x[i, j])
            T.reduce_max(x, total, dim=1)
            T.copy(total, sums[1, 0])
            T.reduce_min(x, total, dim=1)
            T.copy(total, sums[2, 0])
            T.copy(sums, Y[0, b * 4])
            T.copy(x, Z[b * 4 : b * 4 + 4, 0:pad])

    return kernel


@pytest.mark.share(6)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", ["chosen", "branch", "beyond"])
@pytest.mark.parametrize(
    ("rows", "width", "pad"), [(5, 77, 128), (4, 1, 16), (9, 100, 112), (3, 31, 32), (2, 64, 256)]
)
def test_rows_are_shorter_than_their_tile(
    rows: int, width: int, pad: int, form: str, dtype: str
) -> None:
    x = np.random.default_rng(width).integers(-9, 9, (rows, width)).astype(dtype)
    func = padded_rows(rows, width, pad, dtype, form)
    agree(func, x, np.zeros((3, rows), "float32"), np.zeros_like(x))


@pytest.mark.parametrize("relation", ["ge", "gt", "eq"])
@pytest.mark.parametrize("distance", [1, 2, 16])
def test_pieces_drop_what_they_never_access(relation: str, distance: int) -> None:
    """A condition that a piece refutes, behind one that it does not know."""
    compared = getattr(operator, relation)

    @T.prim_func
    def kernel(X: T.Tensor((80,), "int32"), Y: T.Tensor((80,), "int32")):
        with T.Kernel(1, threads=80):
            x = T.alloc_shared((80,), "int32")
            T.copy(X, x)
            for j in T.Parallel(80):
                Y[j] = 0
                if j % 3 == 1 and compared(j, distance):
                    if x[j] != x[j - distance]:
                        Y[j] = x[j - distance]

    x = np.random.default_rng(distance).integers(0, 3, 80).astype("int32")
    agree(kernel, x, np.full(80, 9, np.int32))


def test_pieces_of_one_iteration_have_names_of_their_own() -> None:
    @T.prim_func
    def kernel(X: T.Tensor((3, 8), "int32"), Y: T.Tensor((3, 2), "int32")):
        with T.Kernel(2, threads=4) as b:
            for i, j in T.Parallel(2, 2):
                if b * 2 + i < 3:
                    total = T.alloc_var("int32", init=0)
                    for k in T.serial(2):
                        total += X[b * 2 + i, T.abs(j - 1) + k]
                    Y[b * 2 + i, j] = total

    agree(kernel, np.arange(24, dtype=np.int32).reshape(3, 8), np.zeros((3, 2), np.int32))


def windows(
    form: str, stride: int, taps: int, rows: int, columns: int, tile: int, dtype: str
) -> Any:
    """The largest element of each window, whose borders are outside of the picture."""
    height, width = rows * stride, columns * stride

    @T.prim_func
    def kernel(X: T.Tensor((height, width), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(columns, tile), rows // 4, threads=32) as (b, a):
            for i, j in T.Parallel(4, tile):
                most = T.alloc_var(dtype, init=-100)
                for r, s in T.grid(taps, taps):
                    y = (a * 4 + i) * stride + r - taps // 2
                    x = (b * tile + j) * stride + s - taps // 2
                    if form == "clamped":
                        most = T.max(most, X[T.clamp(y, 0, height - 1), T.clamp(x, 0, width - 1)])
                    else:
                        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
                        most = T.max(most, T.if_then_else(inside, X[y, x], -9))
                Y[a * 4 + i, b * tile + j] = most

    @T.prim_func
    def reduced(X: T.Tensor((height, width), dtype), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(rows, threads=32) as i:
            window = T.alloc_fragment((columns, taps * taps), dtype)
            most = T.alloc_fragment((columns,), dtype)
            for j, k in T.Parallel(columns, taps * taps):
                y = i * stride + k // taps - taps // 2
                x = j * stride + k % taps - taps // 2
                inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
                window[j, k] = T.if_then_else(inside, X[y, x], -9)
            T.reduce_max(window, most, dim=1)
            T.copy(most, Y[i, 0])

    return reduced if form == "reduced" else kernel


@pytest.mark.share(3)
@pytest.mark.parametrize("form", ["padded", "clamped", "reduced"])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(("stride", "taps"), [(1, 3), (1, 5), (2, 3), (3, 2), (4, 7)])
@pytest.mark.parametrize("sizes", [(4, 64, 64), (12, 96, 32), (12, 41, 16)])
def test_windows_beyond_the_borders(
    form: str, stride: int, taps: int, dtype: str, sizes: tuple[int, int, int]
) -> None:
    func = windows(form, stride, taps, *sizes, dtype)
    shapes = [[int(n) for n in param.shape] for param in func.buffers]
    x = np.random.default_rng(taps).integers(-9, 9, shapes[0]).astype(dtype)
    source = agree(func, x, np.zeros(shapes[1], dtype))
    assert "TL_LANES" in source
    if form == "reduced" or sizes[1] == sizes[2]:  # all but the borders has no conditions
        assert "TL_EACH" not in source
