"""Toolchain helpers that programs import by these paths."""

from __future__ import annotations

import importlib
from typing import Any


def __getattr__(name: str) -> Any:
    """The modules, which programs use without importing them."""
    if name in ("cc", "nvcc", "nvrtc"):
        return importlib.import_module(f"tilelang.compat.contrib.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
