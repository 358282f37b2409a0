"""``PrintTile``: the elements of a tile in row-major order, one line each.

One thread prints a shared tile or a fragment, which is first collected in a shared workspace.
Per-thread arrays and global memory are printed by every thread.
"""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.elementwise import print_lines
from tilelang.ir.indices import row_major
from tilelang.transforms.analysis.scopes import is_fragment
from tilelang.transforms.lower.context import Lowering
from tilelang.transforms.lower.elements import constant_extents, element, stage

EVERYONE = ("local", "local.var", "global")


def lower_print(stmt: S.PrintTile, ctx: Lowering) -> S.Stmt:
    """Thread IR of a print; nothing where the thread that prints is in another group."""
    src = stmt.src
    if src.buffer.storage in EVERYONE:
        return print_lines(stmt, lambda at: element(src, at).load())
    number = stmt.thread - ctx.group.lo
    if not 0 <= number < ctx.group.threads:
        return S.Seq(stmts=())
    only = E.binary("eq", ctx.group.thread, number)
    if not is_fragment(src):
        lines = print_lines(stmt, lambda at: element(src, at).load())
        return S.If(cond=only, then=lines, loc=stmt.loc)
    staged, scratch = stage(src, ctx, "printed", "printing")
    extents = constant_extents(src, "printing")
    lines = print_lines(stmt, lambda at: E.Load(scratch, (row_major(extents, at),)))
    return S.seq(staged, S.If(cond=only, then=lines, loc=stmt.loc), ctx.barrier())
