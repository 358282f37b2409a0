"""Columns of a convolution that TMA brings, beside numpy: in the emulator, lowered in the
interpreter, and through the assembler."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import SM_90A, compiled, holds
from tensor_types import F16, F32
from test_tma_programs import lowered_holds, numbers
from test_tma_words import notes

import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin, find_nvcc

BOXES = "copy: TMA"


def columns(C=64, K=3, S=1, D=1, P=1, N=2, H=9, W=7, rows=64, width=64, dtype="float16", more=0):
    """All columns of a convolution, tile by tile; ``more``: steps behind the last one."""
    OH, OW = ((E + 2 * P - D * (K - 1) - 1) // S + 1 for E in (H, W))
    M, steps = N * OH * OW, K * K * C // width + more

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


def wanted(a: np.ndarray, K: int, S: int, D: int, P: int) -> np.ndarray:
    N, H, W, C = a.shape
    OH, OW = ((E + 2 * P - D * (K - 1) - 1) // S + 1 for E in (H, W))
    padded = np.pad(a, ((0, 0), (P, P), (P, P), (0, 0)))
    parts = [
        padded[:, y * D : y * D + (OH - 1) * S + 1 : S, x * D : x * D + (OW - 1) * S + 1 : S]
        for y in range(K)
        for x in range(K)
    ]
    return np.stack(parts, 3).reshape(N * OH * OW, K * K * C) + 1


@pytest.mark.parametrize(
    "case",
    [
        {},
        {"S": 2, "P": 0},
        {"D": 2, "P": 2},
        {"K": 1, "P": 0, "C": 128},
        {"C": 128, "width": 128},  # two panels
        {"C": 64, "width": 32, "rows": 32},
        {"dtype": "float32", "width": 32},
        {"dtype": "int8", "C": 128, "width": 128},
    ],
)
def test_columns_are_loads_of_an_image(case) -> None:
    func = columns(**case)
    assert "tl_tma_load_im2col(" in compiled(func, SM_90A).get_kernel_source()
    shape = tuple(int(extent) for extent in func.buffers[0].shape)
    a = numbers(*shape, dtype=str(func.buffers[0].dtype))
    window = {"K": 3, "S": 1, "D": 1, "P": 1} | {k: v for k, v in case.items() if k in "KSDP"}
    b = wanted(a, **window).astype(a.dtype)
    holds(func, (a, 0 * b), b)
    lowered_holds(func, (a, 0 * b), b)
    assert notes(func)[0] == BOXES


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


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_convolution_reads_its_image_by_the_unit(stages: int) -> None:
    func = convolution(stages=stages)
    assert "tl_tma_load_im2col(" in compiled(func, SM_90A).get_kernel_source()
    a, b = numbers(2, 9, 7, 64) % 4, numbers(576, 64) % 4
    out = (wanted(a, 3, 1, 1, 1) - 1).astype(np.float32) @ b.astype(np.float32)
    holds(func, (a, b, 0 * out), out, on=(SM_90A,))
    lowered_holds(func, (a, b, 0 * out), out)


def test_columns_are_copied_ahead_in_a_pipeline() -> None:
    source = compiled(convolution(stages=3), SM_90A).get_kernel_source()
    loads = [line for line in source.splitlines() if "tl_tma_load_im2col(" in line]
    assert any("stage" in load for load in loads)


@pytest.mark.parametrize("stages", [2, 3])
def test_columns_are_copied_ahead_by_threads_without_tensor_maps(stages: int) -> None:
    func = convolution(stages=stages)
    a, b = numbers(2, 9, 7, 64) % 4, numbers(576, 64) % 4
    out = (wanted(a, 3, 1, 1, 1) - 1).astype(np.float32) @ b.astype(np.float32)
    holds(func, (a, b, 0 * out), out, on=("sm_80",))


@pytest.mark.skipif(find_nvrtc() is None and find_nvcc() is None, reason="needs NVRTC or nvcc")
def test_the_assembler_accepts_them() -> None:
    source = compiled(convolution(), SM_90A).get_kernel_source()
    assert compile_cubin(source, "sm_90a").cubin[:4] == b"\x7fELF"
