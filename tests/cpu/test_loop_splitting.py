"""Flat loops become rows, loops across borders pieces: the same results, and vectors."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T


def flat(dtype: str, rows: int, columns: int, block: int) -> Any:
    """Rows and columns are quotients and remainders of the number of an element."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), dtype), B: T.Tensor((columns // 2,), dtype),
               Y: T.Tensor((rows, columns), dtype)):  # fmt: skip
        with T.Kernel(rows * columns // block, threads=64) as b:
            for t in T.Parallel(block):
                at = b * block + t
                d = at % columns
                other = T.if_then_else(d < columns // 2, d + columns // 2, d - columns // 2)
                Y[at // columns, d] = X[at // columns, other] + B[d % (columns // 2)]

    return kernel


def shifted(dtype: str, rows: int, columns: int, block: int) -> Any:
    """The same around a corner: `d` turns back at the end of a row."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), dtype), B: T.Tensor((columns // 2,), dtype),
               Y: T.Tensor((rows, columns), dtype)):  # fmt: skip
        with T.Kernel(rows * columns // block, threads=64) as b:
            for i, d in T.Parallel(block // columns, columns):
                row = b * (block // columns) + i
                Y[row, d] = X[row, (d + columns // 2) % columns] + B[d % (columns // 2)]

    return kernel


def joined(dtype: str, rows: int, columns: int, block: int) -> Any:
    """The same by two branches, with int64 and halves of a row in the order of memory."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns), dtype), B: T.Tensor((columns // 2,), dtype),
               Y: T.Tensor((rows, columns), dtype)):  # fmt: skip
        with T.Kernel(rows * columns // block, threads=64) as b:
            for t in T.Parallel(block):
                at = T.cast(b, "int64") * block + t
                row = at // columns
                d = at % columns
                if d >= columns // 2:
                    Y[row, d] = X[row, d - columns // 2] + B[d - columns // 2]
                else:
                    Y[row, d] = X[row, d + columns // 2] + B[d]

    return kernel


SIZES = [(64, 64, 512), (12, 96, 384), (6, 100, 200), (4, 48, 16), (40, 32, 64)]


# Blocks of ``shifted`` are whole rows.
CASES = [
    (make, sizes) for make in (flat, shifted, joined) for sizes in SIZES
    if make is not shifted or sizes[2] % sizes[1] == 0
]  # fmt: skip


@pytest.mark.parametrize(("make", "sizes"), CASES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_halves_of_rows_are_swapped(make: Any, dtype: str, sizes: tuple[int, int, int]) -> None:
    rows, columns, block = sizes
    rng = np.random.default_rng(rows)
    x, b = (rng.integers(-50, 50, shape).astype(dtype) for shape in ((rows, columns), columns // 2))
    y = np.zeros_like(x)
    kernel = tilelang.compile(make(dtype, *sizes), target="cpu")
    kernel(x, b, y)
    half = columns // 2
    np.testing.assert_array_equal(y, np.concatenate([x[:, half:] + b, x[:, :half] + b], 1))
    if block % columns == 0 and half % 16 == 0:
        block_text = kernel.get_kernel_source().split("kernel_block(")[1].split("kernel_run(")[0]
        assert "TL_STORE(" in block_text
        assert "TL_EACH" not in block_text
        assert "TL_SELECT" not in block_text


@pytest.mark.parametrize("first", [0, 1, 31, 63])
@pytest.mark.parametrize("relation", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_a_border_is_where_the_condition_changes(relation: str, first: int) -> None:
    """Each comparison, at both ends of a loop and within it, counted up and down."""
    compared = getattr(operator, relation)

    @T.prim_func
    def kernel(X: T.Tensor((64,), "int32"), Y: T.Tensor((2, 64), "int32")):
        with T.Kernel(1, threads=1):
            for j in T.Parallel(64):
                Y[0, j] = T.if_then_else(compared(j, first), X[63 - j], -1)
                Y[1, j] = T.if_then_else(compared(63 - j, first), X[j], -2)

    x, y = np.arange(64, dtype="int32"), np.zeros((2, 64), "int32")
    tilelang.compile(kernel, target="cpu")(x, y)
    np.testing.assert_array_equal(y[0], np.where(compared(x, first), x[::-1], -1))
    np.testing.assert_array_equal(y[1], np.where(compared(x[::-1], first), x, -2))


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
                else:
                    Y[n, c, h, w] = X[n, c, h, (w + 1) % size] + B[c]

    return kernel


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", ["named", "moved", "turned"])
@pytest.mark.parametrize(
    "sizes", [(2, 3, 56, 256), (1, 5, 28, 100), (2, 2, 18, 128), (3, 1, 33, 64), (1, 2, 20, 48)]
)
def test_blocks_end_within_rows(dtype: str, form: str, sizes: tuple[int, int, int, int]) -> None:
    images, channels, size, block = sizes
    rng = np.random.default_rng(size)
    shape = (images, channels, size, size)
    x, b = (rng.integers(-50, 50, s).astype(dtype) for s in (shape, channels))
    y = np.zeros_like(x)
    kernel = tilelang.compile(normed(dtype, form, *sizes), target="cpu")
    kernel(x, b, y)
    added = {"named": x, "moved": np.roll(x, -1, 3), "turned": x.transpose(0, 1, 3, 2)}[form]
    np.testing.assert_array_equal(y, added + b[:, None, None])
    if form == "named":
        text = kernel.get_kernel_source().split("kernel_block(")[1].split("kernel_run(")[0]
        assert "TL_EACH" not in text


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize(("channels", "size", "block"), [(3, 28, 196), (2, 20, 80), (2, 33, 99)])
def test_taps_of_flat_pixels_are_loops_in_vectors(
    dtype: str, channels: int, size: int, block: int
) -> None:
    @T.prim_func
    def kernel(X: T.Tensor((channels, size, size), dtype), W: T.Tensor((channels, 9), dtype),
               Y: T.Tensor((channels, size, size), dtype)):  # fmt: skip
        with T.Kernel(channels * size * size // block, threads=64) as b:
            for t in T.Parallel(block):
                at = b * block + t
                x = at % size
                y = at // size % size
                c = at // (size * size)
                total = T.alloc_var("float32")
                total = 0.0
                for k in T.serial(9):
                    row = y + k // 3 - 1
                    column = x + k % 3 - 1
                    if row >= 0 and row < size and column >= 0 and column < size:
                        total += T.cast(X[c, row, column] * W[c, k], "float32")
                Y[c, y, x] = T.cast(total, dtype)

    rng = np.random.default_rng(size)
    x, w = (rng.integers(-5, 5, s).astype(dtype) for s in ((channels, size, size), (channels, 9)))
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1)))
    taps = [padded[:, r : r + size, s : s + size] for r in range(3) for s in range(3)]
    y = np.zeros_like(x)
    compiled = tilelang.compile(kernel, target="cpu")
    compiled(x, w, y)
    want = sum(tap.astype("float64") * w[:, k, None, None] for k, tap in enumerate(taps))
    np.testing.assert_array_equal(y, want.astype(dtype))
    text = compiled.get_kernel_source().split("kernel_block(")[1].split("kernel_run(")[0]
    assert "TL_STORE(" in text


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
    y = np.zeros(96, np.int64)
    tilelang.compile(kernel, target="cpu")(x, y)
    np.testing.assert_array_equal(y, (x.astype(np.int64) + np.arange(96) % 32) % 16)


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
            for i in T.Parallel(4):
                sums[0, i] = total[i]
            for i, j in T.Parallel(4, pad):
                if form == "chosen":
                    x[i, j] = T.if_then_else(j < width, x[i, j] * 2 + j, 0)
                elif form == "branch":
                    if j < width:
                        x[i, j] = x[i, j] * 2 + j
                else:
                    x[i, j] = T.if_then_else(j >= width, -1, x[i, j])
            T.reduce_max(x, total, dim=1)
            for i in T.Parallel(4):
                sums[1, i] = total[i]
            T.reduce_min(x, total, dim=1)
            for i in T.Parallel(4):
                sums[2, i] = total[i]
            for k, i in T.Parallel(3, 4):
                if b * 4 + i < rows:
                    Y[k, b * 4 + i] = sums[k, i]
            T.copy(x, Z[b * 4 : b * 4 + 4, 0:pad])

    return kernel


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
@pytest.mark.parametrize("form", ["chosen", "branch", "beyond"])
@pytest.mark.parametrize(
    ("rows", "width", "pad"), [(5, 77, 128), (4, 1, 16), (9, 100, 112), (3, 31, 32), (2, 64, 256)]
)
def test_rows_are_shorter_than_their_tile(
    rows: int, width: int, pad: int, form: str, dtype: str
) -> None:
    x = np.random.default_rng(width).integers(-9, 9, (rows, width)).astype(dtype)
    y, z = np.zeros((3, rows), "float32"), np.zeros_like(x)
    tilelang.compile(padded_rows(rows, width, pad, dtype, form), target="cpu")(x, y, z)
    tile = np.zeros((rows, pad))
    tile[:, :width] = x
    total = tile.sum(1)
    if form == "beyond":
        tile[:, width:] = -1
    else:
        tile[:, :width] = x * 2.0 + np.arange(width)
    np.testing.assert_array_equal(y, [total, tile.max(1), tile.min(1)])
    np.testing.assert_array_equal(z, np.clip(tile[:, :width], -128, 127).astype(dtype))


def test_whole_vectors_of_a_shorter_row_have_no_mask() -> None:
    program = padded_rows(8, 80, 128, "float32", "chosen")
    text = tilelang.compile(program, target="cpu").get_kernel_source()
    assert "TL_STORE(" in text
    assert "TL_LOAD_IF(w, tl_w_f32, X" not in text


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

    x, y = np.random.default_rng(distance).integers(0, 3, 80).astype("int32"), np.zeros(80, "int32")
    tilelang.compile(kernel, target="cpu")(x, y)
    at = np.arange(80)
    other = np.roll(x, distance)
    taken = (at % 3 == 1) & compared(at, distance) & (x != other)
    np.testing.assert_array_equal(y, np.where(taken, other, 0))
