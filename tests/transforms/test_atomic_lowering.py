"""Atomic updates by tiles on GPUs: each element counts once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_bench import Bench, lower_loop, mma_rows, part

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
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


@pytest.mark.parametrize(("op", "step"), [("add", np.add), ("max", np.maximum),
                                          ("min", np.minimum), ("or", np.bitwise_or)])  # fmt: skip
@pytest.mark.parametrize("threads", [32, 48, 256])
def test_shared_tiles(op: str, step: Any, threads: int) -> None:
    bench = Bench(threads)
    x, old = numbers((7, 30), "int32"), numbers((7, 30), "int32", 1)
    src, dst = bench.shared("src", x, "int32"), bench.memory("dst", old, "int32")
    made = updated(bench, src, dst, op)
    np.testing.assert_array_equal(bench.value("dst"), step(old, x))
    assert f"T.atomic_{op}" in repr(made)
    assert "release" in repr(made)


def test_elements_are_converted_and_parts_are_moved() -> None:
    bench = Bench(64)
    x, old = numbers((8, 16), "int32"), np.zeros((3, 12, 40), np.float32)
    src = bench.shared("src", x, "int32")
    dst = bench.memory("dst", old, "float32")
    updated(bench, part(src, (2, 4), (5, 8)), part(dst, (1, 3, 30), (1, 5, 8)))
    want = old.copy()
    want[1, 3:8, 30:38] = x[2:7, 4:12]
    np.testing.assert_array_equal(bench.value("dst"), want)


def test_what_is_outside_the_destination_is_dropped() -> None:
    bench = Bench(32)
    x = numbers((4, 16))
    src, dst = bench.shared("src", x, "float32"), bench.memory("dst", np.zeros((3, 10)), "float32")
    updated(bench, src, part(dst, (1, 2), (4, 16)))
    want = np.zeros((3, 10), np.float32)
    want[1:, 2:] = x[:2, :8]
    np.testing.assert_array_equal(bench.value("dst"), want)


def test_extents_may_be_known_at_run_time_only() -> None:
    bench = Bench(32)
    x = numbers((4, 50))
    src, dst = bench.shared("src", x, "float32"), bench.memory("dst", 0 * x, "float32")
    size = bench.memory("size", np.array([33]), "int32")
    n = E.Var("n", DType("int32"))
    bench.before.append(S.Let(var=n, value=E.Load(size, (E.const(0),))))
    zero = (E.const(0), E.const(0))
    updated(bench, Region(src, zero, (3, n)), Region(dst, zero, (3, n)))
    want = 0 * x
    want[:3, :33] = x[:3, :33]
    np.testing.assert_array_equal(bench.value("dst"), want)
