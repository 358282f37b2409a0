"""Launches: grids, threads, names, indices, extents, warp groups, explicit axes."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
# ruff: noqa: B023, F841, RUF059, SIM117
from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from refusals import refusal
from tiny import kinds, run

import tilelang
import tilelang.language as T
from tilelang.errors import TileError, TileTypeError, TileValueError
from tilelang.ir.expr import Const
from tilelang.ir.stmt import Launch, PrimFunc, walk


def launch(func: PrimFunc) -> Launch:
    return next(s for s in walk(func.body) if isinstance(s, Launch))


def numbers(values: Any) -> list[Any]:
    return [v.value if isinstance(v, Const) else v for v in values]


def test_threads_default_to_128_and_take_an_int_or_a_list() -> None:
    seen = []
    for threads in (None, 64, (32, 2), [4, 2, 2]):

        @T.prim_func
        def f():
            with T.Kernel(1, threads=threads):
                pass

        seen.append(launch(f).threads)
    assert seen == [(128, 1, 1), (64, 1, 1), (32, 2, 1), (4, 2, 2)]


def test_block_indices_are_named_by_the_as_clause() -> None:
    @T.prim_func
    def f(n: T.int32):
        with T.Kernel(4, n, 2) as (row, _, z):
            pass
        with T.Kernel(4) as col:
            pass
        with T.Kernel(4) as (one,):
            pass
        with T.Kernel(4, 2):
            pass

    names = [[v.name for v in s.block_vars] for s in walk(f.body) if isinstance(s, Launch)]
    assert names == [["row", "by", "z"], ["col"], ["one"], ["bx", "by"]]


def test_zero_extents_and_cpu() -> None:
    @T.prim_func
    def f():
        with T.Kernel():
            pass
        with T.Kernel(3, is_cpu=True):
            pass

    first, second = (s for s in walk(f.body) if isinstance(s, Launch))
    assert first.grid == () and first.threads == (128, 1, 1)
    assert second.threads == (1, 1, 1) and ("is_cpu", True) in second.hints.other


def test_bindings_and_extents() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32), n: T.int32):
        with T.Kernel(4, n, threads=(32, 2)) as (bx, by):
            assert T.get_block_binding() is bx
            assert T.get_block_bindings() == (bx, by)
            assert T.get_thread_extents() == (32, 2, 1)
            assert T.get_thread_extent(1) == 2
            assert T.get_block_extent() == 4
            assert T.get_block_extents()[1] is n
            tx, ty, tz = T.get_thread_bindings()
            assert T.get_thread_binding(1) is ty
            O[0] = tx + ty + tz

    assert kinds(f) == ["Launch", "Store"]


def test_cluster_prelude_and_swizzle_are_annotations() -> None:
    @T.prim_func
    def f():
        with T.ClusterKernel(4, cluster_dims=2, threads=64, prelude="// text"):
            T.use_swizzle(10, order="column")
            T.use_swizzle(4, enable=False)

    found = launch(f)
    assert found.hints.cluster_dims == (2, 1, 1)
    assert found.hints.prelude == "// text"
    assert found.hints.swizzle == (10, "column")


def test_indices_and_extents_of_clusters() -> None:
    @T.prim_func
    def f(O: T.Tensor((6, 4), T.int32), n: T.int32):
        with T.Kernel(6, n, cluster_dims=(2, 2), threads=32) as (bx, by):
            assert T.get_cluster_dims() == (2, 2, 1) and T.get_cluster_size() == 4
            x, y = T.get_cluster_ids()
            wide, high = T.get_cluster_extents()
            assert wide == T.get_cluster_extent() == 3
            O[bx, by] = (x * high + y) * 100 + T.get_cluster_id() * 10 + T.get_cluster_id(1)

    want = np.array(
        [[(x // 2 * 2 + y // 2) * 100 + x // 2 * 10 + y // 2 for y in range(4)] for x in range(6)]
    )
    for way in (
        {"execution_backend": "interpret"},
        {"target": "cpu"},
        {"target": "cuda -arch=sm_90a", "execution_backend": "emulator"},
    ):
        out = np.zeros((6, 4), np.int32)
        tilelang.compile(f, **way)(out, 4)
        assert (out == want).all()


def test_a_kernel_without_clusters_has_clusters_of_one_block() -> None:
    @T.prim_func
    def f():
        with T.Kernel(3, 5) as (bx, by):
            assert T.get_cluster_dims() == (1, 1, 1) and T.get_cluster_size() == 1
            assert T.get_cluster_ids() == (bx, by) and T.get_cluster_extents() == (3, 5)

    assert "T.get_cluster" in refusal(TileError, T.get_cluster_size)


def test_the_source_of_a_kernel_may_be_a_file(tmp_path: Path) -> None:
    file = tmp_path / "own.cu"
    file.write_text("void main_kernel() {}\n", encoding="utf-8")

    def traced(source: Any) -> T.PrimFunc:
        @T.prim_func
        def f():
            with T.CUDASourceCodeKernel(4, threads=64, source_code_or_path=source):
                pass

        return f

    for source in (file, str(file), file.read_text(encoding="utf-8")):
        assert launch(traced(source)).hints.cuda_source == "void main_kernel() {}\n"
    one_line = "/*" + 300 * "x" + "*/ void main_kernel() {}"
    assert launch(traced(one_line)).hints.cuda_source == one_line
    for wrong, got in (
        ("no_file.cu", "'no_file.cu': No such file or directory"),
        (300 * "x", f"'{149 * 'x'}"),
        ("a\0b", "'a\\x00b': embedded null byte"),
    ):
        with pytest.raises(TileValueError) as caught:
            traced(wrong)
        text = str(caught.value)
        assert "the source of T.CUDASourceCodeKernel cannot be read\n" in text
        assert "expected: CUDA source, or the path of a file\n" in text
        assert f"got: {got}" in text or "name too long" in text, text
    with pytest.raises(TileTypeError, match="the source of T.CUDASourceCodeKernel is not a string"):
        traced(3)


def test_launch_thread_opens_a_kernel() -> None:
    @T.prim_func
    def f(O: T.Tensor((8,), T.int32)):
        with T.launch_thread("blockIdx.x", 4) as block:
            with T.launch_thread("threadIdx.x", 1) as lane:
                O[block] = block + lane + 1

    found = launch(f)
    assert numbers(found.grid) == [4] and found.threads == (1, 1, 1)
    assert [v.name for v in found.block_vars] == ["block"]
    out = np.zeros(8, np.int32)
    run(f, out)
    assert out.tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "kind", "text"),
    [
        ({"threads": 0}, TileValueError, "not positive"),
        ({"threads": -1}, TileValueError, "not positive"),
        ({"threads": (1, 2, 3, 4)}, TileValueError, "1 to 3 thread extents"),
        ({"threads": 2.0}, TileTypeError, "not a constant"),
        ({"thread": 2}, TileTypeError, "no option `thread`"),
    ],
)
def test_wrong_options(options: dict[str, Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        T.Kernel(1, **options)


def test_wrong_grids() -> None:
    with pytest.raises(TileValueError, match="is negative"):
        T.Kernel(-1)
    with pytest.raises(TileTypeError, match="is not an integer"):
        T.Kernel("4")
    with pytest.raises(TileValueError, match="cluster_dims"):
        T.ClusterKernel(1, cluster_dims=0)


def test_the_linear_thread_index() -> None:
    from tilelang.ir.emitter import emitter

    seen = []

    @T.prim_func
    def f():
        with T.Kernel(1, threads=32):
            seen.append(emitter("test").thread_index())
            assert seen[0] is T.get_thread_binding()
        with T.Kernel(1, threads=(8, 4, 2)):
            tx, ty, tz = T.get_thread_bindings()
            assert emitter("test").thread_index() is tx + ty * 8 + tz * 32
