"""The dtypes: ``tilelang.dtypes.float16`` and so on; see ``tilelang.language.dtypes``."""

from __future__ import annotations

from typing import Any

from tilelang.language import dtypes as _home
from tilelang.language.dtypes import AnyDType, dtype

__all__ = ["AnyDType", "dtype"]


def __getattr__(name: str) -> Any:
    return getattr(_home, name)
