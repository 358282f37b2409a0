"""A tile that lives in one iteration is a value of it."""

from __future__ import annotations

from contexts import CPU
from script_text import body_of, text

import tilelang.language as T
from tilelang.cpu.loops.array_contraction import contract_arrays
from tilelang.cpu.loops.loop_fusion import fuse_loops
from tilelang.ir import stmt as S

from .test_loop_fusion import loops


def contracted(func: S.PrimFunc) -> str:
    return body_of(contract_arrays(fuse_loops(loops(func), CPU), CPU))


def test_tiles_of_an_addition_are_names() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float16"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((8,), "float16")
            b = T.alloc_fragment((8,), "float32")
            T.copy(A, a)
            for i in T.Parallel(8):
                b[i] = a[i] + a[i]
            T.copy(b, B)

    assert contracted(kernel) == text("""
        for i in T.serial(8, parallel=0):
            a: T.float16 = A[i]
            B[i] = T.Cast("float32", a + a)
        """)


def test_a_narrow_float_that_is_only_stored_is_converted_once() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float8_e4m3fn")):
        with T.Kernel(1, threads=1):
            q = T.alloc_fragment((8,), "float8_e4m3fn")
            p = T.alloc_fragment((8,), "float8_e4m3fn")
            for i in T.Parallel(8):
                q[i] = T.cast(A[i] * 2, "float8_e4m3fn")
            T.copy(q, p)
            T.copy(p, B)

    assert contracted(kernel) == text("""
        for i in T.serial(8, parallel=0):
            B[i] = T.Cast("float8_e4m3fn", A[i] * T.float32(2.0))
        """)


def test_a_tile_that_changes_is_a_variable() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((8,), "float32")
            T.copy(A, a)
            for i in T.Parallel(8):
                a[i] = a[i] * a[i]
            T.copy(a, B)

    assert contracted(kernel) == text("""
        for i in T.serial(8, parallel=0):
            a = T.alloc_buffer((1,), "float32", scope="local.var")
            a[0] = A[i]
            a[0] = a[0] * a[0]
            B[i] = a[0]
        """)


def test_a_tile_private_to_each_loop_is_contracted_and_a_live_one_is_not() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((9,), "int32"), C: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((8,), "int32")
            b = T.alloc_shared((8,), "int32")
            T.copy(A, a)
            T.copy(a, B[0:8])
            for k in T.serial(2):
                T.copy(A, a)
                for i in T.Parallel(8):
                    b[i] = a[i] + k
            for i in T.Parallel(8):
                C[i] = b[7 - i]

    assert contracted(kernel) == text("""
        b = T.alloc_buffer((8,), "int32", scope="shared.dyn")
        for i in T.serial(8, parallel=0):
            B[i] = A[i]
        for k in range(2):
            for i in T.serial(8, parallel=0):
                a: T.int32 = A[i]
                b[i] = a + k
        for i in T.serial(8, parallel=0):
            C[i] = b[7 - i]
        """)


def test_what_a_loop_adds_up_in_one_element_is_a_variable_around_it() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((1,), "int32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((1,), "int32")
            a[0] = 0
            for i in T.serial(8):
                a[0] = a[0] + A[i]
            B[0] = a[0]

    assert contracted(kernel).splitlines()[-3:] == [
        "for i in range(8):",
        "    a[0] = A[i] + a[0]",
        "B[0] = a[0]",
    ]
    assert 'scope="local.var"' in contracted(kernel)


def test_a_tile_under_two_names_stays() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((8,), "int32")
            T.copy(A, a)
            T.copy(a, B)
            b = T.view(a, (2, 4))
            B[0] = b[1, 3]

    assert "a = T.alloc_buffer" in contracted(kernel)


def test_an_unchanged_program_is_the_same_object() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=1):
            for i in T.Parallel(8):
                B[i] = A[i]

    before = loops(kernel)
    assert contract_arrays(before, CPU) is before
