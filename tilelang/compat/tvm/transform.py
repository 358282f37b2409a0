"""Pass contexts by the path that programs use; TVM's passes do not exist here."""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.options import PassContext

__all__ = ["PassContext"]

__getattr__ = absent_names("tilelang.tvm.transform")
