"""Matrix instructions of AMD's GPUs in the emulator, compared with numpy.

Which lane holds which element is written here from the manuals' tables: (row or column, k) of a
factor and (row, column) of the sum for every lane and register.
"""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.machine import RANDOM, launch

DTYPES = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "xf32": np.float32,
    "f64": np.float64, "s8": np.int8, "u8": np.uint8, "s32": np.int32,
    "e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip


@dataclass(frozen=True)
class Case:
    chip: str
    call: str
    m: int
    k: int
    a: str
    b: str
    c: str
    blocks: int = 1

    def __str__(self) -> str:
        return f"{self.chip} {self.call.partition('(')[0]}"


def _mfma(chip: str, name: str, m: int, k: int, a: str, b: str, c: str, blocks: int = 1) -> Case:
    return Case(chip, f"mfma_{name}(a, b, d, 0, 0, 0)", m, k, a, b, c, blocks)


def _wmma(chip: str, name: str, a: str, b: str, c: str) -> Case:
    suffix = "_gfx12" if chip == "gfx1201" else ""
    extra = ", false" if c == "f16" and chip == "gfx1100" else ""
    return Case(chip, f"wmma_{name}_w32{suffix}(a, b, d{extra})", 16, 16, a, b, c)


CASES = [
    *(case for chip in ("gfx90a", "gfx942", "gfx950") for case in (
        _mfma(chip, "f32_16x16x16f16", 16, 16, "f16", "f16", "f32"),
        _mfma(chip, "f32_32x32x8bf16_1k", 32, 8, "bf16", "bf16", "f32"),
        _mfma(chip, "f64_16x16x4f64", 16, 4, "f64", "f64", "f64"),
    )),
    _mfma("gfx90a", "f32_32x32x8f16", 32, 8, "f16", "f16", "f32"),
    _mfma("gfx90a", "f32_16x16x16bf16_1k", 16, 16, "bf16", "bf16", "f32"),
    _mfma("gfx90a", "f32_16x16x4f32", 16, 4, "f32", "f32", "f32"),
    _mfma("gfx90a", "f32_32x32x2f32", 32, 2, "f32", "f32", "f32"),
    _mfma("gfx90a", "f32_32x32x4f16", 32, 4, "f16", "f16", "f32", 2),
    _mfma("gfx90a", "f32_16x16x4f16", 16, 4, "f16", "f16", "f32", 4),
    _mfma("gfx90a", "f32_4x4x4f16", 4, 4, "f16", "f16", "f32", 16),
    _mfma("gfx90a", "i32_16x16x16i8", 16, 16, "s8", "s8", "s32"),
    _mfma("gfx90a", "i32_32x32x8i8", 32, 8, "s8", "s8", "s32"),
    _mfma("gfx942", "i32_16x16x32_i8", 16, 32, "s8", "s8", "s32"),
    _mfma("gfx942", "i32_32x32x16_i8", 32, 16, "s8", "s8", "s32"),
    _mfma("gfx942", "f32_16x16x32_fp8_bf8", 16, 32, "e4m3fnuz", "e5m2fnuz", "f32"),
    _mfma("gfx942", "f32_32x32x16_bf8_fp8", 32, 16, "e5m2fnuz", "e4m3fnuz", "f32"),
    _mfma("gfx942", "f32_16x16x8_xf32", 16, 8, "xf32", "xf32", "f32"),
    _mfma("gfx942", "f32_32x32x4_xf32", 32, 4, "xf32", "xf32", "f32"),
    _mfma("gfx950", "f32_16x16x32_fp8_fp8", 16, 32, "e4m3", "e4m3", "f32"),
    _mfma("gfx950", "f32_16x16x32_f16", 16, 32, "f16", "f16", "f32"),
    _mfma("gfx950", "f32_32x32x16_bf16", 32, 16, "bf16", "bf16", "f32"),
    _mfma("gfx950", "i32_16x16x64_i8", 16, 64, "s8", "s8", "s32"),
    _mfma("gfx950", "i32_32x32x32_i8", 32, 32, "s8", "s8", "s32"),
    *(case for chip in ("gfx1100", "gfx1201") for case in (
        _wmma(chip, "f32_16x16x16_f16", "f16", "f16", "f32"),
        _wmma(chip, "f32_16x16x16_bf16", "bf16", "bf16", "f32"),
        _wmma(chip, "f16_16x16x16_f16", "f16", "f16", "f16"),
    )),
    Case("gfx1100", "wmma_i32_16x16x16_iu8_w32(true, a, false, b, d, false)", 16, 16, "s8", "u8", "s32"),
    Case("gfx1201", "wmma_i32_16x16x16_iu8_w32_gfx12(false, a, true, b, d, false)", 16, 16, "u8", "s8", "s32"),
    _wmma("gfx1201", "f32_16x16x16_fp8_bf8", "e4m3", "e5m2", "f32"),
]  # fmt: skip


