"""Elide the "empty" mbarriers of a pipeline where barriers of the block free its versions.

A pipeline that TMA fills has two mbarriers per version, "full" and "empty". Where every iteration
has a barrier between the last use of a version and the copy that overwrites it, the "empty"
mbarrier is redundant, and the pipeline gets the mechanism ``bulk_full``, which has none. The
verifier must prove the order by those barriers (of the block or of other pipelines); otherwise the
pipeline stays as it is.

A release marks the end of the uses. So it moves up to the last use: past barriers, and past
statements that neither use the tiles nor wait.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.verify.schedule import is_block_barrier, refusal

_ELIDED = {"bulk": "bulk_full"}
_ACCESSES = (Effect.NONE, Effect.HINT, Effect.READ, Effect.WRITE)
_STAY = (*S.LEAVES, S.While, S.Gemm, H.WaitProducts, H.PipelineStep,
         H.Pipeline, H.Run, H.Roles)  # fmt: skip


def without_empty_barriers(body: S.Stmt) -> S.Stmt:
    """``body``, all barriers and waits placed, without mbarriers for what barriers order."""
    others: dict[E.Expr, str] = {node.pipe: node.mechanism for node in S.find(body, H.Pipeline)}

    def cheaper(pipeline: H.Pipeline) -> S.Stmt:
        """A pipeline without the second mbarrier, where that is proved."""
        mechanism = _ELIDED.get(pipeline.mechanism)
        if mechanism is None:
            return pipeline
        early = map_stmts(pipeline.body, S.Seq, partial(_hoist_releases, pipeline))
        then = replace(pipeline, mechanism=mechanism, body=early)
        return pipeline if refusal(then, others) is not None else then

    is_cheapest = _ELIDED.keys().isdisjoint(others.values())
    return body if is_cheapest else map_stmts(body, H.Pipeline, cheaper)


def _hoist_releases(pipeline: H.Pipeline, seq: S.Seq) -> S.Stmt:
    """A sequence with the releases of a pipeline right after the last use of their version."""
    stmts: list[S.Stmt] = []
    for stmt in seq.stmts:
        at = len(stmts)
        if isinstance(stmt, H.Release) and stmt.pipe is pipeline.pipe:
            while at and _can_move_before(pipeline, stmts[at - 1]):
                at -= 1
        stmts.insert(at, stmt)
    return seq.of(stmts)


def _can_move_before(pipeline: H.Pipeline, stmt: S.Stmt) -> bool:
    """Whether a release may move before ``stmt``."""
    if is_block_barrier(stmt):
        return True
    tiles = set(pipeline.tiles)
    for node in S.walk(stmt):
        if isinstance(node, _STAY):
            return False
        if any(access.data in tiles for access in effects.accesses(node)):
            return False
        if any(call.atom.effect not in _ACCESSES or call.atom.own_order for call in node.calls()):
            return False
    return True
