"""Today's path of the dtypes: ``tilelang.language.dtypes.float16`` and so on."""

from __future__ import annotations

from typing import Any

from tilelang.language.v2 import dtypes as _home
from tilelang.language.v2.dtypes import AnyDType, dtype, max_value, min_value, promote

__all__ = ["AnyDType", "dtype", "max_value", "min_value", "promote"]


_TORCH_NAMES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
    "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
    "float8_e5m2fnuz", "float8_e8m0fnu",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "_TORCH_DTYPE_TO_STR":  # programs import it, underscore or not
        import torch

        return {getattr(torch, item): item for item in _TORCH_NAMES if hasattr(torch, item)}
    return getattr(_home, name)
