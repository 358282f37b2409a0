"""Waits for bulk stores of a loop: where they are, that they are needed, and results."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import SM_90A, compiled

import tilelang
import tilelang.language as T

FOUR = np.random.default_rng(1).integers(-4, 5, (256, 64)).astype(np.float32)


def summed(rounds: int = 4) -> Any:
    """O = the sum of the ``rounds`` blocks of A, each added by TMA."""

    @T.prim_func
    def kernel(A: T.Tensor((256, 64), "float32"), O: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((64, 64), "float32")
            s = T.alloc_shared((64, 64), "float32")
            for k in T.serial(rounds):
                T.copy(A[k * 64, 0], x)
                T.copy(x, s)
                T.atomic_add(O[0, 0], s, use_tma=True)

    return kernel


def steps(text: str) -> list[str]:
    """Loops, meetings, stores and waits in the order of the text."""
    names = {"for (int k": "loop", "__syncthreads": "meet", "tl_bar_sync": "meet",
             "tl_tma_reduce_add": "store", "tl_bulk_wait_read<0>": "wait"}  # fmt: skip
    found = re.findall("|".join(map(re.escape, names)), text)
    return [names[item] for item in found]


def test_a_tma_store_is_waited_for_at_the_next_barrier() -> None:
    text = compiled(summed(), SM_90A).get_kernel_source()
    assert steps(text) == ["loop", "wait", "meet", "meet", "store", "wait"]


@pytest.mark.parametrize("rounds", [0, 1, 4])
def test_the_sums_are_right_whenever_the_unit_reads(rounds: int) -> None:
    kernel = compiled(summed(rounds), SM_90A)
    wanted = FOUR[: rounds * 64].reshape(rounds, 64, 64).sum(0)
    O = np.zeros((64, 64), np.float32)
    kernel(FOUR, O)
    np.testing.assert_array_equal(O, wanted)
    assert tilelang.sanitize(kernel, FOUR, 0 * O, schedule="late").ok


def test_no_wait_of_the_loop_may_be_missing() -> None:
    kernel = compiled(summed(), SM_90A)
    text = kernel.get_kernel_source()
    O = np.zeros((64, 64), np.float32)
    first = text.index("tl_bulk_wait_read<0>();")
    edited = text[:first] + text[first + len("tl_bulk_wait_read<0>();") :]
    assert not tilelang.sanitize(kernel, FOUR, O, schedule="late", source=edited).ok


def test_a_branch_of_no_statements_is_no_store() -> None:
    @T.prim_func
    def nothing(A: T.Tensor((4, 32), "float32"), O: T.Tensor((4, 32), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            for k in T.serial(4):
                last = T.cast(0, "int32")
                if k > 1:
                    last = T.cast(k // 1, "int32")  # noqa: F841  # nothing reads it: the branch is left empty
                O[k, tx] = A[k, tx]

    a, o = np.arange(128, dtype=np.float32).reshape(4, 32), np.zeros((4, 32), np.float32)
    compiled(nothing, SM_90A)(a, o)
    np.testing.assert_array_equal(o, a)
