"""The back ends, one for each kind of target. To add a target, add its back end here.

A back end is a package with a :class:`Backend`. A new architecture of a kind that exists needs an
entry in ``target/features.py`` only.
"""

from __future__ import annotations

from tilelang.codegen.backend import Backend
from tilelang.cpu.backend import CPU
from tilelang.cuda.backend import CUDA
from tilelang.errors import TileUnsupportedError
from tilelang.hip.backend import HIP
from tilelang.metal.backend import METAL
from tilelang.target import Target

BACKENDS: dict[str, Backend] = {row.kind: row for row in (CPU, CUDA, HIP, METAL)}


def is_emulated(target: Target) -> bool:
    """Whether the emulator runs programs for ``target``."""
    return target.kind in BACKENDS and BACKENDS[target.kind].emulated


def texts_of(target: Target) -> tuple[str, ...]:
    """Names of the stages of machine code that kernels for ``target`` can show."""
    return BACKENDS[target.kind].texts if target.kind in BACKENDS else ()


def backend_of(target: Target) -> Backend:
    """The back end for ``target``.

    Raises:
        TileUnsupportedError: there is none for its kind.
    """
    backend = BACKENDS.get(target.kind)
    if backend is None:
        raise TileUnsupportedError(
            f"no code generator for the target {target.kind!r} yet",
            expected=" or ".join(f'target="{kind}"' for kind in BACKENDS),
            got=f"target={str(target)!r}",
            hint='the program can be run anywhere with execution_backend="interpret"',
        )
    return backend
