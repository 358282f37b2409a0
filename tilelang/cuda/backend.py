"""The CUDA back end: its entry, from a program to CUDA source."""

from __future__ import annotations

from tilelang.codegen.artifact import Artifact, artifact_of
from tilelang.codegen.backend import Backend, Program
from tilelang.codegen.gpu.module import MapStep, walk_steps
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context

TENSOR_MAP = 16  # bytes that the address of a tensor with a tensor map is a multiple of


def _emit(func: PrimFunc, context: Context) -> Artifact:
    """The device source and the host steps of a lowered program."""
    from tilelang.cuda.dialect import emit_cuda
    from tilelang.transforms.normalize.alignment import needed_alignments

    module = emit_cuda(func, context.target)
    needs = dict(needed_alignments(func))
    needs.update(
        (step.map.tensor, TENSOR_MAP)
        for step in walk_steps(module.steps)
        if isinstance(step, MapStep)
    )
    return artifact_of(func, module, "cuda", needs)


def _load_early(program: Program) -> None:
    """Load the compiler's library and build the launcher while the passes run."""
    from tilelang.cuda.native_launcher import launcher_ahead
    from tilelang.cuda.nvrtc import load_ahead
    from tilelang.runtime.cache import default_cache

    if program.backend != "nvcc":
        load_ahead(program.target.arch)
    if program.backend != "python":
        launcher_ahead(default_cache())


CUDA = Backend(
    kind="cuda",
    language="CUDA",
    emit=_emit,
    ahead=_load_early,
    keeps_text=True,
    emulated=True,
    texts=("cuda", "ptx", "sass"),
    exported=True,
    called_by_xla=True,
)
