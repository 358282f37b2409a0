"""The command ``tilelang`` (``python -m tilelang``): compile, explain, time and check programs.

Without a command, or with ``info``, it prints what to include in a bug report. FILE:NAME is a
program, a kernel or a factory in a Python file, such as ``gemm.py:matmul M=512 N=512 K=512``.
"""

from __future__ import annotations

import argparse
import importlib.util
import inspect
import os
import platform
import re
import runpy
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import FunctionType
from typing import Any

import tilelang.language as T
from tilelang.codegen.symbols import symbols_of
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import find_nvcc
from tilelang.emulator.compilers import find_cxx
from tilelang.env import env
from tilelang.errors import TileError, TileValueError
from tilelang.ir import stmt as S
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.compile import compile as compile_func, lower, options_for
from tilelang.jit.core import JITImpl, jit
from tilelang.jit.kernel import JITKernel
from tilelang.jit.sanitize import sanitize
from tilelang.runtime.cache import default_cache
from tilelang.target import parse_target
from tilelang.target.device import cuda_devices, cuda_driver_version
from tilelang.version import __version__

_PACKAGES = ("numpy", "torch", "jax", "cuda-bindings", "ziglang", "ml_dtypes")
_VARIABLES = ("CC", "CXX", "CUDA_HOME", "OMP_NUM_THREADS", "CUDA_VISIBLE_DEVICES")


def report() -> Iterator[tuple[str, str]]:
    """List the installed tools with their versions."""
    yield "tilelang", __version__
    yield "python", f"{platform.python_version()} ({platform.python_implementation()})"
    yield "system", f"{platform.system()} {platform.release()} {platform.machine()}"
    for name in _PACKAGES:
        yield name, _version(name)
    for language, compiler in (("C", find_compiler(quiet=True)), ("C++", find_cxx())):
        text = "none" if compiler is None else f"{' '.join(compiler.command)}: {compiler.version}"
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
        is_installed = importlib.util.find_spec(package.replace("-", "_")) is not None
        return "unknown version" if is_installed else "none"


def _own_variables() -> list[str]:
    return sorted(name for name in env.variables() if name.startswith("TILELANG_"))


# -- the cache -------------------------------------------------------------------------------------
def cache(clear: bool) -> Iterator[tuple[str, str]]:
    """Describe the folder of compiled kernels, their number and size; ``clear`` removes them."""
    disk = default_cache()
    count, size = disk.usage()
    yield "folder", str(disk.root or "none")
    yield "entries", str(count)
    bound = f"of {disk.limit / 2**20:.0f} MiB" if disk.limit else "without a bound"
    yield "size", f"{size / 2**20:.1f} MiB {bound}"
    if clear:
        yield "removed", str(disk.clear())


# -- programs of a file ----------------------------------------------------------------------------
def program_of(spec: str, values: Sequence[str]) -> PrimFunc:
    """The program that ``FILE:NAME`` names.

    Args:
        spec: a Python file and a name in it: a ``@T.prim_func``, a kernel, or a function that
            returns one (decorated with ``@tilelang.jit`` or not), which gets ``values``.
        values: ``name=value`` for the arguments of a function; values are Python literals or
            expressions of ``T``, e.g. ``A="T.Tensor((64, 64), 'float16')"``.

    Raises:
        TileValueError: there is no such file or name, or it names no program.
    """
    func, sizes = program_and_sizes(spec, values)
    if sizes:
        raise TileValueError(
            f"{spec} takes no {', '.join(sizes)}", expected="arguments of a factory, by name"
        )
    return func


def program_and_sizes(spec: str, values: Sequence[str]) -> tuple[PrimFunc, dict[str, Any]]:
    """The same, and the ``values`` that are not arguments of a factory: sizes of symbols."""
    file, names, name = names_of(spec)
    if name.isdecimal():
        return program_at(file, int(name), names, values), {}
    program, args = names.get(name), arguments_of(values)
    program = jit(program) if isinstance(program, FunctionType) else program
    if isinstance(program, JITImpl):
        own = program.signature.parameters if program.mode == "lazy" else args
        sizes = {key: value for key, value in args.items() if key not in own}
        return program.get_tir(**{key: args[key] for key in args if key in own}), sizes
    if isinstance(program, JITKernel):
        return program.prim_func, args
    if isinstance(program, PrimFunc):
        return program, args
    candidates = [
        key for key, value in names.items() if isinstance(value, (JITImpl, JITKernel, PrimFunc))
    ]
    raise TileValueError(
        f"{name} of {file} is not a program" if name in names else f"{file} has no {name}",
        expected="a @T.prim_func, a kernel, or a function that returns one",
        got=type(program).__name__ if name in names else None,
        hint=f"it has {', '.join(candidates)}" if candidates else None,
    )


