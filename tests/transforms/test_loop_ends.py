"""The end of a loop is what it is before the loop, whatever its body writes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import CPU, INTERPRETER, SM_80, SM_90A, compiled, holds

import tilelang.language as T

N = 64


def in_a_variable() -> Any:
    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            left = T.alloc_var("int32")
            count = T.alloc_var("int32")
            left = X[tx]
            count = 0
            for _ in T.serial(left):
                left = left - 1
                count = count + 1
            Y[tx] = count

    return main


def in_an_array() -> Any:
    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            ends = T.alloc_local((2,), "int32")
            ends[0] = X[tx]
            ends[1] = 0
            for _ in T.serial(ends[0] + ends[1]):
                ends[1] = ends[1] + 1
            Y[tx] = ends[1]

    return main


def in_a_shared_tile() -> Any:
    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            left = T.alloc_shared((N,), "int32")
            count = T.alloc_var("int32")
            left[tx] = X[tx]
            count = 0
            for _ in T.serial(left[tx]):
                left[tx] = left[tx] - 1
                count = count + 1
            Y[tx] = count

    return main


@pytest.mark.parametrize("make", [in_a_variable, in_an_array, in_a_shared_tile])
def test_a_body_that_changes_the_end_of_its_loop_runs_as_often(make: Any) -> None:
    x = np.arange(N, dtype=np.int32) % 13
    holds(make(), (x, np.zeros_like(x)), x, on=(INTERPRETER, CPU, SM_80, SM_90A))


def test_an_end_that_nothing_changes_has_no_name() -> None:
    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), Y: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            count = T.alloc_var("int32")
            count = 0
            for _ in T.serial(X[tx]):
                count = count + 1
            Y[tx] = count

    assert "_end = " not in compiled(main, SM_90A).get_kernel_source()
