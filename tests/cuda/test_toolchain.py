"""From CUDA text to machine code: compilers, their reports and their refusals."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.cuda import disassembly, nvrtc, search_paths, toolchain
from tilelang.cuda.disassembly import disassemble
from tilelang.cuda.nvrtc import Nvrtc, Output, candidates, find_nvrtc
from tilelang.cuda.toolchain import (
    KernelResources,
    compile_cubin,
    compilers_identity,
    find_nvcc,
    included_files,
    kernel_flags,
    parse_log,
)
from tilelang.errors import CompileError, TileUnsupportedError, TileValueError

SOURCE = """
extern "C" __global__ void __launch_bounds__(128, 1) scale(float* a, float s, int n) {
    __shared__ float tile[64];
    int i = threadIdx.x;
    tile[i & 63] = a[i];
    __syncthreads();
    if (i < n) a[i] = tile[(i + 1) & 63] * s;
}
"""


@pytest.fixture(autouse=True)
def needs_nvrtc() -> None:
    if find_nvrtc() is None:
        pytest.skip("NVRTC is not installed")


def test_resources_are_read_from_the_assemblers_report() -> None:
    (item,) = compile_cubin(SOURCE, "sm_80", name="scale").resources
    assert item.name == "scale" and item.shared == 256 and item.spills == 0 and item.stack == 0
    assert 4 <= item.registers <= 32 and item.barriers == 1
    assert str(item) == f"scale: {item.registers} registers, 256 bytes shared, no spills"


def test_an_option_is_known_or_not_without_compiling() -> None:
    found = find_nvrtc()
    assert found is not None
    assert found.accepts("--use_fast_math") and found.accepts("--gpu-architecture=sm_80")
    assert not found.accepts("--no-such-option")
    if found.version >= (13, 0):
        assert found.no_cache == ("--no-cache",)


@pytest.mark.parametrize(("known", "expected"), [(True, ["--no-cache"]), (False, [])])
def test_the_cache_of_the_compiler_is_bypassed(
    known: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = find_nvrtc()
    assert found is not None
    given: list[list[str]] = []
    plain = Nvrtc.compile

    def compile(self: Nvrtc, source: str, name: str, headers: Any, options: Any) -> Any:
        if name != "probe.cu":
            given.append([item for item in options if "cache" in item])
        elif not known and options[0] == "--no-cache":
            return Output(b"", b"", "nvrtc: error: unrecognized option --no-cache found", "x")
        return plain(self, source, name, headers, options)

    monkeypatch.setattr(Nvrtc, "compile", compile)
    fresh = Nvrtc(found._lib, found.path)
    monkeypatch.setattr(toolchain, "find_tool", lambda arch, tool: fresh)
    assert compile_cubin(SOURCE, "sm_80", name="scale").resources
    assert given == [expected]


def test_a_kernel_that_spills_is_compiled_for_fewer_registers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[str, ...]] = []
    spilled_with: dict[str, int] = {}

    def compile(self: Nvrtc, source: str, name: str, headers: Any, options: Any) -> Output:
        given.append(tuple(options))
        spilled = min((spilled_with.get(option, 40) for option in options), default=40)
        log = (
            "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
            f"    {spilled} bytes stack frame, {spilled} bytes spill stores, 0 bytes spill loads\n"
        )
        return Output(b"code%d" % len(given), b"", log)

    nvrtc = find_nvrtc()
    assert nvrtc is not None and nvrtc.no_cache is not None and nvrtc.minimal is not None
    monkeypatch.setattr(Nvrtc, "compile", compile)
    recomputed, calm = toolchain.FEWER_REGISTERS
    products = f"// TL_WGMMA(64, 16, f16, f16, f32, 32)\n{SOURCE}"
    for source, spills, added, best in (
        (SOURCE, {calm: 0}, [calm], b"code2"),
        (SOURCE, {calm: 50}, [calm], b"code1"),
        (products, {recomputed: 0}, [recomputed], b"code2"),
        (products, {recomputed: 20, calm: 8}, [recomputed, calm], b"code3"),
        (products, {recomputed: 8, calm: 20}, [recomputed, calm], b"code2"),
    ):
        for flags in ((), (toolchain.MODEST,)):
            given.clear()
            spilled_with = {**spills}
            assert compile_cubin(source, "sm_90a", flags).cubin == best
            assert [{*more} for more in given[1:]] == [{*given[0], x} - {*flags} for x in added]
    for own in ("--maxrregcount=64", "--ptxas-options=-O3"):  # the program has decided
        given.clear()
        assert compile_cubin(products, "sm_90a", [own]).cubin == b"code1"


@pytest.mark.parametrize(
    "name", ["cudaTextureObject_t", "JOINED(cuda, TextureObject_t)"], ids=["seen", "not seen"]
)
def test_source_may_use_all_of_the_language(name: str) -> None:
    source = (
        "#define JOINED(a, b) a##b\n"
        f'extern "C" __global__ void fetch(float* out, {name} t) {{\n'
        "    out[threadIdx.x] = tex1Dfetch<float>(t, (int)threadIdx.x);\n}\n"
    )
    assert compile_cubin(source, "sm_80", name="fetch").cubin


def test_reports_of_several_kernels() -> None:
    log = (
        "ptxas info    : 0 bytes gmem\n"
        "ptxas info    : (C7508) Potential Performance Loss: 'setmaxnreg' ignored in function 'b'\n"
        "ptxas info    : Compiling entry function 'b' for 'sm_90a'\n"
        "ptxas info    : Function properties for b\n"
        "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 168 registers, used 1 barriers, 16 bytes cumulative stack size, "
        "2048 bytes smem, 600 bytes cmem[0]\n"
        "ptxas info    : Compiling entry function 'a' for 'sm_90a'\n"
        "ptxas info    : (C7519) Potential Performance Loss: wgmma.mma_async is serialized\n"
        "ptxas info    : Used 20 registers, used 0 barriers\n"
    )
    resources, warnings = parse_log(log)
    assert resources == (
        KernelResources("a", 20),
        KernelResources("b", 168, 2048, 16, 8, 12, 600, 1),
    )
    assert warnings == (
        "b: the register budget of setmaxnreg is ignored (C7508)",
        "a: each wgmma waits for the one before it (they are serialised) (C7519)",
        "b: 8 bytes of registers are spilled to memory and 12 loaded back (168 registers per "
        "thread)",
    )


def test_refused_source_is_one_readable_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path))
    source = 'extern "C" __global__ void bad(float* a) {\n    // mine.py:7\n    a[0] = ;\n}\n'
    with pytest.raises(CompileError) as found:
        compile_cubin(source, "sm_80", name="bad")
    (kept,) = tmp_path.rglob("bad.cu")
    assert kept.read_text() == source
    version = find_nvrtc("sm_80").identity  # type: ignore[union-attr]  # the fixture found one
    assert str(found.value) == (
        "the generated CUDA source of kernel bad did not compile at what mine.py:7 became; this is "
        "a defect of tilelang, or of source that the program imports\n"
        "  got: bad.cu(3): error: expected an expression\n"
        "             a[0] = ;\n"
        "                    ^\n"
        '       1 error detected in the compilation of "bad.cu".\n'
        f"  hint: please report it with the source; the source is in {kept}; compiled by {version}; "
        "all that the compiler wrote is in the `log` of this error"
    )
    assert "a[0] = ;" in found.value.log


def test_a_function_that_nothing_defines_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_TMP_DIR", str(tmp_path))
    source = 'extern "C" __global__ void bad(float* a) {\n    // mine.py:7\n    mine(a);\n}\n'
    with pytest.raises(CompileError) as found:
        compile_cubin(source, "sm_80", name="bad")
    (kept,) = tmp_path.rglob("bad.cu")
    version = find_nvrtc("sm_80").identity  # type: ignore[union-attr]  # the fixture found one
    assert str(found.value) == (
        "`mine` is not defined in the CUDA source of kernel bad\n"
        "  expected: a device function of CUDA, or one that the program brings with "
        "T.import_source or T.Kernel(prelude=...)\n"
        "  got: `mine(a);` for mine.py:7\n"
        f"  hint: the source is in {kept}; compiled by {version}; all that the compiler wrote is in "
        "the `log` of this error"
    )


def test_refusals_of_the_assembler_are_shown_too() -> None:
    source = 'extern "C" __global__ void bad() { asm("foo.bar;"); }\n'
    with pytest.raises(CompileError, match="ptxas application ptx input, line .*foo"):
        compile_cubin(source, "sm_80", name="bad")


def test_long_logs_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = "\n".join(f'    int x{i} = "";' for i in range(40))
    with pytest.raises(CompileError) as found:
        compile_cubin(f'extern "C" __global__ void bad() {{\n{lines}\n}}\n', "sm_80", name="bad")
    assert re.search(r"\.\.\. \d+ more lines\n  hint", str(found.value))
    assert str(found.value).count("\n") < 20


def test_unknown_architecture() -> None:
    with pytest.raises(TileUnsupportedError) as found:
        compile_cubin(SOURCE, "sm_30")
    text = str(found.value)
    assert text.startswith(
        "the CUDA compiler does not know the architecture sm_30\n  expected: sm_"
    )
    assert text.endswith("hint: install another release of nvidia-cuda-nvrtc")


def test_unknown_tool() -> None:
    assert refusal(TileValueError, compile_cubin, SOURCE, "sm_80", tool="clang") == (
        "unknown CUDA compiler\n  expected: auto, nvrtc, nvcc\n  got: 'clang'"
    )


def test_no_compiler_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "find_nvrtc", lambda arch="": None)
    monkeypatch.setattr(toolchain, "find_nvcc", lambda: None)
    assert refusal(CompileError, compile_cubin, SOURCE, "sm_80") == (
        "no CUDA compiler was found\n"
        "  expected: NVRTC or nvcc in a pip package, CUDA_HOME, /usr/local/cuda or on the search "
        "path\n"
        "  hint: pip install nvidia-cuda-nvrtc"
    )
    with pytest.raises(CompileError, match="install a CUDA toolkit"):
        compile_cubin(SOURCE, "sm_80", tool="nvcc")


def test_nvcc_is_used_when_nvrtc_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    if find_nvcc() is None:
        pytest.skip("nvcc is not installed")
    monkeypatch.setattr(toolchain, "find_nvrtc", lambda arch="": None)
    assert compile_cubin(SOURCE, "sm_80").tool.startswith("nvcc ")


# -- flags -----------------------------------------------------------------------------------------
def test_flags_without_meaning_are_dropped() -> None:
    given = ["-O3", "-DENABLE_BF16", "-D", "N=2", "-Xcompiler", "-fPIC", "-use_fast_math",
             "--expt-relaxed-constexpr", "-Xptxas", "-O2", "-lineinfo", "-std=c++20", "-w",
             "--maxrregcount=64", "-gencode", "arch=compute_80", "-v"]  # fmt: skip
    assert kernel_flags(given) == (
        "-DENABLE_BF16", "-DN=2", "--use_fast_math", "--ptxas-options=-O2", "--generate-line-info",
        "-w", "--maxrregcount=64",
    )  # fmt: skip
    assert compile_cubin(SOURCE, "sm_80", given).cubin


@pytest.mark.parametrize("tool", ["nvrtc", "nvcc"])
def test_files_are_put_in_front_of_the_source(tmp_path: Path, tool: str) -> None:
    if (find_nvrtc() if tool == "nvrtc" else find_nvcc()) is None:
        pytest.skip(f"{tool} is not installed")
    file = tmp_path / "twice.h"
    file.write_text("""#include <cstdint>
        __device__ uint32_t twice(uint32_t x) { return 2 * x; }
        __device__ void copied(void* to, const void* from) { __builtin_memcpy(to, from, 4); }
    """)
    source = 'extern "C" __global__ void k(unsigned* a) { a[0] = twice(a[1]); copied(a + 2, a); }'
    flags = ["-include", str(file)]
    assert kernel_flags(flags) == (f"--pre-include={file}",)
    assert compile_cubin(source, "sm_80", flags, tool=tool).cubin
    assert included_files(flags) == (file.read_text(),)
    with pytest.raises(CompileError):
        compile_cubin(source, "sm_80", tool=tool)


def test_a_changed_file_is_compiled_again(tmp_path: Path) -> None:
    @T.prim_func
    def scaled(A: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32) as _:
            A[T.get_thread_binding()] = T.call_extern("float32", "scaled_by", A[0])

    file = tmp_path / "factor.h"

    def built(factor: str) -> bytes:
        file.write_text(f"__device__ float scaled_by(float x) {{ return x * {factor}; }}")
        flags = ["-include", str(file)]
        kernel = tilelang.compile(scaled, target="cuda -arch=sm_80", compile_flags=flags)
        found: bytes = kernel.adapter.result.cubin
        return found

    assert built("2.0f") != built("3.0f")


def test_lists_of_assembler_options_are_split_as_nvcc_does() -> None:
    given = ["--ptxas-options=-v,--register-usage-level=10", "-Xptxas", "-O2,-warn-spills"]
    assert kernel_flags(given) == (
        "--ptxas-options=-v", "--ptxas-options=--register-usage-level=10", "--ptxas-options=-O2",
        "--ptxas-options=-warn-spills",
    )  # fmt: skip
    assert compile_cubin(SOURCE, "sm_90a", given).cubin


# -- finding ---------------------------------------------------------------------------------------
def fake(folder: Path, *names: str) -> None:
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).write_bytes(b"x")


def test_indices_in_order(tmp_path: Path) -> None:
    fake(tmp_path / "site/nvidia/cu13/lib", "libnvrtc.so.13", "libnvrtc.alt.so.13",
         "libnvrtc-builtins.so.13.0")  # fmt: skip
    fake(tmp_path / "site/nvidia/cuda_nvrtc/lib", "libnvrtc.so.12")
    fake(tmp_path / "home/lib64", "libnvrtc.so.13.0.88", "libnvrtc.so.12.1.1")
    fake(tmp_path / "toolkit/bin", "nvcc")
    (tmp_path / "toolkit/bin/nvcc").chmod(0o755)
    fake(tmp_path / "toolkit/lib64", "libnvrtc.so.12.9")
    found = list(
        candidates(str(tmp_path / "home"), str(tmp_path / "toolkit/bin"), [str(tmp_path / "site")])
    )
    own = [
        str(Path(path).relative_to(tmp_path)) for path in found if path.startswith(str(tmp_path))
    ]
    assert own == [
        "site/nvidia/cu13/lib/libnvrtc.so.13", "site/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
        "home/lib64/libnvrtc.so.13.0.88", "home/lib64/libnvrtc.so.12.1.1",
        "toolkit/lib64/libnvrtc.so.12.9",
    ]  # fmt: skip
    assert found[-3:] == ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"]


class Known:
    """A library with a version and architectures."""

    def __init__(self, version: tuple[int, int], archs: tuple[int, ...]) -> None:
        self.version, self.archs = version, archs

    def supports(self, arch: str) -> bool:
        return int(arch[3:]) in self.archs


@pytest.mark.parametrize(
    ("driver", "arch", "expected"),
    [(None, "sm_80", 13), ((12, 4), "sm_80", 12), ((13, 0), "sm_80", 13), (None, "sm_70", 12),
     ((12, 4), "sm_120", 13), (None, "sm_30", 13)],
)  # fmt: skip
def test_choice_follows_architecture_and_driver(
    driver: tuple[int, int] | None, arch: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries = {"new": Known((13, 0), (80, 120)), "old": Known((12, 9), (70, 80))}
    monkeypatch.setattr(nvrtc, "candidates", lambda *places: ["new", "gone", "old"])
    monkeypatch.setattr(nvrtc, "_load", libraries.get)
    monkeypatch.setattr(nvrtc, "cuda_driver_version", lambda: driver)
    nvrtc._choose.cache_clear()
    found = nvrtc._choose(arch, (None, "", ()))
    nvrtc._choose.cache_clear()
    assert found is not None and found.version[0] == expected


def test_files_that_are_no_library_are_passed_over(tmp_path: Path) -> None:
    fake(tmp_path / "lib", "libnvrtc.so.13", "libnvrtc-builtins.so.13.0")
    assert nvrtc._load(str(tmp_path / "lib/libnvrtc.so.13")) is None


def test_the_library_is_loaded_in_the_background() -> None:
    code = (
        "import threading\n"
        "from tilelang.cuda import nvrtc\n"
        "nvrtc.load_ahead('sm_80')\n"
        "found = nvrtc.find_nvrtc('sm_80')\n"
        "[thread.join() for thread in threading.enumerate() if thread.name == 'tilelang-nvrtc']\n"
        "assert found is not None and found.compile('', 'empty.cu', {}, []).ptx\n"
        "nvrtc.load_ahead('sm_80')\n"
        "assert threading.active_count() == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("known, compiled", [(True, ["ahead.cu"]), (False, [])])
def test_the_library_compiles_an_empty_program_ahead_where_it_knows_the_architecture(
    monkeypatch: pytest.MonkeyPatch, known: bool, compiled: list[str]
) -> None:
    names: list[str] = []
    library = SimpleNamespace(
        supports=lambda arch: known,
        minimal=(),
        compile=lambda source, name, headers, options: names.append(name),
    )
    monkeypatch.setattr(nvrtc, "find_nvrtc", lambda arch: library)
    nvrtc._set_up("sm_90a")
    assert names == compiled


def test_identity_is_known_without_loading() -> None:
    code = (
        "from tilelang.cuda.toolchain import compilers_identity\n"
        "assert compilers_identity() and compilers_identity('nvcc')\n"
        "assert 'nvrtc' not in open('/proc/self/maps').read()\n"
    )
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    subprocess.run([sys.executable, "-c", code], check=True)
    assert compilers_identity() == compilers_identity() != compilers_identity("nvcc")


# -- disassembly -----------------------------------------------------------------------------------
def test_no_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly, "executable", lambda name: None)
    assert refusal(TileUnsupportedError, disassemble, b"") == (
        "no disassembler was found\n"
        "  expected: nvdisasm or cuobjdump of a CUDA toolkit, or of the triton package\n"
        "  hint: install a CUDA toolkit; the PTX text needs no tool"
    )


def test_disassembler_is_run_on_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "bin" / "nvdisasm"
    tool.parent.mkdir()
    tool.write_text('#!/bin/sh\necho "$1"\ncat "$2"\n')
    tool.chmod(0o755)
    monkeypatch.setattr(search_paths, "toolkits", lambda home, path: [tmp_path])
    assert disassemble(b"IMAGE") == "--print-code\nIMAGE"
    tool.write_text("#!/bin/sh\necho broken >&2\nexit 1\n")
    with pytest.raises(CompileError, match="refused the machine code\n  got: broken"):
        disassemble(b"IMAGE")
