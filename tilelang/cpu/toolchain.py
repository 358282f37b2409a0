"""Finding a C compiler and turning generated C into shared libraries.

``find_compiler`` looks at ``CC``, then ``cc``, ``gcc``, ``clang``, then the ``ziglang`` package,
and asks the first one that works what it can do. The answer is kept on disk under the compiler's
path, size and time, so that a process that only loads cached kernels starts no compiler.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from tilelang.env import env
from tilelang.errors import CompileError, TileWarning
from tilelang.scratch import scratch_folders

_log = logging.getLogger("tilelang")

_NAMES = ("cc", "gcc", "clang")
_NATIVE = (("-march=native",), ("-mcpu=native",))
_OPENMP = (("-fopenmp",),)
_TIMEOUT = 600.0  # seconds; a compiler that takes longer hangs
_NO_SPACE = "No space left on device"
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


class Store(Protocol):
    """Where what is known of a compiler is kept between processes."""

    def __hash__(self) -> int:
        """Stores are told apart by identity."""

    def get_text(self, key: str) -> str | None:
        """The text kept under ``key``."""

    def put_text(self, key: str, text: str) -> None:
        """Keep a text."""


@dataclass(frozen=True)
class Compiler:
    """A C compiler that works.

    Attributes:
        command: how it is started.
        version: first line of what it says of itself.
        native: flags that allow every instruction of this machine.
        openmp: flags that turn on OpenMP; empty when it has none.
        stamp: path, size and time of the executable.
        machine: the processor that ``native`` means.
    """

    command: tuple[str, ...]
    version: str
    native: tuple[str, ...] = ()
    openmp: tuple[str, ...] = ()
    stamp: str = ""
    machine: str = ""

    @property
    def identity(self) -> str:
        """Text that differs when the produced code may differ."""
        return json.dumps(asdict(self), sort_keys=True)

    @property
    def has_openmp(self) -> bool:
        """Whether parallel regions can use OpenMP."""
        return bool(self.openmp)

    def compile_shared(self, source: str, flags: Sequence[str] = ()) -> bytes:
        """A shared library from C source.

        Args:
            source: one C file.
            flags: for compiler and linker, e.g. ``-O2``.

        Raises:
            CompileError: refused or crashed; ``log`` holds all that the compiler wrote.
        """
        words = [*self.command, _SOURCE, "-shared", "-fPIC", "-std=gnu11"]
        failure: CompileError | None = None
        for folder in scratch_folders():
            try:
                return self._run([*words, *flags, "-lm"], source, folder)
            except CompileError as error:
                if _NO_SPACE not in error.log:
                    raise
                failure = error
        raise failure or _failure("there is no directory to compile in", "")

    def _run(self, words: list[str], source: str, folder: Path) -> bytes:
        import subprocess

        target = folder / "out.so"
        variables = {**env.variables(), "TMPDIR": str(folder), "LC_ALL": "C"}
        try:
            (folder / _SOURCE).write_text(source, encoding="utf-8")
        except OSError as error:
            raise _failure("there is no room to compile", f"{_NO_SPACE}: {error}") from error
        try:
            done = subprocess.run(
                [*words, "-o", str(target)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT,
                cwd=folder,
                env=variables,
                check=False,
            )
        except OSError as error:
            raise _failure(f"the C compiler {words[0]} cannot be started", str(error)) from error
        except subprocess.TimeoutExpired as error:
            log = (error.output or b"").decode(errors="replace")
            raise _failure(f"the C compiler took longer than {_TIMEOUT:.0f} s", log) from error
        log = done.stdout.decode(errors="replace")
        if done.returncode < 0:
            raise _failure(f"the C compiler was killed by signal {-done.returncode}", log)
        try:
            data = b"" if done.returncode else target.read_bytes()
        except OSError as error:
            raise _failure("the C compiler wrote no library", f"{log}\n{error}") from error
        if not data:
            raise _failure("the C compiler refused the source", log)
        return data


def _failure(message: str, log: str) -> CompileError:
    error = CompileError(
        message,
        got=summary_of(log) or None,
        hint="the complete output is in the `log` attribute of this error",
    )
    error.log = log
    return error


def summary_of(log: str) -> str:
    """The first error in a compiler's output, without paths."""
    pattern = re.compile(r"^[^\s:]+:(\d+):(?:\d+:)? (?:fatal )?error: (.*)$", re.M)
    found = pattern.findall(log)
    if found:
        line, text = found[0]
        more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
        return f"line {line}: {text}{more}"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "undefined" in line]
    return (errors or lines or [""])[0][:200]


