"""Planted defects are found, with the lines and the elements that they are about."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from refusals import refusal
from tensor_types import F16, F32, I32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileTypeError, TileValueError

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


@T.prim_func
def product(A: F16[64, 96], B: F16[96, 64], C: F32[64, 64]):
    with T.Kernel(1, threads=128):
        left = T.alloc_shared((64, 32), "float16")
        right = T.alloc_shared((32, 64), "float16")
        acc = T.alloc_fragment((64, 64), "float32")
        T.clear(acc)
        for k in T.Pipelined(3, num_stages=2):
            T.copy(A[0, k * 32], left)
            T.copy(B[k * 32, 0], right)
            T.gemm(left, right, acc)
        T.copy(acc, C)


@pytest.fixture(scope="module")
def kernel():
    return tilelang.compile(
        product, out_idx=-1, target="cuda -arch=sm_80", execution_backend="emulator"
    )


@pytest.fixture(scope="module")
def inputs() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((64, 96)), rng.standard_normal((96, 64))
    return a.astype(np.float16), b.astype(np.float16)


def edited(kernel, old: str, new: str, count: int = 1) -> str:
    source = kernel.get_kernel_source()
    assert old in source
    return source.replace(old, new, count)


# -- defects ---------------------------------------------------------------------------------------
def test_the_kernel_itself_has_none(kernel, inputs) -> None:
    report = tilelang.sanitize(kernel, *inputs, seeds=3)
    assert report.ok, report
    assert report.runs == [("late", 0), ("random", 0), ("random", 1), ("random", 2)]
    a, b = inputs
    np.testing.assert_allclose(report.outputs, a.astype("f4") @ b.astype("f4"), atol=1e-2)
    (totals,) = report.totals
    assert (totals.blocks, totals.threads) == (1, 128)
    assert totals.barriers > 2
    assert totals.shared_bytes == 16384
    assert sum(item.count for item in report.barriers) == totals.barriers
    assert 3 in [item.for_block for item in report.barriers]  # once in each of the loop's steps
    assert {cost.buffer for cost in report.costs} >= {"A", "B", "C", "left", "right"}
    assert all(cost.cost >= cost.ideal for cost in report.costs)


def test_a_missing_barrier_is_a_race_of_two_lines(kernel, inputs) -> None:
    report = tilelang.sanitize(kernel, *inputs, source=edited(kernel, "__syncthreads();", ";"))
    race = report.of_kind("race")[0]
    lines = {race.location.user_text, race.other.user_text}
    assert lines & {"T.gemm(left, right, acc)"}
    assert lines & {"T.copy(A[0, k * 32], left)", "T.copy(B[k * 32, 0], right)"}
    assert race.location.file == __file__
    assert race.buffer in ("left", "right")
    assert len(race.index) == 3  # the stage, then the element of the tile
    assert race.actor.thread != race.other_actor.thread
    assert str(race).startswith(f"race: {race.actor} ")


def test_blocks_that_write_one_element_race() -> None:
    @T.prim_func
    def crowd(A: I32[4]):
        with T.Kernel(8, threads=32) as bx:
            tx = T.get_thread_binding()
            if tx == 0:
                A[bx % 4] = bx

    race = tilelang.sanitize(crowd, np.zeros(4, np.int32)).of_kind("race")[0]
    assert race.space == "global"
    assert race.buffer == "A"
    assert race.what == (
        "thread 0 (warp 0) of block (4, 0, 0) writes A[0], and thread 0 (warp 0) of block (0, 0, 0) "
        "wrote it too, in no order"
    )
    assert race.location.user_text == race.other.user_text == "A[bx % 4] = bx"


# -- what it takes ---------------------------------------------------------------------------------
def test_a_function_that_is_the_kernel() -> None:
    @tilelang.lazy_jit
    def double(A: T.Tensor((64,), "float32")):
        B = T.empty((64,), "float32")
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i] * 2.0
        return B

    a = np.arange(64, dtype=np.float32)
    report = tilelang.sanitize(double, a)
    assert report.ok, report
    np.testing.assert_array_equal(report.outputs, a * 2)


def test_a_factory_has_to_be_called_first() -> None:
    @tilelang.jit
    def factory(n: int):
        @T.prim_func
        def kernel(A: F32[n]):
            with T.Kernel(1, threads=32):
                A[0] = 1.0

        return kernel

    assert refusal(TileTypeError, tilelang.sanitize, factory, 64) == (
        "`factory` is a kernel factory, not a kernel\n"
        "  expected: the kernel that calling it gives\n"
        "  hint: tilelang.sanitize(factory(...), ...)"
    )


def test_other_things_are_refused() -> None:
    assert refusal(TileTypeError, tilelang.sanitize, len, 1) == (
        "tilelang.sanitize takes a kernel\n"
        "  expected: a compiled kernel, a @T.prim_func, or a @tilelang.jit function\n"
        "  got: builtin_function_or_method"
    )
    with pytest.raises(TileValueError, match="sanitize runs at least once"):
        tilelang.sanitize(product, seeds=0)


def test_a_schedule_comes_again_with_its_seed(kernel, inputs) -> None:
    source = edited(kernel, "__syncthreads();", ";")
    texts = {
        tilelang.sanitize(kernel, *inputs, source=source, schedule="random", seed=7).json()
        for _ in range(2)
    }
    assert len(texts) == 1
    assert json.loads(texts.pop())["runs"] == [{"schedule": "random", "seed": 7}]


def test_a_picture_has_waits_and_copies(kernel, inputs) -> None:
    report = tilelang.sanitize(kernel, *inputs, checks="all", schedule="fifo")
    kinds = {span.kind for span in report.picture.spans}
    assert "wait" in kinds
    assert any(row.startswith("warp") for row in report.picture.rows())


# -- scripts ---------------------------------------------------------------------------------------
SCRIPT = """
import numpy as np
import tilelang
import tilelang.language as T

