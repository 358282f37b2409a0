"""Exported libraries: from C and C++, alone, through pkg-config and CMake, from Python, and back."""

from __future__ import annotations

import ctypes
import hashlib
import os
import pickle
import shutil
import sys
from pathlib import Path
from typing import Any

import cuda_stub
import numpy as np
import pytest
from commands import run
from refusals import refusal
from tensor_types import F16, F32, I32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.aot_export import chosen
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.errors import TileError, TileTypeError, TileUnsupportedError, TileValueError

EXAMPLE = Path(tilelang.__file__).resolve().parents[1] / "examples" / "wheel"
CC, CXX = shutil.which("cc") or shutil.which("gcc"), shutil.which("g++")
needs_cc = pytest.mark.skipif(CC is None or find_compiler() is None, reason="needs a C compiler")


def axpy_program() -> Any:
    n = T.dynamic("n")

    @T.prim_func
    def scaled(a: T.float32, X: F32[n], Y: F32[n]):
        with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
            for i in T.Parallel(64):
                Y[bx * 64 + i] = a * X[bx * 64 + i] + Y[bx * 64 + i]

    return scaled


def product_program(m: Any = 64) -> Any:
    @T.prim_func
    def main(A: F16[m, 32], B: F16[32, 64], C: F32[m, 64]):
        with T.Kernel(T.ceildiv(m, 64), threads=128) as bx:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.copy(A[bx * 64, 0], a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C[bx * 64, 0])

    return main


def checked_program() -> Any:
    @T.prim_func
    def main(A: I32[4]):
        with T.Kernel(1, threads=32):
            T.device_assert(A[0] > 0, "A starts above zero")

    return main


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if CC is None or find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    kernels = {
        "axpy": tilelang.compile(axpy_program(), target="cpu"),
        "gemm": tilelang.compile(product_program(T.dynamic("m")), out_idx=-1, target="cpu"),
        "checked": checked_program(),
    }
    return tilelang.export_library(tmp_path_factory.mktemp("ex ported"), kernels, "fast")


MAIN = """
#include <stdio.h>
#include <string.h>
#include "fast.h"
int main(void) {
    float x[70], y[70];
    for (int i = 0; i < 70; ++i) { x[i] = (float)i; y[i] = 1; }
    if (axpy(2, x, y, 70)) return 1;
    for (int i = 0; i < 70; ++i) if (y[i] != 2 * i + 1) return 2;
    int32_t bad[4] = {0}, good[4] = {1};
    if (checked(good)) return 3;
    puts(checked_message(checked(bad)));
    if (axpy(2, (const float*)((const char*)x + 1), y, 8) != -4) return 4;
    puts(axpy_message(-4));
    return strcmp(axpy_message(0), "") != 0;
}
"""
PRINTED = "Device assert failed: A starts above zero\nthe address of a tensor is not aligned\n"


@pytest.mark.parametrize(("compiler", "file"), [(CC, "main.c"), (CXX, "main.cpp")])
def test_c_and_cpp_call_several_kernels_of_a_library(
    library: Any, tmp_path: Path, compiler: str | None, file: str
) -> None:
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    (tmp_path / file).write_text(MAIN)
    folder = library.folder
    run([compiler, "-Wall", "-Werror", file, f"-I{folder}/include", f"-L{folder}/lib", "-lfast",
         f"-Wl,-rpath,{folder}/lib", "-o", "main"], tmp_path)  # fmt: skip
    assert run(["./main"], tmp_path) == PRINTED


def test_the_source_of_a_function_is_self_contained(library: Any, tmp_path: Path) -> None:
    source = library.sources[0]
    assert source.name == "axpy.c"
    flags = source.read_text().splitlines()[0].removeprefix("// Compile with: ").split()
    shutil.copy(source, tmp_path)
    run([CC, "axpy.c", *flags, "-o", "alone.so"], tmp_path)
    alone = ctypes.CDLL(str(tmp_path / "alone.so"))
    x, y = np.arange(8, dtype=np.float32), np.ones(8, np.float32)
    assert (
        alone.axpy(
            ctypes.c_float(3), ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), 8
        )
        == 0
    )
    np.testing.assert_array_equal(y, 3 * x + 1)


def test_pkg_config_finds_the_library(library: Any, tmp_path: Path) -> None:
    if shutil.which("pkg-config") is None:
        pytest.skip("no pkg-config on this machine")
    (tmp_path / "main.c").write_text(MAIN)
    moved = tmp_path / "moved"
    shutil.copytree(library.folder, moved)
    path = {"PKG_CONFIG_PATH": str(moved / "lib" / "pkgconfig")}
    words = run(["pkg-config", "--cflags", "--libs", "fast"], tmp_path, **path).split()
    run([CC, "main.c", *words, f"-Wl,-rpath,{moved}/lib", "-o", "main"], tmp_path)
    assert run(["./main"], tmp_path) == PRINTED


