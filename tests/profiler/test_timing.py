"""Readings, what a program does by its own text, and comparisons."""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program
from tensor_types import F32, I32

import tilelang
import tilelang.language as T
from tilelang.errors import TileWarning
from tilelang.profiler import Comparison, Timing, Work, clocks, measure, measure_together, work_of
from tilelang.profiler.clocks import HostClock
from tilelang.profiler.compare import table
from tilelang.profiler.timing import milliseconds


class Clock:
    """Time that passes in calls, and a little each time it is read."""

    def __init__(self, cost: float, reading: float = 0.0, hiccups: tuple[int, ...] = ()) -> None:
        self.now, self.cost, self.reading = 0.0, cost, reading
        self.hiccups, self.calls = hiccups, 0

    def perf_counter(self) -> float:
        self.now += self.reading / 1e3
        return self.now

    def work(self) -> None:
        self.now += (self.cost + (20.0 if self.calls in self.hiccups else 0.0)) / 1e3
        self.calls += 1


def with_clock(monkeypatch: pytest.MonkeyPatch, *args: Any) -> Clock:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    made = Clock(*args)
    monkeypatch.setattr(clocks, "time", made)
    return made


# -- readings -------------------------------------------------------------------------------------
def test_the_figures_of_readings() -> None:
    found = Timing((1.0, 2.0, 3.0, 4.0, 10.0))
    assert (found.mean, found.median, found.min, found.max) == (4.0, 3.0, 1.0, 10.0)
    assert found.spread == pytest.approx(2 / 3)
    assert found.quantile(0.25) == 2.0
    assert found.figure("auto") == found.latency == 4.0
    assert Timing(found.samples, host=True).latency == found.steady == 1.0
    assert str(Timing((2e-3, 2e-3))) == "2 us (spread 0 %)"


def test_a_disturbed_part_of_the_time_does_not_count() -> None:
    quiet, busy = [1.0, 1.1, 1.0, 1.1], [5.0, 6.0, 7.0, 20.0]
    found = Timing(tuple(busy + busy + quiet + busy + busy))
    assert found.steady == pytest.approx(1.05)
    assert found.mean > 7.0


def test_a_single_short_reading_does_not_decide() -> None:
    assert Timing((3.0,) * 9 + (0.1,) + (3.0,) * 10).steady == 3.0


@pytest.mark.parametrize(
    ("value", "text"), [(1500.0, "1.5 s"), (2.0, "2 ms"), (0.0044, "4.4 us"), (5e-5, "50 ns")]
)
def test_times_are_written_for_people(value: float, text: str) -> None:
    assert milliseconds(value) == text


def test_short_calls_are_timed_several_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # Reading the clock costs ten times as much as a call.
    made = with_clock(monkeypatch, 1e-3, 1e-2)
    found = measure(made.work, warmup=1, rep=10)
    assert found.host and found.latency == pytest.approx(1e-3, rel=0.06)
    clock = HostClock()
    clock.estimate(made.work)
    assert clock.calls >= 150


def test_a_slow_first_call_hides_no_short_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_clock(monkeypatch, 4e-3, 1e-4, tuple(range(3, 10_000, 997)))
    assert measure(made.work, warmup=1, rep=40).latency == pytest.approx(4e-3, rel=0.01)


def test_functions_are_measured_alternately(monkeypatch: pytest.MonkeyPatch) -> None:
    made = with_clock(monkeypatch, 1.0)
    order: list[str] = []

    def named(name: str) -> Any:
        return lambda: (order.append(name), made.work())

    found = measure_together({"a": named("a"), "b": named("b")}, warmup=1, rep=10)
    assert {name: len(timing.samples) for name, timing in found.items()} == {"a": 10, "b": 10}
    assert "".join(order[-20:]) == "aabb" * 5


# -- work -----------------------------------------------------------------------------------------
def test_the_work_of_a_product() -> None:
    product = gemm_program(128, 64, 96, (64, 32, 32))

    flops = 2.0 * 128 * 96 * 64
    assert work_of(product) == Work(
        flops, flops, (128 * 96 + 96 * 64) * 2.0, 128 * 64 * 4.0, exact=True
    )
    work = work_of(product)
    assert work.tflops(1.0) == pytest.approx(flops / 1e9)
    assert work.gbps(1.0) == pytest.approx(work.bytes / 1e6)


