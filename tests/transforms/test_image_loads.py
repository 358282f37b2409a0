"""Columns of a convolution that TMA brings: in the emulator, and through the assembler."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import SM_90A, agrees, compiled
from tensor_types import F16, F32
from test_tma_operations import notes
from test_tma_programs import numbers

import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin, find_nvcc


def columns(C=64, K=3, S=1, D=1, P=1, N=2, H=9, W=7, rows=64, width=64, dtype="float16"):
    """All columns of a convolution, tile by tile."""
    OH, OW = ((E + 2 * P - D * (K - 1) - 1) // S + 1 for E in (H, W))
    M, steps = N * OH * OW, K * K * C // width

    @T.prim_func
    def tma_columns(A: T.Tensor((N, H, W, C), dtype), B: T.Tensor((M, steps * width), dtype)):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            s = T.alloc_shared((rows, width), dtype)
            for k in T.serial(steps):
                T.im2col(A, s, bx, k, K, S, D, P)
                for i, j in T.Parallel(rows, width):
                    if bx * rows + i < M:
                        B[bx * rows + i, k * width + j] = s[i, j] + 1

    return tma_columns


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"S": 2, "P": 0},
        {"D": 2, "P": 2},
        {"C": 128, "width": 128},  # two panels
        {"dtype": "float32", "width": 32},
        {"dtype": "int8", "C": 128, "width": 128},
    ],
)
def test_columns_are_loads_of_an_image(case) -> None:
    func = columns(**case)
    assert "tl_tma_load_im2col(" in compiled(func, SM_90A).get_kernel_source()
    shape = tuple(int(extent) for extent in func.buffers[0].shape)
    a = numbers(*shape, dtype=str(func.buffers[0].dtype))
    agrees(func, (a, np.zeros([int(extent) for extent in func.buffers[1].shape], a.dtype)))
    assert notes(func)[0] == "copy: TMA"


def convolution(N=2, H=9, W=7, C=64, F=64, K=3, S=1, D=1, P=1, stages=2, rows=64, width=64):
    """The usual program: products of column tiles and of the filter's rows."""
    OH, OW = ((E + 2 * P - D * (K - 1) - 1) // S + 1 for E in (H, W))
    M = N * OH * OW

    @T.prim_func
    def tma_convolution(A: F16[N, H, W, C], B: F16[K * K * C, F], O: F32[M, F]):
        with T.Kernel(T.ceildiv(F, 64), T.ceildiv(M, rows), threads=128) as (bx, by):
            a = T.alloc_shared((rows, width), "float16")
            b = T.alloc_shared((width, 64), "float16")
            c = T.alloc_fragment((rows, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(K * K * C // width, num_stages=stages):
                T.im2col(A, a, by, k, K, S, D, P)
                T.copy(B[k * width, bx * 64], b)
                T.gemm(a, b, c)
            T.copy(c, O[by * rows, bx * 64])

    return tma_convolution


@pytest.mark.parametrize("stages", [1, 3])
def test_a_convolution_reads_its_image_by_the_unit(stages: int) -> None:
    """By threads on a target without tensor maps."""
    func = convolution(stages=stages)
    source = compiled(func, SM_90A).get_kernel_source()
    loads = [line for line in source.splitlines() if "tl_tma_load_im2col(" in line]
    assert loads and (stages == 1 or any("stage" in load for load in loads))
    agrees(func, (numbers(2, 9, 7, 64) % 4, numbers(576, 64) % 4, np.zeros((126, 64), np.float32)))


@pytest.mark.skipif(find_nvrtc() is None and find_nvcc() is None, reason="needs NVRTC or nvcc")
def test_the_assembler_accepts_them() -> None:
    source = compiled(convolution(), SM_90A).get_kernel_source()
    assert compile_cubin(source, "sm_90a").cubin[:4] == b"\x7fELF"