@tilelang.jit
def crowd(A: T.Tensor((1,), "int32")):
    with T.Kernel(1, threads=32):
        tx = T.get_thread_binding()
        {statement}

crowd(np.zeros(1, np.int32))
print("done")
"""


@pytest.mark.parametrize(("statement", "code"), [("A[0] = tx", 1), ("T.atomic_add(A[0], tx)", 0)])
def test_a_script_ends_with_a_code(tmp_path: Path, statement: str, code: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(statement=statement))
    done = subprocess.run(
        [sys.executable, "-m", "tilelang.emulator", str(script)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == code, done.stderr
    assert done.stdout == ("" if code else "done\n")
    assert ("race" in done.stderr) == bool(code)


# -- results -----------------------------------------------------------------------------------------
@T.prim_func
def summed(A: I32[128], total: I32[1]):
    with T.Kernel(2, threads=64) as block:
        T.atomic_add(total[0], A[block * 64 + T.get_thread_binding()])


def test_adding_to_an_unwritten_result_is_reported() -> None:
    ones = np.ones(128, np.int32)
    allocated = tilelang.compile(summed, out_idx=-1, target="cuda -arch=sm_80")
    report = tilelang.sanitize(allocated, ones)
    assert {found.kind for found in report.findings} == {"uninitialised-read"}
    assert "reads total[0], which nothing has written" in str(report)
    given = tilelang.compile(summed, target="cuda -arch=sm_80")
    assert tilelang.sanitize(given, ones, np.zeros(1, np.int32)).ok


@pytest.mark.parametrize("target", ["cuda -arch=sm_90a", "hip -mcpu=gfx942", "metal"])
@pytest.mark.parametrize("stored", [62, 32])
def test_threads_store_halves_of_a_byte_that_nothing_has_written(stored: int, target: str) -> None:
    @T.prim_func
    def halves(A: T.Tensor((62,), "uint8"), B: T.Tensor((62,), "uint8")):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared((62,), "uint4")
            for i in T.Parallel(stored):
                s[i] = T.cast(A[i], "uint4")
            for i in T.Parallel(62):
                B[i] = T.cast(s[61 - i], "uint8")

    a = np.arange(62, dtype=np.uint8) % 16
    report = tilelang.sanitize(halves, a, np.zeros_like(a), target=target)
    kinds = {finding.kind for finding in report.findings}
    assert kinds == (set() if stored == 62 else {"uninitialised-read"})
    assert stored < 62 or (report.arguments[1] == a[::-1]).all()
