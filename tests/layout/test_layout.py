"""Layouts: tables, inverses, equality and derived layouts."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refusal

import tilelang.language as T
from tilelang.errors import TileTypeError, TileUnsupportedError, TileValueError
from tilelang.ir.expr import Const
from tilelang.layout import Fragment, Layout, make_linear_layout, make_padded_layout


def test_addresses_are_row_major_positions_in_the_output_box() -> None:
    layout = Layout((4, 6), lambda i, j: (j, i))
    assert layout.output_shape() == (6, 4)
    rows, columns = np.indices((4, 6))
    assert np.array_equal(layout.addresses(), columns * 4 + rows)
    assert layout.size == 24


def test_inverse_undoes_the_map_and_marks_holes() -> None:
    layout = make_padded_layout((4, 6), 2)
    inverse = layout.inverse()
    addresses = layout.addresses()
    for i in range(4):
        for j in range(6):
            assert tuple(inverse[addresses[i, j]]) == (i, j)
    assert tuple(inverse[6]) == (-1, -1)


def test_overlap_has_no_inverse() -> None:
    layout = Layout((4,), lambda i: i // 2)
    assert not layout.is_injective()
    assert refusal(TileValueError, layout.inverse) == (
        "T.Layout has no inverse\n"
        "  expected: different addresses for all elements\n"
        "  got: two elements at one address"
    )


def test_equality_is_of_maps_not_of_expressions() -> None:
    a = Layout((8, 4), lambda i, j: i * 4 + j)
    b = Layout((8, 4), lambda i, j: (i // 2 * 2 + i % 2) * 4 + j)
    c = Layout((8, 4), lambda i, j: j * 8 + i)
    assert a == b and hash(a) == hash(b)
    assert a != c
    assert len({a, b, c}) == 2


def test_expressions_are_mapped_symbolically() -> None:
    layout = Layout((8, 4), lambda i, j: (j, i))
    x, y = T.dynamic("x, y")
    assert layout.map_forward_index((x, y)) == (y, x)
    found = layout.address_of((3, 2))
    assert isinstance(found, Const) and int(found) == 2 * 8 + 3


def test_expand_and_reshape_keep_every_element() -> None:
    base = Layout((4, 8), lambda i, j: (i, j ^ i))
    expanded = base.expand(3)
    assert expanded.shape == (3, 4, 8) and expanded.is_bijective()
    assert np.array_equal(expanded.addresses()[2], base.addresses() + 2 * 32)
    flat = base.reshape((32,))
    assert np.array_equal(flat.addresses(), base.addresses().reshape(-1))


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: Layout((4, T.dynamic("n")), lambda i, j: i),
         TileValueError,
         "an extent of T.Layout is not a positive constant\n  expected: positive ints\n  got: n"),
        (lambda: Layout((4,), 3),  # type: ignore[arg-type]  # the mistake under test
         TileTypeError,
         "the map of T.Layout is not a function\n  expected: a function of 1 indices\n  got: 3"),
        (lambda: Layout((4,), lambda i: i - 1).table(),
         TileValueError,
         "T.Layout maps an element to a negative number\n  expected: numbers from 0\n  got: -1"),
        (lambda: Layout((4,), lambda i: i + T.dynamic("k")).table(),
         TileUnsupportedError,
         "a layout depends on `k`\n"
         "  expected: arithmetic of the indices and constants\n"
         "  got: Var"),
        (lambda: Layout((4,), lambda i: i).map_forward_index((1, 2)),
         TileValueError,
         "T.Layout got the wrong number of indices\n  expected: 1\n  got: 2"),
        (lambda: make_linear_layout((4, 4)).reshape((5,)),
         TileValueError,
         "T.Layout is reshaped to another size\n  expected: 16 elements\n  got: (5,) with 5"),
        (lambda: Fragment((4,)),
         TileTypeError,
         "T.Fragment without a map\n"
         "  expected: forward_fn, or forward_thread_fn with or without forward_index_fn"),
        (lambda: Fragment((4,), 4),  # type: ignore[arg-type]  # the mistake under test
         TileTypeError,
         "a map of T.Fragment is not a function\n"
         "  expected: a function of 1 indices\n"
         "  got: 4\n"
         "  hint: give a lambda of the indices; forward_fn gives (thread, register)"),
        (lambda: Fragment((4,), lambda i: i),
         TileTypeError,
         "the map of T.Fragment does not return (thread, register)\n"
         "  expected: a pair (thread, register)\n"
         "  got: i0"),
        (lambda: Fragment((4,), lambda i, r: (i, r), replicate=2),
         TileValueError,
         "the register of T.Fragment depends on the replica\n"
         "  expected: a register that depends on the indices only\n"
         "  got: (rep,)"),
        (lambda: Fragment((4,), lambda i: (i - 2, 0)).thread_table(),
         TileValueError,
         "T.Fragment maps an element to a negative thread\n"
         "  expected: threads from 0\n"
         "  got: -2"),
        (lambda: Fragment((4,), lambda i: (0, 0)).inverse(),
         TileValueError,
         "T.Fragment has no inverse\n"
         "  expected: one element per register\n"
         "  got: two elements in one register of a thread"),
        (lambda: Fragment((4,), lambda i: (i, 0)).repeat([1, 2]),
         TileValueError,
         "the repeats of T.Fragment do not fit its shape\n  expected: 1 numbers\n  got: [1, 2]"),
    ],
)  # fmt: skip
def test_wrong_layouts_are_errors(make: object, kind: type, text: str) -> None:
    with pytest.raises(kind) as raised:
        make()  # type: ignore[operator]  # a function by construction
    assert str(raised.value) == text


def test_notebooks_show_the_drawing_of_a_layout_and_the_text_of_a_large_one() -> None:
    assert Layout((4, 8), lambda i, j: i * 8 + j)._repr_svg_().startswith("<svg")
    fragment = Fragment((2, 4), lambda i, j: (i * 2 + j // 2, j % 2))
    assert "T3:0-1" in fragment._repr_svg_()
    assert Layout((256, 256), lambda i, j: i * 256 + j)._repr_svg_() is None
