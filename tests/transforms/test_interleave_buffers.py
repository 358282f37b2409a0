"""Adjacent tiles of a stage: which ones, at which addresses, and what else finds room."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program
from test_persistent_epilogue import HOPPER, product

import tilelang

SPECIAL = {"tl.disable_persistent_tiles": True}


def places(text: str) -> dict[str, int]:
    """Where the buffers of a kernel begin."""
    found = re.findall(r"\* const (\w+) = \(\w+\*\)\(tl_smem(?: \+ (\d+))?\);", text)
    return {name: int(at or 0) for name, at in found}


def text_of(func: Any, **options: Any) -> str:
    return tilelang.compile(func, target=HOPPER, pass_configs=options).get_kernel_source()


def test_versions_of_two_tiles_are_interleaved() -> None:
    text = text_of(product())  # 16384 and 8192 bytes, three versions
    found = places(text)
    assert (found["a"], found["b"]) == (0, 16384)
    assert found["rows"] == 3 * (16384 + 8192)
    assert "tl_tma_load(&a[stage_1 * 12288]" in text
    assert "tl_tma_load(&b[stage_1 * 12288]" in text


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("trans_b", [False, True])
def test_results_stay(stages: int, trans_b: bool) -> None:
    func = product(256, 192, 256, stages=stages, trans_b=trans_b)
    random = np.random.default_rng(3)
    A, B = (random.integers(-2, 3, (n, 256)).astype(np.float16) for n in (256, 192))
    C = np.full((256, 192), np.nan, np.float16)
    kernel = tilelang.compile(
        func, target=HOPPER, execution_backend="emulator", pass_configs=SPECIAL
    )
    kernel(A, B if trans_b else np.ascontiguousarray(B.T), C)
    np.testing.assert_array_equal(C, (A.astype(np.float32) @ B.T.astype(np.float32)))


def small() -> Any:
    """A product of one warpgroup, whose users copy themselves."""
    return gemm_program(64, 64, 512, (64, 64, 64), 3)


def test_a_pipeline_by_cp_async_does_not_interleave_tiles() -> None:
    found = places(text_of(small(), **{"tl.disable_tma_lower": True}))
    assert abs(found["a"] - found["b"]) == 4 * 8192
