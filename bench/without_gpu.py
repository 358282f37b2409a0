"""Make torch's ``cuda`` device mean the CPU, for programs that name it on a machine without one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

PROPERTIES = SimpleNamespace(
    multi_processor_count=132, name="none", major=9, minor=0, L2_cache_size=50 << 20,
    total_memory=80 << 30, shared_memory_per_block_optin=232448, warp_size=32,
)  # fmt: skip


class _Event:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def record(self, *_: object) -> None:
        """Nothing is timed."""

    wait = synchronize = record

    def elapsed_time(self, _: object) -> float:
        return 1.0


def _on_host(value: Any) -> Any:
    if isinstance(value, str) and value.split(":")[0] == "cuda":
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value


class _OnHost(TorchFunctionMode):
    def __torch_function__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = {name: _on_host(value) for name, value in (kwargs or {}).items()}
        if func is torch.Tensor.cuda:
            return args[0]
        return func(*map(_on_host, args), **named)


def install() -> None:
    """Make them mean the CPU, for the rest of this process."""
    _OnHost().__enter__()
    cuda: Any = torch.cuda
    cuda.is_available = lambda: True
    cuda.current_device = lambda: 0
    cuda.device_count = lambda: 1
    cuda.get_device_capability = lambda *_: (9, 0)
    cuda.get_device_name = lambda *_: "none"
    cuda.get_device_properties = lambda *_: PROPERTIES
    cuda.Event = _Event
    for name in (
        "synchronize", "empty_cache", "manual_seed", "manual_seed_all", "set_device", "init",
        "reset_peak_memory_stats",
    ):  # fmt: skip
        setattr(cuda, name, lambda *_, **__: None)
    torch.nn.Module.cuda = lambda self, *_: self  # type: ignore[method-assign,assignment]
