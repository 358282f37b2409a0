"""Distributions: both directions, tables and expressions agree for every shape and thread count."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from refusals import refusal

from tilelang.errors import InternalError, TileUnsupportedError
from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout import Fragment
from tilelang.layout.evaluate import evaluate
from tilelang.layout.register_layout import Mode, RegisterLayout

INT = DType("int32")
SHAPES = st.lists(st.integers(1, 40), min_size=0, max_size=3).map(tuple)
THREADS = st.sampled_from([1, 32, 33, 64, 96, 128, 256])
VECTORS = st.sampled_from([1, 2, 4, 8])


@given(SHAPES, THREADS, VECTORS)
def test_every_element_has_its_own_register(
    shape: tuple[int, ...], threads: int, vector: int
) -> None:
    held = RegisterLayout.linear(shape, threads, vector)
    places = held.owner_table() * held.register_count + held.register_table()[..., None]
    assert np.unique(places).size == places.size == max(1, int(np.prod(shape))) * held.replication
    assert held.used_threads <= threads


@given(SHAPES, THREADS, VECTORS)
def test_expressions_agree_with_tables(shape: tuple[int, ...], threads: int, vector: int) -> None:
    held = RegisterLayout.linear(shape, threads, vector)
    thread, register = E.Var("t", INT), E.Var("s", INT)
    values = {
        thread: np.arange(threads)[:, None],
        register: np.arange(held.register_count)[None, :],
    }
    full = (threads, held.register_count)
    table = held.index_table()
    valid = held.valid(thread, register)
    exists = np.ones(full, bool)
    if valid is not None:
        exists = np.broadcast_to(evaluate(valid, values), full) != 0
    for dim, index in enumerate(held.index_of(thread, register)):
        found = np.broadcast_to(evaluate(index, values), full)
        assert ((table[..., dim] >= 0) == exists).all()
        assert (found[exists] == table[..., dim][exists]).all()


@given(SHAPES.filter(bool), THREADS)
def test_a_fragment_gives_the_distribution_back(shape: tuple[int, ...], threads: int) -> None:
    held = RegisterLayout.linear(shape, threads)
    if held.is_padded:  # the modes then say more than the map of the elements
        return
    found = RegisterLayout.from_fragment(held.to_fragment(), threads)
    assert (np.sort(found.owner_table()) == np.sort(held.owner_table())).all()
    assert (found.register_table() == held.register_table()).all()


@given(SHAPES.filter(bool), THREADS, st.data())
def test_dropping_a_dimension_keeps_the_holders(
    shape: tuple[int, ...], threads: int, data: st.DataObject
) -> None:
    held = RegisterLayout.linear(shape, threads)
    dim = data.draw(st.integers(0, len(shape) - 1))
    rest = held.drop(dim)
    assert rest.shape == shape[:dim] + shape[dim + 1 :]
    # Whoever holds an element of a line holds its result.
    lines = np.moveaxis(held.owner_table(), dim, -1).reshape(*rest.shape, -1)
    assert (lines[..., :, None] == rest.owner_table()[..., None, :]).any(axis=-1).all()


@given(SHAPES.filter(bool), THREADS, VECTORS)
def test_a_layout_without_replicas_has_the_same_registers(
    shape: tuple[int, ...], threads: int, vector: int
) -> None:
    held = RegisterLayout.linear(shape, threads, vector)
    alone = held.alone()
    assert not alone.is_replicated
    assert (alone.owner_table()[..., 0] == held.owner_table()[..., 0]).all()
    assert (alone.register_table() == held.register_table()).all()


def test_padding_is_used_where_it_saves_registers() -> None:
    held = RegisterLayout.linear((100,), 128)
    assert held.is_padded and held.register_count == 1
    assert held.valid(E.Var("t", INT), E.const(0)) is not None


def test_containment_is_evaluated_per_thread() -> None:
    rows = RegisterLayout((4, 8), ((Mode(4, "thread", 8),), (Mode(8, "thread", 1),)), (), 32)
    everywhere = RegisterLayout.fully_replicated((4, 8), 32)
    assert everywhere.contains(rows) and not rows.contains(everywhere)


def test_overlapping_digits_are_a_defect() -> None:
    with pytest.raises(InternalError, match="overlap"):
        RegisterLayout((4, 4), ((Mode(4, "thread", 1),), (Mode(4, "thread", 2),)), (), 32)


def test_a_dimension_of_one_has_no_modes() -> None:
    with pytest.raises(InternalError, match="extent 1"):
        RegisterLayout((1,), ((Mode(3, "thread", 1),),), (), 3)


def test_a_swizzled_fragment_is_refused() -> None:
    swizzled = Fragment((8, 8), lambda i, j: ((i * 8 + j) ^ i, 0))
    assert refusal(TileUnsupportedError, RegisterLayout.from_fragment, swizzled, 64) == (
        "the layout of a fragment cannot be used to distribute a tile\n"
        "  expected: threads 0 to 63, threads and registers that are sums of modes of the "
        "indices (each index split by // and %)\n"
        "  got: T.Fragment of shape (8, 8) over 64 threads\n"
        "  hint: build it from // and % of the indices, without exclusive or"
    )


def test_registers_without_an_element_are_found() -> None:
    assert not RegisterLayout.linear((8, 16), 64, 2).is_sparse
    assert RegisterLayout.linear((8, 24), 128).is_sparse  # padded
    few = (Mode(2, "register", 1),), (Mode(20, "thread", 1),)
    assert RegisterLayout((2, 20), few, (), 32).is_sparse  # twelve threads are idle
    apart = (Mode(2, "register", 1),), (Mode(8, "thread", 4),)
    assert RegisterLayout((2, 8), apart, (), 32).is_sparse  # three of four are
