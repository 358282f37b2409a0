"""Results of products to global memory by way of a shared tile and TMA."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import INTERPRETER, SM_90A, compiled, holds
from gemm_program import gemm_program
from tensor_types import BF16, F16

import tilelang.language as T

PLACES = (INTERPRETER, SM_90A)
F, H = np.float32, np.float16


def small(*shape: int) -> Any:
    return np.random.default_rng(3).integers(-2, 3, shape).astype(H)


def text_of(func: Any) -> str:
    return str(compiled(func, SM_90A).get_kernel_source())


@pytest.mark.parametrize(("m", "n"), [(128, 128), (100, 136), (8, 72)])
def test_partial_result_tiles_are_stored_by_tma(m: int, n: int) -> None:
    a, b = small(m, 64), small(64, n)
    wanted = (a.astype(F) @ b.astype(F)).astype(H)
    func = gemm_program(m, n, 64, (64, 64, 64), out="float16")
    holds(func, (a, b, np.zeros((m, n), H)), wanted, on=PLACES)
    text = text_of(func)
    assert "tl_stmatrix_x4" in text and "tl_tma_store(&C_map" in text
    assert "tl_fence_proxy_async" in text


@pytest.mark.parametrize(
    ("n", "out"),
    [(100, "float16"), (128, "float32"), (128, "float8_e4m3fn")],
    ids=["rows that are no 16s of bytes", "32 bits", "8 bits"],
)
def test_other_results_leave_as_before(n: int, out: str) -> None:
    text = text_of(gemm_program(64, n, 64, (64, 64, 64), out=out))
    assert "tl_tma_store" not in text and "c_tile" not in text


def test_copies_of_results_leave_so_and_other_fragments_do_not() -> None:
    @T.prim_func
    def main(A: F16[64, 64], C: BF16[2, 64, 3, 64], D: F16[2, 64, 64]):
        with T.Kernel(2, threads=128) as bx:
            a = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            narrow = T.alloc_fragment((64, 64), "bfloat16")
            other = T.alloc_fragment((64, 64), "float16")
            T.copy(A, a)
            T.copy(A, other)
            T.gemm(a, a, acc, clear_accum=True)
            T.copy(acc, narrow)
            T.copy(narrow, C[bx, 0:64, 1, :])
            T.copy(other, D[bx, :, :])

    text = text_of(main)
    assert "tl_tma_store(&C_map" in text and "D_map" not in text
    a = small(64, 64)
    wanted = np.zeros((2, 64, 3, 64), np.uint16)
    wanted[:, :, 1] = ((a.astype(F) @ a.astype(F)).view(np.uint32) >> 16).astype(np.uint16)
    twice = np.stack([a, a])
    holds(main, (a, np.zeros_like(wanted), 0 * twice), wanted, twice, on=PLACES)


def rows_of(kept: int, condition: str = "row") -> Any:
    """A product of which a loop stores some rows, from row 3 of C on."""

    @T.prim_func
    def main(A: F16[64, 64], C: F16[80, 128]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.gemm(a, a, acc, clear_accum=True)
            for i, j in T.Parallel(64, 64):
                if (j if condition == "column" else i) < kept:
                    C[i + 3, j + (64 if condition != "off" else 1)] = acc[i, j]

    return main


@pytest.mark.parametrize("kept", [1, 40])
def test_a_loop_stores_rows_of_a_result_from_a_tile(kept: int) -> None:
    a = small(64, 64)
    wanted = np.zeros((80, 128), H)
    wanted[3 : 3 + kept, 64:] = (a.astype(F) @ a.astype(F)).astype(H)[:kept]
    holds(rows_of(kept), (a, 0 * wanted), wanted, on=PLACES)
    if kept > 1:  # one row is no tile of rows
        text = text_of(rows_of(kept))
        assert "tl_stmatrix_x4(&acc_tile" in text and "tl_copy_16(&C[" in text


@pytest.mark.parametrize("condition", ["column", "off"])
def test_a_loop_whose_rows_have_no_chunks_stores_from_registers(condition: str) -> None:
    a, wanted = small(64, 64), np.zeros((80, 128), H)
    full, first = (a.astype(F) @ a.astype(F)).astype(H), 64 if condition != "off" else 1
    inside = np.arange(64) < 40
    kept = full * (inside if condition == "column" else inside[:, None])
    wanted[3:67, first : first + 64] = kept
    holds(rows_of(40, condition), (a, 0 * wanted), wanted, on=PLACES)
    assert "acc_tile" not in text_of(rows_of(40, condition))
