"""Layout conversion: operations whose fragments have an unsuitable layout work on a copy.

Where elements only move between lanes of a warp, shuffles bring them to a second fragment in
the layout that the operation needs, and bring the results back. Otherwise the fragment is written
to a shared tile, the operation uses the tile (or a second fragment filled from it), and the result
goes back the same way. Correct for every combination of layouts; the cost is one exchange. An
operation that uses several views of a fragment gets one tile with the same views.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

import numpy as np

from tilelang.errors import TileUnsupportedError
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.hints import BufferHints, CopyHints
from tilelang.ir.visitor import Rewriter, replace_buffers
from tilelang.layout.evaluate import evaluate
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.analysis.groups import ThreadGroups
from tilelang.transforms.analysis.loops import static_extents, values_of
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.layouts.access import writes
from tilelang.transforms.layouts.gemm_plan import GemmPlan
from tilelang.transforms.layouts.shuffles import warp_shuffles
from tilelang.transforms.layouts.trip_counts import Surroundings

# Copies of fragments stay for later uses, or through a loop, where they take no more than that.
MOST_BYTES, MOST_IN_LOOP, MOST_REGISTERS = 8192, 32768, 16

# Key of a copy: the storage, the fragment, the required layout, the threads.
Key = tuple[E.Var, Buffer, "RegisterLayout | None", tuple[int, int]]

Conflicts = Callable[[S.Stmt], "list[tuple[Buffer, RegisterLayout | None]]"]


class Conversion(Rewriter):
    """Sets ``loop_layout`` and ``plan``, and replaces operations with conflicts."""

    def __init__(
        self, spread_of: Callable[[S.Stmt], RegisterLayout | None], conflicts: Conflicts,
        groups: ThreadGroups, layout_of: Callable[[Buffer], RegisterLayout | None],
        varies: Callable[[E.Expr], bool], plans: Mapping[S.Stmt, GemmPlan],
        surroundings: Surroundings, room: int,
    ) -> None:  # fmt: skip
        self.room = room  # bytes of shared memory that copies may take for longer
        self.surroundings = surroundings
        self.ready: dict[Key, Buffer] = {}  # copies of fragments as they are
        self.ahead: dict[S.Stmt, tuple[list[S.Stmt], dict[Key, Buffer]]] = {}  # made before a loop
        self.plans = plans
        self.varies = varies
        self.groups = groups
        self.layout_of = layout_of
        self.spread_of = spread_of
        self.conflicts = conflicts

    def rewrite(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with copies; those made in a block are not known after it."""
        outside = dict(self.ready)
        result = super().rewrite(stmt)
        self.ready = outside
        return result

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if isinstance(stmt, (S.For, S.While)):
            self.forget(stmt)
        result = super()._visit(stmt)
        if not isinstance(stmt, S.Seq):
            self.forget(stmt)
        ahead, copied = self.ahead.pop(stmt, ([], {}))
        self.ready.update(copied)
        return [*ahead, *(result if isinstance(result, list) else [result])] if ahead else result

    def forget(self, stmt: S.Stmt) -> None:
        """Drop the copies of fragments that ``stmt`` changes."""
        if self.ready:
            changed = {a.data for a in effects.accesses(stmt, nested=True) if a.writes}
            self.ready = {key: tile for key, tile in self.ready.items() if key[0] not in changed}

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        """An operation with its layout, or with copies around it."""
        if not isinstance(stmt, (S.Copy, S.Fill, S.Parallel, S.Gemm)):
            return stmt
        old, conflicts = stmt, self.conflicts(stmt)
        if isinstance(stmt, S.Gemm):
            stmt = self.like(replace(stmt, plan=self.plans[stmt]), stmt)
        if not conflicts:
            return self.laid_out(stmt)
        before: list[S.Stmt] = []
        after: list[S.Stmt] = []
        mapping: dict[Buffer, Buffer] = {}
        for buffer, layout in conflicts:
            names = _names(stmt, buffer)
            if len(names) > 1:
                if buffer not in mapping:
                    self.together(names, stmt, before, after, mapping)
            elif writes(stmt, buffer):
                mapping[buffer] = self.converted(buffer, layout, stmt, before, after)
            else:
                mapping[buffer] = self.copy_for(buffer, layout, stmt, old, before)
        inner = replace_buffers(stmt, mapping)
        if isinstance(inner, S.Gemm):
            inner = replace(inner, plan=inner.plan.placed(inner))
        inner = self.like(self.laid_out(self.like(inner, stmt)), stmt)
        if isinstance(inner, (S.Copy, S.Parallel)) and self.conflicts(inner):
            # For its new memory accesses the loop would choose a mapping that does not fit the
            # fragments which are left.
            inner = replace(inner, loop_layout=self.spread_of(stmt))
        return [*before, inner, *after]

    def copy_for(
        self, buffer: Buffer, layout: RegisterLayout | None, stmt: S.Stmt, old: S.Stmt,
        before: list[S.Stmt],
    ) -> Buffer:  # fmt: skip
        """The copy of what ``stmt`` reads: an existing one, else a new one, made before
        the loops that do not change the fragment and added to the existing ones.

        Args:
            old: ``stmt`` in the launch that is rewritten.
        """
        key = buffer.data, buffer, layout, self.groups.of(old)
        loop = self.surroundings.steady(old, buffer.data)
        loop = loop if self.may_stay(buffer, layout, MOST_IN_LOOP) else None
        ahead, copied = self.ahead.setdefault(loop, ([], {})) if loop else (before, self.ready)
        for known in (self.ready, copied):
            if key in known:
                return known[key]
        converted = self.converted(buffer, layout, stmt, ahead, [])
        if loop or self.may_stay(buffer, layout, MOST_BYTES):
            copied[key] = converted
        return converted

    def may_stay(self, buffer: Buffer, layout: RegisterLayout | None, limit: int) -> bool:
        """Whether a copy of ``buffer`` may be live for longer than one operation."""
        if layout is not None and layout.register_count * buffer.dtype.bits > MOST_REGISTERS * 32:
            return False
        return buffer.constant_bytes <= min(limit, self.room)

    def converted(
        self, buffer: Buffer, layout: RegisterLayout | None, stmt: S.Stmt, before: list[S.Stmt],
        after: list[S.Stmt],
    ) -> Buffer:  # fmt: skip
        """The copy of ``buffer`` on which ``stmt`` works; what fills it is added to ``before``,
        what brings the results back to ``after``."""
        written = writes(stmt, buffer)
        if layout is not None and self.can_exchange(buffer, layout, stmt):
            copy = _with_layout(buffer, layout)
            fill = self.exchange(buffer, copy, stmt)
            before += [S.Alloc(buffer=copy, loc=stmt.loc), *self.needed(stmt, buffer, fill)]
            if written:
                after.append(self.exchange(copy, buffer, stmt))
            return copy
        tile = in_shared(buffer)
        fills = [self.copy(buffer, tile, stmt)]
        before.append(S.Alloc(buffer=tile, loc=stmt.loc))
        if written:
            after.append(self.copy(tile, buffer, stmt))
        if layout is None:
            before += self.needed(stmt, buffer, *fills)
            return tile
        copy = _with_layout(buffer, layout)
        before.append(S.Alloc(buffer=copy, loc=stmt.loc))
        fills.append(self.moved(tile, copy, stmt))
        if written:
            after.insert(0, self.moved(copy, tile, stmt))
        before += self.needed(stmt, buffer, *fills)
        return copy

    def needed(self, stmt: S.Stmt, buffer: Buffer, *fills: S.Stmt) -> list[S.Stmt]:
        """``fills``, which bring the old elements of ``buffer``, where ``stmt`` reads them.

        What overwrites all of them does not: they may never have been written.
        """
        if isinstance(stmt, S.Parallel) and _overwrites(stmt, buffer):
            return []
        if not (isinstance(stmt, S.Gemm) and stmt.c.buffer is buffer and stmt.c.is_whole):
            return list(fills)
        if any(region.buffer is buffer for region in (stmt.a, stmt.b)) or self.varies(stmt.clear):
            return list(fills)
        if isinstance(stmt.clear, E.Const):
            return [] if stmt.clear.value else list(fills)
        guard = E.unary("lnot", stmt.clear)
        return [self.like(S.If(cond=guard, then=S.seq(*fills), loc=stmt.loc), stmt)]

    def together(
        self, names: list[Buffer], stmt: S.Stmt, before: list[S.Stmt], after: list[S.Stmt],
        mapping: dict[Buffer, Buffer],
    ) -> None:  # fmt: skip
        """One shared tile for all names that ``stmt`` has for a fragment: what it writes under one
        of them, it reads under the others."""
        first = names[0]
        tile = in_shared(first)
        before += [S.Alloc(buffer=tile, loc=stmt.loc), self.copy(first, tile, stmt)]
        mapping[first] = tile
        for name in names[1:]:
            seen = replace(in_shared(name), data=tile.data)
            before.append(S.View(buffer=seen, loc=stmt.loc))
            mapping[name] = seen
        if any(writes(stmt, name) for name in names):
            after.append(self.copy(tile, first, stmt))

    def can_exchange(self, buffer: Buffer, layout: RegisterLayout, stmt: S.Stmt) -> bool:
        """Whether shuffles can bring ``buffer`` to the layout ``layout``, and back if written."""
        own = self.layout_of(buffer)
        if own is None or self.groups.of(stmt)[0] % self.groups.warp:
            return False
        return warp_shuffles(own, layout, self.groups.warp) is not None and (
            not writes(stmt, buffer) or warp_shuffles(layout, own, self.groups.warp) is not None
        )

    def exchange(self, src: Buffer, dst: Buffer, stmt: S.Stmt) -> S.Stmt:
        """A copy of a whole fragment to another layout by shuffles."""
        hints = CopyHints(exchange=True)
        return self.like(S.Copy(src=src.whole(), dst=dst.whole(), hints=hints, loc=stmt.loc), stmt)

    def laid_out(self, stmt: S.Stmt) -> S.Stmt:
        """``stmt`` with its ``loop_layout``, where it has one."""
        if not isinstance(stmt, (S.Copy, S.Parallel)):
            return stmt
        spread = self.spread_of(stmt)
        return stmt if spread is None else replace(stmt, loop_layout=spread)

    def copy(self, src: Buffer, dst: Buffer, stmt: S.Stmt) -> S.Stmt:
        """A copy of a whole buffer."""
        copy = S.Copy(src=src.whole(), dst=dst.whole(), loc=stmt.loc)
        return self.laid_out(self.like(copy, stmt))

    def like(self, new: S.Stmt, old: S.Stmt) -> S.Stmt:
        """``new``, run by the threads that run ``old``."""
        self.groups.like(new, old)
        return new

    def moved(self, src: Buffer, dst: Buffer, stmt: S.Stmt) -> S.Stmt:
        """A copy from or to a fragment that carries its layout already, which for the loop has no
        dimensions of extent 1."""
        layout = (dst if dst.storage == FRAGMENT else src).attrs.register_layout
        tile = layout.with_shape(tuple(extent for extent in layout.shape if extent != 1))
        return S.Copy(src=src.whole(), dst=dst.whole(), loop_layout=tile, loc=stmt.loc)


