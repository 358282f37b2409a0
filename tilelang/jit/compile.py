"""``tilelang.compile``, ``tilelang.par_compile`` and ``tilelang.lower`` for traced functions."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from dataclasses import field, fields
from functools import lru_cache, partial
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from tilelang.codegen.artifact import Artifact
from tilelang.env import env
from tilelang.errors import TileError, TileTypeError, TileUnsupportedError, TileWarning, shown
from tilelang.ir.buffer import Buffer
from tilelang.ir.lints import remarks
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.calls import KernelParam
from tilelang.jit.execution import check_backend
from tilelang.jit.kernel import JITKernel, normalize_out_idx
from tilelang.jit.progress import progress
from tilelang.options import (
    Options,
    PassContext,
    Surroundings,
    check_configs,
    leave_surroundings,
    make_options,
    surroundings,
)
from tilelang.records import dataclass
from tilelang.target import Target, parse_target
from tilelang.tracebacks import border

if TYPE_CHECKING:
    from tilelang.codegen.lowered import LoweredModule

Item = TypeVar("Item")


# What `@T.prim_func` gives; checkers see the decorated function.
Program = PrimFunc | Callable[..., Any]


@border
def compile(
    func: Program, out_idx: Any = None, execution_backend: str = "auto", target: Any = "auto",
    target_host: Any = None, verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None, compile_flags: Any = None,
) -> JITKernel:  # fmt: skip
    """Compile a traced function into a kernel.

    Args:
        func: what ``@T.prim_func`` gives.
        out_idx: positions of parameters (int or list, negative from the end) that a call allocates
            and returns.
        execution_backend: "auto", "c", "interpret", "emulator" (the CUDA code on the CPU cores), or
            a name of another runtime (taken as auto).
        target: "auto", "cpu", "cuda", ...; see ``tilelang.target``.
        target_host: accepted; host code is C on the CPU.
        verbose: print what is compiled.
        pass_configs: ``tilelang.PassConfigKey`` -> value.
        compile_flags: flags for the C or CUDA compiler.

    Raises:
        TileTypeError: ``func`` is not a traced function.
        TileError: the program or the options are wrong; says where and why.
    """
    if not isinstance(func, PrimFunc):
        raise TileTypeError(
            "tilelang.compile takes a traced function",
            expected="the result of @T.prim_func",
            got=f"the function `{func.__name__}`"
            if isinstance(func, FunctionType)
            else type(func).__name__,
            hint="a function that returns a program is called first: "
            f"tilelang.compile({func.__name__}(...))"
            if isinstance(func, FunctionType)
            else "a function decorated with @tilelang.jit is compiled by calling it or by its "
            ".compile(...) method",
        )
    options = options_for(func, pass_configs, compile_flags, verbose)
    results = (func.params[at] for at in normalize_out_idx(func, out_idx))
    say_remarks(func, [result for result in results if isinstance(result, Buffer)])
    return JITKernel(func, out_idx, parse_target(target), options, check_backend(execution_backend))


def say_remarks(func: PrimFunc, results: Sequence[Buffer] = ()) -> None:
    """Warn of what is hardly meant, each line once in a process."""
    off = env.TILELANG_LINTS_OFF
    if "all" not in off:
        for remark in remarks(func, results):
            if remark.lint not in off:
                loc = remark.loc or func.loc
                _warn_once(str(remark), loc.file if loc else func.name, loc.line if loc else 1)


@lru_cache(maxsize=1024)
def _warn_once(message: str, file: str, line: int) -> None:
    warnings.warn_explicit(message, TileWarning, file, line)


def options_for(
    func: PrimFunc, pass_configs: Mapping[Any, Any] | None, compile_flags: Any, verbose: bool | None
) -> Options:
    """Options of a compilation. Arguments take precedence over annotations of the program, and
    these over an enclosing ``with PassContext(...)``."""
    env.apply_log_level()
    check_configs(pass_configs, "pass_configs")
    own = {**PassContext.current().config, **dict(func.attr("pass_configs", None) or ())}
    flags = compile_flags if compile_flags is not None else func.attr("compile_flags", None)
    printed = env.TILELANG_VERBOSE if verbose is None else verbose
    return make_options({**own, **(pass_configs or {})}, flags, bool(printed))


@dataclass(frozen=True)
class CompiledArtifact(Artifact):
    """The result of ``tilelang.lower``: the generated source and what it was made from."""

    params: tuple[KernelParam, ...] = ()
    target: Target | None = None
    target_host: Target | None = None
    program: tuple[PrimFunc, Options] | None = field(default=None, repr=False)

    @property
    def device_mod(self) -> LoweredModule:
        """The program after all passes, with the generated kernels as its source."""
        from tilelang.codegen.lowered import LoweredModule
        from tilelang.compiler import lower as run_passes

        func, options = self._program
        target = parse_target(self.target)
        return LoweredModule(func, lambda: run_passes(func, target, options), lambda: self.source)

    @property
    def host_mod(self) -> LoweredModule:
        """The program as it was traced, with the host code around its kernels as its source."""

        def host_code() -> str:
            if self.device is None:
                from tilelang.compat.adapter.wrapper import host_source

                return host_source(func, self.source, self.target)
            from tilelang.compat.adapter.host import host_source as around

            return around(self, func)

        from tilelang.codegen.lowered import LoweredModule

        func, _ = self._program
        return LoweredModule(func, lambda: func, host_code)

    @property
    def rt_mod(self) -> Any:
        """No module that can be called: text is generated without a compiler or a device."""
        raise TileUnsupportedError(
            "a lowered program cannot be called",
            expected="device_mod, host_mod, kernel_source, params, target or explain",
            hint="tilelang.compile(func) gives a kernel that can be called",
        )

    @property
    def _program(self) -> tuple[PrimFunc, Options]:
        assert self.program is not None, "made by tilelang.lower"
        return self.program


@border
def lower(
    func: Any, target: Any = "auto", target_host: Any = None, runtime_only: bool = False,
    enable_host_codegen: bool = False, enable_device_compile: bool = False, *,
    pass_configs: Mapping[Any, Any] | None = None,
) -> CompiledArtifact:  # fmt: skip
    """Generate the source of a traced function.

    Args:
        func: what ``@T.prim_func`` gives, or a module that holds one function.
        target: as for :func:`compile`.
        target_host: accepted; host code is C on the CPU.
        runtime_only, enable_host_codegen, enable_device_compile: accepted; generating text needs no
            device, and ``tilelang.compile`` makes what can be called.
        pass_configs: ``tilelang.PassConfigKey`` -> value.

    Raises:
        TileTypeError: ``func`` is neither, or holds several functions.
    """
    from tilelang.compat.adapter.base import functions_of
    from tilelang.compiler import compile as compile_source

    functions = functions_of(func)
    if len(functions) != 1:
        raise TileTypeError(
            "tilelang.lower takes one traced function",
            expected="the result of @T.prim_func",
            got=f"{type(func).__name__}"
            + (f" with {len(functions)} functions" if functions else ""),
        )
    chosen, options = parse_target(target), options_for(functions[0], pass_configs, None, None)
    artifact = compile_source(functions[0], chosen, options)
    return CompiledArtifact(
        **{f.name: getattr(artifact, f.name) for f in fields(Artifact)},
        params=tuple(map(KernelParam.from_param, functions[0].params)),
        target=chosen,
        target_host=None if target_host is None else parse_target(target_host),
        program=(functions[0], options),
    )


def run_parallel(
    work: Callable[[Item], JITKernel],
    jobs: Sequence[Item],
    num_workers: int | None,
    ignore_error: bool,
) -> list[JITKernel | None]:
    """``work`` for each item on several threads with a progress bar; results in order.

    The C compiler runs in processes of its own, so threads keep all cores busy.
    """
    from concurrent.futures import ThreadPoolExecutor

    if num_workers is not None and (not hasattr(num_workers, "__index__") or num_workers < 0):
        expected, got = "how many, or None for one per core", shown(num_workers)
        raise TileTypeError("num_workers is not a number of threads", expected=expected, got=got)

    def guarded(job: Item) -> JITKernel | None:
        try:
            return work(job)
        except TileError:
            if not ignore_error:
                raise
            return None

    with ThreadPoolExecutor(num_workers or default_workers()) as pool:
        # Each thread has the `with` statements around the caller.
        futures = [pool.submit(copy_context().run, guarded, job) for job in jobs]
        with progress(total=len(futures), desc="Parallel Compiling") as bar:
            for future in futures:
                future.add_done_callback(lambda _: bar.update(1))
            return [future.result() for future in futures]


def run_on(
    executor: Any, work: Callable[[Item], JITKernel], jobs: Sequence[Item], ignore_error: bool
) -> list[JITKernel | None]:
    """``work`` for each item on the user's executor; results in order. The caller
    compiles what a dead worker did not finish."""
    from concurrent.futures import BrokenExecutor

    from tilelang.jit.executors import submit

    around = surroundings()
    futures = [submit(executor, _in_context, around, work, job) for job in jobs]
    kernels: list[JITKernel | None] = []
    for job, future in progress(list(zip(jobs, futures)), desc="Parallel Compiling"):
        try:
            try:
                kernels.append(future.result())
            except BrokenExecutor:
                kernels.append(work(job))
        except TileError:
            if not ignore_error:
                raise
            kernels.append(None)
    return kernels


def _in_context(around: Surroundings, work: Callable[[Item], JITKernel], job: Item) -> JITKernel:
    """``work(item)`` with the ``with`` statements around the caller, in another process."""
    around.enter()
    try:
        return work(job)
    finally:
        leave_surroundings()


def default_workers() -> int:
    """One compilation per core."""
    import os

    return max(1, os.cpu_count() or 1)


@border
def par_compile(
    funcs: Iterable[Program], out_idx: Any = None, execution_backend: str = "auto",
    target: Any = "auto", target_host: Any = None, verbose: bool | None = None,
    pass_configs: Mapping[Any, Any] | None = None, compile_flags: Any = None,
    num_workers: int | None = None, ignore_error: bool = False, executor: Any = None,
) -> list[JITKernel | None]:  # fmt: skip
    """Compile several traced functions at the same time; return kernels in the given order.

    Args:
        funcs: what ``@T.prim_func`` gives, in the order of the kernels.
        out_idx, execution_backend, target, target_host, verbose, pass_configs, compile_flags: as
            for :func:`compile`, for all of them.
        num_workers: threads; default one per core.
        ignore_error: give None for a program that does not compile instead of raising.
        executor: compiles instead of threads: an executor of ``concurrent.futures``, a Dask
            client, or the module ``ray``. Programs and kernels pickle; kernels that come back
            are taken from the kernel cache, or compiled where the workers have another one.
    """
    compile_program = partial(
        compile, out_idx=out_idx, execution_backend=execution_backend, target=target,
        target_host=target_host, verbose=verbose, pass_configs=pass_configs,
        compile_flags=compile_flags,
    )  # fmt: skip
    programs = several(funcs, "tilelang.par_compile", "traced functions")
    if executor is not None:
        return run_on(executor, compile_program, programs, ignore_error)
    return run_parallel(compile_program, programs, num_workers, ignore_error)


def several(values: Any, caller: str, kinds: str) -> list[Any]:
    """The items of a sequence as a list.

    Raises:
        TileTypeError: it is a single value, or text.
    """
    if isinstance(values, (str, bytes, Mapping)) or not hasattr(values, "__iter__"):
        raise TileTypeError(
            f"{caller} takes a list of {kinds}", expected=f"a list of {kinds}", got=shown(values)
        )
    return list(values)
