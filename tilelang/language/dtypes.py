"""Today's path of the dtypes: ``tilelang.language.dtypes.float16`` and so on."""

from __future__ import annotations

from typing import Any

from tilelang.frontend import dtypes as _home
from tilelang.frontend.dtypes import AnyDType, dtype, max_value, min_value, promote
from tilelang.ir.dtypes import SCALARS

__all__ = ["AnyDType", "dtype", "max_value", "min_value", "promote"]


def __getattr__(name: str) -> Any:
    if name == "_TORCH_DTYPE_TO_STR":  # programs import it, underscore or not
        import torch

        dtypes = ((getattr(torch, scalar, None), scalar) for scalar in SCALARS)
        return {kind: scalar for kind, scalar in dtypes if isinstance(kind, torch.dtype)}
    return getattr(_home, name)
