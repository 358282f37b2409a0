"""Launches by the driver of a GPU: skipped where there is none. The kernels are written by hand.

They run in the emulator, too; streams, graphs and clocks are those of a device.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from gpus import DEVICE, EMULATOR, Gpu, opened

import tilelang.language as T
from tilelang.codegen.gpu.module import GpuModule, KernelArg, LaunchPlan, WorkspaceStep
from tilelang.compiler import Artifact
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.loaded_module import LoadedModule
from tilelang.cuda.toolchain import compile_cubin
from tilelang.emulator.launch import DEFAULT_CHECKS, Settings
from tilelang.errors import TileRuntimeError
from tilelang.jit.emulated import from_artifact
from tilelang.options import Options
from tilelang.profiler import do_bench
from tilelang.runtime.cache import default_cache
from tilelang.runtime.gpu import make_gpu_launcher
from tilelang.runtime.host_program import host_program, kernel_table
from tilelang.runtime.signature import LaunchSpec, Symbol, scalar, tensor
from tilelang.target import parse_target
from tilelang.target.device import cuda_devices

torch = pytest.importorskip("torch", reason="the tensors are torch's")

SOURCE = """
extern "C" __global__ void __launch_bounds__(64, 1) first(float* A, float* W, float s, int n) {
    extern __shared__ float tile[];
    int i = blockIdx.x * 64 + threadIdx.x;
    if (i < n) { tile[threadIdx.x] = A[i]; W[i] = tile[threadIdx.x] * s; }
}
extern "C" __global__ void __launch_bounds__(64, 1) second(float* C, float* W, int n) {
    int i = blockIdx.x * 64 + threadIdx.x;
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");  // launched early: W is not there yet
#endif
    if (i < n) C[i] = W[i] + 1.0f;
}
"""
GRID = (("$3", 63, "add", 64, "floordiv"), (1,), (1,))


def pointer(slot: int) -> KernelArg:
    return KernelArg(slot, "pointer", "float32")


n = T.dynamic("n")


@T.prim_func
def declared(A: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32"), s: T.float32):
    with T.Kernel(1, threads=64):
        pass


def module() -> GpuModule:
    """The two kernels and the memory between them."""
    n = KernelArg(3, "int", "int32")
    s = KernelArg(2, "float", "float32")
    return GpuModule(
        SOURCE,
        (
            WorkspaceStep(4, ("$3", 4, "mul")),
            LaunchPlan("first", GRID, (64, 1, 1), 100 * 1024, (pointer(0), pointer(4), s, n)),
            LaunchPlan("second", GRID, (64, 1, 1), 0, (pointer(1), pointer(4), n), pdl=True),
        ),
        5, (), ("first", "second"),
    )  # fmt: skip


@pytest.fixture
def device() -> Gpu:
    """A GPU."""
    with opened(DEVICE, "") as found:
        return found


@pytest.fixture(params=["python", "c"])
def call(request: pytest.FixtureRequest, device: Gpu) -> Any:
    spec = LaunchSpec(
        "f",
        (tensor("A", "float32", (("$0",),)), tensor("C", "float32", (("$0",),), is_output=True),
         scalar("s", "float32")),
        (Symbol("n"),), outputs=(1,), returns="one", device="cuda",
    )  # fmt: skip
    result = compile_cubin(SOURCE, cuda_devices()[0], name="f")
    cache = default_cache()
    return make_gpu_launcher(
        spec, host_program(module()), LoadedModule(result.cubin, kernel_table(module()), "f"), cache=cache,
        compiler=find_compiler(cache, quiet=True) if request.param == "c" else None,
    )  # fmt: skip


def test_results_are_right_on_any_stream(call: Any) -> None:
    data = torch.randn(1000, device="cuda")
    assert torch.equal(call(data, 2.0), data * 2 + 1)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        result = call(data, 0.5)
    stream.synchronize()
    assert torch.equal(result, data * 0.5 + 1)
    assert call(data[:0], 1.0).shape == (0,)


def test_every_gpu_of_the_machine(call: Any) -> None:
    for index in range(torch.cuda.device_count()):
        data = torch.randn(77, device=f"cuda:{index}")
        result = call(data, 3.0)
        assert result.device.index == index and torch.equal(result, data * 3 + 1)
    assert torch.cuda.current_device() == 0


def test_calls_are_captured_into_a_graph(call: Any) -> None:
    data = torch.randn(500, device="cuda")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = call(data, 4.0)
    data.copy_(torch.arange(500.0))
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(result, data * 4 + 1)


@pytest.mark.parametrize("backend", ["event", "cudagraph", "cupti"])
def test_time_is_that_of_the_device(call: Any, backend: str) -> None:
    data = torch.randn(1 << 24, device="cuda")
    found = do_bench(lambda: call(data, 2.0), warmup=2, rep=5, backend=backend)
    assert 0.01 < found < 10


def test_the_emulator_runs_the_same_module() -> None:
    with opened(EMULATOR, "module") as gpu:
        text = '#include "tl_types.h"\n' + SOURCE  # the words of CUDA are the headers' there
        found = replace(module(), source=text)
        made = from_artifact(
            declared, (1,), Artifact(text, "cuda", "first", ("n",), (), device=found),
            parse_target(gpu.target()), Options(),
            Settings(DEFAULT_CHECKS, "random", gpu.seed),
        )  # fmt: skip
        data = torch.randn(1000)
        assert torch.equal(made.call(data, 2.0), data * 2 + 1)
        assert made.call(data[:0], 1.0).shape == (0,)


def test_errors_of_the_driver_are_readable(device: Gpu) -> None:
    code = LoadedModule(b"no image", (("k", 0, 1),), "f")
    with pytest.raises(
        TileRuntimeError, match="loading the kernels of f on GPU 0 failed: CUDA_ERR"
    ):
        code.functions(0)
