"""Programs whose copies are boxes of tensors, beside numpy: in the emulator, which looks for races
and for what nobody waits for, and lowered in the interpreter."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import SM_90A, compiled, holds
from test_mechanisms import choosing

import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower
from tilelang.explain.report import explain
from tilelang.options import Options
from tilelang.target import parse_target

HOPPER = parse_target("cuda -arch=sm_90a")


def numbers(*shape: int, dtype: str = "float16") -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 60, shape).astype(dtype)


def lowered_holds(func, given, *wanted) -> None:
    """What the lowered program computes in the interpreter."""
    args = [np.array(a) if isinstance(a, np.ndarray) else a for a in given]
    interpret.run(lower(func, HOPPER, Options()), args)
    for found, want in zip(args[-len(wanted) :], wanted, strict=True):
        np.testing.assert_array_equal(found, want)


def everywhere(func, given, *wanted) -> None:
    holds(func, given, *wanted, on=(SM_90A,))
    lowered_holds(func, given, *wanted)


def gemm(M, N, K, BM=64, BN=64, BK=32, stages=3, dtype="float16"):
    @T.prim_func
    def tma_gemm(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            a = T.alloc_shared((BM, BK), dtype)
            b = T.alloc_shared((BK, BN), dtype)
            c = T.alloc_fragment((BM, BN), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=stages):
                T.copy(A[by * BM, k * BK], a)
                T.copy(B[k * BK, bx * BN], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * BM, bx * BN])

    return tma_gemm


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("BK", [16, 32, 64])
def test_a_product_with_tiles_in_boxes(stages: int, BK: int) -> None:
    a, b = numbers(128, 192) % 8, numbers(192, 64) % 8
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    with choosing("bulk"):
        func = gemm(128, 64, 192, BK=BK, stages=stages)
        assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
        everywhere(func, (a, b, 0 * wanted), wanted)


@pytest.mark.parametrize("shape", [(100, 72, 200), (7, 8, 40), (65, 136, 8)])
def test_partial_tiles_are_filled_with_zeros(shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = numbers(M, K) % 8, numbers(K, N) % 8
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    with choosing("bulk"):
        everywhere(gemm(M, N, K, stages=2), (a, b, 0 * wanted), wanted)


def test_rows_of_any_number() -> None:
    with choosing("bulk"):
        func = gemm(T.dynamic("m"), 64, 128)
        for M in (1, 64, 130):
            a, b = numbers(M, 128) % 8, numbers(128, 64) % 8
            wanted = a.astype(np.float32) @ b.astype(np.float32)
            everywhere(func, (a, b, 0 * wanted), wanted)


def passed_on(tensor, tile, dtype, strides=None, stages=2):
    """Planes of a tensor through tiles in shared memory; its first dimension is the loop's."""
    count, *rest = tensor
    steps = strides or tuple(int(np.prod(tensor[d + 1 :])) for d in range(len(tensor)))
    inside = tuple(slice(0, extent) for extent in tile)

    @T.prim_func
    def tma_passed_on(A: T.StridedTensor(tensor, steps, dtype), B: T.Tensor((count, *tile), dtype)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared(tile, dtype)
            for k in T.Pipelined(count, num_stages=stages):
                T.copy(A[(k, *inside)], s)
                T.copy(s, B[(k, *inside)])

    return tma_passed_on


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "int64", "uint32"])
@pytest.mark.parametrize(
    "tensor, tile",
    [
        ((3, 320), (256,)),
        ((4, 40, 64), (32, 64)),
        ((4, 16, 512), (16, 512)),
        ((3, 5, 20, 64), (2, 16, 64)),
        ((3, 2, 3, 10, 32), (2, 2, 8, 32)),
    ],
)
def test_planes_of_tensors(tensor, tile, dtype) -> None:
    source = numbers(*tensor, dtype=dtype)
    wanted = source[(slice(None), *(slice(0, extent) for extent in tile))]
    with choosing("bulk"):
        func = passed_on(tensor, tile, dtype)
        assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
        everywhere(func, (source, 0 * wanted), wanted)


def test_strided_planes() -> None:
    space = numbers(4, 40, 96)
    source = space[:, :, :64]
    with choosing("bulk"):
        func = passed_on((4, 40, 64), (32, 64), "float16", (40 * 96, 96, 1))
        args = (source, np.zeros((4, 32, 64), np.float16))
        compiled(func, SM_90A)(*args)
        np.testing.assert_array_equal(args[1], source[:, :32])


def test_what_is_no_box_is_copied_otherwise() -> None:
    with choosing("bulk"):
        func = passed_on((4, 40, 100), (32, 64), "float16")
        assert "tl_tma_load" not in compiled(func, SM_90A).get_kernel_source()
        assert (
            "pipeline: serial: not with bulk copies: `s`: `100` elements of `A` along dimension 1 "
            "are not known to be a multiple of 16 bytes"
        ) in explain(func, HOPPER, Options())
        source = numbers(4, 40, 100)
        holds(func, (source, np.zeros((4, 32, 64), np.float16)), source[:, :32, :64], on=(SM_90A,))
