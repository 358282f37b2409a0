"""Serial loops are vectors where their iterations have no order, and go in order elsewhere."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler

from .modes import agree

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def block_of(func: Any) -> str:
    source = tilelang.compile(func, target="cpu").get_kernel_source()
    return source[source.index("_kernel_block(") :]


def rows(count: int, shift: int, dtype: str = "float32") -> Any:
    """Each element is that of X and one of Y further on, or before."""

    @T.prim_func
    def main(X: T.Tensor((4, count), dtype), Y: T.Tensor((4, count + 80), dtype)):
        with T.Kernel(4, threads=32) as b:
            for j in T.serial(count):
                Y[b, j + 40] = X[b, j] + Y[b, j + 40 + shift]

    return main


@needs_compiler
@pytest.mark.share(4)
@pytest.mark.parametrize("count", [16, 33, 100])
@pytest.mark.parametrize("shift", [0, -1, -3, -16, -40, 1, 2, 17])
def test_a_row_is_computed_as_if_element_by_element(count: int, shift: int) -> None:
    rng = np.random.default_rng(abs(count + shift))
    x = rng.integers(-9, 9, (4, count)).astype(np.float32)
    y = rng.integers(-9, 9, (4, count + 80)).astype(np.float32)
    agree(rows(count, shift), x, y)


def test_rows_without_a_carried_dependence_are_vectors() -> None:
    assert "TL_LANES_w" in block_of(rows(100, 0))
    assert "TL_LANES_w" not in block_of(rows(100, -1))


@needs_compiler
@pytest.mark.parametrize("first", [0, 1])
def test_triangles_whose_elements_differ_are_vectors(first: int) -> None:
    """From k + 1 on, the elements that change are neither those of k nor their mirror image."""

    @T.prim_func
    def main(A: T.Tensor((20, 40), "int32")):
        with T.Kernel(1, threads=32):
            for k in T.serial(20):
                for i in T.serial(19, k, -1):
                    for j in T.serial(k + first, 2 * k + 1):
                        A[i, j] -= A[i, k] * A[k, j] + A[i, 2 * k - j]

    agree(main, np.arange(800, dtype=np.int32).reshape(20, 40) % 7)
    assert ("TL_LANES_w" in block_of(main)) == (first == 1)


@needs_compiler
def test_a_tensor_given_twice_is_computed_in_order() -> None:
    """Two parameters of one dtype and shape may be one tensor."""

    @T.prim_func
    def shifted(X: T.Tensor((200,), "float32"), Y: T.Tensor((200,), "float32")):
        with T.Kernel(1, threads=32):
            for j in T.serial(199):
                Y[j + 1] = X[j] + 1.0

    both = np.arange(200, dtype=np.float32) * 0
    tilelang.compile(shifted, target="cpu")(both, both)
    np.testing.assert_array_equal(both, np.arange(200, dtype=np.float32))


def moved(form: str, dtype: str) -> Any:
    """Elements of Y after those of X, with one more operand or in rows of unknown length."""
    n, m = T.dynamic("n, m")

    @T.prim_func
    def line(X: T.Tensor((96,), dtype), Y: T.Tensor((96,), dtype)):
        with T.Kernel(1, threads=1):
            for i in T.serial(96):
                Y[i] = X[i] + T.cast(1, dtype)

    @T.prim_func
    def rows(X: T.Tensor((3, n), dtype), Y: T.Tensor((3, m), dtype)):
        with T.Kernel(1, threads=1):
            for r in T.serial(3):
                for i in T.serial(T.min(n, m)):
                    if X[r, i] < T.cast(100, dtype):
                        Y[r, i] = X[r, i] + T.cast(1, dtype)

    @T.prim_func
    def totals(X: T.Tensor((96,), dtype), Y: T.Tensor((96,), dtype)):
        with T.Kernel(1, threads=1):
            total = T.alloc_var("int32", init=0)
            for i in T.serial(95):
                total += T.cast(X[i], "int32")
                Y[i] = X[i] + T.cast(1, dtype)
            Y[95] = T.cast(total, dtype)

    return {"line": line, "rows": rows, "totals": totals}[form]


@needs_compiler
@pytest.mark.share(3)
@pytest.mark.parametrize("form", ["line", "rows", "totals"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64"])
def test_tensors_that_overlap_in_part_are_computed_in_order(form: str, dtype: str) -> None:
    kernels = [
        tilelang.compile(moved(form, dtype), target="cpu", execution_backend=name)
        for name in ("interpret", "c")
    ]
    assert "TL_SAME_OR_APART" in kernels[1].get_kernel_source()
    for shift in (-96, -95, -33, -16, -3, -1, 0, 1, 2, 15, 17, 64, 95, 96, 97):
        results = []
        for kernel in kernels:
            memory = (np.arange(300) % 5).astype(dtype)
            x, y = memory[100:196], memory[100 + shift : 196 + shift]
            if form == "rows":
                x, y = x.reshape(3, 32), y.reshape(3, 32)
            kernel(x, y)
            results.append(memory)
        np.testing.assert_array_equal(*results, err_msg=f"shift {shift}")


def reduced(count: int, dtype: str, op: str, first: float, given: bool) -> Any:
    """One number of each row, in the order of the program."""

    @T.prim_func
    def main(X: T.Tensor((4, count), dtype), S: T.Tensor((4,), dtype), Y: T.Tensor((4,), dtype)):
        with T.Kernel(4, threads=32) as b:
            m = T.alloc_var(dtype)
            m = S[b] if given else T.cast(first, dtype)
            for j in T.serial(count):
                if op == "max":
                    m = T.max(m, X[b, j])
                elif op == "min":
                    m = T.min(X[b, j], m)
                elif op == "or":
                    m = m | X[b, j]
                else:
                    m = m + X[b, j] * T.cast(2, dtype)
            Y[b] = m

    return main


@needs_compiler
@pytest.mark.share(4)
@pytest.mark.parametrize("op", ["max", "min", "sum", "or"])
@pytest.mark.parametrize("dtype", ["float32", "int32", "int8", "float16"])
@pytest.mark.parametrize("count", [16, 100])
def test_reductions_are_those_of_the_order(op: str, dtype: str, count: int) -> None:
    if op == "or" and dtype.startswith("float"):
        return
    rng = np.random.default_rng(count)
    x = rng.integers(-9, 9, (4, count)).astype(dtype)
    start = rng.integers(-9, 9, 4).astype(dtype)
    for given in (True, False):
        agree(reduced(count, dtype, op, 3, given), x, start, np.zeros(4, dtype))


@needs_compiler
@pytest.mark.parametrize("given", [False, True])
def test_a_maximum_ignores_nans_as_in_order(given: bool) -> None:
    x = np.full((4, 100), np.nan, np.float32)
    x[1, 7], x[2, 99] = 2, -5
    start = np.array([np.nan, np.nan, 1, np.nan], np.float32)
    agree(reduced(100, "float32", "max", -np.inf, given), x, start, np.zeros(4, np.float32))


def test_sums_of_floats_keep_their_order() -> None:
    assert "TL_LANES_w" in block_of(reduced(100, "int32", "sum", 0, False))
    assert "TL_LANES_w" in block_of(reduced(100, "float32", "max", 0, False))
    assert "TL_LANES_w" not in block_of(reduced(100, "float32", "sum", 0, False))


@needs_compiler
@pytest.mark.share(6)
@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("dtype", ["float32", "int32", "float16", "int8"])
@pytest.mark.parametrize("count", [5, 14, 35, 63])
def test_the_remainder_of_a_row_stays_in_bounds(count: int, dtype: str, width: int) -> None:
    """Rows that are read and stored in place end in a vector with a mask."""

    @T.prim_func
    def main(X: T.Tensor((3, count), dtype), Y: T.Tensor((3, count), dtype),
             Z: T.Tensor((3, count), dtype)):  # fmt: skip
        with T.Kernel(3, threads=32) as b:
            for j in T.Parallel(count):
                Y[b, j] = Y[b, j] + X[b, j]
            for j in T.Parallel(count):
                if X[b, j] > T.cast(3, dtype):
                    Z[b, j] = Z[b, j] + X[b, j]

    rng = np.random.default_rng(count)
    x, y, z = (rng.integers(0, 9, (3, count)).astype(dtype) for _ in range(3))
    agree(main, x, y, z, width=width)
