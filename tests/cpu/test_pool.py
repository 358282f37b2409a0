"""The threads that run blocks: every block once, for any calling thread, and the same results on any number."""

from __future__ import annotations

import _ctypes
import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang.cpu.executable import BASE_FLAGS
from tilelang.cpu.module import INCLUDE_DIR
from tilelang.cpu.toolchain import find_compiler
from tilelang.runtime.library import load_library

pytestmark = [
    pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler"),
    pytest.mark.skipif(not os.path.isdir("/proc/self/task"), reason="counts the threads of Linux"),
]

HARNESS = """
#include "tl_run.h"
#include "tl_pool.h"
#include "tl_block.h"
typedef struct { int64_t* times; int64_t* who; long spin; int32_t fails; size_t inner; } tl_test;
static int64_t own_number(void) { return (int64_t)syscall(SYS_gettid); }
static void inner_blocks(const void* data, char* arena, int32_t* error, int64_t first, int64_t last) {
    const tl_test* t = data;
    for (int64_t b = first; b < last; ++b) __atomic_add_fetch(&t->times[b], 1, __ATOMIC_RELAXED);
    if (t->inner) memset(arena, 1, t->inner);
}
static void blocks(const void* data, char* arena, int32_t* error, int64_t first, int64_t last) {
    const tl_test* t = data;
    for (int64_t b = first; b < last; ++b) {
        __atomic_add_fetch(&t->times[b], 1, __ATOMIC_RELAXED);
        t->who[b] = own_number();
        if (t->inner) {
            memset(arena, 7, t->inner);
            tl_fail(error, tl_launch(inner_blocks, t, 3, t->inner, 1e9));
            for (size_t i = 0; i < t->inner; ++i) if (arena[i] != 7) tl_fail(error, 99);
        }
        for (const int64_t end = tl_now() + t->spin * 1000; tl_now() < end;) tl_pause();
        if (b == t->fails) tl_fail(error, 5);
    }
}
int32_t go(int64_t* times, int64_t* who, long n, double cost, long spin, int32_t fails, size_t inner) {
    tl_test t = {times, who, spin, fails, inner};
    return tl_launch(blocks, &t, n, inner, cost);
}
// Whether the thread is on another core behind it.
int32_t leave(int threads) {
    const int core = tl_core();
    tl_leave_core(core, threads);
    return core != tl_core();
}
"""


def harness(*flags: str) -> ctypes.CDLL:
    """A library that launches blocks which note who ran them."""
    compiler = find_compiler()
    assert compiler is not None
    made = compiler.compile_shared(
        HARNESS, (*BASE_FLAGS, "-pthread", f"-I{INCLUDE_DIR}", "-D_GNU_SOURCE", *flags)
    )
    handle = load_library(made).handle
    handle.go.argtypes = [
        ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long, ctypes.c_double, ctypes.c_long,
        ctypes.c_int32, ctypes.c_size_t,
    ]  # fmt: skip
    return handle


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs ``blocks`` blocks; gives the error, how often each ran and by which threads."""
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    library = harness()

    def go(
        blocks: int, cost: float = 1e9, spin: int = 0, fails: int = -1, inner: int = 0
    ) -> tuple[int, np.ndarray, set[int]]:
        times, who = np.zeros(max(blocks, 3), np.int64), np.zeros(max(blocks, 1), np.int64)
        error = library.go(times.ctypes.data, who.ctypes.data, blocks, cost, spin, fails, inner)
        return error, times[:blocks], set(who[:blocks].tolist())

    go.library = library  # type: ignore[attr-defined]  # for what is not a launch
    return go


@pytest.mark.parametrize("blocks", [0, 1, 2, 3, 4, 5, 7, 64, 1001])
def test_every_block_runs_once(pool: Callable[..., Any], blocks: int) -> None:
    for _ in range(50):
        error, times, _ = pool(blocks)
        assert error == 0
        assert (times == 1).all()


def test_several_threads_help_where_blocks_take_long(pool: Callable[..., Any]) -> None:
    _, times, who = pool(64, spin=2000)
    assert (times == 1).all()
    assert 1 < len(who) <= 4


def test_small_work_stays_on_the_calling_thread(pool: Callable[..., Any]) -> None:
    before = set(os.listdir("/proc/self/task"))
    for _ in range(20):
        assert pool(64, cost=10.0)[2] == {threading.get_native_id()}
    assert set(os.listdir("/proc/self/task")) == before


def test_the_thread_limit_holds(pool: Callable[..., Any]) -> None:
    pool.library.tl_limit_threads(1)  # type: ignore[attr-defined]  # set above
    assert pool(64, spin=200)[2] == {threading.get_native_id()}
    before = len(os.listdir("/proc/self/task"))
    pool.library.tl_limit_threads(2)  # type: ignore[attr-defined]  # set above
    assert len(pool(64, spin=200)[2]) <= 2
    assert len(os.listdir("/proc/self/task")) <= before + 1


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="there is one core")
def test_a_worker_moves_off_the_core_of_its_caller_and_may_return(pool: Callable[..., Any]) -> None:
    cores = os.sched_getaffinity(0)
    leave = pool.library.leave  # type: ignore[attr-defined]  # set above
    assert any(leave(len(cores)) for _ in range(20))  # the system may move it, too
    assert os.sched_getaffinity(0) == cores
    one = min(cores)
    try:
        os.sched_setaffinity(0, {one})
        assert leave(1) == 0
        assert os.sched_getaffinity(0) == {one}
    finally:
        os.sched_setaffinity(0, cores)


def test_a_nested_launch_has_its_own_memory(pool: Callable[..., Any]) -> None:
    error, times, _ = pool(40, inner=5000)
    assert error == 0
    assert times[3:].tolist() == [1] * 37
    assert times[:3].tolist() == [41] * 3


def test_the_first_error_of_a_block_is_that_of_the_launch(pool: Callable[..., Any]) -> None:
    assert pool(500, fails=371)[0] == 5
    assert pool(500)[0] == 0


@pytest.mark.parametrize("spin", [0, 30])
def test_launches_of_many_threads_share_the_pool(pool: Callable[..., Any], spin: int) -> None:
    wrong: list[Any] = []

    def work(blocks: int) -> None:
        for _ in range(40):
            error, times, _ = pool(blocks, spin=spin)
            if error or not (times == 1).all():
                wrong.append(times)

    callers = [threading.Thread(target=work, args=(5 + 3 * n,)) for n in range(12)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(120)
        assert not caller.is_alive()
    assert not wrong


def test_threads_end_when_the_library_is_unloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    before = set(os.listdir("/proc/self/task"))
    library = harness("-DONE_MORE")  # a library of its own, so that it goes
    times, who = np.zeros(64, np.int64), np.zeros(64, np.int64)
    assert library.go(times.ctypes.data, who.ctypes.data, 64, 1e9, 100, -1, 0) == 0
    assert len(set(os.listdir("/proc/self/task")) - before) == 3
    _ctypes.dlclose(library._handle)
    assert set(os.listdir("/proc/self/task")) <= before


# -- kernels ----------------------------------------------------------------------------------------
PROGRAM = """
import hashlib, os, sys, threading, time
import numpy as np
import tilelang, tilelang.language as T

