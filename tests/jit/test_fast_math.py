"""Fast math on the CPU: other code, the same treatment of infinities and NaN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensor_types import F32, I32

import tilelang
import tilelang.language as T
from tilelang import PassConfigKey
from tilelang.cpu.backend import FAST_MATH
from tilelang.cpu.toolchain import find_compiler

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="no C compiler")

ROWS, COLUMNS = 4, 37


def softmax_program() -> Any:
    """Softmax over the columns that a mask leaves; a row without any becomes zeros."""

    @T.prim_func
    def softmax(X: F32[ROWS, COLUMNS], mask: I32[ROWS, COLUMNS], Y: F32[ROWS, COLUMNS]):
        with T.Kernel(ROWS, threads=32) as row:
            x = T.alloc_fragment((1, COLUMNS), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for i, j in T.Parallel(1, COLUMNS):
                x[i, j] = T.if_then_else(mask[row, j] != 0, X[row, j], -T.infinity("float32"))
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(1, COLUMNS):
                x[i, j] = T.if_then_else(
                    top[0] == -T.infinity("float32"), 0.0, T.exp(x[i, j] - top[0])
                )
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, COLUMNS):
                Y[row, j] = T.if_then_else(total[0] == 0.0, 0.0, x[i, j] / total[0])

    return softmax


def functions_program() -> Any:
    @T.prim_func
    def functions(X: F32[COLUMNS], Y: F32[6, COLUMNS]):
        with T.Kernel(1, threads=32):
            for j in T.Parallel(COLUMNS):
                Y[0, j] = T.exp(X[j])
                Y[1, j] = T.log(X[j])
                Y[2, j] = X[j] - X[j]
                Y[3, j] = T.if_then_else(T.isnan(X[j]), 1.0, 0.0)
                Y[4, j] = T.if_then_else(T.isinf(X[j]), 1.0, 0.0)
                Y[5, j] = T.sqrt(X[j])

    return functions


def compiled(program: Any, fast: bool) -> tilelang.JITKernel:
    configs = {PassConfigKey.TL_ENABLE_FAST_MATH: fast}
    return tilelang.compile(program, out_idx=-1, target="cpu", pass_configs=configs)


def test_masked_softmax_keeps_its_meaning() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((ROWS, COLUMNS)).astype(np.float32) * 20
    mask = (rng.random((ROWS, COLUMNS)) < 0.5).astype(np.int32)
    mask[1] = 0  # nothing is left
    mask[2] = np.arange(COLUMNS) == 5
    x[3] = np.inf  # inf - inf
    mask[3] = 1
    found = compiled(softmax_program(), fast=True)(x, mask)
    kept = np.where(mask != 0, x, -np.inf).astype(np.float64)
    for row in (0, 2):
        power = np.exp(kept[row] - kept[row].max())
        np.testing.assert_allclose(found[row], power / power.sum(), rtol=1e-5, atol=1e-7)
    assert (found[1] == 0).all()
    assert np.isnan(found[3]).all()


def test_functions_keep_special_values() -> None:
    x = np.linspace(-90, 90, COLUMNS).astype(np.float32)
    x[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40]
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64)
        expected = [np.exp(wide), np.log(wide), x - x, np.isnan(x), np.isinf(x), np.sqrt(wide)]
        expected = [np.asarray(item, np.float32) for item in expected]
    found = compiled(functions_program(), fast=True)(x)
    for row, want in zip(found, expected):
        np.testing.assert_allclose(row, want, rtol=1e-5, atol=1e-37)


def test_fast_math_is_flags_of_the_artifact() -> None:
    assert compiled(softmax_program(), fast=False).artifact.flags == ()
    assert compiled(softmax_program(), fast=True).artifact.flags == FAST_MATH
    both = tilelang.compile(
        softmax_program(), target="cpu", compile_flags="-DMINE",
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
        compiled(softmax_program(), fast)
        counts.append(len(list(tmp_path.rglob("*.tl.so"))))
    assert counts[1] == counts[0] + 1
    assert counts[2:] == [counts[1]] * 2
