"""``PrintTile``: the elements of a tile in row-major order, one line each.

Tiles that belong to the group are printed by one thread; a fragment is collected in a shared
workspace for that. Every thread prints its own array, and global memory.
"""

from __future__ import annotations

from collections.abc import Callable

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.passes.analysis.scopes import is_fragment
from tilelang.passes.lower.context import Lowering
from tilelang.passes.lower.elements import constant_extents, element, nest, row_major, stage

EVERYONE = ("local", "local.var", "global")


def lower_print(stmt: S.PrintTile, ctx: Lowering) -> S.Stmt:
    """Thread IR of a print; nothing where the thread that prints is in another group."""
    src = stmt.src
    if src.buffer.storage in EVERYONE:
        return _lines(stmt, ctx, lambda at: element(src, at, ctx).load())
    number = stmt.thread - ctx.group.lo
    if not 0 <= number < ctx.group.threads:
        return S.Seq(stmts=())
    only = E.binary("eq", ctx.group.thread, number)
    if not is_fragment(src):
        lines = _lines(stmt, ctx, lambda at: element(src, at, ctx).load())
        return S.If(cond=only, then=lines, loc=stmt.loc)
    staged, room = stage(src, ctx, "printed", "printing")
    extents = constant_extents(src, "printing")
    lines = _lines(stmt, ctx, lambda at: E.Load(room, (row_major(extents, at),)))
    return S.seq(staged, S.If(cond=only, then=lines, loc=stmt.loc), ctx.barrier())


def _lines(
    stmt: S.PrintTile, ctx: Lowering, value: Callable[[tuple[E.Expr, ...]], E.Expr]
) -> S.Stmt:
    buffer, extents = stmt.src.buffer, stmt.src.extents
    variables = tuple(ctx.fresh("i") for _ in extents)
    call = E.call(
        "print",
        value(variables),
        row_major(extents, variables),
        dtype="void",
        message=stmt.message or f"buffer<{buffer.name}, {buffer.dtype}>",
        buffer=buffer.name,
        thread=stmt.thread,
    )
    return nest(list(zip(variables, extents)), S.Eval(value=call, loc=stmt.loc), "serial")
