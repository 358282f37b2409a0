"""A HIP runtime that only takes notes: a small C library with the functions of ``libamdhip64``.

It writes down every call as a line of text; launches show the bytes of their parameters. A kernel
that prints has its records written by the launch itself.
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
        self.lib.stub_notes.restype = ctypes.c_char_p

    def declare(self, name: str, *sizes: int) -> None:
        """A kernel with parameters of these sizes."""
        self.lib.stub_declare(name.encode(), len(sizes), (ctypes.c_int * 64)(*sizes))

    def fail(self, name: str, code: int) -> None:
        """Let a function answer with ``code`` from now on."""
        self.lib.stub_fail(name.encode(), code)

    def prints(self, *words: int) -> None:
        """Let launches write these words behind the head of the records."""
        self.lib.stub_print((ctypes.c_uint32 * 256)(*words), len(words))

    def take(self) -> list[str]:
        """The notes, which are forgotten."""
        found: list[str] = self.lib.stub_notes().decode().splitlines()
        self.lib.stub_forget()
        return found


def build(compiler: Compiler, folder: Path) -> Stub:
    """A fresh stub."""
    path = folder / "libamdhip_stub.so"
    path.write_bytes(compiler.compile_shared(SOURCE, ("-O1",)))
    return Stub(path)
