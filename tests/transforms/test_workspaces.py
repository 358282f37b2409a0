"""Barriers of the workspaces of reductions: those in them order more, those behind may be absent."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from tensor_types import F32
from test_ping_pong import arrays, latent

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

ROWS, COLUMNS = 4, 2048


def attended() -> tuple[Any, ...]:
    """Attention whose weights go through shared memory, its arguments, and its results."""
    func = latent(blocks=3, staged=False)
    *given, O, totals, tops = arrays(func)
    return func, (3, *given, 0 * O, 0 * totals, 0 * tops), (O, totals, tops)


def meetings(func: S.PrimFunc, target: str, **options: bool) -> int:
    """Barriers in the loops of the lowered program."""
    lowered = lower(func, parse_target(target), Options(**options))
    loops = (node for node in S.walk(lowered.body) if isinstance(node, S.For))
    bodies = (S.walk(loop.body) for loop in loops)
    return sum(
        "sync_threads" in str(node) for body in bodies for node in body if isinstance(node, S.Eval)
    )


def test_weights_between_products_are_written_without_a_barrier_before() -> None:
    """The products that read them are waited for before the maximum is exchanged; each barrier that
    is left is needed."""
    func, given, wanted = attended()
    assert meetings(func, "cuda -arch=sm_90a") == 3  # of six
    kernel = tilelang.compile(func, target="cuda -arch=sm_90a", execution_backend="emulator")
    report = tilelang.sanitize(kernel, *given, schedule="late")
    assert report.ok
    for found, want in zip(report.arguments[-3:], wanted, strict=True):
        np.testing.assert_array_equal(found, want)
    text = kernel.get_kernel_source()
    start = text.index("for (int k = 0; k < 3;")
    for barrier in list(re.finditer(re.escape("tl_bar_sync(1, 256);"), text[start:]))[:3]:
        edited = text[: start + barrier.start()] + text[start + barrier.end() :]
        assert not tilelang.sanitize(kernel, *given, schedule="late", source=edited).ok


# -- what stays ----------------------------------------------------------------------------------
@T.prim_func
def leaving(X: F32[4 * ROWS, COLUMNS], Y: F32[4, ROWS]) -> None:
    with T.Kernel(1, threads=256):
        tile = T.alloc_fragment((ROWS, COLUMNS), "float32")
        top, total = T.alloc_fragment((ROWS,), "float32"), T.alloc_fragment((ROWS,), "float32")
        for k in T.serial(4):
            T.copy(X[k * ROWS, 0], tile)
            T.reduce_max(tile, top, dim=1)
            T.copy(top, Y[k, 0])
            if k % 2 == 0:
                continue
            T.reduce_sum(tile, total, dim=1)
            T.copy(total, Y[k, 0])


def test_an_iteration_that_may_end_early_keeps_the_barrier_of_a_workspace() -> None:
    assert meetings(leaving, "cuda -arch=sm_80") == 3  # of four
    x = np.random.default_rng(0).integers(-9, 9, (4 * ROWS, COLUMNS)).astype(np.float32)
    y = np.empty((4, ROWS), np.float32)
    kernel = tilelang.compile(leaving, target="cuda -arch=sm_80", execution_backend="emulator")
    assert tilelang.sanitize(kernel, x, y).ok
    kernel(x, y)
    blocks = x.reshape(4, ROWS, COLUMNS)
    np.testing.assert_array_equal(y[::2], blocks[::2].max(2))
    np.testing.assert_array_equal(y[1::2], blocks[1::2].sum(2))


# -- the next execution ----------------------------------------------------------------------------
def repeated(form: str) -> S.PrimFunc:
    """Row maxima of four tiles, by warps that share a row."""

    @T.macro
    def highest(X, Y, tile, top, k) -> None:  # type: ignore[no-untyped-def]  # a traced function
        T.copy(X[k * ROWS, 0], tile)
        T.reduce_max(tile, top, dim=1)
        T.copy(top, Y[k, 0])

    @T.prim_func
    def kernel(X: F32[4 * ROWS, COLUMNS], Y: F32[4, ROWS]) -> None:
        with T.Kernel(1, threads=256):
            tile = T.alloc_fragment((ROWS, COLUMNS), "float32")
            top = T.alloc_fragment((ROWS,), "float32")
            if form == "once":
                highest(X, Y, tile, top, 0)
            elif form == "loop":
                for k in T.serial(4):
                    highest(X, Y, tile, top, k)
            elif form == "branch":
                for k in T.serial(4):
                    if k != 2:
                        highest(X, Y, tile, top, k)
            else:
                k = T.alloc_var("int32", init=0)
                while k < 4:
                    highest(X, Y, tile, top, k)
                    k = k + 1

    return kernel


@pytest.mark.parametrize("form", ["once", "loop", "branch", "while"])
def test_only_a_reduction_that_is_executed_again_has_a_second_barrier(form: str) -> None:
    kernel = tilelang.compile(
        repeated(form), target="cuda -arch=sm_80", execution_backend="emulator"
    )
    text = kernel.get_kernel_source()
    assert text.count("__syncthreads();") == (1 if form == "once" else 2)
    x = np.random.default_rng(0).integers(-9, 9, (4 * ROWS, COLUMNS)).astype(np.float32)
    y = np.zeros((4, ROWS), np.float32)
    assert tilelang.sanitize(kernel, x, y).ok
    if form != "once":  # without the barrier before the next iteration's writes
        first, second, third = text.split("__syncthreads();")
        edited = f"{first}__syncthreads();{second}{third}"
        assert not tilelang.sanitize(kernel, x, y, source=edited).ok
