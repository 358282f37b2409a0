"""Checking a kernel against a reference and measuring how long it takes."""

from __future__ import annotations

from tilelang.profiler.bench import do_bench
from tilelang.profiler.profile import Profiler
from tilelang.utils.tensor import TensorSupplyType

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]
