"""``Reduce``: one dimension of a tile combined by the threads of a group.

A fragment is reduced where it is: every thread combines its own registers, then the threads that
hold parts of the same row combine their partial results (:mod:`allreduce`). Copies of an element
in several threads are never mixed, so each element counts once. A shared or global tile is read by
groups of lanes, one or more per row. A per-thread array is reduced by its thread.

Results are accumulated in at least 32 bits and rounded once. Without ``clear`` they are then
combined with the old value of the destination.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.indices import row_major, unravel
from tilelang.layout.register_layout import RegisterLayout
from tilelang.records import dataclass
from tilelang.transforms.analysis.reductions import lanes_of_row
from tilelang.transforms.analysis.scopes import is_fragment, is_private
from tilelang.transforms.lower import elements, partial_sums
from tilelang.transforms.lower.allreduce import AlongDimension, Operation, all_reduce
from tilelang.transforms.lower.context import Lowering, register_layout_of
from tilelang.transforms.lower.elements import element
from tilelang.transforms.lower.workspaces import close

UNROLL = 16  # loads per thread up to which a loop over shared memory is unrolled


def lower_reduce(stmt: S.Reduce, ctx: Lowering) -> S.Stmt:
    """Thread IR of a reduction."""
    job = _Job(stmt, ctx, elements.constant_extents(stmt.src, f"T.reduce_{stmt.kind}"))
    if is_fragment(stmt.src):
        return _from_fragment(job)
    alone = ctx.threads == 1 and (is_fragment(stmt.dst) or is_private(stmt.dst))
    return _from_private(job) if alone or is_private(stmt.src) else _from_memory(job)


@dataclass(frozen=True)
class _Job(AlongDimension):
    """A reduction and what follows from it."""

    stmt: S.Reduce

    @property
    def op(self) -> Operation:
        """One step of the reduction."""
        return Operation(self.stmt.kind, self.stmt.nan_propagate)

    @property
    def target(self) -> partial_sums.Target:
        """Where the results go."""
        return partial_sums.Target(self.stmt.dst, None if self.stmt.clear else self.op)

    def operand(self, value: E.Expr) -> E.Expr:
        """A source element as it enters the reduction."""
        kind = self.stmt.dst.dtype
        value = E.cast(value, kind)
        if self.stmt.kind.startswith("abs") and (kind.is_int or kind.is_float):
            value = E.call("abs", value)
        return E.cast(value, self.wide)

    def accumulate(self, total: Buffer, at: E.Expr, value: E.Expr) -> S.Stmt:
        """``total[at] = op(total[at], value)``."""
        new = self.op(E.Load(total, (at,)), value)
        return S.Store(buffer=total, indices=(at,), value=new, loc=self.stmt.loc)

    def source(self, row: Sequence[E.Expr], k: E.Expr) -> E.Expr:
        """The source element ``k`` of a row, converted."""
        dim = self.stmt.dim
        return self.operand(element(self.stmt.src, (*row[:dim], k, *row[dim:])).load())


# -- fragments ------------------------------------------------------------------------------------
def _from_fragment(job: _Job) -> S.Stmt:
    stmt, ctx = job.stmt, job.ctx
    dist, dim = register_layout_of(stmt.src.buffer), stmt.dim
    result = dist.drop(dim)
    totals = partial_sums.private_sums(stmt.dst.dtype, result.register_count)
    var = ctx.fresh("s")
    start = S.Store(buffer=totals, indices=(var,), value=job.start)
    modes = [(mode.extent, mode.stride) for mode in dist.modes[dim] if mode.kind == "thread"]
    return S.seq(
        S.Alloc(buffer=totals),
        elements.loop(var, result.register_count, start),
        _in_thread(job, dist, result, totals),
        *([] if stmt.partial else [all_reduce(totals, modes, dist.used_threads, job.op, ctx)]),
        partial_sums.deliver(_totals(job, result, totals), job.target, ctx),
    )


def _in_thread(job: _Job, dist: RegisterLayout, result: RegisterLayout, totals: Buffer) -> S.Stmt:
    """Each thread's registers combined per row."""
    stmt, ctx = job.stmt, job.ctx
    walk = elements.walk_registers(dist, ctx)
    value = job.operand(E.Load(ctx.registers(stmt.src.buffer), (walk.register,)))
    inside = _in_dimension(job, dist, walk)
    if inside is not None:
        value = E.select(inside, value, job.start)
    return walk.nest(job.accumulate(totals, _row_register(walk, dist, result, stmt.dim), value))


def _row_register(
    walk: elements.RegisterWalk, dist: RegisterLayout, result: RegisterLayout, dim: int
) -> E.Expr:
    """The register of the total that a source register belongs to."""
    strides: dict[tuple[int, int], int] = {}
    rows = iter(result.modes)
    for d, modes in enumerate(dist.modes):
        if d == dim:
            continue
        real = [position for position, mode in enumerate(modes) if mode.extent > 1]
        for position, mode in zip(real, next(rows), strict=True):
            strides[d, position] = mode.stride
    total: E.Expr = E.const(0)
    for key, var, _ in walk.loops:
        if key in strides:
            total = total + var * strides[key]
    return total


