"""Import path of the autotuner's class, which is not there yet."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.autotuner")
