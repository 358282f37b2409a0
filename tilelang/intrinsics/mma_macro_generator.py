"""Import path of :mod:`tilelang.cuda.intrinsics.macro.mma_macro_generator`, which programs know."""

from __future__ import annotations

from tilelang.cuda.intrinsics.macro.mma_macro_generator import *
