"""Estimates of traced programs, and choices without a search."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from autotuner.family import factory
from autotuner.test_prune import product
from tilelang.autotuner import AutoTuner, autotune
from tilelang.autotuner.model import configurations, estimate, values_for
from tilelang.errors import TileValueError
from tilelang.target import parse_target

H100, CPU = parse_target("cuda -arch=sm_90a"), parse_target("cpu")


def milliseconds(*shape: int, target: Any = H100) -> float:
    return estimate(product(*shape), target).milliseconds


def test_large_tiles_move_less() -> None:
    assert milliseconds(128, 128, 64, 3, 128) < milliseconds(32, 32, 64, 3, 128)
    assert milliseconds(128, 128, 64, 1, 128, target=CPU) < milliseconds(
        16, 16, 64, 1, 128, target=CPU
    )


def test_stages_cover_latency() -> None:
    times = [milliseconds(128, 128, 64, stages, 128) for stages in (1, 2, 3)]
    assert times[0] > times[1] >= times[2]


def test_few_blocks_leave_processors_idle() -> None:
    # 16 blocks of 256 x 256 on 132 processors.
    assert milliseconds(256, 256, 64, 3, 512) > milliseconds(128, 64, 64, 3, 128)


def copied(n: int, block: int) -> Any:
    @T.prim_func
    def copied(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(n // block, threads=128) as bx:
            T.copy(A[bx * block : bx * block + block], B[bx * block : bx * block + block])

    return copied


def test_the_time_of_a_copy_is_that_of_its_memory() -> None:
    found = estimate(copied(1 << 26, 4096), H100)
    assert found.bound == "memory"
    assert 2 * 4 * (1 << 26) / 4e12 * 1e3 <= found.milliseconds < 0.3
    assert str(found) == f"{found.milliseconds:.3g} ms, bound by memory"


def test_every_architecture_has_figures() -> None:
    func = product(128, 128, 64, 2, 128)
    times = {
        arch: estimate(func, parse_target(f"cuda -arch={arch}")).milliseconds
        for arch in ("sm_75", "sm_80", "sm_86", "sm_87", "sm_90a", "sm_100a", "sm_120a")
    }
    assert times["sm_75"] > times["sm_80"] > times["sm_90a"]


@pytest.mark.parametrize(
    ("name", "known"),
    [("block_M", True), ("BLOCK_N", True), ("bk", True), ("num_stages", True),
     ("thread_num", True), ("block_size", True), ("policy", False), ("M", False)],
)  # fmt: skip
def test_valid_strategy_names(name: str, known: bool) -> None:
    assert (values_for(name, H100) is not None) == known


def test_configurations_by_name() -> None:
    found = configurations("f", ["block_M", "num_stages", "policy"], CPU)
    assert found == [{"block_M": m, "num_stages": 1} for m in (16, 64, 128, 256, 512)]
    assert refusal(TileValueError, configurations, "f", ["policy"], CPU) == (
        'configs="model" finds no parameter of `f` that it knows\n  expected: parameters with '
        "defaults called block_M, block_N, block_K, block_size, num_stages or threads\n"
        "  got: policy"
    )


def plain(n: int, block_size: int = 64, factor: float = 2.0) -> Any:
    @T.prim_func
    def scaled(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block_size), threads=32) as bx:
            for i in T.Parallel(block_size):
                B[bx * block_size + i] = A[bx * block_size + i] * factor

    return scaled


def test_a_choice_without_a_search() -> None:
    tuned = autotune(configs="model")(tilelang.jit(plain, out_idx=-1, target="cpu"))
    kernel = tuned(4096, factor=3.0)
    assert (kernel(np.ones(4096, np.float32)) == 3).all()
    report = tuned.result.report
    assert [row.state for row in report.rows] == ["estimated"] * 4
    assert kernel.config == report.rows[0].config and kernel.latency == report.rows[0].latency
    assert "4 configurations, 4 estimated" in str(report)
    assert kernel.explain().endswith(
        f"configuration\n  block_size={kernel.config['block_size']} ({kernel.latency:.3g} ms)"
    )
    assert tuned(4096, 64, 2.0).config is None  # all is given

    def with_default(block_size: int = 8) -> Any:
        return plain(4096, block_size)

    result = AutoTuner.from_kernel(with_default, "model").set_compile_args(target="cpu").run()
    assert set(result.config) == {"block_size"} and result.report.rows[0].state == "estimated"


def test_configurations_of_the_user_are_estimated() -> None:
    tuned = autotune(configs={"mode": ["slow", "fast", "refused", "untraced"]}, strategy="model")(
        factory()
    )
    assert tuned(2048).config == {"mode": "fast"}
    states = {row.config["mode"]: row.state for row in tuned.result.report.rows}
    assert (states["fast"], states["slow"], states["untraced"]) == (
        "estimated",
        "estimated",
        "failed",
    )