def test_cmake_has_a_target(library: Any, tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("no cmake on this machine")
    (tmp_path / "main.c").write_text(MAIN)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(user C)\nfind_package(fast CONFIG REQUIRED)\n"
        "add_executable(user main.c)\ntarget_link_libraries(user fast::fast)\n"
    )
    run(["cmake", "-S", ".", "-B", "build", f"-DCMAKE_PREFIX_PATH={library.folder}"], tmp_path)
    run(["cmake", "--build", "build"], tmp_path)
    assert run(["build/user"], tmp_path) == PRINTED


def test_the_header_describes_parameters(library: Any) -> None:
    assert (
        "/* gemm\n"
        " *   A: float16 of shape (m, 32)\n"
        " *   B: float16 of shape (32, 64)\n"
        " *   C: float32 of shape (m, 64), written\n"
        " *   m: int32\n"
        " */\n"
        "int32_t gemm(const uint16_t* A, const uint16_t* B, float* C, int32_t m);\n"
        "const char* gemm_message(int32_t code);\n"
    ) in library.header.read_text()


def test_a_library_comes_back_as_kernels(library: Any) -> None:
    kernels = tilelang.load_library(library.folder, "fast")
    assert list(kernels) == ["axpy", "gemm", "checked"]
    rng = np.random.default_rng(0)
    a = rng.standard_normal((70, 32)).astype(np.float16)
    b = rng.standard_normal((32, 64)).astype(np.float16)
    result = kernels["gemm"](a, b)
    np.testing.assert_allclose(
        result, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-4, atol=1e-4
    )
    with pytest.raises(TileError, match="A starts above zero"):
        kernels["checked"](np.zeros(4, np.int32))
    with pytest.raises(TileError, match="float32"):
        kernels["axpy"](1.0, np.zeros(4), np.zeros(4, np.float32))


def test_a_kernel_exports_itself_under_the_requested_name(tmp_path: Path) -> None:
    kernel = tilelang.compile(axpy_program(), target="cpu", execution_backend="interpret")
    made = kernel.export_library(tmp_path / "lib", "scaled_sum", compile=False)
    assert (made.name, made.symbols, made.library) == ("scaled_sum", ("scaled_sum",), None)
    assert (
        "int32_t scaled_sum(float a, const float* X, float* Y, int32_t n);"
        in made.header.read_text()
    )
    assert kernel.export_library(tmp_path / "other", compile=False, symbol="f").sources[0].is_file()


# -- GPUs ------------------------------------------------------------------------------------------
GPU_MAIN = """
#include <stdint.h>
#include <stdio.h>
#include "gpu.h"
void stub_declare(const char*, int, const int*);
const char* stub_notes(void);
int cuCtxSetCurrent(void*);
int main(int argc, char** argv) {
    const int sizes[] = {8, 8, 4, 4}, none[] = {0};
    stub_declare("scaled_kernel", 4, sizes);
    stub_declare("main_kernel", 0, none);
    if (argc > 1) cuCtxSetCurrent((void*)1101);
    int code = axpy(2.5f, (const float*)0x1000, (float*)0x2000, 130, (void*)7);
    code |= gemm((const uint16_t*)0x1000, (const uint16_t*)0x2000, (float*)0x3000, 100, (void*)7);
    code |= gemm((const uint16_t*)0x1000, (const uint16_t*)0x2000, (float*)0x3000, 0, (void*)7);
    code |= gemm((const uint16_t*)0x1000, (const uint16_t*)0x2000, (float*)0x3000, 64, 0);
    printf("%s%d\\n", stub_notes(), gemm((const uint16_t*)0x1001, 0, 0, 1, 0));
    return code;
}
"""


@pytest.fixture(scope="module")
def gpu_library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if CC is None or find_compiler() is None or find_nvrtc() is None:
        pytest.skip("needs a C compiler and NVRTC")
    folder = tmp_path_factory.mktemp("gpu")
    kernel = tilelang.compile(
        product_program(T.dynamic("m")), out_idx=-1, target="cuda -arch=sm_80"
    )
    axpy = tilelang.compile(axpy_program(), target="cuda -arch=sm_80")
    made = tilelang.export_library(
        folder, {"gemm": kernel, "axpy": axpy}, "gpu", archs=["sm_80", "sm_90a"]
    )
    stub = folder / "stub"
    stub.mkdir()
    compiler = find_compiler()
    assert compiler is not None
    (stub / "libcuda.so.1").write_bytes(
        compiler.compile_shared(cuda_stub.SOURCE, ("-O1", "-Wl,-soname,libcuda.so.1"))
    )
    (folder / "main.c").write_text(GPU_MAIN)
    run([CC, "-Wall", "-Werror", "main.c", "-Iinclude", "-Llib", "-lgpu", "stub/libcuda.so.1",
         "-Wl,-rpath,lib:stub", "-o", "main"], folder)  # fmt: skip
    return made


