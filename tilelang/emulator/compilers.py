"""The C++ compiler that builds kernels for the emulator.

It must know C++20 and be able to report loads and stores (the thread sanitizer's hooks, without
its library).
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from tilelang import hostcc
from tilelang.env import env
from tilelang.errors import CompileError, TileUnsupportedError
from tilelang.hostcc import HostCompiler, Store
from tilelang.records import dataclass

_log = logging.getLogger("tilelang")

#: The symbols of a kernel's library are those of the runtime, which is loaded before it.
KERNEL_LINK = ("-nostdlib",)
_STANDARD = ("-std=c++20", "-fPIC")
# Hooks for loads, stores and indices outside of arrays, but not for entries of functions. Tail
# calls stay calls, so that each has a return address. Accesses stay as the source has them: merged
# into vectors they look misaligned, and some would not be reported at all.
_HOOKS = {
    "gcc": (
        "-fsanitize=thread", "-fno-optimize-sibling-calls",
        "--param", "tsan-instrument-func-entry-exit=0",
        # No speculative loads ahead of a loop or a condition (clang makes none).
        "-fno-tree-loop-im", "-fno-tree-cselim",
        "-fsanitize=bounds",
    ),
    "clang": (
        "-fsanitize=thread", "-fno-optimize-sibling-calls", "-fno-vectorize",
        "-fno-slp-vectorize", "-mllvm", "-tsan-instrument-func-entry-exit=0",
        "-fsanitize=array-bounds", "-fno-sanitize-trap=array-bounds",
    ),
}  # fmt: skip
_PROBE = """#include <atomic>
#include <bit>
#include <concepts>
template <std::integral T> T next(T x) { return std::bit_cast<T>(x) + 1; }
extern "C" int tl_probe(int* x) { return next(*x); }
"""


@dataclass(frozen=True)
class CxxCompiler(HostCompiler):
    """A C++ compiler that works.

    Attributes:
        family: "gcc" or "clang", which decides the spelling of flags.
    """

    family: str = "gcc"

    language: ClassVar[str] = "C++"
    variable: ClassVar[str] = "CXX"
    names: ClassVar[tuple[str, ...]] = ("g++", "clang++", "c++")
    # zig traps on undefined behaviour of C++ that CUDA defines.
    zig: ClassVar[tuple[str, ...]] = ("c++", "-fno-sanitize=undefined")

    @classmethod
    def probed(cls, command: tuple[str, ...], stamp: str) -> CxxCompiler | None:
        """Probe the kind and the features of a compiler; None if it does not work."""
        version = hostcc.version_of(command)
        family = "clang" if re.search(r"clang", version, re.IGNORECASE) else "gcc"
        compiler = cls(command, version, stamp, hostcc.machine_identity(), family)
        try:
            compiler.shared(
                {"probe.cpp": _PROBE}, ["probe.cpp"], ("-O1", *compiler.hooks), KERNEL_LINK
            )
        except CompileError as error:
            _log.info("%s: %s", shlex.join(command), error)
            return None
        return compiler

    @property
    def hooks(self) -> tuple[str, ...]:
        """Flags that make every load and store call a function."""
        return _HOOKS[self.family]

    @property
    def roomy(self) -> tuple[str, ...]:
        """Flags with which gcc collects garbage less often."""
        more = ("--param", "ggc-min-expand=1000", "--param", "ggc-min-heapsize=1000000")
        return more if self.family == "gcc" else ()

    @property
    def lines(self) -> tuple[str, ...]:
        """Flags for the least debug information that has lines and inlined calls."""
        # In DWARF 5 of clang, addr2line finds no inlined call that has several address ranges.
        return ("-g1",) if self.family == "gcc" else ("-gline-tables-only", "-gdwarf-4")

    @property
    def probes(self) -> tuple[str, ...]:
        """Flags that make large frames touch every page, so that an overflow hits the guard
        page."""
        arm = re.search("aarch64|arm64", f"{self.machine} {self.command[0]}")
        # On Arm gcc assumes guards of 64 KiB by default.
        size = ("--param", "stack-clash-protection-guard-size=12")
        return ("-fstack-clash-protection", *(size if arm and self.family == "gcc" else ()))

    def shared(
        self, files: Mapping[str, str], units: Sequence[str], flags: Sequence[str] = (),
        link: Sequence[str] = (),
    ) -> bytes:  # fmt: skip
        """A shared library.

        Args:
            files: relative name -> text of everything that is compiled or included.
            units: the names of what is compiled, in parallel.
            flags: for the compiler, e.g. ``-O2``.
            link: for the linker.

        Raises:
            CompileError: refused or crashed; ``log`` holds all that the compiler wrote.
        """
        objects = [f"{number}.o" for number in range(len(units))]
        compiling = [
            [*self.command, *_STANDARD, *flags, "-x", "c++", "-c", unit, "-o", output]
            for unit, output in zip(units, objects)
        ]

        def build(folder: Path) -> bytes:
            hostcc.write_files(folder, dict(files))
            self._run_all(compiling, folder)
            target = folder / "out.so"
            # Without the default libraries the hooks stay open for our own.
            log = self.run([*self.command, "-shared", *objects, "-o", target.name, *link], folder)
            return self.read_library(target, log)

        return self.in_scratch(build)

    def _run_all(self, commands: Sequence[Sequence[str]], folder: Path) -> None:
        """Run commands in parallel, as many as there are cores."""
        from concurrent.futures import ThreadPoolExecutor

        if len(commands) == 1:
            self.run(commands[0], folder)
            return
        with ThreadPoolExecutor(max(1, min(len(commands), os.cpu_count() or 1))) as pool:
            list(pool.map(lambda command: self.run(command, folder), commands))


def find_cxx(store: Store | None = None) -> CxxCompiler | None:
    """The C++ compiler of this machine, or None.

    Looks at ``CXX``, then ``g++``, ``clang++``, ``c++``, then the ``ziglang`` package.

    Args:
        store: keeps the results of the probe; without one the compiler is probed again.
    """
    return hostcc.find(CxxCompiler, store)


def need_cxx(store: Store | None = None) -> CxxCompiler:
    """The C++ compiler of this machine.

    Raises:
        TileUnsupportedError: there is none.
    """
    compiler = find_cxx(store)
    if compiler is not None:
        return compiler
    named = env.CXX
    raise TileUnsupportedError(
        "the emulator needs a C++ compiler, and none was found",
        expected="g++ 11 or later, clang++ 14 or later, what CXX names, or the ziglang package",
        got="nothing that works" + (f", CXX={named!r} included" if named else ""),
        hint="`pip install ziglang pyelftools` brings one",
    )
