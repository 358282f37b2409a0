"""The emulator's libraries: its runtime, once per machine, and one for each kernel text.

Both are kept in the disk cache under a hash of their sources, flags and compiler. A kernel's text
is compiled as it stands, against headers of the device's names that run on the CPU; a short table
behind it lets the runtime call each kernel with the bytes that a driver would get.
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
from tilelang.emulator.compilers import KERNEL_LINK, CxxCompiler
from tilelang.emulator.declarations import (
    rewrite_arrays,
    rewrite_conversions,
    rewrite_shared,
    rewrite_tiles,
)
from tilelang.emulator.families import CUDA, Family
from tilelang.errors import CompileError
from tilelang.records import dataclass
from tilelang.runtime.cache import DiskCache, Entry, content_key
from tilelang.runtime.library import Library, load_library, opened

ROOT = Path(__file__).resolve().parent
_log = logging.getLogger("tilelang")


def folder_flags(family: Family) -> tuple[str, ...]:
    """Where headers of texts are looked for."""
    return tuple(f"-I{ROOT.parent / name}" for name in family.folders)


_INCLUDE = folder_flags(CUDA)
TEXT = "kernel.cu"  # the name of a generated text in debug information

_RUNTIME_FLAGS = ("-O1", "-pthread", "-fno-strict-aliasing", "-fvisibility=default")
# Half of the work on a source is on the headers of the standard library, so that a compilation of
# many takes a third of the time of one for each.
_UNITS = 1
# What few kernels need is in libraries of its own, with those that it needs besides the rest.
_PARTS = {
    "hopper": (("tma.cpp", "tma_copy.cpp", "warpgroup.cpp", "wgmma.cpp"), ()),
    "blackwell": (("tcgen05.cpp", "tensor_memory.cpp"), ("hopper",)),
    "waves": (("mfma.cpp", "simdgroup.cpp", "waves.cpp"), ()),
}
# A function with its body: void tl_emu_name(...) {
_FUNCTION = re.compile(r'^(?:extern "C" )?[\w ]+[ *](tl_emu_\w+)\([^;{]*\{', re.MULTILINE)
_RUNTIME_LINK = ("-pthread", "-lm", "-ldl")
# Generated text means what CUDA makes of it: signed numbers wrap, char is signed, no type keeps
# out another, and a product and a sum are not one operation unless the text says so.
_KERNEL_FLAGS = (
    "-fno-strict-aliasing", "-fwrapv", "-fsigned-char", "-ffp-contract=off", "-w",
    "-fno-exceptions", "-fno-rtti", "-fno-stack-protector", "-fno-math-errno",
)  # fmt: skip


@dataclass(frozen=True)
class KernelLibrary:
    """A generated text as a loaded library.

    Attributes:
        library: what is loaded.
        source: the text, whose lines debug information names.
        kernels: the names of its kernels.
        arrays: the names of what stands for registers in it, as the runtime numbers them.
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
    """Every source and header of the runtime and of the device's names, by their path.

    Headers of the device that are plain C++ are read as they are, so they count too.
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
    """Decides what the runtime's library, or that of a part, is."""
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
    apart = {name for names, _ in _PARTS.values() for name in names}
    sources = [path for path in _sources() if Path(path).name not in apart]
    return _load_sources("", sources, _UNITS, compiler, cache)


def load_parts(library: bytes, compiler: CxxCompiler, cache: DiskCache) -> None:
    """Load what a kernel's library takes its names from besides the runtime, which is loaded.

    Raises:
        CompileError: it cannot be built.
    """
    for part, (names, _) in _PARTS.items():
        if any(b"\0%s\0" % name.encode() in library for name in _functions(names)):
            _load_part(part, compiler, cache)


@lru_cache(maxsize=16)
def _load_part(part: str, compiler: CxxCompiler, cache: DiskCache) -> Any:
    names, others = _PARTS[part]
    for other in others:
        _load_part(other, compiler, cache)
    sources = [path for path in _sources() if Path(path).name in names]
    return _load_sources(part, sources, 1, compiler, cache)


def _sources() -> list[str]:
    return [path for path in runtime_files() if path.endswith(".cpp")]


@lru_cache(maxsize=8)
def _functions(names: tuple[str, ...]) -> tuple[str, ...]:
    """What kernels may call of some sources."""
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
        with _said_if_long("the emulator's runtime, once for this version and machine"):
            data = compiler.shared(units, list(units), flags, _RUNTIME_LINK)
        return Entry(data, {"kind": "emulator"})

    return _load_global(cache.fetch(runtime_key(compiler, part), make))


