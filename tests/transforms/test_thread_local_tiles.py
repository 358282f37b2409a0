"""Tile operations on arrays of single threads: each thread does all of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import holds

import tilelang
import tilelang.language as T

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


@pytest.mark.share(4)
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
