"""NVRTC, NVIDIA's run-time compiler, found wherever it may be and called through ctypes.

It comes from the pip wheels (``nvidia-cuda-nvrtc``, which torch brings too), from a CUDA toolkit,
or from the system's loader. Nothing is imported, no environment variable is changed, and no GPU
or driver is needed.
"""

from __future__ import annotations

import ctypes
import logging
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilelang.codegen.gpu.runtime_compiler import RuntimeCompiler
from tilelang.cuda.search_paths import by_pathfinder, toolkits
from tilelang.env import env
from tilelang.records import dataclass
from tilelang.target.device import cuda_driver_version

if TYPE_CHECKING:
    pass

_log = logging.getLogger("tilelang")

_LIBRARIES = ("libnvrtc.so.*", "nvrtc64_*.dll")
_BUILTINS = ("libnvrtc-builtins.so.*", "nvrtc-builtins64_*.dll")
# Names for the system's loader, newest first.
_SYSTEM = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so")
# Folders of the pip wheels below a directory of Python packages.
_WHEELS = (
    "nvidia/cu[0-9]*/lib", "nvidia/cuda_nvrtc/lib", "nvidia/cu[0-9]*/bin", "nvidia/cuda_nvrtc/bin",
)  # fmt: skip
_TOOLKIT_FOLDERS = ("lib64", "lib", "lib/x86_64-linux-gnu", "bin")
_OK, _COMPILATION = 0, 6


@dataclass(frozen=True)
class Output:
    """The result of one compilation; ``cubin`` is empty if it failed."""

    cubin: bytes
    ptx: bytes
    log: str
    error: str = ""  # name of the error, "" for none


