"""Deferred cross-lane reductions: sums over iterations cross the lanes once, after the loop.

A running total of rows that several lanes hold is equal in all of them::

    for ...:
        part = sum of a row of scores             by the lanes of the row, then between them
        total = total * factor + part

The sum over lanes is needed only when ``total`` is read. The factor of a row is the same in all of
its lanes, so until then each lane may keep the sum of its own columns. The reductions lose their
shuffles, and the lanes are added before the first read of ``total`` (a ``ReducerFinalize``).
Attention forward of 4096 keys takes 0.992 of its time (an H100).

Conditions: every use of ``part`` is such an update; ``total`` starts from 0 before all updates and
is read after them, in one block of statements; lanes of one warp hold both, as the reduction leaves
them. The order of the sum changes, which is legal: that of ``T.reduce_sum`` is not defined. Layouts
are known, and copies of an element of a fragment are equal.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import Rewriter, rewrite_launches
from tilelang.layout.register_layout import RegisterLayout
from tilelang.target import Context
from tilelang.transforms.analysis.scopes import FRAGMENT


def defer_reductions(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with running totals that are added up between lanes where they are read."""

    def deferred(launch: S.Launch) -> S.Stmt:
        result: S.Stmt = launch
        for total in _totals(launch):
            assert isinstance(result, S.Launch)
            result = _defer(result, total, context)
        return result

    return rewrite_launches(func, deferred)


def _totals(launch: S.Launch) -> list[Buffer]:
    """Fragments that are updated in loops, in the order of their first updates."""
    totals: list[Buffer] = []
    for loop in S.find(launch.body, S.For):
        for node in S.walk(loop):
            update = _update(node)
            if update is not None and update[0] not in totals:
                totals.append(update[0])
    return totals


def _update(stmt: S.Stmt) -> tuple[Buffer, Buffer] | None:
    """``total`` and ``addend`` of ``total[i] = total[i] * factor + part[i]``."""
    if not isinstance(stmt, S.Parallel) or len(stmt.vars) != 1:
        return None
    store, at = stmt.body, stmt.vars
    if not isinstance(store, S.Store) or store.buffer.storage != FRAGMENT:
        return None
    value, total = store.value, store.buffer
    if not E.same_exprs(store.indices, at) or not E.same_exprs(
        stmt.extents, tuple(map(E.as_expr, total.shape))
    ):
        return None
    if not isinstance(value, E.Binary) or value.op != "add":
        return None
    for running, addend in ((value.a, value.b), (value.b, value.a)):
        if not isinstance(addend, E.Load) or addend.buffer in (total,):
            continue
        if addend.buffer.storage != FRAGMENT or not E.same_exprs(addend.indices, at):
            continue
        if addend.dtype != total.dtype or not _is_rescaled(running, total, addend.buffer, at):
            continue
        return total, addend.buffer
    return None


def _is_rescaled(running: E.Expr, total: Buffer, addend: Buffer, at: tuple[E.Var, ...]) -> bool:
    """Whether ``running`` is an element of ``total``, or that times what all its lanes agree on."""
    if isinstance(running, E.Load):
        return running.buffer is total and E.same_exprs(running.indices, at)
    if not isinstance(running, E.Binary) or running.op != "mul" or not running.dtype.is_float:
        return False
    for scaled, factor in ((running.a, running.b), (running.b, running.a)):
        if _is_rescaled(scaled, total, addend, at):
            return isinstance(factor, E.Const) or (
                isinstance(factor, E.Load)
                and factor.buffer.storage == FRAGMENT
                and factor.buffer not in (total, addend)
                and E.same_exprs(factor.indices, at)
            )
    return False


