"""The tuner and what decorators make, by the path that programs know."""

from __future__ import annotations

from tilelang.autotuner.decorator import AutoTuneImpl
from tilelang.autotuner.tuning import AutoTuner

__all__ = ["AutoTuneImpl", "AutoTuner"]
