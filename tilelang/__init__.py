"""tilelang: tile programs in Python for CPUs and GPUs.

An independent implementation of the TileLang language. ``import tilelang.language as T`` is the
vocabulary; ``tilelang.jit``, ``tilelang.lazy_jit`` and ``tilelang.compile`` make kernels.
Importing this package reads the standard library and numpy, nothing else; what is used seldom is
imported on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilelang import env, language
from tilelang.compat import finder
from tilelang.env import disable_cache, enable_cache, is_cache_enabled
from tilelang.ir.dtypes import dtype as DataType
from tilelang.jit import JITImpl, JITKernel, compile, lazy_jit, lower, par_compile
from tilelang.math import cdiv, next_power_of_2
from tilelang.options import PassConfigKey
from tilelang.version import __version__

if not TYPE_CHECKING:
    from tilelang import jit

if TYPE_CHECKING:
    from tilelang import interpret, layout, math, profiler, testing, utils
    from tilelang.autotuner import autotune
    from tilelang.compat import contrib, engine
    from tilelang.compat.engine.callback import register_cuda_postproc
    from tilelang.jit.core import jit  # the package itself, which can be called
    from tilelang.jit.export import export_library, load_library
    from tilelang.jit.sanitize import sanitize
    from tilelang.language import dtypes
    from tilelang.layout import Fragment, Layout
    from tilelang.profiler import Profiler, do_bench
    from tilelang.runtime import cache
    from tilelang.utils.log import set_log_level
    from tilelang.utils.tensor import TensorSupplyType

# Name -> module that has it, imported when the name is first used.
_LAZY = {
    "Fragment": "tilelang.layout",
    "Layout": "tilelang.layout",
    "Profiler": "tilelang.profiler",
    "TensorSupplyType": "tilelang.utils.tensor",
    "autotune": "tilelang.autotuner",
    "do_bench": "tilelang.profiler",
    "export_library": "tilelang.jit.export",
    "load_library": "tilelang.jit.export",
    "register_c_postproc": "tilelang.compat.engine.callback",
    "register_cuda_postproc": "tilelang.compat.engine.callback",
    "register_hip_postproc": "tilelang.compat.engine.callback",
    "sanitize": "tilelang.jit.sanitize",
    "set_log_level": "tilelang.utils.log",
}
_SUBPACKAGES = (
    "analysis", "autotuner", "backend", "cache", "carver", "contrib", "dtypes", "emulator",
    "engine", "interpret", "intrinsics", "jax", "layout", "math", "primitives", "profiler",
    "quantize", "rocm", "testing", "tileop", "tools", "torch", "transform", "tvm", "utils",
)  # fmt: skip

__all__ = [
    "DataType", "Fragment", "JITImpl", "JITKernel", "Layout", "PassConfigKey", "Profiler",
    "TensorSupplyType", "__version__", "autotune", "cache", "cdiv", "compile", "contrib",
    "disable_cache", "do_bench", "dtypes", "enable_cache", "engine", "env", "export_library",
    "interpret", "is_cache_enabled", "jit", "language", "layout", "lazy_jit", "load_library",
    "lower", "math", "next_power_of_2", "par_compile", "profiler", "register_cuda_postproc",
    "sanitize", "set_log_level", "testing", "utils",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Subpackages and seldom used names."""
    import importlib

    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    if name in _SUBPACKAGES:
        return importlib.import_module(f"tilelang.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_SUBPACKAGES})


finder.install()
