"""Kernels and operators in PyTorch on an NVIDIA GPU: skipped where there is none."""

from __future__ import annotations

import gc
import importlib.util
import warnings
from pathlib import Path
from typing import Any

import pytest
from gemm_program import gemm_program
from scale_program import scale_program

import tilelang
import tilelang.language as T
from tilelang.target.device import cuda_devices

torch = pytest.importorskip("torch", reason="operators of torch")
if not cuda_devices() or not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
pytestmark = [  # both are torch's own: while its compiler is imported, and of the graph, empty on
    # purpose, from which it takes its memory; raised there, it breaks the captures after it
    pytest.mark.filterwarnings("ignore:.*script_method. is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty:UserWarning"),
]
custom_op = tilelang.torch.custom_op
inductor = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="torch's compiler for GPUs needs triton"
)


@T.prim_func
def add_program(A: T.Tensor((256,), "float32"), C: T.Tensor((256,), "float32")):
    with T.Kernel(1, threads=128):
        for i in T.Parallel(256):
            C[i] = C[i] + A[i]


m = T.dynamic("m")


product = gemm_program(m, 256, 256, (128, 128, 64), 3, dtype="bfloat16", out="bfloat16")


def product_backward(A: Any, B: Any, grad: Any) -> Any:
    return grad @ B.T, A.T @ grad


scale_kernel = tilelang.compile(scale_program, target="cuda")
add_kernel = tilelang.compile(add_program, target="cuda")
gemm_kernel = tilelang.compile(product, out_idx=-1, target="cuda")
scale = custom_op(
    "tilelang_gpu::scale", scale_kernel,
    backward=lambda s, grad: torch.ops.tilelang_gpu.scale(grad, s),
)  # fmt: skip
add = custom_op("tilelang_gpu::add", add_kernel)
gemm = custom_op(
    "tilelang_gpu::gemm", gemm_kernel, backward=product_backward, autocast=torch.bfloat16
)


