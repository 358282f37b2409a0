"""Search paths of NVIDIA's libraries and tools: toolkits, packages, and cuda-pathfinder."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tilelang.env import env

# Where pip packages keep tools.
_PACKAGES = ("nvidia/cu[0-9]*/bin", "nvidia/cuda_nvcc/bin", "triton/backends/nvidia/bin")


def toolkits(home: str | None, path: str) -> Iterator[Path]:
    """Directories of CUDA toolkits: named, usual, and around an ``nvcc`` on the search path."""
    import shutil

    if home:
        yield Path(home)
    yield Path("/usr/local/cuda")
    compiler = shutil.which("nvcc", path=path)
    if compiler is not None:
        yield Path(os.path.realpath(compiler)).parent.parent


def executable(name: str) -> str | None:
    """A tool of a toolkit, on the search path, or of packages that Python can import."""
    import shutil

    path = env.get("PATH") or ""
    folders = [*(str(home / "bin") for home in toolkits(env.CUDA_HOME, path)), path]
    for package in sys.path:
        for pattern in _PACKAGES:
            folders += map(str, sorted(Path(package or ".").glob(pattern), reverse=True))
    program = shutil.which(name, path=os.pathsep.join(filter(None, folders)))
    return program or by_pathfinder(lambda finder: finder.find_nvidia_binary_utility(name))


def by_pathfinder(ask: Callable[[Any], str | None]) -> str | None:
    """The answer of NVIDIA's cuda-pathfinder where it is installed: it knows conda environments and
    what the process has loaded."""
    try:
        from cuda import pathfinder

        return ask(pathfinder)
    except (ImportError, RuntimeError):  # not installed, or it has found nothing
        return None