@contextmanager
def _said_if_long(what: str, seconds: float = 1.0) -> Iterator[None]:
    """Says what is compiled, if that takes longer."""
    text = "tilelang compiles %s; TILELANG_LOG_LEVEL=ERROR hides this line"
    timer = Timer(seconds, _log.warning, (text, what))
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


# A loop of the program, which may go on for ever.
_WHILE = re.compile(r"^( *)while \((.*)\) \{$", re.MULTILINE)

# A thread that leaves the kernel: later barriers are for those that have not.
_RETURN = re.compile(r"^( *)return;$", re.MULTILINE)


def kernel_text(source: str, kernels: Sequence[str], family: Family = CUDA) -> str:
    """``source`` as C++ with the table of its kernels behind it."""
    asking = _WHILE.sub(r"\1while (tl_emu_goes_on() && (\2)) {", family.rewrite(source))
    asking = _RETURN.sub(r"\1{ tl_emu_leave(); return; }", asking)
    return asking + "".join(f"\nTL_EMU_ENTRY({name})\n" for name in kernels)


def _own_flags(flags: Sequence[str]) -> list[str]:
    """Those flags of a program that say what its text means, as the host's compiler spells them."""
    found: list[str] = []
    for flag in kernel_flags(flags):
        if flag.startswith(BEFORE):  # behind the words of devices
            found += ["-include", "tl_types.h", "-include", flag.removeprefix(BEFORE)]
        elif flag.startswith(("-D", "-U", "-I")):
            found.append(flag)
    return found


def load_kernels(
    source: str,
    kernels: Sequence[str],
    arch: str,
    compiler: CxxCompiler,
    cache: DiskCache,
    watched: bool,
    flags: Sequence[str] = (),
    tiles: Sequence[SharedBuffer] = (),
    family: Family = CUDA,
) -> KernelLibrary:
    """A generated text as a library, compiled now or from the cache.

    Args:
        source: the generated text.
        kernels: names of its kernels.
        arch: e.g. "sm_80".
        compiler: a C++ compiler; its runtime has to be loaded.
        cache: where libraries are kept.
        watched: whether loads and stores are reported to the runtime.
        flags: of the program: ``-D``, ``-U``, ``-I``, ``-include``; others mean nothing here.
        tiles: its shared buffers, whose bounds are looked at where it is watched.
        family: the kind of text.

    Raises:
        CompileError: the text uses something that the emulator lacks.
    """
    level = ("-O1", *compiler.hooks) if watched else ("-O2",)
    always = (*compiler.lines, *compiler.probes, *_KERNEL_FLAGS)
    more = family.gcc if compiler.family == "gcc" else ()
    everything = (*level, *always, *more, *family.macros(arch), *_own_flags(flags))
    arrays: tuple[str, ...] = ()
    told = source
    if watched:
        told, arrays = rewrite_arrays(rewrite_conversions(rewrite_tiles(source, tiles), tiles))
    text = kernel_text(told, kernels, family)
    key = content_key(
        "emulated kernel",
        text,
        _digest(("emulator/include", *family.folders, "cuda/include")),
        repr(everything),
        *included_files(flags),
        compiler.identity,
    )

    def make() -> Entry:
        files = {TEXT: text, **rewritten(family)}
        try:
            with _said_if_long(f"{', '.join(kernels)} for the emulator", seconds=5.0):
                data = compiler.shared(
                    files, [TEXT], (*folder_flags(family), *everything), KERNEL_LINK
                )
        except CompileError as error:
            raise _refused(error, family) from None
        return Entry(data, {"kind": "emulated kernel"})

    entry = cache.fetch(key, make)
    load_parts(entry.data, compiler, cache)
    return KernelLibrary(load_library(entry.data, entry.path), source, tuple(kernels), arrays)


@lru_cache(maxsize=2)
def rewritten(family: Family) -> dict[str, str]:
    """Headers with their shared memory rewritten, which are found before the device's own."""
    if not family.rewritten:
        return {}
    home = f"{ROOT.parent / family.rewritten}{os.sep}"
    own = {Path(path).name: text for path, text in runtime_files().items() if path.startswith(home)}
    # Numbers of their own: those of a text begin at 0.
    return {
        name: rewrite_shared(text, first=1000 * (number + 1000))
        for number, (name, text) in enumerate(own.items())
        if "__shared__" in text.replace("#define __shared__", "")
    }


def _refused(error: CompileError, family: Family) -> CompileError:
    failure = CompileError(
        f"the generated {family.language} text cannot be compiled for the emulator",
        expected="functions of tilelang's device headers and plain C++",
        got=error.got,
        hint=f"inline assembly and headers of {family.language} need a GPU; "
        "the complete output is in the `log` attribute of this error",
    )
    failure.log = error.log
    return failure
