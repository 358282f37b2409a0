"""Loading compiled shared libraries, from the cache when possible and from memory otherwise."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from tilelang.errors import CompileError, TileRuntimeError
from tilelang.records import dataclass
from tilelang.scratch import scratch_folders


@dataclass(frozen=True)
class Library:
    """A loaded library, with the bytes and the path it was loaded from.

    The file may be gone by now: exports write the bytes.
    """

    handle: Any
    path: str
    data: bytes = b""

    def address(self, name: str) -> int:
        """Address of the function ``name``."""
        try:
            function = getattr(self.handle, name)
        except AttributeError:
            raise TileRuntimeError(
                f"the compiled library has no function {name!r}", got=self.path
            ) from None
        return int(ctypes.cast(function, ctypes.c_void_p).value or 0)


def loadable(data: bytes, path: Path | None = None) -> Iterator[str]:
    """Paths from which the library ``data`` can be loaded, best first.

    The file of the cache; a temporary file, deleted when the generator advances; an anonymous file
    in memory, for machines without a disk that can be written and executed from.
    """
    if path is not None:
        yield str(path)
    for folder in islice(scratch_folders(), 1):
        with contextlib.suppress(OSError):
            (folder / "kernel.so").write_bytes(data)
            yield str(folder / "kernel.so")
    if hasattr(os, "memfd_create"):
        # Never closed: the loader takes two libraries with one name for the same.
        descriptor = os.memfd_create("tilelang")
        write_all(descriptor, data)
        yield f"/proc/self/fd/{descriptor}"


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of ``data``, in several calls if need be."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


@lru_cache(maxsize=1)
def _listener() -> Any:
    """State of the Ctrl-C handler while kernels of this process run (``tl_interrupt.h``)."""
    return (ctypes.c_int64 * 128)()


def _share_listener(library: Any) -> None:
    """Make a library whose loops may be endless use the handler of the process."""
    try:
        listener = ctypes.c_void_p.in_dll(library, "tl_listener")
    except ValueError:  # all of its loops end
        return
    listener.value = ctypes.addressof(_listener())


def load_library(data: bytes, path: Path | None = None) -> Library:
    """Load a shared library.

    Args:
        data: its bytes.
        path: a file that holds them (further bytes may follow them), if there is one.

    Raises:
        CompileError: the system refuses to load it.
    """
    loaded, file = opened(data, path, "the compiled kernel", "CC")
    return Library(loaded, file, data)


def opened(
    data: bytes, path: Path | None, subject: str, variable: str, shared: bool = False
) -> tuple[Any, str]:
    """A shared library and its file.

    Args:
        variable: of the environment, which names the compiler.
        shared: whether other libraries see its names.

    Raises:
        CompileError: the system refuses to load it.
    """
    mode, refusals = ctypes.RTLD_GLOBAL if shared else ctypes.DEFAULT_MODE, []
    for file in loadable(data, path):
        try:
            library = ctypes.CDLL(file, mode=mode)
        except OSError as error:
            refusals.append(str(error))
            continue
        _share_listener(library)
        return library, file
    failure = CompileError(
        f"{subject} cannot be loaded",
        got=refusals[0].splitlines()[0] if refusals else "no folder to write it to",
        hint=f"check that the compiler targets this machine (env {variable})",
    )
    failure.log = "\n".join(refusals)
    raise failure
