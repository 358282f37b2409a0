"""``get_current_device`` under its usual import path."""

from __future__ import annotations

from tilelang.target import parse_target

__all__ = ["get_current_device"]


def get_current_device() -> str:
    """The device that ``target="auto"`` runs on, as torch names it: "cuda" or "cpu"."""
    return parse_target("auto").device
