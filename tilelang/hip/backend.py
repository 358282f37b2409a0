"""The row of the HIP back end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.codegen.artifact import Artifact, artifact_of
from tilelang.codegen.backend import Backend, Program, Shipping
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context

if TYPE_CHECKING:
    from tilelang.runtime.executable import Executable


def _emit(func: PrimFunc, context: Context) -> Artifact:
    """The device text and the host steps of a lowered program."""
    from tilelang.codegen.gpu.emit import emit_module
    from tilelang.hip.dialect import HIP
    from tilelang.transforms.normalize.alignment import needed_alignments

    module = emit_module(func, context.target, HIP)
    return artifact_of(func, module, "hip", dict(needed_alignments(func)))


def _executable(program: Program, artifact: Artifact) -> Executable:
    from tilelang.hip.executable import executable  # only kernels that run need a toolchain

    return executable(program, artifact)


def _standalone(source: str) -> str:
    from tilelang.hip.standalone import standalone

    return standalone(source)


def _shipping() -> Shipping:
    from tilelang.hip.shipping import SHIPPING

    return SHIPPING


HIP = Backend(
    kind="hip", language="HIP", emit=_emit, executable=_executable, keeps_text=True, emulated=True,
    texts=("hip", "isa"), standalone=_standalone, shipping=_shipping,
)  # fmt: skip
