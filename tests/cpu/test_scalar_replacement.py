"""A tile that lives in one iteration is a value of it, or a variable if it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from contexts import CPU
from script_text import body_of

import tilelang.language as T
from tilelang.cpu.loops.array_contraction import contract_arrays
from tilelang.cpu.loops.loop_fusion import fuse_loops

from .test_loop_fusion import loops


def a_tile_that_is_written_once(A: Any, B: Any, a: Any, b: Any) -> None:
    T.copy(A, a)
    for i in T.Parallel(8):
        b[i] = a[i] + a[i]
    T.copy(b, B)


def a_tile_that_changes(A: Any, B: Any, a: Any, b: Any) -> None:
    T.copy(A, a)
    for i in T.Parallel(8):
        a[i] = a[i] * a[i]
    T.copy(a, B)


def a_tile_that_later_loops_read(A: Any, B: Any, a: Any, b: Any) -> None:
    T.copy(A, a)
    T.copy(a, B)
    for k in T.serial(2):
        T.copy(A, a)
        for i in T.Parallel(8):
            b[i] = a[i] + k
    for i in T.Parallel(8):
        B[i] = b[7 - i]


def an_element_in_which_a_loop_adds_up(A: Any, B: Any, a: Any, b: Any) -> None:
    total = T.alloc_shared((1,), "float16")
    total[0] = 0
    for i in T.serial(8):
        total[0] = total[0] + A[i]
    B[0] = total[0]


def a_tile_under_two_names(A: Any, B: Any, a: Any, b: Any) -> None:
    T.copy(A, a)
    T.copy(a, B)
    B[0] = T.view(a, (2, 4))[1, 3]


@pytest.mark.parametrize(
    ("operation", "values", "variables", "arrays"),
    [
        (a_tile_that_is_written_once, 1, 0, 0),
        (a_tile_that_changes, 0, 1, 0),
        (a_tile_that_later_loops_read, 2, 0, 1),
        (an_element_in_which_a_loop_adds_up, 0, 1, 0),
        (a_tile_under_two_names, 0, 0, 1),
    ],
)
def test_tiles_of_one_iteration_are_no_memory(
    operation: Callable[..., None], values: int, variables: int, arrays: int
) -> None:
    """That results stay is a test of random programs, in test_fusion_programs.py."""

    @T.prim_func
    def kernel(A: T.Tensor((8,), "float16"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=1):
            a = T.alloc_shared((8,), "float16")
            b = T.alloc_fragment((8,), "float32")
            operation(A, B, a, b)

    shown = body_of(contract_arrays(fuse_loops(loops(kernel), CPU), CPU))
    lines = shown.splitlines()
    made = [line for line in lines if "T.alloc_buffer" in line and f"{line.split()[0]}[" in shown]
    held = [line for line in made if 'scope="local.var"' in line]
    assert sum(": T.float16 = " in line for line in lines) == values
    assert (len(held), len(made) - len(held)) == (variables, arrays)


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

    made = body_of(contract_arrays(fuse_loops(loops(kernel), CPU), CPU))
    assert made.endswith('    B[i] = T.Cast("float8_e4m3fn", A[i] * T.float32(2.0))')
    assert made.count("\n") == 1