class Layer(torch.nn.Module):  # type: ignore[misc,name-defined,unused-ignore]  # Any without torch
    """A product by a kernel between operations that torch fuses."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(data(256, 256).bfloat16() / 16)

    def forward(self, x: Any) -> Any:
        return torch.relu(gemm(x * 2, self.weight)) + 1


def data(*shape: int, grad: bool = False) -> Any:
    generator = torch.Generator("cuda").manual_seed(sum(shape))
    return torch.randn(shape, generator=generator, device="cuda").requires_grad_(grad)


def rows(count: int, grad: bool = False) -> Any:
    return data(count, 256).bfloat16().requires_grad_(grad)


def close(found: Any, want: Any) -> None:
    torch.testing.assert_close(found, want, rtol=2e-2, atol=5e-2)


def reference(layer: Layer, x: Any) -> Any:
    return torch.relu(x * 2 @ layer.weight) + 1


def test_opcheck() -> None:
    torch.library.opcheck(scale, (data(3, 4), 2.0))
    torch.library.opcheck(scale, (data(3, 4, grad=True), 2.0))
    torch.library.opcheck(add, (data(256), data(256)))


@inductor
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_whole_with_derivatives(mode: str) -> None:
    """The second mode records CUDA graphs."""
    torch._dynamo.reset()
    layer = Layer()
    compiled = torch.compile(layer, fullgraph=True, mode=mode, dynamic=False)
    for _ in range(4):
        layer.zero_grad()
        x, y = rows(200, grad=True), rows(200, grad=True)
        torch.compiler.cudagraph_mark_step_begin()
        found, want = compiled(x), reference(layer, y)
        close(found, want)
        found.sum().backward()
        grads = torch.autograd.grad(want.sum(), (y, layer.weight))
        close(x.grad, grads[0])
        torch.testing.assert_close(layer.weight.grad, grads[1], rtol=5e-2, atol=2.0)


@inductor
def test_an_operator_that_writes_is_compiled() -> None:
    torch._dynamo.reset()
    inplace = torch.compile(lambda a, c: (add(a * 2, c), c * 2)[1], fullgraph=True)
    a, c = data(256), torch.ones(256, device="cuda")
    close(inplace(a, c), (a * 2 + 1) * 2)
    close(c, a * 2 + 1)


@inductor
def test_sizes_are_symbolic() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(lambda x: scale(x, 2.0) + 1, fullgraph=True, dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for count in (3, 50, 90):
            close(compiled(data(count, 4)), data(count, 4) * 2 + 1)


@inductor
def test_exported_and_compiled_ahead_of_time(tmp_path: Path) -> None:
    layer = Layer()
    count = torch.export.Dim("count", min=2, max=4096)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's compiler about itself
        program = torch.export.export(layer, (rows(64),), dynamic_shapes=({0: count},))
        close(program.module()(rows(300)), reference(layer, rows(300)))
        package = torch._inductor.aoti_compile_and_package(
            program,
            package_path=str(tmp_path / "layer.pt2"),
            inductor_configs={  # nothing runs on the CPU, and no header is used twice
                "cpp.vec_isa_ok": False,
                "aot_inductor.compile_wrapper_opt_level": "O0",
                "aot_inductor.precompile_headers": False,
                "cpp_cache_precompile_headers": False,
            },
        )
        run = torch._inductor.aoti_load_package(package)
        close(run(rows(77)), reference(layer, rows(77)))


def test_batches_and_functional_derivatives() -> None:
    x = data(3, 5, 4)
    close(torch.vmap(lambda x: scale(x, 2.0))(x), x * 2)
    close(torch.func.grad(lambda x: scale(x, 3.0).sum())(x[0]), torch.full_like(x[0], 3))
    close(torch.func.vjp(lambda x: scale(x, 3.0), x[0])[1](x[1])[0], x[1] * 3)


def test_autocast() -> None:
    with torch.autocast("cuda", torch.bfloat16):
        found = gemm(data(64, 256), data(256, 256))
    assert found.dtype == torch.bfloat16
    close(found, data(64, 256).bfloat16() @ data(256, 256).bfloat16())


@pytest.mark.parametrize("call", ["kernel", "operator"])
def test_a_graph_replays_on_new_values(call: str) -> None:
    """Tensor maps are parameters of the recorded launches."""
    run = gemm_kernel if call == "kernel" else gemm
    x, w = rows(130), rows(256)
    run(x, w)  # torch asks for a call before the capture of its operators
    gc.collect()  # what other tests left: freeing it during the capture would end the capture
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = run(run(x, w), w)
    for scale in (1, -0.5):
        x.copy_(rows(130) * scale)
        graph.replay()
        close(found / 16, (x @ w) @ w / 16)


def test_a_kernel_is_first_called_inside_a_graph() -> None:
    fresh = tilelang.compile(
        add_program, target="cuda", pass_configs={"tl.disable_tma_lower": True}
    )
    a, c = data(256), torch.zeros(256, device="cuda")
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fresh(a, c)
    for count in (1, 2):
        graph.replay()
        close(c, a * count)


def test_calls_wait_for_their_own_stream() -> None:
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    x, ready = data(400, 4), torch.cuda.Event()
    scale_kernel(scale(x, 2.0), 3.0)  # the first calls take time of the host
    torch.cuda.synchronize()
    with torch.cuda.stream(first):
        torch.cuda._sleep(200_000_000)
        y = scale_kernel(scale(x, 2.0), 3.0)
        ready.record()
    with torch.cuda.stream(second):
        early = not ready.query()
        ready.wait()
        found = scale(y, 0.5)
    second.synchronize()
    assert early, "the sleep before the calls on the first stream was over"
    close(found, x * 3)


def test_a_kernel_that_writes_is_seen_by_autograd() -> None:
    w = data(256, grad=True)
    c = torch.ones(256, device="cuda")
    product = (w * c).sum()
    version = c._version
    add_kernel(data(256), c)
    assert c._version > version
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.backward()
