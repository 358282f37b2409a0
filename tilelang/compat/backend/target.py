"""Targets under an import path that programs use."""

from __future__ import annotations

from tilelang.target import Target
from tilelang.utils.target import determine_target

__all__ = ["Target", "auto_detect_target", "determine_target"]


def auto_detect_target() -> Target:
    """The target that ``"auto"`` means on this machine."""
    target: Target = determine_target("auto", return_object=True)
    return target
