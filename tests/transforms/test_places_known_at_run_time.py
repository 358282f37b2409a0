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
from tensor_types import F16, F32, I32, I64

import tilelang
import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileWarning

PROGRAMS = {}
# Programs whose warpgroups wait for each other: a core runs the threads of a block in order.
ROLES = ("persistent_counter", "loaded_flag", "dynamic_sizes")


def program(make):
    PROGRAMS[make.__name__] = make
    return make


@program
def persistent_counter():
    """A block counts tiles and stages in variables of its own; a warpgroup copies."""

    @T.prim_func
    def main(A: F16[1024, 64], C: F32[1024, 64]):
        with T.Kernel(3, threads=256) as b:
            s = T.alloc_shared((2, 128, 64), "float16")
            full = T.alloc_barrier([128] * 2)
            empty = T.alloc_barrier([128] * 2)
            tile = T.alloc_var("int32", init=b)
            step = T.alloc_var("int32", init=0)
            tx = T.get_thread_binding()
            if tx < 128:
                while tile < 8:
                    T.barrier_wait(empty[step % 2], ((step // 2) & 1) ^ 1)
                    T.tma_copy(
                        A[tile * 128 : tile * 128 + 128, 0:64],
                        s[step % 2, :, :],
                        barrier=full[step % 2],
                    )
                    T.barrier_arrive(full[step % 2])
                    step = step + 1
                    tile = tile + 3
            else:
                while tile < 8:
                    T.barrier_wait(full[step % 2], (step // 2) & 1)
                    for i, j in T.Parallel(128, 64):
                        C[tile * 128 + i, j] = T.cast(s[step % 2, i, j], "float32") * 2.0
                    T.barrier_arrive(empty[step % 2])
                    step = step + 1
                    tile = tile + 3

    a = np.random.default_rng(0).integers(0, 60, (1024, 64)).astype("float16")
    return main, (a, np.zeros((1024, 64), "float32")), a.astype("float32") * 2


def _experts(dtype="int32", m=None):
    sizes = np.array([100, 0, 64, 192], dtype)
    offs = (np.cumsum(sizes) - sizes).astype(dtype)
    a = np.random.default_rng(1).integers(0, 4, (356 + 128, 64)).astype("float16")
    w = np.random.default_rng(2).integers(0, 4, (4, 64, 64)).astype("float16")
    return sizes, offs, a, w


@program
def offsets_of_experts():
    """Rows of an expert begin where a tensor says."""

    @T.prim_func
    def main(
        A: F16[484, 64], W: F16[4, 64, 64], Sizes: I32[4], Offsets: I32[4], C: F32[4, 192, 64],
    ):  # fmt: skip
        with T.Kernel(4, 3, threads=128) as (e, t):
            a = T.alloc_shared((64, 32), "float16")
            w = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            start = T.alloc_local((1,), "int32")
            start[0] = Offsets[e] + t * 64
            T.clear(c)
            if t * 64 < Sizes[e]:
                for k in T.Pipelined(2, num_stages=2):
                    T.copy(A[start[0] : start[0] + 64, k * 32 : k * 32 + 32], a)
                    T.copy(W[e, k * 32 : k * 32 + 32, 0:64], w)
                    T.gemm(a, w, c)
            for i, j in T.Parallel(64, 64):
                C[e, t * 64 + i, j] = T.if_then_else(t * 64 + i < Sizes[e], c[i, j], 0.0)

    sizes, offs, a, w = _experts()
    want = np.zeros((4, 192, 64), "float32")
    for e in range(4):
        want[e, : sizes[e]] = a[offs[e] : offs[e] + sizes[e]].astype("float32") @ w[e].astype(
            "float32"
        )
    return main, (a, w, sizes, offs, want * 0), want


@program
def sums_of_sizes():
    """Starts are sums of sizes that each thread adds up."""

    @T.prim_func
    def main(A: F16[484, 64], Sizes: I32[4], C: F16[4, 64, 64]):
        with T.Kernel(4, threads=128) as e:
            a = T.alloc_shared((64, 64), "float16")
            start = T.alloc_var("int32", init=0)
            for g in T.serial(e):
                start = start + Sizes[g]
            T.copy(A[start : start + 64, 0:64], a)
            T.copy(a, C[e, :, :])

    sizes, offs, a, w = _experts()
    want = np.stack([a[o : o + 64] for o in offs])
    return main, (a, sizes, want * 0), want


def _pages():
    """Queries, pages of keys, a table of four pages for each query, and their scores."""
    r = np.random.default_rng(3)
    q, k = (r.integers(0, 4, (n, 64, 64)).astype("float16") for n in (2, 16))
    table = r.permutation(16)[:8].reshape(2, 4).astype("int32")
    keys = k[table].astype("float32").reshape(2, 256, 64)
    return q, k, table, q.astype("float32") @ keys.transpose(0, 2, 1)


@program
def page_table():
    """Keys lie in pages that a table names."""

    @T.prim_func
    def main(Q: F16[2, 64, 64], K: F16[16, 64, 64], Table: I32[2, 4], S: F32[2, 64, 256]):
        with T.Kernel(2, threads=128) as b:
            q = T.alloc_shared((64, 64), "float16")
            k = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            T.copy(Q[b, :, :], q)
            for p in T.Pipelined(4, num_stages=2):
                T.copy(K[Table[b, p], :, :], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(s, S[b, 0:64, p * 64 : p * 64 + 64])

    q, k, table, want = _pages()
    return main, (q, k, table, want * 0), want


@program
def page_in_a_local():
    """The same with the page in an array of a thread."""

    @T.prim_func
    def main(Q: F16[2, 64, 64], K: F16[1024, 64], Table: I32[2, 4], S: F32[2, 64, 256]):
        with T.Kernel(2, threads=128) as b:
            q = T.alloc_shared((64, 64), "float16")
            k = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            row = T.alloc_local((1,), "int32")
            T.copy(Q[b, :, :], q)
            for p in T.Pipelined(4, num_stages=2):
                row[0] = Table[b, p] * 64
                T.copy(K[row[0] : row[0] + 64, 0:64], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                T.copy(s, S[b, 0:64, p * 64 : p * 64 + 64])

    q, k, table, want = _pages()
    return main, (q, k.reshape(1024, 64), table, want * 0), want


@program
def loaded_flag():
    """A tile is there where a flag says so: for copy and barrier, and without a barrier."""

    @T.prim_func
    def main(A: F16[4, 64, 64], Live: I32[4], C: F16[4, 64, 64]):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(128)
            empty = T.alloc_barrier(128)
            live = T.alloc_local((1,), "int32")
            step = T.alloc_var("int32", init=0)
            tx = T.get_thread_binding()
            if tx < 128:
                for n in T.serial(4):
                    live[0] = Live[n]
                    if live[0] != 0:
                        T.barrier_wait(empty, (step & 1) ^ 1)
                        T.tma_copy(A[n, :, :], s, barrier=full)
                        T.barrier_arrive(full)
                        step = step + 1
            else:
                for n in T.serial(4):
                    live[0] = Live[n]
                    if live[0] != 0:
                        T.barrier_wait(full, step & 1)
                        for i, j in T.Parallel(64, 64):
                            C[n, i, j] = s[i, j]
                        T.barrier_arrive(empty)
                        step = step + 1

    a = np.random.default_rng(4).integers(0, 60, (4, 64, 64)).astype("float16")
    live = np.array([1, 0, 1, 1], "int32")
    return main, (a, live, a * 0), a * live[:, None, None].astype("float16")


@program
def flag_around_a_copy():
    @T.prim_func
    def main(A: F16[4, 64, 64], Live: I32[4], C: F16[4, 64, 64]):
        with T.Kernel(4, threads=128) as n:
            s = T.alloc_shared((64, 64), "float16")
            live = T.alloc_var("int32", init=0)
            if Live[n] > 0:
                live = Live[n] + 1
            if live != 0:
                T.copy(A[live - 2 + n, :, :], s)
                T.copy(s, C[n, :, :])

    a = np.random.default_rng(4).integers(0, 60, (4, 64, 64)).astype("float16")
    live = np.array([1, 0, 1, 1], "int32")
    return main, (a, live, a * 0), a * live[:, None, None].astype("float16")


@program
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

    sizes, offs, a, w = _experts()
    want = np.stack([a[o : o + 64] for o in offs])
    return main, (a, sizes, want * 0), want


@program
def search_of_a_group():
    """Blocks search the group that their tile belongs to."""

    @T.prim_func
    def main(A: F16[484, 64], W: F16[4, 64, 64], Sizes: I32[4], Offsets: I32[4], C: F32[7, 64, 64]):
        with T.Kernel(7, threads=128) as b:
            a = T.alloc_shared((64, 32), "float16")
            w = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            group = T.alloc_var("int32", init=0)
            before = T.alloc_var("int32", init=0)
            row = T.alloc_local((1,), "int32")
            for g in T.serial(4):
                tiles = (Sizes[g] + 63) // 64
                if before + tiles <= b:
                    if group == g:
                        before = before + tiles
                        group = g + 1
            T.clear(c)
            if group < 4:
                row[0] = Offsets[group] + (b - before) * 64
                for k in T.Pipelined(2, num_stages=2):
                    T.copy(A[row[0], k * 32], a)
                    T.copy(W[group, k * 32, 0], w)
                    T.gemm(a, w, c)
            T.copy(c, C[b, :, :])

    sizes, offs, a, w = _experts()
    want = np.zeros((7, 64, 64), "float32")
    n = 0
    for e in range(4):
        for t in range(-(-sizes[e] // 64)):
            r = offs[e] + t * 64
            want[n] = a[r : r + 64].astype("float32") @ w[e].astype("float32")
            n += 1
    return main, (a, w, sizes, offs, want * 0), want


@program
def offsets_of_64_bits():
    @T.prim_func
    def main(A: F16[484, 64], Offsets: I64[4], C: F16[4, 64, 64]):
        with T.Kernel(4, threads=128) as e:
            a = T.alloc_shared((64, 64), "float16")
            at = T.alloc_local((1,), "int64")
            at[0] = Offsets[e]
            T.copy(A[at[0] : at[0] + 64, 0:64], a)
            T.copy(a, C[e, :, :])

    sizes, offs, a, w = _experts()
    want = np.stack([a[o : o + 64] for o in offs])
    return main, (a, offs.astype("int64"), want * 0), want


@program
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

    sizes, offs, a, w = _experts()
    want = np.stack([a[o : o + 64] for o in offs])
    return main, (a, offs, want * 0), want


@program
def stored_where_a_table_says():
    """Results go to rows that a tensor names."""

    @T.prim_func
    def main(A: F16[4, 64, 64], Rows: I32[4], C: F16[256, 64]):
        with T.Kernel(4, threads=128) as e:
            s = T.alloc_shared((64, 64), "float16")
            to = T.alloc_local((1,), "int32")
            to[0] = Rows[e] * 64
            T.copy(A[e, :, :], s)
            T.copy(s, C[to[0] : to[0] + 64, 0:64])

    a = np.random.default_rng(4).integers(0, 60, (4, 64, 64)).astype("float16")
    rows = np.array([2, 0, 3, 1], "int32")
    want = np.zeros((4, 64, 64), "float16")
    want[rows] = a
    return main, (a, rows, want.reshape(256, 64) * 0), want.reshape(256, 64)


@program
def flags_in_a_pipeline():
    """Blocks of a sparse product, with start and flag in variables that the loop writes."""

    @T.prim_func
    def main(A: F16[64, 256], B: F16[256, 64], Live: I32[4], Start: I32[4], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            live = T.alloc_var("int32", init=0)
            at = T.alloc_local((1,), "int32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                live = Live[k]
                at[0] = Start[k] * 64
                if live != 0:
                    T.copy(A[0:64, at[0] : at[0] + 64], a)
                    T.copy(B[at[0], 0], b)
                    T.gemm(a, b, c)
            T.copy(c, C)

    r = np.random.default_rng(5)
    a, b = (
        r.integers(0, 4, (64, 256)).astype("float16"),
        r.integers(0, 4, (256, 64)).astype("float16"),
    )
    live, start = np.array([1, 0, 1, 1], "int32"), np.array([2, 0, 3, 1], "int32")
    want = sum(
        a[:, s * 64 : s * 64 + 64].astype("float32") @ b[s * 64 : s * 64 + 64].astype("float32")
        for s, l in zip(start, live)
        if l
    )
    return main, (a, b, live, start, want * 0), want


def _sparse(threads, M, N, K, BM, BN, BK, stages):
    @T.prim_func
    def main(
        A: F16[M, K], B: F16[K, N], Mask: T.Tensor((M // BM, N // BN, K // BK), "bool"),
        C: F32[M, N],
    ):  # fmt: skip
        with T.Kernel(N // BN, M // BM, threads=threads) as (bx, by):
            a = T.alloc_shared((BM, BK), "float16")
            b = T.alloc_shared((BK, BN), "float16")
            c = T.alloc_fragment((BM, BN), "float32")
            T.clear(c)
            for k in T.Pipelined(K // BK, num_stages=stages):
                if Mask[by, bx, k]:
                    T.copy(A[by * BM, k * BK], a)
                    T.copy(B[k * BK, bx * BN], b)
                    T.gemm(a, b, c)
            T.copy(c, C[by * BM, bx * BN])

    r = np.random.default_rng(5)
    a, b = r.integers(0, 4, (M, K)).astype("float16"), r.integers(0, 4, (K, N)).astype("float16")
    mask = r.random((M // BM, N // BN, K // BK)) < 0.5
    full = np.repeat(np.repeat(mask, BM, 0), BN, 1)
    want = sum(
        np.where(
            full[:, :, k, None].squeeze(-1),
            a[:, k * BK : k * BK + BK].astype("float32")
            @ b[k * BK : k * BK + BK].astype("float32"),
            0,
        )
        for k in range(K // BK)
    )
    return main, (a, b, mask, np.zeros((M, N), "float32")), want.astype("float32")


@program
def sparse_blocks():
    return _sparse(256, 256, 128, 512, 128, 128, 64, 3)


@program
def sparse_blocks_small():
    return _sparse(128, 128, 128, 512, 128, 128, 32, 2)


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
BULK = {
    "persistent_counter": 1, "offsets_of_experts": 4, "sums_of_sizes": 2, "page_table": 5,
    "page_in_a_local": 5, "loaded_flag": 4, "flag_around_a_copy": 2, "index_in_shared_memory": 8,
    "search_of_a_group": 4, "offsets_of_64_bits": 2, "dynamic_sizes": 1,
    "stored_where_a_table_says": 2, "flags_in_a_pipeline": 8, "sparse_blocks": 24,
    "sparse_blocks_small": 3,  # a producer fills all of its stages at one place
}  # fmt: skip


def bulk_copies(func, capsys) -> int:
    tilelang.compile(func, target="cuda -arch=sm_90a").show_ptx()
    return len(re.findall(r"cp\.async\.bulk\.tensor", capsys.readouterr().out))


@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC")
@pytest.mark.parametrize("name", PROGRAMS)
def test_tma_makes_the_copies(name: str, capsys) -> None:
    func, _, _ = PROGRAMS[name]()
    assert bulk_copies(func, capsys) == BULK[name]


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_executors_agree(name: str) -> None:
    func, given, wanted = PROGRAMS[name]()
    places = (INTERPRETER, SM_90A) if name in ROLES else (INTERPRETER, CPU, SM_90A)
    with warnings.catch_warnings():
        warnings.simplefilter("error", TileWarning)  # nothing is left to be proved
        holds(func, given, wanted, on=places)


def test_tensors_without_elements_have_no_map_and_no_tiles() -> None:
    func, _, _ = PROGRAMS["dynamic_sizes"]()
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


@pytest.mark.parametrize("place", [5, -5, 200, -128])
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
