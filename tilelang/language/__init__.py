"""The vocabulary of tile programs: ``import tilelang.language as T``."""

from __future__ import annotations

from typing import Any

from tilelang.ir import dtypes as _dtypes
from tilelang.ir.dtypes import *  # noqa: F403
from tilelang.language import dtypes, eager, hardware, v2  # noqa: F401
from tilelang.language.allocate import *  # noqa: F403
from tilelang.language.annotations import *  # noqa: F403
from tilelang.language.atomic import *  # noqa: F403
from tilelang.language.bits import *  # noqa: F403
from tilelang.language.constants import *  # noqa: F403
from tilelang.language.warp import *  # noqa: F403
from tilelang.language.schedules import *  # noqa: F403
from tilelang.language.builtin import *  # noqa: F403
from tilelang.language.control import *  # noqa: F403
from tilelang.language.copy_op import *  # noqa: F403
from tilelang.language.entry import *  # noqa: F403
from tilelang.language.fill_op import *  # noqa: F403
from tilelang.language.gemm_op import *  # noqa: F403
from tilelang.language.hardware import *  # noqa: F403
from tilelang.language.kernel import *  # noqa: F403
from tilelang.language.loop import *  # noqa: F403
from tilelang.language.macro import *  # noqa: F403
from tilelang.language.math import *  # noqa: F403
from tilelang.language.print_op import *  # noqa: F403
from tilelang.language.reduce_op import *  # noqa: F403
from tilelang.language.reducer import *  # noqa: F403
from tilelang.language.scan_op import *  # noqa: F403
from tilelang.language.view import *  # noqa: F403
from tilelang.layout import Fragment, Layout  # noqa: F401


def __getattr__(name: str) -> Any:
    return getattr(_dtypes, name)
