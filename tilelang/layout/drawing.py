"""A layout as a grid of labelled, coloured cells, and the grid as text.

A cell of a fragment names the thread and the register of an element, one of a shared layout the
offset and the bank. Neighbours of a row that stay neighbours (in registers of one thread, or in
memory) share a cell, so that swizzles of whole chunks are seen as such.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from tilelang.errors import TileTypeError
from tilelang.ir.dtypes import dtype as DType
from tilelang.layout.evaluate import Array
from tilelang.layout.svg import Cell, Drawing

BANKS, WORD_BITS = 32, 32
_CHUNK_BITS = 128  # of shared memory that a cell shows at most
_SHOWN = 4  # replicas that a cell names


def draw_layout(layout: object, dtype: object = "float16") -> Drawing:
    """Draw ``layout`` as a grid.

    Args:
        layout: a ``T.Fragment``, a ``T.Layout`` of shared memory, or what a buffer of a compiled
            program carries.
        dtype: of the elements of shared memory; it decides their banks.
    Raises:
        TileTypeError: ``layout`` is something else.
    """
    drawn: Any = layout.to_fragment() if hasattr(layout, "to_fragment") else layout
    if not hasattr(drawn, "drawing"):
        raise TileTypeError(
            "this is not a layout", expected="a T.Layout or a T.Fragment", got=type(layout).__name__
        )
    drawing: Drawing = drawn.drawing(dtype)
    return drawing


def fragment_grid(
    shape: tuple[int, ...], owners: Array, registers: Array, replicas: int, count: int, size: int
) -> Drawing:
    """A fragment of ``count`` threads and ``size`` registers, from its tables."""
    width = shape[-1]
    threads = np.sort(owners, -1).reshape(-1, width, owners.shape[-1])
    slots = registers.reshape(-1, width)
    is_next = (threads[:, 1:] == threads[:, :-1]).all(-1) & (slots[:, 1:] == slots[:, :-1] + 1)
    run = _run(width, is_next)

    def cell(row: int, column: int) -> Cell:
        holders = threads[row, column].tolist()
        names = ",".join(map(str, holders[:_SHOWN])) + (",.." if len(holders) > _SHOWN else "")
        return Cell(f"T{names}:{_span(int(slots[row, column]), run)}", holders[0])

    copies = f", each element in {replicas}" if replicas > 1 else ""
    title = f"fragment {shape}: {count} threads x {size} registers{copies}"
    return _drawing(f"{title}, cells are thread:register", shape, run, cell, count)


def shared_grid(shape: tuple[int, ...], offsets: Array, size: int, kind: DType) -> Drawing:
    """A layout of shared memory, from its table."""
    bits = kind.width
    width = shape[-1]
    addresses = offsets.reshape(-1, width)
    run = _run(width, addresses[:, 1:] == addresses[:, :-1] + 1, max(1, _CHUNK_BITS // bits))

    def cell(row: int, column: int) -> Cell:
        first = int(addresses[row, column])
        low = first * bits // WORD_BITS
        high = (first + run) * bits - 1
        bank = low % BANKS
        return Cell(f"{first} b{_span(bank, high // WORD_BITS - low + 1)}", bank)

    title = f"layout {shape} {kind}: {size} positions, cells are offset and banks"
    return _drawing(title, shape, run, cell, BANKS)


def _run(width: int, is_next: Array | np.ndarray[tuple[int, ...], np.dtype[np.bool_]],
         limit: int = 16) -> int:  # fmt: skip
    """The largest power of two of elements that aligned groups of every row keep together."""
    run = 1
    while run * 2 <= limit and width % (run * 2) == 0:
        inside = np.arange(width - 1) % (run * 2) != run * 2 - 1
        if not bool(is_next[:, inside].all()):
            break
        run *= 2
    return run


def _span(first: int, count: int) -> str:
    return str(first) if count == 1 else f"{first}-{first + count - 1}"


def _drawing(
    title: str, shape: tuple[int, ...], run: int, cell: Callable[[int, int], Cell], colours: int
) -> Drawing:
    starts = range(0, shape[-1], run)
    rows = tuple(tuple(cell(row, column) for column in starts) for row in range(prod(shape[:-1])))
    names = [",".join(map(str, index)) for index in np.ndindex(*shape[:-1])]
    return Drawing(title, rows, tuple(names), tuple(_span(s, run) for s in starts), colours)
