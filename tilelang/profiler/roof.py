"""The roofline of a machine: bytes in a second and operations in a second.

A roof is measured once by :func:`tilelang.tools.roof` and remembered on disk for the device, so
that tables, plots and ``kernel.explain()`` can say how far from it a kernel is.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilelang.env import env
from tilelang.notebook import Preformatted
from tilelang.profiler.work import Work
from tilelang.records import dataclass
from tilelang.runtime.cache import content_key, default_cache
from tilelang.target import Target

FORMAT = "roof 1"  # of what is kept on disk


@dataclass(frozen=True)
class Roof(Preformatted):
    """The rates of a device that its best kernels reach.

    Attributes:
        device: its name, as :func:`device_name` gives it.
        gbps: 10^9 bytes in a second, read and written, of a copy that no cache holds.
        tflops: 10^12 operations in a second, of a float32 product on a CPU, a float16 one on a GPU.
    """

    device: str
    gbps: float
    tflops: float

    def milliseconds(self, work: Work) -> float:
        """Return the least time of ``work``."""
        return max(work.bytes / self.gbps / 1e6, work.flops / self.tflops / 1e9)

    def share(self, work: Work, milliseconds: float) -> float:
        """Return the part of the roof that a call of ``milliseconds`` reaches.

        Tensors in a cache may be above 1.
        """
        return self.milliseconds(work) / max(milliseconds, 1e-9)

    def __str__(self) -> str:
        return f"{self.device}: {self.gbps:.3g} GB/s, {self.tflops:.3g} TFLOP/s"


def known_roof(target: Target) -> Roof | None:
    """The roof that was measured for the device that programs for ``target`` run on."""
    text = default_cache().get_text(_key(device_name(target)))
    return None if text is None else Roof(**json.loads(text))


def remember(roof: Roof) -> None:
    """Keep a roof for this device in the disk cache."""
    default_cache().put_text(_key(roof.device), json.dumps(asdict(roof)))


def _key(device: str) -> str:
    return content_key(FORMAT, device)


def device_name(target: Target) -> str:
    """The vendor's name of the device that programs for ``target`` run on."""
    if target.is_gpu:
        torch: Any = sys.modules.get("torch")
        if torch is not None and torch.cuda.is_available():
            return str(torch.cuda.get_device_name())
        return target.concrete().arch
    return f"{_processor()} x{env.TILELANG_NUM_THREADS or os.cpu_count() or 1}"


@lru_cache(maxsize=1)
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())
