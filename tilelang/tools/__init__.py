"""Tools for people: drawings of layouts, and reports of what became of a program."""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.tools.drawing import Drawing, draw_layout
from tilelang.tools.plot import plot_layout
from tilelang.tools.reports import explain

__all__ = ["Drawing", "draw_layout", "explain", "plot_layout"]

__getattr__ = absent_names("tilelang.tools")
