"""Atomic updates by tiles on GPUs: each element counts once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_bench import Bench, lower_loop, mma_rows

from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.layout.register_layout import Mode, RegisterLayout

linear, everywhere = RegisterLayout.linear, RegisterLayout.fully_replicated
SPREADS = {
    "linear": lambda: linear((8, 24), 64, 2),
    "padded": lambda: linear((8, 24), 128),
    "copies": lambda: linear((4, 8), 128),
    "everywhere": lambda: everywhere((3, 4), 32),
    "partial warp": lambda: linear((6, 10), 48),
    "mma": lambda: mma_rows((32, 16), (2, 1)),
    "idle": lambda: RegisterLayout((2, 20), ((Mode(2, "register", 1),), (Mode(20, "thread", 1),)),
                                 (), 32),
    "gaps": lambda: RegisterLayout((2, 8), ((Mode(2, "register", 1),), (Mode(8, "thread", 4),)),
                                 (), 32),
}  # fmt: skip


def numbers(shape: tuple[int, ...], kind: str = "float32", seed: int = 0) -> Any:
    return np.random.default_rng(seed).integers(1, 9, shape).astype(kind)


def updated(bench: Bench, src: Any, dst: Any, op: str = "add") -> S.Stmt:
    src = src.whole() if isinstance(src, Buffer) else src
    dst = dst.whole() if isinstance(dst, Buffer) else dst
    stmt = S.AtomicTile(src=src, dst=dst, op=op, memory_order="release")
    bench.run(lambda ctx: lower_loop(stmt, ctx), safe_memory=True)
    return lower_loop(stmt, bench.ctx)


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("scope", ["shared", "memory"])
def test_fragments(name: str, scope: str) -> None:
    dist = SPREADS[name]()
    bench = Bench(dist.threads)
    x, old = numbers(dist.shape), numbers(dist.shape, seed=1)
    src = bench.fragment("src", x, "float32", dist)
    dst = getattr(bench, scope)("dst", old, "float32")
    updated(bench, src, dst)
    np.testing.assert_array_equal(bench.value("dst"), old + x)
