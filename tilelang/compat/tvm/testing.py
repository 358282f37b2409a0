"""Helpers of test files."""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.compat.tvm.ir import assert_structural_equal as assert_prim_expr_equal
from tilelang.testing import main, requires_cuda, requires_package, requires_rocm

__all__ = ["assert_prim_expr_equal", "main", "requires_cuda", "requires_package", "requires_rocm"]

__getattr__ = absent_names("tilelang.tvm.testing")
