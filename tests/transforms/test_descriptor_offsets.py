"""Operands of warpgroups: fixed places, and distances that change."""

from __future__ import annotations

from typing import Any

from test_persistent_epilogue import HOPPER, product

import tilelang


def instruction(func: Any, **options: Any) -> str:
    text = tilelang.compile(func, target=HOPPER, pass_configs=options).get_kernel_source()
    return next(
        line.strip() for line in text.splitlines() if line.strip().startswith("tl_wgmma_m64")
    )


def test_the_version_of_a_tile_is_a_distance_from_a_descriptor_that_stays() -> None:
    line = instruction(product())
    assert "(&a[group * 4096]) + at + k_1 * 2" in line
    assert "tl_wgmma_operand<1, 512, 64>(b) + at + k_1 * 128" in line


def test_a_thread_dependent_address_is_not_a_uniform_offset() -> None:
    line = instruction(product(), **{"tl.disable_persistent_tiles": True})
    assert "(&a[group * 4096]) + at +" in line
