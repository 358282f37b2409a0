"""The C compiler that kernels are built with: turning generated C into shared libraries."""

from __future__ import annotations

import logging
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

from tilelang import hostcc
from tilelang.errors import CompileError
from tilelang.hostcc import HostCompiler, Store
from tilelang.records import dataclass
from tilelang.runtime.library import load_library
from tilelang.target.cores import scalable_flags

_log = logging.getLogger("tilelang")

_NAMED = ("x86-64", "x86_64")  # a processor, as gcc and clang name it, and as zig does
_NATIVE = (("-march=native",), ("-mcpu=native",))
_OPENMP = (("-fopenmp",),)
# Linux on Arm: bytes of the scalable vectors that a process gets.
_SCALABLE_BYTES = Path("/proc/sys/abi/sve_default_vector_length")
_SOURCE = "kernel.c"  # a relative name, so that the output does not depend on the directory

_PROBES = Path(__file__).resolve().parent / "probes"  # programs whose answer is one more than x
# Of ``order``, ``masks`` and ``moves``, which say what goes wrong without them.
_IN_ORDER = ((), ("-mllvm", "-enable-interleaved-mem-accesses=false"), ("-fno-vectorize",))
_COMPLEMENTS = ((), ("-fno-tree-loop-if-convert",), ("-fno-tree-vectorize",))
_NARROW = ((), ("-mmove-max=128", "-mstore-max=128"))
# Programs that some compiler miscompiles, each with the flags that avoid it, the cheapest first.
_PITFALLS = (("order", _IN_ORDER), ("masks", _COMPLEMENTS), ("moves", _NARROW))


@dataclass(frozen=True)
class Compiler(HostCompiler):
    """A C compiler that works.

    Attributes:
        careful: flags that avoid known miscompilations (``_PITFALLS``).
        underscores: it names processors x86_64_v3 and not x86-64-v3, as zig does.
        native: flags that allow every instruction of this machine.
        openmp: flags that turn on OpenMP; empty when it has none.
    """

    careful: tuple[str, ...] = ()
    underscores: bool = False
    native: tuple[str, ...] = ()
    openmp: tuple[str, ...] = ()

    language: ClassVar[str] = "C"
    variable: ClassVar[str] = "CC"
    names: ClassVar[tuple[str, ...]] = ("cc", "gcc", "clang")
    zig: ClassVar[tuple[str, ...]] = ("cc",)
    warns: ClassVar[bool] = True

    @classmethod
    def probed(cls, command: tuple[str, ...], stamp: str) -> Compiler | None:
        """Probe the kind and the features of a compiler; None if it does not work."""
        plain = cls(command, hostcc.version_of(command), stamp, hostcc.machine_identity())
        if not _can_run(plain, "plain", ()):
            return None
        dashes, underscores = (f"-march={name}" for name in _NAMED)
        if _can_run(plain, "plain", (underscores,)) and not _can_run(plain, "plain", (dashes,)):
            plain = replace(plain, underscores=True)
        for program, mends in _PITFALLS:
            tried = ("-O2", "-fopenmp-simd")
            ways = (flags for flags in mends if _can_run(plain, program, (*tried, *flags)))
            plain = replace(plain, careful=(*plain.careful, *next(ways, ())))
        native = next((flags for flags in _NATIVE if _can_run(plain, "plain", flags)), ())
        wide = (*native, *_scalable())
        if wide != native and _can_run(plain, "plain", wide):
            native = wide
        openmp = next((flags for flags in _OPENMP if _can_run(plain, "openmp", flags)), ())
        return replace(plain, native=native, openmp=openmp)

    def compile_shared(self, source: str, flags: Sequence[str] = ()) -> bytes:
        """A shared library from C source.

        Args:
            source: one C file.
            flags: for compiler and linker, e.g. ``-O2``.

        Raises:
            CompileError: refused, or crashed with and without optimization; ``log`` holds all that
                the compiler wrote.
        """
        command = [
            *self.command, _SOURCE, "-shared", "-fPIC", "-std=gnu11", *self.careful,
            *map(self._spelled, flags), "-lm",
        ]  # fmt: skip

        def build(folder: Path) -> bytes:
            hostcc.write_files(folder, {_SOURCE: source})
            target = folder / "out.so"
            command.extend(("-o", str(target)))
            try:
                log = self.run(command, folder)
            except CompileError as error:
                if "internal compiler error" not in error.log:
                    raise
                log = self.run([*command, "-O1"], folder)  # without the step that it fails in
            return self.read_library(target, log)

        return self.in_scratch(build)

    def _spelled(self, flag: str) -> str:
        option, equals, name = flag.partition("=")
        named = self.underscores and option in ("-march", "-mcpu", "-mtune")
        return option + equals + name.replace("-", "_") if named else flag


@dataclass(frozen=True)
class PlainCompiler(Compiler):
    """A C compiler that was only tested to work; enough for launchers."""

    language: ClassVar[str] = "plain C"

    @classmethod
    def probed(cls, command: tuple[str, ...], stamp: str) -> PlainCompiler | None:
        """Ask a compiler what it is; None when it does not work."""
        plain = cls(command, hostcc.version_of(command), stamp, hostcc.machine_identity())
        return plain if _can_run(plain, "plain", ()) else None


def find_compiler(store: Store | None = None, quiet: bool = False) -> Compiler | None:
    """The C compiler of this machine, or None, with one warning per process.

    Looks at ``CC``, then ``cc``, ``gcc``, ``clang``, then the ``ziglang`` package.

    Args:
        store: keeps the results of the probe; without one the compiler is probed again. quiet: do
            not warn if there is none.
    """
    compiler = hostcc.find(Compiler, store)
    if compiler is None and not quiet:
        hostcc.warn(
            "no C compiler found: kernels run in the interpreter, which is slow; "
            "install gcc or clang, or `pip install ziglang`"
        )
    return compiler


def _scalable() -> tuple[str, ...]:
    """The flags for this machine's scalable vectors, where they are wider than all of Arm's."""
    try:
        size = int(_SCALABLE_BYTES.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return ()
    return scalable_flags(size) if size in (32, 64) else ()


def _can_run(compiler: Compiler, probe: str, flags: tuple[str, ...]) -> bool:
    """Whether a library of a probe, built with ``flags``, can be made, loaded and run."""
    source = (_PROBES / f"{probe}.c").read_text(encoding="utf-8")
    try:
        data = compiler.compile_shared(source, ("-O1", *flags))
        return bool(load_library(data).handle.tl_probe(41) == 42)
    except (CompileError, OSError, AttributeError) as error:
        _log.info("%s %s: %s", shlex.join(compiler.command), " ".join(flags), error)
        return False
