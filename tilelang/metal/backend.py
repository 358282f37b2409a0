"""The Metal back end: its entry, from a program to Metal source."""

from __future__ import annotations

from tilelang.codegen.artifact import Artifact, artifact_of
from tilelang.codegen.backend import Backend
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context


def _emit(func: PrimFunc, context: Context) -> Artifact:
    """The text and the host steps of a lowered program."""
    from tilelang.codegen.gpu.emit import emit_module
    from tilelang.metal.dialect import METAL as DIALECT
    from tilelang.transforms.normalize.alignment import needed_alignments

    module = emit_module(func, context.target, DIALECT)
    return artifact_of(func, module, "metal", dict(needed_alignments(func)))


METAL = Backend(
    kind="metal", language="Metal", emit=_emit, keeps_text=True, emulated=True, texts=("metal",)
)
