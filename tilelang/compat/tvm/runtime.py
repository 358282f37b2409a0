"""The runtimes of this machine."""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.ir.dtypes import dtype as DataType
from tilelang.target import parse_target

__all__ = ["DataType", "enabled"]

__getattr__ = absent_names("tilelang.tvm.runtime")


def enabled(target: str) -> bool:
    """Whether kernels for ``target`` can run on this machine.

    Raises:
        TileValueError: no such target.
    """
    from tilelang.target.device import cuda_devices

    kind = parse_target(target).kind
    return kind == "cpu" or (kind == "cuda" and bool(cuda_devices()))
