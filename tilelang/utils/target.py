"""``determine_target`` under its usual import path."""

from __future__ import annotations

from typing import Any

from tilelang.target import parse_target

__all__ = ["determine_target"]


def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """The target that ``target`` names: its text, or the object with ``return_object``."""
    found = parse_target(target)
    return found if return_object else str(found)
