"""The log level of the package."""

from __future__ import annotations

from tilelang.env import set_log_level

__all__ = ["set_log_level"]
