"""What the notebook says of eager kernels, statement by statement, in the interpreter."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.errors import TileError
from tilelang.ir.stmt import PrimFunc

eager = tilelang.lazy_jit(execution_backend="interpret")


@eager
def scaled(A: T.Tensor[[int, T.dyn["N"]], T.float32], factor: int = 2):
    M, N = A.shape
    B = T.empty((M, N), A.dtype)
    with T.Kernel(M, threads=32) as i:
        for j in T.serial(N):
            B[i, j] = A[i, j] * factor
    return B


def ones(*shape: int) -> Any:
    return np.ones(shape, np.float32)


def test_a_call_compiles_and_runs() -> None:
    np.testing.assert_array_equal(scaled(ones(2, 3)), 2 * ones(2, 3))
    np.testing.assert_array_equal(scaled(ones(2, 3), factor=5), 5 * ones(2, 3))


def test_the_kernel_of_a_call_is_compiled_and_its_program_shown() -> None:
    kernel = scaled.compile(ones(2, 3), factor=3)
    assert isinstance(kernel, tilelang.JITKernel)
    np.testing.assert_array_equal(kernel(ones(2, 5)), 3 * ones(2, 5))
    program = scaled.get_tir(ones(2, 3), factor=3)
    assert isinstance(program, PrimFunc) and program.script() == kernel.prim_func.script()
    assert scaled.get_tir(ones(2, 3), factor=4).script() != program.script()


def test_extents_are_constants_or_known_at_run_time() -> None:
    """``$`` marks a constant, ``$dyn`` a variable; ``T.dyn`` takes its name."""
    annotation = scaled.func.annot["A"]
    assert [repr(extent) for extent in annotation.shape] == ["A_shape_0$", "N$dyn"]
    first = scaled.compile(ones(2, 3))
    assert scaled.compile(ones(2, 7)) is first and scaled.compile(ones(3, 3)) is not first


@eager
def gathered(A: T.StridedTensor[[T.dyn, 2], [T.dyn, int], None]):
    M, N = A.shape
    B = T.empty((M, N), A.dtype)
    with T.Kernel(M, threads=32) as i:
        for j in T.serial(N):
            B[i, j] = A[i, j]
    return B


def test_strides_are_constants_or_known_at_run_time() -> None:
    a = np.arange(96, dtype=np.float32).reshape(8, 12)
    views = (a[:, :2], a[::2, :2], a[:, ::6], a.astype(np.int32)[:, :2])
    for view in views:
        np.testing.assert_array_equal(gathered(view), view)
    kernels = [gathered.compile(view) for view in views]
    assert kernels[0] is kernels[1]  # another run-time stride
    assert len({id(kernel) for kernel in kernels}) == 3  # a constant stride, a dtype


def test_a_pointer_gets_its_shape_by_match_buffer() -> None:
    @eager
    def doubled(p: T.ptr, n: int):
        A = T.match_buffer(p, (n,), T.float32)
        B = T.empty((n,), T.float32)
        with T.Kernel(n, threads=32) as i:
            B[i] = A[i] * 2
        return B

    np.testing.assert_array_equal(doubled(ones(4), 4), 2 * ones(4))

    @eager
    def without(p: T.ptr, n: int):
        B = T.empty((n,), T.float32)
        with T.Kernel(n, threads=32) as i:
            B[i] = p[i]
        return B

    with pytest.raises((TileError, TypeError), match=r"T.match_buffer\(p, shape, dtype\)"):
        without(ones(4), 4)


def test_scalars_of_a_dtype_are_run_time_variables() -> None:
    @eager
    def shifted(A: T.Tensor[[T.dyn], T.int32], by: T.int32):
        (N,) = A.shape
        B = T.empty((N,), T.int32)
        with T.Kernel(N, threads=32) as i:
            B[i] = A[i] + by
        return B

    a = np.arange(4, dtype=np.int32)
    assert shifted(a, 3).tolist() == [3, 4, 5, 6] and shifted(a, 10).tolist() == [10, 11, 12, 13]
    assert shifted.compile(a, 3) is shifted.compile(a, 10)


class Screen(io.StringIO):
    """A terminal."""

    def isatty(self) -> bool:
        return True


def test_compiling_many_shows_two_bars_and_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    shape = T.Tensor((2, 3), T.float32)
    kernels = scaled.par_compile([{"A": shape, "factor": k} for k in (2, 3)])
    for label in ("Elaborating", "Parallel Compiling"):
        assert re.search(label + r": +\d+%\|.*\| \d/2 \[", screen.getvalue())
    kernel = r"<tilelang\.jit\.kernel\.JITKernel at 0x[0-9a-f]+>"
    assert re.fullmatch(rf"\[{kernel}, {kernel}\]", repr(kernels))


def test_both_decorators_compile_many_at_once() -> None:
    shape = T.Tensor((2, 3), T.float32)  # a placeholder holds no memory
    kernels = scaled.par_compile([{"A": shape, "factor": k} for k in (2, 3)])
    assert [kernel(ones(2, 3))[0, 0] for kernel in kernels] == [2, 3]

    @tilelang.jit(out_idx=[-1], execution_backend="interpret")
    def filled(value: int):
        @T.prim_func
        def fill(B: T.Tensor((4,), "int32")):
            with T.Kernel(4, threads=32) as i:
                B[i] = value

        return fill

    kernels = filled.par_compile([{"value": k} for k in (5, 7)])
    assert [kernel().tolist() for kernel in kernels] == [[5] * 4, [7] * 4]


@T.macro
def add_to(x: T.Ref, by: Any):
    x = x + by  # noqa: F841


@T.macro
def twice(x: T.Ref, by: Any):
    add_to(x, by)
    add_to(x, by)


@T.macro
def down(x: T.Ref, depth: int):
    if depth > 0:
        add_to(x, depth)
        down(x, depth - 1)


@T.macro
def both(x: Any):
    return x + 1, x * 2


@T.macro
def applied(function: Any, x: Any):
    return function(x)


def test_macros_take_references_nest_recur_and_give_several_values() -> None:
    @T.prim_func
    def program(A: T.Tensor((6,), "int32")):
        with T.Kernel(1, threads=1):
            n = T.alloc_var(T.int32, 3)
            add_to(n, 4)  # a variable
            A[0] = n
            add_to(A[1], 5)  # an element
            add_to(A[n - 5], 6)  # an element that run time chooses
            twice(A[3], 7)
            down(A[4], 4)
            more, double = applied(both, n)
            A[5] = more * 100 + double

    a = np.array([0, 10, 20, 30, 40, 0], np.int32)
    tilelang.compile(program, execution_backend="interpret")(a)
    assert a.tolist() == [7, 15, 26, 44, 50, 814]
