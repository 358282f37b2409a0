"""Transposes, im2col and atomic updates by tiles become the loops over elements that they mean.

Threads share these out as they do any parallel loop, with the layouts that fragments give or, on
memory, in vectors. Updates that TMA makes, copies and fills stay whole until they are
lowered: pipelines, exchanges and wide stores know them as what they are.

Stands behind the passes that plan pipelines, which see these operations as whole too, and before
layouts are inferred.
"""

from __future__ import annotations

from tilelang.ir import stmt as S
from tilelang.ir.elementwise import loop_of
from tilelang.ir.visitor import map_stmts
from tilelang.target import Context
from tilelang.transforms.analysis.tma import is_complete


def expand_elementwise(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with parallel loops for what only loops over elements can do."""

    def expanded(stmt: S.TileOp) -> S.Stmt | None:
        is_ahead = isinstance(stmt, S.COPIES) and stmt.mode != "copy"
        return stmt if is_ahead or is_complete(stmt) else loop_of(stmt)

    return func.with_body(map_stmts(func.body, (S.ElementOp, S.AtomicTile), expanded))
