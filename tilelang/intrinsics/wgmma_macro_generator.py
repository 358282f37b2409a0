"""Import path of the emitter of warpgroup products, which programs know."""

from __future__ import annotations

from tilelang.cuda.intrinsics.macro.wgmma_macro_generator import *
