"""Data in shared memory that no thread reads, and blocks that end while others use their memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx

sys.path.append(str(Path(__file__).parents[1] / "cuda"))
import ptx_programs

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
CHECKS = ("races", "lost-writes")


@T.prim_func
def rounds(A: T.Tensor((2, 64), "float32"), B: T.Tensor((2, 64), "float32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        tile = T.alloc_shared((2, 64), "float32")
        for k in T.serial(2):
            tile[k, tx] = A[k, tx]
            T.sync_threads()
            B[k, tx] = tile[k, 63 - tx]


def edited(old: str, new: str) -> str:
    source = tilelang.compile(
        rounds, target="cuda -arch=sm_80", execution_backend="emulator"
    ).get_kernel_source()
    assert old in source, source
    return source.replace(old, new)


@pytest.fixture(scope="module")
def inputs() -> tuple[np.ndarray, np.ndarray]:
    a = np.arange(128, dtype=np.float32).reshape(2, 64)
    return a, np.zeros_like(a)


def test_data_that_is_read_is_not_lost(inputs) -> None:
    assert tilelang.sanitize(rounds, *inputs, checks=CHECKS).ok


def test_a_stage_that_is_filled_twice_is_a_lost_write_of_two_lines(inputs) -> None:
    source = edited("tile[k * 64 + tx] =", "tile[tx] =")
    report = tilelang.sanitize(rounds, *inputs, source=source, checks=CHECKS, schedule="fifo")
    kinds = {item.kind for item in report.findings}
    assert "uninitialised-read" in kinds  # the other stage
    assert "lost-write" in kinds
    assert not tilelang.sanitize(rounds, *inputs, source=source, checks="races").of_kind(
        "lost-write"
    )


def test_a_stage_that_is_read_twice_leaves_the_other_one_unread(inputs) -> None:
    source = edited("tile[k * 64 + (63 - tx)]", "tile[63 - tx]")
    assert tilelang.sanitize(rounds, *inputs, source=source).ok  # all accesses are in order
    report = tilelang.sanitize(rounds, *inputs, source=source, checks=CHECKS, schedule="fifo")
    (lost,) = report.of_kind("lost-write")
    assert lost.what == f"data written to tile[1, {lost.index[1]}] is never read"
    assert lost.details == "the block ends"
    assert lost.location.user_text == "tile[k, tx] = A[k, tx]"
    assert lost.count == 128  # cells of two bytes


# -- clusters --------------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def cluster():
    entry = ptx_programs.PROGRAMS["cluster"]
    return entry.make(), ptx_programs.arguments(entry)[0]


def checked(cluster, old: str = "", new: str = ""):
    func, args = cluster
    target = "cuda -arch=sm_90a"
    kernel = tilelang.compile(func, target=target, execution_backend="emulator")
    source = kernel.get_kernel_source()
    assert old in source
    return tilelang.sanitize(kernel, *args, source=source.replace(old, new), target=target)


def test_blocks_that_wait_for_each_other_may_read_each_others_memory(cluster) -> None:
    report = checked(cluster)
    assert report.ok, report


def test_a_block_that_may_end_before_another_one_has_read_its_memory_is_a_finding(cluster) -> None:
    report = checked(cluster, "tl_cluster_arrive();", "tl_cluster_arrive_relaxed();")
    (early,) = {item.kind: item for item in report.findings}.values()
    assert early.kind == "early-exit"
    assert early.buffer == "own"
    assert early.location.user_text == "C[bx, tx] = other[tx]"
    assert early.what == (
        f"{early.actor} accesses {early.element} of another block, which may have ended by then"
    )
