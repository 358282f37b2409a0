"""Partial sums: from per-thread totals to the destination tile.

A reduction leaves each total in the registers of the threads that computed it. If the same threads
hold the destination, a total moves from register to register. If threads of the same warp hold it,
shuffles move the totals. Otherwise the totals go through a row-major shared workspace, from which
each thread reads its destination elements.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.indices import row_major, unravel
from tilelang.layout.register_layout import RegisterLayout
from tilelang.records import dataclass
from tilelang.transforms.analysis.combine import register_dtype, rounded
from tilelang.transforms.analysis.scopes import is_fragment, is_private
from tilelang.transforms.layouts.shuffles import warp_shuffles
from tilelang.transforms.lower import elements
from tilelang.transforms.lower.allreduce import Operation
from tilelang.transforms.lower.context import Lowering, register_layout_of
from tilelang.transforms.lower.elements import element
from tilelang.transforms.lower.shuffles import exchanged
from tilelang.transforms.lower.workspaces import close


@dataclass(frozen=True)
class Target:
    """Where totals go and how: overwriting, or combined once with the old value (``op``)."""

    region: Region
    op: Operation | None

    def put(self, element: elements.Element, total: E.Expr) -> S.Stmt:
        """Store one total."""
        kind = self.region.dtype
        value = rounded(total, kind)
        if self.op is not None:
            wide = register_dtype(kind)
            value = self.op(E.cast(element.load(), wide), E.cast(value, wide))
        return element.store(value)

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the destination."""
        return elements.constant_extents(self.region, "a reduction into a part")

    def at(self, position: E.Expr, ctx: Lowering) -> elements.Element:
        """The element of a shared, global or private destination at a row-major position."""
        return element(self.region, unravel(self.extents, position))


@dataclass(frozen=True)
class PartialSums:
    """Partial sums in registers: ``partial`` at ``registers.register`` is the element ``indices``.

    Attributes:
        dist: how the result is spread; its registers are those of ``partial``.
        registers: a walk over them; its indices and ``extents`` are those of the result.
        inside: conditions that an element belongs to the result.
    """

    partial: Buffer
    dist: RegisterLayout
    registers: elements.RegisterWalk
    indices: tuple[E.Expr, ...]
    extents: tuple[int, ...]
    inside: tuple[E.Expr, ...]

    @property
    def position(self) -> E.Expr:
        """The row-major position of an element in the result."""
        return row_major(self.extents, self.indices)

    @property
    def owners(self) -> tuple[E.Expr, ...]:
        """Conditions under which this thread represents an element."""
        return (*self.registers.valid, *self.registers.first, *self.inside)

    def walk(self, visit: Callable[[E.Expr], S.Stmt]) -> S.Stmt:
        """``visit(total)`` for each element once."""
        total = E.Load(self.partial, (self.registers.register,))
        return self.registers.nest(elements.guarded(self.owners, visit(total)))


def deliver(totals: PartialSums, target: Target, ctx: Lowering) -> S.Stmt:
    """Store all totals into the destination."""
    region = target.region
    if is_fragment(region):
        plain = region.is_whole and not totals.inside
        straight = _register_map(totals, region, ctx) if plain else None
        if straight is not None:
            return _straight(totals, target, straight, ctx)
        moved = _shuffle(totals, target, ctx) if plain and ctx.group.lo % ctx.warp == 0 else None
        if moved is not None:
            return moved
    elif not is_private(region):
        return totals.walk(lambda total: target.put(target.at(totals.position, ctx), total))
    temp = ctx.workspace("totals", totals.partial.dtype, prod(totals.extents))

    def write(total: E.Expr) -> S.Stmt:
        return S.Store(buffer=temp, indices=(totals.position,), value=total)

    return S.seq(totals.walk(write), ctx.barrier(), collect(temp, target, ctx), close(temp, ctx))


def collect(temp: Buffer, target: Target, ctx: Lowering) -> S.Stmt:
    """Store the totals of a row-major workspace; holders of fragment elements all read."""
    extents = target.extents

    def read(element: elements.Element) -> S.Stmt:
        return target.put(element, E.Load(temp, (row_major(extents, element.indices),)))

    return elements.each(target.region, ctx, read, is_once=False)


def _register_map(
    totals: PartialSums, region: Region, ctx: Lowering
) -> list[tuple[int, int]] | None:
    """Pairs (total, register of ``region``) if every holder of an element has its total."""
    layout = register_layout_of(region.buffer)
    aligned = totals.dist.with_shape(layout.shape)
    if not aligned.contains(layout):
        return None
    pairs = set(
        zip(aligned.register_table().ravel().tolist(), layout.register_table().ravel().tolist())
    )
    return None if len({register for _, register in pairs}) != len(pairs) else sorted(pairs)


def _shuffle(totals: PartialSums, target: Target, ctx: Lowering) -> S.Stmt | None:
    """The totals brought by shuffles, if every holder's warp has them."""
    layout = register_layout_of(target.region.buffer)
    plan = warp_shuffles(totals.dist.with_shape(layout.shape), layout, ctx.warp)
    if plan is None:
        return None
    registers = ctx.registers(target.region.buffer)

    def put(number: int, value: E.Expr) -> S.Stmt:
        return target.put(elements.Element((), registers, (E.const(number),)), value)

    return exchanged(plan, totals.partial, put, ctx)


def _straight(
    totals: PartialSums, target: Target, pairs: list[tuple[int, int]], ctx: Lowering
) -> S.Stmt:
    registers = ctx.registers(target.region.buffer)

    def move(total: E.Expr, register: E.Expr) -> S.Stmt:
        element = elements.Element((), registers, (register,))
        return target.put(element, E.Load(totals.partial, (total,)))

    if pairs == [(k, k) for k in range(len(pairs))]:
        var = ctx.fresh("s")
        return elements.loop(var, len(pairs), move(var, var))
    return S.seq(*(move(E.const(total), E.const(register)) for total, register in pairs))


def private_sums(kind: DType, count: int) -> Buffer:
    """A per-thread array for ``count`` totals of values of ``kind``."""
    return elements.array("total", register_dtype(kind), count)
