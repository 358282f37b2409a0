"""The program at the points of the pass list that a report looks at."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Var
from tilelang.options import Options
from tilelang.records import dataclass
from tilelang.target import Target


@dataclass(frozen=True)
class Snapshots:
    """A program on its way through the passes.

    Attributes:
        staged: pipelines are expanded, tile operations as the program wrote them.
        laid: every tile has its layout; operations that could not use one work on copies.
        ordered: with barriers.
        final: what is printed as CUDA.
    """

    staged: S.PrimFunc
    laid: S.PrimFunc
    ordered: S.PrimFunc
    final: S.PrimFunc


def snapshots(func: S.PrimFunc, target: Target, options: Options) -> Snapshots:
    """``func`` lowered for a GPU, with what it was on the way."""
    seen: dict[str, S.PrimFunc] = {}
    final = lower(func, target, options, seen.__setitem__)
    return Snapshots(
        seen["schedule_launches"], seen["infer_layouts"], seen["insert_barriers"], final
    )


def allocated(stmt: S.Stmt) -> Mapping[Var, Buffer]:
    """Every buffer that ``stmt`` allocates, by its storage."""
    return {n.buffer.data: n.buffer for n in S.find(stmt, S.Alloc)}
