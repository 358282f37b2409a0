"""hipRTC by ctypes: HIP source to a code object, in this process.

Source: HIP documentation, "hipRTC". The library is part of ROCm.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from tilelang.codegen.gpu.runtime_compiler import RuntimeCompiler
from tilelang.env import env


class Hiprtc(RuntimeCompiler):
    """A loaded hipRTC."""

    prefix = "hiprtc"

    @property
    def identity(self) -> str:
        """Text that differs when the produced code may differ."""
        return f"{self.path} hipRTC {self.version[0]}.{self.version[1]}"

    def compile(
        self, source: str, arch: str, flags: Sequence[str], headers: Mapping[str, str], name: str
    ) -> tuple[bytes, str] | str:
        """Code and what the compiler said, or why there is none."""
        options = (f"--offload-arch={arch}", *flags)
        result = self.translate(source, f"{name}.hip", headers, options, ("Code",))
        if result.error:
            return f"{result.log}\n{result.error}".strip()
        return result.parts["Code"], result.log


def find_hiprtc() -> Hiprtc | None:
    """The library of this machine; None without ROCm."""
    return _find(env.ROCM_HOME or env.get("HIP_PATH"))


@lru_cache(maxsize=4)
def _find(home: str | None) -> Hiprtc | None:
    import ctypes

    if sys.platform != "linux":
        return None
    named = [str(Path(home) / "lib" / "libhiprtc.so")] if home else []
    for path in (*named, "libhiprtc.so", "/opt/rocm/lib/libhiprtc.so"):
        try:
            return Hiprtc(ctypes.CDLL(path), path)
        except (OSError, AttributeError):  # missing, or something else of that name
            continue
    return None
