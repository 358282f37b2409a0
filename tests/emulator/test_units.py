"""Atomics, assertions, bulk copies, warpgroup products and tensor memory as kernels use them."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from tests.emulator import machine

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))
from agreement_cases import place_bytes

Array = npt.NDArray[np.generic]


def clean(result: machine.Result) -> None:
    assert result.code == 0 and not result.findings, result.texts()


# -- atomics ---------------------------------------------------------------------------------------
ADDS = r"""
#include "tl_atomic.h"
extern "C" __global__ void add(float* f, int* i, uint16_t* h, uint16_t* b, double* d, uint64_t* u) {
    __shared__ float s[1];
    if (threadIdx.x == 0) s[0] = 0.0f;
    __syncthreads();
    tl_atomic_add_f32(s, 1.0f);
    tl_atomic_add_f32(f, 0.5f);
    tl_atomic_max_i32(i, (int)threadIdx.x - 5);
    tl_atomic_addx2_values_f16(h, 1.0f, 2.0f);
    tl_atomic_add_bf16(b, 1.0f);
    tl_atomic_min_f64(d, -(double)threadIdx.x);
    tl_atomic_xor_u64(u, 1ull << threadIdx.x % 64);
    __syncthreads();
    if (threadIdx.x == 0 && blockIdx.x == 0) tl_atomic_add_f32(f + 1, s[0]);
}
"""


def test_atomics_of_many_threads_lose_nothing() -> None:
    f, i, d = np.zeros(2, np.float32), np.full(1, -99, np.int32), np.zeros(1)
    h, b, u = np.zeros(2, np.uint16), np.zeros(1, np.uint16), np.zeros(1, np.uint64)
    clean(machine.launch(ADDS, "add", [f, i, h, b, d, u], grid=(4,), block=(64,)))
    assert f.tolist() == [128.0, 64.0] and i[0] == 58 and d[0] == -63.0 and u[0] == 0
    assert h.view(np.float16).tolist() == [256.0, 512.0]
    assert (b.astype(np.uint32) << 16).view(np.float32)[0] == 256.0


FLAG = r"""
#include "tl_atomic.h"
extern "C" __global__ void flag(int* data, int* ready, int* out) {
    if (blockIdx.x == 1) {
        data[0] = 42;
        tl_atomic_store_i32(ready, 1, TL_RELEASE);
    } else {
        while (tl_atomic_load_i32(ready, TL_ACQUIRE) == 0) {}
        out[0] = data[0];
    }
}
"""


@pytest.mark.parametrize("weaker", [False, True])
def test_release_and_acquire_order_other_memory(weaker: bool) -> None:
    source = FLAG.replace(", TL_RELEASE", "") if weaker else FLAG
    arrays = [np.zeros(1, np.int32) for _ in range(3)]
    result = machine.launch(source, "flag", arrays, grid=(2,), block=(1,), cooperative=1)
    assert arrays[2][0] == 42
    assert bool({"write-read", "read-write"} & result.kinds) == weaker, result.texts()


ORDERS = r"""
#include "tl_atomic.h"
extern "C" __global__ void values(float* x, float* out) {
    out[0] = tl_atomic_max_f32(x, 2.0f);
    out[1] = tl_atomic_exch_f32(x, -0.0f);
    out[2] = tl_atomic_add_f32(x + 1, 1e-40f);
    __shared__ float s[1];
    s[0] = 0.0f;
    tl_atomic_add_f32(s, 1e-40f);
    out[3] = s[0];
    out[4] = tl_atomic_min_f32(x + 2, 3.0f);
}
"""


def test_atomics_give_old_values_and_flush_only_in_global_memory() -> None:
    x, out = np.float32([1, 0, np.nan]), np.zeros(5, np.float32)
    clean(machine.launch(ORDERS, "values", [x, out], block=(1,)))
    np.testing.assert_array_equal(out, np.float32([1, 2, 0, 1e-40, np.nan]))
    np.testing.assert_array_equal(x, np.float32([-0.0, 0, 3]))


NIBBLES = r"""
#include "tl_float.h"
extern "C" __global__ void nibbles(uint8_t* out) {
    __shared__ uint8_t s[32];
    tl_store_shared_e2m1fn(s, threadIdx.x, (float)(threadIdx.x % 5));
    __syncthreads();
    if (threadIdx.x < 32) out[threadIdx.x] = s[threadIdx.x];
}
"""


@pytest.mark.parametrize("schedule", [machine.FIFO, machine.RANDOM])
def test_neighbouring_nibbles_are_stored_by_different_threads(schedule: int) -> None:
    out = np.zeros(32, np.uint8)
    result = machine.launch(NIBBLES, "nibbles", [out], block=(64,), schedule=schedule)
    assert result.kinds <= {"uninitialised"}, result.texts()
    codes = np.array([0, 2, 4, 5, 6])[np.arange(64) % 5]
    np.testing.assert_array_equal(out, codes[0::2] | codes[1::2] << 4)


ASSERT = r"""
#include "tl_print.h"
extern "C" __global__ void check(int* x) { tl_assert(x[threadIdx.x] < 7, "x is too large"); }
"""


def test_failed_assertion_is_a_finding_and_a_line(capfd: pytest.CaptureFixture[str]) -> None:
    result = machine.launch(ASSERT, "check", [np.arange(32, dtype=np.int32)], grid=(1,))
    assert result.texts()[0] == "trap: x is too large" and result.code == 1
    assert "x is too large (block 0, 0, 0, thread 7, 0, 0)" in capfd.readouterr().out


# -- bulk copies -----------------------------------------------------------------------------------
CLUSTER = r"""
#include "tl_memory.h"
#include "tl_sync.h"
#include "tl_tma.h"
extern "C" __global__ void share(const uint8_t* in, uint8_t* out) {
    extern __shared__ __align__(1024) unsigned char smem[];
    uint64_t* bar = (uint64_t*)(smem + 512);
    const int rank = tl_block_rank_in_cluster();
    if (threadIdx.x == 0) {
        tl_mbarrier_init(bar, 1u);
        tl_mbarrier_init(bar + 1, 1u);
        tl_fence_barrier_init();
        tl_mbarrier_arrive_expect_tx(bar, 256u);
        tl_mbarrier_arrive_expect_tx(bar + 1, 128u);
    }
    tl_cluster_sync();
    if (threadIdx.x == 0) {
        // Each block brings half of what both read, then hands its part to the other.
        tl_bulk_load_multicast(smem + 128 * rank, in + 128 * rank, 128u, bar, 3u);
        tl_mbarrier_wait(bar, 0u);
        tl_bulk_copy_cluster(smem + 256, smem + 128 * rank, 128u, bar + 1, 1 - rank);
        tl_mbarrier_wait(bar + 1, 0u);
        tl_bulk_store(out + 512 * rank, smem, 384u);
        tl_bulk_reduce_add_i32(out + 512 * rank + 384, smem, 64u);
        tl_bulk_commit();
        tl_bulk_wait<0>();
    }
    tl_cluster_sync();
}
"""


@pytest.mark.parametrize("schedule", range(4))
def test_blocks_of_a_cluster_share_copies(schedule: int) -> None:
    data, out = np.arange(256, dtype=np.uint8), np.zeros(1024, np.uint8)
    clean(
        machine.launch(
            CLUSTER, "share", [data, out], grid=(2,), cluster=(2,), shared=1024, schedule=schedule
        )
    )
    for rank in (0, 1):
        found = out[512 * rank : 512 * rank + 512]
        np.testing.assert_array_equal(found[:256], data)
        np.testing.assert_array_equal(found[256:384], data[128 * (1 - rank) :][:128])
        np.testing.assert_array_equal(found[384:448], data[:64])


def test_wrong_operands_of_copies_are_findings() -> None:
    source = CLUSTER.replace("in + 128 * rank", "in + 128 * rank + 4")
    data, out = np.arange(512, dtype=np.uint8), np.zeros(1024, np.uint8)
    result = machine.launch(source, "share", [data, out], grid=(2,), cluster=(2,), shared=1024)
    assert result.code and any("has to be aligned to 16 bytes" in text for text in result.texts())
    text = (
        '#include "tl_tma.h"\nextern "C" __global__ void bad(const __grid_constant__ tl_tensor_map m) '
        "{ extern __shared__ unsigned char s[]; tl_tma_load(s, &m, (uint64_t*)(s + 512), 0, 0); }"
    )
    result = machine.launch(text, "bad", [(ctypes.c_uint64 * 16)()], block=(1,), shared=1024)
    assert result.texts() == ["descriptor: these bytes are no tensor map"]


# -- products of a warpgroup -----------------------------------------------------------------------
WGMMA = r"""
#include "tl_memory.h"
#include "tl_sync.h"
#include "tl_wgmma.h"
TL_WGMMA(16, 16, f16, f16, f32, 8)
extern "C" __global__ void chain(const uint4* image, const uint32_t* a, float* out, int steps) {
    extern __shared__ __align__(1024) unsigned char smem[];
    for (int i = threadIdx.x; i < 512; i += 128) ((uint4*)smem)[i] = image[i];
    tl_fence_proxy_async();
    __syncthreads();
    float d[8];
    uint32_t left[4];
    for (int q = 0; q < 4; ++q) left[q] = a[threadIdx.x * 4 + q];
    uint64_t b;
    tl_wgmma_descriptor(&b, smem, 3, 1, 16);
    tl_wgmma_fence();
    for (int k = 0; k < steps; ++k) {
        tl_wgmma_m64n16k16_f16_f16_f32_rs<0, 1, 1>(d, left, b, k > 0);
        tl_wgmma_commit();
    }
    tl_wgmma_wait<0>();
    for (int q = 0; q < 8; ++q) out[threadIdx.x * 8 + q] = d[q];
}
"""


def chain_operands() -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((64, 16), (16, 16)))
    image = np.zeros(8192, np.uint8)
    place_bytes(image, 0, b.view(np.uint16), 32)
    thread, slot = np.arange(128)[:, None], np.arange(8)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + slot // 2 % 2 * 8
    held = np.ascontiguousarray(a[row, slot // 4 * 8 + thread % 4 * 2 + slot % 2])
    return image, held.view(np.uint32), a.astype(np.float64) @ b.T.astype(np.float64)


@pytest.mark.parametrize("schedule", range(4))
def test_products_are_added_in_their_order(schedule: int) -> None:
    image, registers, product = chain_operands()
    out = np.zeros((128, 8), np.float32)
    args = [image, registers, out, ctypes.c_int(5)]
    clean(
        machine.launch(WGMMA, "chain", args, block=(128,), shared=8192, schedule=schedule, seed=7)
    )
    whole = np.zeros((64, 16), np.float32)
    thread, slot = np.arange(128)[:, None], np.arange(8)[None, :]
    row = thread // 32 * 16 + thread % 32 // 4 + slot // 2 % 2 * 8
    whole[row, slot // 4 * 8 + thread % 4 * 2 + slot % 2] = out
    np.testing.assert_array_equal(whole, 5 * product)


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [("tl_wgmma_wait<0>();", "", "missing-wait"), ("tl_fence_proxy_async();", "", "missing-fence"),
     ("__syncthreads();", "", "write-read"),
     ("    tl_wgmma_fence();", "b |= 1ull << 14; tl_wgmma_fence();", "descriptor")],
)  # fmt: skip
def test_misused_products_are_found(old: str, new: str, kind: str) -> None:
    image, registers, _ = chain_operands()
    args = [image, registers, np.zeros((128, 8), np.float32), ctypes.c_int(2)]
    source = WGMMA.replace(old, new)
    result = machine.launch(source, "chain", args, block=(128,), shared=8192)
    assert kind in result.kinds, result.texts()


def test_an_operand_of_a_product_stays_in_its_tile() -> None:
    image, registers, _ = chain_operands()
    args = [image, registers, np.zeros((128, 8), np.float32), ctypes.c_int(1)]
    clean(machine.launch(WGMMA, "chain", args, block=(128,), shared=8192, tiles=[(0, 8192)]))
    result = machine.launch(
        WGMMA, "chain", args, block=(128,), shared=8192, tiles=[(0, 256), (256, 7936)]
    )
    found = [each for each in result.findings if each.kind == machine.KINDS.index("bounds")]
    assert found[0].buffer == 0
    assert found[0].offset == 256


# -- tensor memory ---------------------------------------------------------------------------------
TENSOR = r"""
#include "tl_memory.h"
#include "tl_sync.h"
#include "tl_tcgen05.h"
TL_TCGEN05_MOVE(32x32b, 16, 16)
TL_TCGEN05_MOVE(16x256b, 2, 8)
extern "C" __global__ void product(const uint4* image, uint32_t* out, uint32_t* fragment, int steps) {
    extern __shared__ __align__(1024) unsigned char smem[];
    uint32_t* slot = (uint32_t*)(smem + 16384);
    uint64_t* bar = (uint64_t*)(smem + 16392);
    for (int i = threadIdx.x; i < 1024; i += 128) ((uint4*)smem)[i] = image[i];
    if (threadIdx.x == 0) { tl_mbarrier_init(bar, 1u); tl_fence_barrier_init(); }
    if (threadIdx.x < 32) tl_tmem_alloc<32>(slot);
    tl_fence_proxy_async();
    __syncthreads();
    const uint32_t d = *slot;
    if (threadIdx.x == 0) {
        for (int k = 0; k < steps; ++k) {
            uint64_t a, b;
            tl_tcgen05_descriptor(&a, smem, 1, 16, 0, 0, 6);
            tl_tcgen05_descriptor(&b, smem + 8192, 1, 16, 0, 0, 6);
            tl_tcgen05_mma_ss_f16(d, a, b, 1u << 4 | 16u / 8 << 17 | 128u / 16 << 24, k > 0);
        }
        tl_tcgen05_commit(bar);
    }
    tl_mbarrier_wait(bar, 0u);
    tl_tcgen05_fence_after();
    uint32_t r[16], f[8];
    const uint32_t quarter = threadIdx.x / 32 * 32;
    tl_tcgen05_ld_32x32b_x16(r, d + (quarter << 16));
    tl_tcgen05_ld_16x256b_x2(f, d + ((quarter + 16) << 16));
    tl_tcgen05_wait_ld();
    for (int q = 0; q < 16; ++q) out[threadIdx.x * 16 + q] = r[q];
    for (int q = 0; q < 8; ++q) fragment[threadIdx.x * 8 + q] = f[q];
    __syncthreads();
    if (threadIdx.x < 32) tl_tmem_free<32>(d);
}
"""


def tensor_operands() -> tuple[Array, Array]:
    rng = np.random.default_rng(4)
    a, b = (rng.integers(-3, 4, shape).astype(np.float16) for shape in ((128, 16), (16, 16)))
    image = np.zeros(16384, np.uint8)
    place_bytes(image, 0, a.view(np.uint16), 32)
    place_bytes(image, 8192, b.view(np.uint16), 32)
    return image, a.astype(np.float32) @ b.T.astype(np.float32)


def tensor(source: str, schedule: int = machine.FIFO) -> tuple[machine.Result, Array, Array]:
    image, _ = tensor_operands()
    out, fragment = np.zeros((128, 16), np.float32), np.zeros((128, 8), np.float32)
    args = [image, out, fragment, ctypes.c_int(3)]
    result = machine.launch(
        source, "product", args, block=(128,), shared=16640, arch=1000, schedule=schedule
    )
    return result, out, fragment


@pytest.mark.parametrize("schedule", range(4))
def test_products_in_tensor_memory(schedule: int) -> None:
    result, out, fragment = tensor(TENSOR, schedule)
    clean(result)
    wanted = 3 * tensor_operands()[1]
    np.testing.assert_array_equal(out, wanted)
    thread, slot = np.arange(128)[:, None], np.arange(8)[None, :]
    row = thread // 32 * 32 + 16 + thread % 32 // 4 + slot // 2 % 2 * 8
    column = slot // 4 * 8 + thread % 4 * 2 + slot % 2
    np.testing.assert_array_equal(fragment, wanted[row, column])


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("tl_mbarrier_wait(bar, 0u);", "", "its commit's mbarrier has not been waited for"),
        ("tl_tcgen05_commit(bar);", "tl_mbarrier_arrive(bar);", "no commit tells when it is complete"),
        ("tl_tcgen05_wait_ld();", "", "registers that tcgen05.ld loads are used before tcgen05.wait::ld"),
        ("(quarter << 16)", "(32 << 16)", "of tensor memory, not 32 to 63"),
        ("tl_tmem_alloc<32>(slot)", "*slot = 64", "column 64 of tensor memory is not allocated"),
        ("tl_tmem_free<32>(d)", "tl_tmem_free<64>(d)", "columns are given back that are not allocated"),
        ("1u << 4 |", "2u << 4 |", "this kind has no sum of that format"),
    ],
)  # fmt: skip
def test_misuse_of_tensor_memory_is_found(old: str, new: str, text: str) -> None:
    result, _, _ = tensor(TENSOR.replace(old, new))
    assert any(text in found for found in result.texts()), result.texts()


STORED = TENSOR.replace(
    "    const uint32_t d = *slot;\n",
    """    const uint32_t d = *slot;
    uint32_t ones[16];
    for (int q = 0; q < 16; ++q) ones[q] = 0x3f800000u;
    tl_tcgen05_st_32x32b_x16(d + (threadIdx.x / 32 * 32 << 16), ones);
    tl_tcgen05_wait_st();
    tl_tcgen05_fence_before();
    __syncthreads();
    tl_tcgen05_fence_after();
