"""Fast math on the CPU: other code, the same treatment of infinities and NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang import PassConfigKey
from tilelang.cpu.backend import FAST_MATH
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")

COLUMNS = 37


def functions_program() -> Any:
    @T.prim_func
    def functions(X: F32[COLUMNS], Y: F32[7, COLUMNS]):
        with T.Kernel(1, threads=32):
            for j in T.Parallel(COLUMNS):
                Y[0, j] = T.exp(X[j])
                Y[1, j] = T.log(X[j])
                Y[2, j] = X[j] - X[j]
                Y[3, j] = T.if_then_else(T.isnan(X[j]), 1.0, 0.0)
                Y[4, j] = T.if_then_else(T.isinf(X[j]), 1.0, 0.0)
                Y[5, j] = T.sqrt(X[j])
                Y[6, j] = T.if_then_else(X[j] == -T.infinity("float32"), 1.0, 0.0)

    return functions


def compiled(program: Any, fast: bool) -> tilelang.JITKernel:
    configs = {PassConfigKey.TL_ENABLE_FAST_MATH: fast}
    return tilelang.compile(program, out_idx=-1, target="cpu", pass_configs=configs)


def test_functions_keep_special_values() -> None:
    x = np.linspace(-90, 90, COLUMNS).astype(np.float32)
    x[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40]
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        expected = [np.exp(wide), np.log(wide), x - x, np.isnan(x), np.isinf(x), np.sqrt(wide)]
        expected.append(np.isneginf(x))
        expected = [np.asarray(item, np.float32) for item in expected]
    found = compiled(functions_program(), fast=True)(x)
    for row, want in zip(found, expected):
        np.testing.assert_allclose(row, want, rtol=1e-5, atol=1e-37)


def test_fast_math_is_flags_of_the_artifact() -> None:
    assert compiled(functions_program(), fast=False).artifact.flags == ()
    assert compiled(functions_program(), fast=True).artifact.flags == FAST_MATH
    both = tilelang.compile(
        functions_program(), target="cpu", compile_flags="-DMINE",
        pass_configs={"tl.enable_fast_math": True},
    )  # fmt: skip
    assert both.artifact.flags == (*FAST_MATH, "-DMINE")
    assert not {"-ffast-math", "-ffinite-math-only", "-fassociative-math"} & set(FAST_MATH)


def test_fast_and_exact_code_are_cached_separately(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    counts = []
    for fast in (False, True, False, True):
        compiled(functions_program(), fast)
        counts.append(len(list(tmp_path.rglob("*.tl.so"))))
    assert counts[1] == counts[0] + 1
    assert counts[2:] == [counts[1]] * 2
