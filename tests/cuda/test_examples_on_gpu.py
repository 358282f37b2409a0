"""Every example, unchanged, as CUDA on an NVIDIA GPU: its own comparison with numpy decides."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilelang.jit import execution
from tilelang.jit import kernel as jit_kernel
from tilelang.target import parse_target

torch = pytest.importorskip("torch", reason="the tensors of these programs are torch's")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem != "main")


def there(value: Any) -> Any:
    """An argument, on the GPU if it is an array."""
    return torch.from_numpy(value).cuda() if isinstance(value, np.ndarray) else value


def back(result: Any) -> Any:
    """A result as numpy arrays."""
    if isinstance(result, (list, tuple)):
        return type(result)(map(back, result))
    return result.cpu().numpy() if isinstance(result, torch.Tensor) else result


@pytest.fixture
def on_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Kernels are compiled for the GPU; their calls take and give numpy arrays all the same."""
    ran: list[str] = []
    build = execution.build

    def built(func, out_idx, target, options, backend):  # type: ignore[no-untyped-def]  # as build
        made = build(func, out_idx, parse_target("cuda"), options, "auto")

        def call(*args: Any) -> Any:
            held = [there(value) for value in args]
            result = made.call(*held)
            for value, tensor in zip(args, held):
                if isinstance(value, np.ndarray) and value.flags.writeable:
                    value[...] = tensor.cpu().numpy()
            ran.append(func.name)
            return back(result)

        return replace(made, call=call)

    monkeypatch.setattr(jit_kernel, "build", built)
    yield ran


@pytest.mark.parametrize("name", NAMES)
def test_the_example_agrees_with_numpy(
    name: str, on_gpu: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main()
    assert on_gpu and name in capsys.readouterr().out
