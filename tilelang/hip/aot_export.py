"""Kernels for AMD GPUs in libraries that programs in other languages link.

A file holds a code object for each chip with the steps that launch its kernels, and a loader that
finds the HIP runtime when a function is first called. It needs no ROCm to compile, and no Python to
run. Of the code objects the first is used that the runtime takes for the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from tilelang.codegen.artifact import Artifact
from tilelang.codegen.backend import Exporter, Part, Program
from tilelang.codegen.prototype import NO_DRIVER, Prototype
from tilelang.cpu.aot_export import link
from tilelang.cuda.aot_export import demand_native, flags, library_text, row, tables
from tilelang.errors import TileUnsupportedError
from tilelang.hip.executable import build_code, compile_flags, loaded
from tilelang.hip.output import SYMBOL
from tilelang.runtime.executable import Executable
from tilelang.runtime.library import Library
from tilelang.target import Target
from tilelang.target.device import hip_devices

_LOADER = Path(__file__).resolve().parent / "loader" / "tl_hip_loader.h"
_TEXTS = {NO_DRIVER: "libamdhip64.so cannot be loaded, or is too old"}


def parts(
    program: Program, text: Callable[[Target], Artifact], archs: Sequence[str]
) -> tuple[Part, ...]:
    """The program for each chip, or for that of its target.

    Raises:
        TileUnsupportedError: its host part cannot be run by C, or its kernels print.
    """
    images = []
    for arch in archs or (program.target.concrete().arch,):
        target = replace(program.target, arch=arch)
        artifact = text(target)
        module = artifact.module
        demand_native(program.func.name, module)
        image = build_code(module.source, arch, compile_flags(program.options), program.func.name)
        if SYMBOL.encode() in image.code:
            raise TileUnsupportedError(
                f"`{program.func.name}` prints, which exported kernels for AMD GPUs cannot",
                expected="a program without T.print and T.device_assert",
            )
        images.append(Part(target, artifact, image))
    return tuple(images)


def source(prototype: Prototype, program: Program, parts: Sequence[Part]) -> str:
    """One file of C with the kernels behind a function of their own."""
    lines, variants = [], []
    for number, part in enumerate(parts):
        lines += tables(part, number, part.image.code)
        variants.append(row(part, number))
    return library_text(prototype, program, parts, _LOADER, (lines, variants), _TEXTS)


def load(program: Program, parts: Sequence[Part], library: Library, symbol: str) -> Executable:
    """The caller of a kernel of a library, by the code object for this machine's first GPU."""
    arch = next(iter(hip_devices()), parts[-1].target.arch)
    fitting = [part for part in parts if part.target.arch == arch]
    if not fitting:
        raise TileUnsupportedError(
            f"the library has no machine code for {arch}",
            expected=", ".join(part.target.arch for part in parts), got=arch,
        )  # fmt: skip
    part = fitting[0]
    return loaded(program, part.artifact, part.image, arch)


EXPORTER = Exporter(parts, source, flags, link, load, stream=True)
