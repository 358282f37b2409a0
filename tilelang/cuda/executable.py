"""Kernels as machine code for NVIDIA GPUs: cubin from the cache or NVRTC, occupancy, launcher.

Imported when the first kernel for a GPU is compiled. Compilation needs no GPU and no driver: both
are looked for when the kernel is first called.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any, ClassVar

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Program
from tilelang.codegen.gpu.module import GpuModule, launches
from tilelang.cuda import toolchain
from tilelang.cuda.advice import advise
from tilelang.cuda.disassembly import disassemble
from tilelang.cuda.loaded_module import LoadedModule
from tilelang.cuda.native_launcher import SOON, is_launcher_built, launcher_compiler
from tilelang.env import env
from tilelang.options import Options
from tilelang.records import dataclass
from tilelang.runtime.cache import Entry, content_key, default_cache
from tilelang.runtime.executable import Executable
from tilelang.runtime.gpu import LateLauncher, make_gpu_launcher
from tilelang.runtime.host_program import host_program, kernel_table
from tilelang.runtime.launch_spec import artifact_spec
from tilelang.runtime.pylauncher import PyLauncher
from tilelang.runtime.signature import APART
from tilelang.target import Target
from tilelang.target.limits import Limits

_REGISTER_LEVEL = "tl.ptxas_register_usage_level"


@dataclass(frozen=True)
class Resources:
    """The resources of the kernels of a program; see :class:`KernelResources` for each.

    ``registers``, ``shared`` and ``stack`` are those of the largest, ``spills`` those of all
    together, ``occupancy`` that of the smallest. ``warnings`` is what the assembler said.
    """

    kernels: tuple[toolchain.KernelResources, ...]
    warnings: tuple[str, ...] = ()

    @property
    def registers(self) -> int:
        """32-bit registers of a thread."""
        return max((kernel.registers for kernel in self.kernels), default=0)

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block, static and dynamic."""
        return max((kernel.shared for kernel in self.kernels), default=0)

    @property
    def stack(self) -> int:
        """Bytes of a thread's frame in local memory."""
        return max((kernel.stack for kernel in self.kernels), default=0)

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads."""
        return sum(kernel.spills for kernel in self.kernels)

    @property
    def occupancy(self) -> float:
        """Share of a multiprocessor's threads that can be resident."""
        return min((kernel.occupancy or 0.0 for kernel in self.kernels), default=0.0)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.kernels), *self.warnings])


@dataclass(frozen=True)
class CudaExecutable(Executable):
    """A program for a GPU."""

    result: toolchain.CompileResult = field(
        default_factory=lambda: toolchain.CompileResult(b"", None, "")
    )
    used: Resources = field(default_factory=lambda: Resources(()))
    report: Callable[[], str] = str
    device: ClassVar[str | None] = "cuda"

    @property
    def final_backend(self) -> str:
        """The backend of calls, after they have waited for the C launcher."""
        return _kind(self.call.resolved()) if isinstance(self.call, LateLauncher) else self.backend

    @property
    def resources(self) -> Resources:
        """Registers, shared memory, spills and occupancy."""
        return self.used

    def text(self, kind: str) -> str:
        """The "cuda", "ptx" or "sass" text."""
        if kind == "cuda":
            return self.source
        return (self.result.ptx or "") if kind == "ptx" else disassemble(self.result.cubin)

    def explain(self) -> str:
        """Explain each tile and line of the program, and the resources of the kernels."""
        return f"{self.report()}\n\nresources\n{indent(str(self.used), '  ')}".rstrip()

    def export(self, path: str) -> None:
        """Write the cubin to ``path``."""
        Path(path).write_bytes(self.result.cubin)


