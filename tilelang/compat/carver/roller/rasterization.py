"""Orders in which the blocks of a launch run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class NoRasterization:
    """Rows of blocks, one after another."""

    panel_width: int = 0


@dataclass(frozen=True)
class Rasterization2DRow:
    """Panels of ``panel_width`` rows: what ``T.use_swizzle(panel_width)`` asks for."""

    panel_width: int = 4