@T.prim_func
def rows(X: T.Tensor((300, 513), "float32"), Y: T.Tensor((300, 513), "float32"),
         H: T.Tensor((8,), "int32")):
    with T.Kernel(100, threads=32) as b:
        x = T.alloc_fragment((3, 513), "float32")
        s = T.alloc_fragment((3,), "float32")
        T.copy(X[b * 3, 0], x)
        for _ in T.serial(b % 7 * 10 + 1):  # blocks of different length
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(3, 513):
                x[i, j] = T.exp(x[i, j] - s[i] * 0.001) * 0.9
        T.copy(x, Y[b * 3, 0])
        T.atomic_add(H[b % 8], 1)

kernel = tilelang.compile(rows, target="cpu")
X = np.random.default_rng(0).normal(size=(300, 513)).astype(np.float32)

def call():
    Y, H = np.zeros_like(X), np.zeros(8, np.int32)
    kernel(X, Y, H)
    assert H.sum() == 3200
    return hashlib.sha256(Y.tobytes()).hexdigest()

def tasks():
    return len(os.listdir("/proc/self/task"))
"""


@pytest.fixture
def output(tmp_path: Path) -> Callable[..., str]:
    """What the program, followed by ``more``, prints in a process of its own."""

    def run(more: str, threads: int, **variables: str) -> str:
        file = tmp_path / "program.py"
        file.write_text(PROGRAM + more, encoding="utf-8")
        done = subprocess.run(
            [sys.executable, str(file)],
            env={**os.environ, "OMP_NUM_THREADS": str(threads), **variables},
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_results_do_not_depend_on_the_number_of_threads(output: Callable[..., str]) -> None:
    more = "print(*{call() for _ in range(5)}, tasks() - before)"
    found = [output("before = tasks()\n" + more, threads).split() for threads in (1, 2, 8)]
    assert [int(words[1]) for words in found] == [0, 1, 7]
    assert len({words[0] for words in found}) == 1
    if compiler := find_compiler():
        with_openmp = output(more.replace("tasks() - before", "0"), 3, TILELANG_OPENMP="1")
        assert not compiler.openmp or with_openmp.split()[0] == found[0][0]


def test_a_child_after_fork_starts_a_thread_pool(output: Callable[..., str]) -> None:
    more = """
wanted, stop = call(), False
def others():
    while not stop:
        assert call() == wanted
callers = [threading.Thread(target=others) for _ in range(3)]
for caller in callers: caller.start()
for _ in range(5):
    child = os.fork()
    if child == 0:
        import signal; signal.alarm(60)
        same = all(call() == wanted for _ in range(5))
        os._exit(0 if same and tasks() == 3 else 1)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for caller in callers: caller.join()
print("done")
"""
    assert output(more, 3) == "done\n"


def test_a_spawned_process_starts_a_thread_pool(output: Callable[..., str]) -> None:
    more = """
if __name__ == "__main__":
    import multiprocessing
    with multiprocessing.get_context("spawn").Pool(2) as workers:
        found = [workers.apply_async(call) for _ in range(4)]
        print(all(item.get() == call() for item in found))
"""
    assert output(more, 2) == "True\n"


def test_a_process_ends_while_a_thread_of_it_calls(output: Callable[..., str]) -> None:
    more = """
def forever():
    while True: call()
for _ in range(4): threading.Thread(target=forever, daemon=True).start()
time.sleep(0.5)
print("done")
"""
    assert output(more, 3) == "done\n"
