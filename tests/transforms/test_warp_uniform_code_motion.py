"""Numbers of warps before loops: where they go and what keeps them where they are."""

from __future__ import annotations

from typing import Any

import pytest
from test_persistent_epilogue import HOPPER, by_table, product

import tilelang

NUMBER = "tl_warp_uniform(tx / 128)"


def text_of(func: Any, **options: Any) -> str:
    return tilelang.compile(func, target=HOPPER, pass_configs=options).get_kernel_source()


@pytest.mark.parametrize("func", [product(), by_table((1700, 101), 640)])
def test_a_warpgroup_finds_its_number_before_its_tiles(func: Any) -> None:
    text = text_of(func)
    assert text.count(NUMBER) == 1
    assert text.index("tl_setmaxnreg_inc") < text.index(NUMBER) < text.index("for (int tile")


def test_a_warpgroup_computes_its_index_before_an_outermost_loop() -> None:
    text = text_of(product(), **{"tl.disable_persistent_tiles": True})
    assert text.count(NUMBER) == 1
    assert text.index(NUMBER) < text.index("for (int k")


def test_what_a_condition_guards_stays_under_it() -> None:
    """The warps that store a part of the tile before say who they are where they do."""
    text = text_of(product())
    inside = text[text.index("for (int tile") : text.index("const int last")]
    assert inside.count("tl_warp_uniform(tx / 32)") == 1
