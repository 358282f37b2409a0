"""Finding a C++ compiler and building shared libraries with it.

``find_cxx`` looks at ``CXX``, then ``g++``, ``clang++``, ``c++``, then the ``ziglang`` package, and
takes the first that compiles C++20 and can report loads and stores (the thread sanitizer's hooks,
without its library). The answer is kept on disk under the compiler's path, size and time.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from tilelang.cpu.toolchain import Store, machine_identity, summary_of
from tilelang.env import env
from tilelang.errors import CompileError, TileUnsupportedError
from tilelang.scratch import scratch_folders

_log = logging.getLogger("tilelang")

_NAMES = ("g++", "clang++", "c++")
_NO_SPACE = "No space left on device"
_TIMEOUT = 600.0  # seconds; a compiler that takes longer hangs
_STANDARD = ("-std=c++20", "-fPIC")
# Hooks for loads and stores; entries of functions are of no interest. A call that ends a function
# must be a call, or it has no address of its own. Accesses are to stay what the text says: those
# that are merged into vectors look misaligned, and some are not reported at all.
_HOOKS = {
    "gcc": (
        "-fsanitize=thread", "-fno-optimize-sibling-calls",
        "--param", "tsan-instrument-func-entry-exit=0",
        # No loads ahead of a loop or a condition, which the text does not make: clang knows.
        "-fno-tree-loop-im", "-fno-tree-cselim",
    ),
    "clang": (
        "-fsanitize=thread", "-fno-optimize-sibling-calls", "-fno-vectorize",
        "-fno-slp-vectorize", "-mllvm", "-tsan-instrument-func-entry-exit=0",
    ),
}  # fmt: skip
_PROBE = """#include <atomic>
#include <bit>
#include <concepts>
template <std::integral T> T next(T x) { return std::bit_cast<T>(x) + 1; }
extern "C" int tl_probe(int* x) { return next(*x); }
"""


@dataclass(frozen=True)
class CxxCompiler:
    """A C++ compiler that works.

    Attributes:
        command: how it is started.
        version: first line of what it says of itself.
        family: "gcc" or "clang", which decides the spelling of flags.
        stamp: path, size and time of the executable.
        machine: this processor.
    """

    command: tuple[str, ...]
    version: str
    family: str
    stamp: str
    machine: str

    @property
    def identity(self) -> str:
        """Text that differs when the produced code may differ."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def hooks(self) -> tuple[str, ...]:
        """Flags that make every load and store call a function."""
        return _HOOKS[self.family]

    @property
    def lines(self) -> tuple[str, ...]:
        """Flags for the least debug information that tells lines and inlined calls."""
        # Of DWARF 5 as clang writes it, addr2line finds no inlined call that has several ranges.
        return ("-g1",) if self.family == "gcc" else ("-gline-tables-only", "-gdwarf-4")

    @property
    def probes(self) -> tuple[str, ...]:
        """Flags that make large frames touch every page, for full stacks to meet their guard."""
        arm = re.search("aarch64|arm64", f"{self.machine} {self.command[0]}")
        # There gcc counts on guards of 64 KiB unless told otherwise.
        size = ("--param", "stack-clash-protection-guard-size=12")
        return ("-fstack-clash-protection", *(size if arm and self.family == "gcc" else ()))

    def shared(
        self,
        files: Mapping[str, str],
        units: Sequence[str],
        flags: Sequence[str] = (),
        link: Sequence[str] = (),
    ) -> bytes:
        """A shared library.

        Args:
            files: relative name -> text of everything that is compiled or included.
            units: the names that are compiled, side by side.
            flags: for the compiler, e.g. ``-O2``.
            link: for the linker.

        Raises:
            CompileError: refused or crashed; ``log`` holds all that the compiler wrote.
        """
        failure: CompileError | None = None
        for folder in scratch_folders():
            try:
                return self._build(folder, files, units, flags, link)
            except CompileError as error:
                if _NO_SPACE not in error.log:
                    raise
                failure = error
        raise failure or _failure("there is no directory to compile in", "")

    def _build(
        self,
        folder: Path,
        files: Mapping[str, str],
        units: Sequence[str],
        flags: Sequence[str],
        link: Sequence[str],
    ) -> bytes:
        try:
            for name, text in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise _failure("there is no room to compile", f"{_NO_SPACE}: {error}") from error
        objects = [f"{number}.o" for number in range(len(units))]
        compiling = [
            [*self.command, *_STANDARD, *flags, "-x", "c++", "-c", unit, "-o", made]
            for unit, made in zip(units, objects)
        ]
        _run_all(compiling, folder)
        target = folder / "out.so"
        # Without the default libraries the hooks stay open for our own.
        _run_all([[*self.command, "-shared", *objects, "-o", target.name, *link]], folder)
        try:
            return target.read_bytes()
        except OSError as error:
            raise _failure("the C++ compiler wrote no library", str(error)) from error


