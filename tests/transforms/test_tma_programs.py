"""Programs whose copies are boxes of tensors, compared with numpy: in the emulator, which looks for races
and for missing waits, and lowered in the interpreter."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import SM_90A, compiled, holds
from gemm_program import gemm_program
from tensor_types import F16, F32
from test_mechanisms import choosing

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
    """What the lowered program computes in the interpreter, which has no roles."""
    args = [np.array(a) if isinstance(a, np.ndarray) else a for a in given]
    interpret.run(lower(func, HOPPER, Options(no_roles=True)), args)
    for found, want in zip(args[-len(wanted) :], wanted, strict=True):
        np.testing.assert_array_equal(found, want)


def everywhere(func, given, *wanted) -> None:
    holds(func, given, *wanted, on=(SM_90A,))
    lowered_holds(func, given, *wanted)


def factors(M: int, N: int, K: int) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """Arguments of a product, and its result."""
    a, b = numbers(M, K) % 8, numbers(K, N) % 8
    wanted = a.astype(np.float32) @ b.astype(np.float32)
    return (a, b, 0 * wanted), wanted


@pytest.mark.parametrize(
    ("shape", "depth", "stages"),
    [
        ((128, 64, 192), 32, 2),
        ((128, 64, 192), 64, 4),
        ((100, 72, 200), 32, 2),
        ((7, 8, 40), 32, 2),
    ],
)
def test_a_product_with_tiles_in_boxes(
    shape: tuple[int, int, int], depth: int, stages: int
) -> None:
    """Partial tiles are filled with zeros."""
    given, wanted = factors(*shape)
    with choosing("bulk"):
        func = gemm_program(*shape, (64, 64, depth), stages)
        assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
        everywhere(func, given, wanted)


def passed_on(tensor, tile, dtype):
    """Planes of a tensor through tiles in shared memory; its first dimension is the loop's."""
    count = tensor[0]
    inside = tuple(slice(0, extent) for extent in tile)

    @T.prim_func
    def tma_passed_on(A: T.Tensor(tensor, dtype), B: T.Tensor((count, *tile), dtype)):
        with T.Kernel(1, threads=64):
            s = T.alloc_shared(tile, dtype)
            for k in T.Pipelined(count, num_stages=2):
                T.copy(A[(k, *inside)], s)
                T.copy(s, B[(k, *inside)])

    return tma_passed_on


@pytest.mark.parametrize(
    "tensor, tile, dtype",
    [
        ((3, 320), (256,), "int8"),
        ((4, 16, 512), (16, 512), "float32"),
        ((3, 5, 20, 64), (2, 16, 64), "float16"),
        ((3, 2, 3, 10, 32), (2, 2, 8, 32), "float64"),
    ],
)
def test_planes_of_tensors(tensor, tile, dtype) -> None:
    source = numbers(*tensor, dtype=dtype)
    wanted = source[(slice(None), *(slice(0, extent) for extent in tile))]
    with choosing("bulk"):
        func = passed_on(tensor, tile, dtype)
        assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
        everywhere(func, (source, 0 * wanted), wanted)


def test_regions_that_are_not_boxes_are_copied_without_tma() -> None:
    with choosing("bulk"):
        func = passed_on((4, 40, 100), (32, 64), "float16")
        assert "tl_tma_load" not in compiled(func, SM_90A).get_kernel_source()
        assert (
            "pipeline: serial: not with TMA: `s`: `100` elements of `A` along dimension 1 "
            "are not known to be a multiple of 16 bytes"
        ) in explain(func, HOPPER, Options())
        source = numbers(4, 40, 100)
        holds(func, (source, np.zeros((4, 32, 64), np.float16)), source[:, :32, :64], on=(SM_90A,))


# -- synchronous copies ---------------------------------------------------------------------------
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


@pytest.mark.parametrize("shape", [(100, 200), (1, 8)])
def test_tiles_in_a_loop_are_loaded_and_stored(shape: tuple[int, int]) -> None:
    func = doubled(*shape)
    text = compiled(func, SM_90A).get_kernel_source()
    assert "tl_tma_load(" in text and text.count("tl_tma_store(") == 1
    a = numbers(*shape)
    holds(func, (a, 0 * a), 2 * a)
    lowered_holds(func, (a, 0 * a), 2 * a)


def test_neighbouring_loads_wait_together() -> None:
    @T.prim_func
    def tma_sum(A: F32[64, 64], B: F32[64, 64], C: F32[64, 64]):
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


def test_a_report_says_how_tiles_are_copied_and_why() -> None:
    text = explain(doubled(64, 64), HOPPER, Options())
    assert text.count("  copy: TMA\n") == 2
    text = explain(doubled(64, 100), HOPPER, Options())
    why = "`100` elements of `A` along dimension 0 are not known to be a multiple of 16 bytes"
    assert f"  copy: without TMA: {why}\n" in text


