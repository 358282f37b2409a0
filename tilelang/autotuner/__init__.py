"""Autotuning: find the fastest configuration of a kernel, and store it.

Contract:

* Promises: every configuration is compiled by the ordinary ``tilelang.compile``, and compared with
  the reference where one is given; a configuration that fails is reported and never chosen; the
  same store gives the same choice in every process.
* May import: ``jit``, the profiler and the runtime, as a program would, and CUDA's driver to launch
  in worker processes. No pass and no back end imports it.
"""

from __future__ import annotations

from tilelang.autotuner.decorator import AutoTuneImpl, autotune
from tilelang.autotuner.inputs import get_autotune_inputs, set_autotune_inputs
from tilelang.autotuner.param import AutotuneResult, CompileArgs, ProfileArgs, SearchArgs
from tilelang.autotuner.report import Report, Row
from tilelang.autotuner.store import load, save
from tilelang.autotuner.tuning import AutoTuner

__all__ = [
    "AutoTuneImpl", "AutoTuner", "AutotuneResult", "CompileArgs", "ProfileArgs", "Report", "Row",
    "SearchArgs", "autotune", "get_autotune_inputs", "load", "save", "set_autotune_inputs",
]  # fmt: skip
