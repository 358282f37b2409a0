"""Tiles that are used at different times have barriers of their own.

An item of a pipeline has all tiles of an iteration: nobody uses one before the last has come, and
none is free before the last is. Where consumers use some tiles before others, the pipeline becomes
one for each set of tiles that are first used together: a set is waited for where its first use
stands and released behind its last one. The keys of attention can be multiplied while the values
are on their way.

Done to pipelines that a producer fills for consumers; the order of each new one is proved as ever,
and where it cannot be, the pipeline stays whole.
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
    return rewrite_bodies(func, lambda launch: split(launch.body))


def split(body: S.Stmt) -> S.Stmt:
    """The body of one kernel."""
    return map_stmts(body, H.Pipeline, _split)


def _split(pipeline: H.Pipeline) -> S.Stmt:
    uses = _uses(pipeline) if isinstance(pipeline.body, H.Roles) else None
    if uses is None or len(uses.sets) < 2:
        return pipeline
    made = _Parts(pipeline, uses).pipelines()
    return pipeline if refused(made) else made


@dataclass(frozen=True)
class _Uses:
    """The loop of the consumers and its statements without steps of the pipeline; ``sets``: tiles
    that are first used together -> the places of their first and last uses."""

    loop: S.For
    items: tuple[S.Stmt, ...]
    sets: dict[tuple[E.Var, ...], tuple[int, int]]


def _uses(pipeline: H.Pipeline) -> _Uses | None:
    """Who uses which tile when; None where that cannot be told apart."""
    loops = [
        node
        for node in S.find(pipeline.body, S.For)
        if any(isinstance(item, H.Wait) for item in S.flat(node.body))
    ]
    fills = S.find(pipeline.body, H.Acquire)
    if len(loops) != 1 or len(fills) != 1:
        return None
    found = S.flat(loops[0].body)
    if not (isinstance(found[0], H.Wait) and isinstance(found[-1], H.Release)):
        return None
    items = found[1:-1]
    if any(S.holds(item, H.PipelineStep, H.Run) for item in items):
        return None
    spans: dict[E.Var, tuple[int, int]] = {}
    for k, item in enumerate(items):
        for data in effects.used(item).intersection(pipeline.tiles):
            spans[data] = (spans.get(data, (k, k))[0], k)
    if set(spans) != set(pipeline.tiles):
        return None
    sets: dict[int, list[E.Var]] = {}
    for data in pipeline.tiles:
        sets.setdefault(spans[data][0], []).append(data)
    return _Uses(loops[0], items, {
        tuple(tiles): (first, max(spans[data][1] for data in tiles))
        for first, tiles in sorted(sets.items())
    })  # fmt: skip


class _Parts(Rewriter):
    """Writes the pipelines of the sets."""

    def __init__(self, pipeline: H.Pipeline, uses: _Uses) -> None:
        self.pipeline, self.uses = pipeline, uses
        self.pipes = [(E.Var("p", pipeline.pipe.dtype), tiles) for tiles in uses.sets]

    def pipelines(self) -> S.Stmt:
        """The pipelines around each other, the first one outside."""
        made = self.rewrite(self.pipeline.body)
        for pipe, tiles in reversed(self.pipes):
            made = replace(self.pipeline, pipe=pipe, tiles=tiles, body=made)
        return made

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        if stmt is self.uses.loop:
            return replace(self.uses.loop, body=S.seq(*self.used()))
        if isinstance(stmt, H.Run) and stmt.pipe is self.pipeline.pipe:
            made = self.rewrite(stmt.body)
            for pipe, _ in reversed(self.pipes):
                made = replace(stmt, pipe=pipe, body=made)  # they count the same items
            return made
        if isinstance(stmt, S.Seq) and any(isinstance(item, H.Acquire) for item in stmt.stmts):
            return S.seq(*self.filled(stmt.stmts))
        return super()._visit(stmt)

    def used(self) -> list[S.Stmt]:
        """An iteration of the consumers."""
        wait, *_, release = S.flat(self.uses.loop.body)
        assert isinstance(wait, H.Wait) and isinstance(release, H.Release)
        made: list[S.Stmt] = []
        for k, item in enumerate(self.uses.items):
            for (pipe, _), (first, _last) in zip(self.pipes, self.uses.sets.values()):
                made += [replace(wait, pipe=pipe)] if first == k else []
            made.append(item)
            for (pipe, _), (_first, last) in zip(self.pipes, self.uses.sets.values()):
                made += [replace(release, pipe=pipe)] if last == k else []
        return made

    def filled(self, stmts: tuple[S.Stmt, ...]) -> list[S.Stmt]:
        """What the producer does for an item of each set, in the order of their uses."""
        acquire = next(item for item in stmts if isinstance(item, H.Acquire))
        start = stmts.index(acquire)
        end = next(k for k, item in enumerate(stmts) if isinstance(item, H.Commit))
        commit, inside = stmts[end], stmts[start + 1 : end]
        assert isinstance(commit, H.Commit)
        copies = [item for item in inside if isinstance(item, S.Copy)]
        made = [*stmts[:start], *(item for item in inside if not isinstance(item, S.Copy))]
        for pipe, tiles in self.pipes:
            made.append(replace(acquire, pipe=pipe))
            made += (
                replace(item, barrier=pipe if item.barrier is acquire.pipe else item.barrier)
                for item in copies if item.dst.buffer.data in set(tiles)
            )  # fmt: skip
            made.append(replace(commit, pipe=pipe))
        return [*made, *stmts[end + 1 :]]
