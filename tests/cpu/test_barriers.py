"""Barriers on the CPU: what orders nothing costs nothing, what counts is counted."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import DeadlockError, TileUnsupportedError

COUNT = 64
NUMBERS = np.arange(COUNT, dtype=np.float32)


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_parts_that_wait_for_each_other_forever_are_an_error() -> None:
    @T.prim_func
    def kernel(A: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            bars = T.alloc_barrier([32, 32])
            if tx < 32:
                T.barrier_wait(bars[0], 0)
                T.barrier_arrive(bars[1])
            else:
                A[tx] = 1
                T.barrier_wait(bars[1], 0)
                T.barrier_arrive(bars[0])

    with pytest.raises(DeadlockError) as caught:
        tilelang.compile(kernel, target="cpu")(0 * NUMBERS)
    text, place = str(caught.value).split("\n --> ")
    assert text == (
        "threads wait at this barrier for others that do not reach it\n"
        "  expected: as many threads as the barrier counts\n"
        '  hint: execution_backend="interpret" runs the program, or names the threads that wait'
    )
    assert "T.barrier_wait(bars[1], 0)" in place


@pytest.mark.filterwarnings("ignore:thread 1 does not reach this T.sync_threads")
@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
def test_a_barrier_that_some_threads_never_reach_is_an_error_everywhere() -> None:
    @T.prim_func
    def kernel(A: F32[COUNT]):
        with T.Kernel(1, threads=COUNT):
            tx = T.get_thread_binding()
            A[tx] = 1
            if tx % 4 == 0:
                T.sync_threads()

    errors = []
    for options in ({"target": "cpu", "execution_backend": "interpret"}, {"target": "cpu"}):
        with pytest.raises(DeadlockError) as caught:
            tilelang.compile(kernel, **options)(0 * NUMBERS)  # type: ignore[call-overload]  # options by name
        errors.append(caught.value)
    assert str(errors[1]).split("\n -->")[0] == (
        "threads wait at this barrier for others that do not reach it\n"
        "  expected: all threads of the block that have not returned, or none of them\n"
        '  hint: execution_backend="interpret" runs the program, or names the threads that wait'
    )
    assert errors[0].loc is not None and errors[1].loc is not None
    assert errors[0].loc.line == errors[1].loc.line
    report = tilelang.sanitize(kernel, 0 * NUMBERS)
    assert [found.kind for found in report.findings] == ["barrier-divergence"]
    assert "T.sync_threads()" in str(report)


def test_a_gpu_intrinsic_that_completes_a_barrier_is_an_error() -> None:
    @T.prim_func
    def kernel(A: F16[8, 64]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 64), "float16")
            bar = T.alloc_barrier(1)
            box = T.create_tma_descriptor(6, 2, A, 64, 8, 2, 128, 64, 8, 1, 1, 0, 0, 2, 0)
            if T.get_thread_binding() == 0:
                T.tma_load(box, bar, tile, 0, 0)

    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.compile(kernel, target="cpu")
    text, place = str(caught.value).split("\n --> ")
    assert text == (
        "T.tma_load is not available on the CPU\n"
        "  expected: an operation that runs on any target\n"
        "  got: one that needs sm_90\n"
        "  hint: compile it for a GPU of sm_90 or later; "
        'execution_backend="emulator" runs that code without one'
    )
    assert "T.tma_load(box, bar, tile, 0, 0)" in place
