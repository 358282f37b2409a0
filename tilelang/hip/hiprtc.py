"""hipRTC by ctypes: HIP text to a code object, in this process.

Source: HIP documentation, "hipRTC". The library is part of ROCm.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilelang.env import env

_OK = 0


class Hiprtc:
    """A loaded hipRTC.

    Args:
        library: opened by ctypes; ``path``: as it was named.
    """

    def __init__(self, library: Any, path: str) -> None:
        import ctypes

        self._lib, self.path = library, path
        library.hiprtcGetErrorString.restype = ctypes.c_char_p
        major, minor = ctypes.c_int(0), ctypes.c_int(0)
        library.hiprtcVersion(ctypes.byref(major), ctypes.byref(minor))
        self.identity = f"{path} hipRTC {major.value}.{minor.value}"

    def compile(
        self, source: str, arch: str, flags: Sequence[str], headers: Mapping[str, str], name: str
    ) -> tuple[bytes, str] | str:
        """Code and what the compiler said, or why there is none."""
        import ctypes

        lib, program = self._lib, ctypes.c_void_p()
        code = lib.hiprtcCreateProgram(
            ctypes.byref(program), source.encode(), f"{name}.hip".encode(), len(headers),
            _strings(list(headers.values())), _strings(list(headers)),
        )  # fmt: skip
        if code != _OK:
            return self._name(code)
        try:
            options = (f"--offload-arch={arch}", *flags)
            code = lib.hiprtcCompileProgram(program, len(options), _strings(options))
            message = self._bytes(program, "ProgramLog")
            log = "" if isinstance(message, str) else message.rstrip(b"\0").decode(errors="replace")
            if code != _OK:
                return f"{log}\n{self._name(code)}".strip()
            image = self._bytes(program, "Code")
            return image if isinstance(image, str) else (image, log)
        finally:
            lib.hiprtcDestroyProgram(ctypes.byref(program))

    def _bytes(self, program: Any, what: str) -> bytes | str:
        """What the program has, or the error by which it is not given."""
        import ctypes

        size = ctypes.c_size_t(0)
        code = getattr(self._lib, f"hiprtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        if code == _OK:
            code = getattr(self._lib, f"hiprtcGet{what}")(program, buffer)
        return buffer.raw[: size.value] if code == _OK else self._name(code)

    def _name(self, code: int) -> str:
        return str(self._lib.hiprtcGetErrorString(code).decode())


def _strings(texts: Sequence[str]) -> Any:
    import ctypes

    return (ctypes.c_char_p * max(1, len(texts)))(*[text.encode() for text in texts])


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
