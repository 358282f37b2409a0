"""Slices at odd addresses: kernels with narrower vectors give the same results."""

from __future__ import annotations

from typing import Any

import pytest
from gemm_program import gemm_program
from gpus import Gpu

import tilelang.language as T

torch = pytest.importorskip("torch", reason="the tensors are torch's")

M, N, K = 64, 64, 128


product = gemm_program(M, N, K, stages=3)


def at(gpu: Gpu, element: int, *shape: int) -> Any:
    """A contiguous matrix of small whole numbers that starts ``element`` into an allocation."""
    count = torch.Size(shape).numel()
    whole = torch.randint(-3, 4, (count + 64,), device=gpu.memory).to(torch.float16)
    return whole[element : element + count].view(*shape)


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_products_of_odd_slices(gpu: Gpu, backend: str) -> None:
    kernel = gpu.compile(product, out_idx=-1, backend=backend)
    for first, second in ((0, 0), (8, 0), (4, 0), (2, 0), (1, 0), (0, 2), (1, 4), (3, 3)):
        a, b = at(gpu, first, M, K), at(gpu, second, K, N)
        assert torch.equal(kernel(a, b), a.float() @ b.float())


@T.prim_func
def doubled(A: T.ptr, B: T.ptr):
    source = T.make_tensor(A, (1024,), "float16")
    result = T.make_tensor(B, (1024,), "float16")
    with T.Kernel(1, threads=64):
        for i in T.Parallel(1024):
            result[i] = source[i] * T.float16(2.0)


def test_tensors_at_odd_pointers(gpu: Gpu) -> None:
    kernel = gpu.compile(doubled)
    for first, second in ((0, 0), (4, 0), (1, 2), (3, 8)):
        a, b = at(gpu, first, 1024), at(gpu, second, 1024)
        kernel(a.data_ptr(), b.data_ptr())
        assert torch.equal(b, a * 2)
