"""Layouts that cannot be those of the buffer they are given to, refused on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import tilelang.language as T
from tilelang.errors import TileError, TileTypeError, TileValueError


def message(kind: type[TileError], layout: Callable[[], Any], scope: str = "shared") -> str:
    """What annotating a (8, 16) tile with ``layout()`` says."""
    with pytest.raises(kind) as caught:

        @T.prim_func
        def main(A: T.Tensor((8, 16), "float16")):
            with T.Kernel(1, threads=32):
                s = T.alloc_buffer((8, 16), "float16", scope)
                T.annotate_layout({s: layout()})
                T.copy(A, s)

    text, place = str(caught.value).split("\n --> ")
    assert "T.annotate_layout" in place  # the line of the program
    return text


def test_two_elements_at_one_address_are_refused() -> None:
    found = message(TileValueError, lambda: T.Layout((8, 16), lambda i, j: i * 4 + j))
    assert found == (
        "the layout of `s` puts two elements in one place\n"
        "  expected: a layout with a different place for each element\n"
        "  got: T.Layout of shape (8, 16)"
    )


def test_two_elements_in_one_register_are_refused() -> None:
    found = message(
        TileValueError, lambda: T.Fragment((8, 16), lambda i, j: (j, i % 4)), "local.fragment"
    )
    assert found == (
        "the layout of `s` puts two elements in one register of a thread\n"
        "  expected: a layout with a different register of a thread for each element\n"
        "  got: T.Fragment of shape (8, 16)"
    )


@pytest.mark.parametrize("shape", [(8, 8), (16, 8), (2, 8, 16), (128,)])
def test_a_layout_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    assert message(TileValueError, lambda: T.Layout(shape, lambda *i: i)) == (
        "the layout of `s` is of another shape\n"
        "  expected: a T.Layout of shape (8, 16)\n"
        f"  got: shape {shape}\n"
        "  hint: make it from the buffer: T.Layout(s.shape, ...)"
    )


def test_a_layout_that_spans_too_much_is_refused() -> None:
    found = message(TileValueError, lambda: T.Layout((8, 16), lambda i, j: (i << 24) + j))
    assert found == (
        "the layout of `s` has too large a span\n"
        "  expected: numbers that span at most 16777216 elements\n"
        "  got: T.Layout of shape (8, 16) that spans 117440528"
    )


def test_threads_for_shared_memory_are_refused() -> None:
    found = message(TileTypeError, lambda: T.Fragment((8, 16), lambda i, j: (j, i)))
    assert found == (
        "the layout of `s` in T.annotate_layout is of threads and registers\n"
        "  expected: a T.Layout for shared memory\n"
        "  got: a T.Fragment"
    )


def test_a_layout_of_a_large_tensor_is_judged_by_what_it_changes() -> None:
    """Dimensions that stay as they are are not written out: 2^31 elements here."""
    layout = T.Layout((64, 1024, 256, 128), lambda b, i, h, d: [b, i // 8, h, d, i % 8])
    assert layout.output_shape() == (64, 128, 256, 128, 8)
    assert layout.is_injective()
    assert not T.Layout((64, 1024, 256, 128), lambda b, i, h, d: [b, i // 8, h, d]).is_injective()
    assert layout.core().shape == (1, 1024, 1, 1)
