"""Import paths that programs use; the definitions are in `tilelang.jit`."""

from __future__ import annotations

from tilelang.engine import lower
from tilelang.engine.callback import register_cuda_postproc, register_cuda_postproc_callback
from tilelang.engine.param import CompiledArtifact, KernelParam

__all__ = [
    "CompiledArtifact",
    "KernelParam",
    "lower",
    "register_cuda_postproc",
    "register_cuda_postproc_callback",
]
