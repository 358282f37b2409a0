"""Kernels with rows of unknown length: a version of the launch for rows of whole vectors."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import CPU, SM_80, SM_90A, agrees, compiled
from tensor_types import F16, F32

import tilelang
import tilelang.language as T


def product(threads: int = 128, is_assumed: bool = False) -> Any:
    m, n, k = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")
    rows, depth = threads // 2, threads // 4

    @T.prim_func
    def main(A: F16[m, k], B: F16[k, n], C: F32[m, n]):
        with T.Kernel(T.ceildiv(n, rows), T.ceildiv(m, rows), threads=threads) as (bx, by):
            if is_assumed:
                T.assume(k % 8 == 0)
                T.assume(n % 8 == 0)
            a = T.alloc_shared((rows, depth), "float16")
            b = T.alloc_shared((depth, rows), "float16")
            acc = T.alloc_fragment((rows, rows), "float32")
            T.clear(acc)
            for ko in T.Pipelined(T.ceildiv(k, depth), num_stages=1):
                T.copy(A[by * rows, ko * depth], a)
                T.copy(B[ko * depth, bx * rows], b)
                T.gemm(a, b, acc)
            T.copy(acc, C[by * rows, bx * rows])

    return main


@pytest.mark.parametrize(
    ("m", "n", "k", "threads"),
    [(70, 64, 96, 128), (70, 67, 96, 256), (70, 64, 33, 128), (5, 3, 1, 256), (1, 8, 8, 128)],
)
def test_each_version_computes_the_product(m: int, n: int, k: int, threads: int) -> None:
    rng = np.random.default_rng(0)
    a = rng.integers(-3, 4, (m, k)).astype(np.float16)
    b = rng.integers(-3, 4, (k, n)).astype(np.float16)
    agrees(product(threads), (a, b, np.zeros((m, n), np.float32)), on=(CPU, SM_80, SM_90A))


def kernels_of(func: Any, place: str = SM_90A) -> list[str]:
    """The text of each kernel, in the order in which they are launched."""
    source = compiled(func, place).get_kernel_source()
    return re.split(r'extern "C" __global__', source)[1:]


def test_the_version_for_whole_vectors_comes_first_and_loads_boxes() -> None:
    aligned, general = kernels_of(product())
    assert "main_kernel(" in aligned and "main_kernel_2(" in general
    assert "tl_tma_load(" in aligned and "tl_tma_load(" not in general
    assert "main_kernel_2" in kernels_of(product(), SM_80)[1]


def test_the_roles_of_warps_keep_what_the_version_assumes() -> None:
    for func in (product(256), product(256, is_assumed=True)):
        aligned = kernels_of(func)[0]
        assert "tl_setmaxnreg_inc<" in aligned and "tl_tma_load(" in aligned


def test_the_report_says_what_the_version_assumes() -> None:
    report = tilelang.compile(product(), target="cuda -arch=sm_90a").explain()
    assert "kernel 1:" in report and "kernel 2:" in report
    assert report.count("  assumed: k % 8 == 0, n % 8 == 0\n") == 1


def test_an_option_leaves_one_kernel() -> None:
    options = {tilelang.PassConfigKey.TL_DISABLE_LAUNCH_VERSIONS: True}
    kernel = tilelang.compile(product(), target="cuda -arch=sm_90a", pass_configs=options)
    assert kernel.get_kernel_source().count("__global__") == 1


M, N, K = T.dynamic("m"), T.dynamic("n"), T.dynamic("k")
STRIDE = T.dynamic("stride")


def copies(shape: Any, dtype: str, strides: Any = None) -> Any:
    """A tile of 64 elements of each of the first rows, doubled."""
    annotation = T.Tensor(shape, dtype)
    if strides is not None:
        annotation = T.StridedTensor(shape, strides, dtype)
    first = (0,) * (len(shape) - 1)

    @T.prim_func
    def main(X: annotation, Y: T.Tensor((64,), dtype), Size: T.Tensor((K,), "int8")):
        with T.Kernel(1, threads=32):
            for j in T.Parallel(64):
                Y[j] = X[(*first, j)]

    return main


@pytest.mark.parametrize(
    ("shape", "dtype", "strides", "condition"),
    [
        ((M, K), "float16", None, "k % 8 == 0"),
        ((M, K), "uint8", None, "k % 16 == 0"),
        ((M, K // 2), "uint8", None, "k % 32 == 0"),
        ((N, M, K), "float16", None, "k % 8 == 0"),
        ((N, K, 100), "float32", None, None),
        ((M, K + 1), "float16", None, None),
        ((M, T.ceildiv(K, 128)), "float32", None, None),
        ((K, 64), "float16", None, None),
        ((M, K), "float16", (STRIDE, 1), "stride % 8 == 0"),
        ((M, K), "float16", (1, STRIDE), None),
    ],
    ids=str,
)
def test_the_condition_follows_from_the_strides(
    shape: Any, dtype: str, strides: Any, condition: str | None
) -> None:
    report = tilelang.compile(copies(shape, dtype, strides), target="cuda -arch=sm_90a").explain()
    assert re.findall(r"  assumed: (.*)", report) == [condition] * (condition is not None)


def one_element_a_thread() -> Any:
    @T.prim_func
    def main(X: T.Tensor((M, K), "float16"), Y: T.Tensor((64,), "float16")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            Y[tx] = X[tx, 0]

    return main


def scales_of_steps() -> Any:
    """The scales of a row are read one after the other, in a pipelined loop."""

    @T.prim_func
    def main(X: T.Tensor((M, K), "float32"), Y: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            total = T.alloc_fragment((64,), "float32")
            T.clear(total)
            for ko in T.Pipelined(K, num_stages=2):
                for i in T.Parallel(64):
                    total[i] += X[i, ko]
            T.copy(total, Y)

    return main


@pytest.mark.parametrize("make", [one_element_a_thread, scales_of_steps])
def test_a_launch_that_gains_nothing_has_one_version(make: Any) -> None:
    assert len(kernels_of(make())) == 1


def test_a_branch_of_the_program_around_kernels_is_a_fact_in_them() -> None:
    @T.prim_func
    def main(X: T.Tensor((M, K), "float16"), Y: T.Tensor((64,), "float16")):
        if K % 8 == 0:
            with T.Kernel(1, threads=32):
                for j in T.Parallel(64):
                    Y[j] = X[1, j]
        else:
            with T.Kernel(1, threads=32):
                for i in T.Parallel(64):
                    Y[i] = X[1, i]

    aligned, general = kernels_of(main)
    assert "tl_copy_4(X_vec, " in aligned and "tl_copy_4(X_vec, " not in general
