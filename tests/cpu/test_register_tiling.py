"""Iterations that load the same vectors are taken several at a time where no result changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from contexts import CPU
from tensor_types import F32, I32

import tilelang.language as T
from tilelang import interpret
from tilelang.cpu.loops.array_contraction import contract_arrays
from tilelang.cpu.loops.loop_fusion import fuse_loops
from tilelang.cpu.loops.register_tiling import tile_registers
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.simplify import simplify_func

from .test_block_coarsening import launch_of
from .test_loop_fusion import loops


def ready(func: S.PrimFunc) -> S.PrimFunc:
    """``func`` as the pass gets it."""
    return contract_arrays(fuse_loops(loops(func), CPU), CPU)


def shared(func: S.PrimFunc) -> S.PrimFunc:
    return simplify_func(tile_registers(ready(func), CPU), CPU)


def stays(func: S.PrimFunc) -> bool:
    plain = ready(func)
    return tile_registers(plain, CPU) is plain


def picture(
    rows: int, columns: int, taps: int = 2, stride: int = 1, dilation: int = 1, channels: int = 16
) -> S.PrimFunc:
    """The same over pictures, a block for each row."""
    height = (rows - 1) * stride + (taps - 1) * dilation + 1
    width = (columns - 1) * stride + (taps - 1) * dilation + 1

    @T.prim_func
    def kernel(
        X: F32[height, width, channels], W: F32[taps, taps, channels],
        Y: F32[rows, columns, channels],
    ):  # fmt: skip
        with T.Kernel(rows, threads=1) as b:
            y = T.alloc_fragment((columns, channels), "float32")
            T.clear(y)
            for r, s in T.grid(taps, taps):
                for j, c in T.Parallel(columns, channels):
                    y[j, c] += (
                        X[b * stride + r * dilation, j * stride + s * dilation, c] * W[r, s, c]
                    )
            T.copy(y, Y[b, 0, 0])

    return kernel


def taken(func: S.PrimFunc) -> str:
    """How many iterations are taken at a time."""
    lines = [line for line in launch_of(shared(func)).hints.fusion_note if "tiling" in line]
    return lines[0].partition(" takes ")[2].partition(" at a time")[0] if lines else ""


@pytest.mark.parametrize(
    ("rows", "columns", "taps", "wanted"),
    [
        (64, 52, 3, "2 blocks x 4 iterations"),  # a square shares more than a line
        (62, 52, 3, "7 iterations"),  # half of the blocks would be too few for the cores
        (65, 7, 3, "7 iterations"),  # no block may be left over
        (31, 13, 3, "6 iterations"),  # one is left, of eight five would be
        (31, 16, 3, "8 iterations"),
        (31, 16, 7, "4 iterations"),  # a long window is written out less often
    ],
)
def test_the_choice_with_most_sharing_wins(rows: int, columns: int, taps: int, wanted: str) -> None:
    assert taken(picture(rows, columns, taps)) == wanted


@pytest.mark.parametrize(
    ("taps", "stride", "dilation"), [(2, 1, 1), (3, 1, 1), (3, 2, 1), (3, 1, 2), (4, 3, 2)]
)
@pytest.mark.parametrize(("rows", "columns"), [(64, 5), (3, 11)])
def test_results_are_the_same_to_the_bit(
    rows: int, columns: int, taps: int, stride: int, dilation: int
) -> None:
    plain = ready(picture(rows, columns, taps, stride, dilation))
    transformed = tile_registers(plain, CPU)
    assert transformed is not plain
    rng = np.random.default_rng(0)
    x, w, wanted = (
        rng.standard_normal([int(n) for n in param.shape]).astype(np.float32)
        for param in plain.buffers
    )
    actual = np.zeros_like(wanted)
    interpret.run(plain, (x, w, wanted))
    interpret.run(transformed, (x, w, actual))
    np.testing.assert_array_equal(actual, wanted)


def nest(body: Callable[..., None], inner: int = 32) -> S.PrimFunc:
    """``body(X, W, Y, i, c)`` in loops over 12 rows and ``inner`` columns."""

    @T.prim_func
    def kernel(X: F32[40, 64], W: F32[20, 64], Y: F32[12, 64]):
        with T.Kernel(1, threads=1):
            for i, c in T.Parallel(12, inner):
                body(X, W, Y, i, c)

    return kernel


def put(tensor: Any, index: Any, value: Any) -> None:
    tensor[index] = value


def sums(X: Any, W: Any, i: Any, c: Any, taps: int = 4) -> Any:
    """Products of ``taps`` elements."""
    total: Any = T.float32(0)
    for r in range(taps):
        total = total + X[i + r, c] * W[r, c]
    return total


TAKEN = {
    "a sum in one expression": lambda X, W, Y, i, c: put(Y, (i, c), sums(X, W, i, c)),
    "a sum that goes on": lambda X, W, Y, i, c: put(Y, (i, c), Y[i, c] + sums(X, W, i, c)),
    "every second row": lambda X, W, Y, i, c: put(Y, (i, c), sums(X, W, i * 2, c)),
}
LEFT = {
    "a few loads": lambda X, W, Y, i, c: put(Y, (i, c), sums(X, W, i, c, 3)),
    "many in one expression": lambda X, W, Y, i, c: put(Y, (i, c), sums(X, W, i, c, 9)),
    "nothing that stays": lambda X, W, Y, i, c: put(Y, (i, c), sums(X, X, i, c + i, 8)),
    "one number for all": lambda X, W, Y, i, c: put(
        Y, (i, c), sums(X, W, i, c, 0) + sum(X[i + r, c] * W[r, 0] for r in range(8))
    ),
    "rows that are read by others": lambda X, W, Y, i, c: put(Y, (i, c), sums(Y, W, i, c)),
    "one row for all": lambda X, W, Y, i, c: put(Y, (0, c), sums(X, W, i, c)),
    "two stores": lambda X, W, Y, i, c: [put(Y, (i, at), sums(X, W, i, at)) for at in (c, c + 32)],
}


@pytest.mark.parametrize("case", TAKEN)
def test_iterations_that_share_loads_are_jammed(case: str) -> None:
    assert not stays(nest(TAKEN[case]))


@pytest.mark.parametrize("case", LEFT)
def test_other_loops_stay(case: str) -> None:
    assert stays(nest(LEFT[case]))


def test_different_blocks_are_not_jammed() -> None:
    @T.prim_func
    def kernel(X: F32[70, 16], W: F32[4, 16], Y: F32[64, 1, 16], Z: I32[64]):
        with T.Kernel(64, threads=1) as b:
            Z[b] = b
            for i, c in T.Parallel(1, 16):
                Y[b, i, c] = sums(X, W, b + i, c)

    assert stays(kernel)


def test_loops_in_a_loop_that_depends_on_itself_are_jammed() -> None:
    @T.prim_func
    def kernel(X: F32[24, 16], W: F32[6, 4, 16], Y: F32[12, 16]):
        with T.Kernel(1, threads=1):
            for k in T.serial(6):
                for i, c in T.Parallel(12, 16):
                    Y[i, c] = Y[i, c] * 0.5 + (
                        X[i, c] * W[k, 0, c] + X[i + 1, c] * W[k, 1, c]
                        + X[i + 2, c] * W[k, 2, c] + X[i + 3, c] * W[k, 3, c]
                    )  # fmt: skip

    assert taken(kernel) == "6 iterations"
