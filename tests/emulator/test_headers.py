"""The emulator's headers have every function of the device's headers, on every architecture."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

import tilelang
from tilelang.emulator.compilers import find_cxx
from tilelang.emulator.families import arch_flags

PACKAGE = Path(tilelang.__file__).parent
DEVICE, EMULATED = PACKAGE / "cuda" / "include", PACKAGE / "emulator" / "include"
ARCHS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a")
# Pieces of the device's functions, which no program calls.
INSIDE = {
    "tl_before", "tl_after", "tl_aligned", "tl_small_to_f32", "tl_f32_to_small", "tl_half_of_int", "tl_kept",
    "tl_global_address",
    *(f"tl_mma_m8n8k16_{a}_{b}_s32" for a in ("s8", "u8") for b in ("s8", "u8")),
}  # fmt: skip
# Parts of a device header that other vendors share -> the header of the emulator with their functions.
PARTS = {
    "tl_atomic_forms.h": "tl_atomic.h", "tl_atomic_pairs.h": "tl_atomic.h",
    "tl_power.h": "tl_libm.h", "tl_random_steps.h": "tl_random.h", "tl_words.h": "tl_types.h",
}  # fmt: skip
# Instructions that make functions, named by the texts that use them.
MADE = {
    "tl_wgmma.h": "TL_WGMMA(64, 16, f16, f16, f32, 32)",
    "tl_tcgen05.h": "TL_TCGEN05_MOVE(32x32b, 8, 8)",
}


@cache
def functions(folder: Path, header: str, arch: str) -> frozenset[str]:
    """Names of the functions that a header defines for an architecture."""
    found = find_cxx()
    if found is None:
        pytest.skip("needs a C++ compiler")
    flags = list(arch_flags(arch))
    if folder == DEVICE:
        flags.append(f"-D__CUDA_ARCH__={re.sub('[^0-9]', '', arch)}0")
    text = f'#include "{header}"\n' + (
        MADE.get(header, "") if arch in ("sm_90a", "sm_100a") else ""
    )
    if (
        header == "tl_wgmma.h"
        and arch != "sm_90a"
        or header == "tl_tcgen05.h"
        and arch != "sm_100a"
    ):
        text = f'#include "{header}"\n'
    done = subprocess.run(
        [*found.command, "-E", "-P", "-x", "c++", *flags, f"-I{folder}", "-"],
        input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = re.findall(r"\b(tl_\w+)\s*\((?:[^;{}()]|\([^()]*\))*\)\s*\{", done.stdout)
    return frozenset(n for n in names if not re.search(r"_raw$|^tl_(emu|unused)_", n))


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize("header", sorted(path.name for path in DEVICE.glob("*.h")))
def test_emulator_has_the_functions_of(header: str, arch: str) -> None:
    device = functions(DEVICE, header, arch) - INSIDE
    missing = device - functions(EMULATED, PARTS.get(header, header), arch)
    assert not missing, f"{header} lacks {sorted(missing)}"


def test_the_comparison_sees_functions() -> None:
    assert "tl_f32_to_e4m3" in functions(DEVICE, "tl_float.h", "sm_80")
    assert "tl_wgmma_m64n64k16_f16_f16_f32_rs" in functions(DEVICE, "tl_wgmma.h", "sm_90a")
    assert "tl_wgmma_m64n64k16_f16_f16_f32_rs" not in functions(DEVICE, "tl_wgmma.h", "sm_80")
