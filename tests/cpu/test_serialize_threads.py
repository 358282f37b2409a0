"""Threads become loops: each does what the interpreter's threads do, also in branches of some,
in loops that they leave one by one, and at barriers where parts of a block wait for each other.

Which statements run once and which share a loop is held by the replayed programs of the corpus.
"""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import CPU
from executors import CPU as CORES, SM_80, compiled
from script_text import body_of

import tilelang
import tilelang.language as T
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import stmt as S
from tilelang.ir.legal import check

I32 = T.Tensor((32,), "int32")
PROGRAMS: dict[str, Any] = {}


def program(func):
    PROGRAMS[func.name] = func
    return func


def threads(count):
    """One block of so many threads; each does ``body(A, B, tx, s)`` with its number and a tile of 32."""

    def made(body):
        own = T.macro(body)

        @T.prim_func
        def kernel(A: I32, B: I32):
            with T.Kernel(1, threads=count):
                tx = T.get_thread_binding()
                s = T.alloc_shared((32,), "int32")
                own(A, B, tx, s)

        PROGRAMS[body.__name__] = kernel

    return made


@threads(32)
def the_variable_of_each_thread_starts_as_zero(A, B, tx, s):
    total = T.alloc_var("int32")
    total = total + A[tx]
    T.sync_threads()
    B[tx] = total


@threads(32)
def a_tile_operation_of_some_threads_runs_if_one_comes(A, B, tx, s):
    if A[tx] > 3:
        T.copy(A, s)
        B[tx] = s[31 - tx]


@threads(32)
def a_uniform_value_of_some_threads_is_known_to_what_follows(A, B, tx, s):
    if tx < 4:
        first = A[5] + 1
        T.copy(A, s)
        B[tx] = first + s[tx]


@threads(32)
def a_while_loop_that_no_thread_enters_ends(A, B, tx, s):
    if A[tx] > 100:
        while B[0] < 3:
            for i in T.Parallel(32):
                B[i] = B[i] + 1


@threads(32)
def a_divergent_loop_runs_while_any_thread_is_active(A, B, tx, s):
    for k in T.serial(tx):
        for i in T.Parallel(32):
            B[i] = B[i] + k * A[i]


@threads(32)
def a_thread_that_returned_runs_no_later_statement(A, B, tx, s):
    if A[tx] > 5:
        T.thread_return()
    B[31] = 7
    if tx < 31:
        B[tx] = A[tx] + 1


@threads(32)
def storage_of_a_branch_is_in_the_iterations_of_its_threads(A, B, tx, s):
    if tx < 16:
        x = T.alloc_local((2,), "int32")
        n = T.alloc_var("int32")
        x[1] = A[tx] * 2
        B[tx] = x[1] + n
    else:
        B[tx] = A[tx]


@threads(16)
def a_parallel_loop_reads_the_variable_of_the_thread_that_runs_it(A, B, tx, s):
    own = T.alloc_var("int32")
    own = tx
    for i, j in T.Parallel(8, 4):
        B[i * 4 + j] = own + A[i * 4 + j]


@threads(32)
def loops_of_single_threads_are_in_each_other(A, B, tx, s):
    n = A[tx] * 7 % 11
    s[tx] = 0
    for i in T.serial(n):
        for j in T.serial(i, n + 1, 2):
            if j > 7:
                break
            if (j + tx) % 3 == 0:
                continue
            s[tx] = s[tx] + i * j
        if s[tx] > 40:
            break
        s[tx] = s[tx] + 1
    B[tx] = s[tx]


@threads(32)
def loops_of_some_threads_go_downwards(A, B, tx, s):
    s[tx] = 100
    if A[tx] % 11 > 4:
        for i in T.serial(A[tx] % 11, -1, -2):
            s[tx] = s[tx] * 2 % 97 + i
            e = s[tx] + i
            s[tx] = e
    B[tx] = s[tx]


@threads(32)
def an_iteration_sees_what_threads_stored_in_the_one_before(A, B, tx, s):
    s[tx] = A[tx]
    for i in T.serial(A[tx] % 11):
        near = s[(tx + 1) % 32]
        s[tx] = near + i
    B[tx] = s[tx]


@threads(32)
def threads_return_from_inside_a_loop(A, B, tx, s):
    s[tx] = 0
    for i in T.serial(A[tx] % 11 + 2):
        s[tx] = s[tx] + i
        B[tx] = s[tx]
        if i == 5:
            T.thread_return()
    B[tx] = -s[tx]


@threads(32)
def a_variable_that_all_threads_have_changes_once_in_an_iteration(A, B, tx, s):
    base = T.alloc_var("int32", A[tx] % 11)
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
    B[tx] = result + last[0] * 1000 + last[1]


