"""NVRTC as a runtime of kernels, under an import path that programs use."""

from __future__ import annotations

from typing import Any

from tilelang.absent import absent_names
from tilelang.compat.adapter.cuda import TLNVRTCSourceWrapper
from tilelang.errors import CompileError

__all__ = ["TLNVRTCSourceWrapper", "check_nvrtc_available"]


_absent = absent_names("tilelang.jit.adapter.nvrtc")


def __getattr__(name: str) -> Any:
    """``is_nvrtc_available``, found out when it is asked for."""
    if name == "is_nvrtc_available":
        from tilelang.cuda.nvrtc import find_nvrtc

        return find_nvrtc() is not None
    return _absent(name)


def check_nvrtc_available() -> None:
    """Do nothing where NVRTC is found.

    Raises:
        CompileError: it is not.
    """
    from tilelang.cuda.nvrtc import find_nvrtc

    if find_nvrtc() is None:
        raise CompileError(
            "there is no NVRTC on this machine",
            expected="libnvrtc of the CUDA toolkit or of a wheel",
            hint="pip install nvidia-cuda-nvrtc cuda-bindings",
        )
