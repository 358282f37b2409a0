"""Kernels that no block or grid of the target can hold."""

from __future__ import annotations

from typing import Any

import pytest
from contexts import SM_80

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.checks import check_launch_limits


def kernel(grid: tuple[int, ...], threads: Any) -> S.PrimFunc:
    def program(A: T.Tensor((128,), "float32")) -> None:
        with T.Kernel(*grid, threads=threads):
            A[0] = 1.0

    func = T.prim_func(program)
    assert isinstance(func, S.PrimFunc)
    return func


@pytest.mark.parametrize(
    ("grid", "threads", "text"),
    [
        ((1,), 2048,
         "a block of cuda -arch=sm_80 cannot have 2048 threads\n"
         "  expected: at most 1024\n"
         "  got: threads=2048\n"
         "  hint: use fewer threads; tiles may be larger than the number of threads"),
        ((1,), (2, 2, 128),
         "a block of cuda -arch=sm_80 cannot have 128 threads along z\n"
         "  expected: at most (1024, 1024, 64) along x, y, z\n"
         "  got: threads=(2, 2, 128)\n"
         "  hint: put the largest extent first"),
        ((4, 70000), 128,
         "a grid of cuda -arch=sm_80 cannot have 70000 blocks along y\n"
         "  expected: at most (2147483647, 65535, 65535) along x, y, z\n"
         "  got: T.Kernel(4, 70000)\n"
         "  hint: put the largest extent first"),
    ],
)  # fmt: skip
def test_too_much_is_refused_at_the_kernel(grid: Any, threads: Any, text: str) -> None:
    with pytest.raises(TileUnsupportedError) as found:
        check_launch_limits(kernel(grid, threads), SM_80)
    assert str(found.value).split("\n -->")[0] == text
    assert "with T.Kernel(*grid, threads=threads):" in str(found.value)


@pytest.mark.parametrize(("grid", "threads"), [((1,), 1024), ((70000, 65535, 3), (8, 2, 64))])
def test_the_largest_pass(grid: Any, threads: Any) -> None:
    func = kernel(grid, threads)
    assert check_launch_limits(func, SM_80) is func
