"""Descriptions of machines: which kind, which architecture, what it can hold."""

from __future__ import annotations

from tilelang.target.context import Context
from tilelang.target.limits import Limits
from tilelang.target.parse import Target, parse_target

__all__ = ["Context", "Limits", "Target", "parse_target"]
