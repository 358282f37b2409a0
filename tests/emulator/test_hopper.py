"""A product in the style of sm_90 from end to end: tensor copies, rings of mbarriers, wgmma, a stored tile."""

from __future__ import annotations

import ctypes

import numpy as np
import numpy.typing as npt
import pytest

from tests.emulator import machine

# A and B are [rows][k] in float16; a producer warp brings 64 x 64 tiles, a warpgroup multiplies.
GEMM = r"""
#include "tl_float.h"
#include "tl_memory.h"
#include "tl_sync.h"
#include "tl_tma.h"
#include "tl_wgmma.h"
TL_WGMMA(64, 16, f16, f16, f32, 32)
extern "C" __global__ void __launch_bounds__(160) gemm(
    const __grid_constant__ tl_tensor_map a, const __grid_constant__ tl_tensor_map b,
    const __grid_constant__ tl_tensor_map c, int blocks_k) {
    extern __shared__ __align__(1024) unsigned char smem[];
    uint64_t* full = (uint64_t*)(smem + 40960);
    uint64_t* empty = full + 2;
    const int t = threadIdx.x, m = blockIdx.y * 64, n = blockIdx.x * 64;
    if (t == 0) {
        for (int s = 0; s < 2; ++s) { tl_mbarrier_init(full + s, 1u); tl_mbarrier_init(empty + s, 128u); }
        tl_fence_barrier_init();
    }
    __syncthreads();
    if (t >= 128) {
        if (t == 128)
            for (int k = 0; k < blocks_k; ++k) {
                const int s = k & 1;
                tl_mbarrier_wait(empty + s, (k >> 1 & 1) ^ 1);
                tl_mbarrier_arrive_expect_tx(full + s, 16384u);
                tl_tma_load(smem + s * 16384, &a, full + s, k * 64, m);
                tl_tma_load(smem + s * 16384 + 8192, &b, full + s, k * 64, n);
            }
    } else {
        float d[32];
        for (int k = 0; k < blocks_k; ++k) {
            const int s = k & 1;
            tl_mbarrier_wait(full + s, k >> 1 & 1);
            uint64_t x, y;
            tl_wgmma_descriptor(&x, smem + s * 16384, 1, 1, 64);
            tl_wgmma_descriptor(&y, smem + s * 16384 + 8192, 1, 1, 64);
            tl_wgmma_fence();
            for (int i = 0; i < 4; ++i) {
                tl_wgmma_m64n64k16_f16_f16_f32_ss<0, 0, 1, 1>(d, x, y, k > 0 || i > 0);
                tl_descriptor_add(&x, 32);
                tl_descriptor_add(&y, 32);
            }
            tl_wgmma_commit();
            tl_wgmma_wait<0>();
            tl_mbarrier_arrive(empty + s);
        }
        for (int q = 0; q < 32; ++q) {
            const int row = t / 32 * 16 + t % 32 / 4 + q / 2 % 2 * 8, column = q / 4 * 8 + t % 4 * 2 + q % 2;
            const int at = row * 128 + column * 2;
            *(uint16_t*)(smem + 32768 + (at ^ (row % 8) << 4)) = tl_f32_to_f16(d[q]);
        }
        tl_fence_proxy_async();
        tl_bar_sync(1, 128);
        if (t == 0) { tl_tma_store(&c, smem + 32768, n, m); tl_bulk_commit(); tl_bulk_wait<0>(); }
    }
}
"""


def tensor_map(x: npt.NDArray[np.float16]) -> ctypes.Array[ctypes.c_uint64]:
    """A map of 64 x 64 boxes, swizzled by 128 bytes."""
    out = (ctypes.c_uint64 * 16)()
    rows, columns = x.shape
    code = machine.runtime().tl_emu_tensor_map_tiled(
        out, 6, 2, ctypes.c_void_p(x.ctypes.data), (ctypes.c_uint64 * 2)(columns, rows),
        (ctypes.c_uint64 * 1)(2 * columns), (ctypes.c_uint32 * 2)(64, 64),
        (ctypes.c_uint32 * 2)(1, 1), 0, 3, 0, 0,
    )  # fmt: skip
    assert code == 0
    return out


def aligned(shape: tuple[int, int], seed: int) -> npt.NDArray[np.float16]:
    space = np.zeros(shape[0] * shape[1] * 2 + 64, np.uint8)
    made = (
        space[-space.ctypes.data % 64 :][: shape[0] * shape[1] * 2].view(np.float16).reshape(shape)
    )
    made[...] = np.random.default_rng(seed).integers(-3, 4, shape)
    return made


def product(
    source: str, schedule: int, m: int = 100, n: int = 72, k: int = 232
) -> tuple[machine.Result, bool]:
    """What was found, and whether the numbers are right. Sizes that no tile divides."""
    a, b, c = aligned((m, k), 1), aligned((n, k), 2), aligned((m, n), 3)
    buffers = (machine.Buffer * 3)(
        *(machine.Buffer(x.ctypes.data, x.nbytes, i, 1) for i, x in enumerate((a, b, c)))
    )
    result = machine.launch(
        source, "gemm", [*map(tensor_map, (a, b, c)), ctypes.c_int(-(-k // 64))],
        grid=(-(-n // 64), -(-m // 64)), block=(160,), shared=41472, schedule=schedule, seed=5,
        buffers=ctypes.addressof(buffers), buffer_count=3, step_bound=200_000,
    )  # fmt: skip
    wanted = (a.astype(np.float32) @ b.T.astype(np.float32)).astype(np.float16)
    return result, bool(np.array_equal(c, wanted))


@pytest.mark.parametrize("schedule", range(4))
def test_pipelined_product_is_right_and_clean(schedule: int) -> None:
    result, right = product(GEMM, schedule)
    assert result.code == 0 and not result.findings, result.texts()
    assert right


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ("            tl_wgmma_wait<0>();\n", "", {"missing-wait", "read-write"}),
        ("        tl_fence_proxy_async();\n        tl_bar", "        tl_bar", {"missing-fence"}),
        ("        tl_bar_sync(1, 128);\n", "", {"uninitialised", "missing-wait"}),
        ("(k >> 1 & 1) ^ 1", "k >> 1 & 1", {"deadlock"}),
        ("tl_mbarrier_wait(full + s, k >> 1 & 1);", "", {"missing-wait", "write-read", "uninitialised"}),
        ("expect_tx(full + s, 16384u)", "expect_tx(full + s, 16388u)", {"deadlock"}),
        ("expect_tx(full + s, 16384u)", "expect_tx(full + s, 8192u)", {"mbarrier", "write-read", "missing-wait"}),
        ("            tl_mbarrier_arrive(empty + s);\n", "", {"deadlock"}),
        ("tl_bulk_wait<0>(); ", "", {"unfinished"}),
    ],
)  # fmt: skip
def test_weakened_synchronisation_is_found(old: str, new: str, kinds: set[str]) -> None:
    assert old in GEMM
    result, _ = product(GEMM.replace(old, new, 1), machine.LATE)
    assert kinds & result.kinds, result.texts()
