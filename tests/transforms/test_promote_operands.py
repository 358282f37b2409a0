"""Factors of products that loops compute: held in registers, in runs along k."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from executors import SM_90A, holds
from tensor_types import F16, F32, U8
from thread_races import simulate

import tilelang.language as T
from tilelang.compiler import lower, pass_list
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import Context, Target, parse_target
from tilelang.tools import explain
from tilelang.transforms.layouts.descriptors import Descriptor
from tilelang.transforms.layouts.gemm_plan import GemmPlan, Registers, SharedLoad, SharedRuns

TARGET = parse_target("cuda -arch=sm_80")
HOPPER = parse_target("cuda -arch=sm_90a")
GROUP = 64


def weights(M: int, N: int, K: int, tile: tuple[int, int, int], stages: int, threads: int) -> Any:
    """float16 times 4-bit numbers, two a byte, through a fragment and a shared tile."""
    block_M, block_N, block_K = tile

    @T.prim_func
    def kernel(A: F16[M, K], Q: U8[N, K // 2], scales: F16[N, K // GROUP], C: F16[M, N]):
        with T.Kernel(N // block_N, M // block_M, threads=threads) as (bx, by):
            A_tile = T.alloc_shared((block_M, block_K), "float16")
            packed = T.alloc_shared((block_N, block_K // 2), "uint8")
            local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K), "float16")
            B_tile = T.alloc_shared((block_N, block_K), "float16")
            acc = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(acc)
            for k in T.Pipelined(K // block_K, num_stages=stages):
                T.copy(A[by * block_M, k * block_K], A_tile)
                T.copy(Q[bx * block_N, k * block_K // 2], packed)
                T.copy(packed, local)
                for i, j in T.Parallel(block_N, block_K):
                    B_local[i, j] = (
                        T.cast((local[i, j // 2] >> (j % 2 * 4)) & 15, "float16")
                        - T.cast(8, "float16")
                    ) * scales[bx * block_N + i, (k * block_K + j) // GROUP]
                T.copy(B_local, B_tile)
                T.gemm(A_tile, B_tile, acc, transpose_B=True)
            T.copy(acc, C[by * block_M, bx * block_N])

    return kernel


def small_weights(M: int, N: int, K: int) -> tuple[np.ndarray[Any, Any], ...]:
    """Arguments of ``weights`` whose products are exact, and the result."""
    rng = np.random.default_rng(N)
    a = rng.integers(-2, 3, (M, K)).astype(np.float16)
    numbers = rng.integers(5, 12, (N, K))
    packed = (numbers[:, ::2] | numbers[:, 1::2] << 4).astype(np.uint8)
    scales = rng.choice([0.5, 1.0, 2.0], (N, K // GROUP)).astype(np.float16)
    full = (numbers - 8) * np.repeat(scales.astype(np.float64), GROUP, axis=1)
    return a, packed, scales, (a.astype(np.float64) @ full.T).astype(np.float16)


def after(
    func: S.PrimFunc, name: str = "promote_operands", target: Target = TARGET
) -> list[S.Stmt]:
    """The statements after a pass."""
    context = Context(target)
    for step in pass_list(target):
        if step.applies(context):
            func = step.run(func, context)
        if step.name == name:
            break
    return list(S.walk(func.body))


@pytest.mark.parametrize(
    ("tile", "threads", "order"),
    [
        ((16, 64, 64), 128, {"k_run": 4, "swapped": True}),
        ((32, 32, 32), 64, {"k_run": 2, "swapped": True}),
        ((16, 32, 64), 128, {"k_run": 4}),  # eight columns a warp: not transposed
        ((16, 64, 128), 256, {"k_run": 4, "swapped": True, "k_slices": 2}),
        ((16, 32, 256), 256, {"k_run": 4, "swapped": True, "k_slices": 4}),
        ((64, 64, 64), 128, {}),  # rows shared by warps: through shared memory
    ],
)
def test_unpacked_weights_multiply_in_the_planned_order_of_k(
    tile: tuple[int, int, int], threads: int, order: dict[str, object]
) -> None:
    M, N, K = tile[0], 2 * tile[1], 2 * max(tile[2], GROUP)
    kernel = weights(M, N, K, tile, 2, threads)
    (product,) = (node for node in after(kernel) if isinstance(node, S.Gemm))
    assert dict(product.hints.stated) == order and product.plan is None
    (planned,) = (node for node in after(kernel, "infer_layouts") if isinstance(node, S.Gemm))
    plan = planned.plan
    stated = {"k_run": plan.run, "swapped": plan.swapped, "k_slices": plan.k_slices}
    assert stated == {"k_run": 1, "swapped": False, "k_slices": 1} | order
    assert type(plan.a) is (SharedRuns if order else SharedLoad)
    assert type(plan.b) is (Registers if order else SharedLoad)
    a, q, scales, wanted = small_weights(M, N, K)
    c = np.zeros((M, N), np.float16)
    func = lower(kernel, TARGET, Options())
    simulate(func.body, dict(zip(func.params, (a, q, scales, c), strict=True)))
    np.testing.assert_array_equal(c, wanted)


def computed_rows(rows: int, columns: int, dtype: str, threads: int) -> Any:
    """A product whose right operand, of ``columns`` rows, a loop computes from a shared tile."""

    @T.prim_func
    def kernel(
        A: T.Tensor((rows, 32), dtype),
        B: T.Tensor((columns, 32), dtype),
        C: F32[rows, columns],
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((rows, 32), dtype)
            b = T.alloc_shared((columns, 32), dtype)
            twice = T.alloc_shared((columns, 32), dtype)
            acc = T.alloc_fragment((rows, columns), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(columns, 32):
                twice[i, j] = b[i, j] + b[i, j]
            T.gemm(a, twice, acc, transpose_B=True, clear_accum=True)
            T.copy(acc, C)

    return kernel


@pytest.mark.parametrize(
    ("columns", "threads"), [(8, 32), (16, 256), (20, 96), (32, 128), (40, 256), (96, 96)]
)
def test_computed_operands_of_fewer_rows_than_the_warps_multiply_are_planned(
    columns: int, threads: int
) -> None:
    for dtype, target in (("float16", TARGET), ("float8_e4m3", HOPPER)):
        kernel = computed_rows(64, columns, dtype, threads)
        assert any(isinstance(node, S.Gemm) for node in after(kernel, target=target))
    if columns == 32:
        rng = np.random.default_rng(2)
        a, b = (rng.integers(-3, 4, (rows, 32)).astype(np.float16) for rows in (64, 32))
        want = (a.astype(np.float32) @ b.astype(np.float32).T) * 2
        holds(computed_rows(64, 32, "float16", threads), (a, b, np.zeros_like(want)), want)


def fed(clear: bool, several: bool = False) -> Any:
    """A product like that of :func:`weights`, whose sums are not complete behind one loop alone.

    Args:
        clear: whether the sum starts from zero; from one otherwise.
        several: whether the loop looks at the sum.
    """
    M, N, K, block_K = 16, 32, 512, 256

    @T.prim_func
    def kernel(A: F16[M, K], Q: U8[N, K], C: F32[M, N], D: F32[2, M, N]):
        with T.Kernel(1, threads=256):
            A_tile = T.alloc_shared((M, block_K), "float16")
            packed = T.alloc_shared((N, block_K), "uint8")
            local = T.alloc_fragment((N, block_K), "uint8")
            B_local = T.alloc_fragment((N, block_K), "float16")
            B_tile = T.alloc_shared((N, block_K), "float16")
            acc = T.alloc_fragment((M, N), "float32")
            T.fill(acc, 0 if clear else 1)
            for k in T.Pipelined(K // block_K, num_stages=2):
                T.copy(A[0, k * block_K], A_tile)
                T.copy(Q[0, k * block_K], packed)
                T.copy(packed, local)
                for i, j in T.Parallel(N, block_K):
                    B_local[i, j] = T.cast(local[i, j] & 15, "float16") - T.float16(8)
                T.copy(B_local, B_tile)
                T.gemm(A_tile, B_tile, acc, transpose_B=True)
                if several:
                    T.copy(acc, D[k, 0, 0])
            T.copy(acc, C)

    return kernel


@pytest.mark.parametrize(("clear", "several", "parts"), [(True, False, 4), (False, False, 1),
                                                         (True, True, 1)])  # fmt: skip
def test_k_is_split_if_sums_start_at_zero_and_are_read_after_the_loop(
    clear: bool, several: bool, parts: int
) -> None:
    kernel = fed(clear, several)
    (product,) = (n for n in after(kernel, "infer_layouts") if isinstance(n, S.Gemm))
    assert isinstance(product.plan, GemmPlan)
    assert product.plan.k_slices == parts
    rng = np.random.default_rng(2)
    a = rng.integers(-4, 4, (16, 512)).astype(np.float16)
    q = rng.integers(0, 256, (32, 512)).astype(np.uint8)
    b = (q & 15).astype(np.float64) - 8
    sums = np.stack([a[:, :256] @ b[:, :256].T, a.astype(np.float64) @ b.T]) + (not clear)
    d = sums.astype(np.float32) if several else np.zeros((2, 16, 32), np.float32)
    holds(kernel, (a, q, np.zeros((16, 32), np.float32), np.zeros_like(d)),
          sums[1].astype(np.float32), d, on=(SM_90A,))  # fmt: skip


# -- warpgroups ---
def plan_on_hopper(func: S.PrimFunc) -> GemmPlan:
    """The plan of the product of a program."""
    (found,) = (n for n in after(func, "infer_layouts", HOPPER) if isinstance(n, S.Gemm))
    assert isinstance(found.plan, GemmPlan)
    return found.plan


@pytest.mark.parametrize(
    ("tile", "threads", "warps", "tiles"),
    [
        ((128, 128, 64), 256, (2, 1), (1, 1, 4)),
        ((64, 128, 64), 128, (1, 1), (2, 1, 4)),
        ((40, 64, 128), 128, (1, 1), (1, 1, 8)),
    ],
)
def test_warpgroups_have_weights_that_a_loop_computes_in_registers(
    tile: tuple[int, int, int], threads: int, warps: tuple[int, int], tiles: tuple[int, int, int]
) -> None:
    M, N, K = tile[0], 2 * tile[1], 256
    func = weights(M, N, K, tile, 3, threads)
    plan = plan_on_hopper(func)
    assert plan.uses_wgmma, plan.why
    assert plan.swapped
    assert isinstance(plan.b, Registers)
    assert isinstance(plan.a, Descriptor)
    assert (plan.m, plan.n, plan.warps, plan.tiles) == (tile[1], tile[0], warps, tiles)
    a, packed, scales, c = small_weights(M, N, K)
    holds(func, (a, packed, scales, 0 * c), c, on=(SM_90A,))


def scaled_rows(down: int) -> Any:
    """A product whose left factor a loop computes from rows of another tile."""

    @T.prim_func
    def kernel(A: F16[128, 128], B: F16[128, 64 * down], C: F32[128, 64 * down]):
        with T.Kernel(1, threads=256):
            raw = T.alloc_shared((128, 64), "float16")
            twice = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64 * down), "float16")
            c = T.alloc_fragment((128, 64 * down), "float32")
            T.clear(c)
            for k in T.Pipelined(2, num_stages=2):
                T.copy(A[0, k * 64], raw)
                T.copy(B[k * 64, 0], b)
                for i, j in T.Parallel(128, 64):
                    twice[i, j] = raw[i, j] * 2
                T.gemm(twice, b, c)
            T.copy(c, C)

    return kernel


def test_warpgroups_have_a_left_factor_in_registers_and_no_product_is_exchanged() -> None:
    func = scaled_rows(2)
    plan = plan_on_hopper(func)
    assert plan.uses_wgmma and not plan.swapped
    assert isinstance(plan.a, Registers) and isinstance(plan.b, Descriptor)
    rng = np.random.default_rng(2)
    a, b = (rng.integers(-2, 3, (128, 128)).astype(np.float16) for _ in range(2))
    c = 2 * a.astype(np.float32) @ b.astype(np.float32)
    holds(func, (a, b, 0 * c), c, on=(SM_90A,))


def test_reports_say_which_operand_is_in_registers() -> None:
    target = "cuda -arch=sm_90a"
    line = (
        "128 x 128 x 64: wgmma.m64n128k16.float16 on 2 x 1 warpgroups, each 1 x 1 tiles in 4 steps"
    )
    turned = explain(weights(128, 128, 128, (128, 128, 64), 2, 256), target)
    assert f"{line}, operands swapped (transposed product): B is in registers\n" in turned
    assert f"{line}, A is in registers\n" in explain(scaled_rows(2), target)


def test_an_operand_with_another_use_stays_shared() -> None:
    @T.prim_func
    def kernel(A: F16[16, 64], B: F16[64, 64], D: F16[64, 64], C: F32[16, 64]):
        with T.Kernel(1, threads=128):
            A_tile = T.alloc_shared((16, 64), "float16")
            raw = T.alloc_shared((64, 64), "float16")
            twice = T.alloc_shared((64, 64), "float16")
            seen = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_fragment((16, 64), "float32")
            T.clear(acc)
            T.copy(A, A_tile)
            T.copy(B, raw)
            for tile in (twice, seen):
                for i, j in T.Parallel(64, 64):
                    tile[i, j] = raw[i, j] + raw[i, j]
                T.gemm(A_tile, tile, acc, transpose_B=True)
            T.copy(seen, D)
            T.copy(acc, C)

    found = {n.buffer.name: n.buffer.storage for n in after(kernel) if isinstance(n, S.Alloc)}
    assert found["twice"] == "local.fragment" and found["seen"] == "shared.dyn"


def test_products_that_share_an_operand_agree() -> None:
    """One multiplies all rows, the other half of the threads' worth of them."""

    @T.prim_func
    def kernel(A: F16[32, 64], B: F16[64, 64], C: F32[64, 16], D: F32[64, 32]):
        with T.Kernel(1, threads=128):
            few = T.alloc_shared((16, 64), "float16")
            many = T.alloc_shared((32, 64), "float16")
            W = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 16), "float32")
            d = T.alloc_fragment((64, 32), "float32")
            T.copy(A[0, 0], few)
            T.copy(A, many)
            for i, j in T.Parallel(64, 64):
                W[i, j] = B[i, j] + B[i, j]
            T.gemm(W, few, c, transpose_B=True, clear_accum=True)
            T.gemm(W, many, d, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
            T.copy(c, C)
            T.copy(d, D)

    rng = np.random.default_rng(4)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((32, 64), (64, 64)))
    c, d = np.zeros((64, 16), np.float32), np.zeros((64, 32), np.float32)
    func = lower(kernel, TARGET, Options())
    simulate(func.body, dict(zip(func.params, (a, b, c, d), strict=True)))
    expected = 2 * b.astype(np.float32) @ a.astype(np.float32).T
    np.testing.assert_array_equal(c, expected[:, :16])
    np.testing.assert_array_equal(d, expected)
