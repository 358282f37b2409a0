"""Layout conversion by shuffles; the plan is that of :mod:`layouts.shuffles`."""

from __future__ import annotations

from collections.abc import Callable

from tilelang.errors import InternalError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.transforms.layouts.shuffles import ShuffleSource, ThreadFunction, warp_shuffles
from tilelang.transforms.lower.context import Lowering, register_layout_of


def lower_shuffles(stmt: S.Copy, ctx: Lowering) -> S.Stmt:
    """Every thread's registers of ``stmt.dst`` from those of its warp's lanes."""
    src, dst = stmt.src.buffer, stmt.dst.buffer
    plan = warp_shuffles(register_layout_of(src), register_layout_of(dst), ctx.warp)
    if plan is None or ctx.group.lo % ctx.warp:
        raise InternalError(f"`{src.name}` cannot be exchanged inside warps")
    target = ctx.registers(dst)

    def put(number: int, value: E.Expr) -> S.Stmt:
        return S.Store(buffer=target, indices=(E.const(number),), value=value)

    return exchanged(plan, ctx.registers(src), put, ctx)


def exchanged(
    plan: tuple[ShuffleSource, ...],
    old: Buffer,
    put: Callable[[int, E.Expr], S.Stmt],
    ctx: Lowering,
) -> S.Stmt:
    """``put(register, value)`` for every register of the new layout.

    Args:
        here: the registers of the old one.
    """
    kind = old.dtype
    # Small floats travel as the integers with their bits.
    bits = None if kind.bits >= 32 or kind.is_integer else DType(f"uint{kind.bits}")
    stmts: list[S.Stmt] = []
    for number, source in enumerate(plan):
        value: E.Expr | None = None
        for register in source.registers:
            moved: E.Expr = E.Load(old, (E.const(register),))
            if source.lane is not None:
                # A statement of its own: all lanes take part, whichever of them need the value.
                var = E.Var("lent", kind)
                lent = _shuffled(moved, value_of(source.lane, ctx.thread), bits, ctx)
                stmts.append(S.Let(var=var, value=lent))
                moved = var
            if value is None:
                value = moved
            else:
                chosen = E.binary("eq", value_of(source.register, ctx.thread), E.const(register))
                value = E.Select(chosen, moved, value)
        assert value is not None
        stmts.append(put(number, value))
    return S.seq(*stmts)


def _shuffled(value: E.Expr, lane: E.Expr, bits: DType | None, ctx: Lowering) -> E.Expr:
    if bits is None:
        return ctx.shuffle("sync", value, lane)
    raw = ctx.shuffle("sync", E.call("reinterpret", value, dtype=bits), lane)
    return E.call("reinterpret", raw, dtype=value.dtype)


def value_of(total: ThreadFunction, thread: E.Expr) -> E.Expr:
    """``total`` for ``thread``."""
    value: E.Expr = E.const(total.base)
    for below, extent, stride in total.modes:
        digit = E.binary("floordiv", thread, E.const(below))
        digit = E.binary("floormod", digit, E.const(extent))
        value = E.binary("add", value, E.binary("mul", digit, E.const(stride)))
    return value
