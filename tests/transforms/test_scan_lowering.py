"""Running sums and maxima on GPUs, along every dimension, in every kind of memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_bench import Bench, mma_rows, part

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
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
    bench: Bench, src: Buffer | Region, dst: Buffer | Region, kind: str, dim: int, reverse: bool,
    times: int = 1,
) -> None:  # fmt: skip
    regions = [r.whole() if isinstance(r, Buffer) else r for r in (src, dst)]
    stmt = S.Scan(src=regions[0], dst=regions[1], kind=kind, dim=dim, reverse=reverse)
    bench.run(lambda ctx: lower_scan(stmt, ctx), times=times)


@pytest.mark.parametrize(("kind", "reverse"), [("sum", False), ("sum", True), ("max", True)])
@pytest.mark.parametrize("threads", [32, 48, 96, 256])
@pytest.mark.parametrize("shape", [(1,), (33,), (300,), (5, 70), (70, 5), (3, 4, 40)])
def test_shared_tiles(shape: tuple[int, ...], threads: int, reverse: bool, kind: str) -> None:
    for dim in range(len(shape)):
        bench = Bench(threads)
        x = numbers(shape)
        src, dst = bench.shared("src", x, "float32"), bench.shared("dst", 0 * x, "float32")
        scanned(bench, src, dst, kind, dim, reverse)
        np.testing.assert_array_equal(bench.value("dst"), expected(x, kind, dim, reverse))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("scope", ["shared", "fragment", "mma", "everywhere", "memory", "private"])
def test_in_place(scope: str, dim: int) -> None:
    x = numbers({"mma": (32, 16), "everywhere": (8, 40), "private": (4, 6)}.get(scope, (32, 40)))
    spreads = {"fragment": linear((32, 40), 64), "mma": mma_rows((32, 16), (1, 2)),
               "everywhere": everywhere((8, 40), 64)}  # fmt: skip
    for reverse in (False, True):
        bench = Bench(64)
        memory = "fragment" if scope in spreads else scope
        tile = bench.tile(memory, "x", x, "float32", spreads.get(scope))
        scanned(bench, tile, tile, "sum", dim, reverse)
        np.testing.assert_array_equal(bench.value("x"), expected(x, "sum", dim, reverse))


@pytest.mark.parametrize("source", ["shared", "fragment", "private"])
@pytest.mark.parametrize("result", ["shared", "fragment", "private"])
def test_between_kinds_of_memory(source: str, result: str) -> None:
    """Also in a loop, which uses the workspace again."""
    bench = Bench(64)
    x, spread = numbers((6, 50)), linear((6, 50), 64)
    src = bench.tile(source, "src", x, "float32", spread)
    dst = bench.tile(result, "dst", 0 * x, "float32", spread)
    scanned(bench, src, dst, "max", 1, False, times=1 if "private" in (source, result) else 2)
    np.testing.assert_array_equal(bench.value("dst"), expected(x, "max", 1, False))


@pytest.mark.parametrize(
    ("dtype", "result"),
    [(dtype, dtype) for dtype in ("float64", "float16", "int64", "uint32", "int8", "uint8")]
    + [("int8", "float32")],
)
def test_dtypes(dtype: str, result: str) -> None:
    for kind in ("sum", "max"):
        bench = Bench(128)
        x = numbers((6, 100), dtype)
        src, dst = bench.shared("src", x, dtype), bench.shared("dst", 0 * x, result)
        scanned(bench, src, dst, kind, 1, True)
        want = expected(x.astype(result), kind, 1, True)
        np.testing.assert_array_equal(bench.value("dst"), want)


def test_parts_of_tiles() -> None:
    x = numbers((12, 80))
    for scope, dim in (("shared", 0), ("fragment", 1)):
        bench = Bench(64)
        src = bench.tile(scope, "src", x, "float32", linear((12, 80), 64))
        dst = bench.fragment("dst", 0 * x, "float32", linear((12, 80), 64, 2))
        where, extents = (2, 5), (7, 60)
        scanned(bench, part(src, where, extents), part(dst, (1, 3), extents), "sum", dim, False)
        want = 0 * x
        want[1:8, 3:63] = expected(x[2:9, 5:65], "sum", dim, False)
        np.testing.assert_array_equal(bench.value("dst"), want)


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
