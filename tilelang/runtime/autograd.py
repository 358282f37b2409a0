"""Autograd and torch.compile: rules for kernels that are called directly on tensors.

* No gradient flows through such a call. The first call on a tensor that requires one warns. A check
  of every argument of every call would cost as much as the launch. So calls number 1, 2, 4, 8, ...
  of a kernel are checked, and all calls if the variable makes it an error.
* A kernel gives each tensor that it writes a new version. If autograd has saved the tensor,
  backward then raises an error instead of computing a wrong gradient. This is done for every call.
* torch.compile does not trace kernels: :func:`not_traced` marks them, with a message that says what
  to do.
* Fake tensors, with which PyTorch traces a program, are refused: they have no values.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tilelang.env import env
from tilelang.errors import ArgumentTypeError, KernelArgumentError, TileWarning

_PACKAGE = os.path.dirname(os.path.dirname(__file__))
_OPERATOR = "tilelang.torch.custom_op(name, kernel)"
# Kinds of tensor classes for the C launcher.
FOREIGN, PLAIN, TRACED = range(3)
# Next check: at the next power of two, at every call, or never.
AGAIN, ALWAYS, NEVER = range(3)
_ADVICE = f"{_OPERATOR[:-1]}, backward=...) gives it a derivative"


def not_traced(call: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a function for torch.compile, which reads two attributes, without an import of torch."""
    call._torchdynamo_disable = True  # type: ignore[attr-defined]  # read by torch
    call._torchdynamo_disable_msg = (  # type: ignore[attr-defined]  # read by torch
        f"it runs a tilelang kernel; {_OPERATOR} makes an operator, which is traced"
    )
    return call


def kind_of(cls: type) -> int:
    """Whether tensors of ``cls`` are plain ones of torch, or of a class with
    ``__torch_dispatch__``."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not issubclass(cls, torch.Tensor):
        return FOREIGN
    dispatch = getattr(cls, "__torch_dispatch__", None)
    return PLAIN if dispatch is torch.Tensor.__torch_dispatch__ else TRACED


def has_tangent(tensor: Any) -> bool:
    """Whether PyTorch computes a derivative of a tensor in forward mode."""
    torch: Any = sys.modules["torch"]
    return torch.autograd.forward_ad.unpack_dual(tensor).tangent is not None


def look(kernel: str, names: Sequence[str], args: Sequence[Any], advice: str = _ADVICE) -> int:
    """Warn if a tensor among the arguments requires a gradient.

    Args:
        kernel: its name.
        names: of the arguments.
        way: how to get a derivative, for the message.

    Returns:
        The next check: ``AGAIN``, ``ALWAYS`` or ``NEVER``.

    Raises:
        KernelArgumentError: one does, and ``TILELANG_REQUIRES_GRAD`` is "raise".
    """
    hide_from_compilers()
    torch: Any = sys.modules.get("torch")
    mode = env.TILELANG_REQUIRES_GRAD
    if mode == "quiet":
        return NEVER
    mode_after = ALWAYS if mode == "raise" else AGAIN
    if torch is None or not torch.is_grad_enabled():
        return mode_after
    tensors = [(n, x) for n, x in zip(names, args) if isinstance(x, torch.Tensor)]
    name = next((n for n, x in tensors if x.requires_grad or has_tangent(x)), None)
    if name is None:
        return mode_after
    property_, hint = "has a tangent", "kernels have no derivative in forward mode; pass A.detach()"
    if dict(tensors)[name].requires_grad:
        property_ = "requires a gradient"
        hint = f"{advice}; without one call it under torch.no_grad(), or with A.detach()"
    text = f"kernel {kernel} input {name} {property_}, which does not flow through the call"
    if mode == "raise":
        raise KernelArgumentError(text, hint=hint)
    message = (
        f"{text}; {hint} (TILELANG_REQUIRES_GRAD=quiet says nothing, =raise makes it an error)"
    )
    frame = sys._getframe(1)
    inside = ("tilelang.", "torch.")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(inside):
        frame = frame.f_back
    warnings.warn_explicit(message, TileWarning, frame.f_code.co_filename, frame.f_lineno)
    return NEVER


@lru_cache(maxsize=1)
def version_counter() -> Callable[[list[Any]], object]:
    """The cheapest function that increments the versions of tensors."""
    torch: Any = sys.modules["torch"]
    direct: Callable[[list[Any]], object] | None = getattr(torch._C, "_increment_version", None)
    if direct is not None:
        try:
            with torch.inference_mode(mode=False):
                direct([torch.empty(0)])
        except (TypeError, RuntimeError):  # of another version of torch
            return increment
        return direct
    return increment


def increment(tensors: list[Any]) -> None:
    """Increment the versions of tensors; inference tensors have none."""
    torch: Any = sys.modules["torch"]
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and not tensor.is_inference():
            torch.autograd.graph.increment_version(tensor)


def hide_from_compilers() -> None:
    """Ask torch.compile, where it is in use, to leave the code of this package alone.

    It breaks the graph at a kernel, and would then trace the functions of the launch, with warnings
    about their caches. Called when kernels are created and checked: it costs too much for every
    launch.
    """
    rules: Any = sys.modules.get("torch._dynamo.trace_rules")
    # torch itself adds one folder of this package: it looks for TVM and finds `tvmalias`.
    if rules is not None and not any(path.rstrip("/") == _PACKAGE for path in rules.SKIP_DIRS):
        rules.add("tilelang")


def refuse_traced(tensor: Any) -> None:
    """Refuse a torch tensor without values.

    Raises:
        ArgumentTypeError: it has no values; the message says what to do.
    """
    torch: Any = sys.modules["torch"]
    shape = f"of shape {tuple(tensor.shape)}"
    if kind_of(type(tensor)) == TRACED:
        local = hasattr(tensor, "to_local")
        problem = "is spread over devices" if local else "has no values"
        raise ArgumentTypeError(
            f"this {type(tensor).__name__} {problem}",
            expected="a tensor with memory of its own",
            got=f"a {type(tensor).__name__} {shape}",
            hint="pass A.to_local()"
            if local
            else f"{_OPERATOR} makes an operator, which PyTorch traces without running the kernel",
        )
    if tensor.device.type == "meta":
        raise ArgumentTypeError(
            "this tensor is on the device meta and has no values",
            expected="a tensor with memory",
            got=f"a meta tensor {shape}",
            hint=f"{_OPERATOR} makes an operator, which has results on meta",
        )
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        raise ArgumentTypeError(
            "this tensor is a wrapper inside torch.func (vmap, grad, ...)",
            expected="a tensor with memory of its own",
            got=f"a wrapped tensor {shape}",
            hint=f"{_OPERATOR} makes an operator, which has a rule for vmap",
        )
