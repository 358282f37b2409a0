"""Transposes, columns of convolutions and printed tiles on GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tile_bench import Bench, lower_loop, part

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.lower.print_tile import lower_print

linear = RegisterLayout.linear


def tile(bench: Bench, name: str, values: Any, scope: str) -> Buffer:
    if scope == "fragment":
        dist = linear(values.shape, bench.mine.threads, 2)
        return bench.fragment(name, values, "float32", dist)
    return getattr(bench, scope)(name, values, "float32")


# -- transpose ------------------------------------------------------------------------------------
@pytest.mark.parametrize("source", ["shared", "fragment", "memory"])
@pytest.mark.parametrize("result", ["shared", "fragment", "memory"])
@pytest.mark.parametrize("threads", [32, 48, 128])
def test_transposes(source: str, result: str, threads: int) -> None:
    """Two fragments go through layouts first: `tests/corpus` has such programs."""
    if (source, result) == ("fragment", "fragment"):
        source = "shared"
    bench = Bench(threads)
    x = np.arange(12 * 20, dtype=np.float32).reshape(12, 20)
    src, dst = tile(bench, "src", x, source), tile(bench, "dst", np.zeros((20, 12)), result)
    stmt = S.Transpose(src=src.whole(), dst=dst.whole())
    bench.run(lambda ctx: lower_loop(stmt, ctx))
    np.testing.assert_array_equal(bench.value("dst"), x.T)


def test_loops_reuse_the_workspace_safely() -> None:
    bench = Bench(64)
    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    src, dst = tile(bench, "src", x, "fragment"), tile(bench, "dst", np.zeros((16, 8)), "shared")
    moved = S.Transpose(src=src.whole(), dst=dst.whole())
    shown = S.PrintTile(src=src.whole(), message="look")
    bench.run(lambda ctx: lower_loop(moved, ctx), lambda ctx: lower_print(shown, ctx), times=2)
    np.testing.assert_array_equal(bench.value("dst"), x.T)
    assert len(bench.out.getvalue().splitlines()) == 2 * x.size


def test_parts_are_transposed_and_converted() -> None:
    for scope in ("shared", "memory"):
        bench = Bench(64)
        x = np.arange(2 * 8 * 10, dtype=np.float32).reshape(2, 8, 10) + 0.5
        src = tile(bench, "src", x, scope)
        dst = bench.shared("dst", np.zeros((3, 12, 9)), "int32")
        stmt = S.Transpose(src=part(src, (1, 2, 3), (1, 5, 7)), dst=part(dst, (2, 4, 1), (1, 7, 5)))
        bench.run(lambda ctx, stmt=stmt: lower_loop(stmt, ctx))
        want = np.zeros((3, 12, 9), np.int32)
        want[2, 4:11, 1:6] = x[1, 2:7, 3:10].T
        np.testing.assert_array_equal(bench.value("dst"), want)


# -- im2col ---------------------------------------------------------------------------------------
def columns(image: Any, kernel: int, stride: int, dilation: int, pad: int) -> Any:
    """The whole column matrix, element by element."""
    n, h, w, c = image.shape
    reach = dilation * (kernel - 1) + 1
    oh, ow = (h + 2 * pad - reach) // stride + 1, (w + 2 * pad - reach) // stride + 1
    padded = np.pad(image, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    found = np.zeros((n, oh, ow, kernel, kernel, c), image.dtype)
    for y in range(oh):
        for x in range(ow):
            for ky in range(kernel):
                for kx in range(kernel):
                    at = padded[:, y * stride + ky * dilation, x * stride + kx * dilation]
                    found[:, y, x, ky, kx] = at
    return found.reshape(n * oh * ow, kernel * kernel * c)


@pytest.mark.parametrize("scope", ["shared", "fragment"])
@pytest.mark.parametrize(("kernel", "stride", "dilation", "pad"), [(3, 1, 1, 1), (3, 2, 1, 0),
                                                                   (2, 1, 2, 1)])  # fmt: skip
def test_columns_of_a_convolution(
    scope: str, kernel: int, stride: int, dilation: int, pad: int
) -> None:
    image = np.arange(2 * 7 * 6 * 4, dtype=np.float32).reshape(2, 7, 6, 4) + 1
    want = columns(image, kernel, stride, dilation, pad)
    rows, cols = 16, 8
    last = -(-want.shape[0] // rows)
    padded = np.zeros((last * rows, -(-want.shape[1] // cols) * cols), np.float32)
    padded[: want.shape[0], : want.shape[1]] = want
    for i, j in {(0, 0), (last - 1, 1), (last // 2, padded.shape[1] // cols - 1)}:
        bench = Bench(64)
        img = bench.memory("img", image, "float32")
        col = tile(bench, "col", np.full((rows, cols), -1.0), scope)
        stmt = S.Im2col(
            src=img.whole(), dst=col.whole(), nhw_step=E.const(i), c_step=E.const(j),
            kernel=kernel, stride=stride, dilation=dilation, pad=pad,
        )  # fmt: skip
        bench.run(lambda ctx, stmt=stmt: lower_loop(stmt, ctx))
        box = padded[i * rows : (i + 1) * rows, j * cols : (j + 1) * cols]
        np.testing.assert_array_equal(bench.value("col"), box)


# -- print ----------------------------------------------------------------------------------------
def printed(bench: Bench, region: Region, thread: int = 0) -> list[str]:
    stmt = S.PrintTile(src=region, message="look", thread=thread)
    bench.run(lambda ctx: lower_print(stmt, ctx))
    return bench.out.getvalue().splitlines()


@pytest.mark.parametrize("scope", ["shared", "fragment"])
def test_one_thread_prints_a_tile_in_order(scope: str) -> None:
    bench = Bench(64)
    x = np.arange(4 * 6, dtype=np.float32).reshape(4, 6)
    lines = printed(bench, part(tile(bench, "x", x, scope), (1, 2), (2, 3)), 32)
    assert len(lines) == 6
    assert all("msg='look'" in line and "ThreadIdx=(32, 0, 0)" in line for line in lines)
    values = [float(line.split("value=")[1]) for line in lines]
    assert values == x[1:3, 2:5].reshape(-1).tolist()


def test_every_thread_prints_its_own_array_and_global_memory() -> None:
    bench = Bench(32)
    assert len(printed(bench, bench.private("x", np.zeros((32, 3)), "float32").whole())) == 96
    bench = Bench(32)
    assert len(printed(bench, bench.memory("x", np.zeros(2), "float32").whole())) == 64


def test_a_group_without_the_printing_thread_is_silent() -> None:
    for thread, count in ((0, 0), (32, 4), (64, 4), (96, 0)):
        bench = Bench(128, (32, 64))
        x = tile(bench, "x", np.zeros((2, 2)), "fragment")
        assert len(printed(bench, x.whole(), thread)) == count
