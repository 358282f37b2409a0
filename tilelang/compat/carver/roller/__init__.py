"""Import paths of what a recommendation consists of."""

from __future__ import annotations

from tilelang.compat.carver.roller.hint import Hint
from tilelang.compat.carver.roller.rasterization import NoRasterization, Rasterization2DRow

__all__ = ["Hint", "NoRasterization", "Rasterization2DRow"]
