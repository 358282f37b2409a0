"""Finding the fastest configuration of a kernel, and remembering it."""

from __future__ import annotations

from tilelang.autotuner.decorator import AutoTuneImpl, autotune
from tilelang.autotuner.inputs import get_autotune_inputs, set_autotune_inputs
from tilelang.autotuner.param import AutotuneResult, CompileArgs, ProfileArgs, SearchArgs
from tilelang.autotuner.report import Report, Row
from tilelang.autotuner.store import load, save
from tilelang.autotuner.tuner import AutoTuner

__all__ = [
    "AutoTuneImpl",
    "AutoTuner",
    "AutotuneResult",
    "CompileArgs",
    "ProfileArgs",
    "Report",
    "Row",
    "SearchArgs",
    "autotune",
    "get_autotune_inputs",
    "load",
    "save",
    "set_autotune_inputs",
]
