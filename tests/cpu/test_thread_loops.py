"""Loops that threads leave at different iterations while they meet in shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler

from .modes import CORES, holds

COUNT = 64
NUMBERS = (np.arange(COUNT, dtype=np.int32) * 7) % 11
NOTHING = np.zeros(COUNT, np.int32)
LANES = np.arange(COUNT, dtype=np.int32)


def test_loops_with_bounds_of_each_thread_store_to_shared_memory() -> None:
    @T.prim_func
    def kernel(B: T.Tensor((160,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((160,), "int32")
            for i in T.serial(tx, 160, COUNT):
                s[i] = i * 3
            T.sync_threads()
            for i in T.serial(tx, 160, COUNT):
                B[i] = s[159 - i]

    holds(kernel, [np.zeros(160, np.int32)], [np.arange(160, dtype=np.int32)[::-1] * 3])


def test_a_while_loop_of_each_thread_stores_to_shared_memory() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = 0
            n = T.alloc_var("int32")
            n = A[tx]
            while n > 0:
                s[tx] = s[tx] + n
                n = n - 1
            B[tx] = s[tx]

    holds(kernel, [NUMBERS, NOTHING], [NUMBERS * (NUMBERS + 1) // 2])


def test_break_and_continue_of_single_threads() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = 0
            for i in T.serial(10):
                if i == A[tx]:
                    break
                if (i + tx) % 3 == 0:
                    continue
                s[tx] = s[tx] + i + 1
            B[tx] = s[tx]

    wanted = NOTHING.copy()
    for t in range(COUNT):
        for i in range(10):
            if i == NUMBERS[t]:
                break
            if (i + t) % 3 != 0:
                wanted[t] += i + 1
    holds(kernel, [NUMBERS, NOTHING], [wanted])


def test_loops_of_single_threads_in_each_other() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = 0
            for i in T.serial(A[tx]):
                for j in T.serial(i, A[tx] + 1, 2):
                    if j > 7:
                        break
                    s[tx] = s[tx] + i * j
                if s[tx] > 40:
                    break
                s[tx] = s[tx] + 1
            B[tx] = s[tx]

    wanted = NOTHING.copy()
    for t in range(COUNT):
        for i in range(NUMBERS[t]):
            for j in range(i, NUMBERS[t] + 1, 2):
                if j > 7:
                    break
                wanted[t] += i * j
            if wanted[t] > 40:
                break
            wanted[t] += 1
    holds(kernel, [NUMBERS, NOTHING], [wanted])


def test_loops_under_a_branch_of_some_threads_and_downwards() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = 100
            if A[tx] > 4:
                for i in T.serial(A[tx], -1, -2):
                    s[tx] = s[tx] * 2 % 97 + i
                    e = s[tx] + i
                    s[tx] = e
            B[tx] = s[tx]

    wanted = NOTHING + 100
    for t in np.flatnonzero(NUMBERS > 4):
        for i in range(NUMBERS[t], -1, -2):
            wanted[t] = wanted[t] * 2 % 97 + 2 * i
    holds(kernel, [NUMBERS, NOTHING], [wanted])


def test_barriers_are_in_the_iterations_of_their_threads() -> None:
    """Each iteration is that of all threads in the loop; what they store is seen by the next."""

    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = A[tx]
            for i in T.serial(A[tx]):
                near = s[(tx + 1) % COUNT]
                s[tx] = near + i
            B[tx] = s[tx]

    s = NUMBERS.copy()
    for i in range(NUMBERS.max()):
        live = i < NUMBERS
        s = np.where(live, np.roll(s, -1) + i, s)
    holds(kernel, [NUMBERS, NOTHING], [s], CORES)


def test_operations_of_the_block_run_as_long_as_a_thread_is_in_the_loop() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            s = T.alloc_shared((COUNT,), "int32")
            T.fill(s, 0)
            for k in T.serial(A[T.get_thread_binding()]):
                for i in T.Parallel(COUNT):
                    s[i] = s[i] + k
            T.copy(s, B)

    most = int(NUMBERS.max())
    holds(kernel, [NUMBERS, NOTHING], [NOTHING + most * (most - 1) // 2], CORES)


def test_threads_return_from_inside_a_loop() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = 0
            for i in T.serial(A[tx] + 2):
                s[tx] = s[tx] + i
                B[tx] = s[tx]
                if i == 5:
                    T.thread_return()
            B[tx] = -s[tx]

    wanted = np.array([15 if n + 2 > 5 else -sum(range(n + 2)) for n in NUMBERS], np.int32)
    holds(kernel, [NUMBERS, NOTHING], [wanted], CORES)


def test_a_loop_that_no_thread_enters_and_one_without_threads_in_a_branch() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            s = T.alloc_shared((COUNT,), "int32")
            s[tx] = tx
            for i in T.serial(tx + 100, COUNT):
                s[i - 100] = -1
            if A[tx] > 1000:
                while s[tx] >= 0:
                    s[tx] = s[tx]
            B[tx] = s[tx]

    holds(kernel, [NUMBERS, NOTHING], [LANES], CORES)


def test_a_private_array_that_a_loop_of_each_thread_fills() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            mine = T.alloc_local((12,), "int32")
            s = T.alloc_shared((COUNT,), "int32")
            for i in T.serial(12):
                mine[i] = 0
            for i in T.serial(A[tx]):
                mine[i + 1] = mine[i] + i + tx
                s[tx] = mine[i + 1]
            B[tx] = mine[A[tx]]

    wanted = np.array([sum(i + t for i in range(n)) for t, n in enumerate(NUMBERS)], np.int32)
    holds(kernel, [NUMBERS, NOTHING], [wanted])


@pytest.mark.parametrize("threads", [1, 32, 96])
def test_the_interpreter_and_the_cpu_agree_on_atomics_in_thread_loops(threads: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((threads,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=threads):
            tx = T.get_thread_binding()
            s = T.alloc_shared((4,), "int32")
            T.fill(s, 0)
            for i in T.serial(A[tx]):
                T.atomic_add(s[i % 4], i)
            T.copy(s, B)

    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    counts = (np.arange(threads) % 9).astype(np.int32)
    wanted = np.zeros(4, np.int32)
    for n in counts:
        for i in range(n):
            wanted[i % 4] += i
    for backend in ("interpret", "auto"):
        got = np.zeros(4, np.int32)
        tilelang.compile(kernel, target="cpu", execution_backend=backend)(counts, got)
        np.testing.assert_array_equal(got, wanted)


def test_a_variable_that_is_the_same_for_all_threads_changes_once_in_an_iteration() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((COUNT,), "int32"), B: T.Tensor((COUNT,), "int32")):
        with T.Kernel(1, threads=COUNT):
            t = T.get_thread_binding()
            base = T.alloc_var("int32", A[t])
            result = T.alloc_var("int32", 1)
            rest = T.alloc_var("int32", 5)
            last = T.alloc_local((2,), "int32")
            last[0] = 0
            while rest > 0:
                if rest % 2 == 1:
                    result *= base
                base *= base
                rest //= 2
                last[0] = last[0] + 1
            for k in T.serial(3):
                result += base % 7 + k
                last[1] = k
            B[t] = result + last[0] * 1000 + last[1]

    values = NUMBERS.astype(np.int64)
    wanted = (values**5 + 3 * ((values**8).astype(np.int32) % 7) + 3 + 3002).astype(np.int32)
    holds(kernel, [NUMBERS, NOTHING], [wanted])
