"""Kernels as CUDA code on the CPU cores: arguments, results, several launches, failures."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_program import gemm_program
from tensor_types import F32, I32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import DeadlockError, DeviceAssertError, SanitizerError

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


def emulated(func, out_idx=None, arch: str = "sm_80"):
    return tilelang.compile(
        func, out_idx=out_idx, target=f"cuda -arch={arch}", execution_backend="emulator"
    )


m = T.dynamic("m")


@T.prim_func
def add(A: F32[m, 32], B: F32[m, 32], scale: T.float32, C: F32[m, 32]):
    with T.Kernel(T.ceildiv(m, 8), threads=64) as bx:
        for i, j in T.Parallel(8, 32):
            C[bx * 8 + i, j] = A[bx * 8 + i, j] + B[bx * 8 + i, j] * scale


# -- arguments and results -------------------------------------------------------------------------
@pytest.mark.parametrize("rows", [0, 21])
def test_sizes_and_scalars_are_bound(rows: int) -> None:
    a, b = np.random.default_rng(0).standard_normal((2, rows, 32)).astype(np.float32)
    c = emulated(add, out_idx=-1)(a, b, 3.0)
    np.testing.assert_allclose(c, a + b * 3, rtol=1e-6)


def test_torch_tensors_go_in_and_come_out() -> None:
    torch = pytest.importorskip("torch", reason="the tensors are torch's")
    a, b = torch.ones(8, 32), torch.full((8, 32), 2.0)
    c = emulated(add, out_idx=-1)(a, b, 0.5)
    assert isinstance(c, torch.Tensor)
    assert torch.equal(c, torch.full((8, 32), 2.0))


# -- programs --------------------------------------------------------------------------------------
def test_launches_follow_one_another_with_memory_in_between() -> None:
    @T.prim_func
    def twice(A: F32[64], B: F32[64]):
        scratch = T.alloc_global((64,), "float32")
        with T.Kernel(2, threads=32) as bx:
            for i in T.Parallel(32):
                scratch[bx * 32 + i] = A[bx * 32 + i] + 1.0
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = scratch[63 - i] * 2.0

    a = np.arange(64, dtype=np.float32)
    np.testing.assert_array_equal(emulated(twice, out_idx=-1)(a), (a[::-1] + 1) * 2)
    assert tilelang.sanitize(emulated(twice, out_idx=-1), a).ok


def test_blocks_of_a_cooperative_launch_wait_for_each_other() -> None:
    @T.prim_func
    def rounds(A: I32[4, 32], B: I32[4, 32]):
        with T.Kernel(4, threads=32) as bx:
            for i in T.Parallel(32):
                A[bx, i] = A[bx, i] + 1
            T.sync_grid()
            for i in T.Parallel(32):
                B[bx, i] = A[(bx + 1) % 4, i]

    a = np.arange(128, dtype=np.int32).reshape(4, 32)
    b = np.zeros_like(a)
    emulated(rounds)(a, b)
    np.testing.assert_array_equal(b, np.roll(np.arange(128).reshape(4, 32) + 1, -1, axis=0))


@pytest.mark.parametrize("arch", ["sm_75", "sm_89", "sm_90", "sm_120"])
def test_matrix_products_of_every_architecture(arch: str) -> None:

    a, b = np.random.default_rng(0).integers(-4, 5, (2, 64, 64)).astype(np.float16)
    expected = a.astype(np.float32) @ b.astype(np.float32)
    kernel = emulated(gemm_program(64, 64, 64), out_idx=-1, arch=arch)
    np.testing.assert_array_equal(kernel(a, b), expected)
    report = tilelang.sanitize(kernel, a, b)
    assert report.ok, report
    np.testing.assert_array_equal(report.outputs, expected)


# -- failures --------------------------------------------------------------------------------------
def test_a_failed_assertion_names_the_line() -> None:
    @T.prim_func
    def picky(A: I32[32]):
        with T.Kernel(1, threads=32):
            T.device_assert(A[0] > 3, "A[0] is too small")
            A[0] = 1

    with pytest.raises(DeviceAssertError) as error:
        emulated(picky)(np.zeros(32, np.int32))
    assert "kernel picky" in str(error.value)
    assert "A[0] is too small" in str(error.value)


@T.prim_func
def turn(A: F32[32, 32], B: F32[32, 32]):
    with T.Kernel(1, threads=64):
        tile = T.alloc_shared((32, 32), "float32")
        T.copy(A, tile)
        for i, j in T.Parallel(32, 32):
            B[i, j] = tile[j, i]


def test_threads_that_wait_for_ever_are_named() -> None:
    kernel = emulated(turn, out_idx=-1)
    a = np.zeros((32, 32), np.float32)
    source = '#include "tl_sync.h"\n' + kernel.get_kernel_source()
    split = "if (threadIdx.x < 32) __syncthreads(); else tl_bar_sync(1, 64);"
    report = tilelang.sanitize(kernel, a, source=source.replace("__syncthreads();", split))
    (found, *_) = report.of_kind("deadlock")
    assert found.what == "threads of block (0, 0, 0) wait forever"
    assert found.location.text == split
    assert found.location.user_text == "for i, j in T.Parallel(32, 32):"
    assert report.outputs is None


# -- TILELANG_SANITIZE -----------------------------------------------------------------------------
def test_the_switch_checks_every_call(monkeypatch: pytest.MonkeyPatch) -> None:
    @T.prim_func
    def crowd(A: I32[1]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            A[0] = tx

    emulated(crowd)(np.zeros(1, np.int32))
    monkeypatch.setenv("TILELANG_SANITIZE", "1")
    with pytest.raises(SanitizerError) as error:
        tilelang.compile(crowd, target="cuda -arch=sm_80")(np.zeros(1, np.int32))
    assert error.value.report.findings[0].kind == "race"
    assert "A[0]" in str(error.value)


def test_deadlocks_of_unchecked_kernels_are_errors() -> None:
    from tilelang.emulator.report import Actor, Finding, Report, SourceLine
    from tilelang.jit.emulated import failure

    found = Finding(
        "deadlock", "k", "threads wait", SourceLine(), Actor(-1, (0, 0, 0)), details="all"
    )
    error = failure(Report("k", [found]))
    assert type(error) is DeadlockError
    assert str(error) == "kernel k: threads wait\n  at an unknown line\n  all"
