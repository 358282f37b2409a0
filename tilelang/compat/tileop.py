"""Import path of tile operations; the policy of ``T.gemm`` is what programs import."""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.layout.policy import GemmWarpPolicy

__all__ = ["GemmWarpPolicy"]

__getattr__ = absent_names("tilelang.tileop")
