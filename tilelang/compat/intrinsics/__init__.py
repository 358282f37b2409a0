"""Layout helpers and emitters of matrix instructions, under the import path of older programs."""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.compat.emitters import (
    TensorCoreIntrinEmitter,
    get_ldmatrix_offset,
    get_mma_micro_size,
    get_swizzle_layout,
    make_mma_swizzle_layout,
    mma_store_index_map,
)
from tilelang.compat.emitters.macro.wgmma_macro_generator import (
    TensorCoreIntrinEmitter as WGMMATensorCoreIntrinEmitter,
)

__all__ = [
    "TensorCoreIntrinEmitter", "WGMMATensorCoreIntrinEmitter", "get_ldmatrix_offset",
    "get_mma_micro_size", "get_swizzle_layout", "make_mma_swizzle_layout", "mma_store_index_map",
]  # fmt: skip

__getattr__ = absent_names("tilelang.intrinsics")
