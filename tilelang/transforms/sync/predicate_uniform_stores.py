"""Predicate uniform stores: one thread executes a store that is the same in all threads.

A statement outside tile operations is executed by every thread. Where neither the index nor the
value of a store to shared or global memory depends on the thread, all threads write the same value.
But ``A[0] = A[0] + 1`` would be a race: some threads may read what others have already written. A
store by the first thread alone has the same meaning without a race. :mod:`barriers` places the
barriers after which other threads read the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.visitor import rewrite_blocks, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis.groups import thread_groups, thread_indices
from tilelang.transforms.sync.events import is_shared

_MOVABLE = (Effect.NONE, Effect.READ)


def predicate_uniform_stores(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with uniform stores under a condition that only one thread of those there fulfils.

    The launch's hint ``exchanges`` lists the global buffers that are written so; barriers order
    them like shared memory. Relies on layouts: what fragments hold is read here as every thread
    has it.
    """
    return rewrite_launches(func, lambda launch: _rewrite(launch, context.limits.warp))


def _rewrite(launch: S.Launch, warp: int) -> S.Launch:
    if prod(launch.threads) == 1 or not any(_plain_stores(launch.body)):
        return launch
    groups = thread_groups(launch, warp)
    exchanges: dict[E.Var, None] = {}

    def visit(stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Parallel):
            return stmt
        mask = groups.masks.get(stmt)
        if not isinstance(stmt, S.Store) or mask is None:
            return rewrite_blocks(stmt, visit)
        is_uniform = not any(groups.values.differs(expr, stmt) for expr in stmt.exprs())
        chosen = np.flatnonzero(mask)
        movable = all(call.atom.effect in _MOVABLE for call in stmt.calls())  # by one thread alone
        if not _is_seen(stmt) or not is_uniform or chosen.size < 2 or not movable:
            return stmt
        if not is_shared(stmt.buffer):
            exchanges[stmt.buffer.data] = None
        return S.If(cond=_is_thread(launch, int(chosen[0])), then=stmt, loc=stmt.loc)

    body = visit(launch.body)
    if body is launch.body:
        return launch
    return replace(launch, body=body, hints=replace(launch.hints, exchanges=tuple(exchanges)))


def _plain_stores(stmt: S.Stmt) -> Iterator[bool]:
    """Whether there is a store that threads make on their own."""
    if isinstance(stmt, S.Store):
        yield _is_seen(stmt)
    elif not isinstance(stmt, S.Parallel):
        for block in stmt.blocks():
            yield from _plain_stores(block)


def _is_seen(store: S.Store) -> bool:
    """Whether other threads see what ``store`` writes."""
    return is_shared(store.buffer) or store.buffer.storage == "global"


def _is_thread(launch: S.Launch, number: int) -> E.Expr:
    """Whether a thread is the one with a linear index."""
    indices = thread_indices(launch)
    return E.conjunction(
        var.equal(int(indices[var][number]))
        for var, count in zip(launch.thread_vars, launch.threads)
        if count > 1
    )