def _run_all(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Run commands side by side, as many as there are cores."""
    from concurrent.futures import ThreadPoolExecutor

    if len(commands) == 1:
        _run(commands[0], folder)
        return
    with ThreadPoolExecutor(max(1, min(len(commands), os.cpu_count() or 1))) as pool:
        list(pool.map(lambda words: _run(words, folder), commands))


def _run(words: Sequence[str], folder: Path) -> None:
    import subprocess

    variables = {**env.variables(), "TMPDIR": str(folder), "LC_ALL": "C"}
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=_TIMEOUT,
            cwd=folder,
            env=variables,
            check=False,
        )
    except OSError as error:
        raise _failure(f"the C++ compiler {words[0]} cannot be started", str(error)) from error
    except subprocess.TimeoutExpired as error:
        log = (error.output or b"").decode(errors="replace")
        raise _failure(f"the C++ compiler took longer than {_TIMEOUT:.0f} s", log) from error
    log = done.stdout.decode(errors="replace")
    if done.returncode < 0:
        raise _failure(f"the C++ compiler was killed by signal {-done.returncode}", log)
    if done.returncode:
        raise _failure("the C++ compiler refused the source", log)


def _failure(message: str, log: str) -> CompileError:
    error = CompileError(
        message,
        got=summary_of(log) or None,
        hint="the complete output is in the `log` attribute of this error",
    )
    error.log = log
    return error


# -- finding one -----------------------------------------------------------------------------------
def find_cxx(store: Store | None = None) -> CxxCompiler | None:
    """The C++ compiler of this machine, or None.

    Args:
        store: keeps what was found out about a compiler; without one it is asked again.
    """
    return _find(env.CXX, env.get("PATH"), store)


def need_cxx(store: Store | None = None) -> CxxCompiler:
    """The C++ compiler of this machine.

    Raises:
        TileUnsupportedError: there is none.
    """
    found = find_cxx(store)
    if found is not None:
        return found
    named = env.CXX
    raise TileUnsupportedError(
        "the emulator needs a C++ compiler, and none was found",
        expected="g++ 11 or later, clang++ 14 or later, what CXX names, or the ziglang package",
        got="nothing that works" + (f", CXX={named!r} included" if named else ""),
        hint="`pip install tilelang[zig]` brings one that needs nothing else",
    )


@lru_cache(maxsize=8)
def _find(named: str | None, path: str | None, store: Store | None) -> CxxCompiler | None:
    for command, executable in _candidates(named, path):
        stamp = _stamp(executable)
        if stamp is None:
            continue
        found = _recall(store, command, stamp) or _probe(command, stamp)
        if found is not None:
            _keep(store, found)
            return found
    return None


def _candidates(named: str | None, path: str | None) -> Iterator[tuple[tuple[str, ...], str]]:
    """Commands to try, each with the file that tells whether it has changed."""
    import shutil
    from importlib.util import find_spec

    for text in (named, *_NAMES):
        words = shlex.split(text) if text else []
        found = shutil.which(words[0], path=path) if words else None
        if found is not None:
            yield tuple(words), found
    zig = find_spec("ziglang")
    if zig is not None and zig.origin is not None:
        # zig traps on what C++ leaves undefined; generated code means what CUDA makes of it.
        yield (sys.executable, "-m", "ziglang", "c++", "-fno-sanitize=undefined"), zig.origin


def _stamp(executable: str) -> str | None:
    try:
        real = os.path.realpath(executable)
        found = os.stat(real)
    except OSError:
        return None
    return f"{real} {found.st_size} {found.st_mtime_ns}"


def _store_key(command: tuple[str, ...], stamp: str) -> str:
    text = json.dumps(["c++ compiler", 1, command, stamp, machine_identity()])
    return hashlib.sha256(text.encode()).hexdigest()


def _recall(store: Store | None, command: tuple[str, ...], stamp: str) -> CxxCompiler | None:
    text = None if store is None else store.get_text(_store_key(command, stamp))
    if text is None:
        return None
    known = json.loads(text)
    return CxxCompiler(
        tuple(known["command"]), known["version"], known["family"], known["stamp"], known["machine"]
    )


def _keep(store: Store | None, found: CxxCompiler) -> None:
    if store is not None:
        key = _store_key(found.command, found.stamp)
        if store.get_text(key) is None:
            store.put_text(key, json.dumps(asdict(found)))


def _probe(command: tuple[str, ...], stamp: str) -> CxxCompiler | None:
    """Ask a compiler what it is and can do; None when it does not work."""
    version = _version(command)
    family = "clang" if re.search(r"clang", version, re.IGNORECASE) else "gcc"
    found = CxxCompiler(command, version, family, stamp, machine_identity())
    try:
        found.shared({"probe.cpp": _PROBE}, ["probe.cpp"], ("-O1", *found.hooks), KERNEL_LINK)
    except CompileError as error:
        _log.info("%s: %s", shlex.join(command), error)
        return None
    return found


#: A kernel's library takes everything from the runtime, which is loaded before it.
KERNEL_LINK = ("-nostdlib",)


def _version(command: tuple[str, ...]) -> str:
    import subprocess

    try:
        done = subprocess.run([*command, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter(done.stdout.decode(errors="replace").splitlines()), "")
