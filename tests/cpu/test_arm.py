"""Vectors of Arm's processors, built by a cross compiler and run by an emulator."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tilelang.cpu.executable import BASE_FLAGS
from tilelang.cpu.module import INCLUDE_DIR

GCC, QEMU = "aarch64-linux-gnu-gcc", "qemu-aarch64-static"
MACHINES = {
    "NEON": (["-march=armv8-a"], "max"),
    "NEON with halves": (["-march=armv8.2-a+fp16"], "max"),
    "SVE of 256 bits": (["-march=armv8.2-a+sve", "-msve-vector-bits=256"], "max,sve256=on"),
    "SVE of 512 bits": (["-march=armv8.2-a+sve", "-msve-vector-bits=512"], "max,sve512=on"),
}
pytestmark = [
    pytest.mark.skipif(shutil.which(tool) is None, reason=f"needs {tool}") for tool in (GCC, QEMU)
]

HALVES = """
#include "tl_vector.h"
#include <stdio.h>
static uint16_t codes[65536], back[1 << 18]; static float wide[65536], given[1 << 18], sums[65536];
int main(void) {
    if (fread(given, 4, 1 << 18, stdin) != 1 << 18) return 1;
    for (int i = 0; i < 65536; ++i) codes[i] = (uint16_t)i;
    for (int i = 0; i < 65536; i += TL_LANES_w) {
        const tl_w_f32 x = tl_w_f16_to_f32(TL_LOAD(tl_w_u16, codes + i));
        TL_STORE(tl_w_f32, wide + i, x);
        TL_STORE(tl_w_f32, sums + i, tl_w_f16_to_f32(tl_w_f32_to_f16(tl_w_round_f16(x * x) + x)));
    }
    for (int i = 0; i < 1 << 18; i += TL_LANES_w)
        TL_STORE(tl_w_u16, back + i, tl_w_f32_to_f16(TL_LOAD(tl_w_f32, given + i)));
    fwrite(wide, 4, 65536, stdout), fwrite(sums, 4, 65536, stdout), fwrite(back, 2, 1 << 18, stdout);
    return 0;
}
"""
ALONE = """
#include "tl_vector.h"
void up(const uint16_t* h, float* x) { TL_STORE(tl_w_f32, x, tl_w_f16_to_f32(TL_LOAD(tl_w_u16, h))); }
void down(const float* x, uint16_t* h) { TL_STORE(tl_w_u16, h, tl_w_f32_to_f16(TL_LOAD(tl_w_f32, x))); }
"""


def built(source: str, machine: str, folder: Path, *flags: str) -> Path:
    folder.joinpath("x.c").write_text(source, encoding="utf-8")
    words = [GCC, *BASE_FLAGS, *MACHINES[machine][0], "-w", f"-I{INCLUDE_DIR}", "x.c", "-o", "x"]
    subprocess.run([*words, *flags], cwd=folder, check=True)
    return folder / "x"


def ran(program: Path, machine: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    words = [QEMU, "-cpu", MACHINES[machine][1], str(program)]
    return subprocess.run(words, input=given, capture_output=True, check=False, cwd=program.parent)


@pytest.mark.parametrize("machine", MACHINES)
def test_float16_of_vectors_is_converted_as_by_numpy(machine: str, tmp_path: Path) -> None:
    halves = np.arange(65536, dtype=np.uint16).view(np.float16)
    values = halves.astype(np.float32)
    with np.errstate(all="ignore"):
        middles = np.nextafter(values, np.float32(0)), (values + np.roll(values, 1)) / 2
    drawn = np.random.default_rng(0).integers(0, 1 << 32, 65536, np.uint32).view(np.float32)
    given = np.concatenate([values, *middles, drawn], dtype=np.float32)
    done = ran(built(HALVES, machine, tmp_path, "-static", "-lm"), machine, given.tobytes())
    assert done.returncode == 0
    wide, sums = (np.frombuffer(done.stdout, np.float32, 65536, at) for at in (0, 4 << 16))
    back = np.frombuffer(done.stdout, np.float16, 1 << 18, 8 << 16)
    np.testing.assert_array_equal(wide, values)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(back, given.astype(np.float16))
        np.testing.assert_array_equal(sums, (halves * halves + halves).astype(np.float32))
    np.testing.assert_array_equal(np.signbit(back), np.signbit(given))


@pytest.mark.parametrize("machine", MACHINES)
def test_float16_of_vectors_is_converted_by_instructions(machine: str, tmp_path: Path) -> None:
    text = built(ALONE, machine, tmp_path, "-S").read_text(encoding="utf-8")
    assert re.search(r"\bfcvtl\s+v|\bfcvt\s+z", text)
    assert re.search(r"\bfcvtn\s+v|\bfcvt\s+z", text)
    assert not re.search(r"\bfcvt\s+[sh]\d", text)


def test_code_for_another_width_of_vectors_ends_the_program(tmp_path: Path) -> None:
    source = '#include "tl_math.h"\nint main(void) { return 0; }\n'
    program = built(source, "SVE of 256 bits", tmp_path, "-static")
    assert ran(program, "SVE of 256 bits").returncode == 0
    done = ran(program, "SVE of 512 bits")
    assert done.returncode != 0
    assert done.stderr.decode().startswith(
        "this code is built for SVE vectors of 256 bits; those of this machine have 512\n"
    )
