"""The cache of compiled kernels, as programs control it."""

from __future__ import annotations

from tilelang.runtime.cache import clear_cache

__all__ = ["clear_cache"]
