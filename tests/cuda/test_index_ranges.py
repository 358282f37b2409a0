"""The device's compiler knows where threads and blocks are: no quotient of an index asks for a sign."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from executors import CPU, SM_90A, compiled, holds
from ptx_counts import ptx_text
from tensor_types import F32, I32

import tilelang.language as T
from tilelang.cuda.dialect import compiler_flags
from tilelang.cuda.nvrtc import find_nvrtc

nvrtc = pytest.mark.skipif(
    find_nvrtc() is None, reason="needs NVRTC: pip install nvidia-cuda-nvrtc"
)
N, H, W = 6, 14, 20
E = N * H * W


def split_flat() -> Any:
    @T.prim_func
    def main(X: T.Tensor((E,), "float32"), Y: T.Tensor((W, H, N), "float32")):
        with T.Kernel(T.ceildiv(E, 256), threads=256) as b:
            at = b * 256 + T.get_thread_binding()
            if at < E:
                Y[at % W, at // W % H, at // (W * H)] = X[at]

    return main


def split_any_length() -> Any:
    @T.prim_func
    def main(X: T.Tensor((T.dynamic("e"),), "float32"), Y: T.Tensor((W, H, N), "float32")):
        with T.Kernel(T.ceildiv(X.shape[0], 128), threads=128) as b:
            for t in T.Parallel(128):
                at = b * 128 + t
                if at < E:
                    Y[at % W, at // W % H, at // (W * H)] = X[at]

    return main


SPLITS = [split_flat, split_any_length]


@nvrtc
@pytest.mark.parametrize("make", SPLITS, ids=lambda make: make.__name__)
def test_quotients_of_indices_are_unsigned(make: Any) -> None:
    assert not re.findall(r"\bshr\.[us](?:32|64)[^;]*, (?:31|63);", ptx_text(make()))


def test_constant_extents_are_compiler_flags() -> None:
    assert compiler_flags(split_flat()) == ("-DTL_THREADS=256", "-DTL_BLOCKS=7")
    assert compiler_flags(split_any_length()) == ("-DTL_THREADS=128",)


def sums_of_runs(kind: str) -> Any:
    """Sums of runs of a tensor whose size is not constant; begins and ends are loaded."""
    n = T.dynamic("n")

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), P: T.Tensor((65,), kind), Y: T.Tensor((64,), "float32")):
        with T.Kernel(64, threads=32) as row:
            total = T.alloc_var("float32")
            total = 0.0
            for i in T.serial(P[row + 1] - P[row]):
                total += X[P[row] + i]
            Y[row] = total

    return main


@pytest.mark.parametrize("kind", ["int32", "int64"])
def test_a_size_is_tested_by_one_unsigned_comparison(kind: str) -> None:
    x = np.arange(200, dtype=np.float32)
    ends = np.minimum(np.arange(65) * 4 - 3, 230).astype(
        kind
    )  # the first are below 0, the last out
    wanted = np.zeros(64, np.float32)
    for row in range(64):
        inside = [i for i in range(ends[row], ends[row + 1]) if 0 <= i < 200]
        wanted[row] = x[inside].sum()
    func = sums_of_runs(kind)
    holds(func, (x, ends, np.zeros(64, np.float32)), wanted, on=(CPU, SM_90A))
    text = compiled(func, SM_90A).get_kernel_source()
    assert f"({'uint32_t' if kind == 'int32' else 'uint64_t'})" in text and ">= 0" not in text


def test_a_loop_to_a_loaded_end_counts_in_32_bits() -> None:
    assert "for (int i = 0; i < " in compiled(sums_of_runs("int32"), SM_90A).get_kernel_source()


def test_a_loaded_index_is_loaded_once_for_its_guard_and_its_access() -> None:
    @T.prim_func
    def main(X: F32[40], I: I32[64], Y: F32[64]):
        with T.Kernel(1, threads=64):
            i = T.get_thread_binding()
            Y[i] = X[I[i]] * 2.0

    x, rows = np.arange(40, dtype=np.float32), np.arange(64, dtype=np.int32) - 12
    inside = (rows >= 0) & (rows < 40)
    wanted = np.where(inside, x[np.where(inside, rows, 0)] * 2, 0).astype(np.float32)
    holds(main, (x, rows, np.zeros_like(wanted)), wanted, on=(CPU, SM_90A))
    assert compiled(main, SM_90A).get_kernel_source().count(" I[") == 1
