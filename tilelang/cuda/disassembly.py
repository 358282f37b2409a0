"""Machine code as text, by NVIDIA's own disassemblers where one is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from tilelang.cuda.nvrtc import toolkits
from tilelang.env import env
from tilelang.errors import CompileError, TileUnsupportedError
from tilelang.scratch import ScratchFolder

# Tool and its words before the file.
_TOOLS = (("nvdisasm", ("--print-code",)), ("cuobjdump", ("--dump-sass",)))
# Where pip packages keep them.
_PACKAGES = ("triton/backends/nvidia/bin", "nvidia/cu[0-9]*/bin", "nvidia/cuda_nvcc/bin")
_TIMEOUT = 120.0  # seconds


def disassemble(cubin: bytes) -> str:
    """The SASS text of a cubin.

    Raises:
        TileUnsupportedError: no disassembler is installed.
        CompileError: it does not understand the image.
    """
    import subprocess

    command = next(commands(), None)
    if command is None:
        raise TileUnsupportedError(
            "no disassembler was found",
            expected="nvdisasm or cuobjdump of a CUDA toolkit, or of the triton package",
            hint="install a CUDA toolkit; the PTX text needs no tool",
        )
    with ScratchFolder() as folder:
        file = folder / "kernel.cubin"
        file.write_bytes(cubin)
        try:
            done = subprocess.run(
                [*command, str(file)], capture_output=True, timeout=_TIMEOUT, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError("the disassembler cannot be run", got=str(error)) from error
    if done.returncode:
        raise CompileError(
            "the disassembler refused the machine code",
            got=done.stderr.decode(errors="replace").strip()[:400] or None,
        )
    return done.stdout.decode(errors="replace")


def commands() -> Iterator[tuple[str, ...]]:
    """Disassemblers of this machine with their options, best first."""
    import shutil

    path = env.get("PATH") or ""
    folders = [str(home / "bin") for home in toolkits(env.CUDA_HOME, path)]
    for package in sys.path:
        for pattern in _PACKAGES:
            folders += [str(found) for found in sorted(Path(package or ".").glob(pattern))]
    for name, options in _TOOLS:
        for folder in (*folders, path):
            found = shutil.which(name, path=folder)
            if found is not None:
                yield found, *options
