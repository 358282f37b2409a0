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


@pytest.mark.parametrize(
    ("stride", "kind"), [*((n, "float32") for n in (1, 2, 3, 4, 8, 12, 32, 33)), (2, "float16")]
)
def test_a_stride_has_the_conflicts_of_its_common_divisor_with_the_banks(
    stride: int, kind: str
) -> None:
    """Lanes of one word have none."""
    (loop,) = S.find(strided(stride, kind).body, S.Parallel)
    (access,) = (a for a in accesses(loop) if a.buffer.storage != "global")
    words = stride if kind == "float32" else stride // 2
    assert bank_conflicts((loop, access, RegisterLayout.linear((32,), 32)), 1) == gcd(words, 32) - 1


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


def sums_of_codes(kind: str, parts: int) -> Any:
    """For each row of codes, the sum of an entry of a table for each code."""

    @T.prim_func
    def main(Table: T.Tensor((parts, 16), "float32"), Codes: T.Tensor((512, parts), kind),
             Y: T.Tensor((512,), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            table = T.alloc_shared((parts, 16), "float32")
            T.copy(Table, table)
            for i in T.Parallel(512):
                total = T.alloc_var("float32")
                total = 0.0
                for p in T.unroll(parts):
                    total += table[p, T.cast(Codes[i, p], "int32")]
                Y[i] = total

    return main


@pytest.mark.parametrize(("kind", "parts"), [("uint8", 16), ("int16", 8)])
def test_neighbouring_threads_take_short_rows_of_memory(kind: str, parts: int) -> None:
    rng = np.random.default_rng(parts)
    table = rng.standard_normal((parts, 16)).astype(np.float32)
    codes = rng.integers(0, 16, (512, parts)).astype(kind)
    wanted = np.zeros(512, np.float32)
    for p in range(parts):
        wanted += table[p, codes[:, p]]
    func = sums_of_codes(kind, parts)
    holds(func, (table, codes, np.zeros_like(wanted)), wanted, on=(INTERPRETER, SM_80, SM_90A))
    text = compiled(func, SM_90A).get_kernel_source()
    assert f"tl_copy_{parts * int(codes.itemsize)}(Codes_vec, &Codes[" in text


def selected(form: str) -> Any:
    """Elements of a row that a mask, a permutation by bits, or a triangle selects."""

    @T.prim_func
    def main(X: T.Tensor((16, 64), "float32"), M: T.Tensor((16, 64), "bool"),
             Y: T.Tensor((16, 64), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            x, y = T.alloc_shared((16, 64), "float32"), T.alloc_fragment((16, 64), "float32")
            T.copy(X, x)
            for s in T.serial(5):
                for i, j in T.Parallel(16, 64):
                    if form == "mask":
                        if M[i, j]:
                            Y[i, j] = X[i, j] + s
                    elif form == "bits":
                        y[i, j] = x[i, j ^ (1 << s)] - x[i, j]
                    elif i > s and j > s:
                        x[i, j] -= x[i, s] * x[s, j]
                if form == "bits":
                    T.copy(y, x)
            if form != "mask":
                T.copy(x, Y)

    return main


@pytest.mark.parametrize(
    ("form", "access"),
    [
        ("mask", ") * 64 + tx % 64] = X["),
        ("bits", ") * 64 + tx % 64] = y["),
        ("triangle", "tl_copy_16(&x[x_at"),
    ],
)
def test_elements_that_are_accessed_alone_belong_to_neighbouring_threads(
    form: str, access: str
) -> None:
    random = np.random.default_rng(1)
    x, mask = random.integers(-2, 3, (16, 64)).astype(np.float32), random.random((16, 64)) < 0.5
    wanted, j = x * (form != "mask"), np.arange(64)
    for s in range(5):
        if form == "mask":
            wanted = np.where(mask, x + s, wanted)
        elif form == "bits":
            wanted = wanted[:, j ^ (1 << s)] - wanted
        else:
            wanted[s + 1 :, s + 1 :] -= wanted[s + 1 :, s : s + 1] * wanted[s, s + 1 :]
    holds(selected(form), (x, mask, np.zeros_like(x)), wanted, on=(INTERPRETER, SM_80, SM_90A))
    assert access in compiled(selected(form), SM_90A).get_kernel_source()
