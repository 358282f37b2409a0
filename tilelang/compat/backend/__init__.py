"""Import path of back ends and targets."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.backend")
