"""Programs of the corpus as emulated Metal text, against plain numpy: a part of each theme."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from corpus import registry

from tilelang.emulator.compilers import find_cxx
from tilelang.errors import TileUnsupportedError

HERE = Path(registry.__file__).parent
for path in sorted(HERE.glob("*.py")):
    if path.stem not in ("__init__", "registry") and not path.stem.startswith("test_"):
        importlib.import_module(f"corpus.{path.stem}")
EVERY = 12  # of the programs that run as CUDA
NAMES = [name for name, made in registry.PROGRAMS.items() if "sm_80" in made.executors][::EVERY]


@pytest.mark.parametrize("name", NAMES)
def test_a_program_computes_what_numpy_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if find_cxx() is None:
        pytest.skip("needs a C++ compiler")
    how = {"target": "metal", "execution_backend": "emulator"}
    monkeypatch.setitem(registry.EXECUTORS, "metal", how)
    try:
        registry.PROGRAMS[name].run("metal")
    except TileUnsupportedError as refused:
        assert "Metal" in str(refused)
