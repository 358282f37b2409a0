"""Reductions on GPUs: every source and destination, register layout, dtype and thread count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_bench import Bench, mma_rows, part

from tilelang.errors import TileUnsupportedError
from tilelang.interpret import values
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.register_layout import Mode, RegisterLayout
from tilelang.transforms.lower import allreduce
from tilelang.transforms.lower.reduce import lower_reduce

linear, everywhere = RegisterLayout.linear, RegisterLayout.fully_replicated
NUMPY = {"sum": np.sum, "max": np.max, "min": np.min, "bitand": np.bitwise_and.reduce,
         "bitor": np.bitwise_or.reduce, "bitxor": np.bitwise_xor.reduce}  # fmt: skip


def numbers(shape: tuple[int, ...], kind: str, seed: int = 0) -> Any:
    """Small numbers, so that sums are exact in every dtype."""
    rng = np.random.default_rng(seed)
    if DType(kind).is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low = 0 if DType(kind).is_uint else -4
    found = rng.integers(low, 5, shape)
    if DType(kind).bits == 64 and DType(kind).is_integer:
        found = found + (np.int64(1) << 40)
    return found.astype(values.compute_dtype(DType(kind)))


def expected(x: Any, kind: str, dim: int, dst: str, old: Any = None) -> Any:
    """The reduction of ``x`` converted to ``dst``, combined with ``old``."""
    x = np.asarray(x).astype(values.compute_dtype(DType(dst)))
    if kind.startswith("abs"):
        x, kind = np.abs(x), kind[3:]
    found = NUMPY[kind](x, axis=dim)
    if old is not None:
        found = NUMPY[kind](np.stack([found, old.reshape(found.shape)]), axis=0)
    return found.astype(x.dtype)


def statement(src: Buffer | Region, dst: Buffer | Region, kind: str, dim: int, **rest: Any) -> Any:
    src = src.whole() if isinstance(src, Buffer) else src
    dst = dst.whole() if isinstance(dst, Buffer) else dst
    return S.Reduce(src=src, dst=dst, kind=kind, dim=dim, **rest)


def reduced(
    bench: Bench, src: Any, dst: Any, kind: str, dim: int, times: int = 1, **rest: Any
) -> None:
    stmt = statement(src, dst, kind, dim, **rest)
    bench.run(lambda ctx: lower_reduce(stmt, ctx), times=times)


SPREADS = {
    "linear": lambda: linear((32, 64), 128),
    "odd rows and columns": lambda: linear((3, 35), 96),
    "rows of five parts": lambda: linear((7, 300), 160, 4),
    "eleven warps": lambda: linear((1, 777), 352),
    "many rows of three parts": lambda: linear((64, 48), 96),
    "copies": lambda: linear((4, 8), 256),
    "partial warp": lambda: linear((16, 24), 48),
    "everywhere": lambda: everywhere((4, 6), 64),
    "mma": lambda: mma_rows((64, 32), (2, 2)),
    "mma row of warps": lambda: mma_rows((32, 64), (1, 4)),
    "three dims": lambda: linear((3, 8, 16), 64, 2),
    "straddling": lambda: RegisterLayout(
        (8, 16), ((Mode(8, "thread", 1),), (Mode(2, "register", 1), Mode(8, "thread", 8))), (), 64
    ),
    "idle threads": lambda: RegisterLayout(
        (4, 20), ((Mode(4, "register", 1),), (Mode(20, "thread", 1),)), (), 64
    ),
    "gaps": lambda: RegisterLayout(
        (4, 8), ((Mode(4, "register", 2),), (Mode(8, "thread", 4),)), (), 32
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SPREADS)
@pytest.mark.parametrize("into", ["fragment", "sums of a fragment", "shared"])
def test_fragments_of_every_distribution(name: str, into: str) -> None:
    dist, kind = SPREADS[name](), "max" if into == "shared" else "sum"
    for dim in range(len(dist.shape)):
        bench = Bench(dist.threads)
        x = numbers(dist.shape, "float32", dim)
        result = dist.drop(dim)
        old = numbers(result.shape, "float32", 7)
        src = bench.fragment("src", x, "float32", dist)
        dst = bench.tile(into.split()[-1], "dst", old, "float32", result)
        adds = into.startswith("sums")
        reduced(bench, src, dst, kind, dim, clear=not adds)
        want = expected(x, kind, dim, "float32", old if adds else None)
        np.testing.assert_array_equal(bench.value("dst"), want)
        np.testing.assert_array_equal(bench.value("src"), x)


ARITHMETIC, BITS = ("sum", "max", "min", "absmax", "abssum"), ("bitand", "bitor", "bitxor")
INTEGERS = ("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8")
FLOATS = ("float64", "float32", "float16", "bfloat16")


@pytest.mark.parametrize(
    ("src", "dst", "kinds"),
    [
        *((dtype, dtype, ARITHMETIC) for dtype in FLOATS),
        *((dtype, dtype, (*ARITHMETIC, *BITS)) for dtype in INTEGERS),
        ("float16", "float32", ("sum",)), ("float32", "float16", ("sum",)),
        ("int8", "int32", ("sum",)), ("float32", "int32", ("sum",)), ("bool", "int32", ("sum",)),
        ("bool", "bool", ("max",)), ("float8_e4m3fn", "float32", ("absmax", "sum")),
        ("float8_e5m2", "float8_e5m2", ("max",)),
    ],
)  # fmt: skip
def test_operations_of_every_dtype(src: str, dst: str, kinds: tuple[str, ...]) -> None:
    for number, kind in enumerate(kinds):
        bench = Bench(128)
        dist = mma_rows((32, 32), (2, 2))
        x, old = numbers((32, 32), src), numbers((32,), dst, 7)
        a = bench.fragment("src", x, src, dist)
        b = bench.fragment("dst", old, dst, dist.drop(1))
        adds = src == dst and number % 2 == 1
        reduced(bench, a, b, kind, 1, clear=not adds)
        want = expected(x, kind, 1, dst, old if adds else None)
        np.testing.assert_array_equal(bench.value("dst"), want)


def test_integers_wrap_and_narrow_floats_round_once() -> None:
    # 2049 is no float16: step by step the sum of ones would stick
    for x, dtype, want in (
        (np.full((2, 64), 100), "int8", 0),
        (np.ones((2, 4096)), "float16", 4096),
    ):
        bench = Bench(32)
        src = bench.fragment("src", x, dtype, linear(x.shape, 32))
        dst = bench.shared("dst", np.zeros(2), dtype)
        reduced(bench, src, dst, "sum", 1)
        np.testing.assert_array_equal(bench.value("dst"), [want, want])


def test_nan_is_ignored_unless_it_propagates() -> None:
    x = numbers((4, 64), "float32")
    x[1, 5] = x[3, 40] = np.nan
    x[2] = np.nan
    for propagate in (False, True):
        for kind, step in (("max", np.maximum), ("min", np.minimum), ("absmax", np.maximum)):
            bench = Bench(128)
            src = bench.fragment("src", x, "float32", linear((4, 64), 128))
            dst = bench.fragment("dst", np.zeros(4), "float32", linear((4, 64), 128).drop(1))
            reduced(bench, src, dst, kind, 1, nan_propagate=propagate)
            y = np.abs(x) if kind == "absmax" else x
            start = {"max": -np.inf, "min": np.inf, "absmax": 0.0}[kind]
            ignoring = np.fmax if kind != "min" else np.fmin
            want = (step if propagate else ignoring).reduce(y, axis=1, initial=start)
            np.testing.assert_array_equal(bench.value("dst"), want)


RESULTS = {
    "replicated": everywhere((32,), 128),
    "other threads": linear((32,), 128),
    "other registers": RegisterLayout((32,), ((Mode(8, "thread", 16), Mode(4, "register", 1)),),
                                    ((16, 1),), 128),
    "extent 1": everywhere((32, 1), 128),
}  # fmt: skip


@pytest.mark.parametrize("name", [*RESULTS, "shared", "shared 1", "private", "memory"])
@pytest.mark.parametrize("source", ["linear", "mma", "shared", "memory"])
def test_every_destination(name: str, source: str) -> None:
    """Also in a loop, which uses the workspace again."""
    dist = mma_rows((32, 64), (2, 2)) if source == "mma" else linear((32, 64), 128, 2)
    x, old = numbers((32, 64), "float32"), numbers((32,), "float32", 9)
    places = {"linear": "fragment", "mma": "fragment", **dict.fromkeys(RESULTS, "fragment")}
    shape = RESULTS[name].shape if name in RESULTS else (32, 1) if "1" in name else (32,)
    again = (name in RESULTS or name == "private") and source != "memory"
    for clear, times in ((False, 1), (True, 1 + again)):
        bench = Bench(128)
        src = bench.tile(places.get(source, source), "src", x, "float32", dist)
        dst = bench.tile(
            places.get(name, name.split()[0]), "dst", old.reshape(shape), "float32",
            RESULTS.get(name),
        )  # fmt: skip
        reduced(bench, src, dst, "sum", 1, times, clear=clear)
        want = expected(x, "sum", 1, "float32", None if clear else old)
        np.testing.assert_array_equal(bench.value("dst").reshape(-1), want)


def test_registers_are_used_where_the_result_fits() -> None:
    bench = Bench(32)
    dist = linear((4, 32), 32)
    src = bench.fragment("src", numbers((4, 32), "float32"), "float32", dist)
    dst = bench.fragment("dst", np.zeros(4), "float32", dist.drop(1))
    made = lower_reduce(statement(src, dst, "sum", 1), bench.ctx)
    assert not bench.ctx.workspaces
    assert "sync_threads" not in repr(made)


@pytest.mark.parametrize("threads", [32, 48, 96, 512])
@pytest.mark.parametrize("shape", [(1, 1000), (3, 40), (100, 7), (513, 2), (5, 1), (3, 10, 20)])
def test_shared_tiles(threads: int, shape: tuple[int, ...]) -> None:
    for dim in range(len(shape)):
        bench = Bench(threads)
        x = numbers(shape, "float32")
        src = bench.shared("src", x, "float32")
        dst = bench.shared("dst", np.zeros(shape[:dim] + shape[dim + 1 :]), "float32")
        reduced(bench, src, dst, "sum", dim)
        np.testing.assert_array_equal(bench.value("dst"), x.sum(dim))


@pytest.mark.parametrize("source", ["fragment", "shared"])
@pytest.mark.parametrize("result", ["fragment", "shared"])
def test_parts_of_tiles(source: str, result: str) -> None:
    x, old = numbers((16, 32), "float32"), numbers((24,), "float32", 3)
    box = x[3:10, 5:25]
    for dim, extent, clear in ((0, 20, True), (1, 7, False)):
        bench = Bench(64)
        src = bench.tile(source, "src", x, "float32", linear((16, 32), 64, 2))
        dst = bench.tile(result, "dst", old, "float32", linear((24,), 64))
        region = part(dst, (2,), (extent,))
        reduced(bench, part(src, (3, 5), (7, 20)), region, "sum", dim, clear=clear)
        found, inner = old.copy(), slice(2, 2 + extent)
        found[inner] = expected(box, "sum", dim, "float32", None if clear else old[inner])
        np.testing.assert_array_equal(bench.value("dst"), found)


def test_private_arrays() -> None:
    x = np.random.default_rng(0).integers(-9, 9, (32, 4, 5)).astype(np.float32)
    for dim, into in ((0, "private"), (1, "private"), (1, "shared")):
        bench = Bench(32)
        src = bench.private("src", x, "float32")
        zeros = np.zeros((32, x.shape[2 - dim]))
        dst = getattr(bench, into)("dst", zeros if into == "private" else zeros[0], "float32")
        reduced(bench, src, dst, "sum", dim)
        sums = x.sum(dim + 1)
        np.testing.assert_array_equal(bench.value("dst"), sums if into == "private" else sums[31])


def test_a_part_of_the_block_reduces_with_a_named_barrier() -> None:
    for lo, count in ((32, 64), (128, 128), (16, 48)):
        bench = Bench(256, (lo, count))
        dist = linear((4, 192), count)
        x = numbers((4, 192), "float32")
        src = bench.fragment("src", x, "float32", dist)
        dst = bench.fragment("dst", np.zeros(4), "float32", dist.drop(1))
        total = bench.fragment("total", np.zeros(192), "float32", linear((192,), count))
        first = statement(src, dst, "sum", 1)
        second = statement(src, total, "max", 0)
        bench.run(lambda ctx, a=first: lower_reduce(a, ctx),
                  lambda ctx, b=second: lower_reduce(b, ctx))  # fmt: skip
        np.testing.assert_array_equal(bench.value("dst"), x.sum(1))
        np.testing.assert_array_equal(bench.value("total"), x.max(0))


def test_small_workspaces_are_used_in_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allreduce, "WORKSPACE", 96 * 4 * 3)
    bench = Bench(96)
    dist = RegisterLayout(
        (8, 96), ((Mode(8, "register", 1),), (Mode(32, "thread", 3), Mode(3, "thread", 1))), (), 96
    )
    x = numbers((8, 96), "float32")
    src = bench.fragment("src", x, "float32", dist)
    dst = bench.fragment("dst", np.zeros(8), "float32", dist.drop(1))
    reduced(bench, src, dst, "sum", 1, times=2)
    np.testing.assert_array_equal(bench.value("dst"), x.sum(1))


def test_workspaces_stay_small() -> None:
    bench = Bench(1024)
    dist = RegisterLayout(
        (64, 1024), ((Mode(64, "register", 1),), (Mode(32, "thread", 32), Mode(32, "register", 64))),
        ((32, 1),), 1024,
    )  # fmt: skip
    src = bench.fragment("src", np.zeros(dist.shape), "float64", dist)
    dst = bench.fragment("dst", np.zeros(64), "float64", dist.drop(1))
    lower_reduce(statement(src, dst, "sum", 1), bench.ctx)
    assert sum(room.shape[0] * 8 for room in bench.ctx.workspaces) <= 16384


def test_run_time_extents_are_refused() -> None:
    bench = Bench(32)
    src = bench.shared("src", np.zeros((8, 8)), "float32")
    dst = bench.shared("dst", np.zeros(8), "float32")
    n = E.Var("n", DType("int32"))
    region = Region(src, (E.const(0), E.const(0)), (8, n))
    with pytest.raises(TileUnsupportedError) as caught:
        lower_reduce(statement(region, dst, "sum", 1), bench.ctx)
    assert str(caught.value) == (
        "T.reduce_sum of a tile whose extent is only known at run time\n"
        "  expected: constant extents\n"
        "  got: `src[0:8, 0:n]`\n"
        "  hint: use the whole tile and a condition on the elements"
    )
