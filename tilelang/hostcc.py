"""Finding a compiler of this machine for C or C++, and running it.

A language is a subclass of :class:`HostCompiler`: it says which commands to try and what one must
be able to do. :func:`find` asks the first that works; the answer is kept on disk under the
compiler's path, size and time, so that a process that only loads cached kernels starts no compiler.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from tilelang.env import env
from tilelang.errors import CompileError
from tilelang.records import dataclass
from tilelang.scratch import scratch_folders
from tilelang.warning import warn_caller

TIMEOUT = 600.0  # seconds; a compiler that takes longer hangs
_NO_SPACE = "No space left on device"


class Store(Protocol):
    """Where what is known of a compiler is kept between processes."""

    def __hash__(self) -> int:
        """Stores are compared by identity."""

    def get_text(self, key: str) -> str | None:
        """The text kept under ``key``."""

    def put_text(self, key: str, text: str) -> None:
        """Keep a text."""


C = TypeVar("C", bound="HostCompiler")


def run(command: Sequence[str], folder: Path) -> tuple[int, str]:
    """Start a compiler in a folder; gives its exit code and what it said.

    Raises:
        OSError: it cannot be started.
        subprocess.TimeoutExpired: it hangs.
    """
    import subprocess

    process = subprocess.run(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=TIMEOUT, cwd=folder, check=False,
        env={**env.variables(), "TMPDIR": str(folder), "LC_ALL": "C"},
    )  # fmt: skip
    return process.returncode, process.stdout.decode(errors="replace")


@dataclass(frozen=True)
class HostCompiler(ABC):
    """A compiler that works.

    Attributes:
        command: how it is started.
        version: first line of what it says of itself.
        stamp: path, size and time of the executable.
        machine: the processor that code for "this machine" means.
    """

    command: tuple[str, ...]
    version: str
    stamp: str = ""
    machine: str = ""

    # Of a language: its name, the variable that names a compiler, commands to try after that one,
    # what the package ziglang calls it, and whether to warn of a variable that names no compiler.
    language: ClassVar[str]
    variable: ClassVar[str]
    names: ClassVar[tuple[str, ...]]
    zig: ClassVar[tuple[str, ...]]
    warns: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def probed(cls: type[C], command: tuple[str, ...], stamp: str) -> C | None:
        """Ask a compiler what it is and can do; None when it does not work."""

    @property
    def identity(self) -> str:
        """Text that differs when the produced code may differ."""
        return json.dumps(asdict(self), sort_keys=True)

    def in_scratch(self, build: Callable[[Path], bytes]) -> bytes:
        """Run ``build`` in a new folder; on the next file system when one has no room.

        Raises:
            CompileError: of the last place, or of the first that is not about room.
        """
        failure: CompileError | None = None
        for folder in scratch_folders():
            try:
                return build(folder)
            except CompileError as error:
                if _NO_SPACE not in error.log:
                    raise
                failure = error
        raise failure or failed("there is no directory to compile in", "")

    def run(self, command: Sequence[str], folder: Path) -> str:
        """Start the compiler with these words in a folder; gives what it wrote.

        Raises:
            CompileError: refused, crashed, or too slow; ``log`` holds all that it wrote.
        """
        import subprocess

        name = f"the {self.language} compiler"
        try:
            code, log = run(command, folder)
        except OSError as error:
            raise failed(f"{name} {command[0]} cannot be started", str(error)) from error
        except subprocess.TimeoutExpired as error:
            log = (error.output or b"").decode(errors="replace")
            raise failed(f"{name} took longer than {TIMEOUT:.0f} s", log) from error
        if code < 0:
            raise failed(f"{name} was killed by signal {-code}", log)
        if code:
            raise failed(f"{name} refused the source", log)
        return log

    def read_library(self, library: Path, log: str = "") -> bytes:
        """The library that a run has written.

        Raises:
            CompileError: there is none.
        """
        try:
            data, reason = library.read_bytes(), ""
        except OSError as error:
            data, reason = b"", str(error)
        if not data:
            raise failed(f"the {self.language} compiler wrote no library", f"{log}\n{reason}")
        return data


def write_files(folder: Path, files: dict[str, str]) -> None:
    """Write texts under their relative names.

    Raises:
        CompileError: there is no room.
    """
    try:
        for name, text in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise failed("there is no room to compile", f"{_NO_SPACE}: {error}") from error


def failed(message: str, log: str) -> CompileError:
    """The error of a compiler that wrote ``log``."""
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
    matches = pattern.findall(log)
    if matches:
        line, text = matches[0]
        more = f" (and {len(matches) - 1} more)" if len(matches) > 1 else ""
        return f"line {line}: {text}{more}"
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower() or "undefined" in line]
    return (errors or lines or [""])[0][:200]


# -- finding one -----------------------------------------------------------------------------------
def find(kind: type[C], store: Store | None = None) -> C | None:
    """The first compiler of a language that works, or None.

    Args:
        kind: the language.
        store: keeps what was found out about a compiler; without one it is asked again.
    """
    named, path = getattr(env, kind.variable), env.get("PATH")
    compiler = _find(kind, named, path, store)
    assert compiler is None or isinstance(compiler, kind)
    return compiler


@lru_cache(maxsize=16)
def _find(
    kind: type[HostCompiler], named: str | None, path: str | None, store: Store | None
) -> HostCompiler | None:
    for command, executable in candidates(kind, named, path):
        stamp = _stamp(executable)
        if stamp is None:
            continue
        compiler = _recall(kind, store, command, stamp) or kind.probed(command, stamp)
        if compiler is not None:
            _keep(store, compiler)
            return compiler
        if kind.warns and named and command == tuple(_words(named)):
            variable = kind.variable
            warn(f"the compiler named by {variable}={named!r} does not work; trying others")
    return None


def forget() -> None:
    """Look again at the next :func:`find`, and warn again."""
    _find.cache_clear()
    warn.cache_clear()


@lru_cache(maxsize=16)
def warn(message: str) -> None:
    """Warn once per process."""
    warn_caller(message)


def candidates(
    kind: type[HostCompiler], named: str | None, path: str | None
) -> Iterator[tuple[tuple[str, ...], str]]:
    """Commands to try, each with the file that tells whether it has changed."""
    import shutil
    from importlib.util import find_spec

    for text in (named, *kind.names):
        arguments = _words(text) if text else []
        executable = shutil.which(arguments[0], path=path) if arguments else None
        if executable is not None:
            yield tuple(arguments), executable
        elif text and text is named and kind.warns:
            why = "is not found" if arguments else "is not a command: a quote is not closed"
            warn(f"the compiler named by {kind.variable}={text!r} {why}; trying others")
    zig = find_spec("ziglang")
    if zig is not None and zig.origin is not None:
        program = shutil.which("zig", path=str(Path(zig.origin).parent))
        if program is not None:  # not `python -m`, which imports from the current directory
            yield (program, *kind.zig), program


def _words(command: str) -> list[str]:
    """The words of a command as a shell has them; none where a quote is not closed."""
    try:
        return shlex.split(command)
    except ValueError:
        return []


def _stamp(executable: str) -> str | None:
    try:
        real = os.path.realpath(executable)
        status = os.stat(real)
    except OSError:
        return None
    return f"{real} {status.st_size} {status.st_mtime_ns}"


@lru_cache(maxsize=1)
def machine_identity() -> str:
    """The identity of this processor for a compiler: its name and instruction sets."""
    text = platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        lines = [platform.processor()]
    fields = ("model name", "flags", "Features", "CPU part", "isa")
    seen = {line for line in lines if line.startswith(fields)} or set(lines[:1])
    return text + " " + hashlib.sha256("\n".join(sorted(seen)).encode()).hexdigest()[:16]


def _store_key(kind: type[HostCompiler], command: tuple[str, ...], stamp: str) -> str:
    text = json.dumps([f"{kind.language} compiler", 5, command, stamp, machine_identity()])
    return hashlib.sha256(text.encode()).hexdigest()


def _recall(
    kind: type[HostCompiler], store: Store | None, command: tuple[str, ...], stamp: str
) -> HostCompiler | None:
    text = None if store is None else store.get_text(_store_key(kind, command, stamp))
    if text is None:
        return None
    known: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in json.loads(text).items()
    }
    return kind(**known)


def _keep(store: Store | None, compiler: HostCompiler) -> None:
    if store is not None:
        key = _store_key(type(compiler), compiler.command, compiler.stamp)
        if store.get_text(key) is None:
            store.put_text(key, json.dumps(asdict(compiler)))


def version_of(command: tuple[str, ...]) -> str:
    """The first line of what a compiler says of itself; empty when it says nothing."""
    return next(iter(versions_of(command).splitlines()), "")


def versions_of(command: Sequence[str]) -> str:
    """The version text of a compiler; empty if it prints none."""
    import subprocess

    try:
        run = subprocess.run([*command, "--version"], capture_output=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stdout.decode(errors="replace")
