"""Products in pipelined loops that load for the next iteration, and their results in rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gemm_case import encode
from gemm_program import gemm_program
from tensor_types import F16
from thread_races import Watch

import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.options import Options
from tilelang.target import parse_target


def product(
    shape: tuple[Any, Any, Any], block: tuple[int, int, int] = (32, 32, 32), **more: Any
) -> S.PrimFunc:
    """C = A @ B."""
    return gemm_program(*shape, block, **{"stages": 3, "threads": 64, "out": "float16"} | more)


def scaled(c: Buffer, **names: Any) -> None:
    for i, j in T.Parallel(32, 32):
        c[i, j] *= 1


def check(func: S.PrimFunc, M: int, N: int, K: int, arch: int = 80) -> S.PrimFunc:
    """``func`` compiled and simulated against numpy; what was simulated."""
    lowered = lower(func, parse_target(f"cuda -arch=sm_{arch}"), Options())
    rng = np.random.default_rng(M + 3 * N + 7 * K)
    a, b = rng.integers(-3, 4, (M, K)), rng.integers(-3, 4, (K, N))
    kinds = [str(buffer.dtype) for buffer in func.buffers]
    A, B, C = (encode(x, kind) for x, kind in zip((a, b, np.zeros((M, N), int)), kinds))
    interpret.run(lowered, (A, B, C), observer=Watch())
    np.testing.assert_array_equal(C, encode(a @ b, kinds[2]))
    return lowered


def calls(stmt: S.Stmt) -> list[str]:
    """The operations of a statement in the order of the text."""
    found = []
    for node in S.walk(stmt):
        if isinstance(node, S.Eval) and isinstance(node.value, E.Call):
            found.append(node.value.op)
    return found


def pipelined(func: S.PrimFunc) -> S.For:
    return next(
        node for node in S.walk(func.body)
        if isinstance(node, S.For) and "sync_threads" in calls(node)
    )  # fmt: skip


# -- loads ahead -------------------------------------------------------------------------------
def test_barrier_and_first_loads_precede_the_last_multiplication() -> None:
    order = calls(pipelined(check(product((32, 32, 128)), 32, 32, 128)))
    kept = [op for op in order if op in ("sync_threads", "ldmatrix", "mma", "cp_async_wait")]
    loads = ["ldmatrix"] * 2
    assert kept == [*loads, "mma", "cp_async_wait", "sync_threads", *loads, "mma"]


@pytest.mark.parametrize(("stages", "trips"), [(2, 2), (2, 7), (3, 3), (4, 3), (4, 7)])
def test_any_number_of_stages_and_iterations(stages: int, trips: int) -> None:
    check(product((32, 32, 32 * trips), stages=stages), 32, 32, 32 * trips)


@pytest.mark.parametrize(("M", "N", "K"), [(40, 72, 104), (33, 32, 96), (32, 40, 35)])
def test_ragged_sizes(M: int, N: int, K: int) -> None:
    check(product((M, N, K)), M, N, K)


@pytest.mark.parametrize("K", [0, 8, 96])
def test_trip_counts_known_at_run_time(K: int) -> None:
    check(product((32, 32, T.dynamic("K"))), 32, 32, K)


@pytest.mark.parametrize("depth", [16, 48])
def test_any_depth_of_a_stage(depth: int) -> None:
    check(product((32, 32, 4 * depth), block=(32, 32, depth)), 32, 32, 4 * depth)


def test_other_statements_in_the_loop_keep_its_order() -> None:
    order = calls(pipelined(check(product((32, 32, 128), inside=scaled), 32, 32, 128)))
    kept = [op for op in order if op in ("sync_threads", "ldmatrix", "mma")]
    assert kept[:2] == ["sync_threads", "ldmatrix"] and kept[-1] == "mma"


def test_there_is_no_part_of_a_tile_after_the_last_one() -> None:
    @T.prim_func
    def rows(A: F16[32, 96], B: F16[96, 32], C: F16[32, 32]):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((32, 96), "float16"), T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float16")
            T.copy(A, a)
            for k in T.Pipelined(3, num_stages=2):
                T.copy(B[k * 32, 0], b)
                T.gemm(a[:, k * 32 : k * 32 + 32], b, c, clear_accum=k == 0)
            T.copy(c, C)

    check(rows, 32, 32, 96)


def test_elements_that_ldmatrix_cannot_load() -> None:
    check(product((32, 32, 64), block=(32, 32, 16), dtype="float32", out="float32"), 32, 32, 64)


# -- rows --------------------------------------------------------------------------------------
def moves(func: S.PrimFunc) -> list[int]:
    """Bytes of the vector stores to global memory."""
    return [
        int(dict(node.value.attrs)["bytes"])
        for node in S.walk(func.body)
        if isinstance(node, S.Eval) and isinstance(node.value, E.Call)
        and node.value.op == "vector_copy"
        and isinstance(node.value.args[0], E.AddressOf)
        and node.value.args[0].buffer.storage == "global"
    ]  # fmt: skip


@pytest.mark.share(3)
@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("out", ["float16", "bfloat16", "float8_e4m3"])
@pytest.mark.parametrize("block", [(32, 64), (64, 128), (32, 192), (128, 64)])
def test_narrow_results_are_stored_in_rows(block: tuple[int, int], out: str, arch: int) -> None:
    M, N = block
    func = check(product((M, N, 32), block=(M, N, 16), out=out), M, N, 32, arch)
    if "tma_store_box" in calls(func.body):  # by way of a shared tile and TMA
        assert arch == 90 and not moves(func)
        assert ("stmatrix" in calls(func.body)) == (out[-1] == "6")
        return
    assert moves(func) and set(moves(func)) <= {2, 16}
    width = N // (1 if M > N else 2) * DType(out).bits // 8  # bytes in the rows of a warp
    assert (16 in moves(func)) == (width >= 64)
    assert ("stmatrix" in calls(func.body)) == (arch == 90 and 16 in moves(func) and out[-1] == "6")


@pytest.mark.parametrize(
    ("M", "N", "out", "widths"),
    [(33, 128, "float16", {16}), (70, 72, "float16", {16}), (32, 128, "float32", {8})],
)
def test_rows_of_ragged_tiles_and_wide_results(M: int, N: int, out: str, widths: set[int]) -> None:
    """Wide results and unaligned rows are stored from registers."""
    assert set(moves(check(product((M, N, 32), (32, 128, 16), out=out), M, N, 32))) == widths
    assert 16 not in moves(check(product((32, 33, 32), (32, 128, 16)), 32, 33, 32))
