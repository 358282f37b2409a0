"""The C++ registry of TVM, which does not exist here."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.tvm.ffi")
