"""What pipelines and roles become on a machine, mechanism by mechanism, and that they compute."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from contexts import SM_80
from tensor_types import F32, I32
from test_gemm_double_buffer import check as simulated, product
from test_pipeline import notes, numbers, program
from test_schedule_verifier import scheduled
from thread_races import simulate

import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower, pass_list
from tilelang.ir import expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.legal import check
from tilelang.ir.visitor import Rewriter
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.lower.pipelines import lower_pipelines
from tilelang.transforms.lower.roles import lower_roles
from tilelang.transforms.verify.schedule import refusal


def choosing(mechanism: str) -> AbstractContextManager[Any]:
    """Pipelined loops use one mechanism, whatever the target has."""
    row = (MECHANISMS[mechanism],)
    return mock.patch("tilelang.transforms.schedule.pipeline.choices", lambda context: row)


def same(func: S.PrimFunc, made: S.PrimFunc, *args: Any) -> None:
    """``made`` computes what ``func`` computes."""
    want, got = ([np.array(a) if np.ndim(a) else a for a in args] for _ in range(2))
    interpret.run(func, want)
    interpret.run(made, got)
    for a, b in zip(want, got):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("mechanism", ["bulk", "mbarrier", "barrier"])
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("stop", [0, 1, 3, 8])
def test_every_mechanism_computes_the_same(mechanism: str, stages: int, stop: int) -> None:
    for kind in ("plain", "halves", "two tiles"):
        func = program(stages=stages, kind=kind)
        made = lower_pipelines(scheduled(func, mechanism), SM_80)
        order = np.zeros(32, np.int32)
        same(func, made, numbers(160, 8), order, numbers(160, 8), stop)


@pytest.mark.parametrize("mechanism", ["mbarrier", "barrier"])
@pytest.mark.parametrize("K", [32, 64, 160])
def test_mechanisms_with_plain_copies_run_on_threads(mechanism: str, K: int) -> None:
    with choosing(mechanism):
        simulated(product((32, 32, T.dynamic("K")), stages=3), 32, 32, K)


def repeated(stages: int, trips: int | None, kind: str = "plain") -> S.PrimFunc:
    """A pipelined loop in another one, under a condition, with as many iterations as ``trips`` or
    as each row of blocks says."""

    @T.prim_func
    def kernel(A: F32[160, 8], N: I32[9], O: F32[160, 8], n: T.int32):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=32):
            for r in T.serial(n):
                a = T.alloc_shared((8, 8), "float32")
                c = T.alloc_fragment((8, 8), "float32")
                if N[r] >= 0:
                    T.clear(c)
                    for k in T.Pipelined(N[r] if trips is None else trips, num_stages=stages):
                        T.copy(A[(r + k) * 8, 0], a)
                        for i, j in T.Parallel(8, 8):
                            c[i, j] += a[i, j]
                    T.copy(c, O[r * 8, 0])
                elif kind == "used elsewhere":
                    T.copy(a, O[r * 8, 0])

    return kernel


@pytest.mark.parametrize("mechanism", ["bulk", "mbarrier"])
@pytest.mark.parametrize("trips", [None, 2, 4, 6])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_runs_compute_the_same(mechanism: str, stages: int, trips: int | None) -> None:
    func = repeated(stages, trips)
    counts = np.array([1, 3, 0, 2, -1, 7, 4, 1, 5], np.int32)
    made = scheduled(func, mechanism)
    assert pipeline_of(made).mechanism == mechanism
    for each in (made, lower_pipelines(made, SM_80)):
        for n in (0, 1, 9):
            same(func, each, numbers(160, 8), counts, numbers(160, 8), n)


@pytest.mark.parametrize("n", [0, 1, 9])
@pytest.mark.parametrize("trips", [None, 4])
def test_runs_on_threads(trips: int | None, n: int) -> None:
    func = repeated(3, trips)
    with choosing("mbarrier"):
        lowered = lower(func, SM_80.target, Options())
    assert "handed" in lowered.script()
    A, N, O = (param for param in lowered.params if isinstance(param, Buffer))
    (end,) = (param for param in lowered.params if isinstance(param, E.Var))
    source, counts = numbers(160, 8), np.array([1, 3, 0, 2, -1, 7, 4, 1, 5], np.int32)
    want, found = np.zeros((160, 8), np.float32), np.zeros((160, 8), np.float32)
    interpret.run(func, [source, counts, want, n])
    simulate(lowered.body, {A: source, N: counts, O: found}, {end: n})
    np.testing.assert_array_equal(found, want)


def test_a_tile_that_is_used_between_runs_has_no_mbarriers() -> None:
    made = scheduled(repeated(3, 4, "used elsewhere"), "mbarrier")
    why = "serial: not with plain copies: `a` is used where the pipeline does not run"
    assert [note for note in notes(made) if "serial" in note] == [why]


# -- roles -------------------------------------------------------------------------------------
def by_roles(stages: int, items: Any, mechanism: str = "mbarrier") -> S.PrimFunc:
    """Warps 2 and 3 copy rows of ``A``; warps 0 and 1 write their sums of neighbours to ``O``."""

    @T.prim_func
    def kernel(A: F32[12, 256], O: F32[12, 256], n: T.int32):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((stages, 256), "float32")
            b = T.alloc_shared((256,), "float32")
            for k in T.serial(n if items is None else items):
                T.copy(A[k, 0:256], a[k % stages, 0:256])
            for k in T.serial(n if items is None else items):
                for i in T.Parallel(256):
                    b[i] = a[k % stages, i] + 1
                for i in T.Parallel(256):
                    O[k, i] = b[i] + b[255 - i]

    return replace(kernel, body=_Roles(stages, mechanism).rewrite(kernel.body))


class _Roles(Rewriter):
    """The two loops of a kernel as producer and consumer of a pipeline over its first tile."""

    def __init__(self, stages: int, mechanism: str) -> None:
        self.stages, self.mechanism = stages, mechanism

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if not isinstance(stmt, S.Launch):
            return stmt
        assert isinstance(stmt.body, S.Seq)
        tile, other, fill, use = stmt.body.stmts
        assert isinstance(tile, S.Alloc) and isinstance(fill, S.For) and isinstance(use, S.For)
        pipe = E.Var("p", DType("handle"))

        def around(loop: S.For, *kinds: type[H.PipelineStep]) -> S.For:
            first, last = (kind(pipe=pipe, number=loop.var) for kind in kinds)
            return replace(loop, body=S.seq(first, loop.body, last))

        producer = around(fill, H.Acquire, H.Commit)
        consumer = around(use, H.Wait, H.Release)
        roles = H.Roles(
            branches=(
                H.Role(name="producer", first=64, count=64, registers=40, body=producer),
                H.Role(name="consumer", first=0, count=64, registers=232, body=consumer),
            )
        )
        pipeline = H.Pipeline(
            pipe=pipe, stages=self.stages, tiles=(tile.buffer.data,), mechanism=self.mechanism,
            body=roles,
        )  # fmt: skip
        return replace(stmt, body=S.seq(tile, other, pipeline))


def pipeline_of(func: S.PrimFunc) -> H.Pipeline:
    return next(node for node in S.walk(func.body) if isinstance(node, H.Pipeline))


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_pipelines_between_roles_are_proved(stages: int) -> None:
    assert refusal(pipeline_of(by_roles(stages, None))) is None
    assert refusal(pipeline_of(by_roles(stages, 7))) is None


def test_roles_cannot_share_a_barrier() -> None:
    node = pipeline_of(by_roles(2, None, "barrier"))
    assert refusal(node) == "deadlock: threads wait for each other"


@pytest.mark.parametrize("kind", [H.Acquire, H.Commit, H.Wait, H.Release])
def test_a_step_that_a_role_leaves_out_is_refused(kind: type[S.Stmt]) -> None:
    class Drop(Rewriter):
        def stmt(self, stmt: S.Stmt) -> S.Stmt | None:
            return None if isinstance(stmt, kind) else stmt

    node = Drop().rewrite(pipeline_of(by_roles(2, None)))
    assert isinstance(node, H.Pipeline) and refusal(node) is not None


def calls_in(stmt: S.Stmt) -> list[str]:
    """The operations of a statement with their operands that are constants."""
    found = []
    for node in S.walk(stmt):
        if isinstance(node, S.Eval) and isinstance(node.value, E.Call):
            given = [str(int(a)) for a in node.value.args if isinstance(a, E.Const)]
            found.append(" ".join((node.value.op, *given)))
    return found


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 7, 12])
def test_roles_run_on_threads(stages: int, items: int) -> None:
    func = by_roles(stages, None)
    lowered = lower_from_roles(func, "cuda -arch=sm_80")
    source = numbers(12, 256)
    found = np.zeros((12, 256), np.float32)
    A, O = (param for param in lowered.params if isinstance(param, Buffer))
    (n,) = (param for param in lowered.params if not isinstance(param, Buffer))
    assert isinstance(n, E.Var)
    simulate(lowered.body, {A: source, O: found}, {n: items})
    wanted = source + source[:, ::-1] + 2
    np.testing.assert_array_equal(found[:items], wanted[:items])
    assert not found[items:].any()


def lower_from_roles(func: S.PrimFunc, target: str) -> S.PrimFunc:
    """Through the passes behind the one that would write the roles."""
    context = Context(parse_target(target), Options())
    steps = [step for step in pass_list(context.target) if step.when(context)]
    first = next(k for k, step in enumerate(steps) if step.name == "schedule_launches")
    for step in (*steps[: first - 1], *steps[first:]):
        func = step.run(func, context)
    check(func, "thread")
    return func


def test_roles_have_their_own_named_barriers() -> None:
    lowered = lower_from_roles(by_roles(2, 7), "cuda -arch=sm_80")
    branches = [node for node in S.walk(lowered.body) if isinstance(node, S.If)]
    branch = next(node for node in branches if "mbarrier_arrive" in calls_in(node))
    inside = calls_in(branch)
    assert [op for op in inside if op == "sync_threads"] == []
    assert "sync_threads 1 64" in inside and inside.count("mbarrier_arrive") == 2
    assert not any(op.startswith("set_max_nreg") for op in inside)


def test_budgets_of_registers_act_where_warps_may_hand_them_on() -> None:
    context = Context(parse_target("cuda -arch=sm_90a"), Options())
    text = lower_roles(by_roles(2, 7), context).script()
    lines = [line.strip() for line in text.splitlines()]
    assert [line for line in lines if line.startswith(("if ", "else", "T.set_max"))] == [
        "if tx < 64:", "T.set_max_nreg(232, 0)",
        "else:", "T.set_max_nreg(40, 0)",
    ]  # fmt: skip
