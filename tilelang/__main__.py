"""``python -m tilelang``: what a report of a problem needs to know about this machine."""

from __future__ import annotations

import importlib.util
import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import find_nvcc
from tilelang.emulator.compilers import find_cxx
from tilelang.env import env
from tilelang.target.device import cuda_devices, cuda_driver_version
from tilelang.version import __version__

_PACKAGES = ("numpy", "torch", "cuda-bindings", "ziglang", "ml_dtypes")
_VARIABLES = ("CC", "CXX", "CUDA_HOME", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


def report() -> Iterator[tuple[str, str]]:
    """What there is, and its version."""
    yield "tilelang", __version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    for name in _PACKAGES:
        yield name, _version(name)
    for language, found in (("C", find_compiler(quiet=True)), ("C++", find_cxx())):
        text = "none" if found is None else f"{' '.join(found.command)}: {found.version}"
        yield f"{language} compiler", text
    nvrtc = find_nvrtc()
    yield "NVRTC", "none" if nvrtc is None else ".".join(map(str, nvrtc.version))
    yield "nvcc", find_nvcc() or "none"
    driver = cuda_driver_version()
    yield "CUDA driver", "none" if driver is None else ".".join(map(str, driver))
    yield "CUDA devices", ", ".join(cuda_devices()) or "none"
    known = {name: env.get(name) for name in (*_VARIABLES, *_own_variables())}
    yield "variables", ", ".join(f"{k}={v}" for k, v in known.items() if v is not None) or "none"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        there = importlib.util.find_spec(package.replace("-", "_")) is not None
        return "unknown version" if there else "none"


def _own_variables() -> list[str]:
    return sorted(name for name in env.variables() if name.startswith("TILELANG_"))


def main() -> None:
    """Print the report."""
    for name, text in report():
        sys.stdout.write(f"{name:14} {text}\n")


if __name__ == "__main__":
    main()
