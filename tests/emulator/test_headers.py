"""The emulator's headers have every function of the device's headers, on every architecture."""

from __future__ import annotations

import re
import subprocess
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
# Instructions that make functions, by the texts that use them, for the architectures that have them.
MADE = {
    "sm_90a": "TL_WGMMA(64, 16, f16, f16, f32, 32)", "sm_100a": "TL_TCGEN05_MOVE(32x32b, 8, 8)",
}  # fmt: skip
HEADERS = sorted(path.name for path in DEVICE.glob("*.h"))


def functions(folder: Path, arch: str) -> frozenset[str]:
    """Names of the functions that the headers of a folder define for an architecture."""
    found = find_cxx()
    if found is None:
        pytest.skip("needs a C++ compiler")
    flags = list(arch_flags(arch))
    if folder == DEVICE:
        flags.append(f"-D__CUDA_ARCH__={re.sub('[^0-9]', '', arch)}0")
    there = [name for name in HEADERS if (folder / name).exists()]
    text = "".join(f'#include "{name}"\n' for name in there) + MADE.get(arch, "")
    done = subprocess.run(
        [*found.command, "-E", "-P", "-x", "c++", *flags, f"-I{folder}", "-"],
        input=text, capture_output=True, text=True, check=True,
    )  # fmt: skip
    names = re.findall(r"\b(tl_\w+)\s*\((?:[^;{}()]|\([^()]*\))*\)\s*\{", done.stdout)
    return frozenset(n for n in names if not re.search(r"_raw$|^tl_(emu|unused)_", n))


@pytest.mark.parametrize("arch", ARCHS)
def test_emulator_has_the_functions_of_the_device(arch: str) -> None:
    missing = functions(DEVICE, arch) - INSIDE - functions(EMULATED, arch)
    assert not missing, f"{arch} lacks {sorted(missing)}"


def test_the_comparison_sees_functions() -> None:
    assert "tl_f32_to_e4m3" in functions(DEVICE, "sm_80")
    assert "tl_wgmma_m64n64k16_f16_f16_f32_rs" in functions(DEVICE, "sm_90a")
    assert "tl_wgmma_m64n64k16_f16_f16_f32_rs" not in functions(DEVICE, "sm_80")
