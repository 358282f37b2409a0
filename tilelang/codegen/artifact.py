"""The result of a compilation: source in another language, and the data to compile and call it."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.codegen.gpu.module import GpuModule
from tilelang.codegen.symbols import symbols_of
from tilelang.errors import InternalError, Site
from tilelang.ir.stmt import PrimFunc
from tilelang.records import dataclass


@dataclass(frozen=True)
class Artifact:
    """Generated source with the data to compile and call it."""

    source: str
    language: str  # "c", later "cuda", "hip", "metal"
    entry: str
    symbols: tuple[str, ...]
    messages: tuple[str, ...]  # error code - 1 -> message
    sites: tuple[Site, ...] = ()  # error code - 1 -> the check that gives it
    flags: tuple[str, ...] = ()
    explain: str = ""
    device: GpuModule | None = None  # of a program for a GPU: its kernels and host steps
    # Bytes that the address of a parameter must be a multiple of, by name; None: unknown.
    alignments: tuple[tuple[str, int], ...] | None = None

    @property
    def module(self) -> GpuModule:
        """The kernels and host steps of a program for a GPU.

        Raises:
            InternalError: the program is for the CPU.
        """
        if self.device is None:
            raise InternalError("the back end of a GPU gave no module")
        return self.device

    @property
    def kernel_source(self) -> str:
        """The generated source, under the name that programs use."""
        return self.source


def artifact_of(
    func: PrimFunc, module: GpuModule, language: str, alignments: Mapping[str, int]
) -> Artifact:
    """The artifact of a program for a GPU."""
    return Artifact(
        source=module.source,
        language=language,
        entry=module.kernels[0] if module.kernels else "",
        symbols=tuple(symbol.name for symbol in symbols_of(func)),
        messages=module.messages,
        sites=module.sites,
        flags=module.flags,
        device=module,
        alignments=tuple(alignments.items()),
    )