# -- finding one ---------------------------------------------------------------------------------
def find_compiler(store: Store | None = None, quiet: bool = False) -> Compiler | None:
    """The C compiler of this machine, or None, which is said once per process.

    Args:
        store: keeps what was found out about a compiler; without one it is asked again.
        quiet: say nothing when there is none; for those who can do without.
    """
    found = _find(env.CC, env.get("PATH"), store)
    if found is None and not quiet:
        _warn(
            "no C compiler found: kernels run in the interpreter, which is slow; "
            "install gcc or clang, or `pip install ziglang`"
        )
    return found


@lru_cache(maxsize=8)
def _find(named: str | None, path: str | None, store: Store | None) -> Compiler | None:
    for command, executable in _candidates(named, path):
        stamp = _stamp(executable)
        if stamp is None:
            continue
        found = _recall(store, command, stamp) or _probe(command, stamp)
        if found is not None:
            _keep(store, found)
            return found
        if named and command == tuple(shlex.split(named)):
            _warn(f"the compiler named by CC={named!r} does not work; trying others")
    return None


@lru_cache(maxsize=16)
def _warn(message: str) -> None:
    warnings.warn(message, TileWarning, stacklevel=4)


def _candidates(named: str | None, path: str | None) -> Iterator[tuple[tuple[str, ...], str]]:
    """Commands to try, each with the file that tells whether it has changed."""
    import shutil
    from importlib.util import find_spec

    for text in (named, *_NAMES):
        words = shlex.split(text) if text else []
        found = shutil.which(words[0], path=path) if words else None
        if found is not None:
            yield tuple(words), found
        elif words and text is named:
            _warn(f"the compiler named by CC={text!r} is not found; trying others")
    zig = find_spec("ziglang")
    if zig is not None and zig.origin is not None:
        yield (sys.executable, "-m", "ziglang", "cc"), zig.origin


def _stamp(executable: str) -> str | None:
    try:
        real = os.path.realpath(executable)
        found = os.stat(real)
    except OSError:
        return None
    return f"{real} {found.st_size} {found.st_mtime_ns}"


@lru_cache(maxsize=1)
def machine_identity() -> str:
    """What distinguishes this processor for a compiler: its name and instruction sets."""
    text = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = [platform.processor()]
    wanted = ("model name", "flags", "Features", "CPU part", "isa")
    seen = {line for line in lines if line.startswith(wanted)} or set(lines[:1])
    return text + " " + hashlib.sha256("\n".join(sorted(seen)).encode()).hexdigest()[:16]


def _store_key(command: tuple[str, ...], stamp: str) -> str:
    text = json.dumps(["compiler", 1, command, stamp, machine_identity()])
    return hashlib.sha256(text.encode()).hexdigest()


def _recall(store: Store | None, command: tuple[str, ...], stamp: str) -> Compiler | None:
    text = None if store is None else store.get_text(_store_key(command, stamp))
    if text is None:
        return None
    known: dict[str, Any] = json.loads(text)
    return Compiler(
        command=tuple(known["command"]),
        version=known["version"],
        native=tuple(known["native"]),
        openmp=tuple(known["openmp"]),
        stamp=known["stamp"],
        machine=known["machine"],
    )


def _keep(store: Store | None, found: Compiler) -> None:
    if store is not None:
        key = _store_key(found.command, found.stamp)
        if store.get_text(key) is None:
            store.put_text(key, json.dumps(asdict(found)))


def _probe(command: tuple[str, ...], stamp: str) -> Compiler | None:
    """Ask a compiler what it is and can do; None when it does not work."""
    plain = Compiler(command, _version(command), stamp=stamp, machine=machine_identity())
    if not _works(plain, _PROBE, ()):
        return None
    native = next((flags for flags in _NATIVE if _works(plain, _PROBE, flags)), ())
    openmp = next((flags for flags in _OPENMP if _works(plain, _PROBE_OPENMP, flags)), ())
    return Compiler(command, plain.version, native, openmp, stamp, plain.machine)


def _version(command: tuple[str, ...]) -> str:
    import subprocess

    try:
        done = subprocess.run([*command, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return next(iter(done.stdout.decode(errors="replace").splitlines()), "")


def _works(compiler: Compiler, source: str, flags: tuple[str, ...]) -> bool:
    """Whether a library built with ``flags`` can be made, loaded and run."""
    import ctypes
    import tempfile

    try:
        data = compiler.compile_shared(source, ("-O1", *flags))
        folder = next(env.scratch_directories(), None)
        with tempfile.NamedTemporaryFile(prefix="tilelang-", suffix=".so", dir=folder) as file:
            file.write(data)
            file.flush()
            return bool(ctypes.CDLL(file.name).tl_probe(41) == 42)
    except (CompileError, OSError, AttributeError) as error:
        _log.info("%s %s: %s", shlex.join(compiler.command), " ".join(flags), error)
        return False
