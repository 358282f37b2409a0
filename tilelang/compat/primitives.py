"""Old import path of tile operations."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.primitives")
