"""Import path of pass configuration and of what programs do to traced functions themselves."""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.compat.transform.simplify import apply_simplify, simplify_prim_func
from tilelang.options import PassConfigKey, PassContext

__all__ = [
    "PassConfigKey", "PassContext", "apply_simplify", "get_pass_context", "simplify_prim_func",
]  # fmt: skip

get_pass_context = PassContext.current

__getattr__ = absent_names("tilelang.transform")
