"""Queries of targets, under their usual import path."""

from __future__ import annotations

from typing import Any

from tilelang.errors import TileValueError
from tilelang.ir.dtypes import dtype as DType
from tilelang.target import parse_target
from tilelang.target.device import cuda_devices, has_hip, has_metal
from tilelang.target.kinds import has_fnuz, target_is_cuda, target_is_hip, target_is_metal
from tilelang.tracebacks import border

__all__ = [
    "check_cuda_availability", "check_hip_availability", "check_metal_availability",
    "determine_fp8_type", "determine_target", "determine_torch_fp8_type", "target_get_warp_size",
    "target_has_async_copy", "target_has_bulk_copy", "target_has_ldmatrix", "target_has_stmatrix",
    "target_is_cuda", "target_is_hip", "target_is_metal",
]  # fmt: skip

# Format of an 8-bit float -> its types on NVIDIA (OCP) and on AMD before gfx950 (FNUZ).
_FP8 = {"e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"), "e5m2": ("float8_e5m2", "float8_e5m2fnuz")}


def check_cuda_availability() -> bool:
    """Whether this machine has a CUDA device."""
    return bool(cuda_devices())


def check_hip_availability() -> bool:
    """Whether this machine has an AMD device."""
    return has_hip()


def check_metal_availability() -> bool:
    """Whether this machine has an Apple GPU."""
    return has_metal()


@border
def determine_target(target: Any = "auto", return_object: bool = False) -> Any:
    """The target that ``target`` names: its text, or the object with ``return_object``."""
    parsed = parse_target(target)
    return parsed if return_object else str(parsed)


def determine_fp8_type(fp8_format: str = "e4m3") -> DType:
    """The dtype of 8-bit floats of a format on this machine's device.

    Args:
        fp8_format: "e4m3" or "e5m2".

    Raises:
        TileValueError: another format.
    """
    if fp8_format not in _FP8:
        raise TileValueError(
            "there is no such format of 8-bit floats",
            expected=" or ".join(repr(name) for name in _FP8),
            got=repr(fp8_format),
        )
    return DType(_FP8[fp8_format][has_fnuz(parse_target("auto"))])


def determine_torch_fp8_type(fp8_format: str = "e4m3") -> Any:
    """:func:`determine_fp8_type` as a dtype of torch."""
    import torch

    return getattr(torch, str(determine_fp8_type(fp8_format)))


def target_has_async_copy(target: Any) -> bool:
    """Whether ``target`` has copies to shared memory that complete later (cp.async)."""
    return "cp_async" in parse_target(target).features


def target_has_ldmatrix(target: Any) -> bool:
    """Whether ``target`` has ldmatrix."""
    return "ldmatrix" in parse_target(target).features


def target_has_stmatrix(target: Any) -> bool:
    """Whether ``target`` has stmatrix."""
    return "stmatrix" in parse_target(target).features


def target_has_bulk_copy(target: Any) -> bool:
    """Whether ``target`` has bulk copies counted by mbarriers (TMA)."""
    return "bulk_copy" in parse_target(target).features


def target_get_warp_size(target: Any) -> int:
    """Threads of a warp (wavefront, simdgroup) of ``target``."""
    return parse_target(target).limits.warp
