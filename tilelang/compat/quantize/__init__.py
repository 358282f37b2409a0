"""Packed integers and small floats: conversions inside kernels, packing of weights outside.

The conversions are ordinary functions on expressions, so that they can be called in a kernel:
``_tir_packed_to_unsigned_convert("uint", 8)(4, B[i // 2], i % 2, "float16")``. Their names are
those that programs import.
"""

from __future__ import annotations

from tilelang.absent import absent_names
from tilelang.compat.quantize.convert import (
    _tir_packed_int_to_int_convert,
    _tir_packed_to_fp4_to_f16,
    _tir_packed_to_signed_convert,
    _tir_packed_to_unsigned_convert,
    _tir_packed_to_unsigned_convert_with_zeros,
    _tir_u8_to_f8_e4m3_to_f16,
)
from tilelang.compat.quantize.pack import general_compress, interleave_weight

__all__ = [
    "_tir_packed_int_to_int_convert", "_tir_packed_to_fp4_to_f16",
    "_tir_packed_to_signed_convert", "_tir_packed_to_unsigned_convert",
    "_tir_packed_to_unsigned_convert_with_zeros", "_tir_u8_to_f8_e4m3_to_f16", "general_compress",
    "interleave_weight",
]  # fmt: skip

__getattr__ = absent_names("tilelang.quantize")
