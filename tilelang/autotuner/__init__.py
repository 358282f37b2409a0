"""Import path of the autotuner, which is not there yet; its names say what to use."""

from __future__ import annotations

from tilelang.absent import ABSENT, absent_names

__all__ = list(ABSENT["tilelang.autotuner"])  # programs import everything

__getattr__ = absent_names("tilelang.autotuner")
