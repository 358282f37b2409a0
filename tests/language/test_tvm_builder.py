"""Words of TVM's builder that programs write."""

from __future__ import annotations

import dataclasses

import numpy as np
from executors import holds

import tilelang
import tilelang.language as T
from tilelang.cuda import language as cuda_language


def test_stores_names_and_sums_rounded_once() -> None:
    @T.prim_func
    def reversed_sums(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                x = T.meta_var(A[i] + 1)
                T.buffer_store(B, T.fma(x, x, 0.5), [63 - i])

    a = np.random.default_rng(0).random(64).astype(np.float32)
    x = (a + np.float32(1)).astype(np.float64)
    holds(reversed_sums, (a, np.zeros_like(a)), (x * x + 0.5).astype(np.float32)[::-1])


def test_paths_of_programs_lead_to_the_vocabulary() -> None:
    assert cuda_language.Parallel is T.Parallel and cuda_language.float16x2 is T.float16x2
    assert tilelang.contrib.nvcc.get_target_compute_version("cuda -arch=sm_90a") == "9.0"


def test_tuned_functions_can_be_made_again_by_a_subclass() -> None:
    from tilelang.autotuner.tuner import AutoTuneImpl

    @dataclasses.dataclass
    class Keyed(AutoTuneImpl):
        key: str = ""

    @tilelang.autotune(configs=[{"n": 4}])
    @tilelang.jit(target="cpu")
    def filled(n: int = 4):
        @T.prim_func
        def fill(A: T.Tensor((n,), "float32")):
            with T.Kernel(1, threads=32):
                T.fill(A, 2.0)

        return fill

    values = {item.name: getattr(filled, item.name) for item in dataclasses.fields(AutoTuneImpl)}
    a = np.zeros(4, np.float32)
    Keyed(**values, key="x")(4)(a)
    assert (a == 2).all()
