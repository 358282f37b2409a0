"""Kernels for AMD GPUs in libraries for C, called through a HIP runtime that takes notes."""

from __future__ import annotations

import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import hip_stub
import pytest
from commands import run
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import TileUnsupportedError
from tilelang.hip import aot_export
from tilelang.hip.toolchain import tools

CC = shutil.which("cc") or shutil.which("gcc")
MAIN = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include "gpu.h"
void stub_declare(const char*, int, const int*);
void stub_fail(const char*, int);
void stub_fail_times(int);
const char* stub_notes(void);
int hipSetDevice(int);
int main(int argc, char** argv) {
    const int sizes[] = {8, 8, 4, 4};
    stub_declare("scaled_kernel", 4, sizes);
    if (argc > 2) stub_fail(argv[1], atoi(argv[2]));
    if (argc > 3) stub_fail_times(atoi(argv[3]));
    hipSetDevice(argc > 4 ? atoi(argv[4]) : 0);
    int code = scaled(2.5f, (const float*)0x1000, (float*)0x2000, 130, (void*)7);
    code = code ? code : scaled(1.0f, (const float*)0x1000, (float*)0x2000, 0, (void*)7);
    code = code ? code : scaled(1.0f, (const float*)0x1000, (float*)0x2000, 64, 0);
    printf("%s%d %s|%d\\n", stub_notes(), code, scaled_message(code),
           scaled(2.5f, (const float*)0x1001, (float*)0x2000, 130, 0));
    return 0;
}
"""


def scaled_program() -> Any:
    n = T.dynamic("n")

    @T.prim_func
    def scaled(a: T.float32, X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                if bx * 64 + i < n:
                    Y[bx * 64 + i] = X[bx * 64 + i] * a

    return scaled


def printing_program() -> Any:
    @T.prim_func
    def shown(A: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=64):
            T.device_assert(A[0] > 0, "A starts above zero")

    return shown


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    compiler = find_compiler(quiet=True)
    if CC is None or compiler is None or not list(tools()):
        pytest.skip("needs a C compiler and a clang with the AMDGPU target")
    folder = tmp_path_factory.mktemp("amd")
    kernel = tilelang.compile(scaled_program(), target="hip -mcpu=gfx942")
    made = tilelang.export_library(folder, {"scaled": kernel}, "gpu", archs=["gfx90a", "gfx942"])
    stub = folder / "stub"
    stub.mkdir()
    (stub / "libamdhip64.so").write_bytes(
        compiler.compile_shared(hip_stub.SOURCE, ("-O1", "-Wl,-soname,libamdhip64.so"))
    )
    (folder / "main.c").write_text(MAIN)
    run([CC, "-Wall", "-Werror", "main.c", "-Iinclude", "-Llib", "-lgpu", "stub/libamdhip64.so",
         "-Wl,-rpath,lib:stub", "-o", "main"], folder)  # fmt: skip
    return made


def notes(library: Any, *words: Any) -> list[str]:
    return run(["./main", *words], library.folder, LD_LIBRARY_PATH="stub").splitlines()


def launches(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines if line.startswith("launch")]


def test_kernels_are_launched_through_the_runtime_alone(library: Any) -> None:
    lines = notes(library)
    assert lines[:4] == ["device 0", "init 0", "load ELF in 0", "function scaled_kernel of 77"]
    assert sum(line.startswith("load") for line in lines) == 1
    first, second = launches(lines)
    assert first[:8] == ["launch", "scaled_kernel", "3,1,1", "64,1,1", "0", "7", "on", "0"]
    values = b"".join(bytes.fromhex(word) for word in first[8:])
    assert sorted(first[8:]) == sorted(
        struct.pack(form, value).hex()
        for form, value in (("<Q", 0x1000), ("<Q", 0x2000), ("<f", 2.5), ("<i", 130))
    ), values
    assert (second[2], second[5]) == ("1,1,1", "0")
    assert lines[-1] == "0 |-4"


def test_kernels_work_on_the_gpu_that_is_current(library: Any) -> None:
    lines = notes(library, "none", 0, 9, 3)
    assert "load ELF in 3" in lines
    assert [words[7] for words in launches(lines)] == ["3", "3"]


def test_the_code_object_is_the_first_that_the_runtime_takes(library: Any) -> None:
    lines = notes(library, "hipModuleLoadData", 209, 1)
    assert sum(line.startswith("load") for line in lines) == 2
    assert len(launches(lines)) == 2 and lines[-1] == "0 |-4"


@pytest.mark.parametrize(
    ("function", "code", "last"),
    [
        ("hipModuleLoadData", 209, "-6 the library has no code for this GPU|-4"),
        ("hipModuleLoadData", 2, "-1002 it failed|-4"),
        ("hipModuleGetFunction", 700, "-1700 an illegal memory access was encountered|-4"),
        ("hipModuleLaunchKernel", 700, "-1700 an illegal memory access was encountered|-4"),
        ("hipInit", 100, "-1100 it failed|-4"),
        ("hipGetDevice", 101, "-1101 it failed|-4"),
    ],
)
def test_a_refusal_of_the_runtime_is_a_code_with_a_text(
    library: Any, function: str, code: int, last: str
) -> None:
    assert notes(library, function, code)[-1] == last


def test_without_a_runtime_a_code_says_so(library: Any, tmp_path: Path) -> None:
    code = (
        "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]);"
        "lib.scaled_message.restype = ctypes.c_char_p;"
        "c = lib.scaled(ctypes.c_float(1), None, None, 64, None);"
        "print(c, lib.scaled_message(c).decode())"
    )
    printed = run([sys.executable, "-c", code, library.library], tmp_path)
    if not printed.startswith("-5"):
        pytest.skip("this machine has a HIP runtime")
    assert printed == "-5 libamdhip64.so cannot be loaded, or is too old\n"


def test_a_library_comes_back_as_kernels(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = tilelang.load_library(library.folder, "gpu")["scaled"]
    assert kernel.resources[0].name == "scaled_kernel"
    monkeypatch.setattr(aot_export, "hip_devices", lambda: ("gfx1100",))
    assert refusal(TileUnsupportedError, tilelang.load_library, library.folder, "gpu") == (
        "the library has no machine code for gfx1100\n  expected: gfx90a, gfx942\n  got: gfx1100"
    )


def test_programs_that_print_stay(tmp_path: Path) -> None:
    if not list(tools()):
        pytest.skip("needs a clang with the AMDGPU target")
    kernel = tilelang.compile(printing_program(), target="hip -mcpu=gfx942")
    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.export_library(tmp_path, {"shown": kernel}, compile=False)
    assert str(caught.value) == (
        "`shown` prints, which exported kernels for AMD GPUs cannot\n"
        "  expected: a program without T.print and T.device_assert"
    )
