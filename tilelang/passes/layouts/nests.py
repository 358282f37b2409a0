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
from tilelang.ir.visitor import Rewriter


class SerialInside(Rewriter):
    """Makes the parallel loops inside parallel loops serial."""

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        """A parallel loop with a body that has no other."""
        if not isinstance(stmt, S.Parallel):
            return stmt
        body = _Serial().rewrite(stmt.body)
        return stmt if body is stmt.body else replace(stmt, body=body)


class _Serial(Rewriter):
    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if not isinstance(stmt, S.Parallel):
            return stmt
        made = stmt.body
        for var, extent in reversed(tuple(zip(stmt.vars, stmt.extents, strict=True))):
            made = S.For(
                var=var,
                start=E.const(0, var.dtype),
                stop=E.cast(extent, var.dtype),
                step=E.const(1, var.dtype),
                body=made,
                loc=stmt.loc,
            )
        return made
