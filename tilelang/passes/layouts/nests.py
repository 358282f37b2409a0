"""Parallel loops inside the body of another one.

The outer loop is shared out over the threads; an inner one that is not perfectly nested has nobody
left to share its iterations with, so the thread that runs the outer iteration runs all of them.
They may come in any order, so a serial loop is one of the legal ones, and the layouts of fragments
that it accesses are then found for the outer loop as a whole.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.visitor import map_stmts


def serial_inside(stmt: S.Stmt) -> S.Stmt:
    """``stmt`` with the parallel loops inside parallel loops serial."""

    def outer(loop: S.Parallel) -> S.Stmt:
        body = map_stmts(loop.body, S.Parallel, _serial)
        return loop if body is loop.body else replace(loop, body=body)

    return map_stmts(stmt, S.Parallel, outer)


def _serial(loop: S.Parallel) -> S.Stmt:
    made = loop.body
    for var, extent in reversed(tuple(zip(loop.vars, loop.extents, strict=True))):
        made = S.For(
            var=var,
            start=E.const(0, var.dtype),
            stop=E.cast(extent, var.dtype),
            step=E.const(1, var.dtype),
            body=made,
            loc=loop.loc,
        )
    return made
