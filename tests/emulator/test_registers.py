"""Registers that are read before anything has been written to them are findings."""

from __future__ import annotations

import numpy as np
import pytest
from gemm_program import gemm_program
from tensor_types import F32, I8, I32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


@T.prim_func
def masked(A: F32[64], B: F32[64]):
    with T.Kernel(1, threads=64):
        kept = T.alloc_fragment((64,), "float32")
        for i in T.Parallel(64):
            if i < 63:
                kept[i] = A[i]
        for i in T.Parallel(64):
            B[i] = kept[i] + 1.0


def test_an_element_that_one_thread_did_not_write() -> None:
    report = tilelang.sanitize(masked, *np.ones((2, 64), np.float32), schedule="late")
    number = report.findings[0].location.line
    text = report.findings[0].location.text
    assert str(report) == (
        "masked: 1 finding in 1 run\n"
        "uninitialised-read: thread 63 (warp 1) of block (0, 0, 0) reads its register kept[0], "
        "which nothing has written\n"
        f"  at {__file__}:25: B[i] = kept[i] + 1.0\n"
        f"     line {number} of masked_kernel: {text}"
    )
    found = report.findings[0]
    assert (found.space, found.buffer, found.index, found.bytes) == ("registers", "kept", (0,), 4)
    assert tilelang.sanitize(masked, *np.ones((2, 64), np.float32), checks=("races",)).ok


@pytest.mark.parametrize(
    ("old", "new", "register"),
    [
        ("c[c_1] = 0.0f;", "if (c_1 != 5) c[c_1] = 0.0f;", ("c", (5,))),
        ("tl_ldmatrix_x4(", "if (tx < 32) tl_ldmatrix_x4(", ("a0", (0,))),
    ],
)
def test_operands_of_matrix_products(old: str, new: str, register: tuple[str, object]) -> None:
    kernel = tilelang.compile(
        gemm_program(64, 64, 64, (64, 64, 64), 1), out_idx=-1, target="cuda -arch=sm_80"
    )
    inputs = np.ones((2, 64, 64), np.float16)
    assert tilelang.sanitize(kernel, *inputs).ok
    source = kernel.get_kernel_source()
    assert old in source
    report = tilelang.sanitize(kernel, *inputs, source=source.replace(old, new, 1))
    assert register in [(item.buffer, item.index) for item in report.of_kind("uninitialised-read")]
    assert report.findings[0].location.user_text.startswith("T.gemm(a, b, c, ")


def test_small_elements_and_their_neighbours() -> None:
    @T.prim_func
    def bytes_of(B: I8[32]):
        with T.Kernel(1, threads=32):
            some = T.alloc_local((4,), "int8")
            tx = T.get_thread_binding()
            some[1] = T.int8(3)
            B[tx] = some[1] + some[2]

    (found,) = tilelang.sanitize(bytes_of, np.zeros(32, np.int8)).findings
    assert found.element == "some[2]"
    assert found.count >= 32


