"""Random tiles with annotated layouts and several names agree with numpy on every executor."""

from __future__ import annotations

import os

import pytest

from tilelang.compiler import lower
from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileUnsupportedError
from tilelang.options import Options
from tilelang.target import Context, parse_target
from tilelang.transforms.verify.bounds import verify_bounds

from .model import Computed
from .products import make_product
from .running import agree, load
from .views import make_views

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")

# More: TILELANG_FUZZ_VIEWS=2000 pytest tests/fuzz/test_views.py
SEEDED = int(os.environ.get("TILELANG_FUZZ_VIEWS", "60"))
BATCH = 10
WAYS = [
    {"target": "cpu", "execution_backend": "interpret"},
    {"target": "cpu"},
    {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
]
REFUSED = "does not fit other views of its memory"  # wider elements that a layout takes apart


def refusals(program: Computed, seed: int) -> int:
    """How many executors refuse the program; the others give what numpy says."""
    refused = 0
    for way in WAYS:
        try:
            agree(program, seed, **way)
        except TileUnsupportedError as error:
            assert REFUSED in str(error), f"seed {seed}\n{error}"
            refused += 1
            continue
        if way.get("execution_backend") != "interpret":
            lowered = lower(load(program.source), parse_target(way["target"]), Options())
            context = Context(parse_target(way["target"]))
            verify_bounds(lowered, context, all_memory=True)
    return refused


@pytest.mark.share(4)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_views_of_annotated_tiles_agree_with_numpy(first: int) -> None:
    refused = sum(refusals(make_views(seed), seed) for seed in range(first, first + BATCH))
    assert refused <= BATCH // 3


@pytest.mark.share(4)
@pytest.mark.parametrize("first", range(0, SEEDED, BATCH))
def test_products_of_annotated_tiles_agree_with_numpy(first: int) -> None:
    assert not sum(refusals(make_product(seed), seed) for seed in range(first, first + BATCH))
