"""Today's path of ``tilelang.language.v2.builder``."""

from __future__ import annotations

from typing import Any

from tilelang.language.v2 import builder as _home

__all__ = _home.__all__


def __getattr__(name: str) -> Any:
    return getattr(_home, name)
