"""Tiles of AMD's matrix instructions: their extents, and what lanes hold of a result."""

from __future__ import annotations

from tilelang.compat.emitters.layout.utils import get_mma_micro_size
from tilelang.compat.rocm.intrinsics.mfma_layout import (
    thread_id_shared_access_64x4_to_16x16_layout_C_n_m as mfma_store_index_map,
)

__all__ = ["get_mma_micro_size", "mfma_store_index_map"]
