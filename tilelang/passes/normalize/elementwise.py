"""Transposes, im2col and atomic updates by tiles become the loops over elements that they mean.

Threads share these out as they do any parallel loop, with the layouts that fragments give or, on
memory, in vectors. Updates that the copy unit makes, copies and fills stay whole until they are
lowered: pipelines, exchanges and wide stores know them as what they are.

Stands behind the passes that plan pipelines, which see these operations as whole too, and before
layouts are inferred.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import stmt as S
from tilelang.ir.define import loop_of
from tilelang.ir.visitor import Rewriter
from tilelang.passes.analysis.tma import is_complete
from tilelang.target import Context

_KINDS = (S.ElementOp, S.AtomicTile)


def expand_elementwise(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with parallel loops for what only loops over elements can do."""
    body = _Expand().rewrite(func.body)
    return func if body is func.body else replace(func, body=body)


class _Expand(Rewriter):
    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        return loop_of(stmt) if isinstance(stmt, _KINDS) and not is_complete(stmt) else stmt
