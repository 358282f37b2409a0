"""Pipelines to what the target orders them with: each statement becomes the steps of its row.

Stands behind the lowering of tile operations, which still asks what waits for what (loads of a
product move across a ``Wait``), and before the plan of shared memory, which counts barriers.
"""

from __future__ import annotations

from tilelang.errors import InternalError
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.visitor import Rewriter
from tilelang.passes.analysis.mechanism import MECHANISMS, Mechanism, Step
from tilelang.target import Context, nvidia


def lower_pipelines(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without statements of the schedule."""
    body = _Lower().rewrite(func.body)
    return func if body is func.body else func.with_body(body)


class _Lower(Rewriter):
    def __init__(self) -> None:
        self.mechanisms: dict[E.Expr, Mechanism] = {}

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if isinstance(stmt, H.Pipeline):
            row = self.mechanisms[stmt.pipe] = MECHANISMS[stmt.mechanism]
            end = H.Wait(pipe=stmt.pipe, number=E.const(0), loc=stmt.loc)
            return [self.rewrite(stmt.body), *(self.step(step, end) for step in row.close)]
        return super()._visit(stmt)

    def stmt(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt] | None:
        if not isinstance(stmt, H.PipelineStep):
            return stmt
        row = self.mechanisms[stmt.pipe]
        match stmt:
            case H.Acquire():
                steps = row.acquire
            case H.Commit():
                steps = row.commit
            case H.Wait():
                steps = row.wait
            case _:
                steps = row.release
        return [self.step(step, stmt) for step in steps]

    def step(self, step: Step, stmt: H.PipelineStep) -> S.Stmt:
        """One step of ``stmt``."""
        match step:
            case Step.CLOSE_GROUP:
                call = E.call(nvidia.CP_ASYNC_COMMIT)
            case Step.WAIT_GROUPS:
                ahead = stmt.ahead if isinstance(stmt, H.Wait) else 0
                call = E.call(nvidia.CP_ASYNC_WAIT, count=ahead)
            case Step.MEET:
                call = E.call("sync_threads")
            case _:
                raise InternalError(f"no instruction for the step {step.name}", loc=stmt.loc)
        return S.Eval(value=call, loc=stmt.loc)
