"""``lower`` under its usual import paths: ``tilelang.engine.lower`` is both this module, which has
``lower``, and the function itself."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tilelang.jit.compile import CompiledArtifact, lower

__all__ = ["CompiledArtifact", "lower"]


class _CallableModule(ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> CompiledArtifact:
        return lower(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
