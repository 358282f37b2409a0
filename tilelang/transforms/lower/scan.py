"""``Scan``: running sums and maxima along one dimension of a tile.

A warp scans one row at a time, in each step a run of elements in every lane, as long as one access
moves: an inclusive scan of the runs' totals by shuffles, to which it adds the carry of the previous
steps. Groups that do not consist of whole warps use one thread per
row. Fragments are scanned in a shared workspace. Values have at least 32 bits and are rounded when
they are stored.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.indices import row_major, unravel
from tilelang.records import dataclass
from tilelang.transforms.analysis.combine import rounded
from tilelang.transforms.analysis.scopes import is_fragment, is_private
from tilelang.transforms.analysis.vectors import VECTOR_BITS
from tilelang.transforms.lower import elements
from tilelang.transforms.lower.allreduce import AlongDimension
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.elements import element
from tilelang.transforms.lower.workspaces import close

Indices = tuple[E.Expr, ...]


def lower_scan(stmt: S.Scan, ctx: Lowering) -> S.Stmt:
    """Thread IR of a scan."""
    extents = elements.constant_extents(stmt.src, "T.cumsum" if stmt.kind == "sum" else "T.cummax")
    src, dst = stmt.src, stmt.dst
    alone = ctx.threads == 1 and not is_fragment(src) and (is_fragment(dst) or is_private(dst))
    if alone or is_private(src):
        return _in_every_thread(stmt, ctx, extents)
    before: list[S.Stmt] = []
    read, write = _values(src, ctx), _stores(dst, ctx)
    if is_fragment(src):
        staged, scratch = elements.stage(src, ctx, "scanned", "a scan")
        before.append(staged)
        read = _values_of(scratch, extents)
    if not (is_fragment(dst) or is_private(dst)):
        end = [close(ctx.workspaces[0], ctx)] if before else []  # where a workspace was read
        return S.seq(*before, _Rows(stmt, ctx, extents, read, write).by_group(), *end)
    result = ctx.workspace("scan", dst.dtype, prod(extents))
    rows = _Rows(stmt, ctx, extents, read, _stores_to(result, extents))
    take = _values_of(result, extents)
    delivery = elements.each(dst, ctx, lambda to: to.store(take(to.indices)), is_once=False)
    return S.seq(*before, rows.by_group(), ctx.barrier(), delivery, close(result, ctx))


def _in_every_thread(stmt: S.Scan, ctx: Lowering, extents: tuple[int, ...]) -> S.Stmt:
    """Each thread scans its own tile; of several results for one element the last one stays."""
    dst = stmt.dst
    if is_private(dst):
        rows = _Rows(stmt, ctx, extents, _values(stmt.src, ctx), _stores(dst, ctx))
        return rows.by_every_thread()
    result = elements.array("scan", dst.dtype, prod(extents))
    rows = _Rows(stmt, ctx, extents, _values(stmt.src, ctx), _stores_to(result, extents))
    take = _values_of(result, extents)
    if is_fragment(dst):
        delivery = elements.each(dst, ctx, lambda to: to.store(take(to.indices)), is_once=False)
    else:
        position = ctx.fresh("p")
        at = unravel(extents, position)
        delivery = elements.guarded(
            [E.binary("eq", ctx.group.thread, ctx.group.threads - 1)],
            elements.loop(position, prod(extents), element(dst, at).store(take(at)), "serial"),
        )
    return S.seq(S.Alloc(buffer=result), rows.by_every_thread(), delivery)


# -- where rows are -------------------------------------------------------------------------------
def _values(region: Region, ctx: Lowering) -> Callable[[Indices], E.Expr]:
    return lambda at: element(region, at).load()


def _stores(region: Region, ctx: Lowering) -> Callable[[Indices, E.Expr], S.Stmt]:
    return lambda at, value: element(region, at).store(value)


def _values_of(scratch: Buffer, extents: tuple[int, ...]) -> Callable[[Indices], E.Expr]:
    return lambda at: E.Load(scratch, (row_major(extents, at),))


def _stores_to(scratch: Buffer, extents: tuple[int, ...]) -> Callable[[Indices, E.Expr], S.Stmt]:
    def store(at: Indices, value: E.Expr) -> S.Stmt:
        index = (row_major(extents, at),)
        return S.Store(buffer=scratch, indices=index, value=E.cast(value, scratch.dtype))

    return store


@dataclass(frozen=True)
class _Rows(AlongDimension):
    """The rows of a scan, how they are read and where results go."""

    stmt: S.Scan
    read: Callable[[Indices], E.Expr]
    write: Callable[[Indices, E.Expr], S.Stmt]

    def at(self, row: Indices, k: E.Expr) -> Indices:
        """Indices of the ``k``-th element in scanning order."""
        dim = self.stmt.dim
        return (*row[:dim], self.length - 1 - k if self.stmt.reverse else k, *row[dim:])

    def value(self, row: Indices, k: E.Expr) -> E.Expr:
        """That element, converted."""
        return E.cast(E.cast(self.read(self.at(row, k)), self.stmt.dst.dtype), self.wide)

    def rounded(self, total: E.Expr) -> E.Expr:
        """A running value as a result."""
        return rounded(total, self.stmt.dst.dtype)

    # -- who scans them ---------------------------------------------------------------------------
    def by_group(self) -> S.Stmt:
        """A warp per row, or a thread per row."""
        group = self.ctx.group
        count = prod(self.kept_extents)
        whole_warps = group.threads % self.ctx.warp == 0 and group.lo % self.ctx.warp == 0
        # Threads that scan neighbouring columns read neighbouring elements, lanes of one do not.
        columns = self.stmt.dim < len(self.extents) - 1 and count >= self.ctx.warp
        lanes = self.ctx.warp if whole_warps and not columns else 1
        workers = group.threads // lanes
        worker = group.thread // lanes
        passes = -(-count // workers)
        p = self.ctx.fresh("p")
        position = p * workers + worker if passes > 1 else worker
        row = unravel(self.kept_extents, position)
        # All lanes of a warp have the same row, so shuffles are legal under the condition.
        inside = [] if passes * workers == count else [position < count]
        body = elements.guarded(inside, self.by_warp(row) if lanes > 1 else self.by_thread(row))
        return elements.loop(p, passes, body, "serial") if passes > 1 else body

    def by_every_thread(self) -> S.Stmt:
        """Every thread scans all rows."""
        position = self.ctx.fresh("p")
        row = unravel(self.kept_extents, position)
        return elements.loop(position, prod(self.kept_extents), self.by_thread(row), "serial")

    def by_thread(self, row: Indices) -> S.Stmt:
        """One element after the other."""
        total = elements.array("total", self.wide, 1)
        zero = (E.const(0),)
        k = self.ctx.fresh("k")
        new = self.op(E.Load(total, zero), self.value(row, k))
        step = S.seq(
            S.Store(buffer=total, indices=zero, value=new),
            self.write(self.at(row, k), self.rounded(E.Load(total, zero))),
        )
        return S.seq(
            S.Alloc(buffer=total),
            S.Store(buffer=total, indices=zero, value=self.start),
            elements.loop(k, self.length, step, "serial"),
        )

    @property
    def run(self) -> int:
        """Neighbours in memory that a lane takes at a time: as many as one access moves, and no
        more than save a step."""
        src, dst = self.stmt.src.dtype, self.stmt.dst.dtype
        run = VECTOR_BITS // max(self.wide.bits, src.bits, dst.bits)
        if self.stmt.dim < len(self.extents) - 1:
            return 1
        while run > 1 and (self.length % run or self.ctx.warp * run >= 2 * self.length):
            run //= 2
        return run

    def by_warp(self, row: Indices) -> S.Stmt:
        """A run of elements in each lane at a time; the last lane carries the total on."""
        lane, run = self.ctx.group.thread % self.ctx.warp, self.run
        # This lane's run, the carry, and what is added to each element of a run of several.
        totals = elements.array("total", self.wide, run + 1 + (run > 1))
        slots = [(E.const(slot),) for slot in range(run + 2)]
        run_slots = slots[:run][::-1] if self.stmt.reverse else slots[:run]
        carry, last, below = slots[run], run_slots[-1], slots[run + (run > 1)]
        steps = -(-self.length // (self.ctx.warp * run))
        k, v = self.ctx.fresh("k"), self.ctx.fresh("v") if run > 1 else E.const(0)
        first = (k * self.ctx.warp + lane if steps > 1 else lane) * run
        inside = [] if self.length % (self.ctx.warp * run) == 0 else [first < self.length]
        position = first + (run - 1 - v if self.stmt.reverse else v)

        def of_run(stmt: S.Stmt) -> S.Stmt:
            return elements.guarded(
                inside, elements.loop(v, run, stmt, "vectorized") if isinstance(v, E.Var) else stmt
            )

        def put(slot: Indices, value: E.Expr) -> S.Stmt:
            return S.Store(buffer=totals, indices=slot, value=value)

        def join(slot: Indices, before: Indices) -> S.Stmt:
            return put(slot, self.op(E.Load(totals, before), E.Load(totals, slot)))

        body = [
            *(put(slot, self.start) for slot in slots[:run]),
            of_run(put((v,), self.value(row, position))),
            *map(join, run_slots[1:], run_slots),
        ]
        # Lanes scan the totals of their runs; what is before a run comes from the lane below.
        total = below if run > 1 else last
        body += [put(total, E.Load(totals, last))] if run > 1 else []
        distance = 1
        while distance * run < min(self.ctx.warp * run, self.length):
            body.append(self.add_from_below(totals, total, lane, distance))
            distance *= 2
        body += [self.add_from_below(totals, total, lane, 1, carry)] if run > 1 else []
        body += [
            *(join(slot, below) for slot in slots[:run]),
            of_run(self.write(self.at(row, position), self.rounded(E.Load(totals, (v,))))),
        ]
        if steps > 1:
            carried = self.ctx.shuffle("sync", E.Load(totals, last), self.ctx.warp - 1)
            body.append(put(carry, carried))
        return S.seq(
            S.Alloc(buffer=totals),
            put(carry, self.start),
            elements.loop(k, steps, S.seq(*body), "serial") if steps > 1 else S.seq(*body),
        )

    def add_from_below(
        self, totals: Buffer, own: Indices, lane: E.Expr, distance: int, start: Indices = ()
    ) -> S.Stmt:
        """Each lane takes in the value ``distance`` lanes below, if there is one: into its own, or
        into the one at ``start``, which then is its own."""
        var = E.Var("below", self.wide)
        new = self.op(E.Load(totals, own), var)
        first = [S.Store(buffer=totals, indices=own, value=E.Load(totals, start))] if start else []
        return S.seq(
            S.Let(var=var, value=self.ctx.shuffle("up", E.Load(totals, own), distance)),
            *first,
            S.If(cond=lane >= distance, then=S.Store(buffer=totals, indices=own, value=new)),
        )
