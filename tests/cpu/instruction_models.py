"""Flags under which kernels of the CPU use instructions that a machine lacks, as models in C."""

from __future__ import annotations

from pathlib import Path

# The instruction, by its manual, where factors and sums are normal numbers.
_DOT = (
    "-DTL_VDPBF16PS(V,C,B,A)=((C)+(V)((tl_word64)(B)<<16)*(V)((tl_word64)(A)<<16)"
    "+(V)((tl_word64)(B)&-65536)*(V)((tl_word64)(A)&-65536))"
)
TILES = [
    f'-DTL_TILE_MODEL="{Path(__file__).with_name("tile_model.h")}"',
    *(f"-D__AMX_{name}__=1" for name in ("TILE", "INT8", "BF16")),
]
BRAIN_HALVES = {
    "native": [],
    "multiply-adds": ["-U__AVX512BF16__"],
    "model": ["-U__AVX512BF16__", "-D__AVX512BF16__=1", "-DTL_DOT_MODEL", _DOT],
}