@threads(32)
def values_in_branches_of_a_loop_are_those_of_the_iteration(A, B, tx, s):
    s[tx] = A[tx]
    base = A[tx] % 5
    for k in T.serial(4):
        near = s[(tx + k) % 32]
        w = near * 2
        if w > 8:
            e = w - near + base
            s[tx] = e
            B[tx] += e * k + w
        else:
            e = w + k
            B[tx] += e + e * base
        T.sync_threads()


@threads(32)
def each_thread_tests_elements_of_its_own_and_beyond_a_tensor(A, B, tx, s):
    mine = T.alloc_local((4,), "int32")
    for j in T.serial(4):
        mine[j] = A[(tx + j) % 32] % 9
    while T.any_of(mine[0:4]):
        B[tx] = B[tx] + 1
        for j in T.serial(4):
            mine[j] = T.max(mine[j] - 1, 0)
    if T.all_of(A[tx : tx + 2]):
        B[tx] = B[tx] + 100


# -- memory of each thread -------------------------------------------------------------------------
@threads(64)
def a_tile_of_local_memory_is_added_once(A, B, tx, s):
    a = T.alloc_local((32,), "int32")
    T.copy(A, a)
    T.atomic_add(B, a)
    T.atomic_add(B, 1)
    T.atomic_max(B[2:6], a[20:24])


