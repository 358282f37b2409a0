"""Descriptions of machines: which kind, which architecture, what it can hold."""

from __future__ import annotations

from tilelang.target.limits import Limits
from tilelang.target.parse import Target, parse_target

__all__ = ["Limits", "Target", "parse_target"]
