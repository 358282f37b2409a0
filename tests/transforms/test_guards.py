"""The out-of-bounds rule: loads give the safe value, stores are dropped, full tiles run bare."""

from __future__ import annotations

from contexts import CPU
from script_text import body_of, text

import tilelang.language as T
from tilelang.cpu.loops.serialize_threads import serialize_threads
from tilelang.cpu.loops.tiles import lower_tiles
from tilelang.ir import stmt as S
from tilelang.transforms.lower.guards import insert_guards
from tilelang.transforms.normalize.simplify import simplify_func


def plain(func: S.PrimFunc) -> S.PrimFunc:
    return lower_tiles(serialize_threads(simplify_func(func, CPU), CPU), CPU)


def guarded(func: S.PrimFunc) -> str:
    return body_of(insert_guards(plain(func), CPU))


def test_an_access_proved_inside_gets_no_condition() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, threads=32) as bx:
            a = T.alloc_shared((32, 64), "float32")
            T.copy(A[bx * 32, 0], a)
            A[bx, 63] = 1

    lowered = plain(kernel)
    assert insert_guards(lowered, CPU) is lowered


def test_a_partial_tile_is_written_twice_and_one_test_picks_the_bare_one() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40, 8), "float32")):
        with T.Kernel(2, threads=32) as bx:
            a = T.alloc_shared((32, 8), "float32")
            T.copy(A[bx * 32, 0], a)
            T.copy(a, A[bx * 32, 0])

    assert guarded(kernel) == text("""
        a = T.alloc_buffer((32, 8), "float32", scope="shared.dyn")
        if bx * 32 < 9:
            for i in T.serial(32, parallel=0):
                for j in T.serial(8, parallel=1):
                    a[i, j] = A[bx * 32 + i, j]
        else:
            for i in T.serial(32, parallel=0):
                for j in T.serial(8, parallel=1):
                    a[i, j] = T.if_then_else(bx * 32 + i < 40, A[bx * 32 + i, j], T.float32(0.0))
        if bx * 32 < 9:
            for i in T.serial(32, parallel=0):
                for j in T.serial(8, parallel=1):
                    A[bx * 32 + i, j] = a[i, j]
        else:
            for i in T.serial(32, parallel=0):
                for j in T.serial(8, parallel=1):
                    if bx * 32 + i < 40:
                        A[bx * 32 + i, j] = a[i, j]
        """)


def test_guard_gives_the_annotated_safe_value() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), "float32")):
        with T.Kernel(2, threads=32) as bx:
            a = T.alloc_shared((32,), "float32")
            T.annotate_safe_value({A: -1})
            T.copy(A[bx * 32], a)

    assert "T.if_then_else(bx * 32 + i < 40, A[bx * 32 + i], T.float32(-1.0))" in guarded(kernel)


def test_a_store_that_reads_its_own_element_tests_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            A[n] = A[n] + 1

    assert guarded(kernel) == text("""
        if n >= 0 and n < 64:
            A[n] = A[n] + 1
        """)


def test_a_value_from_another_index_has_its_own_predicate() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            A[n] = A[n + 1]

    assert guarded(kernel) == text("""
        if n >= 0 and n < 64:
            A[n] = T.if_then_else(n + 1 < 64, A[n + 1], 0)
        """)


def test_an_index_loaded_from_a_tensor_is_guarded_at_both_levels() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), I: T.Tensor((8,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            A[0] = A[I[n]]

    shown = guarded(kernel)
    index = "T.if_then_else(n >= 0 and n < 8, I[n], 0)"
    assert f"{index} >= 0 and {index} < 64, A[{index}], 0)" in shown


def test_a_let_is_seen_through() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=32) as bx:
            at = bx * 32 + T.get_thread_binding()
            A[at] = 1

    assert "if" not in guarded(kernel)


def test_a_condition_on_row_and_column_bounds_a_flat_index() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((9, 784), "int32"), B: T.Tensor((1024,), "int32")):
        with T.Kernel(4, threads=256) as bx:
            at = bx * 256 + T.get_thread_binding()
            if at < 784:
                for k in T.serial(9):
                    row = at // 28 + 1 - k // 3
                    column = at % 28 + 1 - k % 3
                    if row >= 0 and row < 28 and column >= 0 and column < 28:
                        B[at] += A[k, row * 28 + column]

    assert "if_then_else" not in guarded(kernel)


def test_a_loop_with_an_index_that_is_not_linear_is_written_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                A[i * i] = 1

    assert guarded(kernel) == text("""
        for i in T.serial(8, parallel=0):
            if i * i < 40:
                A[i * i] = 1
        """)


def test_one_such_index_keeps_the_whole_nest_from_being_split() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), "int32")):
        with T.Kernel(8, threads=32) as bx:
            for i in T.Parallel(8):
                A[bx * 8 + i] = A[i * i]

    assert guarded(kernel) == text("""
        for i in T.serial(8, parallel=0):
            if bx * 8 + i < 40:
                A[bx * 8 + i] = T.if_then_else(i * i < 40, A[i * i], 0)
        """)


def test_a_loop_that_is_never_inside_is_written_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                A[i] = 1

    assert guarded(kernel) == text("""
        for i in T.serial(64, parallel=0):
            if i < 40:
                A[i] = 1
        """)


def test_a_loop_counting_backwards_is_tested_at_its_other_corner() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((40,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(8):
                A[bx * 8 - i] = 1

    assert guarded(kernel).startswith("if bx * 8 >= 7:\n")


def test_an_atomic_outside_is_dropped() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            T.atomic_add(A[n], 1)

    assert "T.evaluate(T.if_then_else(n >= 0 and n < 64, T.atomic_add(" in guarded(kernel)


def test_shared_memory_is_not_guarded() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), n: T.int32):
        with T.Kernel(1, threads=1):
            s = T.alloc_shared((8,), "int32")
            s[n] = 1

    assert guarded(kernel).endswith("\ns[n] = 1")


def test_the_extent_of_a_symbolic_tensor_is_the_limit() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def kernel(A: T.Tensor((m,), "int32")):
        with T.Kernel(T.ceildiv(m, 32), threads=32) as bx:
            for i in T.Parallel(32):
                A[bx * 32 + i] = 1

    lines = guarded(kernel).splitlines()
    assert lines[0] == "if bx * 32 + 31 < m:"
    assert "        if bx * 32 + i < m:" in lines
