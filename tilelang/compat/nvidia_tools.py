"""Import path of tools for NVIDIA's profilers."""

from __future__ import annotations

from tilelang.absent import absent_names

__getattr__ = absent_names("tilelang.tools.cuda")
