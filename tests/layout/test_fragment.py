"""Fragments: threads, registers, replication."""

from __future__ import annotations

import numpy as np
import pytest
from refusals import refusal

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.layout import (
    Fragment,
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
)


def test_8x8_is_the_layout_of_one_warp() -> None:
    base = make_gemm_fragment_8x8()
    assert base.get_thread_size() == 32 and base.size == 2 and base.is_bijective()
    inverse = base.inverse()
    for thread in range(32):
        for register in range(2):
            row, column = inverse[thread, register]
            assert thread == 4 * row + column // 2 and register == column % 2
    swapped = make_gemm_fragment_8x8_transposed()
    assert np.array_equal(swapped.thread_table()[..., 0], base.thread_table()[..., 0].T)


def test_registers_are_numbered_in_row_major_order_within_a_thread() -> None:
    rows = Fragment((8, 4), forward_thread_fn=lambda i, j: i)
    assert np.array_equal(rows.table()[..., 0], np.indices((8, 4))[1])
    cyclic = Fragment((256,), forward_thread_fn=lambda i: i % 32)
    assert np.array_equal(cyclic.table()[..., 0], np.arange(256) // 32)
    assert cyclic.is_bijective() and cyclic.get_thread_size() == 32


def test_a_register_known_as_table_only_has_no_expression() -> None:
    cyclic = Fragment((256,), forward_thread_fn=lambda i: i % 32)
    assert refusal(TileUnsupportedError, cyclic.map_forward_index, (3,)) == (
        "the register of this T.Fragment is known as a table only\n"
        "  expected: a fragment with forward_fn or forward_index_fn\n"
        "  got: [3]"
    )


def test_thread_and_register_of_expressions() -> None:
    base = make_gemm_fragment_8x8()
    i, j = T.dynamic("i, j")
    assert repr(base.thread_of((i, j))) == "i * 4 + j // 2"
    assert repr(base.map_forward_index((i, j))) == "(j % 2,)"
    assert int(base.map_forward_thread((3, 5))) == 14


@pytest.mark.parametrize("on_thread", [False, True])
@pytest.mark.parametrize("lower_first", [False, True])
def test_repeat_puts_copies_into_threads_or_registers(on_thread: bool, lower_first: bool) -> None:
    base = make_gemm_fragment_8x8()
    big = base.repeat([2, 3], repeat_on_thread=on_thread, lower_dim_first=lower_first)
    assert big.shape == (16, 24) and big.is_bijective()
    assert big.get_thread_size() == (192 if on_thread else 32)
    assert big.size == (2 if on_thread else 12)
    for a in range(2):
        for b in range(3):
            number = a * 3 + b if lower_first else b * 2 + a
            part = np.s_[8 * a : 8 * a + 8, 8 * b : 8 * b + 8]
            threads = base.thread_table() + (32 * number if on_thread else 0)
            registers = base.addresses() + (0 if on_thread else 2 * number)
            assert np.array_equal(big.thread_table()[part], threads)
            assert np.array_equal(big.addresses()[part], registers)


def test_replicate_adds_threads_and_condense_removes_repetition() -> None:
    base = Fragment((4,), lambda i: (i, 0))
    twice = base.replicate(3)
    assert twice.replicate_size == 3 and twice.get_thread_size() == 12
    assert twice.thread_table().tolist() == [[i, i + 4, i + 8] for i in range(4)]
    assert twice.is_injective() and twice.is_bijective()
    assert twice.condense_rep_var() is twice
    idle = Fragment((4,), lambda i, r: (i + r % 2 * 4, 0), replicate=4)
    assert idle.condense_rep_var() == base.replicate(2)
    slow = Fragment((4,), lambda i, r: (i + r // 2 * 4, 0), replicate=4)
    assert slow.condense_rep_var() == base.replicate(2)


def test_full_replication_holds_everything_everywhere() -> None:
    full = make_fully_replicated_layout_fragment((2, 3), 5)
    assert full.replicate_size == 5 and full.size == 6 and full.is_bijective()
    assert np.array_equal(full.thread_table()[1, 2], np.arange(5))
    assert full.inverse()[4, 5].tolist() == [1, 2]


def test_fragments_are_compared_by_their_owners() -> None:
    one = Fragment((4,), lambda i: (i, 0))
    full = make_fully_replicated_layout_fragment((4,), 4)
    assert full.contains(one) and not one.contains(full) and one.contains(one)
    assert one == Fragment((4,), lambda i: (i // 1, 0)) and one != one.replicate(2)
    assert one != Fragment((4,), lambda i: ((i + 1) % 4, 0))
    assert repr(make_gemm_fragment_8x8()) == (
        "Fragment((8, 8) -> 32 threads x (2,), replicate 1, (i0, i1) -> "
        "thread i0 * 4 + i1 // 2, register (i1 % 2))"
    )
