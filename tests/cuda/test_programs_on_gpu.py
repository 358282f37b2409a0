"""Random programs on an NVIDIA GPU agree with the interpreter."""

from __future__ import annotations

import pytest
from fuzz.draws import SeededDraw
from fuzz.programs import make_program
from fuzz.running import check

from tilelang.errors import TileValueError

torch = pytest.importorskip("torch", reason="the tensors of these programs are torch's")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.mark.parametrize("seed", range(1000, 1060))
def test_a_program_means_the_same(seed: int) -> None:
    try:
        check(make_program(SeededDraw(seed)), target="cuda")
    except TileValueError as refused:
        assert "no valid warp partition" in str(refused)  # noqa: PT017  # the only reason
