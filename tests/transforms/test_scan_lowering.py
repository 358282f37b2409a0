"""Running sums and maxima on GPUs, along every dimension, in every kind of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import holds
from tile_bench import Bench, mma_rows, part

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.language.scan_op import _scan as running
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.lower.scan import lower_scan

linear, everywhere = RegisterLayout.linear, RegisterLayout.fully_replicated


def numbers(shape: tuple[int, ...], kind: str = "float32") -> Any:
    low = 0 if kind.startswith("u") else -4
    return np.random.default_rng(len(shape)).integers(low, 5, shape).astype(kind)


def expected(x: Any, kind: str, dim: int, reverse: bool) -> Any:
    if reverse:
        x = np.flip(x, dim)
    with np.errstate(over="ignore"):
        found = (np.add if kind == "sum" else np.maximum).accumulate(x, axis=dim, dtype=x.dtype)
    return np.flip(found, dim) if reverse else found


def scanned(
    bench: Bench, src: Buffer | Region, dst: Buffer | Region, kind: str, dim: int, reverse: bool
) -> None:
    regions = [r.whole() if isinstance(r, Buffer) else r for r in (src, dst)]
    stmt = S.Scan(src=regions[0], dst=regions[1], kind=kind, dim=dim, reverse=reverse)
    bench.run(lambda ctx: lower_scan(stmt, ctx))


@pytest.mark.parametrize("kind", ["sum", "max"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("threads", [32, 48, 96, 256])
@pytest.mark.parametrize("shape", [(1,), (31,), (33,), (300,), (5, 70), (70, 5), (40, 64),
                                   (3, 4, 40)])  # fmt: skip
def test_shared_tiles(shape: tuple[int, ...], threads: int, reverse: bool, kind: str) -> None:
    for dim in range(len(shape)):
        bench = Bench(threads)
        x = numbers(shape)
        src, dst = bench.shared("src", x, "float32"), bench.shared("dst", 0 * x, "float32")
        scanned(bench, src, dst, kind, dim, reverse)
        np.testing.assert_array_equal(bench.value("dst"), expected(x, kind, dim, reverse))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("scope", ["shared", "fragment", "mma", "everywhere", "memory", "private"])
def test_in_place(scope: str, reverse: bool, dim: int) -> None:
    bench = Bench(64)
    x = numbers({"mma": (32, 16), "everywhere": (8, 40)}.get(scope, (32, 40)))
    if scope == "shared":
        tile = bench.shared("x", x, "float32")
    elif scope == "memory":
        tile = bench.memory("x", x, "float32")
    elif scope == "private":
        tile = bench.private("x", np.tile(x[:4, :6], (64, 1, 1)), "float32")
    else:
        dist = {"fragment": linear((32, 40), 64), "mma": mma_rows((32, 16), (1, 2)),
                "everywhere": everywhere((8, 40), 64)}[scope]  # fmt: skip
        tile = bench.fragment("x", x, "float32", dist)
    scanned(bench, tile, tile, "sum", dim, reverse)
    if scope == "private":
        for copy in bench.value("x"):
            np.testing.assert_array_equal(copy, expected(x[:4, :6], "sum", dim, reverse))
    else:
        np.testing.assert_array_equal(bench.value("x"), expected(x, "sum", dim, reverse))


@pytest.mark.parametrize("source", ["shared", "fragment", "private"])
@pytest.mark.parametrize("result", ["shared", "fragment", "private"])
def test_between_kinds_of_memory(source: str, result: str) -> None:
    bench = Bench(32)
    x = numbers((6, 10))
    make: dict[str, Any] = {
        "shared": lambda name, v: bench.shared(name, v, "float32"),
        "fragment": lambda name, v: bench.fragment(name, v, "float32", linear((6, 10), 32)),
        "private": lambda name, v: bench.private(name, np.tile(v, (32, 1, 1)), "float32"),
    }
    scanned(bench, make[source]("src", x), make[result]("dst", 0 * x), "max", 1, False)
    found = bench.value("dst")
    for copy in found if result == "private" else [found]:
        np.testing.assert_array_equal(copy, expected(x, "max", 1, False))


@pytest.mark.parametrize("dtype", ["float64", "float16", "int64", "int32", "uint32", "int8",
                                   "uint8", "int16"])  # fmt: skip
@pytest.mark.parametrize("kind", ["sum", "max"])
def test_dtypes(kind: str, dtype: str) -> None:
    bench = Bench(128)
    x = numbers((6, 100), dtype)
    src, dst = bench.shared("src", x, dtype), bench.shared("dst", 0 * x, dtype)
    scanned(bench, src, dst, kind, 1, False)
    np.testing.assert_array_equal(bench.value("dst"), expected(x, kind, 1, False))


def test_elements_are_converted_to_the_result() -> None:
    bench = Bench(64)
    x = numbers((3, 50), "int8")
    src, dst = bench.shared("src", x, "int8"), bench.shared("dst", 0 * x, "float32")
    scanned(bench, src, dst, "sum", 1, True)
    want = expected(x.astype(np.float32), "sum", 1, True)
    np.testing.assert_array_equal(bench.value("dst"), want)


def test_parts_of_tiles() -> None:
    x = numbers((12, 80))
    for scope in ("shared", "fragment"):
        for dim in (0, 1):
            bench = Bench(64)
            if scope == "shared":
                src = bench.shared("src", x, "float32")
            else:
                src = bench.fragment("src", x, "float32", linear((12, 80), 64))
            dst = bench.fragment("dst", 0 * x, "float32", linear((12, 80), 64, 2))
            where, extents = (2, 5), (7, 60)
            scanned(bench, part(src, where, extents), part(dst, (1, 3), extents), "sum", dim, False)
            want = 0 * x
            want[1:8, 3:63] = expected(x[2:9, 5:65], "sum", dim, False)
            np.testing.assert_array_equal(bench.value("dst"), want)


@pytest.mark.parametrize("source", ["shared", "fragment"])
@pytest.mark.parametrize("result", ["shared", "fragment"])
def test_loops_reuse_the_workspace_safely(source: str, result: str) -> None:
    bench = Bench(64)
    x = numbers((6, 50))
    make: dict[str, Any] = {
        "shared": lambda name, v: bench.shared(name, v, "float32"),
        "fragment": lambda name, v: bench.fragment(name, v, "float32", linear((6, 50), 64)),
    }
    src, dst = make[source]("src", x), make[result]("dst", 0 * x)
    stmt = S.Scan(src=src.whole(), dst=dst.whole(), kind="sum", dim=1)
    bench.run(lambda ctx: lower_scan(stmt, ctx), times=2)
    np.testing.assert_array_equal(bench.value("dst"), expected(x, "sum", 1, False))


def test_a_part_of_the_block() -> None:
    for lo, count in ((64, 64), (16, 48)):
        bench = Bench(128, (lo, count))
        x = numbers((7, 90))
        tile = bench.fragment("x", x, "float32", linear((7, 90), count))
        scanned(bench, tile, tile, "sum", 1, False)
        np.testing.assert_array_equal(bench.value("x"), expected(x, "sum", 1, False))


def test_run_time_extents_are_refused() -> None:
    bench = Bench(32)
    src = bench.shared("src", np.zeros(8), "float32")
    region = Region(src, (E.const(0),), (E.Var("n", DType("int32")),))
    with pytest.raises(TileUnsupportedError) as caught:
        lower_scan(S.Scan(src=region, dst=region, kind="sum", dim=0), bench.ctx)
    assert str(caught.value) == (
        "T.cumsum of a tile whose extent is only known at run time\n"
        "  expected: constant extents\n"
        "  got: `src[0:n]`\n"
        "  hint: use the whole tile and a condition on the elements"
    )


def test_running_minima_on_every_executor() -> None:
    """The language has no word for them; whoever builds the statement gets what it says."""

    @T.prim_func
    def minima(A: T.Tensor((5, 40), "float32"), B: T.Tensor((5, 40), "float32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((5, 40), "float32")
            T.copy(A, tile)
            running("min", "running minima", tile, tile, 1, True)
            T.copy(tile, B)

    x = numbers((5, 40))
    wanted = np.flip(np.minimum.accumulate(np.flip(x, 1), axis=1), 1)
    holds(minima, (x, 0 * x), wanted)
