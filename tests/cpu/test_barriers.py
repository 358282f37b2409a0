"""Barriers on the CPU: what orders nothing costs nothing, what counts is counted."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_types import F16, F32, I32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import DeadlockError, TileUnsupportedError

from .modes import CORES, holds

COUNT = 64
NUMBERS = np.arange(COUNT, dtype=np.float32)


def test_barriers_in_memory_count_arrivals() -> None:
    @T.prim_func
    def kernel(A: F32[4, COUNT], B: F32[4, COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, COUNT), "float32")
            full = T.alloc_barrier([COUNT, COUNT])
            free = T.alloc_barrier([COUNT, COUNT])
            for k in T.serial(4):
                T.barrier_wait(free[k % 2], (k // 2 + 1) % 2)
                s[k % 2, tx] = A[k, tx]
                T.barrier_arrive(full[k % 2])
                T.barrier_wait(full[k % 2], k // 2 % 2)
                B[k, tx] = s[k % 2, COUNT - 1 - tx]
                T.barrier_arrive(free[k % 2])

    rows = np.arange(4 * COUNT, dtype=np.float32).reshape(4, COUNT)
    holds(kernel, [rows, 0 * rows], [rows[:, ::-1]])


def test_one_part_of_the_block_before_the_other() -> None:
    @T.prim_func
    def kernel(A: F32[COUNT], B: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "float32")
            done = T.alloc_barrier(32)
            if tx < 32:
                s[tx] = A[tx]
                T.barrier_arrive(done)
            else:
                T.barrier_wait(done, 0)
                B[tx] = s[63 - tx] + A[tx]
                T.sync_threads(1, 32)

    wanted = 0 * NUMBERS
    wanted[32:] = NUMBERS[:32][::-1] + NUMBERS[32:]
    holds(kernel, [NUMBERS, 0 * NUMBERS], [wanted])


def _waits_first() -> object:
    @T.prim_func
    def kernel(A: F32[COUNT], B: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "float32")
            done = T.alloc_barrier(32)
            if tx < 32:
                T.barrier_wait(done, 0)
                B[tx] = s[tx + 32]
            else:
                s[tx] = A[tx]
                T.barrier_arrive(done)

    return kernel


def _named_first() -> object:
    @T.prim_func
    def kernel(A: F32[COUNT], B: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "float32")
            if tx < 32:
                T.sync_threads(1, 64)
                B[tx] = s[tx + 32]
            else:
                s[tx] = A[tx]
                T.sync_threads(1, 64)

    return kernel


def _both_sides() -> object:
    @T.prim_func
    def kernel(A: F32[COUNT], B: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "float32")
            if tx < 32:
                T.sync_threads()
                B[tx] = s[tx + 32]
            else:
                s[tx] = A[tx]
                T.sync_threads()

    return kernel


@pytest.mark.parametrize("make", [_waits_first, _named_first, _both_sides])
def test_threads_may_wait_for_later_threads_of_the_program(make: object) -> None:
    func = make()  # type: ignore[operator]  # a function
    wanted = 0 * NUMBERS
    wanted[:32] = NUMBERS[32:]
    holds(func, [NUMBERS, 0 * NUMBERS], [wanted])


ROUNDS = 11


def _ring_of_two() -> object:
    @T.prim_func
    def kernel(A: F32[ROUNDS, 32], B: F32[ROUNDS, 32]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 32), "float32")
            full = T.alloc_barrier([32, 32])
            free = T.alloc_barrier([32, 32])
            step = T.alloc_var("int32", init=0)
            done = T.alloc_var("int32", init=0)
            if tx < 32:
                for k in T.serial(ROUNDS):
                    if A[k, 0] >= 0:
                        T.barrier_wait(free[step % 2], ((step // 2) & 1) ^ 1)
                        s[step % 2, tx] = A[k, tx] + k
                        T.barrier_arrive(full[step % 2])
                        step = step + 1
            else:
                while done < ROUNDS:
                    slot = done % 2
                    T.barrier_wait(full[slot], (done // 2) & 1)
                    for i in T.Parallel(32):
                        B[done, i] = s[slot, i]
                    T.barrier_arrive(free[slot])
                    done += 1

    return kernel


def _three_in_a_row() -> object:
    @T.prim_func
    def kernel(A: F32[ROUNDS, 32], B: F32[ROUNDS, 32]):
        with T.Kernel(1, threads=96):
            tx = T.get_thread_binding()
            s = T.alloc_shared((32,), "float32")
            t = T.alloc_shared((32,), "float32")
            bars = T.alloc_barrier([32, 32, 32, 32])
            if tx >= 64:
                for k in range(ROUNDS - 1, -1, -1):
                    T.barrier_wait(bars[2], (ROUNDS - 1 - k) & 1)
                    B[ROUNDS - 1 - k, tx - 64] = t[tx - 64]
                    T.barrier_arrive(bars[3])
            if tx < 32:
                for k in T.serial(ROUNDS):
                    T.barrier_wait(bars[0], (k & 1) ^ 1)
                    s[tx] = A[k, tx]
                    T.barrier_arrive(bars[1])
            if tx // 32 == 1:
                for k in T.serial(ROUNDS):
                    T.barrier_wait(bars[1], k & 1)
                    T.barrier_wait(bars[3], (k & 1) ^ 1)
                    t[tx - 32] = s[tx - 32] + k
                    T.barrier_arrive(bars[0])
                    T.barrier_arrive(bars[2])

    return kernel


def _alternating_by_named_barriers() -> object:
    @T.prim_func
    def kernel(A: F32[ROUNDS, 32], B: F32[ROUNDS, 32]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((32,), "float32")
            if tx < 32:
                for k in T.serial(ROUNDS):
                    T.sync_threads(2, 64)
                    B[k, tx] = s[tx]
                    if k + 1 == ROUNDS:
                        break
                    T.named_barrier_arrive(3, 64)
            elif tx < 64:
                for k in T.serial(ROUNDS):
                    s[tx - 32] = A[k, tx - 32] + k
                    T.named_barrier_arrive(2, 64)
                    if k + 1 < ROUNDS:
                        T.sync_threads(3, 64)

    return kernel


@pytest.mark.parametrize("make", [_ring_of_two, _three_in_a_row, _alternating_by_named_barriers])
def test_branches_that_wait_for_each_other_alternate(make: object) -> None:
    rows = np.arange(ROUNDS * 32, dtype=np.float32).reshape(ROUNDS, 32)
    wanted = rows + np.arange(ROUNDS, dtype=np.float32)[:, None]
    holds(make(), [rows, 0 * rows], [wanted])  # type: ignore[operator]  # a function


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_parts_that_wait_for_each_other_forever_are_an_error() -> None:
    @T.prim_func
    def kernel(A: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            bars = T.alloc_barrier([32, 32])
            if tx < 32:
                T.barrier_wait(bars[0], 0)
                T.barrier_arrive(bars[1])
            else:
                A[tx] = 1
                T.barrier_wait(bars[1], 0)
                T.barrier_arrive(bars[0])

    with pytest.raises(DeadlockError) as caught:
        tilelang.compile(kernel, target="cpu")(0 * NUMBERS)
    text, place = str(caught.value).split("\n --> ")
    assert text == (
        "threads wait at this barrier for others that do not reach it\n"
        "  expected: as many threads as the barrier counts\n"
        '  hint: execution_backend="interpret" runs the program, or names the threads that wait'
    )
    assert "T.barrier_wait(bars[1], 0)" in place


@pytest.mark.filterwarnings("ignore:thread 1 does not reach this T.sync_threads")
@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_a_barrier_that_some_threads_never_reach_is_an_error_everywhere() -> None:
    @T.prim_func
    def kernel(A: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            A[tx] = 1
            if tx % 4 == 0:
                T.sync_threads()

    errors = []
    for options in ({"target": "cpu", "execution_backend": "interpret"}, {"target": "cpu"}):
        with pytest.raises(DeadlockError) as caught:
            tilelang.compile(kernel, **options)(0 * NUMBERS)  # type: ignore[call-overload]  # options by name
        errors.append(caught.value)
    assert str(errors[1]).split("\n -->")[0] == (
        "threads wait at this barrier for others that do not reach it\n"
        "  expected: all threads of the block that have not returned, or none of them\n"
        '  hint: execution_backend="interpret" runs the program, or names the threads that wait'
    )
    assert errors[0].loc is not None and errors[1].loc is not None
    assert errors[0].loc.line == errors[1].loc.line
    report = tilelang.sanitize(kernel, 0 * NUMBERS)
    assert [found.kind for found in report.findings] == ["barrier-divergence"]
    assert "T.sync_threads()" in str(report)


def test_a_barrier_that_arrived_threads_pass_by_name() -> None:
    @T.prim_func
    def kernel(A: F32[COUNT], B: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "float32")
            for k in T.serial(3):
                if tx < 32:
                    s[tx] = A[tx] + k
                    T.named_barrier_arrive(1, 64)
                else:
                    T.sync_threads(1, 64)
                    B[tx] = B[tx] + s[tx - 32]
                T.sync_threads()

    wanted = 0 * NUMBERS
    wanted[32:] = 3 * NUMBERS[:32] + 3
    holds(kernel, [NUMBERS, 0 * NUMBERS], [wanted], CORES)


def test_blocks_wait_for_each_other() -> None:
    blocks = 7

    @T.prim_func
    def kernel(A: F32[blocks, COUNT], B: F32[blocks, COUNT]):
        with T.Kernel(blocks, threads=COUNT) as b:
            tx = T.get_thread_binding()
            mine = T.alloc_shared((COUNT,), "float32")
            mine[tx] = A[b, tx]
            for k in T.serial(5):
                B[b, tx] = mine[tx]
                T.sync_grid()
                mine[tx] = B[(b + 1) % blocks, tx] + k
                T.sync_grid()
            B[b, tx] = mine[tx]

    rows = np.arange(blocks * COUNT, dtype=np.float32).reshape(blocks, COUNT)
    wanted = rows
    for k in range(5):
        wanted = np.roll(wanted, -1, axis=0) + k
    holds(kernel, [rows, 0 * rows], [wanted])


def test_a_gpu_intrinsic_that_completes_a_barrier_is_an_error() -> None:
    @T.prim_func
    def kernel(A: F16[8, 64]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 64), "float16")
            bar = T.alloc_barrier(1)
            box = T.create_tma_descriptor(6, 2, A, 64, 8, 2, 128, 64, 8, 1, 1, 0, 0, 2, 0)
            if T.get_thread_binding() == 0:
                T.tma_load(box, bar, tile, 0, 0)

    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.compile(kernel, target="cpu")
    text, place = str(caught.value).split("\n --> ")
    assert text == (
        "T.tma_load is not available on the CPU\n"
        "  expected: an operation that runs on any target\n"
        "  got: one that needs sm_90\n"
        "  hint: compile it for a GPU of sm_90 or later; "
        'execution_backend="emulator" runs that code without one'
    )
    assert "T.tma_load(box, bar, tile, 0, 0)" in place


def test_an_operation_of_a_part_is_done_once_and_by_its_threads() -> None:
    @T.prim_func
    def kernel(A: F32[64, 16], I: I32[4], B: F32[64, 16]):
        with T.Kernel(4, threads=128) as b:
            tx = T.get_thread_binding()
            c = T.alloc_fragment((16, 16), "float32")
            row = T.alloc_local((1,), "int32")
            if tx >= 32:
                row[0] = I[b]
                T.copy(A[row[0] : row[0] + 16, :], c)
                T.atomic_add(B[row[0], 0], c)
                for i, j in T.Parallel(16, 16):
                    B[row[0] + i, j] = B[row[0] + i, j] + 1

    rows = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    places = np.array([32, 0, 48, 16], np.int32)
    holds(kernel, [rows, places, 0 * rows], [rows + 1])
