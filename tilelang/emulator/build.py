"""The emulator's libraries: its runtime, built once per machine, and one for each kernel source.

The disk cache keeps both under a hash of their sources, flags and compiler. A kernel's source is
compiled unchanged, against headers that define the device's functions for the CPU. A table after it
lets the runtime call each kernel with the parameter bytes that a driver would get.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from threading import Timer
from typing import Any

from tilelang.codegen.gpu.module import SharedBuffer
from tilelang.cuda.toolchain import BEFORE, included_files, kernel_flags
from tilelang.emulator import declarations
from tilelang.emulator.compilers import KERNEL_LINK, CxxCompiler
from tilelang.emulator.families import CUDA, Family
from tilelang.errors import CompileError
from tilelang.records import dataclass
from tilelang.runtime.cache import DiskCache, Entry, content_key
from tilelang.runtime.library import Library, load_library, opened

ROOT = Path(__file__).resolve().parent
_log = logging.getLogger("tilelang")


def folder_flags(family: Family) -> tuple[str, ...]:
    """Include paths of the headers that a kernel's source may name."""
    return tuple(f"-I{ROOT.parent / name}" for name in family.folders)


_INCLUDE = folder_flags(CUDA)
TEXT = "kernel.cu"  # the name of the generated source in debug information

_RUNTIME_FLAGS = ("-O1", "-pthread", "-fno-strict-aliasing", "-fvisibility=default")
# Sources compiled together. Half of the time of a source is spent on headers of the standard
# library, so that all of them in one unit take a third of the time of a unit for each.
_UNITS = 1
# Libraries that few kernels need: their sources, and the libraries that these need in turn.
_LIBRARIES = {
    "hopper": (("tma.cpp", "tma_copy.cpp", "warpgroup.cpp", "wgmma.cpp"), ()),
    "blackwell": (("tcgen05.cpp", "tensor_memory.cpp"), ("hopper",)),
    "waves": (("mfma.cpp", "simdgroup.cpp", "waves.cpp"), ()),
}
# A function with its body: void tl_emu_name(...) {
_FUNCTION = re.compile(r'^(?:extern "C" )?[\w ]+[ *](tl_emu_\w+)\([^;{]*\{', re.MULTILINE)
_RUNTIME_LINK = ("-pthread", "-lm", "-ldl")
# The generated source has the semantics of CUDA: signed overflow wraps, char is signed, pointers of
# different types may alias, and only an explicit fma is fused.
_KERNEL_FLAGS = (
    "-fno-strict-aliasing", "-fwrapv", "-fsigned-char", "-ffp-contract=off", "-w",
    "-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-fno-math-errno",
)  # fmt: skip


@dataclass(frozen=True)
class KernelLibrary:
    """A generated source as a loaded library.

    Attributes:
        library: the loaded library.
        source: the generated source, to which debug information refers.
        kernels: the names of its kernels.
        arrays: names of the arrays that represent registers, by the number the runtime knows.
    """

    library: Library
    source: str
    kernels: tuple[str, ...]
    arrays: tuple[str, ...] = ()

    def entry(self, kernel: str) -> int:
        """Address of the function that unpacks parameters and calls ``kernel``."""
        return self.library.address(f"tl_emu_entry_{kernel}")

    def any_entry(self) -> int:
        """Some address in the library, 0 if it has no kernel."""
        return self.entry(self.kernels[0]) if self.kernels else 0


@lru_cache(maxsize=1)
def runtime_files() -> dict[str, str]:
    """Every source and header of the runtime and of the device functions, by their path.

    Device headers that are plain C++ are used unchanged, so they count too.
    """
    names = ("emulator/runtime", "emulator/include", "emulator/amd", "cuda/include", "hip/include",
             "emulator/metal", "metal/include")  # fmt: skip
    folders = [ROOT.parent / name for name in names]
    paths = [path for folder in folders for path in sorted(folder.glob("*"))]
    return {
        str(path): path.read_text(encoding="utf-8")
        for path in paths
        if path.suffix in (".h", ".cpp", "")  # names of the standard library have no suffix
    }


