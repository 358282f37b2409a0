"""Runs a program in the interpreter, as compiled C and as emulated CUDA compared with plain numpy, or as
compiled C, compared with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tilelang
from tilelang.cpu.toolchain import find_compiler

MODES: dict[str, dict[str, str]] = {
    "interpret": {"target": "cpu", "execution_backend": "interpret"},
    "cpu": {"target": "cpu"},
    "sm_80": {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    "sm_90a": {"target": "cuda -arch=sm_90a", "execution_backend": "emulator"},
}
CORES = ("interpret", "cpu")
EVERYWHERE = ("interpret", "cpu", "sm_80")


def holds(
    func: Any, args: list[Any], wanted: list[np.ndarray], modes: tuple[str, ...] = EVERYWHERE
) -> None:
    """After ``func(*args)`` the last arrays are ``wanted``, in each of the modes."""
    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    for mode in modes:
        given = [np.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args]
        tilelang.compile(func, **MODES[mode])(*given)  # type: ignore[call-overload]  # options by name
        for got, expected in zip(given[-len(wanted) :], wanted):
            np.testing.assert_array_equal(got, expected, err_msg=mode)


def agree(func: Any, *args: Any, flags: Sequence[str] = (), width: int = 0) -> str:
    """A core computes what the interpreter does, and something.

    Args:
        width: bytes of the vectors, if not those of the machine.

    Returns:
        the text of the kernel.
    """
    if find_compiler() is None:
        pytest.skip("needs a C compiler")
    words = [*flags, *([f"-DTL_VECTOR_BYTES={width}"] if width else [])]
    kernel = tilelang.compile(func, target="cpu", compile_flags=words)
    found, wanted = (
        [np.array(arg) if isinstance(arg, np.ndarray) else arg for arg in args] for _ in range(2)
    )
    kernel(*found)
    tilelang.compile(func, execution_backend="interpret")(*wanted)
    assert any(
        (want != arg).any() for want, arg in zip(wanted, args) if isinstance(arg, np.ndarray)
    )
    for number, (got, want) in enumerate(zip(found, wanted)):
        np.testing.assert_array_equal(got, want, err_msg=f"argument {number}")
    return str(kernel.get_kernel_source())
