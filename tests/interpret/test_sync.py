"""Barriers, mbarriers and warp specialisation: threads on different paths that wait."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from kernel_builder import Kernel, at, zeros
from refusals import refusal

import tilelang.language as T
from tilelang import interpret
from tilelang.errors import DeadlockError, TileRuntimeError
from tilelang.ir import stmt as S
from tilelang.ir.expr import const, select

INT = np.int32


@pytest.mark.parametrize("consumer_first", [True, False])
def test_roles_in_two_separate_branches(consumer_first: bool) -> None:
    """Rule 12: two conditions in a row do not have to be passed in step."""
    with Kernel(threads=256) as k:
        out = k.tensor("O", (4,), "int32")
        s = k.shared("s", (1,), "int32")
        bar = k.barrier(128, 128)

        def producer() -> None:
            with k.when(k.tx >= 128), k.loop(4) as i:
                k.do("mbarrier_wait", at(bar, 1), (i + 1) % 2)
                k.fill(s, i * 10)
                k.do("mbarrier_arrive", at(bar, 0))

        def consumer() -> None:
            with k.when(k.tx < 128), k.loop(4) as i:
                k.do("mbarrier_wait", at(bar, 0), i % 2)
                out[i] = s[0]
                k.do("mbarrier_arrive", at(bar, 1))

        for role in (consumer, producer) if consumer_first else (producer, consumer):
            role()
    o = zeros(4, dtype=INT)
    k.run(o)
    assert o.tolist() == [0, 10, 20, 30]


def test_roles_split_by_a_bound_warp_group_index() -> None:
    with Kernel(threads=256) as k:
        out = k.tensor("O", (1,), "int32")
        group = k.let(k.tx // 128, "group")
        s = k.shared("s", (1,), "int32")
        with k.loop(3) as i:
            with k.when(group.equal(1)):
                k.do("sync_threads", 2, 256)
                out[0] = out[0] + s[0]
                k.do("sync_threads", 1, 256)
            with k.when(group.equal(0)):
                k.fill(s, i + 1)
                k.do("named_barrier_arrive", 2, 256)
                k.do("sync_threads", 1, 256)
    o = zeros(1, dtype=INT)
    k.run(o)
    assert o[0] == 6


def test_each_executing_thread_arrives_once() -> None:
    """Rule 13: one elected thread is one arrival."""
    with Kernel(threads=64) as k:
        out = k.tensor("O", (1,), "int32")
        bar = k.barrier(1, 64)
        with k.when(k.tx.equal(0)):
            k.do("mbarrier_arrive", at(bar, 0))
        k.do("mbarrier_wait", at(bar, 0), 0)
        k.do("mbarrier_arrive", at(bar, 1))
        k.do("mbarrier_wait", at(bar, 1), 0)
        out[0] = 1
    o = zeros(1, dtype=INT)
    k.run(o)
    assert o[0] == 1


def test_values_bound_in_divergent_branches_are_kept_per_thread() -> None:
    with Kernel(threads=64) as k:
        out = k.tensor("O", (64,), "int32")
        with k.when(k.tx < 32):
            k.do("sync_threads", 1, 64)
        x = k.let(k.tx * 3)
        v = k.var("v", "int32", x)
        with k.when(k.tx >= 32):
            k.do("sync_threads", 1, 64)
            v[0] = v[0] + 1000
        out[k.tx] = x + v[0]
    o = zeros(64, dtype=INT)
    k.run(o)
    assert o.tolist() == [6 * t + (1000 if t >= 32 else 0) for t in range(64)]


def test_deadlock_on_a_barrier_that_no_thread_reaches() -> None:
    with Kernel(threads=128) as k:
        bar = k.barrier(128)
        with k.when(k.tx < 64):
            k.do("mbarrier_arrive", at(bar, 0))
        k.do("mbarrier_wait", at(bar, 0), 0)
    assert refusal(DeadlockError, k.run) == (
        "the threads wait for each other and none can continue\n"
        "  expected: every barrier to be reached by all threads it counts\n"
        "  got: threads 0..127 of block (0, 0, 0) wait in T.barrier_wait(bar[0], 0): "
        "64 of 128 arrivals in phase 0\n"
        "  hint: check arrival counts and parities, and barriers under thread conditions"
    )


def test_deadlock_of_a_block_barrier_under_a_condition() -> None:
    """Rule 12: a barrier of the whole block inside one role never completes."""
    with Kernel(threads=128) as k:
        bar = k.barrier(1)
        with k.when(k.tx < 64):
            k.do("sync_threads")
        with k.otherwise():
            k.do("mbarrier_wait", at(bar, 0), 0)
    with pytest.raises(DeadlockError) as error:
        k.run()
    text = str(error.value)
    assert (
        "  got: threads 0..63 of block (0, 0, 0) wait in T.sync_threads(): "
        "64 of 128 threads have arrived\n"
        "       threads 64..127 of block (0, 0, 0) wait in T.barrier_wait(bar[0], 0): "
        "0 of 1 arrivals in phase 0\n"
    ) in text


def test_threads_that_left_do_not_block_a_barrier() -> None:
    with Kernel(threads=64) as k:
        out = k.tensor("O", (1,), "int32")
        with k.when(k.tx < 16):
            k.emit(S.ThreadReturn())
        k.do("sync_threads")
        out[0] = 1
    o = zeros(1, dtype=INT)
    k.run(o)
    assert o[0] == 1


def test_a_barrier_inside_parallel_is_refused() -> None:
    with Kernel() as k, k.parallel(4) as (_,):
        k.do("sync_threads")
    assert refusal(TileRuntimeError, k.run) == (
        "T.sync_threads is called in the iterations of T.Parallel\n"
        "  expected: thread code, outside T.Parallel\n"
        "  hint: T.Parallel iterations are spread over the threads and cannot wait for each other"
    )


def test_grid_barrier_holds_back_every_block() -> None:
    with Kernel(grid=(3,), threads=32) as k:
        out = k.tensor("O", (3,), "int32")
        w = k.alloc_buffer("w", (3,), "int32", "global")
        with k.loop(2) as i:
            w[k.bx] = k.bx + 10 * i
            k.do("sync_grid")
            out[k.bx] = out[k.bx] + w[(k.bx + 1) % 3]
            k.do("sync_grid")
    o = zeros(3, dtype=INT)
    k.run(o)
    assert o.tolist() == [12, 14, 10]


def test_a_flag_in_global_memory_orders_blocks() -> None:
    """A block that spins on a flag lets the other blocks run first."""
    with Kernel(grid=(3,), threads=32) as k:
        flag, out = k.tensor("F", (3,), "int32"), k.tensor("O", (3,), "int32")
        with k.when(k.bx < 2), k.repeat(flag[k.bx + 1].equal(0)):
            pass
        out[k.bx] = select(k.bx < 2, out[k.bx + 1] + 1, const(10))
        flag[k.bx] = 1
    o = zeros(3, dtype=INT)
    k.run(zeros(3, dtype=INT), o)
    assert o.tolist() == [12, 11, 10]


def test_a_flag_that_no_thread_sets_is_a_deadlock() -> None:
    with Kernel(grid=(1,), threads=32) as k:
        flag = k.tensor("F", (1,), "int32")
        with k.repeat(flag[0].equal(0)):
            pass
    with pytest.raises(DeadlockError) as error:
        k.run(zeros(1, dtype=INT))
    assert error.value.got == (
        "threads 0..31 of block (0, 0, 0) wait in a while loop for a value that no thread changes"
    )


def test_memory_allocated_between_two_roles_is_one_tile() -> None:
    with Kernel(threads=64) as k:
        out = k.tensor("O", (2,), "int32")
        with k.loop(2) as i:
            with k.when(k.tx < 32):
                k.do("sync_threads", 1, 64)
            s = k.shared("s", (1,), "int32")
            v = k.var("v", "int32", i + 7)
            with k.when(k.tx >= 32):
                s[0] = v[0]
                k.do("sync_threads", 1, 64)
            k.do("sync_threads")
            out[i] = s[0]
    o = zeros(2, dtype=INT)
    k.run(o)
    assert o.tolist() == [7, 8]


# -- copies that arrive at their barrier -----------------------------------------------------------
@pytest.mark.parametrize(
    ("notes", "count"), [({"emit_arrive": 1}, 1), (None, 0), ({"emit_arrive": 0}, 0)]
)
def test_a_bulk_copy_arrives_once_with_emit_arrive(notes: Any, count: int) -> None:
    @T.prim_func
    def brought(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64,), "float32")
            full = T.alloc_barrier(2)
            T.tma_copy(A, tile, barrier=full[0], annotations=notes)
            T.tma_copy(A, tile, barrier=full[0], annotations=notes)
            T.barrier_wait(full[0], 0)
            T.copy(tile, B)

    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    if count:
        interpret.run(brought, [a, b])
        assert np.array_equal(a, b)
    else:
        with pytest.raises(DeadlockError, match="0 of 2 arrivals in phase 0"):
            interpret.run(brought, [a, b])
