"""What pipelines and roles become on a machine, mechanism by mechanism, and that they compute."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import numpy as np
import pytest
from contexts import SM_80
from tensor_types import F32, I32
from test_gemm_double_buffer import check as simulated, product
from test_pipeline import notes, numbers, program
from test_schedule_verifier import scheduled
from thread_races import Watch

import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower
from tilelang.ir import schedule as H, stmt as S
from tilelang.options import Options
from tilelang.transforms.analysis.mechanism import MECHANISMS
from tilelang.transforms.lower.pipelines import lower_pipelines


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
@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize("stop", [0, 1, 8])
def test_every_mechanism_computes_the_same(mechanism: str, stages: int, stop: int) -> None:
    for kind in ("plain", "halves", "two tiles"):
        func = program(stages=stages, kind=kind)
        made = lower_pipelines(scheduled(func, mechanism), SM_80)
        order = np.zeros(32, np.int32)
        same(func, made, numbers(160, 8), order, numbers(160, 8), stop)


@pytest.mark.parametrize("mechanism", ["mbarrier", "barrier"])
@pytest.mark.parametrize("K", [32, 160])
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
@pytest.mark.parametrize("trips", [None, 4])
@pytest.mark.parametrize("stages", [2, 3])
def test_runs_compute_the_same(mechanism: str, stages: int, trips: int | None) -> None:
    func = repeated(stages, trips)
    counts = np.array([1, 3, 0, 2, -1, 7, 4, 1, 5], np.int32)
    made = scheduled(func, mechanism)
    assert pipeline_of(made).mechanism == mechanism
    for each in (made, lower_pipelines(made, SM_80)):
        for n in (0, 1, 9):
            same(func, each, numbers(160, 8), counts, numbers(160, 8), n)


@pytest.mark.parametrize("trips", [None, 4])
def test_runs_on_threads(trips: int | None) -> None:
    func = repeated(3, trips)
    with choosing("mbarrier"):
        lowered = lower(func, SM_80.target, Options())
    assert "handed" in lowered.script()
    counts = np.array([1, 3, 0, 2, -1, 7, 4, 1, 5], np.int32)
    want, found = np.zeros((160, 8), np.float32), np.zeros((160, 8), np.float32)
    interpret.run(func, [numbers(160, 8), counts, want, 9])
    interpret.run(lowered, [numbers(160, 8), counts, found, 9], observer=Watch())
    np.testing.assert_array_equal(found, want)


def test_a_tile_that_is_used_between_runs_has_no_mbarriers() -> None:
    made = scheduled(repeated(3, 4, "used elsewhere"), "mbarrier")
    why = "serial: not with plain copies: `a` is used where the pipeline does not run"
    assert [note for note in notes(made) if "serial" in note] == [why]


def pipeline_of(func: S.PrimFunc) -> H.Pipeline:
    return next(node for node in S.walk(func.body) if isinstance(node, H.Pipeline))
