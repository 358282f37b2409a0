"""Kernels as operators of PyTorch, on the CPU."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from refusals import refusal
from scale_program import scale_program

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import (
    KernelArgumentError,
    TileTypeError,
    TileUnsupportedError,
    TileValueError,
    TileWarning,
)

torch = pytest.importorskip("torch", reason="operators of torch")
custom_op = tilelang.torch.custom_op


@T.prim_func
def add_program(A: T.Tensor((8,), "float32"), C: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            C[i] = C[i] + A[i]


@tilelang.jit(target="cpu")
def product(X, Y, times: int = 1):
    m, n = T.const("m, n")
    X: T.Tensor[[m, n], T.float32]
    Y: T.Tensor[[m, n], T.float32]
    P = T.empty((m, n), "float32")
    S = T.empty((m,), "float32")
    with T.Kernel(m, threads=32) as bx:
        total = T.alloc_fragment((1,), "float32")
        line = T.alloc_fragment((1, n), "float32")
        for j in T.Parallel(n):
            line[0, j] = X[bx, j] * Y[bx, j] * times
        T.reduce_sum(line, total, dim=1)
        T.copy(line, P[bx, 0])
        S[bx] = total[0]
    return P, S


@tilelang.jit(target="cpu")
def product_backward(X, Y, times, dP, dS):
    m, n = T.const("m, n")
    X: T.Tensor[[m, n], T.float32]
    Y: T.Tensor[[m, n], T.float32]
    dP: T.Tensor[[m, n], T.float32]
    dS: T.Tensor[[m], T.float32]
    dX = T.empty((m, n), "float32")
    dY = T.empty((m, n), "float32")
    with T.Kernel(m, threads=32) as bx:
        for j in T.Parallel(n):
            dX[bx, j] = (dP[bx, j] + dS[bx]) * Y[bx, j] * times
            dY[bx, j] = (dP[bx, j] + dS[bx]) * X[bx, j] * times
    return dX, dY


@tilelang.jit(target="cpu")
def shifted(A):
    m, n = T.const("m, n")
    A: T.Tensor[[m, n], T.float32]
    B = T.empty((m, n), "float32")
    with T.Kernel(m, threads=32) as bx:
        for j in T.Parallel(n):
            B[bx, j] = A[bx, j] + 1.0
    return B


@tilelang.jit(target="cpu")
def squared(X):  # type: ignore[no-untyped-def]  # annotations are inside
    m, n = T.dynamic("m"), T.const("n")
    X: T.Tensor[[m, n], T.float32]
    Y = T.empty((m, n), "float32")
    with T.Kernel(m, threads=32) as bx:
        for j in T.Parallel(n):
            Y[bx, j] = X[bx, j] * X[bx, j]
    return Y


@tilelang.jit(target="cpu")
def squared_backward(X, dY):  # type: ignore[no-untyped-def]  # inside
    m, n = T.dynamic("m"), T.const("n")
    X: T.Tensor[[m, n], T.float32]
    dY: T.Tensor[[m, n], T.float32]
    dX = T.empty((m, n), "float32")
    with T.Kernel(m, threads=32) as bx:
        for j in T.Parallel(n):
            dX[bx, j] = 2 * X[bx, j] * dY[bx, j]
    return dX


kernel = tilelang.compile(scale_program, target="cpu")
scale = custom_op(
    "tilelang_test::scale", kernel, backward=lambda s, grad: torch.ops.tilelang_test.scale(grad, s)
)
add = custom_op("tilelang_test::add", tilelang.compile(add_program, target="cpu"))
LIKE = (T.Tensor((4, 8), "float32"), T.Tensor((4, 8), "float32"))
multiply = custom_op("tilelang_test::multiply", product, like=LIKE, backward=product_backward)


def data(*shape: int, grad: bool = False) -> Any:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.rand(shape, generator=generator).requires_grad_(grad)


def test_the_schema_says_what_is_written() -> None:
    def schema(op: Any) -> str:
        return str(op._opoverload._schema)

    assert schema(scale) == "tilelang_test::scale(Tensor A, float s) -> Tensor"
    assert schema(add) == "tilelang_test::add(Tensor A, Tensor(a1!) C) -> ()"
    assert schema(multiply) == (
        "tilelang_test::multiply(Tensor X, Tensor Y, int times=1) -> (Tensor, Tensor)"
    )


def test_opcheck() -> None:
    torch.library.opcheck(scale, (data(3, 4), 2.0))
    torch.library.opcheck(scale, (data(3, 4, grad=True), 2.0))
    torch.library.opcheck(add, (data(8), data(8)))
    torch.library.opcheck(multiply, (data(4, 8, grad=True), data(4, 8, grad=True), 2))


def test_an_operator_runs_the_kernel() -> None:
    x, y = data(5, 4), data(8)
    torch.testing.assert_close(scale(x, 3.0), x * 3)
    torch.testing.assert_close(torch.ops.tilelang_test.scale(x, 3.0), x * 3)
    before, version = y.clone(), y._version
    assert add(data(8), y) is None
    torch.testing.assert_close(y, before + data(8))
    assert y._version > version


def test_compiled_without_a_break() -> None:
    def layer(x: Any, y: Any) -> Any:
        p, s = multiply(scale(x, 2.0) + 1, y, times=3)
        return torch.relu(p) + s[:, None]

    x, y = data(4, 4), data(4, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x, y), layer(x, y))
    inplace = torch.compile(lambda a, c: (add(a, c), c * 2)[1], fullgraph=True, backend="aot_eager")
    a, c = data(8), data(8)
    torch.testing.assert_close(inplace(a, c.clone()), (a + c) * 2)


def test_a_kernel_itself_breaks_the_graph_without_a_warning() -> None:
    code = """
        import warnings, torch, tilelang
        from tests.test_torch import kernel, factory, shifted
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        for call in (lambda x: kernel(x, 2.0), shifted, lambda x: factory(16)(x.view(-1))):
            for _ in range(2):
                torch._dynamo.reset()
                compiled = torch.compile(lambda x: call(x * 2) + 1, backend="eager")
                assert compiled(torch.ones(4, 4)).numel() == 16
    """
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True,
        timeout=300, check=False, env={**os.environ, "PYTHONPATH": f"{root}:{root}/tests"},
    )  # fmt: skip
    assert not done.returncode, done.stderr


def test_a_kernel_in_a_whole_graph_names_the_operator() -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(lambda x: kernel(x, 2.0), fullgraph=True, backend="eager")(data(3, 4))
    assert (
        "it runs a tilelang kernel; tilelang.torch.custom_op(name, kernel) makes an operator, "
        "which is traced" in str(caught.value)
    )


def test_open_sizes_of_a_function_stay_symbolic() -> None:
    like = (T.Tensor((4, 8), "float32"),)
    square = custom_op("tilelang_test::squared_open", squared, like=like, backward=squared_backward)
    run = torch.compile(
        lambda x: square(x).sum(), fullgraph=True, dynamic=True, backend="aot_eager"
    )
    with torch._dynamo.config.patch(error_on_recompile=True):
        for rows in (3, 5, 9):
            x = data(rows, 8, grad=True)
            run(x).backward()
            torch.testing.assert_close(x.grad, 2 * x.detach())

    class Layer(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return square(x) + 1

    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(Layer(), (data(4, 6),), dynamic_shapes=({0: rows},))
    assert "torch.ops.tilelang_test.squared_open.default" in str(program.graph_module.code)
    torch.testing.assert_close(program.module()(data(7, 6)), data(7, 6) ** 2 + 1)


@pytest.mark.skipif(find_compiler() is None, reason="needs a C++ compiler")
def test_a_package_made_ahead_of_time_calls_the_operator(tmp_path: Path) -> None:
    class Layer(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.relu(scale(x, -2.0))

    rows = torch.export.Dim("rows", min=2, max=64)
    program = torch.export.export(Layer(), (data(4, 4),), dynamic_shapes=({0: rows},))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's compiler about itself
        package = torch._inductor.aoti_compile_and_package(
            program, package_path=str(tmp_path / "layer.pt2")
        )
        run = torch._inductor.aoti_load_package(package)
    torch.testing.assert_close(run(data(7, 4)), torch.relu(data(7, 4) * -2))


def test_gradients() -> None:
    x, y = data(4, 8, grad=True), data(4, 8, grad=True)
    p, s = multiply(x, y, 2)
    (p.sum() + (s * s).sum()).backward()
    x2, y2 = data(4, 8, grad=True), data(4, 8, grad=True)
    p2 = x2 * y2 * 2
    (p2.sum() + (p2.sum(1) ** 2).sum()).backward()
    torch.testing.assert_close(x.grad, x2.grad)
    torch.testing.assert_close(y.grad, y2.grad)
    z = data(3, 4, grad=True)
    torch.compile(lambda z: scale(z, 3.0).sum(), fullgraph=True, backend="aot_eager")(z).backward()
    torch.testing.assert_close(z.grad, torch.full((3, 4), 3.0))


def test_autograd_saves_what_the_derivative_takes_and_none_is_no_gradient() -> None:
    @T.prim_func
    def product(A: T.Tensor((4,), "float32"), B: T.Tensor((4,), "float32")):
        C = T.empty((4,), "float32")
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = A[i] * B[i]
        return C

    kernel = tilelang.compile(product, target="cpu")
    op = tilelang.torch.custom_op(
        "tests::product", kernel, backward=lambda B, grad_C: (grad_C * B, None)
    )
    a, b = (torch.full((4,), x, requires_grad=True) for x in (1.0, 3.0))
    saved: list[Any] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x) or x, lambda x: x):
        op(a, b).sum().backward()
    assert [x.tolist() for x in saved] == [[3.0] * 4] and a.grad.tolist() == [3.0] * 4
    assert b.grad is None


def test_functional_derivatives() -> None:
    def cubes(x: Any) -> Any:
        return (scale(x, 3.0) ** 3).sum()

    x = data(3, 4)
    torch.testing.assert_close(torch.func.grad(cubes)(x), 81 * x**2)
    second = torch.func.grad(lambda x: torch.func.grad(cubes)(x).sum())
    torch.testing.assert_close(second(x), 162 * x)
    torch.testing.assert_close(torch.func.jacrev(cubes)(x), 81 * x**2)
    rows = torch.vmap(torch.func.grad(cubes))(data(2, 3, 4))
    torch.testing.assert_close(rows, 81 * data(2, 3, 4) ** 2)
    pair = torch.func.grad(lambda x, y: sum(part.sum() for part in multiply(x, y)), argnums=(0, 1))
    y = data(4, 8)
    torch.testing.assert_close(pair(y, y + 1)[0], 2 * (y + 1))
    z = data(3, 4, grad=True)
    (first,) = torch.autograd.grad(cubes(z), z, create_graph=True)
    torch.testing.assert_close(torch.autograd.grad(first.sum(), z)[0], 162 * x)
    traced = torch.compile(torch.func.grad(cubes), fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(traced(x), 81 * x**2)


def test_an_operator_without_a_derivative_says_so() -> None:
    bare = custom_op("tilelang_test::bare", kernel)
    found = bare(data(3, 4, grad=True), 2.0)
    assert refusal(TileUnsupportedError, found.sum().backward) == (
        "the operator tilelang_test.bare.default has no derivative\n"
        "  hint: tilelang.torch.custom_op(name, kernel, backward=...)"
    )


def square_sum(x: Any) -> Any:
    return (scale(x, 3.0) ** 2).sum()


OF_TORCH = pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
FORWARD: list[Callable[[Any], Any]] = [
    lambda x: torch.func.jvp(lambda x: scale(x, 2.0), (x,), (x,)),
    lambda x: torch.func.jacfwd(square_sum)(x),
    lambda x: torch.func.hessian(square_sum)(x),
    lambda x: torch.func.grad(lambda x: torch.func.jvp(square_sum, (x,), (x,))[1])(x),
    lambda x: torch.func.linearize(square_sum, x),
]


@OF_TORCH
@pytest.mark.parametrize("derivative", FORWARD)
def test_forward_mode_is_refused(derivative: Callable[[Any], Any]) -> None:
    assert refusal(TileUnsupportedError, derivative, data(3, 4)) == (
        "a derivative of the operator tilelang_test.scale.default in forward mode (jvp, jacfwd, "
        "hessian)\n"
        "  expected: reverse mode: backward(), or grad, vjp and jacrev of torch.func\n"
        "  hint: for second derivatives jacrev(jacrev(f))"
    )


@OF_TORCH
def test_forward_mode_of_other_parts_is_left_alone() -> None:
    x = data(3, 4)
    value, tangent = torch.func.jvp(lambda a: scale(x, 2.0) * a, (x,), (x,))
    torch.testing.assert_close((value, tangent), (2 * x * x, 2 * x * x))
    second = torch.func.jacrev(torch.func.jacrev(square_sum))(x)
    torch.testing.assert_close(second.reshape(12, 12), 18 * torch.eye(12))


def test_an_operator_that_writes_says_that_no_gradient_flows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    more = custom_op("tilelang_test::more", tilelang.compile(add_program, target="cpu"))
    x, c = data(8, grad=True), data(8)
    text = (
        "kernel add_program input A requires a gradient, which does not flow through the call"
        "{}a kernel that returns its results may have a backward; without one call it under "
        "torch.no_grad(), or with A.detach()"
    )
    with pytest.warns(TileWarning) as said:
        more(x, c)
    assert [str(item.message) for item in said] == [
        text.format("; ") + " (TILELANG_REQUIRES_GRAD=quiet says nothing, =raise makes it an error)"
    ]
    assert said[0].filename == __file__
    more(x, c)  # it is said once
    torch.testing.assert_close(c, data(8) * 3)
    monkeypatch.setenv("TILELANG_REQUIRES_GRAD", "raise")
    again = custom_op("tilelang_test::more_again", tilelang.compile(add_program, target="cpu"))
    assert refusal(KernelArgumentError, again, x, c) == text.format("\n  hint: ")
    with torch.no_grad():
        again(x, c)


def test_vmap() -> None:
    x = data(3, 5, 4)
    torch.testing.assert_close(torch.vmap(lambda x: scale(x, 2.0))(x), x * 2)
    torch.testing.assert_close(torch.vmap(lambda x: scale(x, 2.0), in_dims=2)(data(5, 4, 3)),
                               data(5, 4, 3).movedim(2, 0) * 2)  # fmt: skip
    y = data(4, 8)
    p, s = torch.vmap(multiply, in_dims=(0, None))(data(3, 4, 8), y)
    torch.testing.assert_close(p, data(3, 4, 8) * y)
    torch.testing.assert_close(s, (data(3, 4, 8) * y).sum(2))
    assert torch.vmap(lambda x: scale(x, 2.0))(torch.empty(0, 5, 4)).shape == (0, 5, 4)
    c = data(8, 3)
    before = c.clone()
    torch.vmap(lambda a, c: (add(a, c), c)[1], in_dims=(None, 1))(data(8), c)
    torch.testing.assert_close(c, before + data(8)[:, None])
    with pytest.raises(TileValueError) as caught:
        torch.vmap(lambda a, c: (add(a, c), c)[1], in_dims=(0, None))(data(3, 8), data(8))
    assert str(caught.value) == (
        "vmap over an operator that writes C, which has no batch dimension\n"
        "  expected: C with a dimension for the batch"
    )


SHARDED = """
import os
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
import tilelang
import tilelang.language as T

