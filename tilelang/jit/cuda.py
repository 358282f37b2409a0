"""Kernels as machine code for NVIDIA GPUs: source, cubin from the cache or NVRTC, launcher.

Imported when the first kernel for a GPU is compiled. Compilation needs no GPU and no driver: both
are looked for when the kernel is first called.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from textwrap import indent
from typing import Any

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.gpu.module import CudaModule
from tilelang.cpu.toolchain import find_compiler
from tilelang.cuda.code import Code
from tilelang.cuda.disassembly import disassemble
from tilelang.cuda.nvrtc import load_ahead
from tilelang.cuda.toolchain import (
    CompileResult,
    KernelResources,
    compile_cubin,
    device_headers,
    kernel_flags,
    parse_log,
    places_identity,
)
from tilelang.env import env
from tilelang.errors import InternalError, TileWarning
from tilelang.ir.stmt import PrimFunc
from tilelang.jit.artifacts import artifact_of
from tilelang.jit.executable import Executable, results_form
from tilelang.jit.steps import host_program, kernel_table, launches
from tilelang.options import Options
from tilelang.runtime.cache import Entry, content_key, default_cache
from tilelang.runtime.contract import launch_spec
from tilelang.runtime.gpu import make_gpu_launcher
from tilelang.runtime.pylauncher import PyLauncher
from tilelang.runtime.signature import LaunchSpec, Param
from tilelang.target import Target
from tilelang.target.limits import Limits

DEFAULT_ARCH = "sm_80"  # of "cuda" on a machine without a GPU
_VECTOR = 16  # bytes of the widest memory access
_REGISTER_LEVEL = "tl.ptxas_register_usage_level"


@dataclass(frozen=True)
class Resources:
    """What the kernels of a program need; see :class:`KernelResources` for each.

    ``registers``, ``shared`` and ``stack`` are those of the largest, ``spills`` those of all
    together, ``occupancy`` that of the smallest. ``warnings`` is what the assembler said.
    """

    kernels: tuple[KernelResources, ...]
    warnings: tuple[str, ...] = ()

    @property
    def registers(self) -> int:
        """32-bit registers of a thread."""
        return max((item.registers for item in self.kernels), default=0)

    @property
    def shared(self) -> int:
        """Bytes of shared memory of a block, static and dynamic."""
        return max((item.shared for item in self.kernels), default=0)

    @property
    def stack(self) -> int:
        """Bytes of a thread's frame in local memory."""
        return max((item.stack for item in self.kernels), default=0)

    @property
    def spills(self) -> int:
        """Bytes of spill stores and loads."""
        return sum(item.spills for item in self.kernels)

    @property
    def occupancy(self) -> float:
        """Share of a multiprocessor's threads that can be resident."""
        return min((item.occupancy or 0.0 for item in self.kernels), default=0.0)

    def __str__(self) -> str:
        return "\n".join([*map(str, self.kernels), *self.warnings])


@dataclass(frozen=True)
class CudaExecutable(Executable):
    """A program for a GPU."""

    result: CompileResult = field(default_factory=lambda: CompileResult(b"", None, ""))
    used: Resources = field(default_factory=lambda: Resources(()))
    target: Target = field(default_factory=lambda: Target("cuda", DEFAULT_ARCH))
    options: Options = field(default_factory=Options)

    @property
    def resources(self) -> Resources:
        """Registers, shared memory, spills and occupancy."""
        return self.used

    def text(self, which: str) -> str:
        """The "cuda", "ptx" or "sass" text."""
        if which == "cuda":
            return self.source
        if which == "ptx":
            return self.result.ptx or ""
        return disassemble(self.result.cubin)

    def explain(self) -> str:
        """What became of each tile and each line of the program, and what the kernels need."""
        from tilelang.explain.report import explain

        text = explain(self.func, self.target, self.options)
        return f"{text}\n\nresources\n{indent(str(self.used), '  ')}".rstrip()

    def export(self, path: str) -> None:
        """Write the cubin to ``path``."""
        Path(path).write_bytes(self.result.cubin)


def compiled(
    func: PrimFunc,
    out_idx: tuple[int, ...],
    target: Target,
    options: Options,
    backend: str,
    limits: tuple[tuple[str, int], ...] = (),
) -> Executable:
    """CUDA code for ``func``, compiled or from the cache, behind a launcher.

    Args:
        func: the program.
        out_idx: parameters that are results.
        target: a CUDA target.
        options: of the compilation.
        backend: how it is run.
        limits: (parameter, bytes) of tensors that are aligned less than vectors like it. Without
            any, the launcher compiles such kernels when it meets such tensors.
    """
    if limits:
        from tilelang.compiler import for_alignments

        func = for_alignments(func, dict(limits))
    target = concrete(target)
    cache = default_cache()
    ahead = None if backend == "nvcc" else partial(load_ahead, target.arch)
    artifact = artifact_of(func, target, options, cache, ahead)
    module = artifact.device
    if module is None:
        raise InternalError(f"the CUDA back end gave no module for {func.name}")
    if options.verbose:
        print(module.source)
    result = build_cubin(artifact, module, target, options, func.name, backend)
    used = resources_of(result, module, target.limits)
    for message in used.warnings:
        if "(C7" in message:  # spills are told by `resources` and `explain()`
            warnings.warn(f"kernel {func.name}: {message}", TileWarning, stacklevel=2)
    spec = aligned(
        launch_spec(
            func, out_idx, messages=module.messages, sites=artifact.sites, device="cuda",
            returns=results_form(func, out_idx),
        ),
        artifact.alignments,
    )  # fmt: skip

    def narrow(found: tuple[tuple[str, int], ...]) -> Callable[..., Any]:
        return compiled(func, out_idx, target, options, backend, found).call

    launcher = make_gpu_launcher(
        spec,
        host_program(module),
        Code(result.cubin, kernel_table(module), func.name),
        compiler=None if backend == "python" else find_compiler(cache, quiet=True),
        cache=cache,
        narrow=None if limits else narrow,
    )
    kind = "python" if isinstance(launcher, PyLauncher) else "c"
    return CudaExecutable(launcher, kind, func, artifact, None, result, used, target, options)


