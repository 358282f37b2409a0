"""``GemmWarpPolicy`` under an import path that programs use."""

from __future__ import annotations

from tilelang.layout.policy import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]
