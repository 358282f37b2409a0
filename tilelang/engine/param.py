"""``KernelParam`` and ``CompiledArtifact`` under their usual import path."""

from __future__ import annotations

from tilelang.jit.compile import CompiledArtifact
from tilelang.jit.kernel import KernelParam

__all__ = ["CompiledArtifact", "KernelParam"]
