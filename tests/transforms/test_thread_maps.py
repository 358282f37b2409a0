"""Thread maps of loops over shared tiles: bank conflicts are counted, and bound the vectors."""

from __future__ import annotations

from math import gcd
from typing import Any

import numpy as np
import pytest
from executors import INTERPRETER, SM_80, SM_90A, compiled, holds

import tilelang.language as T
from tilelang.ir import stmt as S
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.layouts.access import accesses
from tilelang.transforms.layouts.banks import bank_conflicts


def strided(stride: int, kind: str = "float32") -> Any:
    """Threads that read a shared row, ``stride`` elements apart."""

    @T.prim_func
    def main(Y: T.Tensor((32,), kind)):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((32 * stride,), kind)
            for i in T.Parallel(32):
                Y[i] = x[i * stride]

    return main


@pytest.mark.parametrize("stride", [1, 2, 3, 4, 8, 12, 32, 33])
def test_a_stride_has_the_conflicts_of_its_common_divisor_with_the_banks(stride: int) -> None:
    (loop,) = S.find(strided(stride).body, S.Parallel)
    (access,) = (a for a in accesses(loop) if a.buffer.storage != "global")
    assert bank_conflicts((loop, access, RegisterLayout.linear((32,), 32))) == gcd(stride, 32) - 1


def test_lanes_of_one_word_have_no_conflict() -> None:
    (loop,) = S.find(strided(2, "float16").body, S.Parallel)
    (access,) = (a for a in accesses(loop) if a.buffer.storage != "global")
    assert bank_conflicts((loop, access, RegisterLayout.linear((32,), 32))) == 0


def box_sums(rows: int, columns: int, size: int) -> Any:
    """Sums over boxes of a shared tile, stored as bytes."""

    @T.prim_func
    def main(X: T.Tensor((rows + size, columns + size), "uint8"),
             Y: T.Tensor((rows, columns), "uint8")):  # fmt: skip
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((rows + size, columns + size), "int32")
            for i, j in T.Parallel(rows + size, columns + size):
                x[i, j] = T.cast(X[i, j], "int32")
            for i, j in T.Parallel(rows, columns):
                total = T.alloc_var("int32")
                total = 0
                for dy, dx in T.grid(size, size):
                    total += x[i + dy, j + dx]
                Y[i, j] = T.cast(total >> 4, "uint8")

    return main


@pytest.mark.parametrize("size", [3, 4])
def test_boxes_of_a_tile_are_read_by_vectors_without_conflicts(size: int) -> None:
    rows, columns = 8, 64
    x = np.random.default_rng(size).integers(0, 256, (rows + size, columns + size), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), (size, size))
    wanted = (windows.sum((2, 3))[:rows, :columns] >> 4).astype(np.uint8)
    func = box_sums(rows, columns, size)
    holds(func, (x, np.zeros_like(wanted)), wanted, on=(INTERPRETER, SM_80, SM_90A))
    assert "tl_copy_8(&Y[" not in compiled(func, SM_90A).get_kernel_source()
