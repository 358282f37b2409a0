"""Global workspaces that a kernel allocates belong to the launch, not to a thread.

``T.alloc_global`` inside ``T.Kernel`` is memory that all blocks of the launch share. It is made
before the launch, as those that stand outside of kernels are.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.expr import Expr
from tilelang.ir.visitor import Rewriter
from tilelang.target import Context


def hoist_workspaces(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with the global workspaces of its launches in front of these.

    Raises:
        TileUnsupportedError: an extent that only the kernel knows.
    """
    body = _Hoist().rewrite(func.body)
    return func if body is func.body else replace(func, body=body)


class _Hoist(Rewriter):
    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        """A launch, behind the workspaces that it allocates."""
        if not isinstance(stmt, S.Launch):
            return stmt
        taken = _Taken()
        body = taken.rewrite(stmt.body)
        known = {name for node in S.walk(stmt) for name in node.parts("var", "vars")}
        known.update(stmt.block_vars, stmt.thread_vars)
        for alloc in taken.found:
            extents = [extent for extent in alloc.buffer.shape if isinstance(extent, Expr)]
            inner = [extent for extent in extents if not known.isdisjoint(extent.variables)]
            if inner:
                raise TileUnsupportedError(
                    f"the size of the workspace `{alloc.buffer.name}` is known in the kernel only",
                    expected="extents that are known before the launch",
                    got=f"`{inner[0]!r}`",
                    hint="allocate the most that any block needs",
                    loc=alloc.loc,
                )
        return [*taken.found, replace(stmt, body=body)] if taken.found else stmt


class _Taken(Rewriter):
    """Takes the allocations of global memory out of a kernel."""

    def __init__(self) -> None:
        self.found: list[S.Alloc] = []

    def stmt(self, stmt: S.Stmt) -> S.Stmt | None:
        if not isinstance(stmt, S.Alloc) or stmt.buffer.storage != "global":
            return stmt
        self.found.append(stmt)
        return None