@lru_cache(maxsize=8)
def _digest(folders: tuple[str, ...]) -> str:
    """Hash over the files of some folders, wherever the package is installed."""
    homes = tuple(f"{ROOT.parent / name}{os.sep}" for name in folders)
    parts = []
    for path, text in runtime_files().items():
        if path.startswith(homes):
            parts += [path.removeprefix(str(ROOT.parent)), text]
    return content_key(*parts)


def runtime_key(compiler: CxxCompiler, part: str = "") -> str:
    """The key of the runtime's library, or of an optional one, in the cache."""
    return content_key(
        f"emulator {part}",
        _digest(("emulator/runtime", "emulator/include")),
        (ROOT.parent / "cpu/include/tl_interrupt.h").read_text(encoding="utf-8"),
        repr(_RUNTIME_FLAGS),
        compiler.identity,
    )


@lru_cache(maxsize=4)
def load_runtime(compiler: CxxCompiler, cache: DiskCache) -> Any:
    """The runtime as a ctypes library, whose names kernels loaded later can use.

    Raises:
        CompileError: it cannot be built.
    """
    optional = {name for names, _ in _LIBRARIES.values() for name in names}
    sources = [path for path in _sources() if Path(path).name not in optional]
    return _load_sources("", sources, _UNITS, compiler, cache)


def load_libraries(library: bytes, compiler: CxxCompiler, cache: DiskCache) -> None:
    """Load the optional libraries of the runtime that a kernel's library calls.

    Raises:
        CompileError: it cannot be built.
    """
    for part, (names, _) in _LIBRARIES.items():
        if any(b"\0%s\0" % name.encode() in library for name in _functions(names)):
            _load_library(part, compiler, cache)


@lru_cache(maxsize=16)
def _load_library(part: str, compiler: CxxCompiler, cache: DiskCache) -> Any:
    names, required = _LIBRARIES[part]
    for name in required:
        _load_library(name, compiler, cache)
    sources = [path for path in _sources() if Path(path).name in names]
    return _load_sources(part, sources, 1, compiler, cache)


def _sources() -> list[str]:
    return [path for path in runtime_files() if path.endswith(".cpp")]


@lru_cache(maxsize=8)
def _functions(names: tuple[str, ...]) -> tuple[str, ...]:
    """Functions of some sources that kernels may call."""
    texts = (text for path, text in runtime_files().items() if Path(path).name in names)
    return tuple(name for text in texts for name in _FUNCTION.findall(text))


def _load_sources(
    part: str, sources: list[str], count: int, compiler: CxxCompiler, cache: DiskCache
) -> Any:
    units = {
        f"runtime{number}.cpp": "".join(f'#include "{name}"\n' for name in sources[number::count])
        for number in range(count)
    }

    def make() -> Entry:
        flags = (*_INCLUDE, *_RUNTIME_FLAGS, *compiler.roomy, *_native())
        with _logged_if_long("the emulator's runtime, once for this version and machine"):
            data = compiler.shared(units, list(units), flags, _RUNTIME_LINK)
        return Entry(data, {"kind": "emulator"})

    return _load_global(cache.fetch(runtime_key(compiler, part), make))


@contextmanager
def _logged_if_long(subject: str, seconds: float = 1.0) -> Iterator[None]:
    """Log the name of a compilation that takes longer than ``seconds``."""
    text = "tilelang compiles %s; TILELANG_LOG_LEVEL=ERROR hides this line"
    timer = Timer(seconds, _log.warning, (text, subject))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _native() -> tuple[str, ...]:
    """The flag that allows every instruction of this machine."""
    import platform

    x86 = platform.machine() in ("x86_64", "AMD64")
    return ("-march=native",) if x86 else ("-mcpu=native",)


def _load_global(entry: Entry) -> Any:
    return opened(entry.data, entry.path, "the emulator's runtime", "CXX", shared=True)[0]


# A loop of the program, which may never end.
_WHILE = re.compile(r"^( *)while \((.*)\) \{$", re.MULTILINE)

# A thread that leaves the kernel: later barriers wait for the other threads only.
_RETURN = re.compile(r"^( *)return;$", re.MULTILINE)


