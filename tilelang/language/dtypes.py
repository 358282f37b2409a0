"""Today's path of the dtypes: ``tilelang.language.dtypes.float16`` and so on."""

from __future__ import annotations

from typing import Any

from tilelang.language.v2 import dtypes as _home
from tilelang.language.v2.dtypes import AnyDType, dtype, max_value, min_value, promote

__all__ = ["AnyDType", "dtype", "max_value", "min_value", "promote"]


def __getattr__(name: str) -> Any:
    return getattr(_home, name)
