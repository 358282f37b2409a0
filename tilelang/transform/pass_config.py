"""``PassConfigKey`` under an import path that programs use."""

from __future__ import annotations

from tilelang.options import PassConfigKey

__all__ = ["PassConfigKey"]