def test_extents_that_depend_on_the_block_are_taken_at_the_middle() -> None:
    @T.prim_func
    def triangle(A: F32[9, 64], B: F32[9, 64]):
        with T.Kernel(9, threads=32) as bx:
            for k in T.serial(bx + 1):
                for j in T.Parallel(64):
                    B[bx, j] = B[bx, j] + T.exp(A[k, j]) * 2.0

    work = work_of(triangle)
    assert work.flops == 45 * 64 * 3  # 1 + 2 + ... + 9 rows
    assert (work.bytes_read, work.bytes_written, work.exact) == (2 * 9 * 64 * 4, 9 * 64 * 4, True)


def test_symbols_have_to_be_given_and_loads_are_not_known() -> None:
    n = T.dynamic("n")

    @T.prim_func
    def ragged(sizes: I32[4], A: F32[n], B: F32[4]):
        with T.Kernel(4, threads=32) as bx:
            for k in T.serial(sizes[bx]):
                B[bx] += A[k]

    known = work_of(ragged, {"n": 1000})
    assert (known.bytes_read, known.flops, known.exact) == (16 + 4000 + 16, 4.0, False)
    assert work_of(ragged).bytes_read == 16 + 4 + 16


# -- comparison -----------------------------------------------------------------------------------
def doubled() -> tilelang.JITKernel:
    @T.prim_func
    def double(A: F32[1024], B: F32[1024]):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(1024):
                B[i] = A[i] * 2.0

    return tilelang.compile(double, out_idx=-1, target="cpu")


def test_a_table_of_timings() -> None:
    work = Work(2e9, 2e9, 3e6, 1e6)
    found = Comparison({"mine": Timing((1.0,) * 5), "theirs": Timing((2.0,) * 5)}, work)
    assert str(found) == (
        "name    latency   p10   p90  GB/s  TFLOP/s  ratio\n"
        "mine       1 ms  1 ms  1 ms     4        2   1.00\n"
        "theirs     2 ms  2 ms  2 ms     2        1   2.00"
    )
    rows = json.loads(found.to_json())
    assert [(row["name"], row["latency"], row["ratio"]) for row in rows] == [
        ("mine", 1.0, 1.0),
        ("theirs", 2.0, 2.0),
    ]
    assert table([["a", "b"], ["long", "c"]]) == "a     b\nlong  c"


def test_a_kernel_that_runs_concurrently_with_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    profiler = doubled().get_profiler()
    found = profiler.compare({"numpy": lambda a: a * 2}, warmup=1, rep=2)
    assert list(found.timings) == ["double", "numpy"]
    assert found.work == profiler.work() == Work(1024.0, 0.0, 4096.0, 4096.0)
    assert all(timing.latency > 0 for timing in found.timings.values())
    one = np.ones(1024, np.float32)
    seen: list[Any] = []
    found = profiler.compare(seen.append, warmup=1, rep=1, input_tensors=[one])
    assert list(found.timings) == ["double", "reference"] and seen[0] is one
    found = profiler.compare({"double": seen.append}, warmup=1, rep=1, input_tensors=[one])
    assert list(found.timings) == ["double (this kernel)", "double"]
    assert profiler.measure(1, 2).latency > 0


# -- resources ------------------------------------------------------------------------------------
def crowded(blocks: int) -> tilelang.JITKernel:
    @T.prim_func
    def crowded(A: F32[64, 128], B: F32[128]):
        with T.Kernel(1, threads=128):
            T.annotate_min_blocks_per_sm(blocks)
            column = T.alloc_fragment((64, 128), "float32")
            total = T.alloc_fragment((128,), "float32")
            T.copy(A, column)
            T.reduce_sum(column, total, dim=0)
            for i, j in T.Parallel(64, 128):
                column[i, j] = T.exp(column[i, j] - total[j])
            T.reduce_max(column, total, dim=0)
            T.copy(total, B)

    return tilelang.compile(crowded, target="cuda -arch=sm_80")


def test_register_spills_are_reported(recwarn: pytest.WarningsRecorder) -> None:
    with pytest.warns(
        TileWarning, match=r"kernel crowded is slower than it could be: \d+ bytes of"
    ):
        kernel = crowded(16)
    assert kernel.n_spills > 0
    assert crowded(1).n_spills == 0 and not recwarn.list


@pytest.mark.filterwarnings("ignore:[^\n]*registers are spilled")
def test_resources_of_a_kernel() -> None:
    kernel = crowded(16)
    assert kernel.occupancy == 1.0 and kernel.n_regs == 32
    assert kernel.n_shared == kernel.resources.shared == 2048
