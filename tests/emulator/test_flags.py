"""Blocks that tell each other by flags in memory: what a flag orders, and who has to wait."""

from __future__ import annotations

import numpy as np
import pytest
from tensor_types import I32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import DeadlockError

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
ARCHES = ("sm_80", "sm_90a")


def numbers(*counts: int) -> list[np.ndarray]:
    return [np.zeros(count, np.int32) for count in counts]


def emulated(program):
    return tilelang.compile(program, target="cuda -arch=sm_80", execution_backend="emulator")


def telling(before: bool, barrier: bool, blocks: int, wait: str = "acquire", late: bool = False):
    """Block 0 writes D and sets a flag, each block hands it on, the last one reads D."""

    @T.prim_func
    def tell(D: I32[64], F: I32[blocks], O: I32[64]):
        with T.Kernel(blocks, threads=64) as at:
            b = blocks - 1 - at if late else at
            t = T.get_thread_binding()
            if b == 0:
                if before:
                    D[t] = 7
                if barrier:
                    T.sync_threads()
                if t == 0:
                    T.atomic_store(F[0], 1, memory_order="release")
                if not before:
                    D[t] = 7
            else:
                if t == 0:
                    while T.atomic_load(F[b - 1], memory_order=wait) == 0:
                        T.evaluate(0)
                    T.atomic_store(F[b], 1, memory_order="release")
                T.sync_threads()
                if b == blocks - 1:
                    O[t] = D[t]

    return tell


@pytest.mark.parametrize("late", [False, True], ids=["earlier", "later"])
def test_a_flag_orders_what_its_block_did_before_it(late: bool) -> None:
    tell = telling(True, True, 5, late=late)
    args = numbers(64, 5, 64)
    for arch in ARCHES:
        report = tilelang.sanitize(tell, *args, target=f"cuda -arch={arch}")
        assert report.ok, report
    emulated(tell)(*args)
    assert (args[2] == 7).all()


@pytest.mark.parametrize(
    ("before", "barrier", "wait"),
    [(False, True, "acquire"), (True, False, "acquire"), (True, True, "relaxed")],
    ids=["written after it", "written by other threads", "not acquired"],
)
def test_a_flag_orders_nothing_else(before: bool, barrier: bool, wait: str) -> None:
    tell = telling(before, barrier, 3, wait)
    report = tilelang.sanitize(tell, *numbers(64, 3, 64), target="cuda -arch=sm_80")
    (found, *_) = report.of_kind("race")
    assert {item.buffer for item in report.findings} == {"D"}
    assert found.location.user_text == "O[t] = D[t]" and found.other.user_text == "D[t] = 7"


def test_a_block_that_no_flag_waits_for_is_in_no_order() -> None:
    @T.prim_func
    def third(D: I32[2], F: I32[1], O: I32[1]):
        with T.Kernel(3, threads=1) as b:
            if b == 0:
                T.atomic_store(F[0], 1, memory_order="release")
            if b == 1:
                D[1] = 7
            if b == 2:
                while T.atomic_load(F[0], memory_order="acquire") == 0:
                    T.evaluate(0)
                O[0] = D[1]

    report = tilelang.sanitize(third, *numbers(2, 1, 1), target="cuda -arch=sm_80")
    assert [str(item).splitlines()[0] for item in report.findings] == [
        "race: thread 0 (warp 0) of block (2, 0, 0) reads D[1], and thread 0 (warp 0) of block "
        "(1, 0, 0) wrote it, in no order"
    ]


@pytest.mark.parametrize("fence", [True, False])
def test_the_last_block_sums_what_all_have_written(fence: bool) -> None:
    @T.prim_func
    def total(X: I32[6, 64], P: I32[6, 64], C: I32[1], O: I32[64]):
        with T.Kernel(6, threads=64) as b:
            t = T.get_thread_binding()
            last = T.alloc_shared((1,), "int32")
            P[b, t] = X[b, t]
            T.sync_threads()
            if t == 0:
                order = "acq_rel" if fence else "relaxed"
                last[0] = T.atomic_add(C[0], 1, memory_order=order, return_prev=True)
            T.sync_threads()
            if last[0] == 5:
                O[t] = 0
                for k in T.serial(6):
                    O[t] = O[t] + P[k, t]
                if t == 0:
                    C[0] = 0

    args = [np.arange(384, dtype=np.int32).reshape(6, 64), np.zeros((6, 64), np.int32)]
    report = tilelang.sanitize(total, *args, *numbers(1, 64), target="cuda -arch=sm_80")
    assert report.ok == fence, report
    assert fence or {item.buffer for item in report.of_kind("race")} == {"P", "C"}


def test_blocks_that_wait_for_each_other_in_a_row_are_no_deadlock() -> None:
    @T.prim_func
    def scan(X: I32[512], Y: I32[512], F: I32[8], S: I32[8]):
        with T.Kernel(8, threads=64) as b:
            before = T.alloc_shared((1,), "int32")
            tile = T.alloc_shared((64,), "int32")
            T.copy(X[b * 64], tile)
            T.cumsum(tile)
            if T.get_thread_binding() == 0:
                before[0] = 0
                if b > 0:
                    while T.atomic_load(F[b - 1]) == 0:
                        T.evaluate(0)
                    before[0] = S[b - 1]
                S[b] = before[0] + tile[63]
                T.atomic_store(F[b], 1)
            for i in T.Parallel(64):
                Y[b * 64 + i] = tile[i] + before[0]

    kernel = emulated(scan)
    for _ in range(50):
        x, y, flags, sums = np.ones(512, np.int32), *numbers(512, 8, 8)
        kernel(x, y, flags, sums)
        np.testing.assert_array_equal(y, np.arange(1, 513))


def counting(limit: int):
    @T.prim_func
    def count(F: I32[1], O: I32[1]):
        with T.Kernel(1, threads=1):
            turns = T.alloc_var("int32", init=0)
            while T.atomic_load(F[0]) == 0 and turns < limit:
                turns += 1
            O[0] = turns

    return count


def test_a_wait_that_gives_up_is_no_deadlock() -> None:
    flag, turns = numbers(1, 1)
    emulated(counting(100_000))(flag, turns)
    assert turns[0] == 100_000


def test_a_flag_that_no_thread_sets_is_a_deadlock() -> None:
    @T.prim_func
    def never(F: I32[1], O: I32[1]):
        with T.Kernel(3, threads=2):
            while T.atomic_load(F[0]) == 0:
                T.evaluate(0)
            O[0] = 1

    with pytest.raises(DeadlockError, match="wait forever") as failure:
        emulated(never)(*numbers(1, 1))
    assert "2 threads wait for ever at a loop that polls" in str(failure.value)
