"""Names that programs reach through ``tilelang.tvm``, as names of this package's own objects.

Nothing of TVM is here or emulated. Where a program means something that this package has (a target,
a dtype, an expression, a function), the name leads to it; other names that programs are known to
use say what to do instead (`tilelang.absent`).
"""

from __future__ import annotations

import importlib
from typing import Any

from tilelang.absent import absent_names
from tilelang.compat.tvm.ir import IRModule
from tilelang.errors import TileError as TVMError
from tilelang.ir.dtypes import dtype as DataType

__all__ = ["DataType", "IRModule", "TVMError"]

_MODULES = frozenset(
    (
        "arith",
        "error",
        "ffi",
        "ir",
        "runtime",
        "target",
        "te",
        "testing",
        "tir",
        "tirx",
        "transform",
    )
)
_absent = absent_names("tilelang.tvm")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tilelang.compat.tvm.{name}")
    return _absent(name)
