"""Runtime compilation: NVRTC and hipRTC, whose functions differ in the prefix of their names.

Source: CUDA documentation, "NVRTC"; HIP documentation, "hipRTC".
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple


class Compiled(NamedTuple):
    """The result of one compilation.

    Attributes:
        parts: what was asked for, by its name; empty when it failed.
        log: what the compiler said.
        error: the name of the error, "" for none.
    """

    parts: dict[str, bytes]
    log: str
    error: str


class RuntimeCompiler:
    """A loaded library that compiles in this process.

    Args:
        library: opened by ctypes; ``path``: as it was named.
    """

    prefix: ClassVar[str]

    def __init__(self, library: Any, path: str) -> None:
        self._lib, self.path = library, path
        self._function("GetErrorString").restype = ctypes.c_char_p
        major, minor = ctypes.c_int(0), ctypes.c_int(0)
        self._function("Version")(ctypes.byref(major), ctypes.byref(minor))
        self.version = (major.value, minor.value)

    def translate(
        self, source: str, name: str, headers: Mapping[str, str], options: Sequence[str],
        parts: Sequence[str],
    ) -> Compiled:  # fmt: skip
        """Compile one translation unit to ``parts`` ("PTX", say); the result has the failures."""
        program = ctypes.c_void_p()
        error = self._failure(
            "CreateProgram", ctypes.byref(program), source.encode(), name.encode(), len(headers),
            _strings(list(headers.values())), _strings(list(headers)),
        )  # fmt: skip
        if error:
            return Compiled({}, "", error)
        try:
            error = self._failure("CompileProgram", program, len(options), _strings(options))
            log = self._part(program, "ProgramLog")[0].rstrip(b"\0").decode(errors="replace")
            parts_read = {part: self._part(program, part) for part in (() if error else parts)}
            errors = (failure for _, failure in parts_read.values() if failure)
            images = {part: image for part, (image, _) in parts_read.items()}
            return Compiled(images, log, error or next(errors, ""))
        finally:
            self._function("DestroyProgram")(ctypes.byref(program))

    def _function(self, name: str) -> Any:
        return getattr(self._lib, self.prefix + name)

    def _failure(self, function: str, *args: Any) -> str:
        """The name of the error of a call, "" for none."""
        code = self._function(function)(*args)
        return str(self._function("GetErrorString")(code).decode()) if code else ""

    def _part(self, program: Any, output: str) -> tuple[bytes, str]:
        """A part of the compiled program, or the error that explains why there is none."""
        size = ctypes.c_size_t(0)
        error = self._failure(f"Get{output}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(1, size.value))
        error = error or self._failure(f"Get{output}", program, buffer)
        return (b"" if error else buffer.raw[: size.value]), error


def _strings(texts: Sequence[str]) -> Any:
    return (ctypes.c_char_p * max(1, len(texts)))(*[text.encode() for text in texts])
