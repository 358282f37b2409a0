"""The namespace ``tilelang.tvm``: names of TVM for this package's own objects.

It does not contain or emulate TVM. A name whose object exists here (a target, a dtype, an
expression, a function) is that object. Other names that programs use raise an error with a
replacement (`tilelang.absent`).
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
        "arith", "error", "ffi", "ir", "runtime", "target", "te", "testing", "tir", "tirx",
        "transform",
    )
)  # fmt: skip
_absent = absent_names("tilelang.tvm")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"tilelang.compat.tvm.{name}")
    return _absent(name)
