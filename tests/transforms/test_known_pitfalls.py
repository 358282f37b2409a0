"""Programs that compilers of tile languages are known to get wrong; most are in the corpus."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from executors import INTERPRETER, SM_80, SM_90A, holds
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.options import Options
from tilelang.target import parse_target


class Held:
    """What a factory holds while it is traced."""


def factory(held: object = None) -> Any:
    @T.prim_func
    def same(A: F32[4]):
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    return same


def test_options_of_one_compilation_do_not_reach_another() -> None:
    configs: dict[str, Any] = {"tl.enable_fast_math": False}
    made = tilelang.jit(factory, pass_configs=configs, execution_backend="interpret")
    configs["tl.enable_fast_math"] = True
    assert not made().options.fast_math


def test_tracing_keeps_no_frame_of_the_caller_alive() -> None:
    held = Held()
    kernel, alive = factory(held), weakref.ref(held)
    del held
    gc.collect()
    assert alive() is None and kernel is not None


def test_a_huge_loop_is_lowered_at_once() -> None:
    @T.prim_func
    def large(A: F16[8192, 8192], B: F16[8192, 8192]):
        with T.Kernel(1, threads=128):
            for i, j in T.Parallel(8192, 8192):
                B[i, j] = A[i, j]

    assert lower(large, parse_target("cuda -arch=sm_80"), Options()) is not None


def test_a_pipelined_loop_that_uses_nothing_of_what_it_copies() -> None:
    @T.prim_func
    def idle(A: F32[4, 32], B: F32[32]):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((32,), "float32")
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[k, 0], tile)
            for j in T.Parallel(32):
                B[j] = 1.0

    given = np.zeros((4, 32), np.float32), np.zeros(32, np.float32)
    holds(idle, given, np.ones(32, np.float32), on=(INTERPRETER, SM_80, SM_90A))


def test_the_text_for_a_gpu_is_the_same_in_every_process() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "from gemm_program import gemm_program\n"
        "import tilelang\n"
        "func = gemm_program(64, 64, 64, (64, 64, 32), 2, 128)\n"
        "print(tilelang.lower(func, target='cuda -arch=sm_80').kernel_source)"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("0", "1")
    }  # fmt: skip
    assert len(texts) == 1 and "mma" in texts.pop()
