"""Convolutions that read a part of the image instead of columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import CPU

import tilelang.language as T
from tilelang.cpu.gemm_kernels import KernelSpec, emit_kernel
from tilelang.cpu.loops.gemm_forwarding import forward_gemm_copies
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import stmt as S
from tilelang.transforms.normalize.simplify import simplify_func

from .modes import agree

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
N, H, W = 2, 6, 8


def program(
    kernel: int = 3, stride: int = 1, dilation: int = 1, pad: int = 1, lines: int = 2, C: int = 5,
    dtype: str = "float32", clear: bool = True, step: int = 0, more: bool = False, OUT: int = 32,
) -> Any:  # fmt: skip
    """A convolution whose blocks are ``lines`` lines of the result."""
    out_h, out_w = ((n + 2 * pad - dilation * (kernel - 1) - 1) // stride + 1 for n in (H, W))
    rows, bm, bk, bn = N * out_h * out_w, lines * out_w, step or C, 16

    @T.prim_func
    def main(X: T.Tensor((N, H, W, C), dtype), F: T.Tensor((kernel * kernel * C, OUT), dtype),
             Y: T.Tensor((rows, OUT), "float32")):  # fmt: skip
        with T.Kernel(OUT // bn, T.ceildiv(rows, bm), threads=32) as (bx, by):
            x = T.alloc_shared((bm, bk), dtype)
            f = T.alloc_shared((bk, bn), dtype)
            y = T.alloc_fragment((bm, bn), "float32")
            T.fill(y, 0 if clear else 7)
            for k in T.Pipelined(kernel * kernel * C // bk, num_stages=2):
                T.c2d_im2col(X, x, by, k, kernel, stride, dilation, pad)
                T.copy(F[k * bk, bx * bn], f)
                T.gemm(x, f, y)
                if more:
                    for i, j in T.Parallel(bm, bn):
                        y[i, j] += x[i, 0]
            T.copy(y, Y[by * bm, bx * bn])

    return main


def taken(func: Any) -> bool:
    """Whether the product is one of the image."""
    lowered = forward_gemm_copies(simplify_func(func, CPU), CPU)
    (gemm,) = (n for n in S.walk(lowered.body) if isinstance(n, S.Gemm))
    columns = any(isinstance(n, S.Im2col) for n in S.walk(lowered.body))
    assert columns != (gemm.hints.taps is not None)
    return not columns


TAKEN: list[dict[str, Any]] = [
    {}, {"pad": 0}, {"pad": 2}, {"kernel": 1, "pad": 0}, {"kernel": 5, "pad": 2}, {"dilation": 2},
    {"dilation": 2, "pad": 2}, {"lines": 3}, {"lines": 6}, {"C": 16}, {"clear": False}, {"lines": 1},
]  # fmt: skip
LEFT: list[dict[str, Any]] = [
    {"stride": 2, "pad": 0, "kernel": 2}, {"lines": 4}, {"dtype": "float16"}, {"C": 4, "step": 2},
    {"more": True},
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("options", [*TAKEN, *LEFT], ids=str)
def test_whole_lines_with_a_step_for_each_tap_need_no_columns(options: dict[str, Any]) -> None:
    assert taken(program(**options)) == (options in TAKEN)
    if "more" in options:
        return
    given = {"kernel": 3, "stride": 1, "dilation": 1, "pad": 1, "C": 5, "dtype": "float32"}
    given |= options
    rng = np.random.default_rng(0)
    x = rng.integers(-3, 4, (N, H, W, given["C"])).astype(given["dtype"])
    f = rng.integers(-3, 4, (given["kernel"] ** 2 * given["C"], 32)).astype(given["dtype"])
    func = program(**options)
    agree(func, x, f, np.zeros([int(n) for n in func.buffers[2].shape], np.float32))


def test_kernels_of_other_taps_have_other_names_and_add_all_taps_in_registers() -> None:
    spec = ("float32", 8, 32, 5, 5, 1, 32, None, 32)
    specs = [KernelSpec(*spec), *(KernelSpec(*spec, taps) for taps in ((3, 40, 5), (3, 80, 10)))]
    assert len({one.name for one in specs}) == 3
    text = emit_kernel(specs[1])
    assert "for (long tap = 0; tap < 9; ++tap) {" in text
    assert "pixels = a + tap / 3 * 40 + tap % 3 * 5;" in text
    assert "weights = b + tap * 160;" in text
