"""Threads become loops: once what all do alike, per thread what differs, in program order."""

from __future__ import annotations

import numpy as np
import pytest
from contexts import CPU
from script_text import body_of, text

import tilelang
import tilelang.language as T
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import stmt as S
from tilelang.ir.legal import check
from tilelang.transforms.normalize.simplify import simplify_func


def serial(func: S.PrimFunc) -> str:
    return body_of(serialize_threads(simplify_func(func, CPU), CPU))


def same_as_interpreted(func: S.PrimFunc, A: np.ndarray, count: int) -> None:
    """Compiled for the CPU, ``func(A, B)`` writes what the threads of the interpreter write."""
    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    expected, got = np.zeros((2, count), A.dtype)
    tilelang.compile(func, execution_backend="interpret")(A, expected)
    tilelang.compile(func, target="cpu")(A, got)
    np.testing.assert_array_equal(got, expected)


# -- what runs how often --------------------------------------------------------------------
def test_a_statement_on_the_thread_index_runs_per_thread_and_a_uniform_one_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx + 1] = n
            A[0] = n

    assert serial(kernel) == text("""
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            A[tx + 1] = n
        A[0] = n
        """)


def test_a_uniform_atomic_counts_once_per_thread() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=32):
            T.atomic_add(A[0], 1)

    assert serial(kernel).startswith("for t in T.serial(32, threads=True):\n    T.atomic_add(")


def test_three_thread_indices_come_from_one_loop() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 2, 3), "int32")):
        with T.Kernel(1, threads=(3, 2, 4)):
            x, y, z = T.get_thread_binding(0), T.get_thread_binding(1), T.get_thread_binding(2)
            A[z, y, x] = 1

    assert serial(kernel) == text("""
        for t in T.serial(24, threads=True):
            tx: T.int32 = t % 3
            ty: T.int32 = t // 3 % 2
            tz: T.int32 = t // 6
            A[tz, ty, tx] = 1
        """)


def test_tile_operations_occur_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "int32")
            T.copy(A, s)
            for i in T.Parallel(32):
                s[i] = s[i] + 1

    assert serial(kernel) == text("""
        s = T.alloc_buffer((32,), "int32", scope="shared.dyn")
        T.copy(A, s)
        for i in T.serial(32, parallel=0):
            s[i] = s[i] + 1
        """)


# -- order ----------------------------------------------------------------------------------
def test_independent_statements_share_one_loop() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx] = 1
            B[tx] = 2

    assert serial(kernel) == text("""
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            A[tx] = 1
            B[tx] = 2
        """)


def test_a_barrier_splits_the_loop_and_disappears() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx] = 1
            T.sync_threads()
            B[tx] = 2

    assert serial(kernel) == text("""
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            A[tx] = 1
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            B[tx] = 2
        """)


@pytest.mark.parametrize("written", [0, 1], ids=["read after write", "write after read"])
def test_a_conflicting_statement_starts_a_new_loop(written: int) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if written == 0:
                A[tx] = 1
                B[tx] = A[31 - tx]
            else:
                B[tx] = A[31 - tx]
                A[tx] = 1

    assert serial(kernel).count("for t in T.serial(32, threads=True):") == 2


def test_a_uniform_statement_between_keeps_its_position() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[tx] = 1
            A[0] = n
            A[tx] = A[tx] + 1

    assert serial(kernel) == text("""
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            A[tx] = 1
        A[0] = n
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            A[tx] = A[tx] + 1
        """)


def test_a_loop_with_a_barrier_is_around_the_loops_over_threads() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            for k in T.serial(5):
                A[tx] = k
                T.sync_threads()

    assert serial(kernel) == text("""
        for k in range(5):
            for t in T.serial(32, threads=True):
                tx: T.int32 = t
                A[tx] = k
        """)


# -- private storage ------------------------------------------------------------------------
def test_private_storage_that_differs_has_a_slot_per_thread() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            same = T.alloc_local((2,), "int32")
            own = T.alloc_local((2,), "int32")
            same[0] = n
            own[1] = tx
            T.sync_threads()
            A[tx] = own[1] + same[0]

    assert serial(kernel) == text("""
        same = T.alloc_buffer((2,), "int32", scope="local")
        own = T.alloc_buffer((32, 2), "int32", scope="local")
        same[0] = n
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            own[t, 1] = tx
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            A[tx] = own[t, 1] + same[0]
        """)


def test_the_variable_of_each_thread_starts_as_zero() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            total = T.alloc_var("int32")
            total = total + A[tx]
            T.sync_threads()
            B[tx] = total

    assert serial(kernel).startswith(
        text("""
        total = T.alloc_buffer((32, 1), "int32", scope="local")
        for t in T.serial(32, threads=True):
            total[t, 0] = 0
        """)
    )
    same_as_interpreted(kernel, np.arange(32, dtype=np.int32), 32)


def test_a_loaded_value_used_behind_a_barrier_is_kept_for_each_thread() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            old = A[31 - tx]
            T.sync_threads()
            A[tx] = old

    assert serial(kernel) == text("""
        old = T.alloc_buffer((32,), "int32", scope="local")
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            old[t] = A[31 - tx]
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            A[tx] = old[t]
        """)


