"""Import path of checks that `tilelang.compile` makes here."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.analysis")
