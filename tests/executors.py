"""One program on every executor compared with arrays that plain numpy computed.

The interpreter, the CPU back end, and the CUDA text of two architectures in the emulator, which
checks every access and runs the threads in a random order.
"""

from __future__ import annotations

import zlib
from functools import partial
from typing import Any

import numpy as np
import pytest
from on_device import OnDevice, has_device

import tilelang
from tilelang.emulator.compilers import find_cxx
from tilelang.emulator.launch import Settings
from tilelang.jit import emulated

INTERPRETER, CPU, SM_80, SM_90A = "interpreter", "cpu", "sm_80", "sm_90a"
DEVICE = "device"  # the GPU of the machine, where it has one; tests for the emulator run there, too
EVERYWHERE = (INTERPRETER, CPU, SM_80, SM_90A)
GPUS = (SM_80, SM_90A)
OPTIONS: dict[str, dict[str, Any]] = {
    INTERPRETER: {"target": "cpu", "execution_backend": "interpret"},
    CPU: {"target": "cpu"},
    **{
        arch: {"target": f"cuda -arch={arch}", "execution_backend": "emulator"}
        for arch in ("sm_70", "sm_75", SM_80, SM_90A, "sm_100a")
    },
}


def compiled(func: Any, place: str) -> Any:
    """The kernel of ``func`` for one executor."""
    if place == DEVICE:
        return OnDevice(func)
    if place in GPUS and find_cxx() is None:
        pytest.skip("needs a C++ compiler")
    return tilelang.compile(func, **OPTIONS[place])


def holds(
    func: Any, given: tuple[Any, ...], *wanted: Any, on: tuple[str, ...] = EVERYWHERE
) -> None:
    """The last arrays of ``given`` are ``wanted`` after a call, on each executor.

    Args:
        given: arguments; arrays are copied for each call.
        wanted: one array for each of the last arguments.
    """
    if set(on) & set(GPUS) and has_device():
        on = (*on, DEVICE)
    for place in on:
        with pytest.MonkeyPatch.context() as patch:
            seed = zlib.crc32(f"{func.name} {place}".encode()) % 1000
            patch.setenv("TILELANG_SANITIZE", "1")
            patch.setattr(emulated, "Settings", partial(Settings, schedule="random", seed=seed))
            args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in given]
            compiled(func, place)(*args)
        for found, want in zip(args[-len(wanted) :], wanted, strict=True):
            np.testing.assert_array_equal(found, want, err_msg=f"{func.name} on {place}")


def agrees(func: Any, given: tuple[Any, ...], outputs: int = 1, on: tuple[str, ...] = GPUS) -> None:
    """The last ``outputs`` arrays of ``given`` are what the interpreter makes of them."""
    args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in given]
    compiled(func, INTERPRETER)(*args)
    holds(func, given, *args[-outputs:], on=on)
