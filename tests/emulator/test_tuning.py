"""Kernels of a GPU are tuned where there is none."""

from __future__ import annotations

import sys

import pytest
from autotuner.family import doubled, scaled

import tilelang
from tilelang.autotuner import AutoTuner, autotune


def test_kernels_of_a_gpu_are_tuned_in_the_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.setenv("TILELANG_AUTO_TUNING_DISABLE_CACHE", "1")
    made = tilelang.jit(scaled, out_idx=-1, target="cuda -arch=sm_80", execution_backend="emulator")
    tuned = autotune(
        configs={"mode": ["fast", "wrong"]}, ref_prog=doubled, warmup=1, rep=1, isolate=False
    )(made)
    try:
        assert tuned(64).config == {"mode": "fast"}
    finally:
        AutoTuner._memory_cache.clear()
    assert [row.state for row in tuned.result.report.rows] == ["measured", "wrong"]
