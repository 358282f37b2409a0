"""Views of fragments and shared tiles with layouts: the view is where its tile is.

Every program runs in the interpreter, on the CPU and as generated CUDA in the emulator, and is
compared with what numpy says.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import SM_80
from tensor_types import F16, F32, I8, I16, I32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.layout import Layout, make_swizzled_layout
from tilelang.transforms.layouts.infer import infer_layouts
from tilelang.transforms.normalize.simplify import simplify_func

WAYS = [
    {"target": "cpu", "execution_backend": "interpret"},
    {"target": "cpu"},
    {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    {"target": "cuda -arch=sm_90a", "execution_backend": "emulator"},
]
needs_cxx = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


def everywhere(func: S.PrimFunc, arguments: list[np.ndarray], want: np.ndarray) -> None:
    """The last argument is ``want`` after every way of running ``func``."""
    for way in WAYS:
        given = [array.copy() for array in arguments]
        tilelang.compile(func, **way)(*given)
        np.testing.assert_array_equal(given[-1], want, err_msg=str(way))


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
@needs_cxx
def test_a_view_of_an_annotated_fragment_is_reduced_in_its_registers() -> None:
    @T.prim_func
    def main(A: F32[16, 256], B: F32[16, 8]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((16, 256), "float32")
            m = T.alloc_fragment((16, 8), "float32")
            T.annotate_layout({x: T.Fragment((16, 256), forward_fn=lambda i, j: (
                (i * 256 + j) // 4 % 128, (i * 256 + j) // 512 * 4 + j % 4))})  # fmt: skip
            T.copy(A, x)
            v = T.reshape(x, (16, 8, 32))
            T.reduce_absmax(v, m, dim=2)
            T.copy(m, B)

    a = numbers(16, 256)
    everywhere(main, [a, np.zeros((16, 8), np.float32)], np.abs(a.reshape(16, 8, 32)).max(-1))
    found = named(main)
    assert found["x"].attrs.register_layout.register_count == 32
    assert found["v"].attrs.register_layout.register_count == 32
    assert found["m"].attrs.register_layout.replication == 8  # threads of a group of 32


@needs_cxx
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
    everywhere(main, [a, 0 * a], want.astype(np.int32))
    table = named(main)["x"].attrs.register_layout.register_table()
    np.testing.assert_array_equal(table[0], np.arange(16).reshape(4, 4).T.reshape(-1))


@needs_cxx
def test_a_view_without_annotations_is_spread_over_the_threads() -> None:
    @T.prim_func
    def main(A: F16[16, 256], B: F16[16, 256]):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((16, 256), "float16")
            v = T.reshape(x, (128, 32))
            m = T.alloc_fragment((128,), "float16")
            T.copy(A, x)
            T.reduce_max(v, m, dim=1)
            for i, j in T.Parallel(128, 32):
                v[i, j] = v[i, j] - m[i]
            T.copy(x, B)

    a = numbers(16, 256, dtype=np.float16)
    rows = a.reshape(128, 32)
    everywhere(main, [a, 0 * a], (rows - rows.max(1, keepdims=True)).reshape(16, 256))
    assert named(main)["x"].attrs.register_layout.register_count == 32  # all elements once


@needs_cxx
def test_parts_of_the_registers_of_a_fragment_are_other_dtypes() -> None:
    @T.prim_func
    def main(A: I32[32, 16], B: I8[32, 64]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((32, 16), "int32")
            T.annotate_layout({x: T.Fragment((32, 16), lambda i, j: (j * 2 + i % 2, i // 2))})
            b = T.view(x, (32, 64), "int8")
            T.copy(A, x)
            for i, j in T.Parallel(32, 64):
                b[i, j] = b[i, j] ^ T.int8(3)
            T.copy(b, B)

    a = np.random.default_rng(0).integers(-(2**31), 2**31, (32, 16), dtype=np.int32)
    everywhere(main, [a, np.zeros((32, 64), np.int8)], a.view(np.int8) ^ np.int8(3))


@needs_cxx
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
    everywhere(main, [a, np.zeros(32, np.int32)], a.view(np.int32))
    assert named(main)["x"].storage == "shared"


@needs_cxx
def test_a_product_is_read_by_rows_of_another_length() -> None:
    @T.prim_func
    def main(A: F16[64, 32], B: F16[32, 64], C: F32[64, 4]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            m = T.alloc_fragment((64, 4), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.reduce_max(T.reshape(c, (64, 4, 16)), m, dim=2)
            T.copy(m, C)

    a, b = numbers(64, 32, dtype=np.float16), numbers(32, 64, dtype=np.float16)
    product = a.astype(np.float32) @ b.astype(np.float32)
    want = product.reshape(64, 4, 16).max(-1)
    everywhere(main, [a, b, np.zeros((64, 4), np.float32)], want)


@needs_cxx
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
    everywhere(main, [a, 0 * a], want)


# -- shared tiles ---------------------------------------------------------------------------------
@needs_cxx
@pytest.mark.parametrize("padded", [False, True])
def test_views_of_an_annotated_shared_tile_follow_its_layout(padded: bool) -> None:
    def layout(tile: Buffer) -> Layout:
        if padded:
            return Layout((16, 128), lambda i, j: i * 136 + j)
        return make_swizzled_layout(tile)

    @T.prim_func
    def main(B: F16[16, 128], A: F16[32, 64]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 128), "float16")
            T.annotate_layout({s: layout(s)})
            T.copy(B, s)
            v = T.reshape(s, (32, 64))
            T.copy(v, A)

    b = numbers(16, 128, dtype=np.float16)
    everywhere(main, [b, np.zeros((32, 64), np.float16)], b.reshape(32, 64))
    assert tilelang.sanitize(main, b, np.zeros((32, 64), np.float16)).ok


@needs_cxx
def test_a_factor_of_a_product_is_filled_under_another_name() -> None:
    @T.prim_func
    def main(A: F16[8, 8, 32], B: F16[32, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((8, 8, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(T.reshape(a, (64, 32)), b, c, clear_accum=True)
            T.copy(c, C)

    a, b = numbers(8, 8, 32, dtype=np.float16), numbers(32, 64, dtype=np.float16)
    product = a.reshape(64, 32).astype(np.float32) @ b.astype(np.float32)
    everywhere(main, [a, b, np.zeros((64, 64), np.float32)], product)
    assert named(main)["a"].attrs.layout is not None  # swizzled, as the product reads it


@needs_cxx
def test_a_window_declared_over_a_shared_tile_follows_its_layout() -> None:
    @T.prim_func
    def main(A: F16[16, 64], B: F16[8, 16]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 64), "float16")
            T.annotate_layout({s: make_swizzled_layout(s)})
            w = T.decl_buffer((8, 16), "float16", data=s, strides=(64, 1), elem_offset=4 * 64 + 32)
            T.copy(A, s)
            T.copy(w, B)

    a = numbers(16, 64, dtype=np.float16)
    everywhere(main, [a, np.zeros((8, 16), np.float16)], a[4:12, 32:48])


@needs_cxx
def test_elements_of_other_dtypes_in_a_swizzled_tile() -> None:
    @T.prim_func
    def main(A: F16[16, 64], B: I32[16, 32]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((16, 64), "float16")
            T.annotate_layout({s: make_swizzled_layout(s)})
            w = T.view(s, (16, 32), "int32")
            bytes_ = T.view(w, (2048,), "uint8")
            T.copy(A, s)
            for i in T.Parallel(2048):
                bytes_[i] = bytes_[i] ^ T.uint8(1)
            T.copy(w, B)

    a = numbers(16, 64, dtype=np.float16)
    everywhere(main, [a, np.zeros((16, 32), np.int32)], (a.view(np.uint8) ^ 1).view(np.int32))


@needs_cxx
def test_a_row_of_a_swizzled_tile_is_analysed_as_a_whole() -> None:
    @T.prim_func
    def main(A: F16[16, 64], B: I32[2, 16]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((16, 64), "float16")
            T.annotate_layout({s: make_swizzled_layout(s)})
            T.copy(A, s)
            for i in T.serial(16):
                if T.all_of(s[i, 0:64]):
                    B[0, i] = 1
                else:
                    B[0, i] = 0
                B[1, i] = T.Cast("int32", T.any_of(T.reshape(s, (8, 128))[i // 2, 64:128]))

    a = np.ones((16, 64), np.float16)
    a[::3, 17] = 0
    a[5] = 0
    a[6] = 0
    a[6, 63] = 1
    rows = a[np.arange(16) // 2 * 2 + 1]
    want = np.stack([(a != 0).all(1), (rows != 0).any(1)]).astype(np.int32)
    everywhere(main, [a, np.zeros((2, 16), np.int32)], want)


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


def test_two_equal_layouts_for_one_tile_are_one() -> None:
    @T.prim_func
    def main(A: F16[8, 8]):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((8, 8), "float16")
            v = T.reshape(s, (64,))
            T.annotate_layout({s: T.Layout((8, 8), lambda i, j: (j, i))})
            T.annotate_layout({v: T.Layout((64,), lambda i: i % 8 * 8 + i // 8)})
            T.copy(A, s)

    assert named(main)["v"].attrs.layout is not None


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
