"""The HIP back end: its entry, from a program to HIP source."""

from __future__ import annotations

from tilelang.codegen.artifact import Artifact, artifact_of
from tilelang.codegen.backend import Backend
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context


def _emit(func: PrimFunc, context: Context) -> Artifact:
    """The device source and the host steps of a lowered program."""
    from tilelang.codegen.gpu.emit import emit_module
    from tilelang.hip.dialect import HIP
    from tilelang.transforms.normalize.alignment import needed_alignments

    module = emit_module(func, context.target, HIP)
    return artifact_of(func, module, "hip", dict(needed_alignments(func)))


HIP = Backend(
    kind="hip",
    language="HIP",
    emit=_emit,
    keeps_text=True,
    emulated=True,
    texts=("hip", "isa"),
    exported=True,
)
