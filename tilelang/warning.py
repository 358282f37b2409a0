"""Warnings that are shown at the line of the program, not at one of this package."""

from __future__ import annotations

import os
import sys
import warnings
from types import FrameType
from typing import Any

from tilelang.errors import TileWarning


def warn_caller(message: str) -> None:
    """Warn at the innermost line that is neither this package's nor the standard library's."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_library(frame):
        frame = frame.f_back
    if frame is None:  # in a thread of a pool
        warnings.warn(message, TileWarning, stacklevel=2)
    else:
        warnings.warn_explicit(message, TileWarning, frame.f_code.co_filename, frame.f_lineno)


def former_name(old: str, new: str) -> Any:
    """The attribute ``new`` under the name that it had before, with a ``DeprecationWarning``."""

    def renamed(self: object) -> Any:
        warnings.warn(f"`{old}` is now `{new}`", DeprecationWarning, stacklevel=2)
        return getattr(self, new)

    return property(renamed, doc=f"Former name of :meth:`{new}`.")


def _is_library(frame: FrameType) -> bool:
    name, file = frame.f_globals.get("__name__") or "", frame.f_code.co_filename
    stdlib = file.startswith(os.path.dirname(os.__file__)) and "site-packages" not in file
    return name.partition(".")[0] == "tilelang" or stdlib or file.startswith("<frozen")
