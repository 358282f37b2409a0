"""``KernelParam`` under its usual import path."""

from __future__ import annotations

from tilelang.jit.kernel import KernelParam

__all__ = ["KernelParam"]
