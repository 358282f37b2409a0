"""What a machine can do at most, and parameters over a range."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import TileUnsupportedError, TileValueError
from tilelang.profiler import Comparison, Roof, Sweep, Timing, Work, sweep
from tilelang.profiler.roof import device_name, known_roof
from tilelang.target import parse_target
from tilelang.tools import machine, roof

CPU = parse_target("cpu")


def doubled(n: int) -> tilelang.JITKernel:
    @T.prim_func
    def double(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i] * 2.0

    return tilelang.compile(double, out_idx=-1, target="cpu")


def test_work_relative_to_the_roofline() -> None:
    found = Roof("a machine", gbps=10.0, tflops=0.1)
    moves, computes = Work(1e6, 0.0, 5e6, 5e6), Work(1e9, 1e9, 5e6, 5e6)
    assert found.milliseconds(moves) == pytest.approx(1.0)
    assert found.milliseconds(computes) == pytest.approx(10.0)
    assert found.share(moves, 4.0) == pytest.approx(0.25)
    assert str(found) == "a machine: 10 GB/s, 0.1 TFLOP/s"


def test_a_roof_is_measured_once_and_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert known_roof(CPU) is None
    assert doubled(64).explain() == "`double` runs as C on the CPU cores"
    rates = iter([25e6, 0.15e9])
    monkeypatch.setattr(machine, "_rate", lambda *_: next(rates))
    found = roof("cpu")
    assert found == Roof(device_name(CPU), 25.0, 0.15)
    assert roof("cpu") == found == known_roof(CPU)  # nothing is measured again
    assert doubled(64).explain() == (
        "`double` runs as C on the CPU cores\n\n"
        f"work of a call\n  64 operations, 512 bytes: 20.5 ns at least, by {found}"
    )


def test_the_machine_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_COPIED", {False: 1 << 16})
    monkeypatch.setattr(machine, "_PRODUCT", {False: 64})
    monkeypatch.setattr(machine, "_TILE", {False: (64, 64, 64)})
    found = roof("cpu", again=True)
    assert found.gbps > 0 and found.tflops > 0


def test_a_gpu_that_is_not_there_has_no_roof() -> None:
    assert refusal(TileUnsupportedError, roof, "hip -mcpu=gfx942") == (
        "a roofline is measured on this machine\n"
        "  expected: the CPU, or a GPU that torch finds\n"
        "  got: target='hip -arch=gfx942'"
    )


def test_the_table_has_a_column_of_the_roof() -> None:
    work = Work(2e9, 2e9, 3e6, 1e6)
    found = Comparison({"mine": Timing((1.0,) * 5)}, work, Roof("it", 8.0, 4.0))
    assert str(found) == (
        "name  latency   p10   p90  GB/s  TFLOP/s  ratio  of the roof\n"
        "mine     1 ms  1 ms  1 ms     4        2   1.00         50 %"
    )
    assert found.rows[0]["roof"] == pytest.approx(0.5)


def points(roof: Roof | None = None) -> Sweep:
    work = Work(2e9, 2e9, 3e6, 1e6)
    at = [Comparison({"mine": Timing((t,)), "theirs": Timing((2 * t,))}, work) for t in (1.0, 2.0)]
    return Sweep("n", dict(zip((64, 128), at)), roof)


def test_a_sweep_is_a_table_and_json() -> None:
    assert str(points()) == "n    mine  theirs\n64      1       2\n128     2       4"
    assert points().table("GB/s") == "n    mine  theirs\n64      4       2\n128     2       1"
    rows = json.loads(points().to_json())
    assert [(row["n"], row["name"]) for row in rows] == [
        (64, "mine"), (64, "theirs"), (128, "mine"), (128, "theirs"),
    ]  # fmt: skip
    assert refusal(TileValueError, points().table, "GBs") == (
        "figure has the wrong value\n  expected: GB/s, TFLOP/s, latency\n  got: 'GBs'"
    )


def test_a_sweep_is_drawn_with_the_roof() -> None:
    pytest.importorskip("matplotlib", reason="the picture is matplotlib's").use("agg")
    axes = points(Roof("it", 8.0, 4.0)).plot()
    assert [line.get_label() for line in axes.lines] == ["mine", "theirs", "roof"]
    assert list(axes.lines[0].get_ydata()) == [4.0, 2.0]
    assert len(points().plot(figure="latency").lines) == 2


def test_no_picture_without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(TileUnsupportedError, match=r"needs matplotlib\n  hint: pip install"):
        points().plot()


def test_a_kernel_is_swept() -> None:
    seen: list[Any] = []
    found = sweep(doubled, (16, 32), {"other": seen.append}, name="n", warmup=0.1, rep=0.1)
    assert list(found.points) == [16, 32]
    assert {row["name"] for row in found.rows} == {"double", "other"}
    assert {a.shape for a in seen} == {(16,), (32,)}
    with pytest.raises(TileValueError, match="a sweep needs values"):
        sweep(doubled, ())
