"""The host source of a compiled function, whatever its target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilelang.backends import BACKENDS
from tilelang.compat.adapter.wrapper import TLPyWrapper, TLWrapper
from tilelang.ir.stmt import PrimFunc

if TYPE_CHECKING:
    from tilelang.compiler import Artifact


def host_source(artifact: Artifact, func: PrimFunc, backend: str = "auto") -> str:
    """Host source around the kernels of ``func``.

    Args:
        artifact: the generated source with its launch steps.
        backend: as given to ``jit``; "nvrtc" asks for a Python module over
            ``cuda.bindings.driver`` where the target is CUDA.
    """
    kinds = {row.language.lower(): kind for kind, row in BACKENDS.items()}
    target = kinds.get(artifact.language, artifact.language)
    python = backend == "nvrtc" and target == "cuda"
    wrapper = TLPyWrapper(target) if python else TLWrapper(target)
    wrapper.assign_optimized_module(func)
    wrapper.assign_device_module(artifact.device)
    return wrapper.wrap(artifact.source)
