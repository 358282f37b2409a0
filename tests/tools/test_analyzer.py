"""Counts and estimates of programs."""

from __future__ import annotations

from typing import Any

from gemm_program import gemm_program
from refusals import refusal
from tensor_types import F32, I8

import tilelang
import tilelang.language as T
from tilelang.autotuner.model import estimate
from tilelang.carver.arch import CDNA, CUDA
from tilelang.errors import TileTypeError, TileUnsupportedError
from tilelang.target import parse_target
from tilelang.tools import Analyzer
from tilelang.tvm import IRModule


def product(m: Any, n: int = 128, k: int = 64, tile: int = 32) -> Any:
    return gemm_program(m, n, k, (tile, tile, 16))


# Each of the (m/32)(n/32) blocks loads its rows and columns and stores its tile.
def moved(m: int, n: int = 128, k: int = 64, tile: int = 32) -> int:
    return (m // tile) * (n // tile) * (2 * tile * k * 2 + tile * tile * 4)


def test_a_product_has_its_operations_and_the_bytes_that_blocks_move() -> None:
    found = Analyzer.analysis(product(256), CUDA("cuda -arch=sm_80"))
    assert (found.total_flops, found.total_global_bytes) == (2 * 256 * 128 * 64, moved(256))
    target = parse_target("cuda -arch=sm_80")
    assert found.estimated_time == estimate(product(256), target).milliseconds / 1e3
    assert found.tflops == found.total_flops / found.estimated_time / 1e12
    assert found.bandwidth_GBps == found.total_global_bytes / found.estimated_time / 1e9
    assert found.exact


def test_elements_of_tensors_count_where_they_are_read_written_and_updated() -> None:
    @T.prim_func
    def main(A: F32[64], S: F32[1], B: I8[64]):
        with T.Kernel(4, threads=16) as bx:
            for i in T.Parallel(16):
                B[bx * 16 + i] = T.cast(A[bx * 16 + i] + A[0], "int8")
            T.atomic_add(S[0], 1.0)

    found = Analyzer.analysis(main, "cpu")
    assert found.total_global_bytes == 64 * (4 + 4 + 1) + 4 * 2 * 4
    assert found.total_flops == 64


def test_symbols_make_counts_exact() -> None:
    func = product(T.dynamic("m"))
    assert not Analyzer.analysis(func, "cpu").exact
    found = Analyzer.analysis(func, "cpu", symbols={"m": 256})
    assert (found.exact, found.total_flops) == (True, 2 * 256 * 128 * 64)


def test_kernels_and_modules_are_taken_too() -> None:
    func = product(64)
    expected = Analyzer.analysis(func, "cpu")
    kernel = tilelang.compile(func, target="cpu", execution_backend="interpret")
    assert Analyzer.analysis(kernel, "cpu") == expected
    assert Analyzer.analysis(IRModule.from_expr(func), "cpu") == expected


def test_a_result_prints_as_a_sentence() -> None:
    found = Analyzer.analysis(product(T.dynamic("m")), "cuda -arch=sm_80")
    assert str(found).startswith(
        "at least 0.0005243 GFLOP, at least 0.04915 MB of global memory; estim"
    )


def test_what_is_no_program_is_refused() -> None:
    assert refusal(TileTypeError, Analyzer.analysis, 3, "cpu") == (
        "Analyzer takes one traced function\n"
        "  expected: the result of @T.prim_func, a module with one, or a kernel\n"
        "  got: 3"
    )


def test_machines_without_a_model_are_refused() -> None:
    assert refusal(TileUnsupportedError, Analyzer.analysis, product(64), CDNA()) == (
        "there is no model of hip -arch=gfx942\n"
        "  expected: a CPU or an NVIDIA GPU\n"
        "  got: hip -arch=gfx942"
    )
