"""Programs that are written in the intrinsics of single instructions: copies by tensor maps, barriers in
shared memory, products of warpgroups. Compiled everywhere, run where there is such a GPU."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from tensor_types import F16, F32, U32

import tilelang.language as T
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType

STAGES = 3


def map_of(tensor, kind, rows, columns, box_rows, box_columns, swizzle=3):
    """A tensor map of a row-major matrix of 16-bit (6, 9), 32-bit (7) or 8-bit (0) elements."""
    size = {0: 1, 6: 2, 9: 2, 7: 4}[kind]
    return T.create_tma_descriptor(
        kind, 2, tensor, columns, rows, size, columns * size, box_columns, box_rows, 1, 1,
        0, swizzle, 2, 0,
    )  # fmt: skip


def gemm(M, N, K):
    """C = A @ B.T in float16: one warpgroup loads, two multiply 64 x 128 each."""
    bytes_of_stage = (128 + 128) * 64 * 2

    @T.prim_func
    def ptx_gemm(A: F16[M, K], B: F16[N, K], C: F16[M, N]):
        with T.Kernel(N // 128, M // 128, threads=384) as (bx, by):
            tx = T.get_thread_binding()
            A_map = map_of(A, 6, M, K, 128, 64)
            B_map = map_of(B, 6, N, K, 128, 64)
            A_tile = T.alloc_shared((STAGES, 128, 64), "float16")
            B_tile = T.alloc_shared((STAGES, 128, 64), "float16")
            full = T.alloc_barrier([1] * STAGES)
            empty = T.alloc_barrier([2] * STAGES)
            if tx >= 256:
                T.dec_max_nreg(40)
                if tx == 256:
                    for k in T.serial(K // 64):
                        stage = k % STAGES
                        T.mbarrier_wait_parity(empty[stage], (k // STAGES) & 1 ^ 1)
                        T.mbarrier_arrive_expect_tx(full[stage], bytes_of_stage)
                        T.tma_load(A_map, full[stage], A_tile[stage, 0, 0], k * 64, by * 128)
                        T.tma_load(B_map, full[stage], B_tile[stage, 0, 0], k * 64, bx * 128)
            else:
                T.inc_max_nreg(232)
                group = tx // 128
                acc = T.alloc_local((64,), "float32")
                A_desc = T.alloc_wgmma_desc()
                B_desc = T.alloc_wgmma_desc()
                T.initialize_wgmma_descriptor(
                    A_desc, T.access_ptr(A_tile[0, group * 64, 0], "r"), 1, 1, 64
                )
                T.initialize_wgmma_descriptor(B_desc, T.access_ptr(B_tile, "r"), 1, 1, 64)
                for k in T.serial(K // 64):
                    stage = k % STAGES
                    T.mbarrier_wait_parity(full[stage], (k // STAGES) & 1)
                    T.warpgroup_fence_operand(acc)
                    T.warpgroup_arrive()
                    for i in T.unroll(4):
                        T.ptx_wgmma_ss(
                            "float32", "m64n128k16", True, True, "fp16", "fp16", "fp32",
                            A_desc, stage * 1024 + i * 2, B_desc, stage * 1024 + i * 2, acc, 0,
                            k + i > 0, 1, 1,
                        )  # fmt: skip
                    T.warpgroup_commit_batch()
                    T.warpgroup_wait(0)
                    T.warpgroup_fence_operand(acc)
                    if tx % 128 == 0:
                        T.mbarrier_arrive(empty[stage])
                row = by * 128 + tx // 32 * 16 + tx % 32 // 4
                column = bx * 128 + tx % 4 * 2
                for i in T.unroll(16):
                    for half in T.unroll(2):
                        for j in T.vectorized(2):
                            C[row + half * 8, column + i * 8 + j] = acc[i * 4 + half * 2 + j]

    return ptx_gemm


def persistent(M, N, K, blocks=132, stages=4):
    """C = A @ B.T in float16 as one writes it for speed: tiles of 128 x 256 that a block takes one
    after the other, results by way of shared memory and bulk stores of each warp."""
    across, tiles, steps = N // 256, M // 128 * (N // 256), K // 64
    grid = min(blocks, tiles)

    @T.prim_func
    def words_persistent(A: F16[M, K], B: F16[N, K], C: F16[M, N]):
        with T.Kernel(grid, threads=384) as bx:
            tx = T.get_thread_binding()
            A_map = map_of(A, 6, M, K, 128, 64)
            B_map = map_of(B, 6, N, K, 256, 64)
            C_map = map_of(C, 6, M, N, 16, 64)
            A_tile = T.alloc_shared((stages, 128, 64), "float16")
            B_tile = T.alloc_shared((stages, 256, 64), "float16")
            out = T.alloc_shared((8, 2, 16, 64), "float16")
            full = T.alloc_barrier([1] * stages)
            empty = T.alloc_barrier([2] * stages)
            rounds = T.ceildiv(tiles - bx, grid)
            if tx >= 256:
                T.dec_max_nreg(40)
                if tx == 256:
                    for t in T.serial(rounds):
                        row = (bx + t * grid) // across * 128
                        column = (bx + t * grid) % across * 256
                        for k in T.serial(steps):
                            turn = t * steps + k
                            stage = turn % stages
                            T.mbarrier_wait_parity(empty[stage], turn // stages & 1 ^ 1)
                            T.mbarrier_arrive_expect_tx(full[stage], 384 * 64 * 2)
                            T.tma_load(A_map, full[stage], A_tile[stage, 0, 0], k * 64, row)
                            T.tma_load(B_map, full[stage], B_tile[stage, 0, 0], k * 64, column)
            else:
                T.inc_max_nreg(232)
                warp = tx // 32
                lane = tx % 32
                acc = T.alloc_local((128,), "float32")
                half = T.alloc_local((8,), "float16")
                A_desc = T.alloc_wgmma_desc()
                B_desc = T.alloc_wgmma_desc()
                T.initialize_wgmma_descriptor(
                    A_desc, T.access_ptr(A_tile[0, tx // 128 * 64, 0], "r"), 1, 1, 64
                )
                T.initialize_wgmma_descriptor(B_desc, T.access_ptr(B_tile, "r"), 1, 1, 64)
                for t in T.serial(rounds):
                    row = (bx + t * grid) // across * 128 + warp * 16
                    column = (bx + t * grid) % across * 256
                    for k in T.serial(steps):
                        turn = t * steps + k
                        stage = turn % stages
                        T.mbarrier_wait_parity(full[stage], turn // stages & 1)
                        T.warpgroup_arrive()
                        for i in T.unroll(4):
                            T.ptx_wgmma_ss(
                                "float32", "m64n256k16", True, True, "fp16", "fp16", "fp32",
                                A_desc, stage * 1024 + i * 2, B_desc, stage * 2048 + i * 2, acc, 0,
                                k + i > 0, 1, 1,
                            )  # fmt: skip
                        T.warpgroup_commit_batch()
                        T.warpgroup_wait(1)
                        if tx % 128 == 0:
                            if k > 0:
                                T.mbarrier_arrive(empty[(turn - 1) % stages])
                    T.warpgroup_wait(0)
                    T.warpgroup_fence_operand(acc)
                    if tx % 128 == 0:
                        T.mbarrier_arrive(empty[(t * steps + steps - 1) % stages])
                    for c in T.unroll(4):
                        if lane == 0:
                            T.tma_store_wait(1)
                        T.sync_warp()
                        for i in T.unroll(4):
                            for e in T.unroll(8):
                                half[e] = acc[c * 32 + i * 8 + e]
                            T.ptx_stmatrix(
                                False, 4, out[warp, c % 2, 0, 0],
                                lane % 16 * 64 + ((i * 2 + lane // 16) ^ (lane % 8)) * 8, half, 0,
                            )  # fmt: skip
                        T.fence_proxy_async()
                        T.sync_warp()
                        if lane == 0:
                            T.tma_store(C_map, out[warp, c % 2, 0, 0], column + c * 64, row)
                            T.tma_store_arrive()
                if lane == 0:
                    T.tma_store_wait(0, False)

    return words_persistent


# What a product of each kind is made of: element type, its number in tensor maps, name in the
# instruction, depth of one instruction, accumulator.
KINDS = {
    "float16": (6, "fp16", 16, "float32"),
    "bfloat16": (9, "bf16", 16, "float32"),
    "float32": (7, "tf32", 8, "float32"),
    "float8_e4m3fn": (0, "e4m3", 32, "float32"),
    "float8_e5m2": (0, "e5m2", 32, "float32"),
    "int8": (0, "int8", 32, "int32"),
}
BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float8_e4m3fn": 1, "float8_e5m2": 1, "int8": 1}


@T.macro
def loaded(tile, tensor_map, bar: T.Ref, size):
    """Let one thread bring a box to `tile`, and wait for it."""
    if T.get_thread_binding() == 0:
        T.mbarrier_arrive_expect_tx(bar, size)
        T.tma_load(tensor_map, bar, tile, 0, 0)
    T.mbarrier_wait_parity(bar, 0)


@T.macro
def written(C, acc, columns):
    """Store the accumulator of a warpgroup, 64 rows."""
    tx = T.get_thread_binding()
    row = tx // 32 * 16 + tx % 32 // 4
    column = tx % 4 * 2
    for i in T.unroll(columns // 8):
        for half in T.unroll(2):
            for j in T.unroll(2):
                C[row + half * 8, column + i * 8 + j] = acc[i * 4 + half * 2 + j]


def product(kind):
    """C = A @ B.T of 64 x 64, 128 bytes deep, from shared memory."""
    number, short, step, total = KINDS[kind]
    depth = 128 // BYTES[kind]

    @T.prim_func
    def words_product(
        A: T.Tensor((64, depth), kind), B: T.Tensor((64, depth), kind), C: T.Tensor((64, 64), total)
    ):
        with T.Kernel(1, threads=128):
            A_tile = T.alloc_shared((64, depth), kind)
            B_tile = T.alloc_shared((64, depth), kind)
            bars = T.alloc_barrier([1, 1])
            acc = T.alloc_local((32,), total)
            A_desc = T.alloc_wgmma_desc()
            B_desc = T.alloc_wgmma_desc()
            loaded(A_tile, map_of(A, number, 64, depth, 64, depth), bars[0], 8192)
            loaded(B_tile, map_of(B, number, 64, depth, 64, depth), bars[1], 8192)
            T.initialize_wgmma_descriptor(A_desc, T.access_ptr(A_tile, "r"), 1, 1, 64)
            T.initialize_wgmma_descriptor(B_desc, T.access_ptr(B_tile, "r"), 1, 1, 64)
            T.warpgroup_arrive()
            for i in T.unroll(4):
                T.ptx_wgmma_ss(
                    total, f"m64n64k{step}", True, True, short, short, total, A_desc.data, 0,
                    B_desc.data, 0, acc.data, 0, i > 0, 1, 1,
                )  # fmt: skip
                T.increase_descriptor_offset(A_desc, 32)
                T.increase_descriptor_offset(B_desc, 32)
            T.warpgroup_commit_batch()
            T.wait_wgmma(0)
            T.warpgroup_fence_operand(acc)
            written(C, acc, 64)

    return words_product


def from_registers(kind):
    """C = A @ B with A in registers and B in its layout, 64 x 64 x 64; kind float16 or bfloat16."""
    number, short, _, _ = KINDS[kind]

    @T.prim_func
    def words_registers(A: T.Tensor((64, 64), kind), B: T.Tensor((64, 64), kind), C: F32[64, 64]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            B_tile = T.alloc_shared((64, 64), kind)
            bars = T.alloc_barrier([1])
            acc = T.alloc_local((32,), "float32")
            own = T.alloc_local((32,), kind)
            B_desc = T.alloc_wgmma_desc()
            loaded(B_tile, map_of(B, number, 64, 64, 64, 64), bars[0], 8192)
            for i in T.unroll(4):
                for r in T.unroll(4):
                    for j in T.unroll(2):
                        own[i * 8 + r * 2 + j] = A[
                            tx // 32 * 16 + tx % 32 // 4 + r % 2 * 8,
                            i * 16 + r // 2 * 8 + tx % 4 * 2 + j,
                        ]
            T.initialize_wgmma_descriptor(B_desc, T.access_ptr(B_tile, "r"), 1, 1, 64)
            T.warpgroup_fence_operand(own)
            T.warpgroup_arrive()
            for i in T.unroll(4):
                T.ptx_wgmma_rs(
                    "float32", "m64n64k16", False, short, short, "fp32", own, i * 8,
                    B_desc, i * 128, acc, 0, i > 0, 1, 1,
                )  # fmt: skip
            T.warpgroup_commit_batch()
            T.warpgroup_wait(0)
            T.warpgroup_fence_operand(acc)
            written(C, acc, 64)

    return words_registers


def boxes():
    """Boxes of three dimensions to shared memory and back, added, over the edge of the tensor."""

    @T.prim_func
    def words_boxes(A: F32[5, 12, 40], B: F32[5, 12, 40]):
        with T.Kernel(2, 2, 3, threads=32) as (bx, by, bz):
            tile = T.alloc_shared((2, 8, 32), "float32")
            bar = T.alloc_barrier([1])
            A_map = T.create_tma_descriptor(
                7, 3, A, 40, 12, 5, 4, 160, 1920, 32, 8, 2, 1, 1, 1, 0, 0, 0, 0
            )
            B_map = T.create_tma_descriptor(
                7, 3, B, 40, 12, 5, 4, 160, 1920, 32, 8, 2, 1, 1, 1, 0, 0, 0, 0
            )
            if T.get_thread_binding() == 0:
                T.prefetch_tma_descriptor(A_map)
                T.mbarrier_arrive_expect_tx(bar, 2048)
                T.tma_load(A_map, bar, tile, bx * 32, by * 8, bz * 2, eviction_policy="evict_first")
            T.mbarrier_wait_parity(bar, 0)
            if T.get_thread_binding() == 0:
                T.tma_store(B_map, tile, bx * 32, by * 8, bz * 2, reduce="add")
                T.tma_store_arrive()
                T.tma_store_wait(0, False)

    return words_boxes


def image():
    """The pixels of 3 x 3 windows of an image with a border of zeros, by im2col loads."""

    @T.prim_func
    def words_image(A: F32[2, 4, 4, 8], B: F32[9, 32, 8]):
        with T.Kernel(9, threads=32) as bx:
            tx = T.get_thread_binding()
            tile = T.alloc_shared((32, 8), "float32")
            bar = T.alloc_barrier([1])
            A_map = T.create_tma_im2col_descriptor(
                7, 4, A, 8, 4, 4, 2, 4, 32, 128, 512, 1, 1, 1, 1, -1, -1, -1, -1, 32, 8, 0, 0, 0, 0
            )
            if tx == 0:
                T.mbarrier_arrive_expect_tx(bar, 1024)
                T.tma_load_im2col(A_map, bar, tile, 0, -1, -1, 0, bx % 3, bx // 3)
            T.mbarrier_wait_parity(bar, 0)
            for c in T.serial(8):
                B[bx, tx, c] = tile[tx, c]

    return words_image


def cluster():
    """Each block of a pair loads half a tile for both; then each reads a row of the other."""

    @T.prim_func
    def words_cluster(A: F16[4, 32, 64], B: F16[4, 32, 64], C: F32[4, 64]):
        with T.ClusterKernel(4, cluster_dims=(2, 1, 1), threads=64) as bx:
            tx = T.get_thread_binding()
            tile = T.alloc_shared((32, 64), "float16")
            own = T.alloc_shared((64,), "float32")
            bar = T.alloc_cluster_barrier([1])
            done = T.alloc_cluster_barrier([2])
            rank = T.block_rank_in_cluster()
            A_map = T.create_tma_descriptor(
                6, 3, A, 64, 32, 4, 2, 128, 4096, 64, 16, 1, 1, 1, 1, 0, 0, 0, 0
            )
            T.cluster_sync()
            if tx == 0:
                T.mbarrier_arrive_expect_tx(bar, 4096)
                T.tma_load_multicast(A_map, bar, tile[rank * 16, 0], 3, 0, rank * 16, bx // 2 * 2)
            T.mbarrier_wait_parity(bar, 0)
            for i in T.serial(32):
                B[bx, i, tx] = tile[i, tx]
            own[tx] = T.cast(tx + 100 * bx, "float32")
            T.cluster_sync()
            other = T.make_tensor(T.map_shared_rank(own[0], rank ^ 1), (64,), "float32")
            C[bx, tx] = other[tx]
            if tx < 2:
                T.ptx_arrive_cluster_barrier(done, tx)
            T.mbarrier_wait_parity(done, 0)
            T.cluster_arrive()
            T.cluster_wait()

    return words_cluster


def matrices():
    """16 x 16 transposed by ldmatrix and stmatrix; sparse and sm_70 products of one warp."""

    @T.prim_func
    def words_matrices(
        A: F16[16, 16], B: F16[16, 16], W: F16[16, 16], X: F16[32, 8], E: U32[8], Y: F32[16, 8],
    ):  # fmt: skip
        with T.Kernel(1, threads=32):
            tx = T.get_thread_binding()
            tile = T.alloc_shared((16, 16), "float16")
            turned = T.alloc_shared((16, 16), "float16")
            regs = T.alloc_local((8,), "float16")
            for i in T.serial(8):
                tile[tx // 2, tx % 2 * 8 + i] = A[tx // 2, tx % 2 * 8 + i]
            T.sync_threads()
            T.ptx_ldmatrix("float16", True, 4, ".b16", regs, 0, tile, tx % 16 * 16 + tx // 16 * 8)
            T.ptx_stmatrix(
                False, 4, turned, (tx % 8 + tx // 16 * 8) * 16 + tx // 8 % 2 * 8, regs, 0
            )
            T.sync_threads()
            for i in T.serial(8):
                B[tx // 2, tx % 2 * 8 + i] = turned[tx // 2, tx % 2 * 8 + i]
            left = T.alloc_local((8,), "float16")
            right = T.alloc_local((8,), "float16")
            acc = T.alloc_local((4,), "float32")
            meta = T.alloc_local((1,), "uint32")
            meta[0] = E[tx // 4]
            for i in T.unroll(4):
                acc[i] = 0.0
                for j in T.unroll(2):
                    left[i * 2 + j] = W[tx // 4 + i % 2 * 8, i // 2 * 8 + tx % 4 * 2 + j]
                    right[i * 2 + j] = X[i * 8 + tx % 4 * 2 + j, tx // 4]
            T.ptx_mma_sp(
                "float32", "m16n8k32", "row", "col", "fp16", "fp16", "fp32", left, 0, right, 0,
                acc, 0, meta, 0, 0, False,
            )  # fmt: skip
            for i in T.unroll(2):
                for j in T.unroll(2):
                    Y[tx // 4 + i * 8, tx % 4 * 2 + j] = acc[i * 2 + j]

    return words_matrices


def tensor_memory():
    """C = A @ B.T of 128 x 64 x 64 into tensor memory, and from there through registers."""
    instruction = 1 << 4 | 64 // 8 << 17 | 128 // 16 << 24  # float32 += float16 x float16

    @T.prim_func
    def words_tensor_memory(A: F16[128, 64], B: F16[64, 64], C: F32[128, 64]):
        with T.Kernel(1, threads=128):
            tx = T.get_thread_binding()
            A_tile = T.alloc_shared((128, 64), "float16")
            B_tile = T.alloc_shared((64, 64), "float16")
            acc = T.alloc_tmem((128, 64), "float32")
            bars = T.alloc_barrier([1, 1, 1])
            A_desc = T.alloc_tcgen05_smem_desc()
            B_desc = T.alloc_tcgen05_smem_desc()
            regs = T.alloc_local((64,), "float32")
            loaded(A_tile, map_of(A, 6, 128, 64, 128, 64), bars[0], 16384)
            loaded(B_tile, map_of(B, 6, 64, 64, 64, 64), bars[1], 8192)
            T.initialize_tcgen05_descriptor(A_desc, T.access_ptr(A_tile, "r"), 1, 64, 0, False, 2)
            T.initialize_tcgen05_descriptor(B_desc, T.access_ptr(B_tile, "r"), 1, 64, 0, False, 2)
            if tx == 0:
                for i in T.unroll(4):
                    T.ptx_tcgen05_mma_ss(
                        "fp16", A_desc, i * 2, B_desc, i * 2, acc, 0, instruction, i > 0
                    )
                T.tcgen05_mma_arrive(bars[2])
            T.mbarrier_wait_parity(bars[2], 0)
            T.tcgen05_after_thread_sync()
            for i in T.unroll(2):
                T.tcgen05_ld(regs[i * 32], acc[tx // 32 * 32, i * 32], "32x32b", 32)
            T.tcgen05_wait_ld()
            for i in T.unroll(64):
                C[tx, i] = regs[i]

    return words_tensor_memory


# -- data and what has to come out -------------------------------------------------------------------
@dataclass(frozen=True)
class Entry:
    """A program with its arguments.

    Attributes:
        make: the program.
        data: its arguments from a random generator, as values, with their dtypes; results last.
        expected: what they are afterwards, from the arguments.
        tolerance: relative to the largest value.
        arch: what it is for.
    """

    make: Callable[[], Any]
    data: Callable[[Any], list[tuple[Any, str]]]
    expected: Callable[..., Any]
    tolerance: float = 0.0
    arch: str = "sm_90a"


def _matrices_of(kind, *shapes):
    """Random operands and an empty result."""

    def data(rng):
        found = []
        for shape in shapes[:-1]:
            values = rng.standard_normal(shape)
            found.append((np.rint(values * 20) if kind == "int8" else values, kind))
        return [*found, (np.zeros(shapes[-1]), result)]

    result = {"int8": "int32", "half": "float16"}.get(kind, "float32")
    kind = "float16" if kind == "half" else kind
    return data


def _image_data(rng):
    image = rng.standard_normal((2, 4, 4, 8))
    return [(image, "float32"), (np.zeros((9, 32, 8)), "float32")]


def _windows(image, _):
    """The 9 shifted images, pixels in rows."""
    padded = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
    shifts = [(k // 3, k % 3) for k in range(9)]
    return np.stack([padded[:, y : y + 4, x : x + 4].reshape(32, 8) for y, x in shifts])


def _cluster_data(rng):
    tiles = rng.standard_normal((4, 32, 64))
    return [(tiles, "float16"), (np.zeros_like(tiles), "float16"), (np.zeros((4, 64)), "float32")]


def _exchanged(tiles, *_):
    rows = np.arange(64) + 100.0 * (np.arange(4) ^ 1)[:, None]
    return tiles[[0, 0, 2, 2]], rows


_PAIRS = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))  # places of two values among four


def _sparse_data(rng):
    square, weights = rng.standard_normal((16, 16)), rng.standard_normal((16, 16))
    chosen = rng.integers(0, 6, (16, 4))
    bits = [
        sum((_PAIRS[pair][0] | _PAIRS[pair][1] << 2) << 4 * q for q, pair in enumerate(row))
        for row in chosen
    ]
    meta = np.array([bits[g] | bits[g + 8] << 16 for g in range(8)], np.float64)
    return [
        (square, "float16"), (np.zeros((16, 16)), "float16"), (weights, "float16"),
        (rng.standard_normal((32, 8)), "float16"), (meta, "uint32"),
        (np.zeros((16, 8)), "float32"),
    ]  # fmt: skip


def _sparse(square, _, weights, X, meta, __):
    """The transposed square, and the product with the weights spread out."""
    dense = np.zeros((16, 32))
    for row in range(16):
        code = int(meta[row % 8]) >> (16 if row >= 8 else 0)
        for q in range(8):
            for e in range(2):
                place = code >> (4 * (q % 4) + 2 * e) & 3
                dense[row, 4 * q + place] = weights[row, 2 * q + e]
    return square.T, dense @ X


def _product(a, b, _):
    return a @ b.T


PROGRAMS = {
    "gemm": Entry(
        lambda: gemm(256, 256, 256), _matrices_of("half", (256, 256), (256, 256), (256, 256)),
        _product, 2e-3,
    ),
    "persistent": Entry(
        lambda: persistent(256, 512, 256, blocks=3),
        _matrices_of("half", (256, 256), (512, 256), (256, 512)), _product, 2e-3,
    ),
    **{
        f"product_{kind}": Entry(
            lambda kind=kind: product(kind),
            _matrices_of(kind, (64, 128 // BYTES[kind]), (64, 128 // BYTES[kind]), (64, 64)),
            _product,
            # fp8 products are added with 13 bits after the point of the largest one.
            {"float32": 3e-3, "int8": 0.0}.get(kind, 1e-3 if "float8" in kind else 1e-5),
        )
        for kind in KINDS
    },
    **{
        f"registers_{kind}": Entry(
            lambda kind=kind: from_registers(kind), _matrices_of(kind, *[(64, 64)] * 3),
            lambda a, b, _: a @ b, 1e-5,
        )
        for kind in ("float16", "bfloat16")
    },
    "boxes": Entry(
        boxes, lambda rng: [(rng.standard_normal((5, 12, 40)), "float32") for _ in range(2)],
        lambda a, b: a + b, 1e-6,
    ),
    "image": Entry(image, _image_data, _windows),
    "cluster": Entry(cluster, _cluster_data, _exchanged),
    "tensor_memory": Entry(
        tensor_memory, _matrices_of("float16", (128, 64), (64, 64), (128, 64)), _product, 1e-5,
        "sm_100a",
    ),
    "matrices": Entry(matrices, _sparse_data, _sparse, 1e-5),
}  # fmt: skip


def arguments(entry, seed=0):
    """Storage arrays of the arguments, their dtypes, and the exact values in them."""
    stored, kinds, values = [], [], []
    for value, kind in entry.data(np.random.default_rng(seed)):
        dtype = DType(kind)
        if dtype.is_integer:
            raw, exact = value.astype(dtype.as_numpy()), value
        else:
            raw = np.array(floats.to_storage(value.astype(np.float32), dtype))
            exact = floats.from_storage(raw, dtype).astype(np.float64)
        stored.append(np.ascontiguousarray(raw))
        kinds.append(kind)
        values.append(exact)
    return stored, kinds, values


def wrong(entry, found, kinds, values):
    """What differs from what has to come out, as text; "" if nothing does."""
    wanted = entry.expected(*values)
    wanted = list(wanted) if isinstance(wanted, tuple) else [wanted]
    results = [k for k, value in enumerate(values) if not np.any(value)]
    results = results if len(results) == len(wanted) else [len(values) - 1]
    for k, expected in zip(results, wanted):
        dtype = DType(kinds[k])
        exact = found[k] if dtype.is_integer else floats.from_storage(found[k], dtype)
        error = np.max(np.abs(exact.astype(np.float64) - expected))
        if not error <= entry.tolerance * np.max(np.abs(expected)):
            return f"argument {k}: error {error} of {np.max(np.abs(expected))}"
    return ""
