"""Random programs as C for another machine: built by a cross compiler, run by an emulator of it.

The executable is one file: the generated text and a `main` that reads the arguments of ``tl_call``
from a file and writes the tensors back.
"""

from __future__ import annotations

import shlex
import struct
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilelang.compiler import compile as compile_text
from tilelang.cpu.executable import BASE_FLAGS
from tilelang.cpu.module import INCLUDE_DIR
from tilelang.target import parse_target

from .model import Disagreement, Program

# A file has the number of slots and then for each its kind (1: bytes behind a pointer) and a value
# (or the number of bytes, and they).
DRIVER = r"""
#include <stdio.h>
int main(int argc, char** argv) {
    FILE* file = fopen(argv[argc - 1], "r+b");
    int64_t count = 0, head[2], slots[64], sizes[64];
    if (!file || fread(&count, 8, 1, file) != 1 || count > 64) return 3;
    for (int64_t i = 0; i < count; ++i) {
        if (fread(head, 8, 2, file) != 2) return 3;
        sizes[i] = head[0] ? head[1] : 0;
        slots[i] = head[0] ? (int64_t)(intptr_t)malloc(head[1] + 64) : head[1];
        if (head[0] && fread((void*)(intptr_t)slots[i], 1, head[1], file) != (size_t)head[1]) return 3;
    }
    const int32_t error = tl_call(slots);
    fseek(file, 0, SEEK_SET);
    for (int64_t i = 0; i < count; ++i) fwrite((void*)(intptr_t)slots[i], 1, sizes[i], file);
    fclose(file);
    return error ? 4 : 0;
}
"""


@dataclass(frozen=True)
class Cross:
    """Another machine: ``arch`` as a target names it, the command of its C compiler, and that of
    its emulator; without one, programs are only built."""

    arch: str
    compiler: str
    runner: str = ""

    def execute(self, program: Program, func: Any, values: dict[str, Any]) -> dict[str, np.ndarray]:
        """Results of the program for arguments by name; none where it is only built.

        Raises Disagreement.
        """
        artifact = compile_text(func, parse_target(f"cpu -arch={self.arch}"))
        source = "#include <stdlib.h>\n" + artifact.source + DRIVER
        sizes = {
            dim: size
            for tensor in program.tensors
            for dim, size in zip(tensor.dims, tensor.shape, strict=True)
        }
        slots = [values[name] for name in program.order]
        slots += [sizes[name] for name in artifact.symbols]
        with tempfile.TemporaryDirectory() as folder:
            built = Path(folder, "program")
            Path(folder, "program.c").write_text(source, encoding="utf-8")
            words = [*shlex.split(self.compiler), "program.c", "-std=gnu11", *BASE_FLAGS,
                     *artifact.flags, f"-I{INCLUDE_DIR}", "-o", "program", "-pthread"]  # fmt: skip
            words += ["-static", "-lm"] if self.runner else ["-lm"]
            self.checked(program, words, folder)
            if not self.runner:
                return {}
            data = Path(folder, "data")
            data.write_bytes(encoded(slots))
            self.checked(program, [*shlex.split(self.runner), str(built), str(data)], folder)
            found = decoded(data.read_bytes(), slots)
        after = dict(zip(program.order, found))
        return {
            tensor.name: after[tensor.name] for tensor in program.tensors if tensor.role != "in"
        }

    def checked(self, program: Program, words: list[str], folder: str) -> None:
        """Run a command; what it says is the failure."""
        variables = {"OMP_NUM_THREADS": "1", "LC_ALL": "C", "PATH": "/usr/bin:/bin:/usr/local/bin"}
        done = subprocess.run(words, cwd=folder, env=variables, capture_output=True, check=False)
        if done.returncode:
            said = (done.stderr + done.stdout).decode(errors="replace").strip()
            detail = f"{words[0]} gives {done.returncode}: {said[:600]}"
            raise Disagreement(program.source, "the build", detail)


def owner(array: np.ndarray) -> np.ndarray:
    """The array that has all bytes between the first and the last of ``array``."""
    return array if array.flags.c_contiguous or array.base is None else array.base


def encoded(slots: list[Any]) -> bytes:
    """The file that the executable reads."""
    out = struct.pack("<q", len(slots))
    for value in slots:
        if isinstance(value, np.ndarray):
            raw = owner(value).tobytes()
            out += struct.pack("<qq", 1, len(raw)) + raw
        elif isinstance(value, float):
            out += struct.pack("<qd", 0, value)
        else:
            out += struct.pack("<qq", 0, int(value))
    return out


def decoded(data: bytes, slots: list[Any]) -> list[Any]:
    """The slots after the call."""
    found, at = [], 0
    for value in slots:
        if isinstance(value, np.ndarray):
            whole = np.frombuffer(data, value.dtype, owner(value).size, at)
            found.append(whole.reshape(value.shape) if owner(value) is value else value)
            at += whole.nbytes
        else:
            found.append(value)
    return found
