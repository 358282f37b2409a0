"""Copies from and to places that are known at run time: starts that are loaded or added up, pages,
flags, groups that a block searches. TMA makes them, and all executors agree on the results."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
from executors import CPU, INTERPRETER, SM_90A, compiled, holds
from tensor_types import F16, I32, I64

import tilelang
import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileWarning


def experts():
    """Numbers of rows, where they begin, the rows, and 64 of them from each beginning."""
    sizes = np.array([100, 0, 64, 192], "int32")
    offs = (np.cumsum(sizes) - sizes).astype("int32")
    a = np.random.default_rng(1).integers(0, 4, (356 + 128, 64)).astype("float16")
    return sizes, offs, a, np.stack([a[o : o + 64] for o in offs])


def index_in_shared_memory():
    """One thread finds the rows, all threads read them behind a barrier."""

    @T.prim_func
    def main(A: F16[484, 64], Sizes: I32[4], C: F16[4, 64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            at = T.alloc_shared((4,), "int32")
            if T.get_thread_binding() == 0:
                at[0] = 0
                for g in T.serial(3):
                    at[g + 1] = at[g] + Sizes[g]
            T.sync_threads()
            for e in T.serial(4):
                T.copy(A[at[e] : at[e] + 64, 0:64], a)
                T.copy(a, C[e, :, :])

    sizes, _, a, want = experts()
    return main, (a, sizes, want * 0), want


def dynamic_sizes():
    m, g = T.dynamic("m"), T.dynamic("g")

    @T.prim_func
    def main(A: F16[m, 64], Offsets: I32[g], C: F16[g, 64, 64]):
        with T.Kernel(2, threads=256) as b:
            s = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(128)
            empty = T.alloc_barrier(128)
            e = T.alloc_var("int32", init=b)
            n = T.alloc_var("int32", init=0)
            tx = T.get_thread_binding()
            if tx < 128:
                while e < g:
                    row = Offsets[e]
                    T.barrier_wait(empty, (n & 1) ^ 1)
                    T.tma_copy(A[row : row + 64, 0:64], s, barrier=full)
                    T.barrier_arrive(full)
                    n = n + 1
                    e = e + 2
            else:
                while e < g:
                    T.barrier_wait(full, n & 1)
                    for i, j in T.Parallel(64, 64):
                        C[e, i, j] = s[i, j]
                    T.barrier_arrive(empty)
                    n = n + 1
                    e = e + 2

    _, offs, a, want = experts()
    return main, (a, offs, want * 0), want


def stored_where_a_table_says():
    """Results go to rows that a tensor names."""

    @T.prim_func
    def main(A: F16[4, 64, 64], Rows: I64[4], C: F16[256, 64]):
        with T.Kernel(4, threads=128) as e:
            s = T.alloc_shared((64, 64), "float16")
            to = T.alloc_local((1,), "int64")
            to[0] = Rows[e] * 64
            T.copy(A[e, :, :], s)
            T.copy(s, C[to[0] : to[0] + 64, 0:64])

    a = np.random.default_rng(4).integers(0, 60, (4, 64, 64)).astype("float16")
    rows = np.array([2, 0, 3, 1], "int64")
    want = np.zeros((4, 64, 64), "float16")
    want[rows] = a
    return main, (a, rows, want.reshape(256, 64) * 0), want.reshape(256, 64)


def differing(step=64):
    """Each warp names another place: thread 0 counts."""

    @T.prim_func
    def main(A: F16[256, 64], C: F16[64, 64]):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(128)
            row = T.alloc_local((1,), "int32")
            tx = T.get_thread_binding()
            row[0] = tx // 32 * step
            T.tma_copy(A[row[0] : row[0] + 64, 0:64], s, barrier=full)
            T.barrier_arrive(full)
            T.barrier_wait(full, 0)
            T.copy(s, C)

    a = np.random.default_rng(4).integers(0, 60, (256, 64)).astype("float16")
    return main, (a, a[:64] * 0), a[:64]


# Bulk copies of tensors in the PTX of each program; another number is another program.
BULK = {index_in_shared_memory: 8, dynamic_sizes: 1, stored_where_a_table_says: 2}


def bulk_copies(func, capsys) -> int:
    tilelang.compile(func, target="cuda -arch=sm_90a").show_ptx()
    return len(re.findall(r"cp\.async\.bulk\.tensor", capsys.readouterr().out))


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize("make", BULK)
def test_tma_makes_the_copies(make, capsys) -> None:
    func, _, _ = make()
    assert bulk_copies(func, capsys) == BULK[make]


@pytest.mark.parametrize("make", BULK)
def test_all_executors_agree(make) -> None:
    func, given, wanted = make()
    # Warpgroups that wait for each other: a core runs the threads of a block in order.
    places = (INTERPRETER, SM_90A) if make is dynamic_sizes else (INTERPRETER, CPU, SM_90A)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TileWarning)  # nothing is left to be proved
        holds(func, given, wanted, on=places)


def test_tensors_without_elements_have_no_map_and_no_tiles() -> None:
    func, _, _ = dynamic_sizes()
    empty = np.zeros((0, 64), np.float16), np.zeros(0, np.int32), np.zeros((0, 64, 64), np.float16)
    holds(func, empty, empty[-1], on=(INTERPRETER, SM_90A))


# -- places on which threads do not agree ----------------------------------------------------------
REMARK = (
    "`row[0]` is not proved uniform: one thread issues the copy, with its own value; "
    "tilelang.sanitize finds threads with another value"
)


@pytest.mark.filterwarnings("ignore::tilelang.errors.TileWarning")
def test_the_values_of_the_thread_that_issues_a_copy_count() -> None:
    func, given, wanted = differing()
    for place in (INTERPRETER, CPU):
        args = [arg.copy() for arg in given]
        compiled(func, place)(*args)
        np.testing.assert_array_equal(args[-1], wanted)
    with pytest.warns(TileWarning, match=re.escape(REMARK)):
        kernel = tilelang.compile(func, target="cuda -arch=sm_90a", execution_backend="emulator")
    text = kernel.get_kernel_source()
    assert "tl_tma_agree(128, 0, row[0], 0, 0);" in text and text.count("tl_tma_load(") == 1
    args = [arg.copy() for arg in given]
    kernel(*args)
    np.testing.assert_array_equal(args[-1], wanted)


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::tilelang.errors.TileWarning")
def test_the_emulator_reports_threads_with_other_coordinates() -> None:
    func, given, _ = differing()
    report = tilelang.sanitize(func, *given, target="cuda -arch=sm_90a")
    (found,) = report.findings
    assert found.kind == "disagreement"
    assert found.actor.thread == 32 and found.other_actor.thread == 0
    assert found.what == (
        "thread 32 (warp 1) of block (0, 0, 0) computes other coordinates than thread 0 (warp 0) of block "
        "(0, 0, 0) for a copy by one thread"
    )
    assert found.details == (
        "coordinate 1 is 0 in thread 0 and 64 in thread 32; 96 of 128 threads differ"
    )
    assert found.location.user_text.startswith("T.tma_copy(A[row[0]")


@pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
@pytest.mark.filterwarnings("ignore::tilelang.errors.TileWarning")
def test_unproved_uniform_coordinates_are_no_finding() -> None:
    func, given, wanted = differing(step=0)
    report = tilelang.sanitize(func, *given, target="cuda -arch=sm_90a")
    assert report.ok, report
    np.testing.assert_array_equal(report.arguments[-1], wanted)


@pytest.mark.parametrize("place", [-5, 200])
def test_a_store_at_a_loaded_index_drops_rows_that_are_outside(place: int) -> None:
    @T.prim_func
    def rows(A: F16[128, 64], P: I32[1], C: F16[256, 64]):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((128, 64), "float16")
            T.copy(A, s)
            first = P[0]
            T.copy(s, C[first, 0])

    a = (np.arange(128 * 64) % 1001).reshape(128, 64).astype(np.float16)
    wanted = np.zeros((256, 64), np.float16)
    for row in range(128):
        if 0 <= place + row < 256:
            wanted[place + row] = a[row]
    table = np.array([place], np.int32)
    holds(rows, (a, table, 0 * wanted), wanted, on=(INTERPRETER, CPU, SM_90A))
    assert "tl_tma_store(" in compiled(rows, SM_90A).get_kernel_source()
