"""How much the package says."""

from __future__ import annotations

from tilelang.env import set_log_level

__all__ = ["set_log_level"]