def _overwrites(loop: S.Parallel, buffer: Buffer) -> bool:
    """Whether ``loop`` stores every element of ``buffer``, and reads none."""
    used = [access for access in effects.accesses(loop, nested=True) if access.buffer is buffer]
    if any(access.reads for access in used) or S.holds(loop.body, S.Break, S.Continue):
        return False
    values = {var: np.arange(n) for var, n in zip(loop.vars, static_extents(loop) or ())}
    stored, stmts = np.zeros(tuple(map(int, buffer.shape)), bool), list(S.flat(loop.body))
    for stmt in stmts:  # those that every iteration runs
        if isinstance(stmt, S.For) and (count := values_of(stmt)):
            values[stmt.var] = np.array(count)
            stmts += S.flat(stmt.body)
        elif isinstance(stmt, S.Store) and stmt.buffer is buffer:
            grid = dict(zip(values, np.ix_(*values.values())))
            with suppress(TileUnsupportedError):  # a place that depends on more than the loops
                at = np.broadcast_arrays(*(evaluate(index, grid) for index in stmt.indices))
                inside = np.all([(p >= 0) & (p < n) for p, n in zip(at, stored.shape)], axis=0)
                stored[tuple(position[inside] for position in at)] = True
    return bool(stored.all())


def _names(stmt: S.Stmt, buffer: Buffer) -> list[Buffer]:
    """All names that ``stmt`` uses for the storage of ``buffer``."""
    used = (access.buffer for access in effects.accesses(stmt, nested=True))
    return list(dict.fromkeys(name for name in used if name.data is buffer.data))


def in_shared(buffer: Buffer) -> Buffer:
    """A shared tile for the elements of a fragment."""
    attrs = BufferHints(converted=buffer.name)
    return Buffer(f"{buffer.name}_shared", Shape(buffer.shape), buffer.dtype, "shared", attrs=attrs)


def _with_layout(buffer: Buffer, layout: RegisterLayout) -> Buffer:
    """A fragment like ``buffer`` in another layout."""
    attrs = replace(buffer.attrs, register_layout=layout)
    return Buffer(f"{buffer.name}_moved", buffer.shape, buffer.dtype, FRAGMENT, attrs=attrs)
