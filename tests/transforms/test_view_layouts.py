"""Views of fragments and shared tiles with layouts: the view is where its tile is.

Every program runs in the interpreter, on the CPU and as generated CUDA in the emulator, and is
compared with what numpy says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import SM_80
from executors import holds
from tensor_types import F16, F32, I16, I32

import tilelang.language as T
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.transforms.layouts.infer import infer_layouts
from tilelang.transforms.normalize.simplify import simplify_func


def named(func: S.PrimFunc) -> dict[str, Buffer]:
    """Allocations and views after inference, by name."""
    found = infer_layouts(simplify_func(func, SM_80), SM_80)
    return {
        node.buffer.name: node.buffer
        for node in S.walk(found.body)
        if isinstance(node, (S.Alloc, S.View))
    }


def numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(0).integers(-50, 50, shape).astype(dtype)


# -- fragments ------------------------------------------------------------------------------------


def test_an_annotated_view_says_where_its_tile_is() -> None:
    @T.prim_func
    def main(A: I32[64, 16], B: I32[64, 16]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((64, 16), "int32")
            v = T.reshape(x, (64, 4, 4))
            T.annotate_layout({v: T.Fragment((64, 4, 4), lambda i, j, k: (i, k * 4 + j))})
            T.copy(A, x)
            for i, j, k in T.Parallel(64, 4, 4):
                v[i, j, k] = v[i, j, k] + j * 100
            T.copy(x, B)

    a = numbers(64, 16, dtype=np.int32)
    want = (a.reshape(64, 4, 4) + np.arange(4)[:, None] * 100).reshape(64, 16)
    holds(main, (a, 0 * a), want.astype(np.int32))
    table = named(main)["x"].attrs.register_layout.register_table()
    np.testing.assert_array_equal(table[0], np.arange(16).reshape(4, 4).T.reshape(-1))


def test_wider_elements_that_a_layout_splits_are_in_shared_memory() -> None:
    @T.prim_func
    def main(A: I16[64], B: I32[32]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((64,), "int16")
            T.annotate_layout({x: T.Fragment((64,), lambda i: (i, 0))})
            w = T.view(x, (32,), "int32")
            T.copy(A, x)
            T.copy(w, B)

    a = numbers(64, dtype=np.int16)
    holds(main, (a, np.zeros(32, np.int32)), a.view(np.int32))
    assert named(main)["x"].storage == "shared"


def test_what_is_written_under_one_name_is_read_under_another() -> None:
    @T.prim_func
    def main(A: I32[16, 64], C: I32[16, 64]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((16, 64), "int32")
            v = T.view(x, (16, 128), "int16")
            y = T.alloc_fragment((16, 64), "int32")
            T.annotate_layout({
                x: T.Fragment((16, 64), lambda i, j: (j, i)),
                y: T.Fragment((16, 64), lambda i, j: (i * 4 + j // 16, j % 16)),
            })  # fmt: skip
            T.copy(A, x)
            for i, j in T.Parallel(16, 64):
                v[i, j * 2] = T.int16(5)
                y[i, j] = x[i, j]
            T.copy(y, C)

    a = numbers(16, 64, dtype=np.int32)
    want = a.copy()
    want.view(np.int16)[:, ::2] = 5
    holds(main, (a, 0 * a), want)


# -- shared tiles ---------------------------------------------------------------------------------


# -- what cannot be -------------------------------------------------------------------------------
def message(func: S.PrimFunc, kind: type[Exception]) -> str:
    with pytest.raises(kind) as caught:
        infer_layouts(simplify_func(func, SM_80), SM_80)
    return str(caught.value).split("\n --> ")[0]


def test_two_layouts_for_one_tile_are_refused() -> None:
    @T.prim_func
    def main(A: F16[8, 8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 8), "float16")
            v = T.reshape(s, (64,))
            T.annotate_layout({s: T.Layout((8, 8), lambda i, j: (j, i))})
            T.annotate_layout({v: T.Layout((64,), lambda i: i)})
            T.copy(A, s)

    assert message(main, TileValueError) == (
        "the layout of `v` differs from that of another view of its memory\n"
        "  expected: one layout for a tile and its views\n"
        "  got: T.annotate_layout for more than one of `s`, `v`\n"
        "  hint: annotate the allocated tile only; its views follow"
    )


def test_a_shared_layout_that_splits_wider_elements_is_an_error() -> None:
    @T.prim_func
    def main(A: F16[8, 8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 8), "float16")
            v = T.view(s, (8, 4), "int32")
            T.annotate_layout({s: T.Layout((8, 8), lambda i, j: (j, i))})
            T.copy(A, s)
            T.fill(v, 0)

    assert message(main, TileUnsupportedError) == (
        "the layout of `s` does not fit other views of its memory\n"
        "  expected: a layout of the whole tile that keeps elements of wider dtypes together\n"
        "  got: T.Layout of shape (8, 8), also used as `v`\n"
        "  hint: annotate the allocated tile, and keep runs of neighbours whole"
    )


def test_a_window_that_moves_over_an_annotated_tile_is_refused() -> None:
    @T.prim_func
    def main(A: I32[4, 64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((4, 64), "int32")
            T.annotate_layout({s: T.Layout((4, 64), lambda i, j: (i, j ^ i))})
            T.copy(A, s)
            for k in T.serial(4):
                w = T.decl_buffer((64,), "int32", data=s, elem_offset=k * 64)
                T.copy(w, A[k, 0])

    assert message(main, TileUnsupportedError) == (
        "the layout of `s` does not fit other views of its memory\n"
        "  expected: views whose extents, strides and offset are constants\n"
        "  got: other values for `w`\n"
        "  hint: leave out the annotation, or index the tile itself"
    )


def test_a_fragment_over_threads_that_do_not_run_is_refused() -> None:
    @T.prim_func
    def main(A: F32[64, 4]):
        with T.Kernel(1, threads=32):
            s = T.alloc_fragment((64, 4), "float32")
            T.annotate_layout({s: T.Fragment((64, 4), lambda i, j: (i, j))})
            T.copy(A, s)

    assert message(main, TileValueError) == (
        "the layout of `s` uses threads that do not run\n"
        "  expected: threads 0 to 31\n"
        "  got: thread 63 for s[63, 0]\n"
        "  hint: use at most 32 threads for its 256 elements, or start more with "
        "T.Kernel(threads=...)"
    )
