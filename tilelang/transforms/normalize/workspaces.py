"""Global workspaces that a kernel allocates belong to the launch, not to a thread.

``T.alloc_global`` inside ``T.Kernel`` is memory that all blocks of the launch share. It is made
before the launch, as those that stand outside of kernels are.
"""

from __future__ import annotations

from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.expr import Expr
from tilelang.ir.visitor import map_stmts, without_allocations
from tilelang.target import Context


def hoist_workspaces(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with the global workspaces of its launches in front of these.

    Raises:
        TileUnsupportedError: an extent that only the kernel knows.
    """
    return func.with_body(map_stmts(func.body, S.Launch, _hoisted))


def _hoisted(launch: S.Launch) -> list[S.Stmt]:
    """A launch, behind the workspaces that it allocates."""
    allocs = S.find(launch.body, S.Alloc)
    workspaces = [alloc for alloc in allocs if alloc.buffer.storage == "global"]
    known = S.bound(launch)
    for alloc in workspaces:
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
    body = without_allocations(launch.body, {alloc.buffer.data for alloc in workspaces})
    return [*workspaces, launch.with_body(body)]