def names_of(spec: str) -> tuple[str, Mapping[str, object], str]:
    """The file of FILE:NAME, what it defines, and the name."""
    file, _, name = spec.rpartition(":")
    if not file or not Path(file).is_file():
        missing = f"there is no file {file}" if file else "there is no such program"
        raise TileValueError(missing, expected="FILE:NAME", got=spec)
    return file, runpy.run_path(file), name


def arguments_of(values: Sequence[str]) -> dict[str, Any]:
    """The arguments that ``name=value`` words give.

    Raises:
        TileValueError: a word is not such a pair, or its value cannot be evaluated.
    """
    parsed = {}
    for word in values:
        key, equals, text = word.partition("=")
        if not equals:
            raise TileValueError(
                f"the argument {word} has no name",
                expected="name=value",
                got=word,
                hint=f"name the parameter of the factory, as in n={word}",
            )
        try:
            parsed[key] = eval(text, {"T": T})
        except (NameError, SyntaxError, TypeError, ValueError) as error:
            raise TileValueError(
                f"{word} is not an argument: {error}",
                expected="name=value with a number, a text in quotes, or an expression of T",
                got=word,
                hint=f"""for a text write {key}='"{text}"'""" if text.isidentifier() else None,
            ) from None
    return parsed


def program_at(
    file: str, line: int, names: Mapping[str, object], values: Sequence[str]
) -> PrimFunc:
    """The program around a line of a file: one of its names, or what the function around the line
    gives for ``values``.

    Raises:
        TileValueError: there is no such program.
    """
    for value in names.values():
        func = value.prim_func if isinstance(value, JITKernel) else value
        if isinstance(func, PrimFunc) and line in lines_of(func):
            return func
    for value in names.values():
        function = value.pyfunc if isinstance(value, JITImpl) else value
        if not isinstance(function, FunctionType) or function.__code__.co_filename != file:
            continue
        text, first = inspect.getsourcelines(function)
        if first <= line < first + len(text):
            factory = value if isinstance(value, JITImpl) else jit(function)
            return factory.get_tir(**arguments_of(values))
    raise TileValueError(
        f"there is no program at line {line} of {file}",
        expected="a line of a @T.prim_func, or of a function that gives one",
    )


def lines_of(func: PrimFunc) -> range:
    """From the function's first line to the last of its statements."""
    locs = [stmt.loc for stmt in S.walk(func.body) if stmt.loc is not None]
    locs = [loc for loc in locs if func.loc is None or loc.file == func.loc.file]
    ends = [loc.end_line or loc.line for loc in locs]
    starts = [loc.line for loc in locs] + ([func.loc.line] if func.loc else [])
    return range(min(starts, default=0), max(ends, default=-1) + 1)


def at_line(text: str, spec: str) -> str:
    """The paragraph of an explanation for one line, else the whole text.

    ``spec`` is ``FILE:LINE``; editors follow it from the answer.
    """
    file, _, line = spec.rpartition(":")
    selected: list[str] = []
    inside = False
    for row in text.splitlines():
        head = re.match(r"(\S+):(\d+)  ", row)
        if head is not None:
            inside = head[2] == line and Path(file).name == head[1]
            row = f"{file}:{line}  {row[head.end() :]}"
        elif not row.startswith(" "):
            inside = False
        selected += [row] if inside else []
    return "\n".join(selected) or text


def explained(func: PrimFunc, target: str) -> str:
    """Explain what the compiler chose; needs no GPU."""
    chosen = parse_target(target)
    if not chosen.is_gpu:
        return compile_func(func, target=target).explain()
    from tilelang.explain.report import explain

    return explain(func, chosen.concrete(), options_for(func, None, None, None))


def program_with_sizes(spec: str, values: Sequence[str]) -> tuple[PrimFunc, dict[str, Any]]:
    """A program and the values of all its symbols, for generated inputs.

    Raises:
        TileValueError: a symbol has no value.
    """
    func, sizes = program_and_sizes(spec, values)
    names = dict.fromkeys(symbol.name for symbol in symbols_of(func))
    missing = [name for name in names if name not in sizes]
    if missing:
        raise TileValueError(
            f"{spec} has sizes that are open: {', '.join(missing)}",
            expected="their values behind it, e.g. " + " ".join(f"{name}=128" for name in missing),
        )
    return func, sizes