def test_gpu_kernels_need_only_the_driver(gpu_library: Any) -> None:
    """The stub is a GPU of architecture 9.0: it gets the machine code for sm_90a."""
    notes = run(["./main"], gpu_library.folder).splitlines()
    words = [line.split()[0] for line in notes[:5]]
    assert words == ["retain", "capture", "load", "capture", "launch"]
    loads = [line for line in notes if line.startswith("load")]
    assert len(loads) == 2 and all("ELF" in line and line.endswith(" in 0") for line in loads)
    axpy, first, second = (cuda_stub.Launch(line) for line in notes if line.startswith("launch"))
    assert (axpy.kernel, axpy.grid, axpy.stream) == ("scaled_kernel", (3, 1, 1), 7)
    assert axpy.values("qqfi") == [0x1000, 0x2000, 2.5, 130]
    assert (first.kernel, first.grid, first.stream) == ("main_kernel", (2, 1, 1), 7)
    assert (second.grid, second.stream) == ((1, 1, 1), 0)
    assert notes[-1] == "-4"


def test_kernels_work_in_the_context_that_is_current(gpu_library: Any) -> None:
    notes = run(["./main", "other"], gpu_library.folder).splitlines()
    assert not any(line.startswith("retain") for line in notes)
    assert next(line for line in notes if line.startswith("load")).endswith(" in 1")


def test_without_a_driver_a_code_says_so(gpu_library: Any, tmp_path: Path) -> None:
    if any(
        Path(folder, "libcuda.so.1").exists()
        for folder in ("/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu")
    ):
        pytest.skip("this machine has a driver")
    code = (
        "import ctypes, sys; lib = ctypes.CDLL(sys.argv[1]); lib.gemm_message.restype = ctypes.c_char_p;"
        "c = lib.gemm(None, None, None, 64, None); print(c, lib.gemm_message(c).decode())"
    )
    printed = run([sys.executable, "-c", code, gpu_library.library], tmp_path)
    assert printed == "-5 libcuda.so.1 cannot be loaded, or is too old\n"


def test_a_gpu_library_loads_for_the_machine(gpu_library: Any) -> None:
    kernel = tilelang.load_library(gpu_library.folder, "gpu")["gemm"]
    assert kernel.n_regs > 0 and kernel.resources.kernels[0].name == "main_kernel"
    text = gpu_library.sources[0].read_text()
    assert text.count("tl_image_") == 4 and "tl_ptx_0" in text


class TestTheMachineCodeForAGpu:
    class Part:
        def __init__(self, arch: str) -> None:
            self.target = tilelang.tvm.target.Target(f"cuda -arch={arch}")

    def choice(self, arch: str, *archs: str) -> str:
        return chosen([self.Part(item) for item in archs], arch).target.arch

    def test_the_binary_matches_or_precedes_the_architecture(self) -> None:
        assert self.choice("sm_90", "sm_80", "sm_90", "sm_90a") == "sm_90a"
        assert self.choice("sm_89", "sm_80", "sm_86", "sm_90a") == "sm_86"
        assert self.choice("", "sm_80", "sm_90a") == "sm_90a"

    def test_may_be_missing(self) -> None:
        assert refusal(TileUnsupportedError, self.choice, "sm_100", "sm_80", "sm_90a") == (
            "the library has no machine code for sm_100\n  expected: sm_80, sm_90a\n  got: sm_100"
        )


# -- errors ----------------------------------------------------------------------------------------
@pytest.mark.parametrize("word", ["double", "2fast", "my-kernel", "tl_gemm", "größe", "EOF"])
def test_a_name_that_c_does_not_take_is_refused(word: str, tmp_path: Path) -> None:
    with pytest.raises(TileValueError) as caught:
        tilelang.export_library(tmp_path, {word: axpy_program()}, compile=False)
    assert str(caught.value) == (
        f"{word!r} cannot be a name in C\n"
        "  expected: letters, digits and underscores, no word of C or C++, no macro, no tl_...\n"
        f"  got: {word}"
    )


def test_an_object_that_is_not_a_kernel_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TileTypeError) as caught:
        tilelang.export_library(tmp_path, {"f": len})  # type: ignore[dict-item]  # on purpose
    assert str(caught.value) == (
        "`f` is not a kernel\n  expected: what tilelang.compile gives, or a traced function\n"
        "  got: <built-in function len>"
    )
    assert refusal(TileValueError, tilelang.export_library, tmp_path, {}) == (
        "a library holds kernels of one kind of machine\n"
        "  expected: at least one kernel, all for CPUs or all for GPUs of one vendor\n  got: no kernels"
    )
    with pytest.raises(TileUnsupportedError) as caught:
        tilelang.export_library(tmp_path, {"f": axpy_program()}, archs=["sm_80"])
    assert str(caught.value) == (
        "a library for CPUs has no list of architectures\n"
        '  expected: march="x86-64-v3", or another name that the C compiler knows\n'
        "  got: archs=['sm_80']"
    )


