"""A stub kernel and both launchers, so that every test of a call runs through each."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilelang.cpu.toolchain import Compiler, find_compiler
from tilelang.runtime.cache import DiskCache
from tilelang.runtime.native import encode, launcher_class, make_launcher, native_launcher
from tilelang.runtime.pylauncher import Narrow, PyLauncher
from tilelang.runtime.signature import LaunchSpec


class Recorder:
    """A kernel in Python behind the C entry convention: notes its slots, answers with a code."""

    def __init__(self, count: int = 64) -> None:
        self.calls: list[list[int]] = []
        self.code = 0
        self.count = count
        self.work: Callable[[list[int]], None] | None = None
        kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(ctypes.c_int64))
        self._function = kind(self._run)
        self.address = int(ctypes.cast(self._function, ctypes.c_void_p).value or 0)

    def _run(self, slots: Any) -> int:
        self.calls.append([slots[i] for i in range(self.count)])
        if self.work is not None:
            self.work(self.calls[-1])
        return self.code

    @property
    def slots(self) -> list[int]:
        return self.calls[-1]


class Harness:
    """Makes launchers of one kind around a recorder."""

    def __init__(self, kind: str, native: Any) -> None:
        self.kind = kind
        self.native = native
        self.slow_calls = 0

    def make(
        self, spec: LaunchSpec, narrow: Narrow | None = None
    ) -> tuple[Callable[..., Any], Recorder]:
        kernel = Recorder(len(spec.params) + len(spec.free_symbols))
        if self.kind == "python":
            return make_launcher(spec, kernel.address, keep=kernel, narrow=narrow), kernel
        harness = self

        class Counting(PyLauncher):
            def __call__(self, *args: Any, **keywords: Any) -> Any:
                harness.slow_calls += 1
                return super().__call__(*args, **keywords)

        entry = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_char_p)(kernel.address)
        code = encode(spec)
        assert code is not None
        slow = Counting(spec, entry, kernel, narrow)
        return native_launcher(self.native, slow, code, kernel.address), kernel


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> DiskCache:
    return DiskCache(Path(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="session")
def compiler(session_cache: DiskCache) -> Compiler:
    found = find_compiler(session_cache)
    if found is None:
        pytest.skip("no C compiler on this machine")
    return found


@pytest.fixture(params=["python", "c"])
def harness(request: pytest.FixtureRequest) -> Harness:
    if request.param == "python":
        return Harness("python", None)
    compiler = request.getfixturevalue("compiler")
    native = launcher_class(compiler, request.getfixturevalue("session_cache"))
    if native is None:
        pytest.skip("the C launcher needs Python.h")
    return Harness("c", native)
