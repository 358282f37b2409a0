"""The newer name of `tilelang.tvm.tir`."""

from __future__ import annotations

from typing import Any

from tilelang.tvm import tir


def __getattr__(name: str) -> Any:
    return getattr(tir, name)