""",
).replace("k > 0", "true")


def test_sums_that_threads_stored_into_tensor_memory() -> None:
    result, out, _ = tensor(STORED)
    clean(result)
    np.testing.assert_array_equal(out, 3 * tensor_operands()[1] + 1)
    result, _, _ = tensor(STORED.replace("tl_tcgen05_wait_st();", ""))
    text = (
        "a product uses columns of tensor memory that tcgen05.st writes, without tcgen05.wait::st"
    )
    assert any(text in found for found in result.texts()), result.texts()


@pytest.mark.parametrize("schedule", range(4))
def test_operands_that_change_before_products_are_complete(schedule: int) -> None:
    early = "smem[threadIdx.x] = 0;\n    tl_mbarrier_wait(bar, 0u);"
    result, _, _ = tensor(TENSOR.replace("tl_mbarrier_wait(bar, 0u);", early), schedule)
    assert result.kinds & {"missing-wait", "write-read"}, result.texts()


CANCEL = r"""
#include "tl_sync.h"
#include "tl_tcgen05.h"
extern "C" __global__ void cancel(int* out) {
    extern __shared__ __align__(1024) unsigned char smem[];
    uint64_t* bar = (uint64_t*)(smem + 16);
    if (threadIdx.x == 0) {
        tl_mbarrier_init(bar, 1u);
        tl_fence_barrier_init();
        tl_mbarrier_arrive_expect_tx(bar, 16u);
    }
    tl_cluster_sync();
    if (threadIdx.x == 0 && tl_block_rank_in_cluster() == 0) tl_clc_try_cancel_multicast(smem, bar);
    tl_mbarrier_wait(bar, 0u);
    if (threadIdx.x == 0) out[blockIdx.x] = tl_clc_is_canceled(smem) ? -1 : 7;
    tl_cluster_sync();
}
"""


def test_no_block_is_left_to_cancel() -> None:
    out = np.zeros(2, np.int32)
    clean(machine.launch(CANCEL, "cancel", [out], grid=(2,), cluster=(2,), shared=64, arch=1000))
    assert out.tolist() == [7, 7]
