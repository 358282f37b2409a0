"""Which blocks start first."""

from __future__ import annotations

from executors import SM_90A, agrees
from test_gemm_overlap import arrays, attention, written

import tilelang
import tilelang.language as T


def test_blocks_with_more_iterations_come_first() -> None:
    func = attention(causal=True, dynamic=False)
    text = written(func).script()
    assert text.count("the longest blocks start first") == 1
    assert "Q[128 - bx * 128:128 - bx * 128 + 128, 0:64], q" in text
    agrees(func, arrays(6), on=(SM_90A,))


def test_other_blocks_keep_their_order() -> None:
    # All take as long, or `n` says how long a block takes.
    for func in (attention(dynamic=False), attention(causal=True)):
        assert "the longest blocks start first" not in written(func).script()


def test_a_kernel_without_a_grid_is_one_block() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32")):
        with T.Kernel(threads=64):
            for i in T.Parallel(64):
                A[i] = A[i] + 1

    assert "A[tx]" in tilelang.compile(kernel, target="cuda -arch=sm_90a").get_kernel_source()
