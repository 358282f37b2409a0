"""tilelang: tile programs in Python for CPUs and GPUs.

An independent implementation of the TileLang language. ``import tilelang.language as T`` is the
vocabulary; ``tilelang.jit``, ``tilelang.compile`` and ``tilelang.lazy_jit`` make kernels.
Importing this package reads the standard library and numpy, nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from tilelang.version import __version__

if TYPE_CHECKING:
    from tilelang import autotuner, cache, contrib, engine, env, jit, language, layout, profiler
    from tilelang import testing, tools, utils
    from tilelang.env import disable_cache, enable_cache, is_cache_enabled
    from tilelang.interpret import run as interpret_run
    from tilelang.jit import JITImpl, JITKernel, compile, lazy_jit, lower, par_compile
    from tilelang.language import Fragment, Layout
    from tilelang.language.math import ceildiv
    from tilelang.math import cdiv, next_power_of_2
    from tilelang.options import PassConfigKey
    from tilelang.profiler import do_bench
    from tilelang.utils.log import set_log_level
    from tilelang.utils.tensor import TensorSupplyType
