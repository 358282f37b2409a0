"""Every example, unchanged, as CUDA: its own comparison with numpy decides."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_modules import NAMES as EXAMPLES, load
from gpus import Gpu

from tilelang.jit import execution, kernel as jit_kernel
from tilelang.target import parse_target

torch = pytest.importorskip("torch", reason="the tensors of these programs are torch's")

# Tables of `peers` hold addresses of arrays in host memory; with torchrun it has its own for GPUs.
NAMES = sorted({*EXAMPLES} - {"peers"})


def back(result: Any) -> Any:
    """A result as numpy arrays."""
    if isinstance(result, (list, tuple)):
        return type(result)(map(back, result))
    return result.cpu().numpy() if isinstance(result, torch.Tensor) else result


def typed(value: Any, param: Any) -> Any:
    """A tensor whose bytes are float8, which numpy has not, as one of that dtype."""
    name = str(param.dtype)
    bytes_ = isinstance(value, torch.Tensor) and value.dtype == torch.uint8
    return value.view(getattr(torch, name)) if bytes_ and name.startswith("float8") else value


@pytest.fixture
def on_gpu(gpu: Gpu, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Kernels are compiled for the GPU; their calls take and give numpy arrays all the same."""
    ran: list[str] = []
    build = execution.build

    def built(func, out_idx, target, options, backend):  # type: ignore[no-untyped-def]  # as build
        made = build(func, out_idx, parse_target(gpu.target()), options, "auto")

        def call(*args: Any) -> Any:
            held = [gpu.place(value) for value in args]
            result = made.call(*map(typed, held, func.params))
            for value, tensor in zip(args, held):
                if isinstance(value, np.ndarray) and value.flags.writeable:
                    value[...] = tensor.cpu().numpy()
            ran.append(func.name)
            return back(result)

        return replace(made, call=call)

    monkeypatch.setattr(jit_kernel, "build", built)
    return ran


@pytest.mark.parametrize("name", NAMES)
def test_the_example_agrees_with_numpy(
    name: str, on_gpu: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    load(name).main()
    assert on_gpu and name in capsys.readouterr().out
