"""Attention tile after tile: which launches loop over their grid, what the loop is, results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from schedule_steps import apply_all, launch_of
from test_cross_tile_prefetch import greatest
from test_gemm_overlap import attention, small

import tilelang
from tilelang.explain.report import explain
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

HOPPER = parse_target("cuda -arch=sm_90a")
MANY = 134  # blocks; the chip has 132 multiprocessors


def repeated(func: Any, options: Options | None = None) -> S.Launch:
    """The launch with its schedule."""
    return launch_of(apply_all(func, HOPPER, options))


def loops_over_tiles(launch: S.Launch) -> bool:
    return any(isinstance(n, S.For) and n.hints.tiles for n in S.walk(launch.body))


def test_more_tiles_than_multiprocessors_are_a_loop() -> None:
    launch = repeated(attention(dynamic=False, columns=128, blocks=MANY))
    assert loops_over_tiles(launch)
    assert [str(extent) for extent in launch.grid] == ["132"]
    assert launch.schedule is not None and launch.schedule.tiles == str(MANY)


@pytest.mark.parametrize(
    ("func", "options"),
    [
        (attention(dynamic=False, blocks=132), Options()),
        (attention(dynamic=False, columns=128, blocks=MANY, causal=True), Options()),
        (attention(dynamic=True, columns=128, blocks=MANY), Options()),
        (attention(dynamic=False, columns=128, blocks=MANY, staged=True), Options()),
        (attention(dynamic=False, columns=128, blocks=MANY), Options(no_persistent_tiles=True)),
        (attention(dynamic=False, columns=128, blocks=MANY), Options(no_overlap=True)),
        (attention(dynamic=False, columns=128, blocks=MANY), Options(no_roles=True)),
    ],
    ids=["few", "lengths differ", "length unknown", "no overlap", "off", "overlap off", "one role"],
)
def test_other_kernels_keep_a_block_for_each_tile(func: Any, options: Options) -> None:
    assert not loops_over_tiles(repeated(func, options))


@pytest.mark.parametrize("most", [2, 3])
def test_results(most: int) -> None:
    """An odd number of iterations leaves the versions of a tile where the next one continues."""
    func = attention(dynamic=False, columns=128, blocks=MANY, most=most)
    kernel = tilelang.compile(func, target=HOPPER, execution_backend="emulator")
    Q, K, V = small(MANY * 128, 64), small(most * 128, 64), small(most * 128, 64)[::-1].copy()
    O, wanted = (np.zeros((MANY * 128, 64), np.float32) for _ in range(2))
    assert tilelang.sanitize(kernel, Q, K, V, most, O, schedule="random").ok
    kernel(Q, K, V, most, O)
    for i in range(most):
        keys = slice(128 * i, 128 * i + 128)
        s = Q.astype(np.float32) @ K[keys].astype(np.float32).T
        wanted += (s == s.max(1, keepdims=True)).astype(np.float32) @ V[keys].astype(np.float32)
    np.testing.assert_array_equal(O, wanted)


def test_results_of_16_bits_are_stored_by_each_warp() -> None:
    note = f"persistent over {MANY} tiles, stored by each warp in 1 parts of 16 x 64"
    assert note in explain(greatest(), HOPPER, Options())
    kernel = tilelang.compile(greatest(), target=HOPPER, execution_backend="emulator")
    text = kernel.get_kernel_source()
    loop = text[text.index("for (int tile") : text.index("} else {")]
    assert "tl_bar_sync" not in loop and loop.count("tl_tma_store") == 1
