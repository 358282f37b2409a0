"""GPU libraries called by ctypes: the check of error codes, and of forked processes."""

from __future__ import annotations

import ctypes
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

from tilelang.errors import TileRuntimeError


class DeviceLibrary(ABC):
    """A loaded library of an API for GPUs."""

    api: ClassVar[str]
    advice: ClassVar[Mapping[int, str]]  # code -> what usually causes it
    stream_memory: ClassVar[tuple[str, str]]  # what allocates and frees memory in stream order

    def __init__(self, names: Sequence[str], missing: str, expected: str) -> None:
        self._lib = _open(names, missing, expected)
        self._pid = os.getpid()

    def check(self, code: int, action: str) -> None:
        """Raise the error of ``code``; 0 is success."""
        if code:
            raise self.error(code, action)

    def call(self, name: str, *args: Any, action: str) -> None:
        """Call a function of the library and check what it returns."""
        self.alive()
        self.check(getattr(self._lib, name)(*args), action)

    def handle(self, name: str, *args: Any, action: str) -> int:
        """Call a function that returns a handle or an address through its first argument."""
        result = ctypes.c_void_p()
        self.call(name, ctypes.byref(result), *args, action=action)
        return result.value or 0

    def error(self, code: int, action: str) -> TileRuntimeError:
        """The error for a code of the library."""
        name, meaning = self.texts(code)
        return TileRuntimeError(
            f"{action} failed: {name or f'{self.api} error {code}'}",
            got=meaning or None,
            hint=self.advice.get(code),
        )

    @abstractmethod
    def on(self, device: int) -> AbstractContextManager[None]:
        """Work on ``device`` inside; the caller's device is current again afterwards."""

    def allocate(self, device: int, size: int, stream: int = 0) -> int:
        """Device memory in the order of ``stream``."""
        with self.on(device):
            return self.handle(
                self.stream_memory[0], ctypes.c_size_t(max(1, size)), ctypes.c_void_p(stream),
                action=f"allocating {size} bytes on GPU {device}",
            )  # fmt: skip

    def free(self, device: int, address: int, stream: int = 0) -> None:
        """Give memory back in the order of ``stream``."""
        with self.on(device):
            self.call(
                self.stream_memory[1], ctypes.c_void_p(address), ctypes.c_void_p(stream),
                action="freeing device memory",
            )  # fmt: skip

    @abstractmethod
    def texts(self, code: int) -> tuple[str, str]:
        """The library's name and description of an error code."""

    def was_forked(self) -> bool:
        """Whether another process loaded the library."""
        return os.getpid() != self._pid

    def alive(self) -> None:
        """Raise when this process was forked from the one that loaded the library."""
        if self.was_forked():
            raise TileRuntimeError(
                f"{self.api} was used before this process was forked, and cannot be used after",
                expected="a process of its own",
                got=f"a fork of process {self._pid}",
                hint="multiprocessing.set_start_method('spawn')",
            )


def arguments(parameters: Sequence[bytes]) -> tuple[Any, Any]:
    """The parameters of a kernel as an array of pointers, and the buffers that have to stay
    alive."""
    buffers = [ctypes.create_string_buffer(data, len(data)) for data in parameters]
    return (ctypes.c_void_p * max(1, len(buffers)))(*map(ctypes.addressof, buffers)), buffers


def _open(names: Sequence[str], missing: str, expected: str) -> Any:
    refusals = []
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError as error:
            refusals.append(str(error))
    raise TileRuntimeError(
        missing,
        expected=expected,
        got=refusals[0] if refusals else None,
        hint='run on the CPU with target="cpu", or anywhere with execution_backend="interpret"',
    )
