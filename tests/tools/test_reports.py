"""Reports of traced programs, as texts and in notebooks."""

from __future__ import annotations

from typing import Any

from refusals import refusal

import tilelang.language as T
from tilelang.errors import TileUnsupportedError
from tilelang.tools import explain


@T.prim_func
def copied(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=32):
        for i in T.Parallel(64):
            B[i] = A[i]


def test_a_report_is_lines_in_a_notebook() -> None:
    text: Any = explain(copied, "cuda -arch=sm_80")
    assert text.splitlines()[0] == "`copied` for cuda -arch=sm_80"
    assert text._repr_html_().endswith("</pre>")
    assert ">`copied` for cuda -arch=sm_80\n" in text._repr_html_()


def test_a_target_without_threads_is_refused() -> None:
    assert refusal(TileUnsupportedError, explain, copied, "cpu") == (
        "a report needs a GPU with its architecture\n"
        '  expected: target="cuda -arch=sm_80" or another architecture\n'
        "  got: target='cpu'"
    )


def test_a_report_for_metal_needs_no_architecture() -> None:
    assert explain(copied, "metal").splitlines()[0] == "`copied` for metal"
