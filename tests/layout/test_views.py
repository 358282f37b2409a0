"""Layouts seen through views, held against tables that are made element by element."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from tilelang.layout import Layout, make_swizzled_layout
from tilelang.layout.register_layout import Mode, RegisterLayout
from tilelang.layout.views import Span, seen_layout, seen_register_layout


def whole(shape: tuple[int, ...], bits: int) -> Span:
    return Span(shape, tuple(prod(shape[d + 1 :]) for d in range(len(shape))), 0, bits)


def bytes_of_registers(held: RegisterLayout, bits: int) -> np.ndarray:
    """(thread, byte in the thread's registers) of every byte of the tile, in order, per copy."""
    size = bits // 8
    owners = held.owner_table().reshape(prod(held.shape), -1)
    registers = held.register_table().reshape(-1)
    places = registers[:, None] * size + np.arange(size)
    found = owners[:, None, :] * (1 << 20) + places[:, :, None]
    return np.sort(found.reshape(prod(held.shape) * size, -1), axis=-1)


@st.composite
def cases(draw: st.DrawFn) -> tuple[RegisterLayout, Span, Span]:
    """A register layout of a tile, and another name of the tile."""
    extents = draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 8]), min_size=1, max_size=3))
    shape = tuple(extents)
    modes = []
    thread = register = 1
    for extent in shape:
        row = []
        left = extent
        while left > 1:
            step = draw(st.sampled_from([d for d in range(2, left + 1) if left % d == 0]))
            if draw(st.booleans()) and thread * step <= 64:
                row.append(Mode(step, "thread", thread))
                thread *= step
            else:
                row.append(Mode(step, "register", register))
                register *= step
            left //= step
        modes.append(tuple(row))
    held = RegisterLayout(shape, tuple(modes), (), 64)
    old, new = draw(st.sampled_from([8, 16, 32])), draw(st.sampled_from([8, 16, 32]))
    count = prod(shape) * old // new if prod(shape) * old % new == 0 else 0
    other: list[int] = []
    left = count
    while left > 1 and len(other) < 3:
        step = draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
        other.append(step)
        left //= step
    return held, whole(shape, old), whole((*other, left), new)


@settings(max_examples=120, deadline=None)
@given(cases())
def test_views_of_fragments_agree_on_every_byte(case) -> None:
    held, old, new = case
    seen = seen_register_layout(held, old, new)
    if seen is None or not prod(new.shape):
        return
    assert seen.shape == new.shape
    np.testing.assert_array_equal(
        bytes_of_registers(held, old.bits), bytes_of_registers(seen, new.bits)
    )


def test_what_can_be_seen_is_seen() -> None:
    rows = RegisterLayout.linear((16, 256), 128, 4)
    split = seen_register_layout(rows, whole((16, 256), 32), whole((16, 8, 32), 32))
    assert split is not None and split.register_count == 32
    assert seen_register_layout(split, whole((16, 8, 32), 32), whole((16, 256), 32)) == rows
    halves = seen_register_layout(rows, whole((16, 256), 32), whole((16, 512), 16))
    assert halves is not None and halves.register_count == 64
    everywhere = RegisterLayout.fully_replicated((8, 3), 32)
    others = seen_register_layout(everywhere, whole((8, 3), 32), whole((6, 4), 32))
    assert others == RegisterLayout.fully_replicated((6, 4), 32)


def test_elements_that_would_be_in_two_threads_have_no_layout() -> None:
    single = RegisterLayout.linear((64,), 64)
    assert seen_register_layout(single, whole((64,), 16), whole((32,), 32)) is None
    thirds = RegisterLayout((3, 4), ((Mode(3, "register", 1),), (Mode(4, "thread", 1),)), (), 4)
    assert seen_register_layout(thirds, whole((3, 4), 32), whole((4, 3), 32)) is None


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("shape", [(1024,), (64, 16), (4, 8, 32)])
def test_views_of_shared_tiles_agree_on_every_byte(bits: int, shape) -> None:
    class Tile:
        shape = (16, 64)
        dtype = "float16"

    layout, old = make_swizzled_layout(Tile), whole((16, 64), 16)
    count = prod(shape) * 16 // bits
    new = whole((*shape[:-1], count // prod(shape[:-1])), bits)
    seen = seen_layout(layout, old, new)
    assert seen is not None
    want = layout.addresses().reshape(-1, 1) * 2 + np.arange(2)
    got = seen.addresses().reshape(-1, 1) * (bits // 8) + np.arange(bits // 8)
    np.testing.assert_array_equal(got.reshape(-1), want.reshape(-1))


def test_a_window_of_a_tile_is_where_the_tile_is() -> None:
    layout = Layout((8, 8), lambda i, j: i * 8 + (j ^ i))
    window = Span((4, 2), (8, 1), 18, 32)  # rows 2 to 5, columns 2 and 3
    seen = seen_layout(layout, whole((8, 8), 32), window)
    assert seen is not None
    np.testing.assert_array_equal(seen.addresses(), layout.addresses()[2:6, 2:4])
    # The other way around nothing is known of the rest.
    assert seen_layout(seen, window, whole((8, 8), 32)) is None


def test_a_layout_that_separates_neighbours_is_not_seen_by_wider_elements() -> None:
    turned = Layout((8, 8), lambda i, j: (j, i))
    assert seen_layout(turned, whole((8, 8), 16), whole((8, 4), 32)) is None
    assert seen_layout(turned, whole((8, 8), 16), whole((8, 16), 8)) is not None
