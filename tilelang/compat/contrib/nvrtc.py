"""CUDA source to PTX or machine code by NVRTC, under an import path that programs use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.compat.contrib import nvcc

__all__ = ["compile_cuda"]


def compile_cuda(
    code: str, target_format: str = "ptx", arch: Any = None,
    options: str | Sequence[str] | None = None, verbose: bool = False,
) -> bytes:  # fmt: skip
    """:func:`tilelang.contrib.nvcc.compile_cuda` with NVRTC, whatever else there is."""
    return nvcc.compile_cuda(code, target_format, arch, options, verbose=verbose, tool="nvrtc")
