"""Emitters of single matrix instructions, and the layouts of what they read and write."""

from __future__ import annotations

from tilelang.compat.emitters.layout.mma_layout import get_swizzle_layout, make_mma_swizzle_layout
from tilelang.compat.emitters.layout.utils import (
    get_ldmatrix_offset,
    get_mma_micro_size,
    mma_store_index_map,
)
from tilelang.compat.emitters.macro.mma_macro_generator import TensorCoreIntrinEmitter

__all__ = [
    "TensorCoreIntrinEmitter", "get_ldmatrix_offset", "get_mma_micro_size", "get_swizzle_layout",
    "make_mma_swizzle_layout", "mma_store_index_map",
]  # fmt: skip