@T.prim_func
def weighted(A: T.Tensor((3, 4), "float32"), W: T.Tensor((4,), "float32")):
    B = T.empty((3, 4), "float32")
    with T.Kernel(3, threads=32) as bx:
        for j in T.Parallel(4):
            B[bx, j] = A[bx, j] * W[j]
    return B

op = tilelang.torch.custom_op(
    "sharded::weighted", tilelang.compile(weighted, target="cpu"),
    backward=lambda A, W, grad: (grad * W, (grad * A).sum(0)),
)

class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))

    def forward(self, x):
        return op(x, self.weight)

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
layer = fully_shard(Layer(), mesh=init_device_mesh("cpu", (2,)))
found = layer(torch.full((3, 4), rank + 1.0))
found.sum().backward()
print(found[0].tolist(), layer.weight.grad.to_local().tolist())
# torch's gloo threads may abort while the interpreter ends, in a program without tilelang too.
dist.barrier()
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without processes")
def test_an_operator_runs_in_a_module_that_is_sharded_over_processes(tmp_path: Path) -> None:
    (tmp_path / "sharded.py").write_text(SHARDED)
    root = str(Path(tilelang.__file__).resolve().parents[1])
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "sharded.py", str(rank), str(tmp_path / "store")],
            cwd=tmp_path, env={**os.environ, "PYTHONPATH": root}, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        for rank in range(2)
    ]  # fmt: skip
    said = [rank.communicate(timeout=300) for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said
    # A gradient is the mean of the processes'; each keeps its half.
    assert said[0][0] == "[0.0, 1.0, 2.0, 3.0] [4.5, 4.5]\n"
    assert said[1][0] == "[0.0, 2.0, 4.0, 6.0] [4.5, 4.5]\n"


def test_a_name_without_a_namespace_is_refused() -> None:
    assert refusal(TileValueError, custom_op, "alone", kernel) == (
        "the name of an operator has no namespace\n"
        "  expected: namespace::name, under which torch.ops has it\n"
        "  got: alone\n"
        '  hint: custom_op("mine::alone", ...)'
    )


def test_autocast() -> None:
    op = custom_op("tilelang_test::scale_cast", kernel, autocast=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        assert op(data(3, 4).bfloat16(), 2.0).dtype == torch.float32


def test_a_size_that_does_not_fit_is_said_while_tracing() -> None:
    with pytest.raises(Exception, match="expected extent 4, got 5"):
        torch.compile(lambda x: scale(x, 2.0), fullgraph=True, backend="aot_eager")(data(3, 5))


@tilelang.jit(out_idx=[-1], target="cpu")
def factory(n):
    @T.prim_func
    def inner(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                B[i] = A[i]

    return inner


@T.prim_func
def pointer_program(A: T.ptr, B: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        B[0] = 1.0


def test_what_cannot_be_an_operator() -> None:
    def message(kind: type[Exception], *args: Any, **options: Any) -> str:
        with pytest.raises(kind) as caught:
            custom_op("tilelang_test::never", *args, **options)
        return str(caught.value)

    assert message(TileTypeError, factory).splitlines()[1:] == [
        "  expected: a compiled kernel, or a function decorated with @tilelang.jit that is one",
        "  got: <tilelang function factory>",
        "  hint: call the factory first: custom_op(name, factory(...))",
    ]
    assert message(TileTypeError, product) == (
        "custom_op of the function `product` needs arguments of one call\n"
        "  expected: like=(...), tensors or T.Tensor((m, n), dtype) and values\n"
        "  hint: they determine the results and which tensors are written"
    )
    assert message(TileTypeError, tilelang.compile(pointer_program, target="cpu")) == (
        "the pointer A cannot be an argument of an operator\n"
        "  expected: tensors and numbers\n"
        "  hint: declare it as T.Tensor(shape, dtype)"
    )
    writes = tilelang.compile(add_program, target="cpu")
    assert message(TileUnsupportedError, writes, backward=lambda A, C: (A, C)) == (
        "a backward for the operator tilelang_test::never, which writes into C\n"
        "  expected: a kernel that returns its results\n"
        "  hint: make them with T.empty, or with out_idx"
    )
    assert message(TileTypeError, kernel, backward=lambda x, dB: dB) == (
        "the backward of tilelang_test::never has the parameter x, which is unknown\n"
        "  expected: among A, B, dB, grad, grad_B, s"
    )