def test_an_array_of_a_loop_begins_anew_each_time() -> None:
    @T.prim_func
    def rounds(A: F32[4, 32], B: F32[4, 32]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            for k in T.serial(4):
                held = T.alloc_local((1,), "float32")
                if A[k, tx] > 0.0:
                    held[0] = A[k, tx]
                B[k, tx] = held[0]

    a = np.ones((4, 32), np.float32)
    assert tilelang.sanitize(rounds, a, a.copy()).ok
    a[3, 7] = -1
    (found,) = tilelang.sanitize(rounds, a, a.copy(), schedule="fifo").findings
    assert (found.kind, found.buffer, found.actor.thread) == ("uninitialised-read", "held", 7)


def turned(dtype: str, read: int):
    """A fragment of which half is written, brought to another layout to be read in ``read`` rows."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=64):
            kept = T.alloc_fragment((64, 64), dtype)
            T.annotate_layout({kept: T.Fragment((64, 64), lambda i, j: (i, j))})
            for i, j in T.Parallel(64, 64):
                if i < 32:
                    kept[i, j] = A[i, j]
            other = T.alloc_fragment((64, 64), dtype)
            T.annotate_layout({other: T.Fragment((64, 64), lambda i, j: (j, i))})
            T.copy(A, other)
            for i, j in T.Parallel(64, 64):
                if i < read:
                    other[i, j] += kept[i, j]
            T.copy(other, B)

    return kernel


def returned(dtype: str, read: int):
    """A fragment of which half is written in another layout, and brought back."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 64), dtype), B: T.Tensor((64, 64), dtype)):
        with T.Kernel(1, threads=64):
            kept = T.alloc_fragment((64, 64), dtype)
            T.annotate_layout({kept: T.Fragment((64, 64), lambda i, j: (i, j))})
            other = T.alloc_fragment((64, 64), dtype)
            T.annotate_layout({other: T.Fragment((64, 64), lambda i, j: (j, i))})
            T.copy(A, other)
            for i, j in T.Parallel(64, 64):
                other[i, j] += other[i, j]
                if i < 32:
                    kept[i, j] = other[i, j]
            for i, j in T.Parallel(64, 64):
                if i < read:
                    B[i, j] = kept[i, j]

    return kernel


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize(
    ("program", "line"), [(turned, "other[i, j] += kept[i, j]"), (returned, "B[i, j] = kept[i, j]")]
)
def test_a_part_of_a_fragment_that_changes_its_layout(program, line: str, dtype: str) -> None:
    """The compiler moves the fragment whole. That is no read of what the program does not use, and
    what the program reads afterwards is still known not to be written."""
    inputs = np.ones((2, 64, 64), dtype)
    kernel = program(dtype, 32)
    assert "kept_shared" in tilelang.compile(kernel, target="cuda -arch=sm_80").get_kernel_source()
    assert tilelang.sanitize(kernel, *inputs).ok
    report = tilelang.sanitize(program(dtype, 33), *inputs)
    assert {item.kind for item in report.findings} == {"uninitialised-read"}
    assert {item.location.user_text for item in report.findings} == {line}


def test_single_bytes_keep_their_marks_through_shared_memory() -> None:
    """An element of one byte shares a record of shared memory with its neighbour."""

    @T.prim_func
    def columns(A: I8[64, 64], B: I8[64, 64]):
        with T.Kernel(1, threads=64):
            kept = T.alloc_fragment((64, 64), "int8")
            T.annotate_layout({kept: T.Fragment((64, 64), lambda i, j: (i, j))})
            for i, j in T.Parallel(64, 64):
                if j != 7:
                    kept[i, j] = A[i, j]
            other = T.alloc_fragment((64, 64), "int8")
            T.annotate_layout({other: T.Fragment((64, 64), lambda i, j: (j, i))})
            T.copy(A, other)
            for i, j in T.Parallel(64, 64):
                other[i, j] += kept[i, j]
            T.copy(other, B)

    report = tilelang.sanitize(columns, *np.ones((2, 64, 64), np.int8), schedule="fifo")
    (found,) = report.findings
    assert (found.kind, found.index, found.actor.thread) == ("uninitialised-read", (0, 7), 7)
    assert found.count == 64


@pytest.mark.parametrize("index", [5, -5, 100_000])
def test_an_index_past_a_local_array_is_found(index: int) -> None:
    @T.prim_func
    def behind(I: I32[64], O: I32[64]):
        with T.Kernel(1, threads=64):
            own = T.alloc_local((4,), "int32")
            t = T.get_thread_binding()
            for k in T.serial(4):
                own[k] = k
            O[t] = own[I[t]]

    indices, out = np.full(64, 3, np.int32), np.zeros(64, np.int32)
    assert tilelang.sanitize(behind, indices, out, target="cuda -arch=sm_80").ok
    report = tilelang.sanitize(behind, indices * 0 + index, out, target="cuda -arch=sm_80")
    (found,) = report.findings
    thread = "thread 63 (warp 1) of block (0, 0, 0)"
    assert found.what == f"{thread} uses an element outside of an array of its own"
    assert found.details == f"index {index} of an array 'int [4]'"
    assert found.location.user_text == "O[t] = own[I[t]]"


def test_arrays_of_imported_source_are_observed() -> None:
    text = """extern "C" __global__ void own_kernel(int* I, int* O) {
    struct { int pair[2];
      int rest[3]; } unused;
    int own[4];
    for (int k = 0; k < 3; ++k) own[k] = k;
    O[threadIdx.x] = own[I[threadIdx.x]];
}
"""

    @T.prim_func
    def own(I: I32[64], O: I32[64]):
        T.CUDASourceCodeKernel(1, threads=64, source_code_or_path=text, entry_name="own_kernel")

    def kinds(index: int) -> list[str]:
        args = np.full(64, index, np.int32), np.zeros(64, np.int32)
        report = tilelang.sanitize(own, *args, target="cuda -arch=sm_80")
        return [item.kind for item in report.findings]

    assert kinds(2) == []
    assert kinds(3) == ["uninitialised-read"]
    assert kinds(4) == ["out-of-bounds"]


@pytest.mark.parametrize(("step", "target"), [(2, "cuda -arch=sm_80"), (3, "hip -mcpu=gfx942")])
def test_a_vector_that_is_not_loaded_is_not_looked_at(step: int, target: str) -> None:
    @T.prim_func
    def column(A: F32[60, step], B: F32[72]):
        with T.Kernel(3, threads=1) as bx:
            tile = T.alloc_shared((24, 1), "float32")
            T.copy(A[bx * 24 : bx * 24 + 24, 0:1], tile)
            for i in T.Parallel(24):
                B[bx * 24 + i] = tile[i, 0]

    values = np.arange(60 * step, dtype=np.float32).reshape(60, step)
    report = tilelang.sanitize(column, values, np.ones(72, np.float32), target=target)
    assert report.ok, report
    np.testing.assert_array_equal(report.arguments[1], [*values[:, 0], *[0.0] * 12])