def _in_dimension(job: _Job, dist: RegisterLayout, walk: elements.RegisterWalk) -> E.Expr | None:
    """The condition that a place holds an element of the reduced range; None if all do."""
    src, dim = job.stmt.src, job.stmt.dim
    low, extent, index = src.mins[dim], job.length, walk.indices[dim]
    conditions: list[E.Expr] = []
    if not (isinstance(low, E.Const) and int(low) == 0):
        conditions.append(index >= low)
    if conditions or extent < prod(mode.extent for mode in dist.modes[dim]):
        conditions.append(index < low + extent)
    return E.conjunction(conditions) if conditions else None


def _totals(job: _Job, result: RegisterLayout, totals: Buffer) -> partial_sums.PartialSums:
    """The rows of the region among the rows that the threads hold."""
    src, dim = job.stmt.src, job.stmt.dim
    walk = elements.walk_registers(result, job.ctx)
    indices = list(walk.indices)
    indices.insert(dim, src.mins[dim])
    inside = elements.membership(src, indices, but=dim)
    lows = src.mins[:dim] + src.mins[dim + 1 :]
    at = tuple(index - low for index, low in zip(walk.indices, lows, strict=True))
    return partial_sums.PartialSums(totals, result, walk, at, job.kept_extents, tuple(inside))


# -- shared and global memory ---------------------------------------------------------------------
@dataclass(frozen=True)
class _Split:
    """The distribution of rows: ``lanes`` threads per row, ``rows`` rows at a time."""

    lanes: int
    rows: int
    lane: E.Expr
    row: E.Expr
    stride: int  # between the threads of a row

    @property
    def used(self) -> int:
        """Threads that take part."""
        return self.lanes * self.rows


def _split(job: _Job) -> _Split:
    """As many threads per row as there are; neighbours read neighbouring elements."""
    thread, threads = job.ctx.group.thread, job.ctx.group.threads
    lanes = lanes_of_row(job.extents, job.stmt.dim, threads, job.ctx.warp)
    together = threads // lanes
    if job.stmt.dim == len(job.extents) - 1:
        return _Split(lanes, together, thread % lanes, thread // lanes, 1)
    return _Split(lanes, together, thread // together, thread % together, together)


def _from_memory(job: _Job) -> S.Stmt:
    ctx, target = job.ctx, job.target
    split = _split(job)
    count = prod(job.kept_extents)
    passes = -(-count // split.rows)
    p = ctx.fresh("p")
    row = p * split.rows + split.row if passes > 1 else split.row
    conditions = [] if passes * split.rows == count else [row < count]
    if split.used < ctx.group.threads:
        conditions.append(ctx.group.thread < split.used)
    total = partial_sums.private_sums(job.stmt.dst.dtype, 1)
    zero = E.const(0)
    direct = not (is_fragment(target.region) or is_private(target.region))
    scratch = None if direct else ctx.workspace("totals", job.wide, count)
    value = E.Load(total, (zero,))
    if scratch is None:
        put = target.put(target.at(row, ctx), value)
    else:
        put = S.Store(buffer=scratch, indices=(row,), value=value)
    first = [E.binary("eq", split.lane, zero)] if split.lanes > 1 else []
    body = S.seq(
        S.Alloc(buffer=total, init=None),
        S.Store(buffer=total, indices=(zero,), value=job.start),
        elements.guarded(conditions, _row_part(job, split, unravel(job.kept_extents, row), total)),
        all_reduce(total, [(split.lanes, split.stride)], split.used, job.op, ctx),
        elements.guarded([*conditions, *first], put),
    )
    loop = elements.loop(p, passes, body, "serial") if passes > 1 else body
    if scratch is None:
        return loop
    return S.seq(
        loop, ctx.barrier(), partial_sums.collect(scratch, target, ctx), close(scratch, ctx)
    )


def _row_part(job: _Job, split: _Split, row: tuple[E.Expr, ...], total: Buffer) -> S.Stmt:
    """Every ``lanes``-th element of a row."""
    steps = -(-job.length // split.lanes)
    k = job.ctx.fresh("k")
    at = k * split.lanes + split.lane if split.lanes > 1 else k
    inside = [] if steps * split.lanes == job.length else [at < job.length]
    body = elements.guarded(inside, job.accumulate(total, E.const(0), job.source(row, at)))
    return elements.loop(k, steps, body, "unroll" if steps <= UNROLL else "serial")


# -- per-thread arrays ----------------------------------------------------------------------------
def _from_private(job: _Job) -> S.Stmt:
    """Every thread reduces what it alone reads for the destination elements that it holds."""
    ctx, target = job.ctx, job.target
    extents, zero = target.extents, E.const(0)

    def result(element: elements.Element) -> S.Stmt:
        total = partial_sums.private_sums(job.stmt.dst.dtype, 1)
        row = unravel(job.kept_extents, row_major(extents, element.indices))
        k = ctx.fresh("k")
        step = job.accumulate(total, zero, job.source(row, k))
        return S.seq(
            S.Alloc(buffer=total),
            S.Store(buffer=total, indices=(zero,), value=job.start),
            elements.loop(k, job.length, step, "unroll" if job.length <= UNROLL else "serial"),
            target.put(element, E.Load(total, (zero,))),
        )

    if is_fragment(target.region) or is_private(target.region):
        return elements.each(target.region, ctx, result, is_once=False)
    # Each thread has a result; in memory the last one stays.
    position = ctx.fresh("i")
    body = elements.loop(position, prod(extents), result(target.at(position, ctx)), "serial")
    return elements.guarded([E.binary("eq", ctx.group.thread, ctx.group.threads - 1)], body)
