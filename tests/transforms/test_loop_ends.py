"""The end of a loop is what it is before the loop, whatever its body writes."""

from __future__ import annotations

import numpy as np
import pytest
from executors import SM_90A, compiled, holds
from tensor_types import I32

import tilelang.language as T

N = 64


@pytest.mark.parametrize("place", ["a variable", "an array", "a shared tile"])
def test_a_body_that_changes_the_end_of_its_loop_runs_as_often(place: str) -> None:
    @T.prim_func
    def main(X: I32[N], Y: I32[N]):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            shared = T.alloc_shared((N,), "int32")
            own = T.alloc_local((2,), "int32")
            left = T.alloc_var("int32")
            count = T.alloc_var("int32", init=0)
            shared[tx] = X[tx]
            own[0] = X[tx]
            left = X[tx]
            if place == "a variable":
                for _ in T.serial(left):
                    left = left - 1
                    count = count + 1
            elif place == "an array":
                for _ in T.serial(own[0]):
                    own[0] = own[0] - 1
                    count = count + 1
            else:
                for _ in T.serial(shared[tx]):
                    shared[tx] = shared[tx] - 1
                    count = count + 1
            Y[tx] = count

    x = np.arange(N, dtype=np.int32) % 13
    holds(main, (x, np.zeros_like(x)), x)


def test_an_end_that_nothing_changes_has_no_name() -> None:
    @T.prim_func
    def main(X: I32[N], Y: I32[N]):
        with T.Kernel(1, threads=N):
            tx = T.get_thread_binding()
            count = T.alloc_var("int32")
            count = 0
            for _ in T.serial(X[tx]):
                count = count + 1
            Y[tx] = count

    assert "_end = " not in compiled(main, SM_90A).get_kernel_source()
