"""Every example runs, checks itself and prints one line, as C and in the interpreter."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[2] / "examples"
NAMES = (
    "conv2d_im2col", "cumsum", "dequant_gemm", "elementwise_add", "flash_attention",
    "gemm_fp8_scaled", "grouped_gemm", "grouped_reduce_dynamic", "layernorm", "peers",
    "quickstart", "rmsnorm", "softmax", "topk", "w4a16",
)  # fmt: skip


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_example_is_tested() -> None:
    found = {path.stem for path in FOLDER.glob("*.py")} - {"main"}  # main.py times, see bench
    assert found == set(NAMES)


@pytest.mark.parametrize("backend", ["c", "interpret"])
@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name: str, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(name).main(backend)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"{name}: ")