def factor_map(case: Case) -> np.ndarray:
    """(block, row, k) for each lane and register of a factor."""
    if case.chip == "gfx1100":
        lane, slot = np.indices((32, 16))
        return np.stack([0 * lane, lane % 16, slot])
    if case.chip == "gfx1201":
        lane, slot = np.indices((32, 8))
        return np.stack([0 * lane, lane % 16, 8 * (lane // 16) + slot])
    held = case.m * case.k * case.blocks // 64
    lane, slot = np.indices((64, held))
    if case.blocks > 1:  # each group of m lanes has a block
        return np.stack([lane // case.m, lane % case.m, slot])
    return np.stack([0 * lane, lane % case.m, held * (lane // case.m) + slot])


def sum_map(case: Case) -> np.ndarray:
    """(block, row, column) for each lane and register of the sum."""
    if case.chip == "gfx1100":
        lane, slot = np.indices((32, 8))
        return np.stack([0 * lane, 2 * slot + lane // 16, lane % 16])
    if case.chip == "gfx1201":
        lane, slot = np.indices((32, 8))
        return np.stack([0 * lane, 8 * (lane // 16) + slot, lane % 16])
    lane, slot = np.indices((64, case.m * case.m * case.blocks // 64))
    column = lane % case.m
    if (
        case.m == 32
    ):  # eight rows in four registers of both halves of the wave; 16 registers a block
        return np.stack([slot // 16, slot % 16 // 4 * 8 + lane // 32 * 4 + slot % 4, column])
    if case.c == "f64":
        return np.stack([0 * lane, 4 * slot + lane // 16, column])
    if case.m == 16:
        return np.stack([slot // 4, lane // 16 * 4 + slot % 4, column])
    return np.stack([lane // 4, slot, column])


def random_numbers(rng: np.random.Generator, kind: str, shape: tuple[int, ...]) -> np.ndarray:
    if kind in ("s8", "u8", "s32"):
        info = np.iinfo(DTYPES[kind])
        return rng.integers(info.min, info.max, shape, DTYPES[kind], endpoint=True)
    return (rng.integers(-32, 33, shape) / 8).astype(DTYPES[kind])


@pytest.mark.share(4)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_product_is_numpys(case: Case) -> None:
    rng = np.random.default_rng(1)
    a = random_numbers(rng, case.a, (case.blocks, case.m, case.k))
    b = random_numbers(rng, case.b, (case.blocks, case.m, case.k))  # of columns
    c = random_numbers(rng, case.c, (case.blocks, case.m, case.m))
    factors, sums = factor_map(case), sum_map(case)
    lanes = len(sums[0])
    doubled = 2 if case.chip == "gfx1100" and case.c == "f16" else 1
    d = np.zeros((lanes, sums.shape[2], doubled), c.dtype)
    d[..., 0] = c[tuple(sums)]
    x, y = a[tuple(factors)], b[tuple(factors)]
    source = f"""
    #include "tl_amdgcn.h"
    TL_VECTOR(factor, unsigned char, {x[0].nbytes})
    TL_VECTOR(sum, unsigned char, {d[0].nbytes})
    extern "C" __global__ void product(const factor* x, const factor* y, sum* z) {{
        const factor a = x[threadIdx.x], b = y[threadIdx.x];
        sum d = z[threadIdx.x];
        z[threadIdx.x] = __builtin_amdgcn_{case.call};
    }}
    """
    raw = [array.view(np.uint8) for array in (x, y, d)]
    result = launch(
        source, "product", raw, block=(lanes,), schedule=RANDOM, arch=case.chip, warp_size=lanes,
        checks=0,
    )  # fmt: skip
    assert result.texts() == []
    wide = np.float64 if DTYPES[case.c] != np.int32 else np.int64
    total = c.astype(wide) + np.einsum("bik,bjk->bij", a.astype(wide), b.astype(wide))
    wanted = (
        total.astype(c.dtype) if wide is np.float64 else total.astype(np.int64).astype(np.int32)
    )
    found = np.zeros_like(c)
    found[tuple(sums)] = d[..., 0]
    np.testing.assert_array_equal(found, wanted)


def test_lanes_of_a_wmma_have_to_hold_the_same_twice() -> None:
    source = """
    #include "tl_amdgcn.h"
    TL_VECTOR(factor, unsigned short, 16)
    TL_VECTOR(sum, float, 8)
    extern "C" __global__ void product(const factor* x, sum* z) {
        const factor a = x[threadIdx.x];
        z[threadIdx.x] = __builtin_amdgcn_wmma_f32_16x16x16_f16_w32(a, a, sum{});
    }
    """
    x, z = np.zeros((32, 16), np.float16), np.zeros((32, 8), np.float32)
    x[20, 3] = 1
    result = launch(source, "product", [x, z], arch="gfx1100", warp_size=32)
    assert result.texts() == [
        "other: lanes 4 and 20 of a WMMA instruction do not hold the same factors"
    ]


def test_a_matrix_instruction_needs_the_whole_wave() -> None:
    source = """
    #include "tl_amdgcn.h"
    TL_VECTOR(factor, unsigned short, 4)
    TL_VECTOR(sum, float, 4)
    extern "C" __global__ void product(const factor* x, sum* z) {
        const factor a = x[threadIdx.x];
        if (threadIdx.x < 48) z[threadIdx.x] = __builtin_amdgcn_mfma_f32_16x16x16f16(a, a, sum{}, 0, 0, 0);
    }
    """
    x, z = np.zeros((64, 4), np.float16), np.zeros((64, 4), np.float32)
    result = launch(source, "product", [x, z], block=(64,), arch="gfx942", warp_size=64)
    assert result.texts() == ["warp-divergence: a matrix instruction needs all lanes of the wave"]
