"""The row of the Metal back end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.codegen.artifact import Artifact, artifact_of
from tilelang.codegen.backend import Backend, Program
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context

if TYPE_CHECKING:
    from tilelang.runtime.executable import Executable


def _emit(func: PrimFunc, context: Context) -> Artifact:
    """The text and the host steps of a lowered program."""
    from tilelang.codegen.gpu.emit import emit_module
    from tilelang.metal.dialect import METAL as DIALECT
    from tilelang.transforms.normalize.alignment import needed_alignments

    module = emit_module(func, context.target, DIALECT)
    return artifact_of(func, module, "metal", dict(needed_alignments(func)))


def _executable(program: Program, artifact: Artifact) -> Executable:
    from tilelang.metal.executable import executable  # only kernels that run need torch

    return executable(program, artifact)


def _standalone(source: str) -> str:
    from tilelang.metal.standalone import standalone

    return standalone(source)


METAL = Backend(
    kind="metal", language="Metal", emit=_emit, executable=_executable, keeps_text=True,
    emulated=True, texts=("metal",), standalone=_standalone,
)  # fmt: skip