def kernel_text(source: str, kernels: Sequence[str], family: Family = CUDA) -> str:
    """``source`` as C++ with the table of its kernels after it."""
    guarded = _WHILE.sub(r"\1while (tl_emu_goes_on() && (\2)) {", family.rewrite(source))
    guarded = _RETURN.sub(r"\1{ tl_emu_leave(); return; }", guarded)
    return guarded + "".join(f"\nTL_EMU_ENTRY({name})\n" for name in kernels)


def _own_flags(flags: Sequence[str]) -> list[str]:
    """The flags of a program that change its meaning, spelled for the host's compiler."""
    spelled: list[str] = []
    for flag in kernel_flags(flags):
        if flag.startswith(BEFORE):  # after the names of the device
            spelled += ["-include", "tl_types.h", "-include", flag.removeprefix(BEFORE)]
        elif flag.startswith(("-D", "-U", "-I")):
            spelled.append(flag)
    return spelled


def load_kernels(
    source: str, kernels: Sequence[str], arch: str, compiler: CxxCompiler, cache: DiskCache,
    watched: bool, flags: Sequence[str] = (), tiles: Sequence[SharedBuffer] = (),
    family: Family = CUDA,
) -> KernelLibrary:  # fmt: skip
    """A generated source as a library, compiled now or from the cache.

    Args:
        source: the generated source.
        kernels: names of its kernels.
        arch: e.g. "sm_80".
        compiler: a C++ compiler; its runtime has to be loaded.
        cache: where libraries are kept.
        watched: whether loads and stores are reported to the runtime.
        flags: of the program: ``-D``, ``-U``, ``-I``, ``-include``; others have no effect.
        tiles: its shared buffers, whose bounds are checked if ``watched``.
        family: the kind of target.

    Raises:
        CompileError: the source uses something that the emulator lacks.
    """
    level = ("-O1", *compiler.hooks) if watched else ("-O2",)
    always = (*compiler.lines, *compiler.probes, *_KERNEL_FLAGS)
    more = family.gcc if compiler.family == "gcc" else ()
    options = (*level, *always, *more, *family.macros(arch), *_own_flags(flags))
    arrays: tuple[str, ...] = ()
    annotated = source
    if watched:
        annotated, arrays = declarations.rewrite_arrays(
            declarations.rewrite_conversions(declarations.rewrite_tiles(source, tiles), tiles)
        )
    text = kernel_text(annotated, kernels, family)
    key = content_key(
        "emulated kernel",
        text,
        _digest(("emulator/include", *family.folders, "cuda/include")),
        repr(options),
        *included_files(flags),
        compiler.identity,
    )

    def make() -> Entry:
        files = {TEXT: text, **rewritten(family)}
        try:
            with _logged_if_long(f"{', '.join(kernels)} for the emulator", seconds=5.0):
                data = compiler.shared(
                    files, [TEXT], (*folder_flags(family), *options), KERNEL_LINK
                )
        except CompileError as error:
            raise _refusal(error, family) from None
        return Entry(data, {"kind": "emulated kernel"})

    entry = cache.fetch(key, make)
    load_libraries(entry.data, compiler, cache)
    return KernelLibrary(load_library(entry.data, entry.path), source, tuple(kernels), arrays)


@lru_cache(maxsize=2)
def rewritten(family: Family) -> dict[str, str]:
    """Headers with rewritten declarations of shared memory, which replace the device's own."""
    if not family.rewritten:
        return {}
    home = f"{ROOT.parent / family.rewritten}{os.sep}"
    own = {Path(path).name: text for path, text in runtime_files().items() if path.startswith(home)}
    # Their variables have numbers of their own: those of a kernel's source begin at 0.
    return {
        name: declarations.rewrite_shared(text, first=1000 * (number + 1000))
        for number, (name, text) in enumerate(own.items())
        if "__shared__" in text.replace("#define __shared__", "")
    }


def _refusal(error: CompileError, family: Family) -> CompileError:
    failure = CompileError(
        f"the generated {family.language} source cannot be compiled for the emulator",
        expected="functions of tilelang's device headers and plain C++",
        got=error.got,
        hint=f"inline assembly and headers of {family.language} need a GPU; "
        "the complete output is in the `log` attribute of this error",
    )
    failure.log = error.log
    return failure
