"""Queries of the barrier pass: barriers, signals and copies in statements, lanes of a mask."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import interval
from tilelang.transforms.analysis.groups import MAX_BARRIERS, Mask
from tilelang.transforms.sync.events import is_shared

_SCOPES = ("warp", "block", "grid")


def fills_shared(stmt: S.Stmt) -> bool:
    """Whether TMA fills a tile in shared memory there."""
    return any(access.writes and is_shared(access.buffer) for access in effects.own(stmt))


def count_barriers(stmt: S.Stmt) -> int:
    """Barriers in ``stmt``."""
    evals = (node.call for node in S.walk(stmt))
    return sum(call is not None and call.atom.is_barrier(*_SCOPES) for call in evals)


def has_signals(stmt: S.Stmt) -> bool:
    """Whether threads wait for others by barriers that count their arrivals."""
    return any(
        node.atom.signals or (node.atom.is_barrier("block") and len(node.args) > 1)
        for node in S.calls(stmt)
    )


def has_barriers(stmt: S.Stmt) -> bool:
    """Whether the program has barriers that it wrote itself."""
    return any(node.atom.is_barrier(*_SCOPES) or node.atom.signals for node in S.calls(stmt))


def barriers_of(accesses: Iterable[effects.Access], kind: str, group: str = "") -> Iterator[E.Var]:
    """The mbarriers of instructions of this ``kind`` and ``group``; see :class:`Order`."""
    for access in accesses:
        order = access.by.atom.orders if isinstance(access.by, E.Call) else None
        if order is not None and (order.kind, order.group) == (kind, group):
            yield access.data


def warp_count(mask: Mask, warp: int) -> int:
    """The number of warps that have threads in ``mask``."""
    return len({int(thread) // warp for thread in np.flatnonzero(mask)})


def lane_bits(mask: Mask, warp: int) -> int | None:
    """The lanes of ``mask`` as bits, if they are the same in all warps that have any."""
    rows = np.pad(mask, (0, -mask.size % warp)).reshape(-1, warp)
    patterns = np.unique(rows[rows.any(axis=1)], axis=0)
    return sum(1 << int(at) for at in np.flatnonzero(patterns[0])) if len(patterns) == 1 else None


def named_barrier_ids(body: S.Stmt) -> set[int]:
    """Barrier ids that the program uses itself."""
    idents: set[int] = set()
    for node in S.calls(body):
        for operand, number in zip(node.atom.operands, node.args):
            if operand.space == "barrier id":
                known = interval(number)
                low = int(max(known.low, 0))
                idents.update(range(low, int(min(known.high + 1, MAX_BARRIERS))))
    return idents
