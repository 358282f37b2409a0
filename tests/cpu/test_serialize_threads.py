"""Threads become loops: each does what the interpreter's threads do, also in branches of some.

Which statements run once and which share a loop is held by the replayed programs of the corpus.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import CPU
from script_text import body_of

import tilelang
import tilelang.language as T
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import stmt as S
from tilelang.ir.legal import check

I32 = T.Tensor((32,), "int32")


@T.prim_func
def the_variable_of_each_thread_starts_as_zero(A: I32, B: I32):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        total = T.alloc_var("int32")
        total = total + A[tx]
        T.sync_threads()
        B[tx] = total


@T.prim_func
def a_tile_operation_of_some_threads_runs_if_one_comes(A: I32, B: I32):
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((32,), "int32")
        tx = T.get_thread_binding()
        if A[tx] > 3:
            T.copy(A, s)
            B[tx] = s[31 - tx]


@T.prim_func
def a_uniform_value_of_some_threads_is_known_to_what_follows(A: I32, B: I32):
    with T.Kernel(1, threads=32):
        s = T.alloc_shared((32,), "int32")
        tx = T.get_thread_binding()
        if tx < 4:
            first = A[5] + 1
            T.copy(A, s)
            B[tx] = first + s[tx]


@T.prim_func
def a_while_loop_that_no_thread_enters_ends(A: I32, B: I32):
    with T.Kernel(1, threads=32):
        if A[T.get_thread_binding()] > 100:
            while B[0] < 3:
                for i in T.Parallel(32):
                    B[i] = B[i] + 1


@T.prim_func
def a_divergent_loop_runs_while_any_thread_is_active(A: I32, B: I32):
    with T.Kernel(1, threads=32):
        for k in T.serial(T.get_thread_binding()):
            for i in T.Parallel(32):
                B[i] = B[i] + k * A[i]


@T.prim_func
def a_thread_that_returned_runs_no_later_statement(A: I32, B: I32):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        if A[tx] > 5:
            T.thread_return()
        B[31] = 7
        if tx < 31:
            B[tx] = A[tx] + 1


@T.prim_func
def storage_of_a_branch_is_in_the_iterations_of_its_threads(A: I32, B: I32):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        if tx < 16:
            x = T.alloc_local((2,), "int32")
            n = T.alloc_var("int32")
            x[1] = A[tx] * 2
            B[tx] = x[1] + n
        else:
            B[tx] = A[tx]


@T.prim_func
def a_parallel_loop_reads_the_variable_of_the_thread_that_runs_it(A: I32, B: I32):
    with T.Kernel(1, threads=16):
        own = T.alloc_var("int32")
        own = T.get_thread_binding()
        for i, j in T.Parallel(8, 4):
            B[i * 4 + j] = own + A[i * 4 + j]


@T.prim_func
def three_thread_indices_come_from_one_loop(A: I32, B: I32):
    with T.Kernel(1, threads=(2, 4, 4)):
        x, y, z = T.get_thread_binding(0), T.get_thread_binding(1), T.get_thread_binding(2)
        B[z + y * 4 + x * 16] = A[x + y * 2 + z * 8]


PROGRAMS = (
    the_variable_of_each_thread_starts_as_zero,
    a_tile_operation_of_some_threads_runs_if_one_comes,
    a_uniform_value_of_some_threads_is_known_to_what_follows,
    a_while_loop_that_no_thread_enters_ends,
    a_divergent_loop_runs_while_any_thread_is_active,
    a_thread_that_returned_runs_no_later_statement,
    storage_of_a_branch_is_in_the_iterations_of_its_threads,
    a_parallel_loop_reads_the_variable_of_the_thread_that_runs_it,
    three_thread_indices_come_from_one_loop,
)
VALUES = {"none": np.zeros(32), "some": np.arange(32), "all": np.full(32, 101)}


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.parametrize("values", VALUES)
@pytest.mark.parametrize("func", PROGRAMS, ids=lambda func: func.name)
def test_loops_over_threads_write_what_threads_write(func: Any, values: str) -> None:
    A = VALUES[values].astype(np.int32)
    expected, got = np.zeros((2, 32), np.int32)
    tilelang.compile(func, execution_backend="interpret")(A, expected)
    tilelang.compile(func, target="cpu")(A, got)
    np.testing.assert_array_equal(got, expected)


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
