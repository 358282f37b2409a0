"""Programs whose copies are boxes of tensors, beside numpy: in the emulator, which looks for races
and for what nobody waits for, and lowered in the interpreter."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import SM_90A, compiled, holds
from test_mechanisms import choosing

import tilelang
import tilelang.language as T
from tilelang import interpret
from tilelang.compiler import lower
from tilelang.explain.report import explain
from tilelang.options import Options
from tilelang.target import parse_target

HOPPER = parse_target("cuda -arch=sm_90a")


def numbers(*shape: int, dtype: str = "float16") -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, 60, shape).astype(dtype)


def lowered_holds(func, given, *wanted) -> None:
    """What the lowered program computes in the interpreter."""
    args = [np.array(a) if isinstance(a, np.ndarray) else a for a in given]
    interpret.run(lower(func, HOPPER, Options()), args)
    for found, want in zip(args[-len(wanted) :], wanted, strict=True):
        np.testing.assert_array_equal(found, want)


def everywhere(func, given, *wanted) -> None:
    holds(func, given, *wanted, on=(SM_90A,))
    lowered_holds(func, given, *wanted)


def gemm(M, N, K, BM=64, BN=64, BK=32, stages=3, dtype="float16"):
    @T.prim_func
    def tma_gemm(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")
    ):
        with T.Kernel(T.ceildiv(N, BN), T.ceildiv(M, BM), threads=128) as (bx, by):
            a = T.alloc_shared((BM, BK), dtype)
            b = T.alloc_shared((BK, BN), dtype)
            c = T.alloc_fragment((BM, BN), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, BK), num_stages=stages):
                T.copy(A[by * BM, k * BK], a)
                T.copy(B[k * BK, bx * BN], b)
                T.gemm(a, b, c)
            T.copy(c, C[by * BM, bx * BN])

    return tma_gemm


@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("BK", [16, 32, 64])
def test_a_product_with_tiles_in_boxes(stages: int, BK: int) -> None:
    a, b = numbers(128, 192) % 8, numbers(192, 64) % 8
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    with choosing("bulk"):
        func = gemm(128, 64, 192, BK=BK, stages=stages)
        assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
        everywhere(func, (a, b, 0 * wanted), wanted)


@pytest.mark.parametrize("shape", [(100, 72, 200), (7, 8, 40), (65, 136, 8)])
def test_partial_tiles_are_filled_with_zeros(shape: tuple[int, int, int]) -> None:
    M, N, K = shape
    a, b = numbers(M, K) % 8, numbers(K, N) % 8
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    with choosing("bulk"):
        everywhere(gemm(M, N, K, stages=2), (a, b, 0 * wanted), wanted)


def test_rows_of_any_number() -> None:
    with choosing("bulk"):
        func = gemm(T.dynamic("m"), 64, 128)
        for M in (1, 64, 130):
            a, b = numbers(M, 128) % 8, numbers(128, 64) % 8
            wanted = a.astype(np.float32) @ b.astype(np.float32)
            everywhere(func, (a, b, 0 * wanted), wanted)


def passed_on(tensor, tile, dtype, strides=None, stages=2):
    """Planes of a tensor through tiles in shared memory; its first dimension is the loop's."""
    count, *rest = tensor
    steps = strides or tuple(int(np.prod(tensor[d + 1 :])) for d in range(len(tensor)))
    inside = tuple(slice(0, extent) for extent in tile)

    @T.prim_func
    def tma_passed_on(A: T.StridedTensor(tensor, steps, dtype), B: T.Tensor((count, *tile), dtype)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared(tile, dtype)
            for k in T.Pipelined(count, num_stages=stages):
                T.copy(A[(k, *inside)], s)
                T.copy(s, B[(k, *inside)])

    return tma_passed_on


@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64", "int64", "uint32"])
@pytest.mark.parametrize(
    "tensor, tile",
    [
        ((3, 320), (256,)),
        ((4, 40, 64), (32, 64)),
        ((4, 16, 512), (16, 512)),
        ((3, 5, 20, 64), (2, 16, 64)),
        ((3, 2, 3, 10, 32), (2, 2, 8, 32)),
    ],
)
def test_planes_of_tensors(tensor, tile, dtype) -> None:
    source = numbers(*tensor, dtype=dtype)
    wanted = source[(slice(None), *(slice(0, extent) for extent in tile))]
    with choosing("bulk"):
        func = passed_on(tensor, tile, dtype)
        assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
        everywhere(func, (source, 0 * wanted), wanted)


def test_strided_planes() -> None:
    space = numbers(4, 40, 96)
    source = space[:, :, :64]
    with choosing("bulk"):
        func = passed_on((4, 40, 64), (32, 64), "float16", (40 * 96, 96, 1))
        args = (source, np.zeros((4, 32, 64), np.float16))
        compiled(func, SM_90A)(*args)
        np.testing.assert_array_equal(args[1], source[:, :32])


def test_what_is_no_box_is_copied_otherwise() -> None:
    with choosing("bulk"):
        func = passed_on((4, 40, 100), (32, 64), "float16")
        assert "tl_tma_load" not in compiled(func, SM_90A).get_kernel_source()
        assert (
            "pipeline: serial: not with bulk copies: `s`: `100` elements of `A` along dimension 1 "
            "are not known to be a multiple of 16 bytes"
        ) in explain(func, HOPPER, Options())
        source = numbers(4, 40, 100)
        holds(func, (source, np.zeros((4, 32, 64), np.float16)), source[:, :32, :64], on=(SM_90A,))


# -- copies that are complete where they stand ---------------------------------------------------
def doubled(M, N, rows=64, columns=64, dtype="float16"):
    """Tiles one after the other, through one tile of shared memory."""

    @T.prim_func
    def tma_doubled(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, rows), threads=128) as bx:
            s = T.alloc_shared((rows, columns), dtype)
            for k in T.serial(T.ceildiv(N, columns)):
                T.copy(A[bx * rows, k * columns], s)
                for i, j in T.Parallel(rows, columns):
                    s[i, j] = s[i, j] * 2
                T.copy(s, B[bx * rows, k * columns])

    return tma_doubled


