"""The vocabulary of tile programs: ``import tilelang.language as T``.

This module only gives the names one home: all that the modules of the language list in their
``__all__``; ``tests/golden/names.txt`` has them. Vector dtypes (``T.float16x2``) and a few names
that shadow Python's (``T.float``, ``T.int``, ``T.bool``) are found on demand. Names may be
replaced by assignment, as programs that wrap an operation do.
"""

from __future__ import annotations

import typing as _typing
from types import ModuleType as _ModuleType
from typing import Any as _Any

if _typing.TYPE_CHECKING:  # mypy takes the first of several meanings, pyright the last
    from tilelang.language.checked import macro as macro, prim_func as prim_func

from tilelang import frontend as frontend
from tilelang.frontend import annot as annot, ast as ast, builder as builder
from tilelang.frontend.dtypes import AnyDType as AnyDType, dtype as dtype
from tilelang.frontend.entry import *  # type: ignore[assignment]  # prim_func, see above
from tilelang.frontend.kernel import *
from tilelang.frontend.loop import *
from tilelang.frontend.macro import *  # type: ignore[assignment]  # macro, see above
from tilelang.ir.dtypes import (
    bfloat16 as bfloat16,
    bool_ as bool_,
    float4_e2m1_unpacked as float4_e2m1_unpacked,
    float4_e2m1fn as float4_e2m1fn,
    float6_e2m3fn as float6_e2m3fn,
    float6_e3m2fn as float6_e3m2fn,
    float8_e3m4 as float8_e3m4,
    float8_e4m3 as float8_e4m3,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    handle as handle,
    int4 as int4,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    tfloat32 as tfloat32,
    uint4 as uint4,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
    void as void,
)
from tilelang.ir.stmt import PrimFunc as PrimFunc
from tilelang.language import dtypes as dtypes
from tilelang.language.allocate import *
from tilelang.language.annotations import *
from tilelang.language.atomic import *
from tilelang.language.bits import *
from tilelang.language.builtin import *
from tilelang.language.constants import *
from tilelang.language.control import *
from tilelang.language.copy_op import *
from tilelang.language.fill_op import *
from tilelang.language.gemm_op import *
from tilelang.language.hardware import *
from tilelang.language.instructions import *
from tilelang.language.math import *
from tilelang.language.math import __cos, __exp, __exp10, __log, __log2, __log10, __sin, __tan
from tilelang.language.memory import *
from tilelang.language.memory import __ffs, __fns, __ldg
from tilelang.language.print_op import *
from tilelang.language.reduce_op import *
from tilelang.language.reducer import *
from tilelang.language.scan_op import *
from tilelang.language.schedules import *
from tilelang.language.sync import *
from tilelang.language.view import *
from tilelang.language.warp import *
from tilelang.layout import Fragment as Fragment, Layout as Layout

if _typing.TYPE_CHECKING:
    from tilelang.language.checked import macro, prim_func

eager = v2 = frontend  # names of the package by which programs know it

_ALIASES = frozenset(("bool", "boolean", "double", "float", "half", "int", "long", "short", "uint"))
# Modules that programs know, and names that a star does not take.
_MORE = frozenset(
    (
        "__cos", "__exp", "__exp10", "__ffs", "__fns", "__ldg", "__log", "__log10", "__log2",
        "__sin", "__tan", "annot", "ast", "builder", "dtypes", "eager", "v2",
    )
)  # fmt: skip

__all__ = sorted(
    _ALIASES
    | _MORE
    | {
        name
        for name, value in vars().items()
        if not name.startswith("_") and not isinstance(value, _ModuleType)
    }
)


def __getattr__(name: str) -> _Any:
    """Vector dtypes and the names of dtypes that are Python's own."""
    if name in _ALIASES:
        return dtype(name)
    try:
        return getattr(dtypes, name)
    except AttributeError:
        from tilelang.absent import WORDS
        from tilelang.errors import nearest

        if name in WORDS:
            raise AttributeError(
                f"tilelang.language has no name {name!r}; use {WORDS[name]}"
            ) from None
        close = None if name.startswith("_") else nearest(name, __all__)
        hint = f"; did you mean T.{close}?" if close else ""
        raise AttributeError(f"tilelang.language has no name {name!r}{hint}") from None
