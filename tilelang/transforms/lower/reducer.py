"""Reducers: fragments whose copies in several threads are partial results.

Each thread has its own copy of an element and updates it. Copies start from the identity; the first
copy starts from the initial value, which so counts once. Finalizing combines the copies, and then
all of them are equal, as in any other fragment.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.errors import InternalError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Region
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.analysis.combine import identity_of, update_store
from tilelang.transforms.lower.allreduce import Operation, all_reduce
from tilelang.transforms.lower.context import Lowering, register_layout_of
from tilelang.transforms.lower.elements import guarded, loop, membership, walk_registers
from tilelang.transforms.lower.partial_sums import PartialSums, Target, deliver, private_sums


def lower_reducer_init(stmt: S.ReducerInit, ctx: Lowering) -> S.Stmt:
    """The start of a reducer."""
    return start_reducer(stmt.reducer, stmt.init, ctx)


def lower_reducer_update(stmt: S.ReducerUpdate, ctx: Lowering) -> S.Stmt:
    """An update outside ``T.Parallel``: every executing thread contributes to its own copy.

    Relies on the layouts pass: all threads hold such a reducer.
    """
    dist = register_layout_of(stmt.buffer)
    if not dist.is_everywhere:
        raise InternalError(f"some threads that update `{stmt.buffer.name}` hold no copy")
    index = (dist.register_of(stmt.indices),)
    return update_store(replace(stmt, buffer=ctx.registers(stmt.buffer), indices=index))


def lower_reducer_finalize(stmt: S.ReducerFinalize, ctx: Lowering) -> S.Stmt:
    """All copies combined, in place or into ``dst``."""
    region = stmt.reducer
    dist = register_layout_of(region.buffer)
    totals = private_sums(region.dtype, dist.register_count)
    walk = walk_registers(dist, ctx)
    partial = E.cast(E.Load(ctx.registers(region.buffer), (walk.register,)), totals.dtype)
    copied = walk.nest(S.Store(buffer=totals, indices=(walk.register,), value=partial))
    totals_walk = walk_registers(dist, ctx)
    partials = PartialSums(totals, dist, totals_walk, totals_walk.indices, dist.shape, ())
    return S.seq(
        S.Alloc(buffer=totals),
        *_padding(dist, totals, region, ctx),
        copied,
        all_reduce(totals, dist.replicas, dist.used_threads, Operation(stmt.op), ctx),
        deliver(partials, Target(region if stmt.dst is None else stmt.dst, None), ctx),
    )


def _padding(dist: RegisterLayout, totals: Buffer, region: Region, ctx: Lowering) -> list[S.Stmt]:
    """Values for registers that hold no element, where there are such."""
    own = prod(mode.extent for mode in dist.all_modes() if mode.kind == "register")
    if own == dist.register_count:
        return []
    var = ctx.fresh("s")
    value = E.cast(identity_of(region), totals.dtype)
    return [loop(var, dist.register_count, S.Store(buffer=totals, indices=(var,), value=value))]


def start_reducer(region: Region, init: E.Expr | None, ctx: Lowering) -> S.Stmt:
    """The start of a reducer whose value ``init``, or that of ``T.fill``, counts once."""
    walk = walk_registers(register_layout_of(region.buffer), ctx)
    value = identity_of(region)
    if init is not None:
        value = E.select(E.conjunction(walk.first), E.cast(init, region.dtype), value)
    store = S.Store(buffer=ctx.registers(region.buffer), indices=(walk.register,), value=value)
    return walk.nest(guarded(membership(region, walk.indices), store))
