"""The text for sm_90a of every example and of every kernel of the GPU benchmark, checked in the
emulator: no finding, and the numbers of the interpreter.

Random programs and the corpus run on sm_90a in tests of their own; hand-written programs of the
units of Hopper in ``test_hopper`` and ``test_single_instructions``.
"""
# ruff: noqa: E402  # imports from bench/ follow the line that finds them

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "emulator"), str(ROOT / "tests" / "cuda")]
from captured import Case, as_results, capturing
from example_modules import NAMES as EXAMPLES
from mutate_cases import groups

import tilelang
from tilelang.emulator.compilers import find_cxx

ARCH = "sm_90a"
GROUPS = groups(ARCH)

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


def checked(case: Case) -> None:
    """Run a call on a random schedule, with all checks, and compare with the interpreter."""
    seed = zlib.crc32(case.name.encode()) % 1000
    kernel = case.kernel(f"cuda -arch={case.arch or ARCH}", "interpret")
    report = tilelang.sanitize(kernel, *case.args, seed=seed)
    assert report.ok, f"{case.name}, seed {seed}: {report}"
    found = as_results(report.outputs, report.arguments)
    assert len(found) == len(case.results)
    for ours, expected in zip(found, case.results):
        ours, expected = (np.asarray(each).astype(np.float64) for each in (ours, expected))
        np.testing.assert_allclose(ours, expected, rtol=2e-2, atol=2e-2, err_msg=case.name)


def half(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float16)


def codes(*shape: int, below: int = 256) -> np.ndarray:
    return np.random.default_rng(1).integers(0, below, shape).astype(np.uint8)


def product(tile: dict[str, int], dtype: str = "float16", turned: bool = False) -> Any:
    """A tile of C, with more steps than stages."""
    M, N, K = tile["block_M"], tile["block_N"], tile["block_K"] * (tile["stages"] + 2)
    sizes = (M, N, K, dtype, "float16" if dtype == "float16" else "bfloat16", turned)
    values = half if dtype == "float16" else partial(codes, below=0x48)  # small and not negative
    return sizes, (values(M, K), values(*((N, K) if turned else (K, N))))


def grouped(tile: dict[str, int]) -> Any:
    """Two groups of a block of rows each."""
    M, N, K = tile["block_M"], tile["block_N"], tile["block_K"] * (tile["stages"] + 2)
    words = (half(2 * M, K), half(2, K, N))
    arrays = [(each.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16) for each in words]
    starts = np.array([0, M], np.int32)
    return (2, M, N, K), (*arrays, np.full(2, M, np.int32), starts, starts)


def causal(tile: dict[str, int]) -> Any:
    return (1, 1, 256, 128, True), tuple(half(1, 256, 1, 128) for _ in range(3))


def latent(tile: dict[str, int]) -> Any:
    heads, length = tile["block_H"], 4 * tile["block_N"]
    parts = ((1, heads, 512), (1, heads, 64), (1, length, 512), (1, length, 64))
    return (1, heads, length, 512, 64), tuple(half(*shape) for shape in parts)


def weights(tile: dict[str, int]) -> Any:
    M, N, K = tile["block_M"], tile["block_N"], tile["block_K"] * 5
    return (M, N, K), (half(M, K), codes(N, K // 2), half(N, K // 64))


# Rows of the GPU benchmark whose tiles `groups` has not, with sizes and arguments for a tile.
ROWS: dict[str, Callable[[dict[str, int]], Any]] = {
    "gemm_large": product, "gemm_rows": product, "attention_causal": causal, "mla": latent,
    "gemm_fp8": partial(product, dtype="float8_e4m3fn", turned=True), "dequant_rows": weights,
    "grouped_gemm": grouped,
}  # fmt: skip
COVERED = {"add", "softmax", "rmsnorm", "transpose", "gemm", "attention", "dequant"}


@pytest.mark.share(4)
@pytest.mark.parametrize("row", ROWS)
def test_every_tile_of_a_row_has_no_finding(row: str) -> None:
    import h200_choices

    make, _, tiles = h200_choices.PROGRAMS[row]
    for tile in tiles:
        sizes, given = ROWS[row](tile)
        cases: list[Case] = []
        with capturing(f"{row} {tile}", cases):
            make(*sizes, **tile)(*given)
        assert cases
        for case in cases:
            checked(case)


def gradients(tile: dict[str, int], causal: bool) -> tuple[Any, tuple[np.ndarray, ...]]:
    """The backward kernel of attention over two blocks of keys, and its arguments."""
    from h200_backward import backward

    length = 2 * max(tile["block_M"], tile["block_N"])
    shape = (1, length, 1, 128)
    inputs = tuple(half(*shape) for _ in range(4))
    rows = np.abs(np.random.default_rng(2).standard_normal((2, 1, 1, length))).astype(np.float32)
    sums = np.zeros((1, 1, length * 128 // 32, 32), np.float32)  # of queries, as tiles are added
    results = (sums, *(np.zeros(shape, np.float16) for _ in range(2)))
    kernel = backward(1, 1, length, 128, causal, **tile).kernels[1]
    return kernel, (*inputs, rows[0] + 8, rows[1], *results)


def shared_sums(
    make: Callable[..., Any], tile: dict[str, int]
) -> tuple[Any, tuple[np.ndarray, ...]]:
    """A product whose blocks share sums, and its arguments."""
    tile = {**tile, "blocks": 3} if "blocks" in tile else tile
    M, N = tile["block_M"], tile["block_N"]
    K = tile["block_K"] * (tile["stages"] + 1) * tile.get("parts", 1)
    return make(M, N, K, **tile).kernel, (half(M, K), half(K, N), np.zeros((M, N), np.float32))


def by_hand(tile: dict[str, int]) -> tuple[Any, tuple[np.ndarray, ...]]:
    """Latent attention with roles by hand, and its arguments."""
    from h200_by_hand import latent as make

    parts = ((1, 64, 512), (1, 64, 64), (1, 256, 512), (1, 256, 64))
    return make(1, 64, 256, 512, 64, **tile), tuple(half(*shape) for shape in parts)


# Rows whose programs are called in another way.
CALLED = ("backward", "backward_causal", "gemm_split", "gemm_stream", "mla_by_hand")


def called(row: str, tile: dict[str, int]) -> tuple[Any, tuple[np.ndarray, ...]]:
    import h200_choices

    if row.startswith("backward"):
        return gradients(tile, row == "backward_causal")
    return (
        by_hand(tile) if row == "mla_by_hand" else shared_sums(h200_choices.PROGRAMS[row][0], tile)
    )


@pytest.mark.share(4)
@pytest.mark.parametrize("row", CALLED)
def test_the_fastest_tiles_of_a_row_have_no_finding(row: str) -> None:
    import h200_choices

    for tile in h200_choices.PROGRAMS[row][2][:2]:
        cases: list[Case] = []
        with capturing(f"{row} {tile}", cases):
            kernel, given = called(row, tile)
            kernel(*given)
        assert cases
        for case in cases:
            checked(case)


def test_every_row_of_the_benchmark_is_covered() -> None:
    import h200_choices

    assert {*ROWS, *COVERED, *CALLED} == set(h200_choices.PROGRAMS)


def test_every_example_is_covered() -> None:
    assert set(EXAMPLES) <= {name.removeprefix("example ") for name in GROUPS}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", GROUPS)
def test_the_kernel_has_no_finding(name: str) -> None:
    cases = GROUPS[name]()
    assert cases
    for case in cases:
        checked(case)
