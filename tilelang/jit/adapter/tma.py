"""Tensor maps under the name that host writers use; see :mod:`tilelang.cuda.tensor_map`."""

from __future__ import annotations

from tilelang.cuda.tensor_map import ELEMENT_BYTES, PACKED_TYPES, TmaDescriptor

__all__ = ["ELEMENT_BYTES", "PACKED_TYPES", "TmaDescriptor"]
