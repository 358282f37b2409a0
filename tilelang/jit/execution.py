"""Execution of a kernel: generated code behind a launcher, or the interpreter.

``build`` turns a traced function into an :class:`Executable`. Generated text is compiled by the
toolchain of the target's back end, looked up by content in the disk cache first. Where the
machine has no toolchain (no C compiler, for a kernel of the CPU) the interpreter serves, which is
said once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

from tilelang.backends import backend_of, is_emulated
from tilelang.codegen.backend import Limits, Program
from tilelang.env import KERNEL_CHECKS, env
from tilelang.errors import TileValueError, shown
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.runtime.executable import Executable
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
    chosen = BACKENDS.get(name or "auto") if isinstance(name, str | None) else None
    if chosen is None:
        raise TileValueError(
            f"unknown execution_backend {shown(name)}",
            expected=", ".join(BACKENDS),
            got=shown(name),
        )
    return chosen


def load_compiler(target: Target) -> None:
    """Load what compiles for ``target``, in a process that has no program yet."""
    from tilelang.target.kinds import target_is_cuda

    if target_is_cuda(target):
        from tilelang.cuda import nvrtc

        nvrtc.load_ahead(target.concrete().arch)
    import tilelang.compiler  # noqa: F401  # all passes


def build(
    func: PrimFunc, out_idx: tuple[int, ...], target: Target, options: Options, backend: str
) -> Executable:
    """An executable for ``func`` whose parameters ``out_idx`` are allocated and returned.

    Raises:
        TileError: the program cannot be compiled for the target.
    """
    if backend == "interpret":
        return _interpret(func, out_idx, target, options)
    if backend == "emulator" or (is_emulated(target) and KERNEL_CHECKS in env.TILELANG_SANITIZE):
        from tilelang.jit.emulated import compiled

        def real() -> Callable[..., Any]:
            return _compile(func, out_idx, target, options, backend).call

        return compiled(func, out_idx, target, options, backend, real)
    if not backend_of(target).ready():
        return _interpret(func, out_idx, target, options)
    return _compile(func, out_idx, target, options, backend)


def _compile(
    func: PrimFunc, out_idx: tuple[int, ...], target: Target, options: Options, backend: str,
    limits: Limits = (), shared: bool = False,
) -> Executable:  # fmt: skip
    """Generated code for ``func``, compiled or from the cache, behind a launcher.

    Args:
        limits: (parameter, bytes) of tensors that are aligned less than vectors like it.
        shared: whether tensors share memory. Without limits and this, the launcher compiles such
            kernels at a call with such tensors.
    """
    row, target = backend_of(target), target.concrete()
    # A program whose text the cache knows loads no pass: the compiler is imported where it works.
    special = bool(limits) or shared
    if special:
        from tilelang.compiler import for_tensors

        func = for_tensors(func, dict(limits), shared)

    @cache  # calls change launchers while the program runs, and both may ask
    def narrow(limits: Limits, shared: bool) -> Callable[..., Any]:
        return _compile(func, out_idx, target, options, backend, limits, shared).call

    def report() -> str:
        from tilelang.explain.report import explain

        return explain(func, target, options)

    program = Program(
        func, out_idx, target, options, backend, None if special else narrow, report
    )  # fmt: skip
    if row.keeps_text:
        from tilelang.jit.artifacts import artifact_of
        from tilelang.runtime.cache import default_cache

        artifact = artifact_of(func, target, options, default_cache(), partial(row.ahead, program))
    else:
        from tilelang.compiler import compile

        artifact = compile(func, target, options)
    return row.executable(program, artifact)


def _interpret(
    func: PrimFunc, out_idx: tuple[int, ...], target: Target, options: Options
) -> Executable:
    from tilelang.compiler import as_run
    from tilelang.interpret import run
    from tilelang.runtime.launch_spec import launch_spec
    from tilelang.runtime.pylauncher import ArrayLauncher

    spec = launch_spec(func, out_idx, device="cpu")
    decided = as_run(func, target)

    def call(arrays: list[Any]) -> None:
        run(
            decided,
            arrays,
            safe_memory=not options.unsafe_memory,
            uninitialized=options.uninitialized,
            negative_indices=options.negative_indices,
        )

    return Executable(ArrayLauncher(spec, call), "interpret", func)