class Nvrtc(RuntimeCompiler):
    """One loaded NVRTC library.

    Attributes:
        path: where it was found.
        version: of CUDA, e.g. (13, 0).
        archs: numbers of the architectures it compiles for.
    """

    prefix = "nvrtc"

    def __init__(self, handle: Any, path: str) -> None:
        super().__init__(handle, path)
        count = ctypes.c_int(0)
        handle.nvrtcGetNumSupportedArchs(ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        handle.nvrtcGetSupportedArchs(numbers)
        self.archs = tuple(numbers)

    @property
    def identity(self) -> str:
        """Text that differs when the produced code may differ."""
        return f"nvrtc {self.version[0]}.{self.version[1]} {self._stamp()}"

    def _stamp(self) -> str:
        """Size of the library: distinguishes patch releases without reading it."""
        try:
            return str(os.stat(self.path).st_size)
        except OSError:  # found by the system's loader
            return self.path

    def supports(self, arch: str) -> bool:
        """Whether ``arch`` ("sm_90a") can be compiled for."""
        return int("".join(filter(str.isdigit, arch)) or 0) in self.archs

    @cached_property
    def no_cache(self) -> tuple[str, ...]:
        """The option against NVRTC's own cache, whose answers have no log; empty where there is no
        such cache. Our cache keeps results with their logs."""
        return ("--no-cache",) if self.accepts("--no-cache") else ()

    @cached_property
    def minimal(self) -> tuple[str, ...]:
        """The option that leaves out textures and the device's runtime library, where known."""
        return ("--minimal",) if self.accepts("--minimal") else ()

    def accepts(self, option: str) -> bool:
        """Whether this version knows ``option``; found out without compiling anything."""
        # Options are looked at first and in order, and the first unknown one ends it.
        result = self.compile("", "probe.cu", {}, [option, "--tl-no-such-option"])
        return bool(result.log) and option not in result.log

    def compile(
        self, source: str, name: str, headers: Mapping[str, str], options: Sequence[str]
    ) -> Output:
        """Compile one translation unit; the output contains the failures."""
        result = self.translate(source, name, headers, options, ("PTX", "CUBIN"))
        log = result.log.strip()
        if result.error:
            return Output(b"", b"", log, result.error)
        return Output(result.parts["CUBIN"], result.parts["PTX"].rstrip(b"\0"), log)

    def __repr__(self) -> str:
        return f"Nvrtc({self.path!r}, version={self.version})"


# -- finding it ------------------------------------------------------------------------------------
def find_nvrtc(arch: str = "") -> Nvrtc | None:
    """The best NVRTC for ``arch``, or None when there is none at all.

    Libraries that compile for the architecture come first, then those that are no newer than the
    driver (which may refuse what a newer CUDA produced), then in the order of the places.
    """
    return _choose(arch, (env.CUDA_HOME, env.get("PATH") or "", tuple(sys.path)))


def load_ahead(arch: str) -> None:
    """Load and initialize NVRTC in a thread while the caller works on a program: the library is
    large. A second request waits in the system's loader."""
    if _load.cache_info().currsize:
        return
    import threading

    try:
        threading.Thread(target=_set_up, args=(arch,), name="tilelang-nvrtc").start()
    except RuntimeError as error:  # no more threads, or the interpreter is about to end
        _log.debug("NVRTC is not loaded ahead: %s", error)


def _set_up(arch: str) -> None:
    """Load the library and compile an empty program: the first one reads most of the library from
    disk and sets up its code generator."""
    nvrtc = find_nvrtc(arch)
    if nvrtc is not None and nvrtc.supports(arch):
        nvrtc.compile("", "ahead.cu", {}, [f"--gpu-architecture={arch}", *nvrtc.minimal])


@lru_cache(maxsize=32)
def _choose(arch: str, search: tuple[str | None, str, tuple[str, ...]]) -> Nvrtc | None:
    driver = cuda_driver_version()
    best: tuple[tuple[bool, bool], Nvrtc] | None = None
    for path in candidates(*search):
        nvrtc = _load(path)
        if nvrtc is None:
            continue
        rank = (not arch or nvrtc.supports(arch), driver is None or nvrtc.version[0] <= driver[0])
        if all(rank):
            return nvrtc
        if best is None or rank > best[0]:
            best = rank, nvrtc
    return None if best is None else best[1]


def candidates(home: str | None, path: str, packages: Sequence[str]) -> Iterator[str]:
    """Libraries to try, best first: wheels, toolkits, what cuda-pathfinder finds where these have
    none, the system's loader."""
    seen: set[str] = set()
    folders = [
        folder
        for package in packages
        if os.path.isdir(os.path.join(package or ".", "nvidia"))
        for pattern in _WHEELS
        for folder in sorted(Path(package or ".").glob(pattern), reverse=True)
    ]
    folders += [home / sub for home in toolkits(home, path) for sub in _TOOLKIT_FOLDERS]
    for folder in folders:
        for file in _newest(folder, _LIBRARIES):
            real = os.path.realpath(file)
            if real not in seen:
                seen.add(real)
                yield str(file)
    if not seen:
        library = by_pathfinder(lambda finder: finder.load_nvidia_dynamic_lib("nvrtc").abs_path)
        if library is not None:
            yield library
    yield from _SYSTEM


def _newest(folder: Path, patterns: Sequence[str]) -> list[Path]:
    """Files of ``folder`` by descending version; ``.alt`` twins of the wheels are left out."""
    files = [file for pattern in patterns for file in folder.glob(pattern)]
    plain = [file for file in files if ".alt" not in file.name]
    return sorted(
        plain, key=lambda file: list(map(int, re.findall(r"\d+", file.name))), reverse=True
    )


@lru_cache(maxsize=32)
def _load(path: str) -> Nvrtc | None:
    # Opened by its full path, NVRTC looks for its builtins in system directories only; a library
    # that is loaded already under that name is taken instead.
    if os.sep in path:
        for builtins in _newest(Path(path).parent, _BUILTINS):
            try:
                ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
            except OSError as error:
                _log.info("cannot load %s: %s", builtins, error)
    try:
        return Nvrtc(ctypes.CDLL(path), path)
    except (OSError, AttributeError) as error:  # missing, or too old to tell its architectures
        _log.debug("no NVRTC at %s: %s", path, error)
        return None
