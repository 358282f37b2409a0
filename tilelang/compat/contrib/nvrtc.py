"""CUDA text to PTX or machine code by NVRTC, under an import path that programs use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.compat.contrib import nvcc
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.errors import CompileError

__all__ = ["compile_cuda", "get_nvrtc_version"]


def get_nvrtc_version() -> tuple[int, int]:
    """Major and minor version of the NVRTC that is found.

    Raises:
        CompileError: there is none.
    """
    nvrtc = find_nvrtc()
    if nvrtc is None:
        raise CompileError(
            "there is no NVRTC on this machine",
            expected="libnvrtc of the CUDA toolkit or of a wheel",
            hint="pip install nvidia-cuda-nvrtc",
        )
    return nvrtc.version


def compile_cuda(
    code: str, target_format: str = "ptx", arch: Any = None,
    options: str | Sequence[str] | None = None, verbose: bool = False,
) -> bytes:  # fmt: skip
    """:func:`tilelang.contrib.nvcc.compile_cuda` with NVRTC, whatever else there is."""
    return nvcc.compile_cuda(code, target_format, arch, options, verbose=verbose, tool="nvrtc")
