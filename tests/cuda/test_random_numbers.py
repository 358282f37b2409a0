"""Random numbers in shared loops: each thread draws for its elements, one after the other."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


@pytest.mark.parametrize("count", [480, 500, 470])  # ends at a vector, between two, inside one
def test_numbers_of_vectors_are_drawn_in_the_order_of_the_elements(count: int) -> None:
    @T.prim_func
    def shared(B: T.Tensor((3, 512), "uint32")):
        with T.Kernel(1, threads=32):
            T.rng_init(11, off=1)
            for i in T.Parallel(512):
                number = T.rng_rand()
                if i < count:
                    B[0, i] = number
            for i in T.Parallel(512):
                if i < count:
                    B[1, i] = T.rng_rand()
            for i in T.Parallel(512):
                B[2, i] = T.rng_rand()

    @T.prim_func
    def alone(B: T.Tensor((3, 512), "uint32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            T.rng_init(11, off=1)
            for s in T.serial(16):
                number = T.rng_rand()
                if s // 4 * 128 + tx * 4 + s % 4 < count:
                    B[0, s // 4 * 128 + tx * 4 + s % 4] = number
            for s in T.serial(16):
                if s // 4 * 128 + tx * 4 + s % 4 < count:
                    B[1, s // 4 * 128 + tx * 4 + s % 4] = T.rng_rand()
            for s in T.serial(16):
                B[2, s // 4 * 128 + tx * 4 + s % 4] = T.rng_rand()

    wanted, found = np.zeros((3, 512), np.uint32), np.zeros((3, 512), np.uint32)
    tilelang.compile(alone, target="cpu", execution_backend="interpret")(wanted)
    tilelang.compile(shared, target="cuda -arch=sm_90a", execution_backend="emulator")(found)
    assert len(np.unique(wanted[:, :count])) == 3 * count
    np.testing.assert_array_equal(found, wanted)
