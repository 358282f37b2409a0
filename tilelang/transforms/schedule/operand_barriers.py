"""Per-operand mbarriers: tiles that are used at different times get their own pipelines.

A pipeline stage holds all tiles of an iteration. None can be used before the last has arrived, and
none is free before the last is. Where consumers use some tiles before others, the pipeline is split
into one for each set of tiles that are first used together. A set is waited for before its first
use and released after its last. So the keys of attention can be multiplied while the values are
still in flight.

Applied to pipelines that a producer fills for consumers. The order of each new pipeline is proved;
where it cannot be, the pipeline stays whole.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.visitor import Rewriter, map_stmts, rewrite_bodies
from tilelang.records import dataclass
from tilelang.target import Context
from tilelang.transforms.verify.schedule import refused


def split_barriers_by_operand(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with a pipeline for each set of tiles that is first used together."""
    if context.options.no_overlap:
        return func
    return rewrite_bodies(func, lambda launch: split_pipelines(launch.body))


def split_pipelines(body: S.Stmt) -> S.Stmt:
    """The body of one kernel."""
    return map_stmts(body, H.Pipeline, _split_pipeline)


def _split_pipeline(pipeline: H.Pipeline) -> S.Stmt:
    uses = _uses(pipeline) if isinstance(pipeline.body, H.Roles) else None
    if uses is None or len(uses.sets) < 2:
        return pipeline
    pipelines = _SplitPipelines(pipeline, uses).pipelines()
    return pipeline if refused(pipelines) else pipelines


@dataclass(frozen=True)
class _OperandUses:
    """The loop of the consumers and its statements without steps of the pipeline; ``sets``: tiles
    that are first used together -> the indices of their first and last uses."""

    loop: S.For
    stmts: tuple[S.Stmt, ...]
    sets: dict[tuple[E.Var, ...], tuple[int, int]]


def _uses(pipeline: H.Pipeline) -> _OperandUses | None:
    """Which statement uses which tile; None where that is not known."""
    loops = [
        node
        for node in S.find(pipeline.body, S.For)
        if any(isinstance(stmt, H.Wait) for stmt in S.flat(node.body))
    ]
    fills = S.find(pipeline.body, H.Acquire)
    if len(loops) != 1 or len(fills) != 1:
        return None
    body = S.flat(loops[0].body)
    if not (isinstance(body[0], H.Wait) and isinstance(body[-1], H.Release)):
        return None
    stmts = body[1:-1]
    if any(S.holds(stmt, H.PipelineStep, H.Run) for stmt in stmts):
        return None
    spans: dict[E.Var, tuple[int, int]] = {}
    for k, stmt in enumerate(stmts):
        for data in effects.used(stmt).intersection(pipeline.tiles):
            spans[data] = (spans.get(data, (k, k))[0], k)
    if set(spans) != set(pipeline.tiles):
        return None
    sets: dict[int, list[E.Var]] = {}
    for data in pipeline.tiles:
        sets.setdefault(spans[data][0], []).append(data)
    return _OperandUses(loops[0], stmts, {
        tuple(tiles): (first, max(spans[data][1] for data in tiles))
        for first, tiles in sorted(sets.items())
    })  # fmt: skip


class _SplitPipelines(Rewriter):
    """Rewrites a pipeline into one per set."""

    def __init__(self, pipeline: H.Pipeline, uses: _OperandUses) -> None:
        self.pipeline, self.uses = pipeline, uses
        self.pipes = [(E.Var("p", pipeline.pipe.dtype), tiles) for tiles in uses.sets]

    def pipelines(self) -> S.Stmt:
        """The pipelines around each other, the first one outside."""
        body = self.rewrite(self.pipeline.body)
        for pipe, tiles in reversed(self.pipes):
            body = replace(self.pipeline, pipe=pipe, tiles=tiles, body=body)
        return body

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if stmt is self.uses.loop:
            return replace(self.uses.loop, body=S.seq(*self.consumer_body()))
        if isinstance(stmt, H.Run) and stmt.pipe is self.pipeline.pipe:
            body = self.rewrite(stmt.body)
            for pipe, _ in reversed(self.pipes):
                body = replace(stmt, pipe=pipe, body=body)  # they count the same iterations
            return body
        if isinstance(stmt, S.Seq) and any(isinstance(inner, H.Acquire) for inner in stmt.stmts):
            return S.seq(*self.producer_stmts(stmt.stmts))
        return super()._visit(stmt)

    def consumer_body(self) -> list[S.Stmt]:
        """An iteration of the consumers."""
        wait, *_, release = S.flat(self.uses.loop.body)
        assert isinstance(wait, H.Wait) and isinstance(release, H.Release)
        body: list[S.Stmt] = []
        for k, stmt in enumerate(self.uses.stmts):
            for (pipe, _), (first, _last) in zip(self.pipes, self.uses.sets.values()):
                body += [replace(wait, pipe=pipe)] if first == k else []
            body.append(stmt)
            for (pipe, _), (_first, last) in zip(self.pipes, self.uses.sets.values()):
                body += [replace(release, pipe=pipe)] if last == k else []
        return body

    def producer_stmts(self, stmts: tuple[S.Stmt, ...]) -> list[S.Stmt]:
        """The producer's statements that fill a stage of each set, in the order of their uses."""
        acquire = next(stmt for stmt in stmts if isinstance(stmt, H.Acquire))
        start = stmts.index(acquire)
        end = next(k for k, stmt in enumerate(stmts) if isinstance(stmt, H.Commit))
        commit, inside = stmts[end], stmts[start + 1 : end]
        assert isinstance(commit, H.Commit)
        copies = [stmt for stmt in inside if isinstance(stmt, S.COPIES)]
        result = [*stmts[:start], *(stmt for stmt in inside if not isinstance(stmt, S.COPIES))]
        for pipe, tiles in self.pipes:
            result.append(replace(acquire, pipe=pipe))
            result += (
                replace(stmt, barrier=pipe if stmt.barrier is acquire.pipe else stmt.barrier)
                for stmt in copies if stmt.dst.buffer.data in set(tiles)
            )  # fmt: skip
            result.append(replace(commit, pipe=pipe))
        return [*result, *stmts[end + 1 :]]
