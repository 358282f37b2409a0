"""Programs of single threads with shared memory, on every executor: what needs no barrier, what a
barrier of warps settles, what the program has to order itself."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import GPUS, SM_80, SM_90A, agrees, compiled, holds
from tensor_types import F16, F32, I32

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError

I = np.int32
LANES = np.arange(128)
TURNED = T.Fragment((1, 256), forward_fn=lambda j, i: (i % 64, i // 64))


def own_rows(bounded: bool) -> Any:
    """Counts of each thread; its row is its own if the ``bounded`` data cannot leave it."""

    @T.prim_func
    def rows(A: I32[100], B: I32[64, 8]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            count = T.alloc_shared((64 * 8,), "int32")
            for k in T.serial(8):
                count[tx * 8 + k] = 0
            for i in T.serial(2):
                j = tx + i * 64
                if j < 100:
                    e = A[j] & 7 if bounded else A[j]
                    count[tx * 8 + e] = count[tx * 8 + e] + 1
            for k in T.serial(8):
                B[tx, k] = count[tx * 8 + k]

    return rows


def test_rows_of_single_threads_need_no_barrier() -> None:
    agrees(own_rows(True), ((np.arange(100) * 5 % 8).astype(I), np.zeros((64, 8), I)))
    assert "sync" not in compiled(own_rows(True), SM_80).get_kernel_source()


def test_data_dependent_indices_need_the_program_s_order() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        compiled(own_rows(False), SM_80)
    line = caught.value.loc.line if caught.value.loc is not None else 0
    assert str(caught.value).splitlines()[:4] == [
        "threads exchange data through `count` in code that not all of them execute",
        "  expected: a point that all threads of the block (or "
        "of whole warps) reach together, where a barrier is legal",
        f"  got: `count` read at line {line} and written here, under `j < 100`",
        "  hint: end the `if` (or the loop) after the first access and start it again for the "
        "second; the barrier then goes in between; if each thread uses only its own elements, "
        "give them a dimension (`s[tx, i]`), or place the barriers that the program needs by hand "
        "(T.sync_threads)",
    ]


def test_a_branch_on_a_vote_is_taken_by_all_threads() -> None:
    @T.prim_func
    def vote(A: I32[128], B: I32[128]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((128,), "int32")
            s[tx] = A[tx]
            if T.syncthreads_or(A[tx] > 300) != 0:
                s[tx] = s[tx] + 1
                B[tx] = s[127 - tx]

    a = (LANES * 3).astype(I)
    agrees(vote, (a, 0 * a))


def barriers(func) -> int:  # type: ignore[no-untyped-def]  # a traced function
    """The barriers in the CUDA source of ``func``, of the block or of whole warps."""
    source = compiled(func, SM_80).get_kernel_source()
    return source.count("__syncthreads()") + source.count("tl_bar_sync(")


def test_threads_that_write_an_element_together_read_it_without_a_barrier() -> None:
    @T.prim_func
    def flags(A: I32[64], B: I32[64, 8]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            flag = T.alloc_shared((8, 8), "int32")
            for r in T.serial(8):
                flag[r, tx // 8] = A[r * 8 + tx // 8] % 3
                if flag[r, tx // 8] == 1:
                    B[tx, r] = flag[r, tx // 8] + 1
                else:
                    B[tx, r] = 0

    agrees(flags, (np.arange(64, dtype=I), np.zeros((64, 8), I)))
    assert barriers(flags) == 0


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("count", [8, 2])
def test_iterations_that_write_other_rows_need_no_barrier_between_them(
    count: int, step: int
) -> None:
    """Of two alternating rows, the barrier of the iteration in between is enough."""

    @T.prim_func
    def rows(A: I32[8, 64], B: I32[8, 64]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            row = T.alloc_shared((count, 64), "int32")
            for r in T.serial(*((0, 8) if step > 0 else (7, -1)), step):
                row[r % count, tx] = A[r, tx]
                T.sync_threads()
                B[r, tx] = row[r % count, 63 - tx]

    a = np.arange(512, dtype=I).reshape(8, 64)
    holds(rows, (a, np.zeros_like(a)), a[:, ::-1], on=GPUS)
    assert barriers(rows) == 1


@pytest.mark.parametrize("distance", [1, 2])
def test_an_iteration_reads_what_one_before_has_written(distance: int) -> None:
    @T.prim_func
    def rows(A: I32[8, 64], B: I32[8, 64]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            row = T.alloc_shared((16, 64), "int32")
            for r in T.serial(8):
                row[r + distance, tx] = A[r, tx]
                if r >= distance:
                    B[r, tx] = row[r, 63 - tx]
                else:
                    B[r, tx] = 0

    a = np.arange(512, dtype=I).reshape(8, 64)
    agrees(rows, (a, np.zeros_like(a)))
    assert barriers(rows) == 1


@pytest.mark.parametrize("pieces", [2, 12])
def test_threads_that_fill_their_own_pieces_in_nested_loops_need_no_barrier(pieces: int) -> None:
    @T.prim_func
    def staged(A: F16[8, 64, 64 * pieces], B: F16[8, 64, 64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            rows = T.alloc_shared((2, 64, 64 * pieces), "float16")
            full = T.alloc_barrier(arrive_count=[128] * 2)
            free = T.alloc_barrier(arrive_count=[128] * 2)
            if tx >= 128:
                for k in T.serial(4):
                    for stage in T.unroll(2):
                        T.barrier_wait(free[stage], (k & 1) ^ 1)
                        for r in T.serial(4):
                            i = r * 16 + (tx - 128) // 8
                            for u in T.serial(pieces):
                                j = 64 * u + (tx - 128) % 8 * 8
                                T.ptx_cp_async(
                                    T.access_ptr(rows[stage, i, j], "w", 8),
                                    T.access_ptr(A[k * 2 + stage, i, j], "r", 8),
                                    8,
                                )
                        T.cp_async_barrier_noinc(full[stage])
            else:
                for k in T.serial(4):
                    for stage in T.unroll(2):
                        T.barrier_wait(full[stage], k & 1)
                        for i in T.serial(32):
                            x, j = i * 2 + tx // 64, tx % 64
                            B[k * 2 + stage, x, j] = rows[stage, x, j + 64 * (pieces - 1)]
                        T.barrier_arrive(free[stage])

    a = np.random.default_rng(3).random((8, 64, 64 * pieces)).astype(np.float16)
    holds(staged, (a, np.zeros((8, 64, 64), np.float16)), a[:, :, -64:], on=("sm_90a",))
    assert "tl_bar_sync(" not in compiled(staged, "sm_90a").get_kernel_source()


def test_who_waits_for_copies_that_land_fences_them() -> None:
    @T.prim_func
    def square(A: F16[64, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=256):
            tx = T.get_thread_binding()
            a = T.alloc_shared((64, 64), "float16")
            full = T.alloc_barrier(arrive_count=128)
            c = T.alloc_fragment((64, 64), "float32")
            if tx >= 128:
                for r in T.serial(4):
                    i, j = r * 16 + (tx - 128) // 8, tx % 8 * 8
                    T.ptx_cp_async(T.access_ptr(a[i, j], "w", 8), T.access_ptr(A[i, j], "r", 8), 8)
                T.cp_async_barrier_noinc(full)
            else:
                T.barrier_wait(full, 0)
                T.wgmma_gemm(a, a, c, clear_accum=True)
                T.wait_wgmma(0)
                T.copy(c, C)

    a = np.random.default_rng(5).integers(-3, 4, (64, 64)).astype(np.float16)
    wanted = a.astype(np.float32) @ a.astype(np.float32)
    holds(square, (a, np.zeros_like(wanted)), wanted, on=("sm_90a",))
    source = compiled(square, "sm_90a").get_kernel_source()
    assert source.count("tl_fence_proxy_async();") == 1
    assert re.search(r"tl_mbarrier_wait\(full, 0\);\s*tl_fence_proxy_async", source)


# How far the elements are that the threads of a branch of step ``k`` read, and which threads it has.
STEPS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "halves": (lambda tx, k: tx + (32 >> k), lambda tx, k: tx < (32 >> k)),
    "halves that overlap": (lambda tx, k: tx + (16 >> k), lambda tx, k: tx < (32 >> k)),
    "doubled steps": (lambda tx, k: tx + (1 << k), lambda tx, k: tx % (2 << k) == 0),
    "steps that are not doubled": (lambda tx, k: (tx + 1) % 64, lambda tx, k: tx % (k + 1) == 0),
    "behind": (lambda tx, k: tx - (1 << k), lambda tx, k: tx & (1 << k) != 0),
    "a neighbour behind": (lambda tx, k: tx - 1, lambda tx, k: tx > k),
    "one row for all": (lambda tx, k: k, lambda tx, k: tx > k),
    "one row, which is written": (lambda tx, k: k, lambda tx, k: tx >= k),
    "partners": (lambda tx, k: tx ^ (1 << k), lambda tx, k: (tx ^ (1 << k)) > tx),
    "the other half": (lambda tx, k: 63 - tx, lambda tx, k: (tx + k) % 64 < 32),
    "mirrored pairs": (lambda tx, k: tx ^ 1, lambda tx, k: (tx + k) % 2 == 0),
}


@pytest.mark.parametrize("name", STEPS)
def test_threads_of_a_branch_are_compared_in_each_iteration(name: str) -> None:
    """Where the branch depends on the loop: refused exactly if two of its threads meet."""
    place, there = STEPS[name]

    @T.prim_func
    def tree(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            s[tx] = A[tx]
            for k in T.serial(6):
                if there(tx, k):
                    s[tx] += s[place(tx, k)]
            B[tx] = s[tx]

    x, lanes = (LANES[:64] * 7 % 64 - 20).astype(I), LANES[:64]
    want, meet = x.copy(), False
    for k in range(6):
        chosen = lanes[there(lanes, k)]
        read = place(chosen, k)
        meet |= bool(((read != chosen) & np.isin(read, chosen)).any())
        want[chosen] += want[read]
    if meet:
        with pytest.raises(TileUnsupportedError, match="threads exchange data through `s`"):
            compiled(tree, SM_80)
    else:
        holds(tree, (x, np.zeros_like(x)), want, on=(SM_80,))


def test_alternating_rows_are_compared_per_iteration() -> None:
    @T.prim_func
    def scan(A: I32[128], B: I32[128]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 128), "int32")
            s[0, tx] = A[tx]
            for k in T.serial(7):
                if tx >= 1 << k:
                    s[1 - k % 2, tx] = s[k % 2, tx] + s[k % 2, tx - (1 << k)]
                else:
                    s[1 - k % 2, tx] = s[k % 2, tx]
            B[tx] = s[1, tx]

    agrees(scan, ((LANES * 5 % 17 - 8).astype(I), np.zeros(128, I)))


@pytest.mark.parametrize(
    ("form", "barriers"),
    [("the same map", 0), ("a map of the program", 2), ("neighbours", 2), ("reversed", 2)],
)
def test_threads_that_read_what_they_copied_need_no_barrier(form: str, barriers: int) -> None:
    """In a loop, too: neither before the elements are read nor before they are written again."""
    far = T.Fragment((128,), forward_thread_fn=lambda j: j % 64, forward_index_fn=lambda j: j // 64)

    @T.prim_func
    def rows(A: F32[6, 128], B: F32[6, 128]):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((128,), "float32")
            total = T.alloc_fragment((128,), "float32")
            T.clear(total)
            for t in T.serial(6):
                T.copy(A[t, 0], s, disable_tma=True)
                for j in T.Parallel(
                    128, loop_layout=far if form == "a map of the program" else None
                ):
                    other = (j + 2) % 128 if form == "neighbours" else j
                    total[j] += s[127 - j if form == "reversed" else other]
                T.copy(total, B[t, 0])

    a = np.arange(6 * 128, dtype=np.float32).reshape(6, 128)
    agrees(rows, (a, np.zeros_like(a)))
    for place in GPUS:
        source = compiled(rows, place).get_kernel_source()
        assert source.count("tl_sync") + source.count("__syncthreads") == barriers


@pytest.mark.parametrize("form", ["loops", "copies"])
def test_threads_of_two_branches_differ_though_their_maps_are_equal(form: str) -> None:
    @T.prim_func
    def handed(A: I32[64], B: I32[64]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            s = T.alloc_shared((64,), "int32")
            if tx < 64:
                if form == "copies":
                    T.copy(A, s)
                else:
                    for j in T.Parallel(64):
                        s[j] = A[j]
            if tx >= 64:
                if form == "loops":
                    for j in T.Parallel(64):
                        B[j] = s[j]
                else:
                    T.copy(s, B)

    x = (LANES[:64] * 5 % 17 - 8).astype(I)
    holds(handed, (x, np.zeros_like(x)), x, on=(SM_80,))


@pytest.mark.parametrize("form", ["own columns", "shifted columns", "other map"])
def test_rows_at_run_time_indices_belong_to_the_same_threads(form: str) -> None:
    """Elements of any two rows that are one are in one column, and so with one thread."""

    @T.prim_func
    def scattered(P: I32[4, 3], A: F32[4, 256], B: F32[12, 256]):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((256,), "float32")
            for row in T.serial(12):
                for i in T.Parallel(256):
                    B[row, i] = -1.0
            for row in T.serial(4):
                for i in T.Parallel(256):
                    a[i] = A[row, i]
                for k in T.serial(3):
                    if P[row, k] >= 0:
                        if form == "shifted columns":
                            for i in T.Parallel(256):
                                B[P[row, k], (i + 4) % 256] = a[i]
                        elif form == "other map":
                            for j, i in T.Parallel(1, 256, loop_layout=TURNED):
                                B[P[row, k] + j, i] = A[row, i]
                        else:
                            for i in T.Parallel(256):
                                B[P[row, k], i] = a[i]

    places = np.array([[0, 3, -1], [3, 4, 11], [-1, -1, 0], [5, 6, 7]], I)
    a = np.random.default_rng(2).standard_normal((4, 256)).astype(np.float32)
    agrees(scattered, (places, a, np.zeros((12, 256), np.float32)))
    text = compiled(scattered, SM_80).get_kernel_source()
    assert ("__syncthreads" in text) == (form != "own columns")


@pytest.mark.parametrize("waits", ["by groups", "too late"])
def test_copies_that_the_program_waits_for_need_no_other_wait(waits: str) -> None:
    """Two alternating tiles, where each thread reads what it copied; its waits are the only ones."""

    @T.prim_func
    def turns(A: F16[8, 512], B: F16[8, 512]):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((2, 512), "float16")
            T.async_copy(A[0, :], tile[0, :])
            for k in T.serial(1, 9):
                if k < 8:
                    T.async_copy(A[k, :], tile[k % 2, :])
                    T.ptx_wait_group(1 if waits == "by groups" else 2)
                else:
                    T.ptx_wait_group(0)
                for i in T.vectorized(8):
                    B[k - 1, tx * 8 + i] = tile[(k - 1) % 2, tx * 8 + i] * T.cast(2, "float16")

    a = np.random.default_rng(5).integers(-9, 9, (8, 512)).astype(np.float16)
    options = {"tl.disable_thread_storage_sync": True}
    for arch in (SM_80, SM_90A):
        kernel = tilelang.compile(
            turns, target=f"cuda -arch={arch}", execution_backend="emulator", pass_configs=options
        )
        report = tilelang.sanitize(kernel, a, np.zeros_like(a))
        text = kernel.get_kernel_source()
        assert "__syncthreads" not in text and text.count("tl_cp_async_wait") == 2
        assert report.ok == (waits == "by groups")
        if report.ok:
            np.testing.assert_array_equal(report.arguments[1], a * 2)


@pytest.mark.parametrize("stored", ["by TMA", "by threads"])
@pytest.mark.parametrize("form", ["own column", "other column", "read last"])
def test_a_loop_inside_a_parallel_one_uses_elements_of_its_threads(form: str, stored: str) -> None:
    """Rows one after the other, a thread a column. What TMA reads later takes one fence."""

    @T.prim_func
    def solved(A: I32[64, 64], X: I32[64, 64], Y: I32[64]):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((64, 64), "int32")
            T.copy(A, x)
            for i in T.serial(64):
                for j in T.Parallel(64):
                    total = T.alloc_var("int32")
                    total = x[i, j]
                    for k in T.serial(i):
                        total ^= x[k, j if form == "own column" else 63 - j] >> 1
                    x[i, j] = total
                if form == "read last":
                    for j in T.Parallel(64):
                        Y[j] ^= x[i, 63 - j]
            if stored == "by TMA":
                T.copy(x, X)
            else:
                for i, j in T.Parallel(64, 64):
                    X[i, j] = x[i, j] + 1

    a = np.random.default_rng(6).integers(0, 1 << 20, (64, 64)).astype(I)
    agrees(solved, (a, np.zeros_like(a), np.zeros_like(a[0])), 2)
    loop = compiled(solved, SM_90A).get_kernel_source().split("for (int i")[1]
    end = loop.split("tma_store" if stored == "by TMA" else "#pragma")[0]
    barriers = end.count("__syncthreads")
    by_tma = stored == "by TMA"
    assert barriers == {"own column": 1, "other column": 2, "read last": 1 + by_tma}[form]
    assert end.count("fence_proxy_async") == by_tma


@pytest.mark.parametrize("lanes", ["vectorized", "serial"])
def test_digits_of_one_number_name_different_elements_in_all_iterations(lanes: str) -> None:
    """Each thread writes eight neighbours of a flat index in each of some iterations: one barrier
    before all of them is enough, though the iterations differ in row and column."""
    loop, width = T.vectorized if lanes == "vectorized" else T.serial, 24

    @T.prim_func
    def doubled(A: F16[64, width], B: F16[3, 64, width]):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64, width), "float16")
            for k in T.serial(3):
                for i in T.serial(width // 8):
                    for v in loop(8):
                        index = i * 512 + T.get_thread_binding() * 8 + v
                        row = index // width
                        column = index % width
                        tile[row, column] = A[row, column] * T.float16(2)
                for i, j in T.Parallel(64, width):
                    B[k, i, j] = tile[63 - i, j]

    a = np.random.default_rng(3).standard_normal((64, width)).astype(np.float16)
    holds(doubled, (a, np.zeros((3, 64, width), np.float16)), np.stack([2 * a[::-1]] * 3), on=GPUS)
    before, loop = compiled(doubled, SM_80).get_kernel_source().split("for (int i ")
    assert before.count("__syncthreads") == 1
    assert "__syncthreads" not in loop.split("const int B_at")[0].rsplit("__syncthreads", 1)[0]


def test_matrices_read_by_address_leave_the_next_copies_in_flight() -> None:
    """The size behind an address is not known; the pipeline orders all accesses to its tiles."""

    @T.prim_func
    def matrices(A: F16[64, 16], B: F16[4, 32, 8]):
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            a = T.alloc_shared((16, 16), "float16")
            r = T.alloc_local((8,), "float16")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k * 16, 0], a)
                row = T.access_ptr(a[tx % 16, tx // 16 * 8], "r")
                T.ptx_ldmatrix("float16", False, 4, ".b16", r.data, 0, row, 0)
                for v in T.vectorized(8):
                    B[k, tx, v] = r[v]

    a = np.arange(64 * 16, dtype=np.float16).reshape(64, 16)
    lane, held = np.arange(32)[:, None], np.arange(8)
    row, column = lane // 4 + held // 2 % 2 * 8, lane % 4 * 2 + held % 2 + held // 4 * 8
    loaded = a.reshape(4, 16, 16)[:, row, column]
    holds(matrices, (a, np.zeros((4, 32, 8), np.float16)), loaded, on=(SM_80,))
    loop = compiled(matrices, SM_80).get_kernel_source().split("for (int k ")[1]
    body, end = loop.split("\n    }\n")[:2]
    assert (body.count("tl_cp_async_wait"), body.count("__syncthreads")) == (1, 1)
