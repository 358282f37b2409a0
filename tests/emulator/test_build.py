"""Finding a C++ compiler, building and caching libraries, and what is said when that fails."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tilelang
import tilelang.language as T
from tilelang import hostcc
from tilelang.emulator import build
from tilelang.emulator.compilers import CxxCompiler, find_cxx, need_cxx
from tilelang.errors import CompileError, TileUnsupportedError
from tilelang.jit import emulated
from tilelang.runtime.cache import DiskCache, default_cache

has_compiler = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")


def program(value: float = 1.0):
    @T.prim_func
    def fill(A: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                A[i] = value

    return fill


# -- finding one -----------------------------------------------------------------------------------
@pytest.fixture
def bare_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without compilers."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "ziglang" else found(name)
    )
    hostcc.forget()
    yield
    hostcc.forget()


def test_a_missing_compiler_is_named_with_what_brings_one(bare_machine: None) -> None:
    with pytest.raises(TileUnsupportedError) as error:
        tilelang.compile(program(), target="cuda", execution_backend="emulator")
    assert str(error.value) == (
        "the emulator needs a C++ compiler, and none was found\n"
        "  expected: g++ 11 or later, clang++ 14 or later, what CXX names, or the ziglang package\n"
        "  got: nothing that works\n"
        "  hint: `pip install ziglang pyelftools` brings one"
    )


def test_a_named_compiler_that_does_not_work_is_mentioned(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CXX", sys.executable)
    with pytest.raises(TileUnsupportedError, match="nothing that works, CXX='.*' included"):
        need_cxx()


def test_the_zig_package_is_the_last_resort(
    bare_machine: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = tmp_path / "ziglang" / "__init__.py"
    home.parent.mkdir()
    home.write_text("")
    zig = home.parent / "zig"
    zig.touch(mode=0o700)
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: importlib.util.spec_from_file_location(name, home)
    )
    ((command, stamp),) = hostcc.candidates(CxxCompiler, None, str(tmp_path))
    assert command[:2] == (str(zig), "c++")
    assert stamp == str(zig)


@has_compiler
def test_compiler_features_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_cxx(DiskCache(tmp_path))
    hostcc.forget()
    monkeypatch.setattr(CxxCompiler, "probed", lambda *_: pytest.fail("asked again"))
    assert find_cxx(DiskCache(tmp_path)) == found
    hostcc.forget()


# -- building --------------------------------------------------------------------------------------
@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The units that are compiled during a test."""
    made: list[str] = []
    original = CxxCompiler.shared

    def noted(self, files, units, *rest):  # type: ignore[no-untyped-def]  # as the original
        made.extend(Path(unit).name for unit in units)
        return original(self, files, units, *rest)

    monkeypatch.setattr(CxxCompiler, "shared", noted)
    return made


@has_compiler
def test_a_kernel_is_compiled_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, builds: list[str]
) -> None:
    usual = default_cache()
    monkeypatch.setattr(emulated, "load_runtime", lambda cxx, _: build.load_runtime(cxx, usual))
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    for _ in range(2):
        kernel = tilelang.compile(program(), target="cuda", execution_backend="emulator")
        out = np.zeros(64, np.float32)
        kernel(out)
        assert (out == 1).all()
    assert builds.count(build.TEXT) == 1
    tilelang.compile(program(2.0), target="cuda", execution_backend="emulator")
    assert builds.count(build.TEXT) == 2


@has_compiler
def test_text_that_the_emulator_lacks_is_refused() -> None:
    kernel = tilelang.compile(program(), target="cuda", execution_backend="emulator")
    edited = kernel.get_kernel_source().replace("A[", "no_such_thing(A)[", 1)
    with pytest.raises(CompileError) as error:
        tilelang.sanitize(kernel, np.zeros(64, np.float32), source=edited)
    lines = str(error.value).splitlines()
    assert lines[0] == "the generated CUDA source cannot be compiled for the emulator"
    assert lines[1] == "  expected: functions of tilelang's device headers and plain C++"
    assert "no_such_thing" in lines[2]
    assert "no_such_thing" in error.value.log


@has_compiler
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_an_undeclared_function_is_an_error_at_the_line(arch: str) -> None:
    @T.prim_func
    def unknown(A: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=32):
            A[0] = T.call_extern("float32", "my_function", A[0])

    with pytest.raises(CompileError) as error:
        tilelang.compile(unknown, target=f"cuda -arch={arch}", execution_backend="emulator")
    *_, got, hint, place, line, _ = str(error.value).splitlines() + [""]
    assert got.startswith("  got: line 7: ") and "my_function" in got
    assert hint.startswith("  hint: inline assembly and headers of CUDA need a GPU")
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    number = next(at for at, row in enumerate(text, 1) if row.endswith('"my_function", A[0])'))
    assert place == f" --> {__file__}:{number}"
    assert line.endswith('A[0] = T.call_extern("float32", "my_function", A[0])')


def test_the_emulator_is_for_gpus() -> None:
    with pytest.raises(TileUnsupportedError) as error:
        tilelang.compile(program(), target="cpu", execution_backend="emulator")
    assert str(error.value) == (
        "the emulator runs no kernels for the target 'cpu'\n"
        '  expected: a target of a GPU, e.g. "cuda -arch=sm_80", "hip -mcpu=gfx942" or "metal"\n'
        "  got: target='cpu'"
    )


def test_files_of_a_program_precede_its_text(tmp_path: Path) -> None:
    @T.prim_func
    def scaled(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = T.call_extern("float32", "scale", A[i])

    file = tmp_path / "own.h"
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    for factor in (2, 3):  # a changed file is read again
        file.write_text(
            f"__device__ __forceinline__ float scale(float x) {{ return FACTOR * {factor} * x; }}\n"
        )
        for flags in (
            ["-include", str(file), "-DFACTOR=1"],
            ["-I", str(tmp_path), "-include", "own.h", "-D", "FACTOR=1"],
        ):
            kernel = tilelang.compile(
                scaled, target="cuda -arch=sm_80", execution_backend="emulator", compile_flags=flags
            )
            kernel(a, b)
            np.testing.assert_array_equal(b, factor * a)
            assert tilelang.sanitize(kernel, a, b).ok


# -- texts -----------------------------------------------------------------------------------------
@has_compiler
def test_the_runtime_is_built_by_what_kernels_need(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(build, "_load_library", lambda part, *_: loaded.append(part))
    cache, compiler = default_cache(), need_cxx()
    build.load_libraries(b"\0tl_emu_cp_async\0tl_emu_tma_loader\0", compiler, cache)
    assert loaded == []
    build.load_libraries(b"\0tl_emu_wgmma\0tl_emu_ballot\0", compiler, cache)
    assert loaded == ["hopper", "waves"]


def test_slow_compilation_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    with build._logged_if_long("nothing"):
        pass
    assert not caplog.records
    with build._logged_if_long("a kernel for the emulator"):
        deadline = time.monotonic() + 10
        while not caplog.records and time.monotonic() < deadline:
            time.sleep(0.01)
    assert caplog.messages == [
        "tilelang compiles a kernel for the emulator; TILELANG_LOG_LEVEL=ERROR hides this line"
    ]
