"""Calls on torch tensors that require a gradient, versions of written tensors, traced tensors."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.env import env
from tilelang.errors import ArgumentTypeError, KernelArgumentError, TileValueError, TileWarning
from tilelang.runtime import autograd

torch = pytest.importorskip("torch", reason="tensors with gradients")
HINT = (
    "tilelang.torch.custom_op(name, kernel, backward=...) gives it a derivative; without one call "
    "it under torch.no_grad(), or with A.detach()"
)


@T.prim_func
def move(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(8):
            B[i] = A[i] * 2.0


@pytest.fixture(params=["auto", "python", "interpret"])
def kernel(request: pytest.FixtureRequest) -> Any:
    return tilelang.compile(move, target="cpu", execution_backend=request.param)


def ones(grad: bool = False) -> Any:
    return torch.ones(8, requires_grad=grad)


def test_a_missing_gradient_warns_once(kernel: Any) -> None:
    with pytest.warns(TileWarning) as said:
        kernel(ones(grad=True), ones())
    assert [str(item.message) for item in said] == [
        "kernel move input A requires a gradient, which does not flow through the call; "
        f"{HINT} (TILELANG_REQUIRES_GRAD=quiet says nothing, =raise makes it an error)"
    ]
    assert said[0].filename == __file__
    for _ in range(9):
        kernel(ones(grad=True), ones())  # a warning would be an error


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own
def test_a_missing_tangent_warns(kernel: Any) -> None:
    from torch.autograd import forward_ad

    with forward_ad.dual_level(), pytest.warns(TileWarning) as said:
        kernel(forward_ad.make_dual(ones(), ones()), ones())
    assert [str(item.message) for item in said if item.category is TileWarning] == [
        "kernel move input A has a tangent, which does not flow through the call; kernels have no "
        "derivative in forward mode; pass A.detach() (TILELANG_REQUIRES_GRAD=quiet says nothing, "
        "=raise makes it an error)"
    ]


def test_it_can_be_an_error(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILELANG_REQUIRES_GRAD", "raise")
    for _ in range(3):
        b = ones()
        kernel(ones(), b)
        assert refusal(KernelArgumentError, kernel, ones(grad=True), b.zero_()) == (
            "kernel move input A requires a gradient, which does not flow through the call\n"
            f"  hint: {HINT}"
        )
        assert not b.any()  # nothing ran


def test_it_can_be_silent(kernel: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.no_grad():
        kernel(ones(grad=True), ones())
    monkeypatch.setenv("TILELANG_REQUIRES_GRAD", "quiet")
    kernel(ones(grad=True), ones())
    monkeypatch.setenv("TILELANG_REQUIRES_GRAD", "perhaps")
    with pytest.raises(TileValueError) as caught:
        _ = env.TILELANG_REQUIRES_GRAD
    assert str(caught.value) == (
        "the environment variable TILELANG_REQUIRES_GRAD is not understood\n"
        "  expected: warn, raise or quiet\n  got: 'perhaps'"
    )


def test_written_tensors_have_another_version(kernel: Any) -> None:
    a, b = ones(), ones()
    for _ in range(5):
        versions = a._version, b._version
        kernel(a, b)
        assert a._version == versions[0] and b._version > versions[1]


def test_a_kept_tensor_that_a_kernel_overwrites_is_an_error(kernel: Any) -> None:
    w, x = ones(grad=True), ones()
    loss = (w * x).sum()  # keeps x
    kernel(ones(), x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_tensors_for_inference_have_no_version(kernel: Any) -> None:
    with torch.inference_mode():
        a, b = ones(), ones()
        for _ in range(3):
            kernel(a, b)
        assert (b == 2).all()
    b = ones()
    version = b._version
    kernel(ones(), b)
    assert b._version > version


def test_a_torch_without_the_cheapest_function(monkeypatch: pytest.MonkeyPatch) -> None:
    autograd.version_counter.cache_clear()
    monkeypatch.delattr(torch._C, "_increment_version")
    assert autograd.version_counter() is autograd.increment
    autograd.version_counter.cache_clear()


def message(kernel: Any, *args: Any) -> str:
    with warnings.catch_warnings(), pytest.raises(ArgumentTypeError) as caught:
        warnings.simplefilter("ignore")
        kernel(*args)
    return str(caught.value)


OP = "  hint: tilelang.torch.custom_op(name, kernel) makes an operator, "


def test_tensors_without_values_name_the_way(kernel: Any) -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    meta = torch.empty(8, device="meta")
    assert message(kernel, meta, meta) == (
        "kernel move input A: this tensor is on the device meta and has no values\n"
        "  expected: a tensor with memory\n  got: a meta tensor of shape (8,)\n"
        f"{OP}which has results on meta"
    )
    with FakeTensorMode():
        fake = torch.empty(8)
    assert message(kernel, fake, fake) == (
        "kernel move input A: this FakeTensor has no values\n"
        "  expected: a tensor with memory of its own\n  got: a FakeTensor of shape (8,)\n"
        f"{OP}which PyTorch traces without running the kernel"
    )
    found: list[str] = []
    torch.vmap(lambda a: (found.append(message(kernel, a, ones())), a)[1])(torch.ones(3, 8))
    assert found == [
        "kernel move input A: this tensor is a wrapper inside torch.func (vmap, grad, ...)\n"
        "  expected: a tensor with memory of its own\n  got: a wrapped tensor of shape (8,)\n"
        f"{OP}which has a rule for vmap"
    ]


class Wrapped(torch.Tensor):
    """As DTensor: its parts are elsewhere."""

    @staticmethod
    def __new__(cls) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, (8,))

    @classmethod
    def __torch_dispatch__(cls, *_: object) -> Any:
        raise NotImplementedError

    def to_local(self) -> Any:
        return ones()


def test_a_distributed_tensor_names_its_local_part(kernel: Any) -> None:
    assert message(kernel, Wrapped(), ones()) == (
        "kernel move input A: this Wrapped is spread over devices\n"
        "  expected: a tensor with memory of its own\n  got: a Wrapped of shape (8,)\n"
        "  hint: pass A.to_local()"
    )


def test_parameters_are_plain_tensors(kernel: Any) -> None:
    b = torch.nn.Parameter(torch.zeros(8), requires_grad=False)
    kernel(ones(), b)
    assert (b == 2).all() and b._version > 0
