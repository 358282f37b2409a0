"""How a kernel runs: generated C behind a launcher, or the interpreter.

``build`` turns a traced function into an :class:`Executable`. On the CPU the C text is compiled
to a shared library, looked up by content in the disk cache first. Where there is no C compiler the
interpreter serves, which is said once.
"""

from __future__ import annotations

from typing import Any

from tilelang.env import KERNEL_CHECKS, env
from tilelang.errors import TileUnsupportedError, TileValueError, shown
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.executable import Executable, results_form
from tilelang.options import Options
from tilelang.target import Target

# Names of runtimes that programs ask for; those of other implementations mean "auto" here.
BACKENDS = {
    "auto": "auto", "c": "c", "python": "python", "interpret": "interpret",
    "tvm_ffi": "auto", "cython": "auto", "ctypes": "auto", "dlpack": "auto", "nvrtc": "nvrtc",
    "torch": "auto", "cutedsl": "auto", "nvcc": "nvcc", "emulator": "emulator",
}  # fmt: skip


def check_backend(name: str | None) -> str:
    """The way to run that ``execution_backend`` names.

    Raises:
        TileValueError: an unknown name.
    """
    found = BACKENDS.get(name or "auto")
    if found is None:
        raise TileValueError(
            f"unknown execution_backend {shown(name)}",
            expected=", ".join(BACKENDS),
            got=shown(name),
        )
    return found


def build(
    func: PrimFunc, out_idx: tuple[int, ...], target: Target, options: Options, backend: str
) -> Executable:
    """An executable for ``func`` whose parameters ``out_idx`` are allocated and returned.

    Raises:
        TileError: the program cannot be compiled for the target.
    """
    if backend == "interpret":
        return _interpreted(func, out_idx, target, options)
    if backend == "emulator" or (target.kind == "cuda" and KERNEL_CHECKS in env.TILELANG_SANITIZE):
        from tilelang.jit import emulated

        return emulated.compiled(func, out_idx, target, options, backend)
    if target.kind == "cuda":
        from tilelang.jit import cuda

        return cuda.compiled(func, out_idx, target, options, backend)
    if target.kind != "cpu":
        raise TileUnsupportedError(
            f"no code generator for the target {target.kind!r} yet",
            expected='target="cpu" or target="cuda"',
            got=f"target={str(target)!r}",
            hint='the program can be run anywhere with execution_backend="interpret"',
        )
    from tilelang.cpu.toolchain import find_compiler
    from tilelang.runtime.cache import default_cache

    compiler = find_compiler(default_cache())
    if compiler is None:  # find_compiler has said so
        return _interpreted(func, out_idx, target, options)
    from tilelang.jit.native import compiled

    return compiled(func, out_idx, target, options, backend, compiler)


def _interpreted(
    func: PrimFunc, out_idx: tuple[int, ...], target: Target, options: Options
) -> Executable:
    from tilelang.compiler import as_run
    from tilelang.interpret import run
    from tilelang.runtime.contract import launch_spec
    from tilelang.runtime.pylauncher import ArrayLauncher

    spec = launch_spec(func, out_idx, device="cpu", returns=results_form(func, out_idx))
    decided = as_run(func, target)

    def call(arrays: list[Any]) -> None:
        run(
            decided,
            arrays,
            safe_memory=not options.unsafe_memory,
            uninitialized=options.uninitialized,
        )

    return Executable(ArrayLauncher(spec, call), "interpret", func)
