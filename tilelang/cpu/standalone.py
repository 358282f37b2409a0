"""C source that a compiler takes without our headers."""

from __future__ import annotations

from tilelang.cpu.module import inline_headers as standalone

__all__ = ["standalone"]
