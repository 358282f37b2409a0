"""The programs of ``bench/everyday.py``: results of small ones, and what the PTX of all does.

The counts are files that reviews read: a row may only become better, or its commit says why.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

from everyday_programs import FAMILIES, PROGRAMS, SMALL
from executors import EVERYWHERE, compiled
from ptx_counts import global_counts

from tilelang.cuda.nvrtc import find_nvrtc

# Users see this too: too few registers.
pytestmark = pytest.mark.filterwarnings("ignore:.*is slower than it could be:UserWarning")


def test_there_are_fifty_programs_of_all_families() -> None:
    assert len(PROGRAMS) >= 50
    assert set(SMALL) == {name for name in SMALL if any(p.startswith(name) for p in PROGRAMS)}


@pytest.mark.share(4)
@pytest.mark.parametrize("place", EVERYWHERE)
@pytest.mark.parametrize("name", SMALL)
def test_a_small_one_computes_what_torch_does(
    name: str, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_SANITIZE", "1")
    torch = pytest.importorskip("torch", reason="the references are torch's")

    def normal(*shape: int, dtype: str = "float32", scale: float = 1.0) -> Any:
        return (torch.randn(*shape) * scale).to(getattr(torch, dtype))

    def integers(high: int, *shape: int) -> Any:
        return torch.randint(0, high, shape, dtype=torch.int32)

    program = SMALL[name]
    args = program.inputs(normal, integers)
    wanted = program.reference(*args)
    out = torch.zeros_like(wanted)
    compiled(program.build(), place)(*args, out)
    size = max(1.0, wanted.double().abs().max().item())
    assert (out.double() - wanted.double()).abs().max().item() <= program.tolerance * size


@pytest.mark.share(4)
@pytest.mark.skipif(find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_the_ptx_does_what_it_did(family: Any, golden: Callable[[str, str], None]) -> None:
    names = [n for n, p in PROGRAMS.items() if p.build.__module__ == family.__name__]
    rows = [f"{name}: {global_counts(PROGRAMS[name].build())}" for name in names]
    golden(f"{family.__name__}.txt", "\n".join(rows))
