"""Kernels on the emulator's runtime built for another machine, which another program runs.

``TL_TEST_RUNNER`` is that program, e.g. ``qemu-aarch64-static -L /usr/aarch64-linux-gnu``, and ``CXX``
the compiler that builds for the machine. `tests.emulator.machine` asks here when both are set.
"""

from __future__ import annotations

import ctypes
import os
import shlex
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tilelang.emulator import build
from tilelang.emulator.compilers import CxxCompiler

HERE = Path(__file__).parent
FOLDERS = [f"-I{build.ROOT / name}" for name in ("include", "runtime")]
RUNTIME_FLAGS = ("-O1", "-pthread", "-fno-strict-aliasing")
SECONDS = 300  # of one kernel


def runner() -> list[str]:
    """The program that runs programs of the other machine; nothing when it is this one."""
    return shlex.split(os.environ.get("TL_TEST_RUNNER", ""))


@lru_cache(maxsize=1)
def _folder() -> Path:
    """Holds what is built, kept where ``TILELANG_CACHE_DIR`` names a place."""
    kept = os.environ.get("TILELANG_CACHE_DIR")
    made = Path(kept) if kept else Path(tempfile.mkdtemp(prefix="tilelang-remote-"))
    made.mkdir(parents=True, exist_ok=True)
    return made


@lru_cache(maxsize=1)
def built(compiler: CxxCompiler) -> tuple[Path, Path]:
    """The runtime and the program that loads it and a kernel."""
    folder = _folder()
    key = build.runtime_key(compiler)[:16]
    runtime, program = folder / f"runtime-{key}.so", folder / f"remote-{key}"
    if not runtime.exists():
        units = [name for name in build.runtime_files() if name.endswith(".cpp")]
        flags = (*FOLDERS, *RUNTIME_FLAGS)
        runtime.write_bytes(compiler.shared({}, units, flags, ("-pthread", "-lm", "-ldl")))
    words = [*compiler.command, "-std=c++20", "-O1", *FOLDERS, str(HERE / "remote.cpp")]
    subprocess.run([*words, "-o", str(program), "-ldl", "-pthread"], check=True)
    return runtime, program


def run(
    compiler: CxxCompiler, kernel: bytes, entry: str, request: Any, args: Sequence[Any],
    read_only: Sequence[int], tiles: bytes, types: Sequence[Any], rooms: Sequence[int],
) -> tuple[int, Any, list[list[Any]]]:  # fmt: skip
    """Launch ``entry``; numpy arrays among ``args`` take what the kernel left in them.

    Args:
        request: a Launch; its pointers are filled in over there.
        types: Report, Finding, Site, Event.
        rooms: how many of the last three are kept.

    Returns:
        The code, the report, and its lists.
    """
    runtime, program = built(compiler)
    parts = [bytes(request), struct.pack("<4Q", *rooms, len(args))]
    for number, arg in enumerate(args):
        if isinstance(arg, np.ndarray):
            head = (arg.nbytes, 1, number, number not in read_only)
            parts += [struct.pack("<4Q", *head), arg.tobytes()]
        else:
            parts += [struct.pack("<2Q", ctypes.sizeof(arg), 0), bytes(arg)]
    with tempfile.TemporaryDirectory() as scratch:
        names = [Path(scratch) / name for name in ("kernel.so", "request", "answer")]
        names[0].write_bytes(kernel)
        names[1].write_bytes(b"".join([*parts, tiles]))
        words = [*runner(), program, runtime, names[0], entry, *names[1:]]
        subprocess.run(list(map(str, words)), check=True, timeout=SECONDS)
        data = names[2].read_bytes()
    at = 8
    (code,) = struct.unpack_from("<q", data)
    report = types[0].from_buffer_copy(data, at)
    at += ctypes.sizeof(types[0])
    lists: list[list[Any]] = []
    counts = (report.finding_count, report.site_count, report.event_count)
    for kind, count in zip(types[1:], counts):
        lists.append(
            [kind.from_buffer_copy(data, at + n * ctypes.sizeof(kind)) for n in range(count)]
        )
        at += count * ctypes.sizeof(kind)
    for arg in args:
        if isinstance(arg, np.ndarray):
            arg[...] = np.frombuffer(data, arg.dtype, arg.size, at).reshape(arg.shape)
            at += arg.nbytes
    return code, report, lists