def _defer(launch: S.Launch, total: Buffer, context: Context) -> S.Launch:
    """``launch`` with sums of ``total`` deferred, itself where that cannot be."""
    updates = [node for node in S.walk(launch.body) if (_update(node) or (None,))[0] is total]
    addends = {pair[1] for pair in map(_update, updates) if pair is not None}
    sums = [
        node for node in S.find(launch.body, S.Reduce) if node.dst.buffer in addends
    ]  # fmt: skip
    layout = total.attrs.register_layout
    if not isinstance(layout, RegisterLayout) or not layout.replicated:
        return launch
    if not all(_is_lane_sum(node, layout, context) for node in sums):
        return launch
    names = {addend.data for addend in addends}
    known = {node for update in (*updates, *sums) for node in S.walk(update)}
    for node in S.walk(launch.body):
        if node in known or isinstance(node, S.Alloc):
            continue
        if any(access.data in names for access in effects.accesses(node)):
            return launch
    block = _block(launch.body, total, updates)
    if block is None:
        return launch
    result = _Deferred(sums, *block, total).rewrite(launch)
    assert isinstance(result, S.Launch)
    return result


def _is_lane_sum(node: S.Reduce, layout: RegisterLayout, context: Context) -> bool:
    """Whether lanes of a warp add up whole rows of a fragment, and each keeps what it adds."""
    source = node.src.buffer.attrs.register_layout
    own = node.dst.buffer.attrs.register_layout
    if node.kind != "sum" or not node.clear or not isinstance(source, RegisterLayout):
        return False
    if not (node.src.is_whole and node.dst.is_whole) or source.replicated or node.partial:
        return False
    result = source.drop(node.dim)
    lanes = all(extent * stride <= context.limits.warp for extent, stride in result.replicas)
    return lanes and result == own == layout and node.dst.dtype.is_float


def _block(stmt: S.Stmt, total: Buffer, updates: list[S.Stmt]) -> tuple[S.Seq, int] | None:
    """The block in which ``total`` starts from 0, is updated and then read, and where it is read
    first; None where there is none."""
    uses = _uses(stmt, total)
    known = {node for update in updates for node in S.walk(update)}
    for block in S.find(stmt, S.Seq):
        positions = [
            (k, node) for k, child in enumerate(block.stmts) for node in _uses(child, total)
        ]
        inside = [k for k, node in positions if node in known]
        if len(positions) < len(uses) or len(inside) < len(updates):
            continue
        first = positions[0][0]
        if not _clears(block.stmts[first], total):
            continue
        clears = len(_uses(block.stmts[first], total))
        later = [k for k, node in positions[clears:] if node not in known]
        if later and inside[-1] < later[0]:
            return block, later[0]
    return None


def _uses(stmt: S.Stmt, total: Buffer) -> list[S.Stmt]:
    """The statements in ``stmt`` that use ``total``, in program order."""
    return [
        node for node in S.walk(stmt)
        if not isinstance(node, S.Alloc)
        and any(access.data is total.data for access in effects.accesses(node))
    ]  # fmt: skip


def _clears(stmt: S.Stmt, total: Buffer) -> bool:
    """Whether ``stmt`` does nothing but fill ``total`` with 0."""
    if isinstance(stmt, S.Fill):
        value, clears = stmt.value, stmt.dst.buffer is total and stmt.dst.is_whole
    elif isinstance(stmt, S.Parallel) and isinstance(stmt.body, S.Store):
        store = stmt.body
        value = store.value
        clears = (
            store.buffer is total
            and E.same_exprs(store.indices, stmt.vars)
            and E.same_exprs(stmt.extents, tuple(map(E.as_expr, total.shape)))
        )
    else:
        return False
    return clears and isinstance(value, E.Const) and not value.value


class _Deferred(Rewriter):
    """Takes the lanes out of ``sums`` and adds them up in ``block`` before statement ``at``."""

    def __init__(self, sums: list[S.Reduce], block: S.Seq, at: int, total: Buffer) -> None:
        self.sums, self.block, self.at, self.total = sums, block, at, total

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if stmt is self.block:
            stmts = [self.rewrite(child) for child in self.block.stmts]
            finish = S.ReducerFinalize(reducer=self.total.whole(), op="sum", loc=stmts[self.at].loc)
            return S.seq(*stmts[: self.at], finish, *stmts[self.at :])
        if isinstance(stmt, S.Reduce) and stmt in self.sums:
            return replace(stmt, partial=True)
        return super()._visit(stmt)
