"""All-reduce: combine partial results of several threads, so that all of them get the total.

The threads that combine are those that differ only in certain modes (digits) of the thread number.
Modes within a warp are combined by a butterfly of shuffles, which gives all lanes the same bits.
The other modes go through a shared workspace once, with two barriers for any number of warps. With
many totals, each step is a reduce-scatter: a lane keeps one half of its totals and sends the other
half to its partner; an all-gather follows. Of a mode whose extent is not a power of two, the
largest power-of-two factor is combined within a warp. Modes whose stride is not a power of two, and
groups that do not consist of whole warps, use only the workspace.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, prod

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.records import dataclass
from tilelang.transforms.analysis.combine import combine, register_dtype, start_of
from tilelang.transforms.analysis.vectors import VECTOR_BITS
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.elements import guarded, loop, mode, nest
from tilelang.transforms.lower.workspaces import close

WORKSPACE = 16384  # bytes of workspace; more values are exchanged in several rounds
LOW_WORKSPACE = 1024  # the same where shared memory is short
# Totals, and steps of a butterfly, from which on the lanes of a warp share them out: below, the
# longer chain of steps takes more time than the shuffles that are saved. The same of loads from the
# workspace that a thread is spared.
LEAST_SHARED, LEAST_STEPS, LEAST_SPARED = 4, 4, 32

Modes = Sequence[tuple[int, int]]  # (extent, stride) of the thread number


@dataclass(frozen=True)
class Operation:
    """The kind of a reduction, and its treatment of NaN."""

    kind: str
    nan_propagate: bool = False

    def __call__(self, a: E.Expr, b: E.Expr) -> E.Expr:
        return E.cast(combine(self.kind, a, b, self.nan_propagate), a.dtype)


@dataclass(frozen=True)
class AlongDimension:
    """A reduction or a scan along one dimension; ``extents`` are those of the source."""

    stmt: S.Reduce | S.Scan
    ctx: Lowering
    extents: tuple[int, ...]

    @property
    def length(self) -> int:
        """Elements along the dimension."""
        return self.extents[self.stmt.dim]

    @property
    def kept_extents(self) -> tuple[int, ...]:
        """Extents of the other dimensions."""
        return self.extents[: self.stmt.dim] + self.extents[self.stmt.dim + 1 :]

    @property
    def op(self) -> Operation:
        """One step."""
        return Operation(self.stmt.kind)

    @property
    def wide(self) -> DType:
        """Dtype of the accumulation."""
        return register_dtype(self.stmt.dst.dtype)

    @property
    def start(self) -> E.Expr:
        """The value that changes nothing, before the first element."""
        return E.cast(start_of(self.stmt.kind, self.stmt.dst.dtype), self.wide)


@dataclass(frozen=True)
class _Slots:
    """Which totals a lane puts into the workspace: ``number`` of every ``share`` of them, where its
    number in the modes ``idle`` is 0."""

    share: int
    number: E.Expr
    idle: Modes


def all_reduce(partial: Buffer, modes: Modes, used: int, op: Operation, ctx: Lowering) -> S.Stmt:
    """``partial`` (a per-thread array of at least 32-bit values) combined over ``modes``.

    Args:
        used: the modes mean nothing for threads from this number on; they get no total.
    """
    lanes, across_warps = _split([digit_mode for digit_mode in modes if digit_mode[0] > 1], ctx)
    stmts: list[S.Stmt] = []
    count = int(partial.shape[0])  # below: the distances between partners, step by step
    distances = [n * step >> k for n, step in lanes for k in range(1, n.bit_length())]
    share = gcd(count, 1 << len(distances))
    spared = (count - count // share) * prod(extent for extent, _ in across_warps)
    is_long = share >= LEAST_SHARED and len(distances) >= LEAST_STEPS
    is_wide = bool(across_warps) and spared >= LEAST_SPARED
    if (is_long or is_wide) and used == ctx.group.threads:
        return _in_shares(partial, share, distances, lanes, across_warps, op, ctx)
    if lanes:
        var = ctx.fresh("s")
        stmts.append(loop(var, count, _butterfly(partial, var, distances, op, ctx)))
    if across_warps:
        slots = _Slots(1, E.const(0), lanes)
        stmts.append(_exchange(partial, lanes, across_warps, used, op, ctx, slots))
    return S.seq(*stmts) if stmts else S.Seq(stmts=())


def _in_shares(
    partial: Buffer, share: int, distances: Sequence[int], lanes: Modes, across_warps: Modes,
    op: Operation, ctx: Lowering,
) -> S.Stmt:  # fmt: skip
    """:func:`all_reduce` of ``share`` totals at a time, of which a lane combines one."""
    steps = share.bit_length() - 1
    halves, rest = distances[:steps], distances[steps:]
    lane = ctx.group.thread % ctx.warp
    bits = [lane // distance % 2 for distance in halves]
    weights = [share >> (step + 1) for step in range(steps)]
    starts = range(0, int(partial.shape[0]), share)
    stmts: list[S.Stmt] = []
    for start in starts:
        for weight, bit, distance in zip(weights, bits, halves):
            upper = E.binary("eq", bit, 1)
            for at in range(start, start + weight):
                low, high = (E.Load(partial, (E.const(k),)) for k in (at, at + weight))
                sent = E.Var("given", partial.dtype)
                value = op(E.select(upper, high, low), ctx.shuffle("xor", sent, distance))
                stmts.append(S.Let(var=sent, value=E.select(upper, low, high)))
                stmts.append(S.Store(buffer=partial, indices=(E.const(at),), value=value))
        stmts.append(_butterfly(partial, E.const(start), rest, op, ctx))
    if across_warps:
        number = sum((b * weight for b, weight in zip(bits, weights)), E.const(0))
        slots = _Slots(share, number, [(2, distance) for distance in rest])
        stmts.append(_exchange(partial, lanes, across_warps, ctx.group.threads, op, ctx, slots))
    others = E.binary("bitand", lane, E.const(ctx.warp - 1 - sum(halves)))
    for start in starts:
        total = E.Var("own", partial.dtype)
        stmts.append(S.Let(var=total, value=E.Load(partial, (E.const(start),))))
        for at in range(share):
            lane_bits = sum(at // weight % 2 * d for weight, d in zip(weights, halves))
            value = ctx.shuffle("sync", total, others + lane_bits)
            stmts.append(S.Store(buffer=partial, indices=(E.const(start + at),), value=value))
    return S.seq(*stmts)


def _split(modes: Modes, ctx: Lowering) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Modes inside a warp, and the others."""
    lanes: list[tuple[int, int]] = []
    across_warps: list[tuple[int, int]] = []
    whole_warps = ctx.group.threads % ctx.warp == 0 and ctx.group.lo % ctx.warp == 0
    for extent, stride in modes:
        # As many neighbours as a power of two has are in one warp.
        inside = gcd(extent, ctx.warp // gcd(stride, ctx.warp))
        if not whole_warps or ctx.warp % stride or inside == 1:
            across_warps.append((extent, stride))
            continue
        lanes.append((inside, stride))
        if extent > inside:
            across_warps.append((extent // inside, stride * inside))
    return lanes, across_warps


def _butterfly(
    partial: Buffer, at: E.Expr, distances: Sequence[int], op: Operation, ctx: Lowering
) -> S.Stmt:
    steps: list[S.Stmt] = []
    for distance in distances:
        own = E.Load(partial, (at,))
        other = ctx.shuffle("xor", own, distance)
        steps.append(S.Store(buffer=partial, indices=(at,), value=op(own, other)))
    return S.seq(*steps)


def _remove_modes(position: E.Expr, lanes: Modes) -> E.Expr:
    """A thread number with the modes ``lanes`` taken out."""
    for extent, stride in sorted(lanes, key=lambda lane_mode: -lane_mode[1]):
        position = position // (stride * extent) * stride + position % stride
    return position


def _without_values(column: E.Expr, modes: Modes, columns: int) -> E.Expr:
    """``column`` with ``modes`` set to 0."""
    for extent, stride in sorted(modes, key=lambda mode: -mode[1]):
        if stride * extent >= columns:
            column, columns = column % stride, stride
        else:
            column = column - column // stride % extent * stride
    return column


def _exchange(
    partial: Buffer, lanes: Modes, across_warps: Modes, used: int, op: Operation, ctx: Lowering,
    slots: _Slots,
) -> S.Stmt:  # fmt: skip
    """One value per warp (and remaining lane modes) through the workspace, in rounds."""
    thread, threads = ctx.group.thread, ctx.group.threads
    share = slots.share
    count = int(partial.shape[0]) // share
    columns = threads // prod(extent for extent, _ in lanes)
    column = _remove_modes(thread, lanes)
    moved = [
        (extent, stride // prod(e for e, low in lanes if low < stride))
        for extent, stride in across_warps
    ]
    limit = LOW_WORKSPACE if ctx.context.saves_shared else WORKSPACE
    per_round = min(count, max(1, limit // (columns * share * (partial.dtype.bits // 8))))
    scratch = ctx.workspace("exchange", partial.dtype, columns * share * per_round)
    base = _without_values(column, moved, columns)
    vector = gcd(count, per_round, VECTOR_BITS // partial.dtype.bits)  # totals next to each other
    moved = [(extent, stride * share * vector) for extent, stride in moved]
    writes = [E.binary("eq", mode(thread, *digit, threads), 0) for digit in slots.idle]
    reads = [thread < used] if used < threads else []
    stmts: list[S.Stmt] = []
    for start in range(0, count, per_round):
        size = min(per_round, count - start)
        var = ctx.fresh("s")
        put_at, get_at = (
            ((var // vector * columns + at) * share + slots.number) * vector + var % vector
            for at in (column, base)
        )
        own = ((var + start) * share,)
        put = S.Store(buffer=scratch, indices=(put_at,), value=E.Load(partial, own))
        get = S.Store(buffer=partial, indices=own, value=E.Load(scratch, (get_at,)))
        stmts += [guarded(writes, loop(var, size, put, "vectorized")), ctx.barrier()]
        stmts += [guarded(reads, _gather(get, moved, (var, size), op, ctx)), ctx.barrier()]
    return S.seq(*stmts[:-1], close(scratch, ctx))


def _gather(
    first: S.Store, modes: Modes, totals: tuple[E.Var, int], op: Operation, ctx: Lowering
) -> S.Stmt:
    """The totals of the values that differ in ``modes``; every thread adds in the same order.

    Args:
        first: takes the first of the values from the workspace.
        totals: the variable that numbers the totals, and how many there are.
    """
    loops = [(ctx.fresh("w"), extent) for extent, _ in modes]
    assert isinstance(first.value, E.Load)
    (position,) = first.value.indices
    for (var, _), (_, stride) in zip(loops, modes):
        position = position + var * stride
    value = op(E.Load(first.buffer, first.indices), E.Load(first.value.buffer, (position,)))
    step = loop(*totals, replace(first, value=value), "vectorized")
    start = loop(*totals, first, "vectorized")
    if len(loops) == 1:
        var, extent = loops[0]
        return S.seq(start, S.counted(var, extent, step, "unroll", start=1))
    is_first = E.conjunction([E.binary("eq", var, 0) for var, _ in loops])
    return nest(loops, S.If(cond=is_first, then=start, orelse=step))
