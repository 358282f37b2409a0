"""Import path of emitters of AMD's matrix instructions, which programs for several vendors name."""

from __future__ import annotations

from tilelang.absent import absent_names

__all__: list[str] = []

__getattr__ = absent_names("tilelang.intrinsics.mfma_macro_generator")
