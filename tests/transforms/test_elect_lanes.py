"""Producers that their warps elect: which branches, and that results stay."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from test_persistent_epilogue import HOPPER, by_table, product

import tilelang
import tilelang.language as T

ELECTED = "if ((tx / 32 == 8) && tl_elect_one()) {"


def text_of(func: Any, **options: Any) -> str:
    return tilelang.compile(func, target=HOPPER, pass_configs=options).get_kernel_source()


@pytest.mark.parametrize("func", [product(), by_table((1700, 101), 640)])
def test_the_thread_of_a_producer_is_elected(func: Any) -> None:
    text = text_of(func)
    assert text.count("tl_elect_one") == 1
    assert text.index(ELECTED) < text.index("tl_tma_load")


def test_threads_that_copy_in_loops_of_the_block_are_not_producers() -> None:
    """One that fills a pipeline between its products has to be the one that waits for stores."""
    text = text_of(product(), **{"tl.disable_warp_specialized": True})
    assert "tl_tma_load" in text
    assert "tl_elect_one" not in text


def test_a_kernel_that_does_nothing_has_no_producer() -> None:
    @T.prim_func
    def nothing(A: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=128):
            pass

    assert "tl_elect_one" not in text_of(nothing)


def by_hand(first: int = 128, number: str = "", last: bool = True) -> Any:
    """O = A + 1 by blocks that the thread ``first`` copies; ``number``: what it asks for."""

    @T.prim_func
    def kernel(A: T.Tensor((256, 64), "float32"), O: T.Tensor((256, 64), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 64, 64), "float32")
            mine = T.alloc_local((1,), "int32")
            full = T.alloc_barrier([1, 1])
            empty = T.alloc_barrier([128, 128])
            mine[0] = 0
            if number == "before":
                mine[0] = tx - first
            if tx < 128:
                for k in T.serial(4):
                    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                    for i, j in T.Parallel(64, 64):
                        O[k * 64 + i, j] = s[k % 2, i, j] + 1.0
                    T.mbarrier_arrive(empty[k % 2])
            else:
                if tx == first:
                    for k in T.serial(4):
                        T.mbarrier_wait_parity(empty[k % 2], (k // 2 + 1) % 2)
                        if number == "inside":
                            T.tma_copy(
                                A[k * 64 + tx - first, 0], s[k % 2, :, :], barrier=full[k % 2]
                            )
                        else:
                            T.tma_copy(A[k * 64 + mine[0], 0], s[k % 2, :, :], barrier=full[k % 2])
                        T.mbarrier_arrive(full[k % 2])
                if not last:
                    if tx == first + 1:
                        O[0, 0] = O[0, 0] + T.cast(mine[0], "float32")

    return kernel


@pytest.mark.parametrize(
    ("func", "elected"),
    [
        (by_hand(), True),
        (by_hand(160), True),
        (by_hand(161), False),  # not the first of a warp
        (by_hand(number="before"), False),  # registers that differ
        (by_hand(number="inside"), True),  # its number there is known: 0
        (by_hand(last=False), False),  # its warp does more
    ],
)  # fmt: skip
def test_any_lane_could_do_what_the_elected_one_does(func: Any, elected: bool) -> None:
    kernel = tilelang.compile(func, target=HOPPER, execution_backend="emulator")
    assert ("tl_elect_one" in kernel.get_kernel_source()) == elected
    A = np.arange(256 * 64, dtype=np.float32).reshape(256, 64)
    O = np.zeros_like(A)
    kernel(A, O)
    np.testing.assert_array_equal(O, A + 1)
