"""The error that every failure of compiling or running is an instance of, by TVM's names."""

from __future__ import annotations

from tilelang.errors import TileError as InternalError, TileError as TVMError

__all__ = ["InternalError", "TVMError"]
