"""Import path of :mod:`tilelang.cuda.intrinsics.layout.mma_layout`, which programs know."""

from __future__ import annotations

from tilelang.cuda.intrinsics.layout.mma_layout import *
