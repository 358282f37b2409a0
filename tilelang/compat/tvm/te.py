"""Arithmetic of expressions and variables."""

from __future__ import annotations

from typing import Any

from tilelang.compat.tvm import tir
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Var

__all__ = ["var"]


def var(name: str = "v", dtype: Any = "int32") -> Var:
    """A free variable."""
    return Var(name, DType(dtype))


def __getattr__(name: str) -> Any:
    return getattr(tir, name)
