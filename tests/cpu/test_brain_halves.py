"""Products of bfloat16 by words of two factors where the machine has them, exact with small ones."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from gemm_program import gemm_program

import tilelang
from tilelang.compiler import compile as compile_text
from tilelang.cpu.module import INCLUDE_DIR
from tilelang.cpu.toolchain import find_compiler
from tilelang.target import parse_target

from .instruction_models import BRAIN_HALVES, TILES

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")

BUILDS = {
    **BRAIN_HALVES,
    "tiles": [*BRAIN_HALVES["model"], *TILES],
    "tiles refused": [*BRAIN_HALVES["model"], *TILES, "-DTL_TILES_REFUSED"],
}


def product(M: int, N: int, K: int, trans_a: bool, trans_b: bool, part: int = 64) -> Any:
    """C = A . B by tiles of 32 x 40, so that some stick out."""
    trans = {"trans_a": trans_a, "trans_b": trans_b}
    return gemm_program(M, N, K, (32, 40, part), threads=64, dtype="bfloat16", **trans)


def stored(values: np.ndarray, turned: bool) -> np.ndarray:
    return np.ascontiguousarray(values.T if turned else values).astype(ml_dtypes.bfloat16)


@pytest.mark.share(4)
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("part", [64, 37])
def test_products_are_exact(build: str, trans_a: bool, trans_b: bool, part: int) -> None:
    M, N, K = 64, 80, 128 if part == 64 else 111
    rng = np.random.default_rng(part)
    a, b = rng.integers(-9, 10, (M, K)), rng.integers(-9, 10, (K, N))
    kernel = tilelang.compile(product(M, N, K, trans_a, trans_b, part), out_idx=[-1], target="cpu", compile_flags=BUILDS[build])  # fmt: skip
    np.testing.assert_array_equal(kernel(stored(a, trans_a), stored(b, trans_b)), a @ b)


@pytest.mark.parametrize(("at", "side"), [(0, 0), (9, 1), (110, 0), (110, 1)])
@pytest.mark.parametrize("build", ["native", "tiles"])
def test_factors_below_normal_numbers_count(at: int, side: int, build: str) -> None:
    """The instruction takes them for zero."""
    a, b = np.ones((64, 111), np.float32), np.ones((111, 80), np.float32)
    (a[5] if side == 0 else b[:, 5])[at] = 2.0**-130
    (b if side == 0 else a.T)[at] = 2.0**127
    found = tilelang.compile(product(64, 80, 111, False, False, 37), out_idx=[-1], target="cpu", compile_flags=BUILDS[build])  # fmt: skip
    got = found(stored(a, False), stored(b, False))
    row = got[5] if side == 0 else got[:, 5]
    np.testing.assert_array_equal(row, np.full_like(row, 110.125))


@pytest.mark.skipif(platform.machine() != "x86_64", reason="an instruction of x86 processors")
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_machines_with_bfloat16_dot_products_use_them(compiler: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"there is no {compiler}")
    source = compile_text(product(64, 80, 128, False, False), parse_target("cpu")).source
    tmp_path.joinpath("x.c").write_text(source, encoding="utf-8")
    flags = ["-O2", "-w", "-fwrapv", "-fopenmp-simd", f"-I{INCLUDE_DIR}", "-S", "x.c", "-o", "x.s"]
    machines = {"sapphirerapids": "tdpbf16ps", "cooperlake": "vdpbf16ps", "skylake-avx512": ""}
    for machine, wanted in machines.items():
        subprocess.run([compiler, f"-march={machine}", *flags], cwd=tmp_path, check=True)
        text = tmp_path.joinpath("x.s").read_text(encoding="utf-8")
        assert bool(re.search(r"\bvdpbf16ps\s.*%zmm", text)) == bool(wanted)
        assert bool(re.search(r"\btdpbf16ps\s.*%tmm", text)) == (wanted == "tdpbf16ps")
