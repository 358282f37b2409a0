"""Kernels from Python functions: decorators, compilation and the compiled kernel."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from tilelang.jit.calls import KernelParam
from tilelang.jit.compile import compile, lower, par_compile
from tilelang.jit.core import JITImpl, jit, lazy_jit
from tilelang.jit.kernel import JITKernel
from tilelang.tracebacks import border

__all__ = [
    "JITImpl", "JITKernel", "KernelParam", "compile", "jit", "lazy_jit", "lower", "par_compile",
]  # fmt: skip


class _CallableModule(ModuleType):
    """``@tilelang.jit`` is this package: calling it is calling the decorator."""

    @border
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return jit(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
