"""Layouts: index maps from logical elements to addresses, threads and registers.

``Layout`` and ``Fragment`` are an expression and a table; every question about them (equality,
injectivity, inverse) is answered exactly by evaluating the table with numpy.
"""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.layout.fragment import Fragment
from tilelang.layout.fragments import (
    make_fully_replicated_layout_fragment,
    make_gemm_fragment_8x8,
    make_gemm_fragment_8x8_transposed,
)
from tilelang.layout.layout import Layout
from tilelang.layout.policy import GemmWarpPolicy
from tilelang.layout.swizzle import (
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_mma_swizzle_layout,
    make_padded_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    make_tcgen05mma_swizzled_layout,
    make_volta_swizzled_layout,
    make_wgmma_swizzled_layout,
)

__all__ = [
    "Fragment", "GemmWarpPolicy", "Layout", "make_full_bank_swizzled_layout",
    "make_fully_replicated_layout_fragment", "make_gemm_fragment_8x8",
    "make_gemm_fragment_8x8_transposed", "make_half_bank_swizzled_layout", "make_linear_layout",
    "make_padded_layout", "make_quarter_bank_swizzled_layout", "make_mma_swizzle_layout",
    "make_swizzled_layout", "make_tcgen05mma_swizzled_layout", "make_volta_swizzled_layout",
    "make_wgmma_swizzled_layout",
]  # fmt: skip

__getattr__ = absent_names("tilelang.layout")