def executable(program: Program, artifact: Artifact) -> Executable:
    """CUDA code, compiled or from the cache, behind a launcher."""
    func, options, target = program.func, program.options, program.target
    module = artifact.module
    if options.verbose:
        print(module.source)
    result = build_cubin(artifact, module, target, options, func.name, program.backend)
    used = resources_of(result, module, target.limits)
    advise(func, module.kernels, used.warnings)
    spec = artifact_spec(func, program.out_idx, artifact, "cuda", noalias=APART)
    cache = default_cache()
    make = partial(
        make_gpu_launcher, spec, host_program(module),
        LoadedModule(result.cubin, kernel_table(module), func.name), cache=cache,
        narrow=program.narrow,
    )  # fmt: skip

    def fast() -> Callable[..., Any]:
        return make(compiler=launcher_compiler(cache))

    if program.backend == "python":
        launcher = make(compiler=None)
    elif is_launcher_built(cache, SOON):
        launcher = fast()
    else:
        launcher = LateLauncher(make(compiler=None), partial(is_launcher_built, cache), fast)
    return CudaExecutable(
        launcher, _kind(launcher), func, artifact, None, result, used, program.report
    )


def _kind(launcher: Callable[..., Any]) -> str:
    return "python" if isinstance(launcher, PyLauncher) else "c"


def build_cubin(
    artifact: Artifact, module: GpuModule, target: Target, options: Options, name: str,
    backend: str = "auto",
) -> toolchain.CompileResult:  # fmt: skip
    """Machine code of a generated source, from the cache or compiled now."""
    tool = backend if backend in ("nvcc", "nvrtc") else "auto"
    flags = compile_flags(artifact, options)
    headers = json.dumps(toolchain.device_headers(), sort_keys=True)
    texts = (module.source, *toolchain.included_files(flags))
    key = content_key(
        "cubin", *texts, headers, target.arch, repr(flags), toolchain.compilers_identity(tool)
    )

    def make() -> Entry:
        if env.TILELANG_PRINT_ON_COMPILATION and not options.verbose:
            print(module.source)
        result = toolchain.compile_cubin(module.source, target.arch, flags, name=name, tool=tool)
        meta = {"kind": "cubin", "ptx": result.ptx, "log": result.log, "tool": result.tool}
        return Entry(result.cubin, meta)

    entry = default_cache().fetch(key, make)
    meta: Mapping[str, Any] = entry.meta
    parsed = toolchain.parse_log(meta["log"])
    return toolchain.CompileResult(entry.data, meta["ptx"], meta["log"], *parsed, meta["tool"])


def compile_flags(artifact: Artifact, options: Options) -> tuple[str, ...]:
    """Flags of the artifact and of the program, each once."""
    flags = [*artifact.flags, *options.compile_flags]
    if options.fast_math:
        flags.append("--use_fast_math")
    level = dict(options.configs).get(_REGISTER_LEVEL)
    if level is not None:
        flags.append(f"--ptxas-options=--register-usage-level={level}")
    return tuple(dict.fromkeys(toolchain.kernel_flags(flags)))


# -- resources -------------------------------------------------------------------------------------
def resources_of(result: toolchain.CompileResult, module: GpuModule, limits: Limits) -> Resources:
    """The assembler's figures with dynamic shared memory and occupancy of the actual launches."""
    plans = {plan.kernel: plan for plan in launches(module.steps)}
    dynamic = {name: shared for name, shared, _ in kernel_table(module)}
    resources = []
    for used in result.resources:
        used = replace(used, shared=used.shared + dynamic.get(used.name, 0))
        plan = plans.get(used.name)
        if plan is not None:
            x, y, z = plan.threads
            used = replace(used, occupancy=occupancy(used, x * y * z, limits))
        resources.append(used)
    return Resources(tuple(resources), result.warnings)


def occupancy(kernel: toolchain.KernelResources, threads: int, limits: Limits) -> float:
    """Share of a multiprocessor's threads that blocks of a kernel can fill."""
    warps = -(-threads // limits.warp)
    blocks = min(limits.blocks_processor, limits.threads_processor // (warps * limits.warp))
    # Registers are handed out to warps in units of 256, on four partitions.
    unit = -(-max(1, kernel.registers) * limits.warp // 256) * 256
    blocks = min(blocks, limits.registers // unit // 4 * 4 // warps)
    if limits.shared_processor:
        # From compute capability 8.0 on, the system takes 1 KiB of each block.
        reserved = limits.shared_processor - limits.shared_block
        size = -(-(kernel.shared + reserved) // 128) * 128
        blocks = min(blocks, limits.shared_processor // size if size else blocks)
    return blocks * warps * limits.warp / limits.threads_processor
