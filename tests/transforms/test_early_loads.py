"""Loads of read-only tensors are issued before the wait for a copy."""

from __future__ import annotations

import numpy as np
import pytest
from executors import agrees
from tensor_types import F32, I32

import tilelang
import tilelang.language as T


def turned(extra: str = "") -> T.PrimFunc:
    """A tile from a bulk copy, multiplied by a row of a table; ``extra`` is done between them."""

    @T.prim_func
    def kernel(X: F32[8, 64, 128], C: F32[8, 128], P: I32[8], Y: F32[8, 64, 128]):
        with T.Kernel(8, threads=128) as n:
            x = T.alloc_shared((64, 128), "float32")
            T.copy(X[n, 0:64, 0:128], x)
            if extra == "write":
                for d in T.Parallel(128):
                    C[n, d] = C[n, d] + x[0, d]
            elif extra == "wait":
                T.pdl_sync()
            for r, d in T.Parallel(64, 128):
                if d < 64:
                    Y[n, r, d] = x[r, d] * C[P[n], d]
                else:
                    Y[n, r, d] = x[r, d]

    return kernel


@pytest.mark.parametrize(("extra", "early"), [("", True), ("write", False), ("wait", False)])
def test_a_row_of_a_table_is_loaded_before_the_wait(extra: str, early: bool) -> None:
    """Not what the kernel writes, and nothing before a grid dependency is resolved."""
    text = str(tilelang.lower(turned(extra), target="cuda -arch=sm_90a").source)
    assert ("&C[" in text[text.index("__global__") : text.index("tl_mbarrier_wait(")]) == early


def scaled(how: str) -> T.PrimFunc:
    """Rows times a row of factors, after a copy by threads, or after a reduction by warps."""

    @T.prim_func
    def kernel(X: F32[8, 64, 128], C: F32[128], Y: F32[8, 64, 128]):
        with T.Kernel(8, threads=128) as n:
            x = T.alloc_shared((64, 128), "float32")
            total = T.alloc_fragment((1,), "float32")
            if how == "copy":
                T.async_copy(X[n, 0:64, 0:128], x)
                T.ptx_wait_group(0)
            else:
                for r, d in T.Parallel(64, 128):
                    x[r, d] = X[n, r, d]
                column = T.alloc_fragment((128,), "float32")
                for d in T.Parallel(128):
                    column[d] = x[0, d]
                T.reduce_sum(column, total)
            for r, d in T.Parallel(64, 128):
                Y[n, r, d] = x[r, d] * C[d] if how == "copy" else x[r, d] * C[d] + total[0]

    return kernel


def test_loads_are_early_before_a_wait_for_copies_of_threads() -> None:
    text = str(tilelang.lower(scaled("copy"), target="cuda -arch=sm_80").source)
    assert text.index("&C[") < text.index("tl_cp_async_wait<0>")


def test_loads_stay_after_barriers() -> None:
    text = str(tilelang.lower(scaled("reduction"), target="cuda -arch=sm_80").source)
    assert text.index("&C[") > text.rindex("__syncthreads(")


def test_early_loads_read_the_same_elements() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 64, 128)).astype(np.float32)
    c = rng.normal(size=(8, 128)).astype(np.float32)
    p = np.array([3, 0, 7, 1, 1, 6, 2, 5], np.int32)
    agrees(scaled("copy"), (x, c[0], np.zeros_like(x)))
    agrees(turned(), (x, c, p, np.zeros_like(x)))


def filled_twice() -> T.PrimFunc:
    """A tile times a row of ``C``, and times another one, by arrays that are filled again."""

    @T.prim_func
    def kernel(X: F32[8, 32], C: F32[2, 32], Y: F32[2, 8, 32]):
        with T.Kernel(8, threads=32) as n:
            tx = T.get_thread_binding()
            x = T.alloc_shared((32,), "float32")
            T.async_copy(X[n, 0:32], x)
            T.ptx_wait_group(0)
            row = T.alloc_shared((32,), "float32")
            one = T.alloc_local((2,), "float32")
            row[tx] = C[0, tx]
            one[tx % 2] = C[0, tx]
            Y[0, n, tx] = x[tx] * row[31 - tx] + one[tx % 2]
            row[tx] = C[1, tx]
            one[tx % 2] = C[1, tx]
            Y[1, n, tx] = x[tx] * row[31 - tx] + one[tx % 2]

    return kernel


def test_a_refilled_array_holds_each_row() -> None:
    rng = np.random.default_rng(2)
    x, c = (rng.integers(-9, 9, (n, 32)).astype(np.float32) for n in (8, 2))
    agrees(filled_twice(), (x, c, np.zeros((2, 8, 32), np.float32)))


def computed(how: str) -> T.PrimFunc:
    """Elements of 16 steps a thread, by a body of which most have a slow path."""

    @T.prim_func
    def kernel(X: F32[4, 4096], C: F32[4096], N: I32[4], Y: F32[4, 4096]):
        with T.Kernel(4, threads=128) as b:
            for i in T.Parallel(4096):
                if how == "division":
                    Y[b, i] = C[i] / (1.0 + X[b, i] * X[b, i])
                elif how == "power of two":
                    Y[b, i] = X[b, i] / 4.0 + C[i]
                elif how == "condition":
                    if i < N[b]:
                        Y[b, i] = T.sqrt(X[b, i] * X[b, i] + C[i])
                elif how == "written":
                    Y[b, i] = Y[b, i] / (1.0 + X[b, 4095 - i] * X[b, i])
                elif how == "lanes":
                    Y[b, i] = C[i // 2 * 2 + 1 - i % 2] / (1.0 + X[b, 4095 - i] * X[b, i])
                else:
                    T.atomic_add(Y[b, i], X[b, i])

    return kernel


HOW = ("division", "power of two", "condition", "written", "lanes", "atomic")


@pytest.mark.parametrize("how", HOW)
def test_steps_that_load_together_compute_the_same(how: str) -> None:
    rng = np.random.default_rng(2)
    x, y = (rng.integers(1, 9, size=(4, 4096)).astype(np.float32) for _ in range(2))
    c = rng.integers(1, 9, size=4096).astype(np.float32)
    n = np.array([4096, 0, 1001, 2050], np.int32)
    agrees(computed(how), (x, c, n, y))


def elements_at_once(how: str, name: str, **options: bool) -> int:
    """Elements of the array that holds loads of ``name`` in a thread, four of them a step."""
    configs = {f"tl.{option}": value for option, value in options.items()}
    artifact = tilelang.compile(computed(how), target="cuda -arch=sm_90a", pass_configs=configs)
    return int(artifact.get_kernel_source().partition(f" {name}_vec[")[2].partition("]")[0])


@pytest.mark.parametrize("how", ["division", "condition", "written"])
def test_loads_of_several_steps_are_issued_before_a_slow_path(how: str) -> None:
    assert elements_at_once(how, "X") > 4


def test_steps_without_a_slow_path_load_in_order() -> None:
    assert elements_at_once("power of two", "X") == 4
    assert elements_at_once("division", "X", enable_fast_math=True) == 4


def test_what_the_kernel_writes_is_loaded_in_its_step() -> None:
    assert elements_at_once("written", "Y") == 4
