"""Programs with reducers on every executor: serial loops, computed indices, branches, groups."""

from __future__ import annotations

import numpy as np
import pytest
from access_widths import has_widths
from executors import holds
from tensor_types import F32, I32

import tilelang.language as T

I, F = np.int32, np.float32
n = T.dynamic("n")


def small(*shape: int, low: int = -9) -> np.ndarray:
    return np.random.default_rng(7).integers(low, 9, shape)


def test_a_reducer_is_updated_in_serial_loops() -> None:
    @T.prim_func
    def products(A: F32[4, 64], B: F32[4, 4]):
        with T.Kernel(1, threads=32):
            a = T.alloc_fragment((4, 64), "float32")
            T.copy(A, a)
            r = T.alloc_reducer((4, 4), "float32", replication="all")
            T.clear(r)
            for i in T.serial(4):
                for j in T.serial(4):
                    for k in T.Parallel(64):
                        r[i, j] += a[i, k] * a[j, k]
            T.finalize_reducer(r)
            T.copy(r, B)

    a = small(4, 64).astype(F)
    holds(products, (a, np.zeros((4, 4), F)), a @ a.T)


def test_a_reducer_is_updated_at_computed_indices() -> None:
    @T.prim_func
    def groups(A: F32[64, 12], B: F32[3]):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((64, 12), "float32")
            T.copy(A, a)
            r = T.alloc_reducer((3,), "float32", replication="all")
            T.clear(r)
            for i, j in T.Parallel(64, 12):
                r[T.min(2, j // 4)] += a[i, j]
            T.finalize_reducer(r)
            T.copy(r, B)

    a = small(64, 12).astype(F)
    holds(groups, (a, np.zeros(3, F)), a.reshape(64, 3, 4).sum((0, 2)))


def test_a_reducer_counts_values_that_fragments_and_tensors_hold() -> None:
    @T.prim_func
    def histogram(A: I32[200], B: I32[8]):
        with T.Kernel(1, threads=64):
            r = T.alloc_reducer((8,), "int32", replication="all")
            a = T.alloc_fragment((200,), "int32")
            T.copy(A, a)
            T.fill(r, 0)
            for i in T.Parallel(200):
                if i % 3 != 0:
                    r[a[i]] += 1
                else:
                    e = A[i]
                    r[7 - e] += 10
            T.finalize_reducer(r)
            T.copy(r, B)

    a = np.random.default_rng(1).integers(0, 8, 200).astype(I)
    third = np.arange(200) % 3 == 0
    counts = np.bincount(a[~third], minlength=8) + 10 * np.bincount(7 - a[third], minlength=8)
    holds(histogram, (a, np.zeros(8, I)), counts.astype(I))


def test_several_loops_share_a_reducer_in_different_ways() -> None:
    @T.prim_func
    def several(A: F32[64, 12], B: F32[64], C: F32[12]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 12), "float32")
            T.copy(A, a)
            r = T.alloc_reducer((64,), "float32", op="min", replication="none")
            s = T.alloc_reducer((12,), "float32", replication="none")
            T.fill(r, T.infinity("float32"))
            T.clear(s)
            for i, j in T.Parallel(64, 12):
                r[i] = T.min(r[i], a[i, j])
                s[j] += a[i, j]
            for j, i in T.Parallel(12, 64):
                r[63 - i] = T.min(r[63 - i], a[i, j] - 1)
                s[j] += 1
            for i in T.serial(64):
                for j in T.Parallel(12):
                    s[11 - j] += a[i, j]
            T.finalize_reducer(r)
            T.finalize_reducer(s)
            for i in T.Parallel(64):
                B[i] = r[i]
            T.copy(s, C)

    a = small(64, 12).astype(F)
    least, sums = a.min(1), a.sum(0)
    wanted = np.minimum(least, (least - 1)[::-1]), sums + 64 + sums[::-1]
    holds(several, (a, np.zeros(64, F), np.zeros(12, F)), *wanted)


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


def test_a_reducer_in_a_loop_of_unknown_length() -> None:
    @T.prim_func
    def unknown(A: F32[n], B: F32[2]):
        with T.Kernel(1, threads=96):
            r = T.alloc_reducer((2,), "float32", op="max")
            T.fill(r, -5.0)
            for i in T.Parallel(n):
                r[i % 2] = T.max(r[i % 2], A[i])
            T.finalize_reducer(r)
            for i in T.Parallel(2):
                r[i] = r[i] * 2
            T.copy(r, B)

    for count in (5, 333):
        a = small(count).astype(F)
        wanted = [max(-5, a[0::2].max()) * 2, max(-5, a[1::2].max()) * 2]
        holds(unknown, (a, np.zeros(2, F)), np.array(wanted, F))


@pytest.mark.filterwarnings("ignore:.*are spilled")  # on a GPU: three loops over all registers
def test_a_reducer_starts_anew_in_every_iteration() -> None:
    @T.prim_func
    def again(A: F32[64, 12], C: F32[3, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((64, 12), "float32")
            d = T.alloc_fragment((64,), "float32")
            T.copy(A, a)
            r = T.alloc_reducer((64,), "float32")
            for k in T.serial(3):
                T.reducer_init(r, 1.0)
                for i, j in T.Parallel(64, 12):
                    if j % 3 == k:
                        r[(i + k) % 64] += a[i, j]
                T.finalize_reducer(r, d)
                T.copy(d, C[k, :])

    a = small(64, 12).astype(F)
    wanted = [np.roll(a[:, k::3].sum(1), k) + 1 for k in range(3)]
    holds(again, (a, np.zeros((3, 64), F)), np.stack(wanted).astype(F))


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


def test_a_view_of_a_reducer_splits_its_rows() -> None:
    @T.prim_func
    def sums(A: I32[16, 96], B: I32[6, 4], C: I32[9, 16]):
        with T.Kernel(1, threads=96):
            rows = T.alloc_reducer((8, 3), "int32", replication="all")
            T.clear(rows)
            for i in T.serial(8):
                for j in T.serial(3):
                    for k in T.Parallel(96):
                        rows[i, j] += A[i + j, k]
            T.finalize_reducer(rows)
            T.copy(T.view(rows, (6, 4)), B)
            each = T.alloc_reducer((16, 9), "int32")
            T.clear(each)
            for i, j, k in T.Parallel(16, 9, 10):
                each[i, j] += A[i, j * 10 + k]
            T.finalize_reducer(each)
            T.copy(T.view(each, (9, 16)), C)

    a = small(16, 96).astype(I)
    rows = a[np.arange(8)[:, None] + np.arange(3)].sum(-1)
    each = a[:, :90].reshape(16, 9, 10).sum(-1)
    outs = np.zeros((6, 4), I), np.zeros((9, 16), I)
    holds(sums, (a, *outs), rows.reshape(6, 4), each.reshape(9, 16))


def test_a_sum_is_scaled_while_it_collects() -> None:
    """The sums of an online softmax: whatever was added before is scaled by every new maximum."""

    @T.prim_func
    def sums(A: F32[4, 16, 32], F: F32[4, 16], B: F32[16]):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((16, 32), "float32")
            f = T.alloc_fragment((16,), "float32")
            r = T.alloc_reducer((16,), "float32")
            T.fill(r, 3)
            for k in T.serial(4):
                T.copy(A[k, :, :], a)
                T.copy(F[k, :], f)
                for i in T.Parallel(16):
                    r[i] *= f[i]
                for i, j in T.Parallel(16, 32):
                    r[i] += a[i, j]
            for i in T.Parallel(16):
                r[i] = r[i] / 2
            T.finalize_reducer(r)
            T.copy(r, B)

    a, f = small(4, 16, 32).astype(F), small(4, 16, low=-2).astype(F)
    want = np.full(16, 3, F)
    for k in range(4):
        want = want * f[k] + a[k].sum(1)
    holds(sums, (a, f, np.zeros(16, F)), want / 2)


def test_a_scaled_sum_may_be_replicated_in_all_threads() -> None:
    @T.prim_func
    def groups(A: I32[64, 12], B: I32[3]):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((64, 12), "int32")
            T.copy(A, a)
            r = T.alloc_reducer((3,), "int32", replication="all")
            T.clear(r)
            for i, j in T.Parallel(64, 12):
                r[T.min(2, j // 4)] += a[i, j]
            for k in T.Parallel(3):
                if k > 0:
                    r[k] = k * r[k]
            for i, j in T.Parallel(64, 12):
                r[T.min(2, j // 4)] += a[i, j]
            T.finalize_reducer(r)
            T.copy(r, B)

    a = small(64, 12).astype(I)
    holds(groups, (a, np.zeros(3, I)), a.reshape(64, 3, 4).sum((0, 2)) * np.array([2, 2, 3], I))


def test_a_reducer_starts_from_an_element_of_a_fragment() -> None:
    """Online log-sum-exp: the maximum starts from that of the tiles before."""

    @T.prim_func
    def logarithm(A: F32[512], B: F32[1]):
        with T.Kernel(1, threads=128):
            a_shared = T.alloc_shared((128,), "float32")
            a = T.alloc_fragment((128,), "float32")
            highest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            highest[0] = -T.infinity("float32")
            total[0] = 0.0
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 128], a_shared)
                T.copy(a_shared, a)
                high = T.alloc_reducer((1,), "float32", op="max", replication="all")
                T.fill(high, highest[0])
                for i in T.Parallel(128):
                    high[0] = T.max(high[0], a[i])
                T.finalize_reducer(high)
                part = T.alloc_reducer((1,), "float32", replication="all")
                T.fill(part, 0.0)
                for i in T.Parallel(128):
                    part[0] += T.exp2(a[i] - high[0])
                T.finalize_reducer(part)
                total[0] = T.exp2(highest[0] - high[0]) * total[0] + part[0]
                highest[0] = high[0]
            if T.get_thread_binding() == 0:
                B[0] = total[0] * T.exp2(highest[0])

    a = small(512).astype(F)
    holds(logarithm, (a, np.zeros(1, F)), np.exp2(a).sum(keepdims=True))


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


def test_every_thread_contributes_an_element_of_a_fragment() -> None:
    @T.prim_func
    def counted(A: F32[8], B: F32[1]):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((8,), "float32")
            T.copy(A, a)
            r = T.alloc_reducer((1,), "float32", op="sum")
            T.reducer_init(r)
            T.reducer_update(r[0], a[3])
            found = T.alloc_fragment((1,), "float32")
            T.finalize_reducer(r, found)
            if T.get_thread_binding() == 0:
                B[0] = found[0]

    a = small(8).astype(F)
    holds(counted, (a, np.zeros(1, F)), 128 * a[3:4])


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
