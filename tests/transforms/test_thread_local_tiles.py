"""Tile operations on arrays of single threads: each thread does all of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import holds

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.emulator.compilers import find_cxx
from tilelang.ir import stmt as S


def traced(program: Callable[..., Any]) -> S.PrimFunc:
    func = T.prim_func(program)
    assert isinstance(func, S.PrimFunc)
    return func


def moved(A: T.Tensor((16, 4, 8), "float32"), B: T.Tensor((16, 8), "float32")) -> None:
    with T.Kernel(1, threads=16):
        tx = T.get_thread_binding()
        mine = T.alloc_local((4, 8), "float32")
        turned = T.alloc_shared((16, 8), "float32")
        T.copy(A[tx, :, :], mine)
        mine[tx % 4, 0] = 100.0
        T.copy(mine[1, :], turned[tx, :])
        T.copy(turned[15 - tx, :], mine[2, :])
        T.copy(mine[2, :], B[tx, :])


def reduced(A: T.Tensor((16, 4, 8), "float32"), B: T.Tensor((16, 8), "float32")) -> None:
    with T.Kernel(1, threads=16):
        tx = T.get_thread_binding()
        mine = T.alloc_local((4, 8), "float32")
        least = T.alloc_local((8,), "float32")
        rows = T.alloc_local((4,), "float32")
        T.copy(A[tx, :, :], mine)
        T.cumsum(mine, dim=1)
        T.reduce_min(mine, least, dim=0)
        T.reduce_sum(mine, rows, dim=1)
        for i in T.serial(8):
            B[tx, i] = least[i] + rows[i % 4]


def added(A: T.Tensor((16, 4, 8), "float32"), B: T.Tensor((16, 8), "float32")) -> None:
    with T.Kernel(1, threads=16):
        tx = T.get_thread_binding()
        mine = T.alloc_local((8,), "float32")
        T.fill(mine, 3.0)
        for row in T.serial(4):
            T.copy(A[tx, row, :], mine)
            T.atomic_add(B[tx // 4, :], mine)


@pytest.mark.parametrize("program", [moved, reduced, added])
@pytest.mark.parametrize("target", ["cpu", "cuda -arch=sm_75", "cuda -arch=sm_80"])
def test_each_thread_works_on_its_own_array(program: Callable[..., Any], target: str) -> None:
    if (find_compiler if target == "cpu" else find_cxx)() is None:
        pytest.skip("needs a compiler")
    func = traced(program)
    rng = np.random.default_rng(0)
    a, wanted = rng.integers(-9, 9, (16, 4, 8)).astype(np.float32), np.zeros((16, 8), np.float32)
    found = wanted.copy()
    tilelang.compile(func, target=target, execution_backend="interpret")(a, wanted)
    if target == "cpu":
        tilelang.compile(func, target=target)(a, found)
    else:
        report = tilelang.sanitize(func, a, found, target=target)
        assert report.ok, report
        found = report.arguments[1]
    assert wanted.any()
    np.testing.assert_array_equal(found, wanted)


def combined(op: str, threads: str, to: str, clear: bool) -> Any:
    """Some threads of a block reduce or scan a shared tile on their own."""

    @T.prim_func
    def main(A: T.Tensor((8, 12), "float32"), B: T.Tensor((8, 12), "float32")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((8, 12), "float32")
            r = T.alloc_buffer((1 if threads == "rows" else 8,), "float32", scope=to)
            tx = T.get_thread_binding()
            T.copy(A, s)
            if threads == "rows":
                if (A[tx % 8, 0] > 0) & (tx < 8):
                    r[0] = 5
                    T.reduce(s[tx : tx + 1, :], r, op, 1, clear)
                    B[tx, 0] = r[0]
            elif op == "cumsum":
                if tx == 37:
                    T.cumsum(s, dim=1, reverse=clear)
                    for i, j in T.grid(8, 12):
                        B[i, j] = s[i, j]
            elif (tx == 37) if threads == "one" else (tx % 8 == 2):
                for i in T.serial(8):
                    r[i] = 5
                T.reduce(s, r, op, 1, clear)
                if threads == "one":
                    for i in T.serial(8):
                        B[i, 0] = r[i]
                else:
                    B[tx // 8, 0] = r[tx // 8]

    return main


@pytest.mark.parametrize("clear", [True, False])
@pytest.mark.parametrize("threads, to", [
    ("one", "shared"), ("one", "local"), ("one", "local.fragment"), ("some", "local"),
    ("rows", "local"),
])  # fmt: skip
@pytest.mark.parametrize("op", ["sum", "max", "min", "abssum", "cumsum"])
def test_threads_reduce_shared_tiles_on_their_own(
    op: str, threads: str, to: str, clear: bool
) -> None:
    if op == "cumsum" and (threads, to) != ("one", "shared"):
        pytest.skip("a scan writes the tile that it reads: it has one form")
    a = np.random.default_rng(1).integers(-9, 9, (8, 12)).astype(np.float32)
    want = np.zeros((8, 12), np.float32)
    if op == "cumsum":
        want = a[:, ::-1].cumsum(1)[:, ::-1] if clear else a.cumsum(1)
    else:
        function = {"sum": np.add, "max": np.maximum, "min": np.minimum, "abssum": np.add}[op]
        rows = function.reduce(abs(a) if op == "abssum" else a, 1)
        want[:, 0] = rows if clear else function(rows, 5)
        if threads == "rows":
            want[:, 0] *= a[:, 0] > 0
    holds(combined(op, threads, to, clear), (a, np.zeros_like(want)), want)


BRANCHES: dict[str, Callable[[Any], Any]] = {
    "one": lambda tx: tx == 3,
    "a few": lambda tx: tx < 5,
    "apart": lambda tx: tx % 7 == 3,
    "the last": lambda tx: tx > 89,
    "of two warps": lambda tx: (tx > 20) & (tx < 45),
}


def by_some_threads(op: str, scope: str, branch: Callable[[Any], Any]) -> Any:
    """Some threads of a warp reduce or scan a tile of the block, once for all of them."""

    @T.prim_func
    def main(A: T.Tensor((4, 16), "int32"), B: T.Tensor((4, 16), "int32")):
        with T.Kernel(1, threads=96):
            tile = T.alloc_buffer((4, 16), "int32", scope=scope)
            scanned = T.alloc_shared((4, 16), "int32")
            sums = T.alloc_shared((4,), "int32")
            T.fill(sums, 1)
            T.copy(A, tile)
            for _ in T.serial(2):
                if branch(T.get_thread_binding()):
                    if op == "scan in place":
                        T.cumsum(tile, dim=1)
                    elif op == "scan":
                        T.cumsum(tile, scanned, dim=1, reverse=True)
                    else:
                        T.reduce_sum(tile, sums, dim=1, clear=op == "reduce")
            if op == "scan in place":
                T.copy(tile, B)
            elif op == "scan":
                T.copy(scanned, B)
            else:
                for i, j in T.Parallel(4, 16):
                    B[i, j] = sums[i]

    return main


@pytest.mark.parametrize("branch", BRANCHES.values(), ids=BRANCHES)
@pytest.mark.parametrize("scope", ["shared", "local.fragment"])
@pytest.mark.parametrize("op", ["scan in place", "scan", "reduce", "accumulate"])
def test_some_threads_reduce_and_scan_tiles_of_the_block(
    op: str, scope: str, branch: Callable[[Any], Any]
) -> None:
    a = np.random.default_rng(2).integers(-9, 9, (4, 16)).astype(np.int32)
    rows = a.sum(1, keepdims=True) * np.ones_like(a)
    want = {
        "scan in place": a.cumsum(1).cumsum(1), "scan": a[:, ::-1].cumsum(1)[:, ::-1],
        "reduce": rows, "accumulate": 1 + 2 * rows,
    }[op]  # fmt: skip
    holds(by_some_threads(op, scope, branch), (a, np.zeros_like(a)), want)
    for target in ("hip -mcpu=gfx942", "metal"):
        tilelang.lower(by_some_threads(op, scope, branch), target=target)
