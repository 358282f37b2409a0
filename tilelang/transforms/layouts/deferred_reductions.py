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
is read after them, in one block of statements, by the threads of the sum. These hold both as the
reduction leaves them, in other fragments where they are in another layout and have no factor. The
order of the sum changes, which is legal: that of ``T.reduce_sum`` is not defined. Layouts are
known, and copies of an element of a fragment are equal.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.visitor import Rewriter, map_stmts, replace_buffers, rewrite_launches
from tilelang.layout.register_layout import RegisterLayout
from tilelang.target import Context
from tilelang.transforms.analysis.groups import thread_groups
from tilelang.transforms.analysis.scopes import FRAGMENT


def defer_reductions(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with running totals that are added up between lanes where they are read."""

    def deferred(launch: S.Launch) -> S.Stmt:
        inside = (node for loop in S.find(launch.body, S.For) for node in S.walk(loop))
        for total in dict.fromkeys(update[0] for update in map(_update, inside) if update):
            launch = _defer(launch, total, context)
        return launch

    return rewrite_launches(func, deferred)


def _store(stmt: S.Stmt) -> S.Store | None:
    """The store of ``stmt`` if it only stores each element of a fragment once, by its indices."""
    if not isinstance(stmt, S.Parallel) or not isinstance(stmt.body, S.Store):
        return None
    store = stmt.body
    is_whole = store.buffer.shape == stmt.extents and E.are_same_exprs(store.indices, stmt.vars)
    return store if is_whole and store.buffer.storage == FRAGMENT else None


def _update(stmt: S.Stmt) -> tuple[Buffer, Buffer] | None:
    """``total`` and ``addend`` of ``total[i] = total[i] * factor + part[i]``."""
    store = _store(stmt)
    if store is None or not isinstance(store.value, E.Binary) or store.value.op != "add":
        return None
    total, at, value = store.buffer, store.indices, store.value
    for running, addend in ((value.a, value.b), (value.b, value.a)) if len(at) == 1 else ():
        if not isinstance(addend, E.Load) or addend.buffer is total:
            continue
        own = addend.buffer.storage == FRAGMENT and E.are_same_exprs(addend.indices, at)
        if own and addend.dtype == total.dtype and _is_rescaled(running, total, addend.buffer, at):
            return total, addend.buffer
    return None


def _is_rescaled(running: E.Expr, total: Buffer, addend: Buffer, at: tuple[E.Expr, ...]) -> bool:
    """Whether ``running`` is an element of ``total``, or that times what all its lanes agree on."""
    if isinstance(running, E.Load):
        return running.buffer is total and E.are_same_exprs(running.indices, at)
    if not isinstance(running, E.Binary) or running.op != "mul" or not running.dtype.is_float:
        return False
    for scaled, factor in ((running.a, running.b), (running.b, running.a)):
        if _is_rescaled(scaled, total, addend, at):
            return isinstance(factor, E.Const) or (
                isinstance(factor, E.Load)
                and factor.buffer.storage == FRAGMENT
                and factor.buffer not in (total, addend)
                and E.are_same_exprs(factor.indices, at)
            )
    return False


def _defer(launch: S.Launch, total: Buffer, context: Context) -> S.Launch:
    """``launch`` with sums of ``total`` deferred, itself where that cannot be."""
    updates = [node for node in S.walk(launch.body) if (_update(node) or (None,))[0] is total]
    addends = {pair[1] for pair in map(_update, updates) if pair is not None}
    copies = [  # that bring a part into the layout of the total
        copy for copy in S.find(launch.body, S.Copy)
        if copy.hints.exchange and copy.dst.buffer in addends
    ]  # fmt: skip
    parts = {copy.dst.buffer: copy.src.buffer for copy in copies}
    addends = addends.union(parts.values())
    sums = [node for node in S.find(launch.body, S.Reduce) if node.dst.buffer in addends]
    if not all(map(_is_whole_sum, sums)):
        return launch
    layouts = {node.src.buffer.attrs.register_layout.drop(node.dim) for node in sums}
    if len(layouts) != 1 or not (layout := layouts.pop()).is_replicated:
        return launch
    attrs = replace(total.attrs, register_layout=layout)
    others = {
        buffer: Buffer(buffer.name, buffer.shape, buffer.dtype, FRAGMENT, attrs=attrs)
        for buffer in (total, *(addends - parts.keys())) if buffer.attrs.register_layout != layout
    }  # fmt: skip
    read = {access.buffer for update in updates for access in effects.accesses(update, nested=True)}
    if (others or parts) and not read <= {total, *addends}:
        return launch
    others |= {copy: others.get(part, part) for copy, part in parts.items()}
    names = {addend.data for addend in addends}
    known = {node for stmt in (*updates, *sums, *copies) for node in S.walk(stmt)}
    for node in S.walk(launch.body):
        if node in known or isinstance(node, S.Alloc):
            continue
        if any(access.data in names for access in effects.accesses(node)):
            return launch
    block = _block(launch.body, total, updates)
    if block is None:
        return launch
    warp, reader = context.limits.warp, block[0].stmts[block[1]]
    if thread_groups(launch, warp).of(reader)[1] != layout.threads:
        return launch
    own = others.pop(total, total)
    moved = [alloc for alloc in S.find(launch.body, S.Alloc) if alloc.buffer in parts]
    deferred = _Deferred({*sums, *copies, *moved}, *block, total, own, layout)
    return launch.with_body(replace_buffers(deferred.rewrite(launch.body), others))


def _is_whole_sum(node: S.Reduce) -> bool:
    """Whether threads add up whole rows of a fragment, each element in one of them."""
    source = node.src.buffer.attrs.register_layout
    if node.kind != "sum" or not node.clear or not isinstance(source, RegisterLayout):
        return False
    is_whole = node.src.is_whole and node.dst.is_whole and not node.partial
    return is_whole and not source.is_replicated and node.dst.dtype.is_float


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
        if not _is_clear(block.stmts[first], total):
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


def _is_clear(stmt: S.Stmt, total: Buffer) -> bool:
    """Whether ``stmt`` does nothing but fill ``total`` with 0."""
    if isinstance(stmt, S.Fill):
        return stmt.dst.buffer is total and stmt.dst.is_whole and _is_zero(stmt.value)
    store = _store(stmt)
    return store is not None and store.buffer is total and _is_zero(store.value)


def _is_zero(value: E.Expr) -> bool:
    return isinstance(value, E.Const) and not value.value


class _Deferred(Rewriter):
    """Takes the lanes out of the sums that are ``changed``, drops the others of these, and adds the
    lanes up in ``block`` before statement ``at``; until then threads hold ``own`` as ``layout``
    instead of the total."""

    def __init__(
        self, changed: set[S.Stmt], block: S.Seq, at: int, total: Buffer, own: Buffer,
        layout: RegisterLayout,
    ) -> None:  # fmt: skip
        self.changed, self.block, self.at = changed, block, at
        self.total, self.own, self.layout = total, own, layout

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if stmt is self.block:
            stmts = [self.rewrite(child) for child in self.block.stmts]
            early, loc, dst = stmts[: self.at], stmts[self.at].loc, None
            if self.own is not self.total:
                early = [S.Alloc(buffer=self.own, loc=loc), *map(self.moved, early)]
                dst = self.total.whole()
            finish = S.ReducerFinalize(reducer=self.own.whole(), dst=dst, op="sum", loc=loc)
            return S.seq(*early, finish, *stmts[self.at :])
        if stmt in self.changed:
            return replace(stmt, partial=True) if isinstance(stmt, S.Reduce) else S.Seq(stmts=())
        return super()._visit(stmt)

    def moved(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with ``own`` for the total."""

        def spread(loop: S.Parallel) -> S.Stmt:
            return replace(loop, loop_layout=self.layout) if _uses(loop, self.total) else loop

        if isinstance(stmt, S.Alloc):
            return stmt
        return replace_buffers(map_stmts(stmt, S.Parallel, spread), {self.total: self.own})
