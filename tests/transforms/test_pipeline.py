"""Pipelined loops: what runs ahead, what stays serial, and that results never change."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import SM_75, SM_80
from executors import INTERPRETER, SM_90A, compiled, holds
from hypothesis import given, settings, strategies as st
from schedule_steps import apply_part
from tensor_types import F16, F32, I32

import tilelang.language as T
from tilelang import interpret
from tilelang.interpret.observe import Observer
from tilelang.ir import stmt as S
from tilelang.ir.legal import check
from tilelang.tools import explain
from tilelang.transforms.lower.pipelines import lower_pipelines
from tilelang.transforms.normalize.simplify import simplify_func
from tilelang.transforms.sync.barriers import insert_barriers


def pipelined(func: S.PrimFunc, context: Any = SM_80) -> S.PrimFunc:
    """After the passes before it; what comes out is legal."""
    made = apply_part(simplify_func(func, context), context)
    check(made, "scheduled")
    return made


def notes(func: S.PrimFunc) -> list[str]:
    """What became of each loop."""
    loops = [node for node in S.walk(func.body) if isinstance(node, S.For)]
    return [loop.hints.pipeline_note for loop in loops if loop.hints.pipeline_note is not None]


# -- execution in which asynchronous copies arrive as late as they may --
class _UnderWay(Observer):
    """The copies that have not arrived."""

    def __init__(self) -> None:
        self.copies: list[object] = []

    def begin(self, block: Any, copy: object) -> None:
        self.copies.append(copy)

    def end(self, block: Any, copy: object) -> None:
        self.copies.remove(copy)


def same_results(func: S.PrimFunc, *args: Any, expect: str | None = None) -> S.PrimFunc:
    """The pipelined program does what the program does, with its steps in order; so does what
    they become, however late copies arrive."""
    made = pipelined(func)
    want = [np.array(item) if isinstance(item, np.ndarray) else item for item in args]
    interpret.run(func, want)
    ordered = insert_barriers(made, SM_80)
    lowered = lower_pipelines(ordered, SM_80)
    check(lowered, "scheduled")
    for program, late in ((ordered, False), (lowered, True)):
        got = [np.array(item) if isinstance(item, np.ndarray) else item for item in args]
        under_way = _UnderWay()
        interpret.run(program, got, observer=under_way, late_copies=late)
        assert not under_way.copies
        for a, b in zip(want, got):
            np.testing.assert_array_equal(a, b)
    if expect is not None:
        assert any(note.startswith(expect) for note in notes(made)), notes(made)
    return made


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(len(shape) + shape[0])
    return rng.integers(-4, 5, shape).astype(np.float32)


def test_targets_without_asynchronous_copies_keep_the_loop() -> None:
    made = pipelined(program(stages=3), SM_75)
    assert notes(made) == ["serial: the target has no asynchronous copies"]
    assert not any(isinstance(n, S.Copy) and n.mode != "copy" for n in S.walk(made.body))
    assert not any(isinstance(n, S.For) and n.kind == "pipelined" for n in S.walk(made.body))


ORDER = np.array([3, 7, 1, 5, 0, 6, 2, 4] * 4, np.int32)


# -- shapes of programs --
def program(  # type: ignore[no-untyped-def]  # a traced function
    *, stages: int, start: int = 0, stop: Any = None, kind: str = "plain", threads: int = 32
):
    @T.prim_func
    def kernel(A: F32[160, 8], I: I32[32], O: F32[160, 8], n: T.int32):
        with T.Kernel(1, threads=threads) as bx:
            a = T.alloc_shared((8, 8), "float32")
            b = T.alloc_shared((8, 8), "float32")
            if kind.endswith("after"):
                T.clear(a)
            for k in T.Pipelined(start, n if stop is None else stop, num_stages=stages):
                if kind == "break":
                    if k == start + 2:
                        T.loop_break()
                if kind in ("part condition", "one half", "late"):
                    if k == start:
                        T.clear(a)
                if kind == "late":
                    T.copy(a, O[k * 8, 0])
                if kind in ("halves", "one half"):
                    T.copy(A[k * 8 : k * 8 + 4, :], a[0:4, :])
                    if kind == "halves":
                        T.copy(A[k * 8 + 4 : k * 8 + 8, :], a[4:8, :])
                elif kind == "source written":
                    T.copy(O[k * 8, 0], a)
                elif kind == "condition":
                    if I[k] > 3:
                        T.copy(A[k * 8, 0], a)
                        T.copy(a, O[k * 8, 0])
                elif kind == "part condition":
                    if I[k] > 3:
                        T.copy(A[k * 8, 0], a)
                else:
                    row = I[k] * 8 if kind == "index" else k * 8
                    T.copy(A[row, 0], a)
                if kind == "changed":
                    for i, j in T.Parallel(8, 8):
                        a[i, j] = a[i, j] * 2
                if kind == "index":
                    for i, j in T.Parallel(8, 8):
                        O[k * 8 + i, j] = a[i, j] + row
                elif kind == "source written":
                    for i, j in T.Parallel(8, 8):
                        O[k * 8 + 8 + i, j] = a[i, j] + 1
                elif kind == "two tiles":
                    T.copy(A[0, 0], b)
                    for i, j in T.Parallel(8, 8):
                        O[k * 8 + i, j] = a[i, j] + b[j, i]
                elif kind == "staged":
                    for i, j in T.Parallel(8, 8):
                        b[j, i] = a[i, j] * 3
                    T.copy(b, O[k * 8, 0])
                elif kind not in ("condition", "late"):
                    T.copy(a, O[k * 8, 0])
            if kind == "fresh after":
                T.fill(a, 7)
            if kind.endswith("after"):
                T.copy(a, O[152, 0])

    return kernel


CASES = {
    "plain": "stages: a copied",
    "index": "stages: a copied",
    "condition": "stages: a copied",
    "part condition": "serial: no copy to shared memory in it can run ahead",
    "halves": "stages: a copied",
    "one half": "serial: no copy",
    "late": "serial: no copy",
    "changed": "stages: a copied",
    "source written": "serial: no copy",
    "two tiles": "stages: a, b copied",
    "staged": "stages: a copied",
    "break": "serial: its iterations can end early",
    "fresh after": "stages: a copied",
    "used after": "serial: `a` is used after the loop",
}


@pytest.mark.parametrize("kind", CASES)
@pytest.mark.parametrize(("start", "stop"), [(0, 1), (2, 9)])
def test_results_do_not_change(kind: str, start: int, stop: int) -> None:
    func = program(stages=3, start=start, kind=kind)
    made = same_results(func, numbers(160, 8), ORDER, numbers(160, 8), stop)
    assert CASES[kind] in notes(made)[0]


@settings(max_examples=25, deadline=None)
@given(
    kind=st.sampled_from(sorted(CASES)),
    stages=st.integers(0, 5),
    start=st.integers(-2, 4),
    length=st.integers(-2, 9),
    constant=st.booleans(),
)
def test_random_shapes(kind: str, stages: int, start: int, length: int, constant: bool) -> None:
    start = max(start, 0)
    stop = max(start + length, 0)
    func = program(stages=stages, start=start, stop=stop if constant else None, kind=kind)
    same_results(func, numbers(160, 8), ORDER, numbers(160, 8), stop)


def test_constant_trip_counts_need_no_more_versions_than_iterations() -> None:
    made = pipelined(program(stages=4, stop=2))
    assert notes(made) == ["2 stages: a copied ahead with cp.async, one barrier per iteration"]
    assert notes(pipelined(program(stages=4, stop=1)))[0].startswith("serial: one stage")


def test_nested_and_repeated_loops() -> None:
    @T.prim_func
    def kernel(A: F32[160, 8], O: F32[160, 8], n: T.int32):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((8, 8), "float32")
            for r in T.Pipelined(3, num_stages=2):
                for k in T.Pipelined(n, num_stages=2):
                    T.copy(A[(r + k) * 8, 0], a)
                    T.copy(a, O[(r * 5 + k) * 8, 0])
            for k in T.Pipelined(n, num_stages=4):
                T.copy(A[k * 8, 0], a)
                for i, j in T.Parallel(8, 8):
                    O[k * 8 + i, j] += a[i, j]

    made = same_results(kernel, numbers(160, 8), numbers(160, 8), 4, expect="2 stages")
    assert [note.split(",")[0] for note in notes(made)] == [
        "serial: it contains a pipelined loop",
        "2 stages: a copied ahead with cp.async",
        "4 stages: a copied ahead with cp.async",
    ]
    same_results(kernel, numbers(160, 8), numbers(160, 8), 0)


def test_bounds_that_the_loop_changes_are_read_once() -> None:
    @T.prim_func
    def kernel(A: F32[160, 8], O: F32[160, 8]):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((8, 8), "float32")
            end = T.alloc_var("int32", init=5)
            for k in T.Pipelined(end, num_stages=3):
                T.copy(A[k * 8, 0], a)
                end = end + 7
                T.copy(a, O[k * 8, 0])

    same_results(kernel, numbers(160, 8), numbers(160, 8), expect="3 stages")


def test_tiles_allocated_in_the_loop_and_layouts() -> None:
    @T.prim_func
    def kernel(A: F32[160, 8], O: F32[160, 8]):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=32):
            b = T.alloc_shared((8, 8), "float32")
            T.annotate_layout({b: T.Layout((8, 8), lambda i, j: i * 8 + (i ^ j))})
            for k in T.Pipelined(6, num_stages=2):
                a = T.alloc_shared((8, 8), "float32")
                T.copy(A[k * 8, 0], a)
                T.copy(A[8, 0], b)
                for i, j in T.Parallel(8, 8):
                    O[k * 8 + i, j] = a[i, j] - b[i, j]

    made = same_results(kernel, numbers(160, 8), numbers(160, 8), expect="2 stages: a, b")
    launch = next(node for node in S.walk(made.body) if isinstance(node, S.Launch))
    tiles = [node.buffer for node in S.walk(made.body) if isinstance(node, S.Alloc)]
    assert list(launch.hints.layout_map)[0][0] in tiles
    assert sorted(tuple(tile.shape) for tile in tiles) == [(2, 8, 8), (2, 8, 8)]


def test_loops_of_some_threads_stay_serial() -> None:
    @T.prim_func
    def kernel(A: F32[160, 8], O: F32[160, 8]):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((8, 8), "float32")
            if T.get_thread_binding() < 32:
                for k in T.Pipelined(6, num_stages=2):
                    T.copy(A[k * 8, 0], a)
                    T.copy(a, O[k * 8, 0])

    assert notes(pipelined(kernel)) == ["serial: not all threads of the block execute it together"]


def attention(stages: int, threads: int):  # type: ignore[no-untyped-def]  # a traced function
    """Two products of an iteration with other work between them."""

    @T.prim_func
    def kernel(Q: F16[128, 64], K: F16[256, 64], V: F16[256, 64], O: F32[128, 64]):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=threads):
            T.annotate_schedule(stages=stages)
            q = T.alloc_shared((128, 64), "float16")
            k = T.alloc_shared((64, 64), "float16")
            v = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((128, 64), "float32")
            p = T.alloc_fragment((128, 64), "float16")
            o = T.alloc_fragment((128, 64), "float32")
            T.copy(Q, q)
            T.clear(o)
            for i in T.Pipelined(4, num_stages=stages):
                T.copy(K[i * 64, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(V[i * 64, 0], v)
                for a, b in T.Parallel(128, 64):
                    p[a, b] = T.max(s[a, b], 0)
                T.gemm(p, v, o)
            T.copy(o, O)

    return kernel


@pytest.mark.parametrize(("stages", "threads"), [(1, 256), (2, 128)])
def test_one_stage_is_filled_again_when_its_last_reader_is_done(stages: int, threads: int) -> None:
    func = attention(stages, threads)
    rng = np.random.default_rng(3)
    q, k, v = (rng.integers(-2, 3, (n, 64)).astype(np.float16) for n in (128, 256, 256))
    weights = np.maximum(q.astype(np.float32) @ k.astype(np.float32).T, 0)
    out = weights @ v.astype(np.float32)
    holds(func, (q, k, v, np.zeros_like(out)), out, on=(INTERPRETER, SM_90A))
    if stages == 1:
        _, producer = compiled(func, SM_90A).get_kernel_source().split("tl_setmaxnreg_dec")
        assert producer.count("tl_mbarrier_wait(empty") == 2
        report = str(explain(func, "cuda -arch=sm_80"))
        assert "serial: one stage, copies are synchronous" in report