def concrete(target: Target) -> Target:
    """``target`` with an architecture: its own, else the usual minimum of today's programs."""
    return target if target.arch else replace(target, arch=DEFAULT_ARCH)


def build_cubin(
    artifact: Artifact,
    module: CudaModule,
    target: Target,
    options: Options,
    name: str,
    backend: str = "auto",
) -> CompileResult:
    """Machine code of a generated source, from the cache or compiled now."""
    tool = backend if backend in ("nvcc", "nvrtc") else "auto"
    flags = compile_flags(artifact, options)
    headers = json.dumps(device_headers(), sort_keys=True)
    key = content_key(
        "cubin", module.source, headers, target.arch, repr(flags), places_identity(tool)
    )

    def make() -> Entry:
        if env.TILELANG_PRINT_ON_COMPILATION and not options.verbose:
            print(module.source)
        done = compile_cubin(module.source, target.arch, flags, name=name, tool=tool)
        meta = {"kind": "cubin", "ptx": done.ptx, "log": done.log, "tool": done.tool}
        return Entry(done.cubin, meta)

    entry = default_cache().fetch(key, make)
    meta: Mapping[str, Any] = entry.meta
    found = parse_log(meta["log"])
    return CompileResult(entry.data, meta["ptx"], meta["log"], *found, meta["tool"])


def compile_flags(artifact: Artifact, options: Options) -> tuple[str, ...]:
    """Flags of the artifact and of the program, each once."""
    flags = [*artifact.flags, *options.compile_flags]
    if options.fast_math:
        flags.append("--use_fast_math")
    level = dict(options.configs).get(_REGISTER_LEVEL)
    if level is not None:
        flags.append(f"--ptxas-options=--register-usage-level={level}")
    return tuple(dict.fromkeys(kernel_flags(flags)))


# -- resources -------------------------------------------------------------------------------------
def resources_of(result: CompileResult, module: CudaModule, limits: Limits) -> Resources:
    """The assembler's figures with dynamic shared memory and occupancy of the actual launches."""
    plans = {plan.kernel: plan for plan in launches(module.steps)}
    dynamic = {name: shared for name, shared, _ in kernel_table(module)}
    found = []
    for item in result.resources:
        item = replace(item, shared=item.shared + dynamic.get(item.name, 0))
        plan = plans.get(item.name)
        if plan is not None:
            x, y, z = plan.threads
            item = replace(item, occupancy=occupancy(item, x * y * z, limits))
        found.append(item)
    return Resources(tuple(found), result.warnings)


def occupancy(item: KernelResources, threads: int, limits: Limits) -> float:
    """Share of a multiprocessor's threads that blocks of a kernel can fill."""
    warps = -(-threads // limits.warp)
    blocks = min(limits.blocks_processor, limits.threads_processor // (warps * limits.warp))
    # Registers are handed out to warps in units of 256, on four partitions.
    unit = -(-max(1, item.registers) * limits.warp // 256) * 256
    blocks = min(blocks, limits.registers // unit // 4 * 4 // warps)
    if limits.shared_processor:
        # From compute capability 8.0 on, the system takes 1 KiB of each block.
        reserved = limits.shared_processor - limits.shared_block
        wanted = -(-(item.shared + reserved) // 128) * 128
        blocks = min(blocks, limits.shared_processor // wanted if wanted else blocks)
    return blocks * warps * limits.warp / limits.threads_processor


# -- alignment -------------------------------------------------------------------------------------
def aligned(spec: LaunchSpec, known: Sequence[tuple[str, int]] | None) -> LaunchSpec:
    """``spec`` with the alignment that the kernels' vector accesses rely on.

    Args:
        spec: the contract.
        known: bytes per parameter name; None means any tensor may be accessed by vectors.
    """
    table = None if known is None else dict(known)

    def one(param: Param) -> Param:
        if param.kind == "scalar":
            return param
        if table is None:
            wanted = _widest(param) if param.kind == "tensor" else 0
        else:
            wanted = table.get(param.name, 0)
        return replace(param, align=wanted) if wanted > param.alignment else param

    return replace(spec, params=tuple(map(one, spec.params)))


def _widest(param: Param) -> int:
    """The widest vector that fits into a tensor at all."""
    size = param.itemsize
    for extent in param.shape:
        size = size * extent if isinstance(extent, int) else _VECTOR
        if not isinstance(extent, int):
            break
    width = _VECTOR
    while width > max(1, size):
        width //= 2
    return width
