"""The vocabulary of tile programs, by the path that programs for NVIDIA GPUs import."""

from __future__ import annotations

from typing import Any

from tilelang import language


def __getattr__(name: str) -> Any:
    return getattr(language, name)
