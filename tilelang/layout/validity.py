"""Checks of a layout that the program annotates for a buffer."""

from __future__ import annotations

from math import prod

import numpy as np

from tilelang.errors import Loc, TileValueError
from tilelang.ir.buffer import Buffer
from tilelang.layout.fragment import Fragment
from tilelang.layout.layout import Layout

MAX_STORAGE = 1 << 24  # elements of storage that the core of a layout may span


def check_layout(buffer: Buffer, layout: Layout) -> None:
    """Refuse a layout that is of another shape, or puts two elements in one place.

    A layout with fewer dimensions than the buffer is that of its last ones.

    Raises:
        TileValueError: it cannot be the layout of ``buffer``; names the buffer.
    """
    lead = buffer.ndim - len(layout.shape)
    if lead < 0 or tuple(buffer.shape[lead:]) != layout.shape:
        raise TileValueError(
            f"the layout of `{buffer.name}` is of another shape",
            expected=f"a {layout.op_name} of shape {tuple(buffer.shape)}",
            got=f"shape {layout.shape}",
            hint=f"make it from the buffer: {layout.op_name}({buffer.name}.shape, ...)",
        )
    value = "register of a thread" if isinstance(layout, Fragment) else "place"
    if layout.core().size > MAX_STORAGE:
        raise TileValueError(
            f"the layout of `{buffer.name}` has too large a span",
            expected=f"numbers that span at most {MAX_STORAGE} elements",
            got=f"{layout.op_name} of shape {layout.shape} that spans {layout.size}",
        )
    if not layout.is_injective():
        raise TileValueError(
            f"the layout of `{buffer.name}` puts two elements in one {value}",
            expected=f"a layout with a different {value} for each element",
            got=f"{layout.op_name} of shape {layout.shape}",
        )


def check_threads(buffer: Buffer, layout: Fragment, threads: int, loc: Loc | None) -> None:
    """Refuse a fragment that is held by threads that there are not.

    Raises:
        TileValueError: names the buffer, the element and its thread.
    """
    table = layout.thread_table()
    if table.size == 0 or int(table.max()) < threads:
        return
    position = np.unravel_index(int(table.argmax()), table.shape)[:-1]
    element = ", ".join(str(int(index)) for index in position)
    raise TileValueError(
        f"the layout of `{buffer.name}` uses threads that do not run",
        expected=f"threads 0 to {threads - 1}",
        got=f"thread {int(table.max())} for {buffer.name}[{element}]",
        hint=f"use at most {threads} threads for its {prod(layout.shape)} elements, or start more "
        "with T.Kernel(threads=...)",
        loc=loc,
    )
