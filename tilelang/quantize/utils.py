"""Packing of weights under its usual import path."""

from __future__ import annotations

from tilelang.quantize.pack import general_compress, interleave_weight

__all__ = ["general_compress", "interleave_weight"]