@pytest.mark.parametrize("shape", [(64, 64), (128, 192), (100, 200), (1, 8)])
def test_tiles_in_a_loop_are_loaded_and_stored(shape: tuple[int, int]) -> None:
    func = doubled(*shape)
    text = compiled(func, SM_90A).get_kernel_source()
    assert text.count("tl_tma_load(") == text.count("tl_tma_store(") == 1
    a = numbers(*shape)
    holds(func, (a, 0 * a), 2 * a)
    lowered_holds(func, (a, 0 * a), 2 * a)


def test_tensors_without_elements() -> None:
    func = doubled(T.dynamic("m"), 64)
    assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
    for M in (0, 3, 64):
        a = numbers(M, 64)
        holds(func, (a, 0 * a), 2 * a)


def test_neighbouring_loads_wait_together() -> None:
    @T.prim_func
    def tma_sum(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"),
                C: T.Tensor((64, 64), "float32")):  # fmt: skip
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float32")
            b = T.alloc_shared((64, 64), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(64, 64):
                C[i, j] = a[i, j] + b[i, j]

    text = compiled(tma_sum, SM_90A).get_kernel_source()
    assert text.count("tl_mbarrier_wait(") == 1 and "expect_tx(loaded, 32768)" in text
    a, b = numbers(64, 64, dtype="float32"), numbers(64, 64, dtype="float32")[::-1].copy()
    holds(tma_sum, (a, b, 0 * a), a + b)
    lowered_holds(tma_sum, (a, b, 0 * a), a + b)


def test_warps_of_a_branch_wait_for_their_own_loads() -> None:
    @T.prim_func
    def tma_halves(A: T.Tensor((128, 64), "float16"), B: T.Tensor((128, 64), "float16")):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            if tx < 64:
                T.copy(A[0, 0], a)
                T.copy(a, B[0:64, :])
            else:
                T.copy(A[64, 0], b)
                for i, j in T.Parallel(64, 64):
                    B[64 + i, j] = b[i, j]

    assert compiled(tma_halves, SM_90A).get_kernel_source().count("tl_tma_load(") == 2
    a = numbers(128, 64)
    holds(tma_halves, (a, 0 * a), a)


@pytest.mark.parametrize("off", ["config", "argument", "instruction"])
def test_they_are_switched_off(off: str) -> None:
    options = {"disable_tma": off == "argument"}
    if off == "instruction":
        options["prefer_instruction"] = "sync"

    @T.prim_func
    def tma_off(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float16")
            T.copy(A, s, **options)
            T.copy(s, B, **options)

    config = {"tl.disable_tma_lower": True} if off == "config" else {}
    kernel = tilelang.compile(
        tma_off, target="cuda -arch=sm_90a", execution_backend="emulator", pass_configs=config
    )
    assert "tl_tma_" not in kernel.get_kernel_source()


def test_a_copy_of_the_program_is_made_by_the_unit() -> None:
    @T.prim_func
    def tma_by_hand(A: T.Tensor((4, 64, 64), "float16"), B: T.Tensor((4, 64, 64), "float16")):
        with T.Kernel(1, threads=160):
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 64, 64), "float16")
            full = T.alloc_barrier([1, 1])
            empty = T.alloc_barrier([128, 128])
            if tx >= 128:
                if tx == 128:
                    for k in T.serial(4):
                        T.mbarrier_wait_parity(empty[k % 2], (k // 2 + 1) % 2)
                        T.tma_copy(A[k, :, :], s[k % 2, :, :], barrier=full[k % 2])
                        T.barrier_arrive(full[k % 2])
            else:
                for k in T.serial(4):
                    T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                    for i, j in T.Parallel(64, 64):
                        B[k, i, j] = s[k % 2, i, j]
                    T.barrier_arrive(empty[k % 2])

    text = compiled(tma_by_hand, SM_90A).get_kernel_source()
    assert "tl_mbarrier_expect_tx(" in text and "tl_tma_load(" in text
    a = numbers(4, 64, 64)
    holds(tma_by_hand, (a, 0 * a), a, on=(SM_90A,))


def test_a_report_says_how_tiles_are_copied_and_why() -> None:
    text = explain(doubled(64, 64), HOPPER, Options())
    assert text.count("  copy: boxes of a tensor map\n") == 2
    text = explain(doubled(64, 100), HOPPER, Options())
    why = "`100` elements of `A` along dimension 0 are not known to be a multiple of 16 bytes"
    assert f"  copy: without a tensor map: {why}\n" in text


def test_a_tile_of_the_unit_is_not_where_threads_have_written() -> None:
    @T.prim_func
    def tma_later(A: T.Tensor((64, 64), "float32"), B: T.Tensor((2, 64, 64), "float32")):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float32")
            for i, j in T.Parallel(64, 64):
                s[i, j] = i
            for i, j in T.Parallel(64, 64):
                B[0, i, j] = s[j, i]
            T.sync_threads()
            t = T.alloc_shared((64, 64), "float32")
            T.copy(A, t)
            for i, j in T.Parallel(64, 64):
                B[1, i, j] = t[i, j]

    a = numbers(64, 64, dtype="float32")
    first = np.broadcast_to(np.arange(64, dtype=np.float32), (64, 64))
    holds(tma_later, (a, np.zeros((2, 64, 64), np.float32)), np.stack((first, a)), on=(SM_90A,))
