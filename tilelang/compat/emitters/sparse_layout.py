"""Metadata of 2:4 sparse operands: how many elements one word describes."""

from __future__ import annotations

from typing import Any

from tilelang.ir.dtypes import dtype as DType

__all__ = ["GROUP_CONFIG", "get_e_factor", "get_e_replicate_factor"]

_BITS_PER_GROUP = 4
# Dtype of the elements -> how many of how many are kept.
GROUP_CONFIG: dict[DType, tuple[int, int]] = {
    DType("float32"): (1, 2),
    **{
        DType(name): (2, 4)
        for name in ("float16", "bfloat16", "int8", "uint8", "float8_e4m3", "float8_e5m2")
    },
}


def get_e_factor(a_dtype: Any, meta_dtype: Any) -> int:
    """The number of elements of ``a_dtype`` that one element of ``meta_dtype`` describes."""
    _, group = GROUP_CONFIG[DType(a_dtype)]
    return DType(meta_dtype).bits // _BITS_PER_GROUP * group


def get_e_replicate_factor(a_dtype: Any) -> int:
    """The number of neighbouring threads with the same metadata."""
    return 1 if DType(a_dtype).bits <= 8 else 2
