"""Programs with reducers on every executor: serial loops, computed indices, branches, groups."""

from __future__ import annotations

import numpy as np
import pytest
from access_widths import has_widths
from executors import holds
from tensor_types import F32, I32

import tilelang.language as T

I, F = np.int32, np.float32


def small(*shape: int, low: int = -9) -> np.ndarray:
    return np.random.default_rng(7).integers(low, 9, shape)


def test_single_threads_contribute_to_a_reducer() -> None:
    @T.prim_func
    def single(A: I32[64], B: I32[4]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            r = T.alloc_reducer((4,), "int32")
            T.clear(r)
            for k in T.serial(3):
                r[(tx + k) % 4] += A[tx]
            if tx < 5:
                r[1] += 100
            r[3] += 1
            T.finalize_reducer(r)
            T.copy(r, B)

    a = small(64).astype(I)
    wanted = np.array([0, 500, 0, 64])
    for tx in range(64):
        for k in range(3):
            wanted[(tx + k) % 4] += a[tx]
    holds(single, (a, np.zeros(4, I)), wanted.astype(I))


def test_groups_of_threads_have_reducers_of_their_own() -> None:
    @T.prim_func
    def roles(A: I32[2, 64], B: I32[2, 4]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            if tx < 64:
                r = T.alloc_reducer((4,), "int32")
                T.clear(r)
                for i in T.Parallel(64):
                    r[i // 16] += A[0, i]
                T.finalize_reducer(r)
                T.copy(r, B[0, :])
            else:
                q = T.alloc_reducer((4,), "int32")
                T.clear(q)
                for i in T.Parallel(64):
                    q[i % 4] += A[1, i]
                q[2] += 1
                T.finalize_reducer(q)
                T.copy(q, B[1, :])

    a = small(2, 64).astype(I)
    wanted = [a[0].reshape(4, 16).sum(1), a[1].reshape(16, 4).sum(0) + [0, 0, 64, 0]]
    holds(roles, (a, np.zeros((2, 4), I)), np.stack(wanted).astype(I))


def test_what_a_reducer_starts_from_is_read_at_its_start() -> None:
    @T.prim_func
    def seeded(A: F32[8], B: F32[1]):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((8,), "float32")
            T.copy(A, a)
            seed = T.alloc_fragment((1,), "float32")
            seed[0] = 5.0
            r = T.alloc_reducer((1,), "float32", op="sum")
            T.reducer_init(r, seed[0])
            seed[0] = 100.0
            for i in T.Parallel(8):
                T.reducer_update(r[0], a[i])
            found = T.alloc_fragment((1,), "float32")
            T.finalize_reducer(r, found)
            if T.get_thread_binding() == 0:
                B[0] = found[0]

    a = small(8).astype(F)
    holds(seeded, (a, np.zeros(1, F)), a.sum(keepdims=True) + 5)


@pytest.mark.parametrize("read", ["outside", "in_the_loop", "by_copy"])
@pytest.mark.parametrize("kind", ["float16", "float32"])
def test_a_reducer_of_all_threads_leaves_loops_their_vectors(kind: str, read: str) -> None:
    """A loop that only adds to copies that all threads have takes the map of the others."""

    @T.prim_func
    def weighted(A: T.Tensor((6, 512), kind), W: F32[512], C: T.Tensor((6, 512), kind), B: F32[6]):
        with T.Kernel(6, threads=64) as row:
            a = T.alloc_fragment((512,), kind)
            w = T.alloc_fragment((512,), "float32")
            r = T.alloc_reducer((1,), "float32", replication="all")
            T.clear(r)
            for i in T.Parallel(512):
                a[i] = A[row, i]
                w[i] = W[i]
            for i in T.Parallel(512):
                a[i] = a[i] + T.cast(1, kind)
                r[0] += T.cast(a[i], "float32") * w[i]
            for i in T.Parallel(512):
                C[row, i] = a[i]
            T.finalize_reducer(r)
            if read == "outside":
                B[row] = r[0]
            elif read == "by_copy":
                T.copy(r, B[row : row + 1])
            else:
                for i in T.Parallel(1):
                    B[row + i] = r[i]

    a, w = small(6, 512).astype(kind), small(512).astype(F)
    holds(weighted, (a, w, np.zeros_like(a), np.zeros(6, F)), (a + a.dtype.type(1)) @ w)
    four = (4 * a.itemsize,)
    has_widths(weighted, {"A": four, "W": (16,), "C": four})
