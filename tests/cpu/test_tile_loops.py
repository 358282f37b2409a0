"""Tile operations become loops over their elements; the corpus says what the loops compute."""

from __future__ import annotations

import numpy as np
import pytest
from executors import INTERPRETER, holds
from script_text import text

import tilelang.language as T
from tilelang.cpu.loops.tiles import lower_tile_op
from tilelang.cpu.toolchain import find_compiler
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S


@pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")
@pytest.mark.share(4)
@pytest.mark.parametrize("dtype", ["float16", "uint8"])
@pytest.mark.parametrize("clear", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("right", [False, True])
def test_a_product_without_a_kernel_sums_in_its_accumulator_and_rounds_once(
    left: bool, right: bool, clear: bool, dtype: str
) -> None:
    """Operands are transposed as told, and parts of tiles."""

    @T.prim_func
    def kernel(A: T.Tensor((8, 4), dtype), B: T.Tensor((4, 8), dtype), C: T.Tensor((4, 4), dtype)):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((9, 6), dtype)
            b = T.alloc_shared((6, 9), dtype)
            c = T.alloc_fragment((4, 4), dtype)
            T.copy(A, a[1:9, 2:6])
            T.copy(B, b[2:6, 1:9])
            T.copy(C, c)
            tall, flat = a[1:9, 2:6], b[2:6, 1:9]
            first, second = tall if left else flat, flat if right else tall
            T.gemm(first, second, c, transpose_A=left, transpose_B=right, clear_accum=clear)
            T.copy(c, C)

    rng = np.random.default_rng(0)
    a, b, c = (rng.integers(0, 99, shape).astype(dtype) for shape in ((8, 4), (4, 8), (4, 4)))
    wide = np.float32 if dtype == "float16" else np.int64
    first, second = a.T if left else b, b.T if right else a
    want = first.astype(wide) @ second.astype(wide) + (0 if clear else c)
    holds(kernel, (a, b, c), want.astype(dtype), on=(INTERPRETER, "cpu"))


def test_an_operation_of_gpu_hardware_is_refused_by_what_it_needs() -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        lower_tile_op(S.HardwareOp(name="wgmma_gemm", needs="wgmma"))
    assert str(caught.value) == text("""
        T.wgmma_gemm needs sm_90a
          expected: a target with sm_90a
          got: a target that runs blocks on CPU cores
          hint: write the operation with T.copy and T.gemm, or choose another target
        """)
