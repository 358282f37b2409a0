"""Kernels as code objects for AMD GPUs: source, code from the cache or compiled, launcher.

Imported when the first kernel for such a GPU is compiled. Compilation needs no GPU: that, and the
HIP runtime, are looked for when the kernel is first called.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from textwrap import indent
from typing import ClassVar

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Program
from tilelang.hip.driver import LoadedCode
from tilelang.hip.headers import device_headers
from tilelang.hip.toolchain import (
    FAST_MATH,
    CodeObject,
    KernelUse,
    assembly,
    compile_code,
    identity,
    used,
)
from tilelang.options import Options
from tilelang.records import dataclass
from tilelang.runtime.cache import Entry, content_key, default_cache
from tilelang.runtime.executable import Executable
from tilelang.runtime.gpu import make_gpu_launcher
from tilelang.runtime.host_program import host_program, kernel_table
from tilelang.runtime.launch_spec import artifact_spec
from tilelang.runtime.signature import APART


@dataclass(frozen=True)
class HipExecutable(Executable):
    """A program for an AMD GPU."""

    result: CodeObject = field(default_factory=lambda: CodeObject(b"", "", ""))
    arch: str = ""
    flags: tuple[str, ...] = ()
    report: Callable[[], str] = str
    device: ClassVar[str | None] = "cuda"  # as torch for ROCm names it

    @property
    def resources(self) -> tuple[KernelUse, ...]:
        """Registers, scratch memory and waves of each kernel."""
        return self.result.kernels

    def text(self, kind: str) -> str:
        """The "hip" text, or the assembly, "isa"."""
        return self.source if kind == "hip" else assembly(self.source, self.arch, self.flags)

    def explain(self) -> str:
        """Explain each tile and line of the program, and the resources of the kernels."""
        needs = "\n".join(map(str, self.resources))
        return f"{self.report()}\n\nresources\n{indent(needs, '  ')}".rstrip()

    def export(self, path: str) -> None:
        """Write the code object to ``path``."""
        Path(path).write_bytes(self.result.code)


def executable(program: Program, artifact: Artifact) -> Executable:
    """A code object, compiled or from the cache, behind a launcher."""
    func, options, module = program.func, program.options, artifact.module
    if options.verbose:
        print(module.source)
    arch = program.target.concrete().arch
    result = build_code(module.source, arch, compile_flags(options), func.name)
    return loaded(program, artifact, result, arch)


def loaded(program: Program, artifact: Artifact, result: CodeObject, arch: str) -> HipExecutable:
    """A code object behind a launcher."""
    func, module = program.func, artifact.module
    spec = artifact_spec(func, program.out_idx, artifact, "hip", noalias=APART)
    kernels = [name for name, _, _ in kernel_table(module)]
    launcher = make_gpu_launcher(
        spec, host_program(module), LoadedCode(result.code, kernels, func.name), compiler=None,
        cache=default_cache(), narrow=program.narrow,
    )  # fmt: skip
    flags = compile_flags(program.options)
    return HipExecutable(
        launcher, "python", func, artifact, None, result, arch, flags, program.report
    )


def build_code(source: str, arch: str, flags: tuple[str, ...], name: str) -> CodeObject:
    """The code object of a generated source, from the cache or compiled now."""
    headers = json.dumps(device_headers(), sort_keys=True)
    key = content_key("hip", source, headers, arch, repr(flags), identity())

    def make() -> Entry:
        result = compile_code(source, arch, flags, name=name)
        return Entry(result.code, {"kind": "hip", "log": result.log, "tool": result.tool})

    entry = default_cache().fetch(key, make)
    log = str(entry.meta["log"])
    return CodeObject(entry.data, log, str(entry.meta["tool"]), used(log))


def compile_flags(options: Options) -> tuple[str, ...]:
    """Flags of the program, each once."""
    return tuple(dict.fromkeys((*options.compile_flags, *(FAST_MATH if options.fast_math else ()))))
