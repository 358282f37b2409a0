"""Import path of :mod:`tilelang.cuda.intrinsics.layout.utils`, which programs know."""

from __future__ import annotations

from tilelang.cuda.intrinsics.layout.utils import *
