"""The row of the CUDA back end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.codegen.artifact import Artifact, artifact_of
from tilelang.codegen.backend import Backend, Foreign, Program, Shipping
from tilelang.codegen.gpu.module import MapStep, walk_steps
from tilelang.ir.stmt import PrimFunc
from tilelang.target import Context

if TYPE_CHECKING:
    from tilelang.runtime.executable import Executable

TENSOR_MAP = 16  # bytes that the address of a tensor with a tensor map is a multiple of


def _emit(func: PrimFunc, context: Context) -> Artifact:
    """The device text and the host steps of a lowered program."""
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


def _ahead(program: Program) -> None:
    """Load the compiler's library and build the launcher while the passes run."""
    from tilelang.cuda.native_launcher import launcher_ahead
    from tilelang.cuda.nvrtc import load_ahead
    from tilelang.runtime.cache import default_cache

    if program.backend != "nvcc":
        load_ahead(program.target.arch)
    if program.backend != "python":
        launcher_ahead(default_cache())


def _executable(program: Program, artifact: Artifact) -> Executable:
    from tilelang.cuda.executable import executable  # only kernels that run need a toolchain

    return executable(program, artifact)


def _standalone(source: str) -> str:
    from tilelang.cuda.standalone import standalone

    return standalone(source)


def _shipping() -> Shipping:
    from tilelang.cuda.shipping import SHIPPING

    return SHIPPING


def _foreign() -> Foreign:
    from tilelang.cuda.foreign import FOREIGN

    return FOREIGN


CUDA = Backend(
    kind="cuda", language="CUDA", emit=_emit, executable=_executable, ahead=_ahead, keeps_text=True,
    emulated=True, texts=("cuda", "ptx", "sass"), standalone=_standalone, shipping=_shipping,
    foreign=_foreign,
)  # fmt: skip
