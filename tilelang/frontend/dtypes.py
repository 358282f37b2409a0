"""``tilelang.frontend.dtypes``: the dtypes of the language under their historical path."""

from __future__ import annotations

from typing import Any

from tilelang.ir import dtypes as _dtypes
from tilelang.ir.dtypes import dtype, max_value, min_value, promote

__all__ = ["AnyDType", "dtype", "max_value", "min_value", "promote"]

AnyDType = Any  # whatever ``dtype(x)`` accepts


def __getattr__(name: str) -> Any:
    """``dtypes.float16`` and every other type by its name."""
    attribute = getattr(_dtypes, name, None)
    if attribute is not None:
        return attribute
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return dtype(name)
    except TypeError as error:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from error
