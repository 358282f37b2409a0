"""Import path of the autotuner, which is not there yet; its names say what to use."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.autotuner")
