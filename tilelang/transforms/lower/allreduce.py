"""All-reduce: combine partial results of several threads, so that all of them get the total.

Which threads belong together is said by modes of the thread number: those that differ in these
modes only. Modes inside a warp are combined by shuffles (a butterfly, which gives all lanes the
same bits); the rest go through a shared workspace once: two barriers however many warps there are.
Modes that are no powers of two, and groups that do not consist of whole warps, use the workspace
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.records import dataclass
from tilelang.transforms.analysis.combine import combine
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.elements import guarded, loop, mode, nest

WORKSPACE = 16384  # bytes of workspace; more values are exchanged in several rounds
LOW_WORKSPACE = 1024  # the same where shared memory is short

Modes = Sequence[tuple[int, int]]  # (extent, stride) of the thread number


@dataclass(frozen=True)
class Operation:
    """What is computed: the kind of reduction and how it treats NaN."""

    kind: str
    nan_propagate: bool = False

    def __call__(self, a: E.Expr, b: E.Expr) -> E.Expr:
        return E.cast(combine(self.kind, a, b, self.nan_propagate), a.dtype)


def all_reduce(
    partial: Buffer,
    modes: Modes,
    used: int,
    op: Operation,
    ctx: Lowering,
) -> S.Stmt:
    """``partial`` (a per-thread array of at least 32-bit values) combined over ``modes``.

    Args:
        used: the modes mean nothing for threads from this number on; they get no total.
    """
    lanes, across_warps = _split([digit_mode for digit_mode in modes if digit_mode[0] > 1], ctx)
    stmts: list[S.Stmt] = []
    if lanes:
        var = ctx.fresh("s")
        stmts.append(loop(var, int(partial.shape[0]), _butterfly(partial, var, lanes, op, ctx)))
    if across_warps:
        stmts.append(_exchange(partial, lanes, across_warps, used, op, ctx))
    return S.seq(*stmts) if stmts else S.Seq(stmts=())


def _power(value: int) -> bool:
    return value & (value - 1) == 0


def _split(modes: Modes, ctx: Lowering) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Modes inside a warp, and the others."""
    lanes: list[tuple[int, int]] = []
    across_warps: list[tuple[int, int]] = []
    whole_warps = ctx.group.threads % ctx.warp == 0 and ctx.group.lo % ctx.warp == 0
    for extent, stride in modes:
        if not (whole_warps and _power(extent) and _power(stride)) or stride >= ctx.warp:
            across_warps.append((extent, stride))
            continue
        inside = min(extent, ctx.warp // stride)
        lanes.append((inside, stride))
        if extent > inside:
            across_warps.append((extent // inside, ctx.warp))
    return lanes, across_warps


def _butterfly(partial: Buffer, at: E.Expr, lanes: Modes, op: Operation, ctx: Lowering) -> S.Stmt:
    steps: list[S.Stmt] = []
    for extent, stride in lanes:
        distance = stride * extent // 2
        while distance >= stride:
            own = E.Load(partial, (at,))
            other = ctx.shuffle("xor", own, distance)
            steps.append(S.Store(buffer=partial, indices=(at,), value=op(own, other)))
            distance //= 2
    return S.seq(*steps)


def _without(position: E.Expr, lanes: Modes) -> E.Expr:
    """A thread number with the modes ``lanes`` taken out."""
    for extent, stride in sorted(lanes, key=lambda lane_mode: -lane_mode[1]):
        high = position // (stride * extent)
        position = high * stride + position % stride
    return position


def _without_values(column: E.Expr, modes: Modes, columns: int) -> E.Expr:
    """``column`` with ``modes`` set to 0."""
    for extent, stride in sorted(modes, key=lambda item: -item[1]):
        if stride * extent >= columns:
            column, columns = column % stride, stride
        else:
            column = column - column // stride % extent * stride
    return column


def _exchange(
    partial: Buffer,
    lanes: Modes,
    across_warps: Modes,
    used: int,
    op: Operation,
    ctx: Lowering,
) -> S.Stmt:
    """One value per warp (and remaining lane modes) through the workspace, in rounds."""
    thread, threads = ctx.group.thread, ctx.group.threads
    count = int(partial.shape[0])
    columns = threads // prod(extent for extent, _ in lanes)
    column = _without(thread, lanes)
    moved = [
        (extent, stride // prod(e for e, low in lanes if low < stride))
        for extent, stride in across_warps
    ]
    most = LOW_WORKSPACE if ctx.context.low_shared else WORKSPACE
    per_round = min(count, max(1, most // (columns * (partial.dtype.bits // 8))))
    room = ctx.workspace("exchange", partial.dtype, columns * per_round)
    base = _without_values(column, moved, columns)
    writes = [E.binary("eq", mode(thread, *item, threads), 0) for item in lanes]
    reads = [thread < used] if used < threads else []
    stmts: list[S.Stmt] = []
    for start in range(0, count, per_round):
        size = min(per_round, count - start)
        var = ctx.fresh("s")
        at = (var + start,)
        put = S.Store(buffer=room, indices=(var * columns + column,), value=E.Load(partial, at))
        stmts += [guarded(writes, loop(var, size, put)), ctx.barrier()]
        var = ctx.fresh("s")
        get = _gather(partial, var + start, room, var * columns + base, moved, op, ctx)
        stmts += [guarded(reads, loop(var, size, get)), ctx.barrier()]
    return S.seq(*stmts)


def _gather(
    partial: Buffer,
    at: E.Expr,
    room: Buffer,
    base: E.Expr,
    modes: Modes,
    op: Operation,
    ctx: Lowering,
) -> S.Stmt:
    """The total of the values that differ in ``modes``; every thread adds in the same order."""
    first = S.Store(buffer=partial, indices=(at,), value=E.Load(room, (base,)))
    loops = [(ctx.fresh("w"), extent) for extent, _ in modes]
    position = base
    away: list[E.Expr] = []
    for (var, _), (_, stride) in zip(loops, modes):
        position = position + var * stride
        away.append(E.binary("ne", var, 0))
    value = op(E.Load(partial, (at,)), E.Load(room, (position,)))
    step: S.Stmt = S.Store(buffer=partial, indices=(at,), value=value)
    if len(loops) == 1:
        var, extent = loops[0]
        others: S.Stmt = S.For(
            var=var, start=E.const(1), stop=E.const(extent), step=E.const(1), body=step,
            kind="unroll",
        )  # fmt: skip
        return S.seq(first, others)
    some = away[0]
    for condition in away[1:]:
        some = E.binary("lor", some, condition)
    return S.seq(first, nest(list(loops), S.If(cond=some, then=step)))
