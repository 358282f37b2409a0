"""The newer name of `tilelang.tvm.tir`."""

from __future__ import annotations

import sys
from typing import Any

from tilelang.compat.tvm import tir


def __getattr__(name: str) -> Any:
    try:
        return getattr(tir, name)
    except AttributeError:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__]) from None
