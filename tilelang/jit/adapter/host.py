"""The host source of a compiled function, whatever its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.ir.stmt import PrimFunc
from tilelang.jit.adapter.wrapper import TLPyWrapper, TLWrapper

if TYPE_CHECKING:
    from tilelang.compiler import Artifact

_TARGETS = {"c": "cpu", "cuda": "cuda", "hip": "hip", "metal": "metal"}


def host_source(artifact: Artifact, func: PrimFunc, backend: str = "auto") -> str:
    """Host source around the kernels of ``func``.

    Args:
        artifact: the generated source with its launch steps.
        backend: as given to ``jit``; "nvrtc" asks for a Python module over
            ``cuda.bindings.driver`` where the target is CUDA.
    """
    target = _TARGETS[artifact.language]
    python = backend == "nvrtc" and target == "cuda"
    wrapper = TLPyWrapper(target) if python else TLWrapper(target)
    wrapper.assign_optimized_module(func)
    wrapper.assign_device_module(artifact.device)
    return wrapper.wrap(artifact.source)
