"""Building, keeping and loading the C launcher and compiled kernels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang.cpu.toolchain import Compiler
from tilelang.errors import CompileError, TileRuntimeError
from tilelang.runtime import library as library_module, native
from tilelang.runtime.cache import DiskCache, Entry
from tilelang.runtime.library import load_library
from tilelang.runtime.native import launcher_class, make_launcher
from tilelang.runtime.pylauncher import PyLauncher
from tilelang.runtime.signature import LaunchSpec, Symbol, tensor

KERNEL = """#include <stdint.h>
int32_t tl_call(const int64_t* slots) {
    float* a = (float*)(intptr_t)slots[0];
    for (int64_t i = 0; i < slots[1]; ++i) a[i] += 1;
    return 0;
}
"""
SPEC = LaunchSpec("inc", (tensor("A", "float32", (("$0",),), written=True),), (Symbol("n"),))


@pytest.fixture(scope="module")
def code(compiler: Compiler) -> bytes:
    return compiler.compile_shared(KERNEL, ("-O1",))


def increments(launcher: Any) -> bool:
    a = np.zeros(5, np.float32)
    launcher(a)
    return bool((a == 1).all())


@pytest.mark.parametrize("with_compiler", [False, True])
def test_compiled_kernel_runs(
    code: bytes, compiler: Compiler, session_cache: DiskCache, with_compiler: bool
) -> None:
    library = load_library(code)
    call = make_launcher(
        SPEC, library.address("tl_call"), keep=library,
        compiler=compiler if with_compiler else None, cache=session_cache,
    )  # fmt: skip
    assert increments(call)
    assert isinstance(call, PyLauncher) is not with_compiler


def test_library_loads_from_its_cache_entry(code: bytes, session_cache: DiskCache) -> None:
    entry = session_cache.fetch("ab" * 32, lambda: Entry(code, {"entry": "tl_call"}))
    assert entry.path is not None
    library = load_library(entry.data, entry.path)
    assert library.path == str(entry.path)
    assert increments(make_launcher(SPEC, library.address("tl_call"), keep=library))
    with pytest.raises(TileRuntimeError, match="has no function 'other'"):
        library.address("other")


def test_library_loads_where_nothing_can_be_written(
    code: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not hasattr(os, "memfd_create"):
        pytest.skip("needs anonymous files")
    monkeypatch.setattr(library_module, "scratch_folders", lambda: iter(()))
    library = load_library(code, Path("/nonexistent/kernel.so"))
    assert library.path.startswith("/proc/self/fd/")
    assert increments(make_launcher(SPEC, library.address("tl_call"), keep=library))


def test_broken_library_is_a_compile_error() -> None:
    with pytest.raises(CompileError, match="the compiled kernel cannot be loaded") as found:
        load_library(b"not a library")
    assert found.value.log


def test_extension_is_compiled_once(tmp_path: Path, compiler: Compiler) -> None:
    calls = []

    class Counting:
        identity = compiler.identity

        def compile_shared(self, source: str, flags: tuple[str, ...] = ()) -> bytes:
            calls.append(source)
            return compiler.compile_shared(source, flags)

    cache = DiskCache(tmp_path / "cache")
    first, second = launcher_class(Counting(), cache), launcher_class(Counting(), cache)
    if first is None:
        pytest.skip("the C launcher needs Python.h")
    assert len(calls) == 1 and second is not None


def test_compiler_that_cannot_build_it_leaves_calls_to_python(tmp_path: Path, code: bytes) -> None:
    calls = []

    class Refusing:
        identity = "refusing"

        def compile_shared(self, source: str, flags: tuple[str, ...] = ()) -> bytes:
            calls.append(source)
            raise CompileError("no")

    cache = DiskCache(tmp_path / "cache")
    library = load_library(code)
    for _ in range(2):
        call = make_launcher(
            SPEC, library.address("tl_call"), keep=library, compiler=Refusing(), cache=cache
        )
        assert isinstance(call, PyLauncher) and increments(call)
    assert len(calls) <= 1  # the refusal is remembered


def test_missing_python_headers_leave_calls_to_python(
    compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sysconfig.get_paths", lambda: {"include": "/nonexistent"})
    native.launcher_class.cache_clear()
    try:
        assert launcher_class(compiler) is None
    finally:
        native.launcher_class.cache_clear()


def test_launcher_leaks_no_references(
    code: bytes, compiler: Compiler, session_cache: DiskCache
) -> None:
    import sys

    library = load_library(code)
    call = make_launcher(
        SPEC, library.address("tl_call"), keep=library, compiler=compiler, cache=session_cache
    )
    a = np.zeros(5, np.float32)
    before = sys.getrefcount(a)
    for _ in range(50):
        call(a)
        with pytest.raises(RuntimeError):
            call(a[::2])
    assert sys.getrefcount(a) <= before + 1
    a.resize(7, refcheck=False)


def test_a_path_that_is_no_utf8_cannot_be_loaded_from(monkeypatch: pytest.MonkeyPatch) -> None:
    # Where the locale is C without UTF-8, Python gives such names to folders with other letters.
    monkeypatch.setattr(native, "loadable", lambda data, path: ["/nowhere/\udcc3.so"])
    assert native._load(Entry(b"x")) is None
