"""Shared-memory layouts: the swizzle formula, bank conflicts, and the choice of the span."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refusal

from tilelang.errors import TileValueError
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout import (
    GemmWarpPolicy,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_padded_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_tcgen05mma_swizzled_layout,
    make_volta_swizzled_layout,
    make_wgmma_swizzled_layout,
)
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle import swizzle_of, swizzled


def tile(shape: tuple[int, ...], dtype: str = "float16") -> Buffer:
    return Buffer("S", Shape(shape), DType(dtype), "shared.dyn")


@pytest.mark.parametrize("dtype", ["float16", "int8", "float32", "float64"])
@pytest.mark.parametrize(
    ("span", "make"),
    [
        (128, make_full_bank_swizzled_layout),
        (64, make_half_bank_swizzled_layout),
        (32, make_quarter_bank_swizzled_layout),
    ],
)  # fmt: skip
def test_swizzles_follow_the_formula_of_the_hardware(span: int, make, dtype: str) -> None:
    size = DType(dtype).bits // 8
    rows, columns = 16, 2 * 128 // size
    layout = make(tile((rows, columns), dtype))
    assert layout.is_bijective()
    r, c = np.indices((rows, columns))
    wide, chunk = span // size, 16 // size
    wanted = (
        c // wide * rows * span
        + r * span
        + ((c % wide) // chunk ^ (r % 8) * span // 128) * 16
        + c % chunk * size
    )
    assert np.array_equal(layout.addresses() * size, wanted)


def test_eight_rows_of_a_chunk_are_in_different_banks() -> None:
    chunks = make_swizzled_layout(tile((64, 64))).addresses() * 2 // 16 % 8
    for column in range(0, 64, 8):
        for row in range(0, 64, 8):
            assert len(set(chunks[row : row + 8, column].tolist())) == 8
    linear = make_linear_layout(tile((64, 64))).addresses() * 2 // 16 % 8
    assert len(set(linear[0:8, 0].tolist())) == 1


@pytest.mark.parametrize(
    ("shape", "same_as"),
    [
        ((64, 64), make_full_bank_swizzled_layout),
        ((64, 32), make_half_bank_swizzled_layout),
        ((64, 48), make_quarter_bank_swizzled_layout),
        ((12, 64), make_padded_layout),
        ((12, 24), make_linear_layout),
    ],
)
def test_the_widest_span_that_fits_is_chosen(shape, same_as) -> None:
    assert make_swizzled_layout(tile(shape)) == same_as(tile(shape))
    assert make_volta_swizzled_layout(tile(shape)) == same_as(tile(shape))


def test_the_panels_of_wgmma_divide_the_continuity() -> None:
    assert make_wgmma_swizzled_layout(tile((64, 64))) == make_full_bank_swizzled_layout(
        tile((64, 64))
    )
    assert make_tcgen05mma_swizzled_layout(tile((64, 64)), continuity=32) == (
        make_half_bank_swizzled_layout(tile((64, 64)))
    )


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: make_full_bank_swizzled_layout(tile((64, 32))),
         "make_full_bank_swizzled_layout of a matrix that the pattern does not fill\n"
         "  expected: rows a multiple of 8, columns a multiple of 64\n"
         "  got: (64, 32)"),
        (lambda: make_swizzled_layout(tile((64,))),
         "make_swizzled_layout needs a matrix\n  expected: 2 or more dimensions\n  got: (64,)"),
        (lambda: make_wgmma_swizzled_layout(tile((64, 12))),
         "make_wgmma_swizzled_layout of rows that are not a multiple of 16 bytes\n"
         "  expected: columns a multiple of 8\n"
         "  got: (64, 12)"),
        (lambda: GemmWarpPolicy.Square.compute_warp_partition(64, 64, 3),
         "no partition of a 64 x 64 product over 3 warps\n"
         "  expected: warps m * n with 16 * m dividing 64 and 8 * n dividing 64\n"
         "  got: 3 warps\n"
         "  hint: change the number of threads or the tile"),
    ],
)  # fmt: skip
def test_layouts_that_do_not_exist(make, text: str) -> None:
    assert refusal(TileValueError, make) == text


def test_policies_are_numbers_and_choose_partitions() -> None:
    assert [int(p) for p in GemmWarpPolicy] == [0, 1, 2]
    square, row, column = GemmWarpPolicy
    assert row.compute_warp_partition(128, 128, 4) == (4, 1)
    assert column.compute_warp_partition(128, 128, 4) == (1, 4)
    assert square.compute_warp_partition(128, 128, 4) == (2, 2)
    assert square.compute_warp_partition(128, 128, 8, m_group=4)[0] % 4 == 0


@pytest.mark.parametrize("bits", [8, 16, 32])
@pytest.mark.parametrize("span", [128, 64, 32])
@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
def test_a_swizzle_is_recognised(lead: tuple[int, ...], span: int, bits: int) -> None:
    shape = (*lead, 16, 256 * 8 // bits)
    assert swizzle_of(swizzled(shape, bits, span), shape, bits) == span
    assert swizzle_of(swizzled(shape[-2:], bits, span), shape, bits) == span
    assert swizzle_of(Layout(shape, lambda *i: i), shape, bits) == 0
    assert swizzle_of(None, shape, bits) == 0


@pytest.mark.parametrize("span", [128, 64, 32])
@pytest.mark.parametrize("shape", [(16, 256), (3, 8, 64), (16, 48), (12, 64)])
def test_the_box_of_a_swizzle_is_that_of_its_table(shape: tuple[int, ...], span: int) -> None:
    layout = swizzled(shape, 16, span)  # whole patterns know their box without the table
    highest = layout.table().reshape(-1, len(shape) + 1).max(axis=0)
    assert layout.output_shape() == tuple(int(most) + 1 for most in highest)
    assert swizzled(shape, 16, span) is layout


def test_a_swizzle_is_recognised_by_where_it_puts_elements() -> None:
    # The same places, written as one number.
    place = swizzled((16, 64), 16, 128)
    assert swizzle_of(Layout((16, 64), lambda i, j: place.address_of((i, j))), (16, 64), 16) == 128


@pytest.mark.parametrize(
    ("layout", "shape", "bits"),
    [
        (make_padded_layout(tile((16, 64))), (16, 64), 16),
        (Layout((16, 64), lambda i, j: (j, i)), (16, 64), 16),
        (swizzled((16, 64), 16, 128), (16, 64), 8),  # another width of elements
        (swizzled((16, 64), 16, 128), (16, 128), 16),  # of another tile
        (Layout((2, 16, 64), lambda s, i, j: (i, s, j)), (2, 16, 64), 16),
        (Layout((16, 64), lambda i, j: (i, j // 8 ^ (i + 1) % 8, j % 8)), (16, 64), 16),
        (None, (16, 20), 16),  # rows of 40 bytes
        (Layout((16, 20), lambda i, j: (i, j)), (16, 20), 16),
        (None, (16, 64), 12),
        (None, (64,), 16),
    ],
)
def test_unknown_permutations_are_not_swizzles(
    layout: Layout | None, shape: tuple[int, ...], bits: int
) -> None:
    assert swizzle_of(layout, shape, bits) is None
