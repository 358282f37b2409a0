"""Kernels for CUDA from artifact to call; the generated source is written by hand here."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from cuda_stub import Stub, build, fake_torch, on_gpu
from refusals import refusal

import tilelang.language as T
from tilelang.codegen.gpu.module import GpuModule, KernelArg, LaunchPlan
from tilelang.compiler import Artifact
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda import executable as cuda, loaded_module as code_module, toolchain
from tilelang.cuda.driver import Driver
from tilelang.cuda.executable import Resources, occupancy
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import CompileResult, KernelResources
from tilelang.errors import (
    CompileError,
    KernelArgumentError,
    TileWarning,
)
from tilelang.jit import JITKernel, artifacts, core
from tilelang.jit.execution import check_backend
from tilelang.options import Options, make_options
from tilelang.runtime import cache as runtime_cache
from tilelang.runtime.alignment import aligned
from tilelang.runtime.cache import DiskCache
from tilelang.runtime.gpu import LateLauncher
from tilelang.runtime.signature import LaunchSpec, Symbol, scalar, tensor
from tilelang.target import Target, parse_target
from tilelang.target.limits import limits_of

SOURCE = """extern "C" __global__ void __launch_bounds__(64, 1) add_kernel(float* A, float* C, int n) {
    extern __shared__ float tile[];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) tile[threadIdx.x] = A[i];
    __syncthreads();
    if (i < n) C[i] = tile[63 - threadIdx.x] + 1.0f;
}
"""


def module(source: str = SOURCE) -> GpuModule:
    pointers = (KernelArg(0, "pointer", "float32"), KernelArg(1, "pointer", "float32"))
    plan = LaunchPlan(
        "add_kernel", (("$2", 63, "add", 64, "floordiv"), (1,), (1,)), (64, 1, 1),
        50 * 1024, (*pointers, KernelArg(2, "int", "int32")),
    )  # fmt: skip
    return GpuModule(source, (plan,), 3, (), ("add_kernel",))


n = T.dynamic("n")


@T.prim_func
def program(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
    with T.Kernel(T.ceildiv(n, 64), threads=64) as bx:
        for i in T.Parallel(64):
            C[bx * 64 + i] = A[bx * 64 + i] + 1.0


@pytest.fixture
def made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest
) -> dict[str, Any]:
    """The compiler in front of the back end, replaced: gives what the dict holds."""
    if find_nvrtc() is None:
        pytest.skip("NVRTC is not installed")
    held: dict[str, Any] = {"module": module(), "flags": (), "targets": []}

    def front(
        func: Any, target: Target, options: Options, cache: DiskCache, missed: Any = None
    ) -> Artifact:
        held["targets"].append(target)
        source = held["module"].source
        return Artifact(
            source, "cuda", "add_kernel", ("n",), (), flags=held["flags"], device=held["module"]
        )

    monkeypatch.setattr(artifacts, "artifact_of", front)
    cache = DiskCache(tmp_path / "cache")
    monkeypatch.setattr(cuda, "default_cache", lambda: cache)
    monkeypatch.setattr(runtime_cache, "default_cache", lambda: cache)
    if "stub" not in request.fixturenames:  # nothing is called, so no launcher need be built
        monkeypatch.setattr(cuda, "is_launcher_built", lambda cache, patience: True)
        monkeypatch.setattr(cuda, "launcher_compiler", lambda cache: None)
    return held


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Stub:
    """A driver that takes notes, and torch with GPUs."""
    pytest.importorskip("torch", reason="the tensors are torch's")
    compiler = find_compiler(quiet=True)
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    found = build(compiler, tmp_path)
    found.declare("add_kernel", 8, 8, 4)
    driver = Driver(found.path)
    monkeypatch.setattr(code_module.LoadedModule.__init__, "__defaults__", (lambda: driver,))
    fake_torch(monkeypatch)
    return found


def kernel(**changes: Any) -> JITKernel:
    options = changes.pop("options", Options())
    return JITKernel(program, [1], Target("cuda", "sm_90"), options, **changes)


@pytest.mark.parametrize("backend", ["auto", "python"])
def test_kernel_is_compiled_and_called(made: dict[str, Any], stub: Stub, backend: str) -> None:
    import torch

    found = kernel(execution_backend=backend)
    data = on_gpu(torch.zeros(100), 1)
    result = found(data)
    (launch,) = stub.launches()
    assert (launch.grid, launch.block, launch.shared) == ((2, 1, 1), (64, 1, 1), 50 * 1024)
    assert launch.values("QQi") == [data.data_ptr(), result.data_ptr(), 100]
    assert result.shape == (100,) and result.device == torch.device("cuda", 1)
    assert found.execution_backend == ("python" if backend == "python" else "c")


def test_python_launches_until_the_c_launcher_is_built(
    made: dict[str, Any], stub: Stub, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    built: list[bool] = []
    monkeypatch.setattr(cuda, "is_launcher_built", lambda cache, patience=0.0: bool(built))
    found, data = kernel(), on_gpu(torch.zeros(100), 1)
    late = found.torch_function
    assert isinstance(late, LateLauncher)
    for kind in ("GpuLauncher", "Launcher", "Launcher"):
        result = found(data)
        assert type(late._call).__name__ == kind
        (launch,) = stub.launches()
        assert launch.values("QQi") == [data.data_ptr(), result.data_ptr(), 100]
        built.append(True)
    assert found.execution_backend == "c"


@pytest.mark.parametrize("compiler, kind", [(True, "c"), (False, "python")])
def test_a_call_waits_for_the_choice_of_the_launcher(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch, compiler: bool, kind: str
) -> None:
    known = find_compiler(quiet=True)
    if known is None:
        pytest.skip("no C compiler on this machine")
    monkeypatch.setattr(cuda, "is_launcher_built", lambda cache, patience=0.0: False)
    monkeypatch.setattr(cuda, "launcher_compiler", lambda cache: known if compiler else None)
    assert kernel().execution_backend == kind


def test_resources(made: dict[str, Any]) -> None:
    found = kernel().resources
    assert isinstance(found, Resources) and [item.name for item in found.kernels] == ["add_kernel"]
    assert found.shared == 50 * 1024 and found.spills == 0 and 4 <= found.registers <= 40
    assert found.occupancy == 4 * 64 / 2048  # shared memory for four blocks
    assert str(found) == (
        f"add_kernel: {found.registers} registers, 51200 bytes shared, no spills, occupancy 12%"
    )
    assert kernel().explain().endswith(f"\n\nresources\n  {found}")


def test_sources_are_shown(
    made: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    found = kernel()  # needs no driver
    found.show_source("cuda")
    assert capsys.readouterr().out == SOURCE + "\n"
    found.show_source("ptx")
    assert ".target sm_90" in capsys.readouterr().out
    found.export_ptx(str(tmp_path / "k.ptx"))
    assert ".entry add_kernel" in (tmp_path / "k.ptx").read_text()
    monkeypatch.setattr(cuda, "disassemble", lambda cubin: f"SASS of {cubin[:4]!r}")
    found.show_sass()
    assert capsys.readouterr().out == "SASS of b'\\x7fELF'\n"
    found.export_library(str(tmp_path / "k.cubin"))
    assert (tmp_path / "k.cubin").read_bytes()[:4] == b"\x7fELF"


def test_the_second_compilation_is_cached(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kernel()

    def never(*args: Any, **keywords: Any) -> Any:
        raise AssertionError("compiled again")

    monkeypatch.setattr(toolchain, "compile_cubin", never)
    second = kernel()
    assert second.resources == first.resources
    assert second.adapter.result == first.adapter.result
    with pytest.raises(AssertionError, match="compiled again"):
        kernel(options=Options(fast_math=True))
    with pytest.raises(AssertionError, match="compiled again"):
        JITKernel(program, [1], Target("cuda", "sm_80"))
    made["module"] = module(SOURCE + "\n")
    with pytest.raises(AssertionError, match="compiled again"):
        kernel()


def test_options_are_passed_as_flags(made: dict[str, Any]) -> None:
    made["flags"] = ("-DX=1",)
    options = make_options(
        {"tl.enable_fast_math": True, "tl.ptxas_register_usage_level": 5}, ["-O3", "-DX=1", "-DY"]
    )
    artifact = Artifact("", "cuda", "", (), (), flags=made["flags"])
    assert cuda.compile_flags(artifact, options) == (
        "-DX=1", "-DY", "--use_fast_math", "--ptxas-options=--register-usage-level=5",
    )  # fmt: skip
    assert kernel(options=options).resources.registers


def test_broken_source_names_the_kernel(made: dict[str, Any]) -> None:
    made["module"] = module("broken\n")
    with pytest.raises(CompileError, match="^the generated CUDA source of kernel program did not"):
        kernel()


def test_assembler_advice_is_warned(made: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    log = (
        "ptxas info : Compiling entry function 'add_kernel' for 'sm_90'\n"
        "ptxas info : (C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine "
        "register count at entry.\n"
        "ptxas . 8 bytes stack frame, 8 bytes spill stores, 4 bytes spill loads\n"
    )
    monkeypatch.setattr(
        toolchain, "compile_cubin", lambda *a, **k: CompileResult(b"\x7fELF", "", log, tool="t")
    )
    with pytest.warns(TileWarning) as found:
        made_kernel = kernel()
    assert [str(item.message) for item in found] == [
        "kernel program is slower than it could be: the register budget of setmaxnreg is ignored: "
        "unable to determine register count at entry (C7508) [slow-instructions]\n"
        "  hint: leave the registers to the compiler: T.no_set_max_nreg()",
        "kernel program is slower than it could be: 8 bytes of registers are spilled to memory and 4 "
        "loaded back (0 registers per thread) [spills]\n"
        "  hint: give each thread less: smaller tiles, or more threads (T.Kernel(threads=...))",
    ]
    assert len(made_kernel.resources.warnings) == 2 and made_kernel.resources.spills == 12


def test_nvcc_is_used_on_request(made: dict[str, Any]) -> None:
    if toolchain.find_nvcc() is None:
        pytest.skip("nvcc is not installed")
    assert check_backend("nvcc") == "nvcc"
    assert kernel(execution_backend="nvcc").adapter.result.tool.startswith("nvcc")
    assert kernel().adapter.result.tool.startswith("nvrtc")


def test_the_host_source_of_the_nvrtc_backend_is_python(
    made: dict[str, Any], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = kernel(execution_backend="nvrtc")
    assert found.adapter.result.tool.startswith("nvrtc")
    text = found.get_host_source()
    functions = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    assert "call" in functions and "cuda.bindings" in text
    found.show_source("host")
    found.export_sources(host_path=str(tmp_path / "host.py"))
    assert capsys.readouterr().out == f"{text}\n"
    assert (tmp_path / "host.py").read_text() == text


def test_the_host_source_of_other_backends_is_cpp(made: dict[str, Any]) -> None:
    text = kernel().get_host_source()
    assert 'extern "C" int init()' in text and "def call(" not in text


def test_target_without_architecture(made: dict[str, Any]) -> None:
    JITKernel(program, [1], Target("cuda"))
    assert made["targets"][-1] == Target("cuda", "sm_80")


def test_wrong_memory_is_refused(made: dict[str, Any], stub: Stub) -> None:
    import torch

    assert refusal(KernelArgumentError, kernel(), torch.zeros(8)) == (
        "kernel program input A is on the wrong device\n"
        "  expected: cuda\n"
        "  got: cpu\n"
        "  hint: pass A.cuda(); without a GPU, "
        'execution_backend="emulator" runs the kernel on the CPU'
    )


def test_calls_follow_the_device_of_their_tensors(
    monkeypatch: pytest.MonkeyPatch, stub: Stub
) -> None:
    import torch

    monkeypatch.setattr(core, "cuda_devices", lambda: ("sm_90", "sm_80"))
    core._cuda_target.cache_clear()
    assert core._device_of([1, on_gpu(torch.zeros(2), 1)]) == "cuda -arch=sm_80"
    assert core._device_of([on_gpu(torch.zeros(2))]) == "cuda -arch=sm_90"
    assert core._device_of([torch.zeros(2)]) == "cpu" and core._device_of([3]) is None
    monkeypatch.setattr(core, "cuda_devices", lambda: ())
    core._cuda_target.cache_clear()
    assert parse_target(core._device_of([on_gpu(torch.zeros(2))])).kind == "cuda"
    core._cuda_target.cache_clear()


# -- figures ---------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("arch", "registers", "shared", "threads", "blocks"),
    [
        ("sm_80", 32, 0, 128, 16), ("sm_80", 64, 0, 128, 8), ("sm_80", 255, 0, 128, 2),
        ("sm_80", 33, 0, 256, 6), ("sm_90", 168, 227 * 1024, 384, 1), ("sm_90", 32, 0, 32, 32),
        ("sm_75", 32, 32 * 1024, 128, 2), ("sm_80", 128, 0, 1024, 0), ("sm_80", 65, 0, 128, 7),
        ("sm_86", 40, 16 * 1024, 128, 5), ("sm_80", 32, 0, 100, 16),
    ],
)  # fmt: skip
def test_occupancy(arch: str, registers: int, shared: int, threads: int, blocks: int) -> None:
    limits = limits_of("cuda", arch)
    item = KernelResources("k", registers=registers, shared=shared)
    rounded = -(-threads // 32) * 32
    assert occupancy(item, threads, limits) == blocks * rounded / limits.threads_processor


def test_vectors_need_aligned_tensors() -> None:
    spec = LaunchSpec(
        "f", (tensor("A", "float16", (("$0",),)), tensor("B", "float32", (2,)),
              tensor("C", "float64", (1,)), tensor("D", "int8", ()), scalar("x", "int32")),
        (Symbol("n"),),
    )  # fmt: skip
    assert [p.alignment for p in aligned(spec, None).params[:4]] == [16, 8, 8, 1]
    known = aligned(spec, (("A", 4), ("C", 4)))
    assert [p.alignment for p in known.params[:4]] == [4, 4, 8, 1]