@threads(16)
def each_thread_adds_its_tile_to_its_own_elements(A, B, tx, s):
    a = T.alloc_local((2,), "int32")
    T.copy(A[tx * 2 : tx * 2 + 2], a)
    T.atomic_add(B[tx // 2 * 4 : tx // 2 * 4 + 2], a)


@threads(8)
def each_thread_updates_local_memory_of_its_own(A, B, tx, s):
    t = T.alloc_local((4,), "int32")
    n = T.alloc_var("int32")
    T.clear(t)
    T.atomic_add(t, A[tx * 4 : tx * 4 + 4])
    T.atomic_max(t[0:2], 5)
    T.atomic_add(t[3], tx)
    old = T.atomic_add(t[2], 100, return_prev=True)
    T.atomic_add(n, old)
    T.atomic_add(t[3], n)
    T.copy(t, B[tx * 4 : tx * 4 + 4])


# -- barriers of parts of a block ------------------------------------------------------------------
@threads(64)
def threads_wait_at_a_counted_barrier_for_later_ones(A, B, tx, s):
    done = T.alloc_barrier(32)
    if tx < 32:
        T.barrier_wait(done, 0)
        B[tx] = s[tx]
    else:
        s[tx - 32] = A[tx - 32]
        T.barrier_arrive(done)


@threads(64)
def threads_wait_at_a_named_barrier_for_later_ones(A, B, tx, s):
    if tx < 32:
        T.sync_threads(1, 64)
        B[tx] = s[tx]
    else:
        s[tx - 32] = A[tx - 32]
        T.sync_threads(1, 64)


@threads(64)
def both_branches_have_the_barrier_of_the_block(A, B, tx, s):
    if tx < 32:
        T.sync_threads()
        B[tx] = s[tx]
    else:
        s[tx - 32] = A[tx - 32]
        T.sync_threads()


@threads(64)
def a_ring_of_two_tiles_is_filled_and_emptied(A, B, tx, s):
    s = T.alloc_shared((2, 32), "int32")
    full = T.alloc_barrier([32, 32])
    free = T.alloc_barrier([32, 32])
    step = T.alloc_var("int32", init=0)
    done = T.alloc_var("int32", init=0)
    if tx < 32:
        for k in T.serial(11):
            if A[k] >= 0:
                T.barrier_wait(free[step % 2], ((step // 2) & 1) ^ 1)
                s[step % 2, tx] = A[tx] + k
                T.barrier_arrive(full[step % 2])
                step = step + 1
    else:
        while done < 11:
            slot = done % 2
            T.barrier_wait(full[slot], (done // 2) & 1)
            for i in T.Parallel(32):
                B[i] = B[i] * 3 + s[slot, i]
            T.barrier_arrive(free[slot])
            done += 1


@threads(96)
def three_parts_of_a_block_wait_in_a_row(A, B, tx, s):
    t = T.alloc_shared((32,), "int32")
    bars = T.alloc_barrier([32, 32, 32, 32])
    if tx >= 64:
        for k in range(10, -1, -1):
            T.barrier_wait(bars[2], (10 - k) & 1)
            B[tx - 64] = B[tx - 64] * 3 + t[tx - 64]
            T.barrier_arrive(bars[3])
    if tx < 32:
        for k in T.serial(11):
            T.barrier_wait(bars[0], (k & 1) ^ 1)
            s[tx] = A[tx] + k
            T.barrier_arrive(bars[1])
    if tx // 32 == 1:
        for k in T.serial(11):
            T.barrier_wait(bars[1], k & 1)
            T.barrier_wait(bars[3], (k & 1) ^ 1)
            t[tx - 32] = s[tx - 32] * 2
            T.barrier_arrive(bars[0])
            T.barrier_arrive(bars[2])


@threads(64)
def named_barriers_order_two_parts_in_turn(A, B, tx, s):
    if tx < 32:
        for k in T.serial(11):
            T.sync_threads(2, 64)
            B[tx] = B[tx] * 3 + s[tx]
            if k == 10:
                break
            T.named_barrier_arrive(3, 64)
    elif tx < 64:
        for k in T.serial(11):
            s[tx - 32] = A[tx - 32] + k
            T.named_barrier_arrive(2, 64)
            if k < 10:
                T.sync_threads(3, 64)


@program
@T.prim_func
def blocks_wait_for_each_other(A: I32, B: I32):
    with T.Kernel(4, threads=8) as b:
        at = b * 8 + T.get_thread_binding()
        mine = T.alloc_local((1,), "int32")
        mine[0] = A[at]
        for k in T.serial(5):
            B[at] = mine[0]
            T.sync_grid()
            mine[0] = B[(at + 8) % 32] + k
            T.sync_grid()
        B[at] = mine[0]


@program
@T.prim_func
def an_operation_of_a_part_is_done_once_and_by_its_threads(A: I32, B: I32):
    with T.Kernel(2, threads=64) as b:
        c = T.alloc_fragment((16,), "int32")
        row = T.alloc_local((1,), "int32")
        if T.get_thread_binding() >= 32:
            row[0] = 16 - b * 16
            T.copy(A[row[0] : row[0] + 16], c)
            T.atomic_add(B[row[0]], c)
            for i in T.Parallel(16):
                B[row[0] + i] = B[row[0] + i] + 1


# -- statements without threads --------------------------------------------------------------------
@program
@T.prim_func
def tiles_and_variables_are_used_without_a_kernel(A: I32, B: I32):
    total = T.alloc_var("int32")
    tile = T.alloc_shared((32,), "int32")
    T.copy(A, tile)
    for i in T.serial(32):
        if i % 3 == 0:
            total = total + tile[i]
    half = total // 2
    n = T.alloc_var("int32", 5)
    while n > 0:
        n = n - 1
        tile[n] = half + n
    for i in T.Parallel(32):
        B[i] = tile[i] * 2


@program
@T.prim_func
def statements_are_before_between_and_after_kernels(A: I32, B: I32):
    m = A[5] * 2
    work = T.alloc_global((32,), "int32")
    for i in T.serial(32):
        work[i] = A[i] + m
    for k in range(3):
        B[k] = A[k] + 1
        with T.Kernel(2, threads=16) as b:
            at = b * 16 + T.get_thread_binding()
            B[at] = B[at] + work[31 - at] * k
        if k == 1:
            B[31] = B[31] * 2
    first = B[1]
    with T.Kernel(1, threads=32):
        B[2] = first + B[3]
    T.fill(B[28:32], 1)


# What the memory of a thread is, and how often it is added, is no matter of the target.
ON_GPUS = (
    "a_tile_of_local_memory_is_added_once",
    "each_thread_adds_its_tile_to_its_own_elements",
    "each_thread_updates_local_memory_of_its_own",
)
VALUES = {"none": np.zeros(32), "some": np.arange(32), "all": np.full(32, 101)}


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_loops_over_threads_write_what_threads_write(name: str, values: str) -> None:
    func, A = PROGRAMS[name], VALUES[values].astype(np.int32)
    expected = np.zeros(32, np.int32)
    tilelang.compile(func, execution_backend="interpret")(A, expected)
    for place in (CORES, SM_80) if name in ON_GPUS and values == "some" else (CORES,):
        got = np.zeros(32, np.int32)
        compiled(func, place)(A, got)
        np.testing.assert_array_equal(got, expected, err_msg=place)


def test_independent_statements_share_one_loop_and_a_uniform_one_runs_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((32,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx + 1] = n
            B[tx] = 2
            A[0] = n

    shown = body_of(serialize_threads(kernel, CPU))
    assert shown.count("for t in T.serial(32, threads=True):") == 1
    assert shown.endswith("\nA[0] = n")


def test_a_bulk_copy_signals_no_barrier_of_a_core() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8,), "int32")
            bar = T.alloc_barrier(1)
            T.tma_copy(A, tile, barrier=bar[0])
            T.copy(tile, B)

    found = serialize_threads(kernel, CPU)
    copies = [stmt for stmt in S.walk(found.body) if isinstance(stmt, S.Copy)]
    assert [copy.barrier for copy in copies] == [None, None]
    check(found, "scheduled")
