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

_PROBE = "int tl_probe(int x) { return x + 1; }\n"
# Links and loads OpenMP but starts no threads: a process that has some can no longer fork freely.
_PROBE_OPENMP = """#include <omp.h>
int tl_probe(int x) {
    int sum = omp_get_max_threads() > 0;
    if (x < 0) {
        #pragma omp parallel for reduction(+:sum)
        for (int i = x; i < 0; ++i) sum += 1;
    }
    return x + sum;
}
"""

# clang 14 reads a[3 t + 1] of several iterations together with a[3 t], before the store in between;
# clang 20 does not. The answer is right where nothing is read too early.
_PROBE_ORDER = """
__attribute__((noinline)) static void mix(unsigned* a, unsigned* b) {
    for (long t = 0; t < 96; ++t) {
        unsigned x = a[t * 3];
        for (int k = 0; k < 12; ++k) x ^= (x << 3) + k, x ^= x >> 5;
        a[t * 3 + 1] = x;
        for (long q = 0; q < 3; ++q) b[t * 3 + q] = a[t * 3 + q];
    }
}
int tl_probe(int x) {
    unsigned a[288], b[288];
    for (int i = 0; i < 288; ++i) a[i] = (unsigned)(i + x);
    mix(a, b);
    int right = 1;
    for (int i = 0; i < 288; ++i) right &= b[i] == a[i];
    return x + right;
}
"""
_IN_ORDER = ((), ("-mllvm", "-enable-interleaved-mem-accesses=false"), ("-fno-vectorize",))
# gcc 13 makes masks of conditions: of a mask and its complement it takes the second to be set where
# the first is, after it has folded a true to 1 where an element of a mask is -1. Without conditions
# in vectorised loops there are no such masks. Kernels of ours have their vectors already.
_PROBE_MASKS = """
#if defined(__x86_64__)
#define TL_MASKED __attribute__((noinline, target("avx2")))
#define TL_CAN __builtin_cpu_supports("avx2")
#else
#define TL_MASKED __attribute__((noinline))
#define TL_CAN 1
#endif
TL_MASKED static void either(double* to, const double* from, double* also) {
    for (long i = 0; i < 20; ++i) {
        #pragma omp simd
        for (long j = 0; j < 3; ++j) {
            to[i * 3 + j] = i < 5 && j < 2 ? from[i * 2 + j] : 0.0;
            if (i < 5 && j < 2) also[i * 2 + j] = to[i * 3 + j];
        }
    }
}
int tl_probe(int x) {
    double to[60], from[10], also[10];
    int right = 1;
    for (int i = 0; i < 10; ++i) from[i] = i + x;
    if (TL_CAN) {
        either(to, from, also);
        for (int i = 0; i < 60; ++i)
            right &= to[i] == (i < 15 && i % 3 < 2 ? from[i / 3 * 2 + i % 3] : 0.0);
    }
    return x + right;
}
"""
_COMPLEMENTS = ((), ("-fno-tree-loop-if-convert",), ("-fno-tree-vectorize",))
# gcc 12.2 moves 64 constant bytes as one integer, of which it keeps no leading zeros. Where the
# other words are equal, it broadcasts them to all. Moves of 16 bytes hold no such integers; vectors
# have the width that they had.
_PROBE_MOVES = """
#ifdef __x86_64__
typedef unsigned long words __attribute__((vector_size(64), aligned(8)));
__attribute__((noinline, target("avx512f"))) static void start(unsigned long* to) {
    unsigned long from[8];
    *(words*)from = (words){5, 5, 5, 5};
    __builtin_memcpy(to, from, sizeof from);
}
int tl_probe(int x) {
    unsigned long to[8] = {0};
    if (__builtin_cpu_supports("avx512f")) start(to);
    return x + !to[7];
}
#else
int tl_probe(int x) { return x + 1; }
#endif
"""
_NARROW = ((), ("-mmove-max=128", "-mstore-max=128"))
# Programs that some compiler miscompiles, each with the flags that avoid it, the cheapest first.
_PITFALLS = (
    (_PROBE_ORDER, _IN_ORDER), (_PROBE_MASKS, _COMPLEMENTS), (_PROBE_MOVES, _NARROW),
)  # fmt: skip


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
        if not _works(plain, _PROBE, ()):
            return None
        dashes, underscores = (f"-march={name}" for name in _NAMED)
        if _works(plain, _PROBE, (underscores,)) and not _works(plain, _PROBE, (dashes,)):
            plain = replace(plain, underscores=True)
        for program, mends in _PITFALLS:
            tried = ("-O2", "-fopenmp-simd")
            ways = (flags for flags in mends if _works(plain, program, (*tried, *flags)))
            plain = replace(plain, careful=(*plain.careful, *next(ways, ())))
        native = next((flags for flags in _NATIVE if _works(plain, _PROBE, flags)), ())
        wide = (*native, *_scalable())
        if wide != native and _works(plain, _PROBE, wide):
            native = wide
        openmp = next((flags for flags in _OPENMP if _works(plain, _PROBE_OPENMP, flags)), ())
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
        return plain if _works(plain, _PROBE, ()) else None


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


def _works(compiler: Compiler, source: str, flags: tuple[str, ...]) -> bool:
    """Whether a library built with ``flags`` can be made, loaded and run."""
    try:
        data = compiler.compile_shared(source, ("-O1", *flags))
        return bool(load_library(data).handle.tl_probe(41) == 42)
    except (CompileError, OSError, AttributeError) as error:
        _log.info("%s %s: %s", shlex.join(compiler.command), " ".join(flags), error)
        return False
