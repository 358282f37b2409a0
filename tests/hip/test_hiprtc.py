"""hipRTC: every call, argument and error path, by a library that takes notes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hiprtc_stub import Stub, build
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import CompileError
from tilelang.hip import hiprtc as hiprtc_module, toolchain as toolchain_module
from tilelang.hip.hiprtc import Hiprtc, find_hiprtc
from tilelang.hip.toolchain import FLAGS, compile_code, identity, tools

LOG = """remark: Function Name: doubled_kernel [-Rpass-analysis=kernel-resource-usage]
remark:     VGPRs: 7 [-Rpass-analysis=kernel-resource-usage]
remark:     Occupancy [waves/SIMD]: 8 [-Rpass-analysis=kernel-resource-usage]
"""


@T.prim_func
def doubled(A: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=64):
        for i in T.Parallel(64):
            A[i] = A[i] * 2.0


@pytest.fixture
def rtc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stub:
    """A machine with ROCm in a folder of its own and no other compiler."""
    compiler = find_compiler(quiet=True)
    if compiler is None:
        pytest.skip("needs a C compiler")
    found = build(compiler, tmp_path)
    found.give(b"\x7fELF code", LOG)
    monkeypatch.setenv("ROCM_PATH", str(tmp_path))
    monkeypatch.setattr("tilelang.hip.toolchain._clangs", lambda path, packages: ())
    hiprtc_module._find.cache_clear()
    yield found
    hiprtc_module._find.cache_clear()


def test_the_library_is_the_one_of_the_rocm_that_is_named(rtc: Stub) -> None:
    found = find_hiprtc()
    assert found is not None and found.path == rtc.path
    assert found.identity == f"{rtc.path} hipRTC 9.1"
    assert identity() == f'["{found.identity}"]'


def test_a_library_of_that_name_that_is_another_is_passed_over(
    rtc: Stub, monkeypatch, tmp_path: Path
) -> None:
    compiler = find_compiler(quiet=True)
    assert compiler is not None
    place = tmp_path / "other" / "lib"
    place.mkdir(parents=True)
    library = compiler.compile_shared("int nothing;", ("-O1",))
    (place / "libhiprtc.so").write_bytes(library)
    monkeypatch.setenv("ROCM_PATH", str(place.parent))
    hiprtc_module._find.cache_clear()
    found = find_hiprtc()
    assert found is None or found.path != str(place / "libhiprtc.so")


def test_every_call_and_argument(rtc: Stub) -> None:
    made = compile_code("// nothing", "gfx942", ("-DX=1",), name="doubled")
    assert made.code == b"\x7fELF code"
    assert made.log == LOG
    assert made.tool == f"{rtc.path} hipRTC 9.1"
    assert (made.kernels[0].name, made.kernels[0].registers, made.kernels[0].waves) == (
        "doubled_kernel", 7, 8,
    )  # fmt: skip
    assert rtc.take() == [
        "create doubled.hip with 0 headers",
        f"compile 41 --offload-arch=gfx942 {' '.join(FLAGS)} -DX=1",
        "size of the log of 41", "log of 41", "size of the code of 41", "code of 41", "destroy 41",
    ]  # fmt: skip
    assert rtc.source == "// nothing"
    assert rtc.alive == 0


def test_headers_are_handed_over_by_name(rtc: Stub) -> None:
    found = find_hiprtc()
    assert isinstance(found, Hiprtc)
    made = found.compile("text", "gfx90a", (), {"a.h": "12345", "b.h": ""}, "kernel")
    assert made == (b"\x7fELF code", LOG)
    assert rtc.take()[:4] == [
        "create kernel.hip with 2 headers", "header a.h of 5", "header b.h of 0",
        "compile 41 --offload-arch=gfx90a",
    ]  # fmt: skip


def test_generated_text_has_our_headers_in_it(rtc: Stub) -> None:
    kernel = tilelang.compile(doubled, target="hip -mcpu=gfx942")
    assert "doubled_kernel" in kernel.get_kernel_source()
    notes = rtc.take()
    assert "create doubled.hip with 0 headers" in notes
    assert '#include "tl_hip.h"' not in rtc.source
    assert "#define __syncthreads tl_own_syncthreads" in rtc.source


def test_what_the_compiler_says_is_the_error(rtc: Stub) -> None:
    rtc.give(b"", "doubled.hip:3:1: error: unknown type name 'flaot'")
    rtc.fail("hiprtcCompileProgram", 6)
    with pytest.raises(CompileError) as failure:
        compile_code("flaot x;", "gfx942", name="doubled")
    text = str(failure.value)
    assert text.startswith("the HIP compiler refused doubled\n")
    assert "unknown type name 'flaot'" in text
    assert rtc.alive == 0
    assert "code of 41" not in rtc.take()


@pytest.mark.parametrize(
    ("function", "code", "says"),
    [
        ("hiprtcCreateProgram", 1, "HIPRTC_ERROR_OUT_OF_MEMORY"),
        ("hiprtcGetCodeSize", 11, "HIPRTC_ERROR_INTERNAL_ERROR"),
        ("hiprtcGetCode", 11, "HIPRTC_ERROR_INTERNAL_ERROR"),
    ],
)
def test_a_call_that_fails_is_an_error_with_its_name(
    rtc: Stub, function: str, code: int, says: str
) -> None:
    rtc.fail(function, code)
    assert says in refusal(CompileError, compile_code, "// nothing", "gfx942", name="doubled")
    assert rtc.alive == 0


@pytest.mark.parametrize("function", ["hiprtcGetProgramLogSize", "hiprtcGetProgramLog"])
def test_code_whose_log_is_lost_is_code(rtc: Stub, function: str) -> None:
    rtc.fail(function, 11)
    made = compile_code("// nothing", "gfx942")
    assert (made.code, made.log, made.kernels) == (b"\x7fELF code", "", ())


def test_a_chip_that_it_does_not_know_is_left_to_the_next_compiler(rtc: Stub) -> None:
    rtc.give(b"", "error: invalid target ID 'gfx1201'")
    rtc.fail("hiprtcCompileProgram", 6)
    assert refusal(CompileError, compile_code, "// nothing", "gfx1201") == (
        "no compiler makes code for gfx1201\n"
        "  expected: hipRTC, or a clang (17 or newer) with the AMDGPU target that knows the chip\n"
        f"  got: {rtc.path}: error: invalid target ID 'gfx1201'\n"
        "  hint: install ROCm, clang with lld, or `pip install ziglang`, whose wheel has a "
        "clang"
    )


@pytest.mark.skipif(sys.platform == "win32", reason="the mock is a shell script")
def test_a_clang_that_is_too_old_is_left_out(monkeypatch, tmp_path: Path) -> None:
    old = tmp_path / "clang"
    old.write_text("#!/bin/sh\necho 14.0.6\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("tilelang.hip.toolchain.find_hiprtc", lambda: None)
    monkeypatch.setattr("tilelang.hip.toolchain.find_spec", lambda name: None)
    toolchain_module._clangs.cache_clear()
    assert not list(tools())
    with pytest.raises(CompileError) as error:
        compile_code("", "gfx942")
    toolchain_module._clangs.cache_clear()
    assert str(error.value) == (
        "no compiler makes code for gfx942\n"
        "  expected: hipRTC, or a clang (17 or newer) with the AMDGPU target that knows the chip\n"
        f"  got: {old}: version 14, which is older than 17\n"
        "  hint: install ROCm, clang with lld, or `pip install ziglang`, whose wheel has a clang"
    )
