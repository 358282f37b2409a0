"""A hipRTC that only takes notes: a small C library with the functions of ``libhiprtc``.

It writes down every call as a line of text, and gives a code and a log that the test chooses.
"""

from __future__ import annotations

import ctypes
from pathlib import Path

from tilelang.cpu.toolchain import Compiler

SOURCE = Path(__file__).with_suffix(".c").read_text(encoding="utf-8")


class Stub:
    """The loaded library. Each one has its own notes."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)
        self.lib = ctypes.CDLL(self.path)
        for name in ("stub_notes", "stub_source"):
            getattr(self.lib, name).restype = ctypes.c_char_p
        self.lib.stub_alive.restype = ctypes.c_long

    def fail(self, name: str, code: int) -> None:
        """Let a function answer with ``code`` from now on."""
        self.lib.stub_fail(name.encode(), code)

    def give(self, code: bytes, log: str = "") -> None:
        """What programs have when they are compiled."""
        self.lib.stub_give(code, ctypes.c_size_t(len(code)), log.encode())

    @property
    def source(self) -> str:
        """The text of the last program."""
        return str(self.lib.stub_source().decode())

    @property
    def alive(self) -> int:
        """Programs that are not destroyed."""
        return int(self.lib.stub_alive())

    def take(self) -> list[str]:
        """The notes, which are forgotten."""
        found: list[str] = self.lib.stub_notes().decode().splitlines()
        self.lib.stub_forget()
        return found


def build(compiler: Compiler, folder: Path) -> Stub:
    """A fresh stub where ROCm would have it."""
    path = folder / "lib" / "libhiprtc.so"
    path.parent.mkdir()
    path.write_bytes(compiler.compile_shared(SOURCE, ("-O1",)))
    return Stub(path)
