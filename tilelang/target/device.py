"""Which GPUs this machine has, read from the drivers by ctypes on request.

Nothing here runs at import, no context is created on a device, and a machine without a driver
costs one failed ``dlopen``.
"""

from __future__ import annotations

import ctypes
import importlib.util
import platform
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

_KFD = Path("/sys/class/kfd/kfd/topology/nodes")
_VERSION = "gfx_target_version "
_COMPUTE_MAJOR, _COMPUTE_MINOR = 75, 76  # CUdevice_attribute


def _library(*names: str) -> Any:
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


def _cuda_library() -> Any:
    return _library("nvcuda.dll") if sys.platform == "win32" else _library("libcuda.so.1")


@lru_cache(maxsize=1)
def cuda_driver_version() -> tuple[int, int] | None:
    """The newest CUDA that the driver knows, e.g. (13, 0); None without a driver."""
    driver, version = _cuda_library(), ctypes.c_int(0)
    if driver is None or driver.cuDriverGetVersion(ctypes.byref(version)):
        return None
    return version.value // 1000, version.value % 1000 // 10


@lru_cache(maxsize=1)
def cuda_devices() -> tuple[str, ...]:
    """Architecture of each CUDA device, e.g. ``("sm_90a",)``; empty without driver or device.

    From sm_90 on with the ``a``, which code for exactly that chip may use all units of.
    """
    driver = _cuda_library()
    count = ctypes.c_int(0)
    if driver is None or driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count)):
        return ()
    devices = []
    for index in range(count.value):
        device, major, minor = ctypes.c_int(0), ctypes.c_int(0), ctypes.c_int(0)
        driver.cuDeviceGet(ctypes.byref(device), index)
        driver.cuDeviceGetAttribute(ctypes.byref(major), _COMPUTE_MAJOR, device)
        driver.cuDeviceGetAttribute(ctypes.byref(minor), _COMPUTE_MINOR, device)
        own = "a" if major.value >= 9 else ""
        devices.append(f"sm_{major.value}{minor.value}{own}")
    return tuple(devices)


@lru_cache(maxsize=1)
def has_hip() -> bool:
    """Whether a ROCm driver reports a device."""
    driver = _library("libamdhip64.so")
    count = ctypes.c_int(0)
    if driver is None or driver.hipGetDeviceCount(ctypes.byref(count)):
        return False
    return bool(count.value)


@lru_cache(maxsize=1)
def hip_devices() -> tuple[str, ...]:
    """Architecture of each AMD GPU, e.g. ``("gfx942",)``, as the kernel driver lists them."""
    return chips_in(_KFD)


def chips_in(folder: Path) -> tuple[str, ...]:
    """The GPUs among the nodes that the kernel driver of AMD describes, in their order. A node has
    its number as decimal digits: 90402 is gfx942, and 0 a processor.

    Source: Linux kernel, "AMDGPU KFD topology", gfx_target_version.
    """
    chips = []
    for file in sorted(folder.glob("*/properties"), key=lambda path: int(path.parent.name)):
        try:
            text = file.read_text(encoding="utf-8")
        except OSError:
            continue  # a node that this user may not see
        number = next(
            (int(line.split()[1]) for line in text.splitlines() if line.startswith(_VERSION)), 0
        )
        if number:
            chips.append(f"gfx{number // 10000}{number // 100 % 100:x}{number % 100:x}")
    return tuple(chips)


def has_metal() -> bool:
    """Whether this is a Mac with Apple's own GPU."""
    return sys.platform == "darwin" and platform.machine() == "arm64"


def import_gpu_framework() -> None:
    """Import torch, or else cupy, where neither is imported: somebody has to own memory of a GPU.

    What is not installed is left out; callers say what they need.
    """
    if "torch" in sys.modules or "cupy" in sys.modules:
        return
    for name in ("torch", "cupy"):
        if importlib.util.find_spec(name) is not None:
            importlib.import_module(name)
            return
