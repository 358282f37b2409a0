"""What vector accesses need of the addresses of tensors, and the same programs needing less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from executors import holds

import tilelang.language as T
from tilelang.codegen.gpu.module import GpuModule, MapStep
from tilelang.compiler import compile, lower
from tilelang.cuda import dialect
from tilelang.cuda.tma_descriptor import TmaDescriptor
from tilelang.ir import expr as E, stmt as S
from tilelang.options import Options
from tilelang.target import Target
from tilelang.target.parse import parse_target
from tilelang.transforms.normalize.alignment import limit_alignments, needed_alignments

TARGET = parse_target("cuda -arch=sm_80")


def copy_of(kind: str, extent: int = 1024, stages: int = 0) -> Any:
    @T.prim_func
    def moved(A: T.Tensor((extent,), kind), B: T.Tensor((extent,), kind)):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((extent // 2,), kind)
            for k in T.Pipelined(2, num_stages=stages):
                T.copy(A[k * (extent // 2)], tile)
                T.copy(tile, B[k * (extent // 2)])

    return moved


def needs(func: S.PrimFunc) -> dict[str, int]:
    return dict(needed_alignments(lower(func, TARGET, Options())))


def widths(func: S.PrimFunc, op: str) -> set[object]:
    """Bytes of the calls of ``op`` that touch global memory."""
    found = set()
    for stmt in S.walk(lower(func, TARGET, Options()).body):
        for expr in stmt.exprs():
            for node in E.walk(expr):
                if isinstance(node, E.Call) and node.op == op:
                    found.add(node.attr("bytes"))
    return found


@pytest.mark.parametrize(("kind", "stages"), [("float64", 0), ("float16", 0), ("float16", 2)])
def test_whole_vectors_need_their_size(kind: str, stages: int) -> None:
    assert needs(copy_of(kind, stages=stages)) == {"A": 16, "B": 16}


def test_tensor_maps_need_16_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = dialect.emit_cuda
    mapped = TmaDescriptor("A", 2, (64,), (4,), (1,), box=(64,))

    def emit(func: S.PrimFunc, target: Target) -> GpuModule:
        made = plain(func, target)
        step = MapStep(made.slots, "A_map", ("$0",), mapped)
        return replace(made, steps=(step, *made.steps), slots=made.slots + 1)

    @T.prim_func
    def strided(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding(0)
            B[tx] = A[tx * 2]

    assert needs(strided) == {} and compile(strided, TARGET).alignments == ()
    monkeypatch.setattr(dialect, "emit_cuda", emit)
    assert compile(strided, TARGET).alignments == (("A", 16),)


@pytest.mark.parametrize("limit", [2, 4])
def test_a_limit_makes_vectors_narrower(limit: int) -> None:
    func = limit_alignments(copy_of("float16"), {"A": limit})
    assert needs(func) == {"A": limit, "B": 16} if limit > 2 else {"B": 16}


@pytest.mark.parametrize(("limit", "expected"), [(8, {8}), (2, set())])
def test_asynchronous_copies_keep_to_it(limit: int, expected: set[object]) -> None:
    func = limit_alignments(copy_of("float16", stages=2), {"A": limit})
    assert widths(func, "cp_async") == expected


def test_views_of_a_tensor_are_limited_too() -> None:
    @T.prim_func
    def flat(A: T.Tensor((32, 32), "float16"), B: T.Tensor((1024,), "float16")):
        with T.Kernel(1, threads=64):
            rows = T.reshape(A, (1024,))
            T.copy(rows, B)

    assert needs(flat)["A"] == 16
    assert needs(limit_alignments(flat, {"A": 4}))["A"] == 4


@pytest.mark.parametrize(("first", "widest"), [(0, 16), (3, 4), (6, 8)])
def test_a_tensor_at_an_element_of_another_one_is_as_aligned_as_that(
    first: int, widest: int
) -> None:
    @T.prim_func
    def moved(A: T.Tensor((256,), "int32"), B: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((128,), "int32")
            whole = T.make_tensor(T.address_of(A[first]), (128,), "int32")
            T.copy(whole, tile)
            T.copy(tile, B)

    assert needs(moved) == ({"A": widest, "B": 16} if widest > 4 else {"B": 16})
    a = np.arange(256, dtype=np.int32)
    holds(moved, (a, np.zeros(128, np.int32)), a[first : first + 128], on=("sm_80",))


def test_a_program_without_such_parameters_is_unchanged() -> None:
    func = copy_of("float16")
    assert limit_alignments(func, {}).body is func.body


@T.prim_func
def pointed(A: T.ptr, B: T.Tensor((1024,), "float16"), C: T.ptr):
    source = T.make_tensor(A, (1024,), "float16")
    single = T.make_tensor(C, (1024,), "float32")
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding(0)
        for i in T.Parallel(1024):
            B[i] = source[i]
        single[tx * 2] = 1.0


def test_pointers_need_what_their_tensors_need() -> None:
    assert needs(pointed) == {"A": 16, "B": 16, "C": 4}
    assert needs(limit_alignments(pointed, {"A": 4})) == {"A": 4, "B": 4, "C": 4}
