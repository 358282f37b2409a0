"""The program at the points of the pass list that a report looks at."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.options import Options
from tilelang.target import Target


def snapshots(func: S.PrimFunc, target: Target, options: Options) -> tuple[S.PrimFunc, ...]:
    """``func`` on its way through the passes: with expanded pipelines and tile operations as the
    program wrote them, with the layout of each tile and the copies for operations that cannot use
    it, with barriers, and as it is printed."""
    seen: dict[str, S.PrimFunc] = {}
    final = lower(func, target, options, seen.__setitem__)
    return seen["schedule_launches"], seen["infer_layouts"], seen["insert_barriers"], final


def allocated(stmt: S.Stmt) -> Mapping[Var, Buffer]:
    """Every buffer that ``stmt`` allocates, by its storage."""
    return {n.buffer.data: n.buffer for n in S.find(stmt, S.Alloc)}
