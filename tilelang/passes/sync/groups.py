"""Which threads of a block take a branch.

A branch on the thread index that whole warps take together forms a thread group: the statements in
it run by that group alone, and its barriers count its threads only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np

from tilelang.errors import TileUnsupportedError
from tilelang.ir.expr import Binary, Expr, Unary, Var
from tilelang.ir.stmt import If, Launch, Let, Seq, Stmt, walk
from tilelang.ir.visitor import substitute
from tilelang.layout.evaluate import evaluate
from tilelang.passes.serial.uniform import Varying

Mask: TypeAlias = "np.ndarray[Any, np.dtype[np.bool_]]"
WARP = 32


def thread_indices(launch: Launch) -> dict[Var, Any]:
    """The x, y and z index of every thread, in the order of the linear thread index."""
    x, y, z = launch.threads
    linear = np.arange(x * y * z, dtype=np.int64)
    found = (linear % x, linear // x % y, linear // (x * y))
    return dict(zip(launch.thread_vars, found))


def thread_mask(cond: Expr, launch: Launch, lets: Mapping[Var, Expr] | None = None) -> Mask | None:
    """For each thread whether ``cond`` holds; None if more than the thread index decides that.

    Args:
        lets: values of variables that may occur in ``cond``.
    """
    threads = thread_indices(launch)
    try:
        found = evaluate(substitute(cond, dict(lets or {})), threads)
    except TileUnsupportedError:
        return None
    return np.broadcast_to(found != 0, (len(next(iter(threads.values()))),))


def possible_threads(
    cond: Expr, launch: Launch, lets: Mapping[Var, Expr] | None = None
) -> Mask | None:
    """The threads for which ``cond`` may hold: of a conjunction the parts that can be evaluated.

    None when no part of ``cond`` says anything about the thread.
    """
    if isinstance(cond, Binary) and cond.op == "land":
        sides = [possible_threads(side, launch, lets) for side in (cond.a, cond.b)]
        known = [side for side in sides if side is not None]
        return np.logical_and.reduce(known) if known else None
    return thread_mask(cond, launch, lets)


def range_of(mask: Mask, warp: int = WARP) -> tuple[int, int] | None:
    """(first, count) of the threads in ``mask`` if they are consecutive whole warps.

    (0, 0) when there is none. The last warp of a block may be short.
    """
    chosen = np.flatnonzero(mask)
    if not chosen.size:
        return 0, 0
    lo, count = int(chosen[0]), int(chosen.size)
    end = lo + count
    whole = lo % warp == 0 and (end % warp == 0 or end == mask.size)
    return (lo, count) if whole and int(chosen[-1]) == end - 1 else None


def thread_group_of(
    cond: Expr, launch: Launch, lets: Mapping[Var, Expr] | None = None
) -> tuple[int, int] | None:
    """The threads that take a branch on ``cond``, as (first linear index, count).

    Only for conditions that the thread index alone decides and that whole consecutive warps
    share; None for all others. (0, 0) means that no thread takes the branch, (0, all threads)
    that every thread does.

    Args:
        cond: the condition of an ``If``; for the else side pass :func:`inverse` of it.
        lets: values of ``Let`` variables that may occur in ``cond``.
    """
    mask = thread_mask(cond, launch, lets)
    return None if mask is None else range_of(mask)


def inverse(cond: Expr) -> Expr:
    """``not cond``."""
    if isinstance(cond, Unary) and cond.op == "lnot":
        return cond.a
    return Unary("lnot", cond)


class ThreadGroups:
    """The thread group of every collective statement of a launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        x, y, z = launch.threads
        self.all = (0, x * y * z)
        self.found: dict[Stmt, tuple[int, int]] = {}
        self.divergent: set[Stmt] = set()  # run by threads that are no whole warps
        self.varying = Varying(launch, votes=True)
        self._visit(launch.body, self.all, {})

    def of(self, stmt: Stmt) -> tuple[int, int]:
        """(first thread, number of threads) of the group that runs ``stmt``."""
        return self.found.get(stmt, self.all)

    def _visit(self, stmt: Stmt, group: tuple[int, int], lets: dict[Var, Expr]) -> None:
        self.found[stmt] = group
        if isinstance(stmt, Let):
            lets[stmt.var] = substitute(stmt.value, lets)
        if isinstance(stmt, If):
            self._branch(stmt, group, lets)
            return
        for block in stmt.blocks():
            self._visit(block, group, lets if isinstance(stmt, Seq) else dict(lets))

    def _branch(self, stmt: If, group: tuple[int, int], lets: dict[Var, Expr]) -> None:
        for cond, block in ((stmt.cond, stmt.then), (inverse(stmt.cond), stmt.orelse)):
            if block is None:
                continue
            mask = thread_mask(cond, self.launch, lets)
            inner: tuple[int, int] | None = None if self.varying.expr(cond) else group
            if mask is not None:
                own = np.zeros(mask.size, bool)
                own[group[0] : group[0] + group[1]] = True
                inner = range_of(mask & own)
            if inner is None:
                self.divergent.update(walk(block))
            self._visit(block, inner if inner is not None and inner[1] else group, dict(lets))
