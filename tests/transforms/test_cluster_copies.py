"""Copies for several blocks of a cluster, in the emulator, which looks for races between them."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import CPU, INTERPRETER, SM_80, SM_90A, agrees, compiled, holds
from refusals import refusal
from tensor_types import F16
from test_tma_operations import notes
from test_tma_programs import numbers

import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin, find_nvcc
from tilelang.errors import TileUnsupportedError, TileValueError


def shared_tiles(mask: int, blocks: int = 2, loops: int = 3):
    """Blocks of a cluster go through the same tiles, each with rows of its own to add."""

    @T.prim_func
    def cluster_tiles(A: F16[4, loops, 64, 64], B: F16[4 * blocks, 64, 64]):
        with T.ClusterKernel(4 * blocks, cluster_dims=(blocks, 1, 1), threads=128) as bx:
            s = T.alloc_shared((64, 64), "float16")
            total = T.alloc_fragment((64, 64), "float16")
            T.fill(total, bx % blocks)
            for k in T.serial(loops):
                T.copy_cluster(A[bx // blocks, k, 0, 0], s, cluster_mask=mask)
                for i, j in T.Parallel(64, 64):
                    total[i, j] += s[i, j]
            T.copy(total, B[bx, 0, 0])

    return cluster_tiles


@pytest.mark.parametrize(("mask", "blocks"), [(0b10, 2), (0b1011, 4)])
def test_blocks_of_a_cluster_share_loads(mask: int, blocks: int) -> None:
    func = shared_tiles(mask, blocks)
    text = compiled(func, SM_90A).get_kernel_source()
    assert text.count("tl_tma_load_multicast(") == 1 and f"loaded, {mask}, " in text
    a = numbers(4, 3, 64, 64) % 16
    given = (a, np.zeros((4 * blocks, 64, 64), np.float16))
    agrees(func, given, on=(CPU, SM_90A))


def test_a_program_orders_shared_loads_itself() -> None:
    """Two stages: a block that has used one tells all blocks that they may fill it."""
    steps = 6

    @T.prim_func
    def cluster_ring(A: F16[4, steps, 32, 64], B: F16[8, 32, 64]):
        with T.ClusterKernel(8, cluster_dims=(2, 1, 1), threads=128) as bx:
            tx = T.get_thread_binding()
            s = T.alloc_shared((2, 32, 64), "float16")
            full = T.alloc_barrier([1, 1])
            total = T.alloc_fragment((32, 64), "float16")
            T.clear(total)
            for k in T.serial(steps):
                T.cluster_sync()
                T.tma_copy(
                    A[bx // 2, k, 0, 0], s[k % 2, :, :], barrier=full[k % 2], cluster_mask=0b11
                )
                if tx == 0:
                    T.mbarrier_arrive(full[k % 2])
                T.mbarrier_wait_parity(full[k % 2], k // 2 % 2)
                for i, j in T.Parallel(32, 64):
                    total[i, j] += s[k % 2, i, j]
            T.copy(total, B[bx, 0, 0])

    assert "tl_tma_load_multicast(" in compiled(cluster_ring, SM_90A).get_kernel_source()
    a = numbers(4, steps, 32, 64) % 16
    wanted = np.repeat(a.sum(1), 2, 0).astype(np.float16)
    holds(cluster_ring, (a, 0 * wanted), wanted, on=(SM_90A,))


def exchanged(other=None, parts=False):
    """Each block of a pair gets the tile of the other."""

    @T.prim_func
    def cluster_exchange(A: F16[8, 64, 64], B: F16[8, 64, 64]):
        with T.ClusterKernel(8, cluster_dims=(2, 1, 1), threads=128) as bx:
            tx = T.get_thread_binding()
            mine = T.alloc_shared((64, 64), "float16")
            theirs = T.alloc_shared((64, 64), other or "float16")
            got = T.alloc_barrier(1)
            T.copy(A[bx, 0, 0], mine)
            for i, j in T.Parallel(64, 64):
                mine[i, j] = mine[i, j] * 2
            if tx == 0:
                T.mbarrier_arrive_expect_tx(got, 64 * 64 * 2)
            T.cluster_sync()
            rank = T.block_rank_in_cluster()
            if parts:
                T.copy_cluster(
                    mine[0:32, :], theirs[0:32, :], dst_block=rank ^ 1, remote_barrier=got
                )
            else:
                T.copy_cluster(mine, theirs, dst_block=rank ^ 1, remote_barrier=got)
            T.mbarrier_wait_parity(got, 0)
            T.copy(theirs, B[bx, 0, 0], disable_tma=True)
            T.cluster_sync()

    return cluster_exchange


def test_a_tile_is_copied_to_another_block() -> None:
    func = exchanged()
    assert (
        "tl_bulk_copy_cluster(theirs, mine, 8192, got, "
        in compiled(func, SM_90A).get_kernel_source()
    )
    a = numbers(8, 64, 64) % 16
    wanted = 2 * a.reshape(4, 2, 64, 64)[:, ::-1].reshape(8, 64, 64)
    holds(func, (a, 0 * wanted), wanted, on=(SM_90A,))


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (exchanged("float32"), "it converts float16 to float32"),
        (exchanged(parts=True), "it copies parts of tiles"),
    ],
)
def test_only_whole_tiles_go_to_another_block(func, why: str) -> None:
    with pytest.raises(TileUnsupportedError) as caught:
        compiled(func, SM_90A)
    assert f" of another block: {why}" in str(caught.value)
    assert "expected: whole tiles of one dtype, shape and layout" in str(caught.value)


def test_other_blocks_exist_on_some_targets_only() -> None:
    for place in (INTERPRETER, SM_80, CPU):
        with pytest.raises(TileUnsupportedError):
            compiled(exchanged(), place)(*(np.zeros((8, 64, 64), np.float16),) * 2)


def test_blocks_that_are_not_there_get_nothing() -> None:
    with pytest.raises(TileValueError) as caught:
        compiled(shared_tiles(0b100), SM_90A)
    assert str(caught.value).splitlines()[:4] == [
        "T.copy_cluster names blocks that the cluster does not have",
        "  expected: a kernel with cluster_dims=..., and bits of cluster_mask for its blocks",
        "  got: cluster_mask=0b100, and 2 blocks in a cluster",
        "  hint: write T.ClusterKernel(..., cluster_dims=(2, 1, 1))",
    ]


def misused(what: str):
    @T.prim_func
    def cluster_misused(A: F16[64, 64]):
        with T.ClusterKernel(2, cluster_dims=(2, 1, 1), threads=128):
            s = T.alloc_shared((64, 64), "float16")
            r = T.alloc_shared((64, 64), "float16")
            if what == "no blocks":
                T.copy_cluster(A, s)
            else:
                T.copy_cluster(s, r, dst_block=1)

    return cluster_misused


@pytest.mark.parametrize(
    ("what", "text"),
    [
        (
            "no blocks",
            "T.copy_cluster does not name the blocks to copy to\n"
            "  expected: cluster_mask= for a load from global memory, dst_block= for a tile of "
            "shared memory\n"
            "  got: cluster_mask=None, dst_block=None\n",
        ),
        (
            "no barrier",
            "T.copy_cluster to another block has no barrier\n"
            "  expected: remote_barrier=bar[i] with bar = T.alloc_barrier(...), at which that block "
            "waits\n"
            "  got: none\n",
        ),
    ],
)
def test_what_a_copy_for_a_cluster_has_to_say(what: str, text: str) -> None:
    assert refusal(TileValueError, misused, what).startswith(text)


def test_reports_say_which_blocks_share_a_load() -> None:
    line = "copy: TMA, loaded once for blocks 0b11 of the cluster"
    assert notes(shared_tiles(0b11))[0] == line


@pytest.mark.skipif(find_nvrtc() is None and find_nvcc() is None, reason="needs NVRTC or nvcc")
@pytest.mark.parametrize("func", [shared_tiles(0b1011, 4), exchanged()])
def test_the_assembler_accepts_them(func) -> None:
    source = compiled(func, SM_90A).get_kernel_source()
    assert compile_cubin(source, "sm_90a").cubin[:4] == b"\x7fELF"