def test_a_library_that_is_not_there_or_of_another_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TileValueError, match="there is no exported library"):
        tilelang.load_library(tmp_path)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "kernels.tilelang").write_bytes(b"tilelang 0.0.0 1\nwhatever")
    assert refusal(TileValueError, tilelang.load_library, tmp_path) == (
        "the library kernels was exported by another release of tilelang\n"
        "  expected: the same release\n"
        "  hint: programs in C can use it as it is; export it again to load it here"
    )


def reloaded(library: Any, folder: Path) -> Path:
    """A copy of an exported library, which a test may spoil."""
    shutil.copytree(library.folder / "lib", folder / "lib")
    return folder / "lib"


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="needs owners of files")
@pytest.mark.parametrize("name", ["fast.tilelang", "libfast.so", "."])
def test_a_library_that_others_can_write_is_not_executed(
    library: Any, tmp_path: Path, name: str
) -> None:
    place = reloaded(library, tmp_path) / name
    place.chmod(0o777)
    assert refusal(TileValueError, tilelang.load_library, tmp_path, "fast") == (
        f"{place} is not loaded: what it holds would be executed, and others can change it\n"
        "  expected: the user or root as the owner, and no other who may write\n"
        f"  got: owner {os.getuid()}, mode 777\n"
        f"  hint: chmod go-w {place}, if you trust what it holds"
    )
    place.chmod(0o755)
    assert list(tilelang.load_library(tmp_path, "fast")) == ["axpy", "gemm", "checked"]


def test_exported_libraries_can_be_loaded_with_any_umask(tmp_path: Path) -> None:
    if CC is None or find_compiler() is None:
        pytest.skip("no C compiler on this machine")
    before = os.umask(0o002)
    try:
        tilelang.export_library(tmp_path / "made", {"checked": checked_program()})
    finally:
        os.umask(before)
    assert list(tilelang.load_library(tmp_path / "made")) == ["checked"]


@pytest.mark.parametrize("name", ["fast.tilelang", "libfast.so"])
@pytest.mark.parametrize("kept", [0.5, 0.999])
def test_a_damaged_library_is_refused(library: Any, tmp_path: Path, name: str, kept: float) -> None:
    place = reloaded(library, tmp_path) / name
    data = place.read_bytes()
    place.write_bytes(data[: int(len(data) * kept)])
    assert refusal(TileValueError, tilelang.load_library, tmp_path, "fast") == (
        f"the exported library {place} is damaged\n"
        "  expected: the files as export_library has written them\n"
        "  got: other content\n"
        "  hint: copy the library again, or export it again"
    )


def test_nothing_in_an_exported_library_is_unpickled(library: Any, tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "executed"),)

    place = reloaded(library, tmp_path) / "fast.tilelang"
    identity = place.read_bytes().partition(b"\n")[0]
    stored = pickle.dumps(Evil())
    check = hashlib.sha256(stored).hexdigest().encode()
    for head in (identity + b"\n", identity + b"\n" + check + b"\n"):
        place.write_bytes(head + stored)
        with pytest.raises(TileValueError, match="is damaged"):
            tilelang.load_library(tmp_path, "fast")
    place.write_bytes(identity[:-1] + b"1\n" + stored)  # the form of before, which was pickled
    with pytest.raises(TileValueError, match="exported by another release"):
        tilelang.load_library(tmp_path, "fast")
    assert not (tmp_path / "executed").exists()


def test_the_name_of_a_library_is_no_path(tmp_path: Path) -> None:
    with pytest.raises(TileValueError, match="'../x/fast' cannot be a name in C"):
        tilelang.load_library(tmp_path, "../x/fast")


# -- wheels ----------------------------------------------------------------------------------------
@needs_cc
def test_the_example_of_a_wheel_runs_without_tilelang(tmp_path: Path) -> None:
    pytest.importorskip("setuptools")
    source = tmp_path / "source"
    shutil.copytree(EXAMPLE, source)
    root = str(EXAMPLE.parents[1])
    run(
        [sys.executable, "setup.py", "-q", "build", "--build-lib", tmp_path / "made"],
        source,
        PYTHONPATH=root,
    )
    code = (
        "import sys; sys.modules['tilelang'] = None; import numpy as np; from fast_ops import axpy;"
        "y = np.ones(3000, np.float32); axpy(2.0, np.full(3000, 3, np.float32), y); print(set(y.tolist()))"
    )
    assert run([sys.executable, "-c", code], tmp_path / "made") == "{7.0}\n"
