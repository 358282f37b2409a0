"""How much the package says."""

from __future__ import annotations

import logging

__all__ = ["set_log_level"]


def set_log_level(level: int | str) -> None:
    """Set the level of the ``tilelang`` logger: a name such as "INFO", or a number."""
    logging.getLogger("tilelang").setLevel(level.upper() if isinstance(level, str) else level)
