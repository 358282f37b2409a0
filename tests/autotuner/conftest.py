"""Each test has a cache and a memory of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tilelang.autotuner.store import STORE


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    before = dict(STORE.memory)
    STORE.memory.clear()
    yield
    STORE.memory.clear()
    STORE.memory.update(before)
