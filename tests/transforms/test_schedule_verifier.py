"""The verifier of pipelines: what the compiler writes is proved, whatever is broken is refused."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from contexts import SM_80
from schedule_steps import apply_part
from test_pipeline import notes, program

from tilelang.ir import expr as E, schedule as H, stmt as S
from tilelang.ir.legal import check
from tilelang.ir.visitor import Rewriter
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.normalize.simplify import simplify_func
from tilelang.transforms.verify.schedule import refusal

AHEAD = ("cp_async", "bulk", "mbarrier", "barrier")


def scheduled(func: S.PrimFunc, mechanism: str = "cp_async") -> S.PrimFunc:
    """With its loops pipelined by a mechanism, whatever the target has."""
    row = (MECHANISMS[mechanism],)
    part = "tilelang.transforms.schedule.pipeline"
    able = mock.patch(f"{part}.TmaFacts.refusal", lambda *_, **__: None)
    with mock.patch(f"{part}.choices", lambda context: row), able:
        made = apply_part(simplify_func(func, SM_80), SM_80)
    check(made, "scheduled")
    return made


def pipeline_of(func: S.PrimFunc) -> H.Pipeline:
    return next(node for node in S.walk(func.body) if isinstance(node, H.Pipeline))


# -- what is proved --
@pytest.mark.parametrize("mechanism", AHEAD)
@pytest.mark.parametrize("kind", ["plain", "index", "condition", "halves", "two tiles", "staged"])
@pytest.mark.parametrize(
    ("stages", "start", "stop"), [(2, 0, None), (3, 2, 9), (4, 0, 2), (3, 5, None)]
)
def test_pipelines_are_proved(
    mechanism: str, kind: str, stages: int, start: int, stop: int | None
) -> None:
    made = scheduled(program(stages=stages, kind=kind, start=start, stop=stop), mechanism)
    assert pipeline_of(made).mechanism == mechanism
    assert notes(made)[0].startswith(f"{min(stages, stop or stages)} stages")


# -- the fallback --
def test_the_next_mechanism_is_named_with_the_reason() -> None:
    rows = tuple(MECHANISMS[name] for name in ("cp_async", "barrier"))
    refusals = iter(["`a` may be overwritten while it is read", None])
    with (
        mock.patch("tilelang.transforms.schedule.pipeline.choices", lambda context: rows),
        mock.patch("tilelang.transforms.schedule.pipeline.refusal", lambda node: next(refusals)),
    ):
        made = apply_part(simplify_func(program(stages=3), SM_80), SM_80)
    assert notes(made) == [
        "3 stages: a copied ahead with plain copies, one barrier per iteration; "
        "not with cp.async: `a` may be overwritten while it is read"
    ]
    assert pipeline_of(made).mechanism == "barrier"


def test_a_loop_that_no_mechanism_fits_stays_serial() -> None:
    with mock.patch(
        "tilelang.transforms.schedule.pipeline.refusal", lambda node: "of `a` no order"
    ):
        made = apply_part(simplify_func(program(stages=3), SM_80), SM_80)
    assert notes(made) == ["serial: not with cp.async: of `a` no order"]
    assert not any(isinstance(node, H.Pipeline) for node in S.walk(made.body))


# -- mutants --
class Edit(Rewriter):
    """Puts something in the place of one statement."""

    def __init__(self, spot: S.Stmt, new: list[S.Stmt]) -> None:
        self.spot, self.new = spot, new

    def _visit(self, stmt: S.Stmt) -> Any:
        return self.new if stmt is self.spot else super()._visit(stmt)


def edited(node: H.Pipeline, spot: S.Stmt, *new: S.Stmt) -> H.Pipeline:
    made = Edit(spot, list(new)).rewrite(node)
    assert isinstance(made, H.Pipeline)
    return made


def moved(expr: E.Expr, by: int) -> E.Expr:
    """An index of versions, by some items later."""
    if isinstance(expr, E.Const):
        return E.const(int(expr) + by)
    assert isinstance(expr, E.Binary) and expr.op == "floormod"
    return (expr.a + by) % expr.b


def with_version(region: Any, by: int) -> Any:
    return replace(region, mins=(moved(region.mins[0], by), *region.mins[1:]))


def mutants(node: H.Pipeline) -> Iterator[tuple[str, H.Pipeline]]:
    """One thing changed in each."""
    row, stages = MECHANISMS[node.mechanism], node.stages
    yield "one stage fewer", replace(node, stages=stages - 1)
    yield "one stage more", replace(node, stages=stages + 1)
    for stmt in S.walk(node.body):
        name = type(stmt).__name__
        if isinstance(stmt, H.PipelineStep):
            yield f"{name} dropped", edited(node, stmt)
            yield f"{name} twice", edited(node, stmt, stmt, stmt)
            for by in (-1, 1, stages):
                number = E.as_expr(stmt.number + by)
                yield f"{name} of the item {by:+}", edited(node, stmt, replace(stmt, number=number))
        if isinstance(stmt, H.Wait) and row.counts_iterations:
            yield "one more ahead", edited(node, stmt, replace(stmt, ahead=stmt.ahead + 1))
        if isinstance(stmt, S.Copy) and stmt.dst.buffer.data in set(node.tiles):
            for by in (-1, 1):
                dst = with_version(stmt.dst, by)
                yield f"copy to the version {by:+}", edited(node, stmt, replace(stmt, dst=dst))
            yield "copy dropped", edited(node, stmt)
            yield "copy in another mode", edited(node, stmt, replace(stmt, mode="cluster"))
        if isinstance(stmt, S.Copy) and stmt.src.buffer.data in set(node.tiles):
            for by in (-1, 1):
                src = with_version(stmt.src, by)
                yield f"use of the version {by:+}", edited(node, stmt, replace(stmt, src=src))
        if isinstance(stmt, S.If):
            yield "without its condition", edited(node, stmt, stmt.then)
            never = replace(stmt, cond=E.as_expr(stmt.cond.a + 1 < stmt.cond.b))  # type: ignore[attr-defined]  # a comparison
            yield "one item fewer", edited(node, stmt, never)
        if isinstance(stmt, S.For) and isinstance(stmt.body, S.Seq):
            yield from of_loop(node, stmt)
        if isinstance(stmt, H.Run):
            for by in (-1, 1):
                count = E.as_expr(stmt.count + by)
                yield f"a count {by:+}", edited(node, stmt, replace(stmt, count=count))
            yield "a run twice", edited(node, stmt, stmt, stmt)
            yield "no run", edited(node, stmt, stmt.body)


def of_loop(node: H.Pipeline, loop: S.For) -> Iterator[tuple[str, H.Pipeline]]:
    """Statements of the loop in another order, or again."""
    assert isinstance(loop.body, S.Seq)
    first = next(stmt for stmt in loop.body.stmts if isinstance(stmt, H.Wait))
    *others, last = (stmt for stmt in loop.body.stmts if stmt is not first)
    orders = {
        "waits last": [*others, last, first],
        "waits before it releases": [*others, first, last],
        "releases first": [last, first, *others],
        "releases before its uses": [first, *others[:-1], last, others[-1]],
    }
    for what, stmts in orders.items():
        yield what, edited(node, loop, replace(loop, body=S.seq(*stmts)))
    yield "twice", edited(node, loop, loop, loop)


PROGRAMS = [("plain", 2, None), ("plain", 3, None), ("plain", 4, 9), ("halves", 3, None)]


@pytest.mark.parametrize("mechanism", AHEAD)
@pytest.mark.parametrize(("kind", "stages", "stop"), PROGRAMS)
def test_every_mutant_is_refused(mechanism: str, kind: str, stages: int, stop: int | None) -> None:
    node = pipeline_of(scheduled(program(stages=stages, kind=kind, stop=stop), mechanism))
    assert refusal(node) is None
    found = list(mutants(node))
    assert len(found) > 40
    assert [what for what, mutant in found if refusal(mutant) is None] == []


@pytest.mark.parametrize("mechanism", ["bulk", "mbarrier"])
@pytest.mark.parametrize(("stages", "stop"), [(2, None), (3, None), (2, 2), (4, 4), (3, 9)])
def test_every_mutant_of_runs_is_refused(mechanism: str, stages: int, stop: int | None) -> None:
    node = pipeline_of(scheduled(again(program(stages=stages, stop=stop)), mechanism))
    assert refusal(node) is None
    found = list(mutants(node))
    assert len(found) > 30
    assert [what for what, mutant in found if refusal(mutant) is None] == []


def again(func: S.PrimFunc) -> S.PrimFunc:
    """With its pipelined loop in another one."""

    class Around(Rewriter):
        def stmt(self, stmt: S.Stmt) -> S.Stmt:
            if not (isinstance(stmt, S.For) and stmt.kind == "pipelined"):
                return stmt
            var, zero, one = E.Var("again", stmt.var.dtype), E.const(0), E.const(1)
            return S.For(var=var, start=zero, stop=E.const(5), step=one, body=stmt)

    return replace(func, body=Around().rewrite(func.body))


MESSAGES = {
    "Wait dropped": "`a` is read in a version that is not waited for",
    "Release dropped": "a version is filled again before all threads have released it",
    "Acquire dropped": "`a` may be read where it has not been copied",
    "Commit dropped": "a stage is used that may not have arrived",
}


@pytest.mark.parametrize("what", MESSAGES)
def test_what_a_refusal_says(what: str) -> None:
    node = pipeline_of(scheduled(program(stages=3, stop=9)))
    spot = next(
        stmt for stmt in S.walk(next(n for n in S.walk(node) if isinstance(n, S.For)))
        if type(stmt).__name__ == what.split()[0]
    )  # fmt: skip
    assert refusal(edited(node, spot)) == MESSAGES[what]


def test_threads_may_change_a_version_until_they_release_it() -> None:
    node = pipeline_of(scheduled(program(stages=3, kind="plain")))
    use = next(
        stmt for stmt in S.walk(node)
        if isinstance(stmt, S.Copy) and stmt.src.buffer.data in set(node.tiles)
    )  # fmt: skip
    fill = S.Fill(dst=use.src, value=E.const(0, use.src.buffer.dtype))
    assert refusal(edited(node, use, use, fill)) is None
    release = next(stmt for stmt in S.walk(node) if isinstance(stmt, H.Release))
    spoilt = edited(node, release, release, fill)
    assert refusal(spoilt) == "`a` is written in a version that is not waited for"
