"""Kernels as compiled C: source, library from the cache or the C compiler, launcher.

Imported when the first kernel is compiled, so that importing the package loads no compiler.
"""

from __future__ import annotations

import platform
from ctypes import c_void_p
from functools import lru_cache

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Program
from tilelang.cpu.module import INCLUDE_DIR, RANDOM_STEPS
from tilelang.cpu.toolchain import Compiler, find_compiler
from tilelang.env import KERNEL_CHECKS, env
from tilelang.errors import InternalError
from tilelang.runtime.cache import Entry, content_key, default_cache
from tilelang.runtime.executable import Executable
from tilelang.runtime.launch_spec import artifact_spec
from tilelang.runtime.library import Library, load_library
from tilelang.runtime.native import make_launcher
from tilelang.runtime.pylauncher import PyLauncher
from tilelang.runtime.signature import WHOLE

# errno and the flags of floating-point exceptions are not used. Without these options GCC keeps a
# choice between floats is a branch to it, and no loop with one is a vector. Values are the same.
BASE_FLAGS = ("-O2", "-fwrapv", "-fopenmp-simd", "-fno-math-errno", "-fno-trapping-math")
SANITIZED = ("-g", "-fno-omit-frame-pointer")  # so that a report names functions and lines


def executable(program: Program, artifact: Artifact) -> Executable:
    """C code, compiled or from the cache, behind a launcher."""
    compiler = find_compiler(default_cache())
    if compiler is None:
        raise InternalError("there is no C compiler")
    if program.options.verbose:
        print(artifact.source)
    library = build_library(artifact, compiler, show=not program.options.verbose)
    library.handle.tl_limit_threads(env.TILELANG_NUM_THREADS)
    shared = pool(env.TILELANG_OPENMP)
    addresses = (c_void_p(shared.address(name)) for name in ("tl_run_blocks", "tl_find_updaters"))
    library.handle.tl_use_pool(*addresses)
    spec = artifact_spec(program.func, program.out_idx, artifact, "cpu", noalias=WHOLE)
    launcher = make_launcher(
        spec, library.address(artifact.entry), keep=library,
        compiler=None if program.backend == "python" else compiler, cache=default_cache(),
        narrow=program.narrow,
    )  # fmt: skip
    kind = "python" if isinstance(launcher, PyLauncher) else "c"
    return Executable(launcher, kind, program.func, artifact, library)


def build_library(artifact: Artifact, compiler: Compiler, show: bool = True) -> Library:
    """The loaded library of generated C, from the cache or compiled now; in the latter case the
    source is printed where ``TILELANG_PRINT_ON_COMPILATION`` and ``show`` say so."""
    flags = (*BASE_FLAGS, *machine_flags(), *compiler.native, "-pthread", *artifact.flags)
    return _built(artifact.source, (*flags, *_sanitizer_flags()), compiler, show)


def _built(source: str, flags: tuple[str, ...], compiler: Compiler, show: bool = False) -> Library:
    key = content_key(source, include_text(), repr(flags), compiler.identity)

    def make() -> Entry:
        if show and env.TILELANG_PRINT_ON_COMPILATION:
            print(source)
        data = compiler.compile_shared(source, (*flags, f"-I{INCLUDE_DIR}"))
        return Entry(data, {"kind": "kernel"})

    entry = default_cache().fetch(key, make)
    return load_library(entry.data, entry.path)


def _sanitizer_flags() -> tuple[str, ...]:
    checks = [check for check in env.TILELANG_SANITIZE if check != KERNEL_CHECKS]
    return (f"-fsanitize={','.join(checks)}", *SANITIZED) if checks else ()


@lru_cache(maxsize=2)
def pool(openmp: bool) -> Library:
    """The library with the threads that run the blocks of all kernels of this process.

    Args:
        openmp: blocks are distributed by the OpenMP runtime of the C compiler, not by our own
            threads; where it has one.
    """
    compiler = find_compiler(default_cache())
    if compiler is None:
        raise InternalError("there is no C compiler")
    parallel = (*compiler.openmp, "-DTL_OPENMP") if openmp else ("-pthread",)
    source = (INCLUDE_DIR / "tl_pool_library.c").read_text(encoding="utf-8")
    return _built(source, (*BASE_FLAGS, *machine_flags(), *parallel, *_sanitizer_flags()), compiler)


def machine_flags() -> tuple[str, ...]:
    """Flags for this kind of processor.

    GCC 12 places aligned arrays of a leaf function in the x86-64 red zone as if the stack pointer
    were 16-byte aligned there, which it is not after an odd number of pushes: aligned vector
    stores then trap. Without a red zone the arrays get a frame of their own.
    """
    return ("-mno-red-zone",) if platform.machine() in ("x86_64", "AMD64") else ()


@lru_cache(maxsize=1)
def include_text() -> str:
    """The text of our C headers: part of what generated code means."""
    files = (*sorted(INCLUDE_DIR.glob("*.h")), INCLUDE_DIR / RANDOM_STEPS)
    return "".join(path.read_text(encoding="utf-8") for path in files)
