"""Fragments of a group of threads that an operation of more threads touches, too."""

from __future__ import annotations

import numpy as np
import pytest
from executors import holds

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError

CUDA = "cuda -arch=sm_80"


def test_what_all_threads_clear_belongs_to_the_branches_that_use_it():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((2, 8, 64), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            one = T.alloc_fragment((8, 64), "float32")
            both = T.alloc_fragment((8, 64), "float32")
            T.clear(one)
            T.fill(both, 3)
            if tx < 128:
                for i, j in T.Parallel(8, 64):
                    both[i, j] += X[i, j]
                T.copy(both, Y[0, 0, 0])
            else:
                for i, j in T.Parallel(8, 64):
                    one[i, j] += X[i, j] * 2
            T.copy(one, Y[1, 0, 0])

    x = np.arange(512, dtype=np.float32).reshape(8, 64)
    holds(main, (x, np.zeros((2, 8, 64), np.float32)), np.stack([x + 3, x * 2]), on=("sm_80",))
    assert "tl_smem" not in tilelang.lower(main, target=CUDA).source  # nothing is exchanged


def test_fragments_of_two_groups_are_stored_by_one():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "float32")):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            x = T.alloc_fragment((8, 64), "float32")
            if tx < 128:
                T.copy(X, x)
            else:
                T.clear(x)
            T.copy(x, Y)

    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.lower(main, target=CUDA)
    assert str(caught.value).startswith(
        "the fragment `x` is used by 128 threads and by 256\n"
        "  expected: a fragment used by one group of threads\n"
        "  got: groups of 128 and 256 threads\n"
        "  hint: use a fragment per branch, or exchange the tile through shared memory"
    )
