"""The rows of `bench/h200.py`: each program with its sizes and the tiles to choose from.

This module does not import torch, so that tests compile these programs where torch is missing.
"""

from __future__ import annotations

from collections.abc import Callable

from h200_backward import backward
from h200_by_hand import latent
from h200_programs import (
    add,
    attention,
    dequant,
    gemm,
    grouped_gemm,
    mla_decode,
    rmsnorm,
    softmax,
    transpose,
)
from h200_shared_sums import split_k, stream_k


def choices(names: str, *rows: tuple[int, ...]) -> list[dict[str, int]]:
    """Parameters of programs."""
    return [dict(zip(names.split(), row)) for row in rows]


TILES = choices(
    "block_M block_N block_K stages threads raster", (128, 256, 64, 4, 256, 10),
    (128, 256, 64, 4, 256, 16), (128, 256, 64, 4, 256, 8), (128, 256, 64, 3, 256, 10),
    (256, 128, 64, 3, 256, 10), (128, 128, 64, 3, 128, 10),
    (128, 128, 32, 4, 128, 10))  # fmt: skip
ATTENTION_TILES = choices(  # lengths are multiples of both
    "block_M block_N stages threads held", (128, 128, 2, 256, 0), (128, 64, 2, 256, 0),
    (128, 64, 2, 128, 0), (128, 32, 2, 128, 0), (128, 128, 2, 256, 1))  # fmt: skip
BACKWARD_TILES = choices("block_M block_N stages threads", (128, 64, 2, 256), (64, 64, 2, 128))
# Row -> the program, its sizes, and the tiles from which the fastest is taken.
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[int, ...], list[dict[str, int]]]] = {
    "add": (add, (16384, 16384), choices(
        "block_M block_N threads", (4, 512, 256), (8, 256, 128))),
    "softmax": (softmax, (32768, 4096), choices(
        "rows threads", (1, 128), (1, 256), (2, 256), (4, 256))),
    "rmsnorm": (rmsnorm, (32768, 4096), choices(
        "rows threads", (1, 128), (1, 256), (2, 256), (4, 256))),
    "transpose": (transpose, (16384, 16384), choices(
        "block threads", (32, 128), (64, 256), (128, 256), (128, 512))),
    "gemm": (gemm, (4096, 4096, 4096, "bfloat16", "bfloat16", False), TILES),
    "gemm_large": (gemm, (8192, 8192, 8192, "float16", "float16", False), TILES),
    "gemm_rows": (gemm, (64, 8192, 8192, "float16", "float16", False), choices(
        "block_M block_N block_K stages threads weights", (64, 64, 128, 4, 128, "evict_first"),
        (64, 128, 128, 4, 128, "evict_first"), (64, 128, 128, 4, 128, None),
        (64, 128, 64, 4, 128, "evict_first"), (64, 64, 128, 5, 128, "evict_first"),
        (64, 64, 128, 6, 128, "evict_first"), (64, 64, 256, 3, 128, "evict_first"),
        (64, 64, 256, 3, 128, None))),
    "gemm_fp8": (gemm, (8192, 8192, 8192, "float8_e4m3fn", "bfloat16", True), choices(
        "block_M block_N block_K stages threads raster", (128, 256, 128, 3, 256, 10),
        (128, 256, 128, 4, 256, 10), (128, 256, 128, 4, 256, 16), (128, 256, 128, 4, 256, 8),
        (128, 128, 128, 4, 128, 10))),
    "gemm_split": (split_k, (128, 4096, 16384), choices(
        "block_M block_N block_K stages threads parts by_unit", (128, 128, 64, 4, 256, 4, 1),
        (128, 128, 64, 4, 256, 4, 0), (128, 128, 64, 4, 128, 4, 0), (128, 256, 64, 4, 256, 8, 1),
        (128, 256, 64, 4, 256, 8, 0), (64, 128, 64, 4, 128, 4, 0))),
    "gemm_stream": (stream_k, (1536, 3072, 16384), choices(
        "block_M block_N block_K stages threads blocks", (128, 256, 64, 3, 256, 132),
        (128, 256, 64, 4, 256, 132), (128, 128, 64, 3, 128, 264), (128, 128, 64, 4, 256, 132))),
    "grouped_gemm": (grouped_gemm, (8, 4096, 4096, 4096), choices(
        "block_M block_N block_K stages threads raster", (128, 256, 64, 4, 256, 10),
        (128, 256, 64, 4, 256, 16), (128, 256, 64, 4, 256, 32), (128, 256, 64, 4, 256, 4),
        (128, 256, 64, 4, 256, 8))),
    "attention": (attention, (4, 16, 4096, 128, False), ATTENTION_TILES),
    "attention_causal": (attention, (1, 16, 16384, 128, True), ATTENTION_TILES),
    "backward": (backward, (1, 16, 4096, 128, False), BACKWARD_TILES),
    "backward_causal": (backward, (1, 16, 4096, 128, True), BACKWARD_TILES),
    "mla": (mla_decode, (64, 128, 8192, 512, 64), choices(
        "block_N block_H stages threads", (64, 64, 2, 256), (64, 64, 1, 256), (32, 64, 2, 256))),
    "mla_by_hand": (latent, (64, 128, 8192, 512, 64), [{}]),
    "dequant_rows": (dequant, (2048, 8192, 8192), choices(
        "block_M block_N block_K stages threads", (256, 128, 64, 3, 256), (128, 128, 64, 3, 256),
        (128, 128, 64, 3, 128), (64, 128, 64, 3, 128))),
    "dequant": (dequant, (16, 8192, 8192), choices(
        "block_M block_N block_K stages threads", (16, 64, 64, 3, 128), (16, 128, 64, 3, 128),
        (64, 64, 64, 3, 128), (64, 128, 64, 3, 128), (16, 64, 256, 6, 128),
        (16, 32, 256, 6, 64), (16, 64, 512, 4, 128), (16, 64, 256, 6, 256),
        (16, 64, 512, 4, 256), (16, 64, 1024, 2, 256), (16, 32, 512, 3, 256))),
}  # fmt: skip
