"""Kernels for GPUs on the CPU cores: their source, compiled by a C++ compiler, in the emulator.

Imported when the first kernel is made for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import field, replace
from functools import cache, lru_cache
from typing import Any

from tilelang import errors
from tilelang.backends import is_emulated
from tilelang.codegen.gpu.module import GpuModule
from tilelang.compiler import Artifact, compile, for_tensors
from tilelang.emulator.build import KernelLibrary, load_kernels, load_runtime
from tilelang.emulator.compilers import need_cxx
from tilelang.emulator.explain import explain
from tilelang.emulator.families import family_of
from tilelang.emulator.launch import DEFAULT_CHECKS, EmulatedLauncher, Machinery, Record, Settings
from tilelang.emulator.locate import Lines, user_files
from tilelang.emulator.report import Report
from tilelang.env import KERNEL_CHECKS, env
from tilelang.ir.stmt import PrimFunc, View, walk
from tilelang.options import Options
from tilelang.records import dataclass
from tilelang.runtime.cache import default_cache
from tilelang.runtime.executable import Executable
from tilelang.runtime.host_program import host_program
from tilelang.runtime.launch_spec import artifact_spec
from tilelang.runtime.pylauncher import Limits
from tilelang.runtime.signature import APART, LaunchSpec
from tilelang.target import Target

_ERRORS: dict[str, type[errors.TileRuntimeError]] = {
    "deadlock": errors.DeadlockError, "trap": errors.DeviceAssertError,
}  # fmt: skip


@dataclass(frozen=True)
class EmulatedExecutable(Executable):
    """A program for a GPU that runs on the CPU cores.

    Attributes:
        spec: what a call must look like.
        machinery: the compiled text.
        files: the user's files by base name.
        narrowed: makes the program for tensors that are aligned less, see
            :class:`~tilelang.runtime.gpu.GpuLauncher`.
    """

    spec: LaunchSpec = field(default_factory=lambda: LaunchSpec("", ()))
    machinery: Machinery | None = None
    files: dict[str, str] = field(default_factory=dict)
    narrowed: Callable[[Limits, bool], EmulatedExecutable] | None = None

    def explain(self) -> str:
        """Describe how the program is run."""
        assert self.artifact is not None
        language = family_of(self.artifact.language).language
        return self.artifact.explain or f"`{self.func.name}` runs as {language} on the CPU cores"

    def text(self, kind: str) -> str:
        """The text, by the name of its language, e.g. "cuda"."""
        if self.artifact is None or kind != self.artifact.language:
            return super().text(kind)
        return self.source


def compiled(
    func: PrimFunc, out_idx: tuple[int, ...], target: Target, options: Options, backend: str,
    make_real: Callable[[], Callable[..., Any]],
) -> Executable:  # fmt: skip
    """Code of a GPU for ``func`` behind a launcher for arrays in host memory.

    Args:
        make_real: makes what runs the program for tensors on a GPU.

    Raises:
        TileUnsupportedError: the emulator runs nothing for the target, or there is no C++ compiler.
        CompileError: the text uses something that the emulator lacks.
    """
    if not is_emulated(target):
        raise errors.TileUnsupportedError(
            f"the emulator runs no kernels for the target {target.kind!r}",
            expected='a target of a GPU, e.g. "cuda -arch=sm_80", "hip -mcpu=gfx942" or "metal"',
            got=f"target={str(target)!r}",
        )
    target = target.concrete()
    artifact = compile(func, target, options)
    if options.verbose:
        print(artifact.source)
    checks = DEFAULT_CHECKS if KERNEL_CHECKS in env.TILELANG_SANITIZE else ()
    executable = from_artifact(func, out_idx, artifact, target, options, Settings(checks))
    if backend == "emulator":
        return executable

    real = lru_cache(maxsize=1)(make_real)

    def call(*args: Any, **keywords: Any) -> Any:
        """On the GPU if that is where the first tensor is."""
        if any(_is_on_gpu(arg) for arg in args):
            return real()(*args, **keywords)
        return executable.call(*args, **keywords)

    return replace(executable, call=call)


def _is_on_gpu(arg: Any) -> bool:
    kind = getattr(getattr(arg, "device", None), "type", None)
    return kind in ("cuda", "mps") or type(arg).__module__.partition(".")[0] == "cupy"


def from_artifact(
    func: PrimFunc, out_idx: tuple[int, ...], artifact: Artifact, target: Target, options: Options,
    settings: Settings,
) -> EmulatedExecutable:  # fmt: skip
    """An executable for generated source; what goes wrong in a call is raised."""
    module = artifact.module
    machinery = make_machinery(module, target, options)
    if any(isinstance(stmt, View) and stmt.source is not None for stmt in walk(func.body)):
        machinery = replace(machinery, bounded=False)
    files = user_files(func)
    try:
        machinery.library(settings.is_watched)  # what the text lacks is said now
    except errors.CompileError as error:
        match = re.match(r"line (\d+):", error.got or "")
        origin = Lines(module.source, files).source_line(int(match[1]) if match else 0)
        error.loc = errors.Loc(origin.file, origin.user_line) if origin.file else None
        raise
    spec = artifact_spec(func, out_idx, artifact, "cpu", noalias=APART)

    @cache
    def narrowed(limits: Limits, shared: bool) -> EmulatedExecutable:
        less = for_tensors(func, dict(limits), shared)
        lowered = compile(less, target, options)
        return from_artifact(less, out_idx, lowered, target, options, settings)

    def narrow(limits: Limits, shared: bool) -> Callable[..., Any]:
        return narrowed(limits, shared).call

    def finished(record: Record) -> None:
        report = explain(record, module, func.name, files) if record.has_findings else None
        if report is not None and report.findings:
            raise failure(report)

    launcher = EmulatedLauncher(spec, machinery, settings, finished, narrow)
    return EmulatedExecutable(
        launcher, "emulator", func, artifact, None, spec, machinery, files, narrowed
    )


def make_machinery(module: GpuModule, target: Target, options: Options) -> Machinery:
    """Make the programs that run a module; sources are compiled when they are needed."""
    cache = default_cache()
    compiler = need_cxx(cache)
    family = family_of(target.kind)
    libraries: dict[bool, KernelLibrary] = {}

    def runtime() -> Any:
        return load_runtime(compiler, cache)

    def library(watched: bool) -> KernelLibrary:
        if watched not in libraries:
            runtime()  # kernels take its names
            libraries[watched] = load_kernels(
                module.source, module.kernels, target.arch, compiler, cache, watched,
                options.compile_flags, module.shared, family,
            )  # fmt: skip
        return libraries[watched]

    return Machinery(
        module, host_program(module), library, runtime, warp_size=family.warp_size(target.arch),
        most_shared=family.most_shared(target.arch),
    )  # fmt: skip


def failure(report: Report) -> errors.TileRuntimeError:
    """The error for a call that was stopped, or whose checks found something."""
    first = report.findings[0] if report.findings else None
    kind = _ERRORS.get(first.kind if first is not None else "", errors.SanitizerError)
    if first is None:
        return kind(f"kernel {report.name} was stopped by the emulator")
    if kind is not errors.SanitizerError:
        details = str(first).partition("\n")[2]
        error = kind(f"kernel {report.name}: {first.what}\n{details}".rstrip())
    else:
        error = errors.SanitizerError(str(report))
        error.report = report
    return error
