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

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import rewrite_blocks, rewrite_launches, substitute
from tilelang.target import Context
from tilelang.transforms.analysis.groups import Mask, inverse, thread_indices, thread_mask
from tilelang.transforms.sync.events import is_shared

_MOVABLE = (Effect.NONE, Effect.READ)


def predicate_uniform_stores(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with uniform stores under a condition that only one thread of those there fulfils.

    The launch's hint ``exchanges`` lists the global buffers that are written so; barriers order
    them like shared memory. Relies on layouts: what fragments hold is read here as every thread
    has it.
    """
    return rewrite_launches(func, _rewritten)


def _rewritten(launch: S.Launch) -> S.Launch:
    if prod(launch.threads) == 1 or not any(_plain_stores(launch.body)):
        return launch
    electing = _UniformStores(launch)
    body = electing.visit(launch.body, np.ones(prod(launch.threads), np.bool_))
    if body is launch.body:
        return launch
    hints = replace(launch.hints, exchanges=tuple(electing.exchanges))
    return replace(launch, body=body, hints=hints)


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


class _UniformStores:
    """One launch: ``mask`` is always the threads that reach a statement, all together."""

    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch
        self.varying = Varying(launch, votes=True)
        self.lets: dict[E.Var, E.Expr] = {}
        self.exchanges: dict[E.Var, None] = {}

    def visit(self, stmt: S.Stmt, mask: Mask) -> S.Stmt:
        """``stmt`` with one thread for each store that is equal in all threads of ``mask``."""
        if isinstance(stmt, S.Store):
            return self.store(stmt, mask)
        if isinstance(stmt, S.If) and self.varying.expr(stmt.cond):
            return self.branch(stmt, mask)
        if isinstance(stmt, S.Let):
            self.lets[stmt.var] = substitute(stmt.value, self.lets)
        if not self.is_uniform_body(stmt):
            return stmt
        return rewrite_blocks(stmt, lambda block: self.visit(block, mask))

    def is_uniform_body(self, stmt: S.Stmt) -> bool:
        """Whether the threads that reach ``stmt`` go through its body as one."""
        if isinstance(stmt, S.Parallel):
            return False
        return not isinstance(stmt, (S.For, S.While)) or not self.varying.divides(stmt)

    def branch(self, stmt: S.If, mask: Mask) -> S.Stmt:
        """A branch on the thread: each side is reached by some of the threads."""
        then = self.side(stmt.cond, stmt.then, mask)
        orelse = stmt.orelse and self.side(inverse(stmt.cond), stmt.orelse, mask)
        same = then is stmt.then and orelse is stmt.orelse
        return stmt if same else replace(stmt, then=then, orelse=orelse)

    def side(self, cond: E.Expr, block: S.Stmt, mask: Mask) -> S.Stmt:
        """The threads of ``mask`` for which ``cond`` holds run ``block``."""
        chosen = thread_mask(cond, self.launch, self.lets)
        return block if chosen is None else self.visit(block, mask & chosen)

    def store(self, stmt: S.Store, mask: Mask) -> S.Stmt:
        """``stmt`` by the first thread of ``mask``, if it is equal in all of them."""
        exprs = (*stmt.indices, stmt.value)
        is_uniform = not any(self.varying.expr(expr) for expr in exprs)
        chosen = np.flatnonzero(mask)
        if not _is_seen(stmt) or not is_uniform or chosen.size < 2 or not all(map(_movable, exprs)):
            return stmt
        if not is_shared(stmt.buffer):
            self.exchanges[stmt.buffer.data] = None
        return S.If(cond=self.is_thread(int(chosen[0])), then=stmt, loc=stmt.loc)

    def is_thread(self, number: int) -> E.Expr:
        """Whether a thread is the one with a linear index."""
        indices = thread_indices(self.launch)
        return E.conjunction(
            var.equal(int(indices[var][number]))
            for var, count in zip(self.launch.thread_vars, self.launch.threads)
            if count > 1
        )


def _movable(expr: E.Expr) -> bool:
    """Whether one thread alone may evaluate ``expr``."""
    return all(node.atom.effect in _MOVABLE for node in E.find(expr, E.Call))
