"""The 8-bit floats that the GPU of this machine has, under the path that programs import."""

from __future__ import annotations

from typing import Any

from tilelang.errors import check_choice
from tilelang.ir.dtypes import dtype as DType

__all__ = ["determine_fp8_type", "determine_torch_fp8_type"]

# Format -> dtype as standardised, and as AMD's first units have it (one NaN, no infinities).
_NAMES = {"e4m3": ("float8_e4m3fn", "float8_e4m3fnuz"), "e5m2": ("float8_e5m2", "float8_e5m2fnuz")}
_STANDARD_AMD = "gfx950"  # the first with the standardised formats


def determine_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> DType:
    """The dtype for 8-bit floats of ``fp8_format``.

    Args:
        fp8_format: "e4m3" or "e5m2".
        device: the GPU in question, as torch names it; the current one by default. It matters
            only where torch is built for AMD.

    Raises:
        TileValueError: another format.
    """
    check_choice(fp8_format, _NAMES, "unknown 8-bit float format", '"e4m3" or "e5m2"')
    import torch

    standard, first = _NAMES[fp8_format]
    if torch.version.hip is None:
        return DType(standard)
    if torch.cuda.is_available():
        architecture = getattr(torch.cuda.get_device_properties(device), "gcnArchName", "")
        if architecture.startswith(_STANDARD_AMD):
            return DType(standard)
    return DType(first)


def determine_torch_fp8_type(fp8_format: str = "e4m3", device: Any = None) -> Any:
    """Like :func:`determine_fp8_type`, as a dtype of torch."""
    return determine_fp8_type(fp8_format, device).as_torch()