def test_an_index_computed_without_memory_is_computed_again() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            row = T.get_thread_binding() * 2
            A[row] = 1
            T.sync_threads()
            A[row + 1] = 2

    assert serial(kernel) == text("""
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            row: T.int32 = tx * 2
            A[row] = 1
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            row: T.int32 = tx * 2
            A[row + 1] = 2
        """)


def test_a_parallel_loop_uses_the_slot_of_the_thread_that_runs_the_iteration() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            own = T.alloc_var("int32")
            own = T.get_thread_binding()
            for i in T.Parallel(64):
                A[i] = own

    assert serial(kernel).endswith(
        text("""
        for i in T.serial(64, parallel=0):
            t: T.int32 = i % 32
            A[i] = own[t, 0]
        """)
    )


# -- branches -------------------------------------------------------------------------------
def test_a_branch_on_the_thread_index_stays_inside_the_loop() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if tx < 4:
                A[tx] = 1
            else:
                A[tx] = 2

    assert serial(kernel) == text("""
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            if tx < 4:
                A[tx] = 1
            else:
                A[tx] = 2
        """)


def test_a_uniform_branch_is_around_the_loops() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if n > 3:
                A[tx] = 1
                T.sync_threads()

    assert serial(kernel) == text("""
        if n > 3:
            for t in T.serial(32, threads=True):
                tx: T.int32 = t
                A[tx] = 1
        """)


def test_a_tile_operation_under_a_thread_condition_runs_if_some_thread_comes() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "int32")
            tx = T.get_thread_binding()
            if A[tx] > 3:
                T.copy(A, s)
                B[tx] = s[31 - tx]

    assert serial(kernel).endswith(
        text("""
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            cond[t] = A[tx] > 3
        for t in T.serial(32, threads=True):
            if cond[t]:
                any[0] = T.bool(True)
        if any[0]:
            T.copy(A, s)
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            if cond[t]:
                B[tx] = s[31 - tx]
        """)
    )
    for values in (np.zeros(32), np.arange(32)):
        same_as_interpreted(kernel, values.astype(np.int32), 32)


def test_a_uniform_value_under_a_thread_condition_is_known_to_what_follows() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((32,), "int32")
            tx = T.get_thread_binding()
            if tx < 4:
                first = A[5] + 1
                T.copy(A, s)
                B[tx] = first + s[tx]

    assert "first: T.int32 = T.if_then_else(any[0], A[5] + 1, 0)\n" in serial(kernel)
    same_as_interpreted(kernel, np.arange(32, dtype=np.int32), 32)


def test_a_while_loop_that_no_thread_enters_ends() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            if A[T.get_thread_binding()] > 100:
                while B[0] < 3:
                    for i in T.Parallel(32):
                        B[i] = B[i] + 1

    assert serial(kernel).endswith(
        text("""
        if any[0]:
            while B[0] < 3:
                for i in T.serial(32, parallel=0):
                    B[i] = B[i] + 1
        """)
    )
    for values in (np.zeros(32), np.full(32, 101)):
        same_as_interpreted(kernel, values.astype(np.int32), 32)


def test_a_divergent_loop_runs_while_any_thread_is_active() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            for k in T.serial(T.get_thread_binding()):
                for i in T.Parallel(32):
                    A[i] = A[i] + k

    lines = serial(kernel).splitlines()
    start = lines.index("while T.bool(True):")
    assert [line[4:] for line in lines[start:][-11:]] == text("""
        for t in T.serial(32, threads=True):
            if going[t]:
                if k_1 < bound[t]:
                    any[0] = T.bool(True)
                else:
                    going[t] = T.bool(False)
        if not any[0]:
            break
        for i in T.serial(32, parallel=0):
            A[i] = A[i] + k_1
        k[0] = k_1 + 1
    """).splitlines()


# -- return ---------------------------------------------------------------------------------
def test_a_thread_that_returned_runs_no_later_statement() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), B: T.Tensor((33,), "int32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            if A[tx] > 5:
                T.thread_return()
            B[32] = 7
            B[tx] = A[tx] + 1

    assert serial(kernel).endswith(
        text("""
        for t in T.serial(32, threads=True, alive=alive):
            if alive[t]:
                any[0] = T.bool(True)
        if any[0]:
            B[32] = 7
        for t in T.serial(32, threads=True, alive=alive):
            tx: T.int32 = t
            if alive[t]:
                B[tx] = A[tx] + 1
        """)
    )
    same_as_interpreted(kernel, np.arange(32, dtype=np.int32), 33)
    same_as_interpreted(kernel, np.full(32, 6, np.int32), 33)  # nobody is left


def test_a_uniform_return_needs_no_mask_of_threads() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((32,), "int32"), n: T.int32):
        with T.Kernel(1, threads=32):
            if n > 3:
                T.thread_return()
            A[T.get_thread_binding()] = 1

    assert serial(kernel) == text("""
        if n > 3:
            T.thread_return()
        for t in T.serial(32, threads=True):
            tx: T.int32 = t
            A[tx] = 1
        """)


def test_storage_made_in_a_branch_of_some_threads_lives_in_their_iterations() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            if tx < 32:
                x = T.alloc_local((2,), "int32")
                n = T.alloc_var("int32")
                x[1] = A[tx] * 2
                B[tx] = x[1] + n
            else:
                B[tx] = A[tx]

    same_as_interpreted(kernel, np.arange(64, dtype=np.int32), 64)


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
