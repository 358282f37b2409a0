"""Import paths that programs use; the definitions are in `tilelang.jit`."""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.compat.engine import lower
from tilelang.compat.engine.callback import register_cuda_postproc, register_cuda_postproc_callback
from tilelang.jit.calls import KernelParam
from tilelang.jit.compile import CompiledArtifact

__all__ = [
    "CompiledArtifact", "KernelParam", "lower", "register_cuda_postproc",
    "register_cuda_postproc_callback",
]  # fmt: skip

__getattr__ = absent_names("tilelang.engine")
