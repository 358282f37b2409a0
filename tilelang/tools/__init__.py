"""Tools for people: drawings of layouts, what a program does, and what the compiler decided."""

from __future__ import annotations

from tilelang.layout.drawing import draw_layout
from tilelang.layout.svg import Drawing
from tilelang.tools.analyzer import AnalysisResult, Analyzer
from tilelang.tools.machine import roof
from tilelang.tools.plot import plot_layout
from tilelang.tools.reports import explain

__all__ = ["AnalysisResult", "Analyzer", "Drawing", "draw_layout", "explain", "plot_layout", "roof"]
