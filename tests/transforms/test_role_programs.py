"""Programs whose threads have roles: copies with barriers, counters, products by hand."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import GPUS, INTERPRETER, SM_80, SM_90A, compiled, holds
from tensor_types import F16

import tilelang.language as T
from tilelang.errors import TileWarning

HALF, SINGLE = "float16", "float32"
WITH_BARRIERS = (INTERPRETER, *GPUS)
TILE = np.arange(64 * 64).reshape(64, 64).astype(np.float16)
TILES = np.random.default_rng(0).integers(0, 99, (4, 64, 64)).astype(np.float16)


@pytest.mark.parametrize("who", ["a thread", "an elected thread", "a warp", "a part of a warp"])
def test_a_copy_is_complete_when_its_mbarrier_phase_is(who: str) -> None:
    chosen, arrivals = {
        "a thread": (lambda tx: tx == 128, 1),
        "an elected thread": (lambda tx: T.shuffle_elect(256), 1),
        "a warp": (lambda tx: tx >= 224, 32),
        "a part of a warp": (lambda tx: (tx >= 130) & (tx < 135), 5),
    }[who]

    @T.prim_func
    def told(A: F16[64, 64], B: F16[64, 64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64, 64), "float16")
            bar = T.alloc_barrier(arrivals)
            if chosen(tx):
                T.tma_copy(A, s, barrier=bar)
                T.barrier_arrive(bar)
            T.barrier_wait(bar, 0)
            T.copy(s, B)

    holds(told, (TILE, 0 * TILE), TILE, on=WITH_BARRIERS)


@pytest.mark.parametrize(
    "protocol", ["arrive", "one arrives", "expect", "arrive and expect", "arrive first"]
)
def test_a_ring_of_tiles_between_two_roles(protocol: str) -> None:
    half, arrivals = 32 * 64 * 2, 1 if protocol == "one arrives" else 32

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
        if protocol == "one arrives":
            if T.get_thread_binding() == 128:
                T.barrier_arrive(full[k % 2])
        if protocol in ("arrive", "expect"):
            T.barrier_arrive(full[k % 2])

    @T.prim_func
    def ring(A: F16[4, 64, 64], B: F16[4, 64, 64]):
        with T.Kernel(1, threads=160):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 64, 64), "float16")
            full = T.alloc_barrier([arrivals] * 2)
            empty = T.alloc_barrier([128, 128])
            if tx >= 128:
                for k in T.serial(4):
                    T.mbarrier_wait_parity(empty[k % 2], (k // 2 + 1) % 2)
                    load(A, s, full, k)
            else:
                for k in T.serial(4):
                    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                    T.copy(s[k % 2, :, :], B[k, :, :])
                    T.barrier_arrive(empty[k % 2])

    places = (INTERPRETER, GPUS[1]) if "expect" in protocol else WITH_BARRIERS
    holds(ring, (TILES, 0 * TILES), TILES, on=places)
    if protocol == "one arrives":
        assert "tl_bar_sync" in compiled(ring, SM_80).get_kernel_source()


def alternating(tiles, inner, depth=1):
    """A producer fills one of two tiles, chosen by its counter; a consumer adds one."""

    @T.macro
    def used_by(B, tile, place):
        for i, j in T.Parallel(64, 64):
            B[place, i, j] = tile[i, j] + T.float16(1)

    @T.prim_func
    def counted(A: F16[2 * tiles * inner, 64, 64], B: F16[2 * tiles * inner, 64, 64]):
        with T.Kernel(2, threads=256) as bx:
            s0 = T.alloc_shared((64, 64), "float16")
            s1 = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(arrive_count=128)
            empty = T.alloc_barrier(arrive_count=128)
            T.sync_threads()
            filled = T.alloc_var("int32", init=0)
            used = T.alloc_var("int32", init=0)
            tx = T.get_thread_binding()
            if tx < 128:
                for t, _ in T.Persistent([2 * tiles, 1], wave_size=2, index=bx, group_size=8):
                    for k in T.serial(inner):
                        T.barrier_wait(empty, (filled + 1) % 2)
                        if filled // depth % 2 == 0:
                            T.tma_copy(A[t * inner + k, 0:64, :], s0, barrier=full)
                        else:
                            T.tma_copy(A[t * inner + k, 0:64, :], s1, barrier=full)
                        T.barrier_arrive(full)
                        filled = filled + 1
            else:
                for t, _ in T.Persistent([2 * tiles, 1], wave_size=2, index=bx, group_size=8):
                    for k in T.serial(inner):
                        T.barrier_wait(full, used % 2)
                        if used // depth % 2 == 0:
                            used_by(B, s0, t * inner + k)
                        else:
                            used_by(B, s1, t * inner + k)
                        T.barrier_arrive(empty)
                        used = used + 1

    return counted


@pytest.mark.parametrize(("tiles", "inner", "depth"), [(2, 3, 1), (1, 4, 2), (3, 1, 1)])
def test_a_role_copies_under_the_parity_of_its_counter(tiles: int, inner: int, depth: int) -> None:
    a = np.random.default_rng(0).integers(-4, 5, (2 * tiles * inner, 64, 64)).astype(np.float16)
    holds(alternating(tiles, inner, depth), (a, np.zeros_like(a)), a + np.float16(1), on=(SM_90A,))


def numbers(*shape, seed=0):
    """Small integers, of which every sum is exact."""
    return np.random.default_rng(seed + sum(shape)).integers(-3, 4, shape).astype(HALF)


def zeros(*shape):
    return np.zeros(shape, SINGLE)


def product(a, b):
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(SINGLE)


def slots_in_variables(stride=False):
    """Blocks take several tiles; both roles count slot and phase in variables of their own. A warp
    copies; ``stride``: its threads have different slots."""
    M, N, K, stages = 192, 64, 192, 2

    @T.prim_func
    def slots(A: T.Tensor((M, K), HALF), B: T.Tensor((N, K), HALF), C: T.Tensor((M, N), SINGLE)):
        with T.Kernel(2, threads=256) as bx:
            a = T.alloc_shared((stages, 64, 64), HALF)
            b = T.alloc_shared((stages, N, 64), HALF)
            full, empty = T.alloc_barrier([32] * stages), T.alloc_barrier([128] * stages)
            tx = T.get_thread_binding()
            tiles = T.ceildiv(3 - bx, 2)
            if tx >= 128:
                T.set_max_nreg(40, 0)
                if tx < 160:
                    slot, phase = T.alloc_var("int32", init=0), T.alloc_var("int32", init=1)
                    for t in T.serial(tiles):
                        for k in T.serial(K // 64):
                            T.mbarrier_wait_parity(empty[slot], phase)
                            at = (bx + 2 * t) * 64
                            T.tma_copy(A[at, k * 64], a[slot, :, :], barrier=full[slot])
                            T.tma_copy(B[0, k * 64], b[slot, :, :], barrier=full[slot])
                            T.mbarrier_arrive(full[slot])
                            slot += T.if_then_else(tx < 130, 1, 0) if stride else 1
                            if slot == stages:
                                slot = 0
                                phase = phase ^ 1
            else:
                T.set_max_nreg(232, 1)
                acc = T.alloc_fragment((64, N), SINGLE)
                used, turn = T.alloc_var("int32", init=0), T.alloc_var("int32", init=0)
                for t in T.serial(tiles):
                    T.clear(acc)
                    for k in T.serial(K // 64):
                        T.mbarrier_wait_parity(full[used], turn)
                        T.gemm(a[used, :, :], b[used, :, :], acc, transpose_B=True)
                        T.mbarrier_arrive(empty[used])
                        used += 1
                        if used == stages:
                            used = 0
                            turn = turn ^ 1
                    T.copy(acc, C[(bx + 2 * t) * 64, 0])

    a, b = numbers(M, K), numbers(N, K, seed=1)
    return slots, (a, b, zeros(M, N)), product(a, b.T)


def a_loop_before_a_pipeline():
    """The same tiles are filled by all threads in a plain loop, and by the unit in a pipeline: in
    the first a barrier passes on what products of both warpgroups have read."""
    M, N, K = 120, 64, 256

    @T.prim_func
    def loop_first(
        A: T.Tensor((M, K), HALF), B: T.Tensor((N, K), HALF), C: T.Tensor((M, N), SINGLE)
    ):
        with T.Kernel(1, 2, threads=256) as (bx, by):
            a, b = T.alloc_shared((64, 64), HALF), T.alloc_shared((64, 64), HALF)
            acc = T.alloc_fragment((64, N), SINGLE)
            T.clear(acc)
            for k in T.Pipelined(K // 64, num_stages=0):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, acc, transpose_B=True)
            for k in T.Pipelined(K // 64, num_stages=3):
                T.copy(A[by * 64, k * 64], a)
                T.copy(B[0, k * 64], b)
                T.gemm(a, b, acc, transpose_B=True)
            T.copy(acc, C[by * 64, 0])

    a, b = numbers(M, K), numbers(N, K, seed=1)
    return loop_first, (a, b, zeros(M, N)), 2 * product(a, b.T)


def stores_in_flight():
    """Tiles come and go by the unit in a loop; one store may be in flight while the next is made."""
    M, N, rounds = 128, 64, 4

    @T.prim_func
    def in_flight(A: T.Tensor((rounds, M, N), HALF), C: T.Tensor((rounds, M, N), HALF)):
        with T.Kernel(M // 64, threads=128) as bx:
            tile = T.alloc_shared((2, 64, N), HALF)
            here = T.alloc_barrier([1, 1])
            tx = T.get_thread_binding()
            for r in T.serial(rounds):
                v = r % 2
                T.tma_store_wait(1)
                T.sync_threads()
                T.tma_copy(A[r, bx * 64 : bx * 64 + 64, :], tile[v, :, :], barrier=here[v])
                if tx == 0:
                    T.mbarrier_arrive(here[v])
                T.mbarrier_wait_parity(here[v], (r // 2) % 2)
                for i, j in T.Parallel(64, N):
                    tile[v, i, j] = tile[v, i, j] * T.float16(2) + T.float16(1)
                T.fence_proxy_async()
                T.sync_threads()
                T.tma_copy(tile[v, :, :], C[r, bx * 64 : bx * 64 + 64, :])
            T.tma_store_wait(0)

    a = numbers(rounds, M, N)
    return in_flight, (a, np.zeros_like(a)), 2 * a + 1


@pytest.mark.parametrize(
    "make", [slots_in_variables, a_loop_before_a_pipeline, stores_in_flight],
    ids=lambda make: make.__name__,
)  # fmt: skip
def test_a_program_with_roles_and_copies_by_hand(make) -> None:
    func, given, wanted = make()
    holds(func, given, wanted, on=(INTERPRETER, SM_90A))
    assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()


def test_slots_that_depend_on_the_thread_are_those_of_the_thread_that_copies() -> None:
    func, _, _ = slots_in_variables(stride=True)
    with pytest.warns(TileWarning, match="`slot.* is not proved uniform"):
        text = compiled(func, SM_90A).get_kernel_source()
    assert "tl_tma_load(" in text and "tl_tma_agree(" in text
