"""The launcher's extension is built while the passes run, once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda import native_launcher
from tilelang.cuda.native_launcher import is_launcher_built, launcher_ahead, launcher_compiler
from tilelang.runtime.cache import DiskCache


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the threads that build the extension."""
    found: list[str] = []
    monkeypatch.setattr(native_launcher, "find", lambda kind, cache: "cc")

    def build(compiler: str, cache: DiskCache) -> None:
        found.append(threading.current_thread().name)

    monkeypatch.setattr(native_launcher, "launcher_class", build)
    return found


def test_it_is_built_once_by_a_thread(built: list[str], tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    launcher_ahead(cache)
    launcher_ahead(cache)
    assert launcher_compiler(cache) == launcher_compiler(cache) == "cc"
    (name,) = built
    assert name.startswith("tilelang-launcher")


def test_it_is_built_without_a_thread_where_none_can_start(
    built: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: ThreadPoolExecutor, *args: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", refuse)
    cache = DiskCache(tmp_path)
    launcher_ahead(cache)
    assert launcher_compiler(cache) == "cc"
    assert built == [threading.current_thread().name]


def test_whether_it_is_built_is_known_without_waiting(
    built: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, gate = DiskCache(tmp_path), threading.Event()
    monkeypatch.setattr(native_launcher, "find", lambda kind, cache: gate.wait() and "cc")
    launcher_ahead(cache)
    assert not is_launcher_built(cache)
    assert not is_launcher_built(cache, 0.001)
    gate.set()
    assert is_launcher_built(cache, 60.0)
    assert is_launcher_built(cache)


def test_a_child_process_builds_a_launcher(
    built: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(tmp_path)
    launcher_compiler(cache)
    monkeypatch.setattr(native_launcher.os, "getpid", lambda: -1)
    launcher_compiler(cache)
    assert len(built) == 2


def test_the_extension_is_built(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path)
    compiler = launcher_compiler(cache)
    full = find_compiler(cache, quiet=True)
    if compiler is None or full is None:
        assert compiler is full
        pytest.skip("no C compiler on this machine")
    assert (compiler.command, compiler.version) == (full.command, full.version)
    before = len(cache)
    assert native_launcher.launcher_class(compiler, cache) is not None
    assert len(cache) == before > 0
