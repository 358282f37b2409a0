"""``T.any_of`` and ``T.all_of`` of rows, columns and boxes of memory."""

from __future__ import annotations

import numpy as np

import tilelang.language as T

from .modes import CORES, holds

RNG = np.random.default_rng(0)
FLAGS = RNG.integers(0, 3, (6, 4)) > 0
FLAGS[3] = True


def test_rows_of_a_tensor() -> None:
    @T.prim_func
    def kernel(M: T.Tensor((6, 4), "bool"), B: T.Tensor((6,), "int32")):
        with T.Kernel(6, threads=32) as b:
            B[b] = 0
            if T.all_of(M[b, :]):
                B[b] = 1
            if T.any_of(M[b, 1:3]):
                B[b] = B[b] + 2

    wanted = (FLAGS.all(1) + 2 * FLAGS[:, 1:3].any(1)).astype(np.int32)
    holds(kernel, [FLAGS, np.zeros(6, np.int32)], [wanted])


def test_several_rows() -> None:
    @T.prim_func
    def kernel(M: T.Tensor((6, 4), "bool"), B: T.Tensor((4, 2), "int32")):
        with T.Kernel(4, threads=1) as b:
            B[b, 0] = T.cast(T.any_of(M[b : b + 2, :]), "int32")
            B[b, 1] = T.cast(T.all_of(M[b : b + 2, 0:4]), "int32")

    flags = FLAGS.copy()
    flags[0:2] = False
    flags[4] = True
    pairs = np.stack([flags[i : i + 2].ravel() for i in range(4)])
    wanted = np.stack((pairs.any(1), pairs.all(1)), axis=1).astype(np.int32)
    holds(kernel, [flags, np.zeros((4, 2), np.int32)], [wanted])


def test_each_thread_tests_its_own_elements() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((6, 4), "int32"), B: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=6):
            tx = T.get_thread_binding()
            mine = T.alloc_local((4,), "int32")
            for j in T.serial(4):
                mine[j] = A[tx, j]
            B[tx] = 0
            while T.any_of(mine[0:4]):
                B[tx] = B[tx] + 1
                for j in T.serial(4):
                    mine[j] = T.max(mine[j] - 1, 0)

    numbers = RNG.integers(0, 9, (6, 4)).astype(np.int32)
    holds(kernel, [numbers, np.zeros(6, np.int32)], [numbers.max(1)], CORES)


def test_a_region_that_leaves_a_tensor_reads_zeros_there() -> None:
    @T.prim_func
    def kernel(M: T.Tensor((6, 4), "int32"), B: T.Tensor((2,), "int32")):
        with T.Kernel(1, threads=1) as b:
            B[0] = T.cast(T.all_of(M[b + 4 : b + 8, 0:4]), "int32")
            B[1] = T.cast(T.any_of(M[b + 4 : b + 8, 0:4]), "int32")

    wanted = np.array([0, 1], np.int32)
    holds(kernel, [np.ones((6, 4), np.int32), wanted * 0], [wanted], CORES)
