"""Every example runs, checks itself and prints one line, as C and in the interpreter."""

from __future__ import annotations

import pytest
from example_modules import NAMES as FOUND, load

NAMES = (
    "conv2d_im2col", "cumsum", "dequant_gemm", "elementwise_add", "flash_attention",
    "gemm_fp8_scaled", "grouped_gemm", "grouped_reduce_dynamic", "layernorm", "peers",
    "quickstart", "rmsnorm", "softmax", "topk", "w4a16",
)  # fmt: skip


def test_every_example_is_tested() -> None:
    assert set(FOUND) == set(NAMES)


@pytest.mark.parametrize("backend", ["c", "interpret"])
@pytest.mark.parametrize("name", NAMES)
def test_the_example_runs(name: str, backend: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(name).main(backend)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith(f"{name}: ")