def sanitized(spec: str, values: Sequence[str], target: str) -> tuple[str, int]:
    """Check a call on generated inputs in the emulator; return the report and the exit code."""
    func, sizes = program_with_sizes(spec, values)
    chosen = target if parse_target(target).is_gpu else "cuda -arch=sm_80"
    kernel = compile_func(func, target=chosen, execution_backend="emulator")
    report = sanitize(kernel, *kernel.get_profiler().inputs(None, sizes))
    return f"{report}\n", 0 if report.ok else 1


def measured(spec: str, values: Sequence[str], target: str) -> Iterator[tuple[str, str]]:
    """Measure a call on generated inputs, with the rates by the program's own counts.

    Of ``values``, those that are not arguments of a factory are values of the program's symbols.
    """
    func, sizes = program_with_sizes(spec, values)
    kernel = compile_func(func, target=target)
    profiler = kernel.get_profiler()
    timing = profiler.measure(dynamic_symbolic_constraints=sizes)
    work = profiler.work(sizes)
    yield "kernel", f"{func.name} for {kernel.target}, {kernel.execution_backend}"
    yield "latency", str(timing)
    yield "memory", f"{work.gbps(timing.latency):.3g} GB/s"
    yield "arithmetic", f"{work.tflops(timing.latency):.3g} TFLOP/s"


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tilelang", description=__doc__)
    parser.add_argument("--version", action="version", version=f"tilelang {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="command")
    commands.add_parser("info", help="print versions, compilers, GPUs and environment variables")
    cached = commands.add_parser("cache", help="show or clear the disk cache of kernels")
    cached.add_argument("what", nargs="?", choices=("show", "clear"), default="show")
    for name, text in (
        ("compile", "print the generated source of a program"),
        ("explain", "print what the compiler chose for a program, or for line FILE:LINE"),
        ("bench", "time a program on generated inputs"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("place", metavar="FILE:NAME")
        command.add_argument("values", metavar="name=value", nargs="*", help="factory arguments")
        command.add_argument("--target", default="auto", help='such as "cuda -arch=sm_90a"')
    checked = commands.add_parser(
        "sanitize",
        help="find races in a program, or in the GPU kernels of a script",
        usage="python -m tilelang sanitize FILE:NAME [name=value ...] [--target TARGET]\n"
        "       python -m tilelang sanitize script.py [argument ...]",
    )
    checked.add_argument("--target", default="auto", help='such as "cuda -arch=sm_90a"')
    checked.add_argument("place", metavar="FILE:NAME or script.py")
    checked.add_argument("values", metavar="argument", nargs=argparse.REMAINDER)
    line = list(sys.argv[1:] if argv is None else argv)
    at = line.index("--target") if "--target" in line[:-1] else 0
    if at and (line[0] != "sanitize" or ":" in line[1]):  # in any position
        line[1 : at + 2] = [*line[at : at + 2], *line[1:at]]
    return parser.parse_args(line)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    args = arguments(argv)
    if args.command == "sanitize" and ":" not in args.place:
        from tilelang.emulator.__main__ import main as run_script

        return run_script([args.place, *args.values])
    try:
        if args.command == "compile":
            func = program_of(args.place, args.values)
            sys.stdout.write(lower(func, target=args.target).kernel_source)
        elif args.command == "explain":
            func, target = program_of(args.place, args.values), args.target
            if args.place.rpartition(":")[2].isdecimal():
                if target == "auto" and not parse_target(target).is_gpu:
                    target = "cuda -arch=sm_80"  # lines are about GPUs
                sys.stdout.write(at_line(explained(func, target), args.place) + "\n")
            else:
                sys.stdout.write(explained(func, target) + "\n")
        elif args.command == "sanitize":
            text, code = sanitized(args.place, args.values, args.target)
            sys.stdout.write(text)
            return code
        elif args.command == "bench":
            for name, text in measured(args.place, args.values, args.target):
                sys.stdout.write(f"{name:14} {text}\n")
        else:
            rows = cache(args.what == "clear") if args.command == "cache" else report()
            for name, text in rows:
                sys.stdout.write(f"{name:14} {text}\n")
        sys.stdout.flush()
    except TileError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except BrokenPipeError:  # the reader has closed the pipe: write nothing at the end either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
