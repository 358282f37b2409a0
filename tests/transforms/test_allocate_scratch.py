"""Reductions of a value of each thread have their room in the plan of shared memory."""

from __future__ import annotations

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.compiler import compile as compile_program, lower
from tilelang.ir import stmt as S
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target

SUM = T.comm_reducer(lambda x, y: x + y, [T.float32(0)])
TARGET = parse_target("cuda -arch=sm_80")
THREADS = 96


@T.macro
def reduce(value, out, tx):
    with T.attr(SUM, "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
        T.tvm_thread_allreduce(T.uint32(1), value, tx != 5, out[0], tx)


@T.prim_func
def sums(A: T.Tensor((THREADS,), "float32"), B: T.Tensor((4,), "float32")) -> None:
    with T.Kernel(1, threads=THREADS):
        tx = T.get_thread_binding()
        tile = T.alloc_shared((THREADS,), "float32")
        single = T.alloc_local((1,), "float32")
        rounded = T.alloc_local((1,), "bfloat16")
        whole = T.alloc_local((1,), "int32")
        T.copy(A, tile)
        v = tile[(tx + 1) % THREADS]
        reduce(v, single, tx)
        B[0] = single[0]
        reduce(T.cast(v, "bfloat16"), rounded, tx)
        B[1] = rounded[0]
        reduce(T.cast(v, "int32"), whole, tx)
        B[2] = whole[0]
        reduce(v + 1, whole, tx)  # a sum of floats that is converted
        B[3] = whole[0]


def rooms(func: PrimFunc) -> dict[str, tuple[int, int]]:
    """Offset and elements of the shared buffers of the lowered program."""
    lowered = lower(func, TARGET, Options())
    return {
        stmt.buffer.name: (int(stmt.buffer.attrs.arena_offset), int(stmt.buffer.shape[0]))
        for stmt in S.walk(lowered.body)
        if isinstance(stmt, S.Alloc) and stmt.buffer.storage.startswith("shared")
    }


def test_reductions_of_one_dtype_share_scratch_memory() -> None:
    found = rooms(sums)
    assert set(found) == {"tile", "reduced_float32", "reduced_int32", "has_value"}
    assert {count for _, count in found.values()} == {THREADS}


def test_the_printer_declares_no_shared_memory() -> None:
    text = compile_program(sums, TARGET, Options()).source
    assert "tl_thread_allreduce<96, 1>(reduced_float32, has_value, (int)threadIdx.x" in text
    assert "__shared__ float" not in text
    assert "__shared__ bool" not in text


def test_a_program_without_reductions_is_left_alone() -> None:
    from tilelang.target import Context
    from tilelang.transforms.sync.allocate_scratch import allocate_scratch

    @T.prim_func
    def f(A: T.Tensor((4,), "float32")) -> None:
        with T.Kernel(1, threads=4):
            A[T.get_thread_binding()] = 1.0

    assert allocate_scratch(f, Context(TARGET, Options())) is f


@pytest.mark.parametrize("how", ["emulator", "interpret"])
def test_sums_over_threads(how: str) -> None:
    a = (np.arange(THREADS) % 3).astype(np.float32)
    b = np.zeros(4, np.float32)
    tilelang.compile(sums, target="cuda -arch=sm_80", execution_backend=how)(a, b)
    moved = np.delete(np.roll(a, -1), 5)
    assert b.tolist() == [moved.sum(), moved.sum(), moved.sum(), (moved + 1).sum()]


def test_the_lowered_program_means_the_same() -> None:
    from tilelang.interpret import run

    a = (np.arange(THREADS) % 3).astype(np.float32)
    tile, thread = np.zeros(4, np.float32), np.zeros(4, np.float32)
    run(sums, (a, tile))
    run(lower(sums, TARGET, Options()), (a, thread))
    assert tile.tolist() == thread.tolist()
