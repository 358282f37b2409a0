"""XLA custom calls of compiled CPU kernels."""

from __future__ import annotations

from ctypes import c_void_p
from pathlib import Path

from tilelang.codegen.backend import XlaInterface, XlaProgram
from tilelang.runtime.executable import Executable
from tilelang.runtime.signature import LaunchSpec
from tilelang.target import Target

_HANDLER = Path(__file__).resolve().parent / "loader" / "tl_xla.h"


def _handler() -> str:
    return _HANDLER.read_text(encoding="utf-8")


def _program(kernel: Executable, target: Target, spec: LaunchSpec) -> XlaProgram | None:
    if kernel.artifact is None or kernel.library is None:
        return None
    addresses = kernel.library.address(kernel.artifact.entry), kernel.library.address("tl_message")
    return XlaProgram((c_void_p * 2)(*addresses), keep_alive=kernel.library)


XLA = XlaInterface("cpu", _handler, _program)
