"""``python -m tilelang``: this machine, the cache, and programs of a file, from the command line.

Without a command, or with ``info``, it prints what a report of a problem needs to know.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import runpy
import sys
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import find_nvcc
from tilelang.emulator.compilers import find_cxx
from tilelang.env import env
from tilelang.errors import TileError, TileValueError
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.compile import compile as compile_func
from tilelang.jit.compile import lower, options_for
from tilelang.jit.core import JITImpl
from tilelang.jit.kernel import JITKernel
from tilelang.runtime.cache import default_cache
from tilelang.target import parse_target
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
    yield "target", str(parse_target("auto"))
    yield "cache", str(default_cache().root or "none")
    yield "variables", ", ".join(f"{k}={v}" for k, v in known.items() if v is not None) or "none"


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        there = importlib.util.find_spec(package.replace("-", "_")) is not None
        return "unknown version" if there else "none"


def _own_variables() -> list[str]:
    return sorted(name for name in env.variables() if name.startswith("TILELANG_"))


# -- the cache -------------------------------------------------------------------------------------
def cache(clear: bool) -> Iterator[tuple[str, str]]:
    """Where compiled kernels are kept, how many and how large; ``clear`` removes them."""
    kept = default_cache()
    count, size = kept.usage()
    yield "folder", str(kept.root or "none")
    yield "entries", str(count)
    bound = f"of {kept.limit / 2**20:.0f} MiB" if kept.limit else "without a bound"
    yield "size", f"{size / 2**20:.1f} MiB {bound}"
    if clear:
        yield "removed", str(kept.clear())


# -- programs of a file ----------------------------------------------------------------------------
def program_of(place: str, values: Sequence[str]) -> PrimFunc:
    """The program that ``FILE:NAME`` names.

    Args:
        place: a Python file and a name in it: a ``@T.prim_func``, a kernel, or a function
            decorated with ``@tilelang.jit``, which gets ``values``.
        values: ``name=value`` for the arguments of a function; values are Python literals or
            expressions of ``T``, e.g. ``A="T.Tensor((64, 64), 'float16')"``.

    Raises:
        TileValueError: there is no such file or name, or it names no program.
    """
    file, _, name = place.rpartition(":")
    if not file or not Path(file).is_file():
        raise TileValueError("there is no such program", expected="FILE:NAME", got=place)
    found = runpy.run_path(file).get(name)
    if isinstance(found, JITKernel):
        return found.prim_func
    if isinstance(found, JITImpl):
        pairs = (value.partition("=") for value in values)
        return found.get_tir(**{key: eval(text, {"T": T}) for key, _, text in pairs})
    if isinstance(found, PrimFunc):
        return found
    raise TileValueError(
        f"{name} of {file} is no program",
        expected="a @T.prim_func, a kernel, or a function decorated with @tilelang.jit",
        got=type(found).__name__,
    )


def explained(func: PrimFunc, target: str) -> str:
    """What the compiler chose; needs no GPU."""
    chosen = parse_target(target)
    if not chosen.is_gpu:
        return compile_func(func, target=target).explain()
    from tilelang.explain.report import explain

    return explain(func, chosen.concrete(), options_for(func, None, None, None))


def arguments(words: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tilelang", description=__doc__)
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("info", help="versions, compilers, GPUs and variables of this machine")
    kept = commands.add_parser("cache", help="the compiled kernels on the disk")
    kept.add_argument("what", nargs="?", choices=("show", "clear"), default="show")
    for name, text in (
        ("compile", "print the generated text of a program"),
        ("explain", "print what the compiler chose for a program"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("place", metavar="FILE:NAME")
        command.add_argument("values", metavar="name=value", nargs="*", help="of its arguments")
        command.add_argument("--target", default="auto", help='e.g. "cuda -arch=sm_90a"')
    checked = commands.add_parser("sanitize", help="run a script with its GPU kernels checked here")
    checked.add_argument("script", nargs=argparse.REMAINDER, metavar="script.py [argument ...]")
    return parser.parse_args(words)


def main(words: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    given = arguments(words)
    if given.command == "sanitize":
        from tilelang.emulator.__main__ import main as sanitized

        return sanitized(given.script)
    try:
        if given.command == "compile":
            func = program_of(given.place, given.values)
            sys.stdout.write(lower(func, target=given.target).kernel_source)
        elif given.command == "explain":
            sys.stdout.write(explained(program_of(given.place, given.values), given.target) + "\n")
        else:
            rows = cache(given.what == "clear") if given.command == "cache" else report()
            for name, text in rows:
                sys.stdout.write(f"{name:14} {text}\n")
    except TileError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