def test_a_tile_of_the_unit_is_not_where_threads_have_written() -> None:
    @T.prim_func
    def tma_later(A: F32[64, 64], B: F32[2, 64, 64]):
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


# -- pipelines that run again and again ------------------------------------------------------------
def test_threads_synchronize_to_exchange_a_tile_in_a_repeated_pipeline() -> None:
    """What is between the steps of a pipeline is ordered like any other loop's body."""

    @T.prim_func
    def tma_turned(A: F16[128, 256], B: F16[128, 64]):
        with T.Kernel(1, threads=128):
            a, s, total = (T.alloc_shared((64, 64), "float16") for _ in range(3))
            for m in T.serial(2):
                T.clear(total)
                for k in T.Pipelined(4, num_stages=2):
                    T.copy(A[m * 64, k * 64], a)
                    for i, j in T.Parallel(64, 64):
                        s[i, j] = a[i, j] + 1
                    for i, j in T.Parallel(64, 64):
                        total[i, j] += s[j, i]
                T.copy(total, B[m * 64, 0])

    source = numbers(128, 256) % 8
    tiles = source.reshape(2, 64, 4, 64) + 1
    wanted = tiles.sum(axis=2).transpose(0, 2, 1).reshape(128, 64).astype(np.float16)
    with choosing("bulk"):
        holds(tma_turned, (source, 0 * wanted), wanted, on=(SM_90A,))


# -- pipelines whose tiles come in two ways --------------------------------------------------------
def mixed(M: int, K: int, stages: int = 3) -> object:
    """With 68 columns, B is no tensor of boxes."""
    return gemm_program(M, 68, K, (64, 64, 64), stages)


@pytest.mark.parametrize("stages, K", [(2, 128), (4, 200), (3, 64)])
def test_boxes_and_copies_of_threads_share_a_loop(stages: int, K: int) -> None:
    func = mixed(100, K, stages)
    text = compiled(func, SM_90A).get_kernel_source()
    assert ("tl_tma_load(" in text and "cp_async" in text) == (K > 64)
    given, wanted = factors(100, 68, K)
    everywhere(func, given, wanted)


def test_a_report_says_which_tiles_are_boxes() -> None:
    assert (
        "pipeline: 4 stages: a copied ahead with TMA, mbarriers per stage; "
        "b copied ahead with cp.async, one barrier per iteration; not all with TMA: "
        "`b`: `68` elements of `B` along dimension 0 are not known to be a multiple of 16 bytes"
    ) in explain(mixed(128, 256), HOPPER, Options())


@pytest.mark.parametrize("N", [64, 68])
def test_what_fills_the_first_versions_waits_for_earlier_uses(N: int) -> None:
    """Also where one thread fills them, without a barrier."""

    @T.prim_func
    def tma_after(A: F16[64, 256], B: F16[256, N], C: F32[64, 64], D: F16[64, 64]):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for i, j in T.Parallel(64, 64):
                b[i, j] = i - j
                a[i, j] = i + j
            for i, j in T.Parallel(64, 64):
                D[i, j] = b[j, i] * a[j, i]
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = numbers(64, 256) % 8, numbers(256, N) % 8
    product = a.astype(np.float32) @ b[:, :64].astype(np.float32)
    i, j = np.indices((64, 64))
    before = ((j - i) * (i + j)).astype(np.float16)
    given = (a, b, 0 * product, 0 * before)
    assert "tl_tma_load(" in compiled(tma_after, SM_90A).get_kernel_source()
    holds(tma_after, given, product, before, on=(SM_90A,))


@pytest.mark.parametrize("apart", [False, True])
def test_loads_into_one_tile_are_ordered(apart: bool) -> None:
    """The unit keeps no order between two loads; those of other elements still wait together."""
    at = 32 if apart else 0

    @T.prim_func
    def twice(A: F32[64, 64], C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float32")
            T.copy(A[0:32, :], tile[0:32, :])
            T.copy(A[40:72, :], tile[at : at + 32, :])
            T.copy(A[0:32, :], tile[32 - at : 64 - at, :])
            T.copy(tile, C)

    a = numbers(64, 64, dtype="float32")
    tail = np.concatenate([a[40:], np.zeros((8, 64), np.float32)])
    wanted = np.concatenate([a[:32], tail] if apart else [tail, a[:32]])
    everywhere(twice, (a, np.zeros((64, 64), np.float32)), wanted)
    assert compiled(twice, SM_90A).get_kernel_source().count("tl_mbarrier_arrive_expect_tx") == 2
