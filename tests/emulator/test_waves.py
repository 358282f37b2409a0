"""Waves of AMD GPUs in the emulator: exchange between lanes that run in step, and what is reported."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.emulator.machine import FIFO, LATE, RANDOM, launch

WIDTHS = {"gfx942": 64, "gfx1100": 32}
chips = pytest.mark.parametrize("chip", WIDTHS)
schedules = pytest.mark.parametrize("schedule", [FIFO, RANDOM, LATE])

EXCHANGE = r"""
#include "tl_amdgcn.h"
extern "C" __global__ void exchange(int* out) {
    const int i = threadIdx.x, lane = tl_lane(), v = 100 + i;
    int* mine = out + 12 * i;
    mine[0] = __builtin_amdgcn_ds_bpermute((lane ^ 5) * 4, v);
    mine[1] = __builtin_amdgcn_ds_permute(((lane + 3) % TL_WAVE) * 4, v);
    mine[2] = __builtin_amdgcn_readfirstlane(v);
    mine[3] = __builtin_amdgcn_readlane(v, 9);
    mine[4] = __builtin_amdgcn_ds_swizzle(v, 0x1f | 1 << 10);
    mine[5] = __builtin_amdgcn_update_dpp(-1, v, 0x4e, 15, 15, false);
    mine[6] = __builtin_amdgcn_update_dpp(-1, v, 0x112, 15, 15, false);
    mine[7] = __builtin_amdgcn_update_dpp(-1, v, 0x101, 15, 15, true);
    mine[8] = __builtin_amdgcn_update_dpp(-1, v, 0x140, 5, 15, false);
    mine[9] = (int)__builtin_popcountll(tl_votes(lane % 3 == 0));
    mine[10] = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    mine[11] = __builtin_amdgcn_update_dpp(-1, v, 0x12f, 15, 15, false);
}
"""


@chips
@schedules
def test_lanes_exchange_values(chip: str, schedule: int) -> None:
    width = WIDTHS[chip]
    out = np.zeros((128, 12), np.int32)
    result = launch(
        EXCHANGE, "exchange", [out], block=(128,), schedule=schedule, arch=chip, warp_size=width
    )
    assert result.texts() == []
    thread = np.arange(128)
    first, lane = thread // width * width, thread % width
    row, at = lane // 16 * 16, lane % 16
    base = 100 + first
    wanted = [
        base + (lane ^ 5),
        base + (lane - 3) % width,
        base,
        base + 9,
        base + (lane ^ 1),
        base + lane // 4 * 4 + (lane % 4 ^ 2),  # quad_perm:[2,3,0,1]
        np.where(at >= 2, base + lane - 2, -1),  # row_shr:2
        np.where(at < 15, base + lane + 1, 0),  # row_shl:1, zeros beyond the end
        np.where(row // 16 % 2 == 0, base + row + 15 - at, -1),  # row_mirror in rows 0 and 2
        np.full(128, len(range(0, width, 3))),
        lane,
        base + row + (at + 1) % 16,  # row_ror:15
    ]
    np.testing.assert_array_equal(out, np.stack(wanted, 1))


@chips
@schedules
def test_lanes_of_a_branch_synchronize_without_the_others(chip: str, schedule: int) -> None:
    source = r"""
    #include "tl_amdgcn.h"
    extern "C" __global__ void branch(int* out) {
        const int lane = tl_lane();
        int v = lane;
        if (lane % 4 < 2) v = __builtin_amdgcn_ds_bpermute((lane ^ 1) * 4, v + 1000);
        v = __builtin_amdgcn_ds_bpermute((lane ^ 2) * 4, v);
        if (lane < 8) {
            for (int k = 0; k < lane % 2 + 1; ++k) v += (int)__builtin_popcountll(tl_votes(true));
        }
        out[threadIdx.x] = v;
    }
    """
    width = WIDTHS[chip]
    out = np.zeros(width, np.int32)
    result = launch(
        source, "branch", [out], block=(width,), schedule=schedule, arch=chip, warp_size=width
    )
    assert result.texts() == []
    lane = np.arange(width)
    v = np.where(lane % 4 < 2, (lane ^ 1) + 1000, lane)[lane ^ 2]
    v[:8] += 8
    v[1:8:2] += 4
    np.testing.assert_array_equal(out, v)


@chips
def test_a_value_of_a_lane_that_is_not_there_is_reported(chip: str) -> None:
    source = r"""
    #include "tl_amdgcn.h"
    extern "C" __global__ void partial(int* out) {
        out[threadIdx.x] = __builtin_amdgcn_ds_bpermute((tl_lane() ^ 16) * 4, 1);
    }
    """
    out = np.zeros(16, np.int32)
    result = launch(source, "partial", [out], block=(16,), arch=chip, warp_size=WIDTHS[chip])
    assert result.texts()[0] == (
        "warp-divergence: lane 0 reads the value of lane 16, which does not take part in"
        " ds_bpermute"
    )


@schedules
def test_waves_of_64_race_at_barriers_like_any_threads(schedule: int) -> None:
    source = r"""
    #include "tl_amdgcn.h"
    extern "C" __global__ void turn(const int* x, int* y) {
        __shared__ int tile[128];
        tile[threadIdx.x] = x[threadIdx.x];
        SYNC
        y[threadIdx.x] = tile[127 - threadIdx.x];
    }
    """
    x, y = np.arange(128, dtype=np.int32), np.zeros(128, np.int32)
    for sync, kinds in (("__syncthreads();", set()), ("", {"write-read"})):
        text = source.replace("SYNC", sync)
        result = launch(
            text, "turn", [x, y], block=(128,), schedule=schedule, arch="gfx942", warp_size=64
        )
        assert kinds <= result.kinds and (kinds or not result.kinds)
    wave = source.replace("SYNC", "__builtin_amdgcn_wave_barrier();").replace("127", "63")
    result = launch(
        wave, "turn", [x, y], block=(64,), schedule=schedule, arch="gfx942", warp_size=64
    )
    assert result.texts() == []
    np.testing.assert_array_equal(y[:64], x[:64][::-1])


LOADS = r"""
#include "tl_amdgcn.h"
extern "C" __global__ void load(const int* x, int* y) {
    __shared__ int tile[128];
    tl_emu_load_lds(x + threadIdx.x, tile, 4);
    tl_emu_load_lds(x + 64 + threadIdx.x, tile + 64, 4);
    __builtin_amdgcn_s_waitcnt(CODE);
    __syncthreads();
    y[threadIdx.x] = tile[63 - threadIdx.x] + (WHOLE ? tile[127 - threadIdx.x] : 0);
}
"""


@pytest.mark.parametrize(
    ("whole", "left", "kinds"),
    [(0, 1, set()), (1, 0, set()), (1, 1, {"missing-wait"})],
    ids=["first of two", "both", "second too early"],
)
def test_loads_to_lds_are_waited_for_by_their_count(whole: int, left: int, kinds: set) -> None:
    text = LOADS.replace("WHOLE", str(whole)).replace("CODE", hex(0x0F70 | left))
    x, y = np.arange(128, dtype=np.int32), np.zeros(64, np.int32)
    result = launch(text, "load", [x, y], block=(64,), schedule=LATE, arch="gfx942", warp_size=64)
    assert kinds <= result.kinds and (kinds or not result.kinds)
    if not kinds:
        np.testing.assert_array_equal(y, x[63::-1] + (x[127:63:-1] if whole else 0))


@schedules
def test_atomic_operations(schedule: int) -> None:
    source = r"""
    #include "tl_amdgcn.h"
    extern "C" __global__ void count(int* total, float* sum, unsigned long long* most, int* swapped) {
        atomicAdd(total, 1);
        atomicAdd(sum, 0.5f);
        atomicMax(most, (unsigned long long)threadIdx.x);
        if (atomicCAS(swapped, 7, (int)threadIdx.x + 100) == 7) atomicAdd(swapped + 1, 1);
    }
    """
    total, total_f = np.zeros(1, np.int32), np.zeros(1, np.float32)
    most, swapped = np.zeros(1, np.uint64), np.array([7, 0], np.int32)
    result = launch(
        source, "count", [total, total_f, most, swapped], block=(128,), grid=(2,),
        schedule=schedule, arch="gfx942", warp_size=64,
    )  # fmt: skip
    assert result.texts() == []
    assert (total[0], total_f[0], most[0], swapped[1]) == (256, 128.0, 127, 1)
    assert swapped[0] >= 100


def test_a_machine_without_that_width_is_no_argument() -> None:
    out = ctypes.c_int(0)
    result = launch(EXCHANGE, "exchange", [out], block=(8,), arch="gfx942", warp_size=48)
    assert result.code == 2
    assert result.texts() == ["launch: a warp of 48 threads: 32 and 64 are possible"]
