"""Programs whose threads have roles: copies with barriers, tile operations of single threads."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import EVERYWHERE, GPUS, INTERPRETER, SM_80, compiled, holds
from tensor_types import F16, F32, I32

import tilelang.language as T

WITH_BARRIERS = (INTERPRETER, *GPUS)
TILE = np.arange(64 * 64).reshape(64, 64).astype(np.float16)
TILES = np.random.default_rng(0).integers(0, 99, (4, 64, 64)).astype(np.float16)


@pytest.mark.parametrize("who", ["a thread", "an elected thread", "a warp", "a part of a warp"])
def test_a_copy_is_complete_when_its_mbarrier_phase_is(who: str) -> None:
    warp = who == "a warp"
    part = who == "a part of a warp"

    @T.prim_func
    def told(A: F16[64, 64], B: F16[64, 64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64, 64), "float16")
            bar = T.alloc_barrier(32 if warp else 5 if part else 1)
            if warp:
                if tx >= 224:
                    T.tma_copy(A, s, barrier=bar)
                    T.barrier_arrive(bar)
            elif part:
                if tx >= 130 and tx < 135:
                    T.tma_copy(A, s, barrier=bar)
                    T.barrier_arrive(bar)
            elif who == "a thread":
                if tx == 128:
                    T.tma_copy(A, s, barrier=bar)
                    T.barrier_arrive(bar)
            elif T.shuffle_elect(256):
                T.tma_copy(A, s, barrier=bar)
                T.barrier_arrive(bar)
            T.barrier_wait(bar, 0)
            T.copy(s, B)

    holds(told, (TILE, 0 * TILE), TILE, on=WITH_BARRIERS)


@pytest.mark.parametrize("protocol", ["arrive", "expect", "arrive and expect", "arrive first"])
@pytest.mark.parametrize("together", [True, False])
def test_a_ring_of_tiles_between_two_roles(protocol: str, together: bool) -> None:
    half = 32 * 64 * 2

    @T.macro
    def load(A: Any, s: Any, full: Any, k: Any) -> None:
        if protocol == "expect":
            T.mbarrier_expect_tx(full[k % 2], 2 * half)
        if protocol == "arrive and expect":
            T.mbarrier_arrive_expect_tx(full[k % 2], 2 * half)
        if protocol == "arrive first":
            T.barrier_arrive(full[k % 2])
        T.tma_copy(A[k, 0:32, :], s[k % 2, 0:32, :], barrier=full[k % 2])
        T.tma_copy(A[k, 32:64, :], s[k % 2, 32:64, :], barrier=full[k % 2])
        if protocol in ("arrive", "expect"):
            T.barrier_arrive(full[k % 2])

    @T.prim_func
    def ring(A: F16[4, 64, 64], B: F16[4, 64, 64]):
        with T.Kernel(1, threads=160):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 64, 64), "float16")
            full = T.alloc_barrier([32, 32] if together else [1, 1])
            empty = T.alloc_barrier([128, 128])
            if tx >= 128:
                for k in T.serial(4):
                    if together:
                        T.mbarrier_wait_parity(empty[k % 2], (k // 2 + 1) % 2)
                        load(A, s, full, k)
                    else:
                        # Nothing holds up the ring for the others: one that came late would find
                        # that two phases are over, and wait for ever.
                        if tx == 128:
                            T.mbarrier_wait_parity(empty[k % 2], (k // 2 + 1) % 2)
                            load(A, s, full, k)
            else:
                for k in T.serial(4):
                    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                    T.copy(s[k % 2, :, :], B[k, :, :])
                    T.barrier_arrive(empty[k % 2])

    places = (INTERPRETER, GPUS[1]) if "expect" in protocol else WITH_BARRIERS
    holds(ring, (TILES, 0 * TILES), TILES, on=places)


def test_one_thread_of_many_that_copy_may_arrive() -> None:
    @T.prim_func
    def one(A: F16[4, 64, 64], B: F16[4, 64, 64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 64, 64), "float16")
            full = T.alloc_barrier([1, 1])
            empty = T.alloc_barrier([128, 128])
            if tx >= 128:
                for k in T.serial(4):
                    T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                    T.tma_copy(A[k, :, :], s[k % 2, :, :], barrier=full[k % 2])
                    if tx == 128:
                        T.barrier_arrive(full[k % 2])
            else:
                for k in T.serial(4):
                    T.barrier_wait(full[k % 2], k // 2 % 2)
                    T.copy(s[k % 2, :, :], B[k, :, :])
                    T.barrier_arrive(empty[k % 2])

    holds(one, (TILES, 0 * TILES), TILES, on=WITH_BARRIERS)
    assert "tl_bar_sync" in compiled(one, SM_80).get_kernel_source()


def test_one_thread_stores_a_tile() -> None:
    @T.prim_func
    def stores(A: F16[64, 64], B: F16[64, 64]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64, 64), "float16")
            T.copy(A, s)
            T.fence_proxy_async()
            T.sync_threads()
            if tx == 0:
                T.tma_copy(s, B)
                T.tma_store_arrive()
                T.tma_store_wait()

    holds(stores, (TILE, 0 * TILE), TILE)


def test_tile_operations_of_any_threads_that_are_known() -> None:
    @T.prim_func
    def parts(A: F16[64, 64], B: F16[64, 64]):
        with T.Kernel(2, threads=128) as bx:
            tx = T.get_thread_binding()
            s = T.alloc_shared((64, 64), "float16")
            if tx < 20:
                T.copy(A[0:32, :], s[0:32, :])
            if tx == 77:
                T.copy(A[32:40, :], s[32:40, :])
            if tx % 2 == 1:
                T.copy(A[40:60, :], s[40:60, :])
                if tx >= 64:
                    T.fill(s[60:64, :], 7)
            if tx >= 32 and bx == 1:
                T.copy(s[0:20, :], B[0:20, :])
            if tx >= 64 and tx < 96:
                if bx == 1:
                    for i, j in T.Parallel(44, 64):
                        B[20 + i, j] = s[20 + i, j] + 1

    wanted = TILE.copy()
    wanted[60:] = 7
    wanted[20:] += 1
    holds(parts, (TILE, 0 * TILE), wanted)


def test_one_thread_reads_its_own_tile_and_lanes_synchronize() -> None:
    @T.prim_func
    def alone(A: F16[64, 64], B: F16[64, 64]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64, 64), "float16")
            if tx == 3:
                T.copy(A[0:32, :], s[0:32, :])
                T.copy(s[0:32, :], B[0:32, :])
            if tx >= 40 and tx < 45:
                T.copy(A[32:64, :], s[32:64, :])
                T.transpose(s[32:64, 0:32], B[32:64, 0:32])

    wanted = TILE.copy()
    wanted[32:, :32] = TILE[32:, :32].T
    wanted[32:, 32:] = 0
    holds(alone, (TILE, 0 * TILE), wanted)


def test_atomics_of_one_thread_count_once() -> None:
    @T.prim_func
    def counts(B: I32[64]):
        with T.Kernel(3, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            for i in T.Parallel(64):
                s[i] = i
            if tx == 5:
                T.atomic_add(B, s)

    holds(counts, (np.ones(64, np.int32),), 1 + 3 * np.arange(64, dtype=np.int32), on=EVERYWHERE)


def test_roles_may_have_loops_of_different_lengths() -> None:
    @T.prim_func
    def lengths(A: F16[4, 64, 64], B: F16[4, 64, 64]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            role = tx // 64
            s = T.alloc_shared((2, 64, 64), "float16")
            if tx < 64:
                for k in T.serial(role * 2, role * 2 + 1):
                    T.copy(A[k, :, :], s[0, :, :])
                    T.copy(s[0, :, :], B[k, :, :])
            else:
                for k in T.serial(role, 4):
                    T.copy(A[k, :, :], s[1, :, :])
                    T.copy(s[1, :, :], B[k, :, :])

    holds(lengths, (TILES, 0 * TILES), TILES, on=WITH_BARRIERS)


@pytest.mark.parametrize("threads", [64, 96])
def test_tile_operations_are_distributed_over_remaining_threads(threads: int) -> None:
    @T.prim_func
    def leaves(A: F32[64, 64], n: T.int32, B: F32[64, 64]):
        with T.Kernel(4, threads=128) as bx:
            tx = T.get_thread_binding()
            s = T.alloc_shared((64, 64), "float32")
            r = T.alloc_fragment((64,), "float32")
            f = T.alloc_fragment((64, 64), "float32")
            if bx > 0:
                if n > 3:
                    T.thread_return()
                T.thread_return()
            elif tx >= threads:
                T.thread_return()
            T.copy(A, s)
            T.copy(s, f)
            T.reduce_sum(f, r, dim=0)
            for i, j in T.Parallel(64, 64):
                B[i, j] = s[j, i] + r[j]

    a = TILE.astype(np.float32)
    holds(leaves, (a, 5, 0 * a), a.T + a.sum(0))


@pytest.mark.parametrize("form", ["copy and use", "copy only", "break"])
def test_branches_in_a_pipeline(form: str) -> None:
    @T.prim_func
    def branches(A: F16[4, 64, 64], M: I32[4], B: F32[64, 64]):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.clear(acc)
            for k in T.Pipelined(4, num_stages=3):
                if form == "copy and use":
                    if M[k] != 0:
                        T.copy(A[k, :, :], s)
                        for i, j in T.Parallel(64, 64):
                            acc[i, j] += s[i, j]
                elif form == "copy only":
                    if M[k] != 0:
                        T.copy(A[k, :, :], s)
                    for i, j in T.Parallel(64, 64):
                        acc[i, j] += s[i, j]
                else:
                    T.copy(A[k, :, :], s)
                    if M[k] == 0:
                        T.loop_break()
                    for i, j in T.Parallel(64, 64):
                        acc[i, j] += s[i, j]
            T.copy(acc, B)

    taken = {"copy and use": [0, 2], "copy only": [0, 0, 2, 2], "break": [0]}[form]
    wanted = TILES[taken].astype(np.float32).sum(0)
    given = TILES, np.array([1, 0, 1, 0], np.int32), np.zeros((64, 64), np.float32)
    holds(branches, given, wanted)


def test_barriers_that_the_program_numbers_leave_some_to_its_roles() -> None:
    @T.prim_func
    def ring(A: F32[6, 64], B: F32[6, 64]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 64), "float32")
            if tx < 64:
                for k in T.serial(6):
                    if k >= 2:
                        T.sync_threads(2 + k % 2, 128)
                    s[k % 2, tx] = A[k, tx] * 2
                    T.named_barrier_arrive(4 + k % 2, 128)
            else:
                for k in T.serial(6):
                    T.sync_threads(4 + k % 2, 128)
                    B[k, tx - 64] = s[k % 2, 127 - tx]
                    if k < 4:
                        T.named_barrier_arrive(2 + k % 2, 128)

    a = np.arange(384).reshape(6, 64).astype(np.float32)
    holds(ring, (a, 0 * a), 2 * a[:, ::-1], on=WITH_BARRIERS)


def test_loads_of_a_role_without_barriers_are_private() -> None:
    @T.prim_func
    def ring(A: F16[8, 64, 64], B: F16[8, 64, 64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 64, 64), "float16")
            full = T.alloc_barrier([128, 128])
            empty = T.alloc_barrier([128, 128])
            if tx >= 128:
                for k in T.serial(8):
                    T.barrier_wait(empty[k % 2], (k // 2 + 1) % 2)
                    T.copy(A[k, :, :], s[k % 2, :, :])
                    T.barrier_arrive(full[k % 2])
            else:
                for k in T.serial(8):
                    T.barrier_wait(full[k % 2], k // 2 % 2)
                    T.copy(s[k % 2, :, :], B[k, :, :])
                    T.barrier_arrive(empty[k % 2])

    tiles = np.concatenate([TILES, TILES])
    holds(ring, (tiles, 0 * tiles), tiles, on=WITH_BARRIERS)
    assert "tl_tma_load" not in compiled(ring, "sm_90a").get_kernel_source()
