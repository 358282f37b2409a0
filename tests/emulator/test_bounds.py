"""Accesses that leave a tile are findings, also where they land in another tile of the block."""

from __future__ import annotations

import re

import numpy as np
import pytest
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


@T.prim_func
def neighbours(A: F32[64], B: F32[64]):
    with T.Kernel(1, threads=64):
        left = T.alloc_shared((8, 8), "float32")
        right = T.alloc_shared((8, 8), "float32")
        tx = T.get_thread_binding()
        left[tx // 8, tx % 8] = A[tx]
        right[tx // 8, tx % 8] = A[tx]
        T.sync_threads()
        B[tx] = left[tx // 8, tx % 8] + right[tx // 8, tx % 8]


def edited(kernel, old: str, new: str) -> str:
    source = kernel.get_kernel_source()
    assert old in source
    return source.replace(old, new, 1)


@pytest.fixture(scope="module")
def kernel():
    return tilelang.compile(
        neighbours, out_idx=-1, target="cuda -arch=sm_80", execution_backend="emulator"
    )


def ones() -> np.ndarray:
    return np.ones(64, np.float32)


def test_an_access_that_lands_in_the_next_tile(kernel) -> None:
    assert tilelang.sanitize(kernel, ones()).ok
    source = edited(kernel, "= left[", "= left[8 + ")
    report = tilelang.sanitize(kernel, ones(), source=source, schedule="fifo")
    number = next(n for n, line in enumerate(source.splitlines(), 1) if "left[8 + " in line)
    line = source.splitlines()[number - 1].strip()
    assert str(report) == (
        "neighbours: 1 finding in 1 run\n"
        "out-of-bounds: thread 63 (warp 1) of block (0, 0, 0) reads 4 bytes outside left: "
        "left[8, 7] of shape (8, 8) is right[0, 7]\n"
        f"  at {__file__}:27: B[tx] = left[tx // 8, tx % 8] + right[tx // 8, tx % 8]\n"
        f"     line {number} of neighbours_kernel: {line}\n"
        "  8 times"
    )
    assert report.findings[0].buffer == "left"
    assert report.findings[0].space == "shared"


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        ("right[", "right[-8 + ", "writes 4 bytes outside right: right[-1, 0] of shape (8, 8) is left[7, 0]"),
        ("right[", "right[64 + ", "right[8, 0] of shape (8, 8) is memory of no tile"),
        ("left[", "left[-4 + ", "left[-1, 4] of shape (8, 8) is memory of no tile"),
    ],
)  # fmt: skip
def test_an_access_outside_of_a_tile(kernel, old: str, new: str, what: str) -> None:
    source = edited(kernel, old, new)
    report = tilelang.sanitize(kernel, ones(), source=source, schedule="fifo")
    assert what in report.of_kind("out-of-bounds")[0].what


def test_tiles_with_disjoint_live_ranges_share_memory() -> None:
    @T.prim_func
    def turns(A: F32[256], B: F32[256]):
        with T.Kernel(1, threads=64):
            first = T.alloc_shared((256,), "float32")
            second = T.alloc_shared((128,), "float32")
            T.copy(A, first)
            T.copy(first, B)
            T.sync_threads()
            T.copy(A[0:128], second)
            T.copy(second, B[0:128])

    kernel = tilelang.compile(turns, target="cuda -arch=sm_80", execution_backend="emulator")
    a, b = np.ones(256, np.float32), np.zeros(256, np.float32)
    assert tilelang.sanitize(kernel, a, b).ok
    source = kernel.get_kernel_source()
    at = source.rindex("&second[") + len("&second[")
    report = tilelang.sanitize(kernel, a, b, source=source[:at] + "96 + " + source[at:])
    found = report.of_kind("out-of-bounds")[0]
    assert re.search(
        r"outside second: second\[(\d+)\] of shape \(128,\) is first\[\1\]", found.what
    )


@pytest.mark.parametrize("shift", ["8192", "-64"])
def test_a_matrix_row_outside_its_tile(shift: str) -> None:
    @T.prim_func
    def product(A: F16[64, 32], B: F16[32, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            left = T.alloc_shared((64, 32), "float16")
            right = T.alloc_shared((32, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            T.copy(A, left)
            T.copy(B, right)
            T.gemm(left, right, acc)
            T.copy(acc, C)

    kernel = tilelang.compile(product, out_idx=-1, target="cuda -arch=sm_80")
    a, b = np.ones((64, 32), np.float16), np.ones((32, 64), np.float16)
    assert tilelang.sanitize(kernel, a, b).ok
    source = edited(kernel, "&left[left_at_1]", f"&left[left_at_1] + {shift}")
    found = tilelang.sanitize(kernel, a, b, source=source).of_kind("out-of-bounds")
    assert any(item.buffer == "left" and item.actor.thread >= 0 for item in found)
