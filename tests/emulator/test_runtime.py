"""The emulator's runtime: what runs, in which order, and what stops it. Kernels are CUDA text."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

from tests.emulator import machine
from tests.emulator.machine import EARLY, FIFO, LATE, RANDOM, launch

SCHEDULES = pytest.mark.parametrize("schedule", (FIFO, RANDOM, LATE, EARLY))
HEAD = (
    '#include "tl_types.h"\n#include "tl_memory.h"\n#include "tl_sync.h"\n#include "tl_reduce.h"\n'
    '#include "tl_warp.h"\n'
)


def kernel(parameters: str, body: str) -> str:
    return f'{HEAD}extern "C" __global__ void k({parameters}) {{\n{body}\n}}\n'


def zeros(*shape: int, dtype: str = "int32") -> np.ndarray:
    return np.zeros(shape, dtype)


# -- threads and blocks ----------------------------------------------------------------------------
@SCHEDULES
@pytest.mark.parametrize("block", ((1,), (31,), (32,), (33, 2), (4, 8, 4), (1024,)))
def test_every_thread_of_every_block_runs_once(schedule: int, block: tuple[int, ...]) -> None:
    source = kernel(
        "int* out",
        """const int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
        const int b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
        out[b * (int)(blockDim.x * blockDim.y * blockDim.z) + t] += 1 + b * 10000 + t;""",
    )
    threads = int(np.prod(block))
    out = zeros(3 * 2 * 2, threads)
    found = launch(source, "k", [out], grid=(3, 2, 2), block=block, schedule=schedule, checks=0)
    assert found.code == 0 and not found.findings and found.totals.blocks == 12
    expected = 1 + 10000 * np.arange(12)[:, None] + np.arange(threads)[None, :]
    np.testing.assert_array_equal(out, expected)


def test_parameters_arrive_as_their_bytes() -> None:
    source = kernel(
        "float* out, char c, double d, const long long n, struct float4 v, bool yes",
        "out[0] = c; out[1] = d; out[2] = n; out[3] = v.w; out[4] = yes;",
    )
    out = zeros(5, dtype="float32")
    vector = (ctypes.c_float * 4)(1, 2, 3, 4)
    args = [out, ctypes.c_int8(-3), ctypes.c_double(0.5), ctypes.c_int64(1 << 20), vector]
    launch(source, "k", [*args, ctypes.c_bool(True)], block=(1,))
    np.testing.assert_array_equal(out, [-3, 0.5, 1 << 20, 4, 1])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"block": (1025,)}, "a block of 1025 threads: 1 to 1024 are possible"),
        ({"shared": 300000}, "300000 bytes of shared memory: a block has at most 232448"),
        ({"grid": (3,), "cluster": (2,)},
         "a grid of 3 x 1 x 1 blocks cannot be cut into clusters of 2 x 1 x 1"),
        ({"grid": (64,), "block": (512,), "cooperative": 1},
         "32768 threads that must run at the same time: at most 16384 are possible here"),
    ],
)  # fmt: skip
def test_launches_that_no_machine_takes_are_refused(options: dict, text: str) -> None:
    found = launch(kernel("int* out", "out[0] = 1;"), "k", [zeros(1)], **options)
    assert (found.code, found.texts()) == (2, [f"launch: {text}"])


# -- shared memory ---------------------------------------------------------------------------------
REVERSE = kernel(
    "const int* a, int* b, int n",
    """extern __shared__ __align__(16) int dynamic[];
    __shared__ int fixed[2][64];
    const int t = threadIdx.x;
    dynamic[t] = a[blockIdx.x * 64 + t];
    __syncthreads();
    fixed[1][t] = dynamic[n - 1 - t];
    __syncthreads();
    b[blockIdx.x * 64 + t] = fixed[1][63 - t] * 2;""",
)


@SCHEDULES
@pytest.mark.parametrize("checks", (0, machine.ALL))
@pytest.mark.parametrize("workers", (1, 3))
def test_shared_memory_belongs_to_the_block(schedule: int, checks: int, workers: int) -> None:
    a, b = np.arange(9 * 64, dtype="int32"), zeros(9 * 64)
    found = launch(
        REVERSE, "k", [a, b, ctypes.c_int(64)], grid=(9,), block=(64,), shared=256,
        checks=checks, schedule=schedule, workers=workers,
    )  # fmt: skip
    assert found.texts() == [] and found.totals.shared_bytes == 1024 + 512
    np.testing.assert_array_equal(b, a * 2)


def test_shared_memory_starts_as_not_a_number() -> None:
    source = kernel("float* out", "extern __shared__ float s[]; out[threadIdx.x] = s[threadIdx.x];")
    out = zeros(32, dtype="float32")
    launch(source, "k", [out], shared=128, checks=0)
    assert np.isnan(out).all()


# -- meetings --------------------------------------------------------------------------------------
@SCHEDULES
def test_named_barriers_pair_producers_and_consumers(schedule: int) -> None:
    source = kernel(
        "int* out",
        """__shared__ int box[64];
        const int t = threadIdx.x;
        for (int k = 0; k < 5; ++k) {
            if (t < 64) {
                if (k > 0) tl_bar_sync(2, 128);
                box[t] = k * 100 + t;
                tl_bar_arrive(1, 128);
            } else {
                tl_bar_sync(1, 128);
                out[k * 64 + t - 64] = box[127 - t];
                if (k < 4) tl_bar_arrive(2, 128);
            }
        }""",
    )
    out = zeros(5, 64)
    found = launch(source, "k", [out], block=(128,), schedule=schedule)
    assert found.texts() == []
    np.testing.assert_array_equal(out, 100 * np.arange(5)[:, None] + np.arange(63, -1, -1)[None, :])


def test_the_remaining_threads_synchronize_after_an_exit() -> None:
    source = kernel(
        "int* out",
        """if (threadIdx.x >= 40) return;
        __syncthreads();
        __syncwarp();
        out[threadIdx.x] = __syncthreads_count(1);""",
    )
    out = zeros(40)
    found = launch(source, "k", [out], block=(64,))
    assert found.code == 0
    np.testing.assert_array_equal(out, 40)


# -- warps -----------------------------------------------------------------------------------------
@SCHEDULES
def test_shuffles_and_votes_of_the_warp(schedule: int) -> None:
    source = kernel(
        "double* out",
        """const int t = threadIdx.x;
        int v = t * 3;
        double* o = out + t * 16;
        o[0] = __shfl_sync(~0u, v, 5); o[1] = __shfl_sync(~0u, v, t + 1, 8);
        o[2] = __shfl_up_sync(~0u, v, 3, 16); o[3] = __shfl_down_sync(~0u, v, 3, 16);
        o[4] = __shfl_xor_sync(~0u, v + 0.5, 16); o[5] = __shfl_xor_sync(~0u, v, 9, 8);
        o[6] = __ballot_sync(~0u, t & 1); o[7] = __any_sync(~0u, t == 31); o[8] = __all_sync(~0u, t);
        o[9] = __match_any_sync(~0u, t % 4); int same; o[10] = __match_all_sync(~0u, 7, &same) * same;
        o[11] = __reduce_add_sync(~0u, v); o[12] = __reduce_max_sync(~0u, -v);
        o[13] = tl_warp_reduce_sum((float)t); o[14] = tl_warp_reduce_min((int64_t)-t);
        if (t >= 8) o[15] = __shfl_sync(0xffffff00u, v, 9);""",
    )
    out = zeros(32, 16, dtype="float64")
    found = launch(source, "k", [out], schedule=schedule)
    assert found.texts() == []
    t = np.arange(32)
    up, down = np.where(t % 16 >= 3, t - 3, t), np.where(t % 16 < 13, t + 3, t)
    nine = np.where((t ^ 9) > t // 8 * 8 + 7, t, t ^ 9)
    expected = [
        0 * t + 15, 3 * (t // 8 * 8 + (t + 1) % 8), 3 * up, 3 * down, 3 * (t ^ 16) + 0.5, 3 * nine,
        0 * t + 0xAAAAAAAA, 0 * t + 1, 0 * t, 0x11111111 << (t % 4), 0 * t + 0xFFFFFFFF,
        0 * t + 3 * 496, 0 * t, 0 * t + 496, 0 * t - 31, np.where(t >= 8, 27, 0),
    ]  # fmt: skip
    np.testing.assert_array_equal(out.T, expected)


@pytest.mark.parametrize("count", (1, 2, 4))
@pytest.mark.parametrize("suffix", ("", "_trans"))
def test_matrices_between_shared_memory_and_registers(count: int, suffix: str) -> None:
    source = kernel(
        "const uint16_t* a, uint16_t* held, uint16_t* b",
        f"""__shared__ __align__(128) uint16_t tile[2][32 * 8];
        const int t = threadIdx.x;
        for (int k = 0; k < 8; ++k) tile[0][t * 8 + k] = a[t * 8 + k];
        __syncwarp();
        __align__(16) uint16_t r[{2 * count}];
        tl_ldmatrix_x{count}{suffix}(r, &tile[0][t % {8 * count} * 8]);
        for (int k = 0; k < {2 * count}; ++k) held[t * {2 * count} + k] = r[k];
        tl_stmatrix_x{count}{suffix}(&tile[1][t % {8 * count} * 8], r);
        __syncwarp();
        if (t < {8 * count}) for (int k = 0; k < 8; ++k) b[t * 8 + k] = tile[1][t * 8 + k];""",
    )
    a, held, b = (
        np.arange(256, dtype="uint16"),
        zeros(64 * count, dtype="uint16"),
        zeros(256, dtype="uint16"),
    )
    found = launch(source, "k", [a, held, b])
    assert found.texts() == []
    matrices = a[: 64 * count].reshape(count, 8, 8)
    if suffix:
        matrices = matrices.transpose(0, 2, 1)
    lanes = matrices.reshape(count, 32, 2).transpose(1, 0, 2)
    np.testing.assert_array_equal(held.reshape(32, count, 2), lanes)
    np.testing.assert_array_equal(b[: 64 * count], a[: 64 * count])


# -- asynchronous copies ---------------------------------------------------------------------------
PIPELINE = kernel(
    "const float* a, float* b, int n",
    """extern __shared__ float stage[];
    const int t = threadIdx.x;
    tl_cp_async_4(&stage[t], &a[t]);
    tl_cp_async_commit();
    for (int k = 0; k < 8; ++k) {
        tl_cp_async_4_zfill(&stage[(k + 1) % 2 * 64 + t], &a[(k + 1) * 64 + t], k + 1 < n);
        tl_cp_async_commit();
        tl_cp_async_wait<1>();
        __syncthreads();
        b[k * 64 + t] = stage[k % 2 * 64 + (t + 1) % 64];
        __syncthreads();
    }
    tl_cp_async_wait<0>();""",
)


@SCHEDULES
@pytest.mark.parametrize("arch", (750, 800))
def test_copies_of_threads_in_groups(schedule: int, arch: int) -> None:
    a, b = np.arange(512, dtype="float32"), zeros(512, dtype="float32")
    found = launch(
        PIPELINE, "k", [a, b, ctypes.c_int(6)], block=(64,), shared=512, schedule=schedule,
        arch=arch,
    )  # fmt: skip
    assert found.texts() == []
    expected = np.roll(a.reshape(8, 64), -1, axis=1)
    expected[6:] = 0
    np.testing.assert_array_equal(b.reshape(8, 64), expected)


@SCHEDULES
def test_copies_that_arrive_at_a_barrier(schedule: int) -> None:
    source = kernel(
        "const int* a, int* b",
        """__shared__ __align__(16) int box[128];
        __shared__ uint64_t bar;
        const int t = threadIdx.x;
        if (t == 0) tl_mbarrier_init(&bar, 32);
        __syncthreads();
        if (t < 32) {
            tl_cp_async_16(&box[t * 4], &a[t * 4]);
            tl_cp_async_mbarrier_arrive_noinc(&bar);
        } else {
            tl_mbarrier_wait(&bar, 0);
            for (int k = 0; k < 4; ++k) b[k * 32 + t - 32] = box[k * 32 + t - 32];
        }""",
    )
    a, b = np.arange(128, dtype="int32"), zeros(128)
    found = launch(source, "k", [a, b], block=(64,), schedule=schedule)
    assert found.texts() == []
    np.testing.assert_array_equal(b, a)


# -- clusters and grids ----------------------------------------------------------------------------
@SCHEDULES
def test_a_cooperative_grid_synchronizes(schedule: int) -> None:
    source = kernel(
        "int* a, int* out",
        """const int t = threadIdx.x, b = blockIdx.x, n = gridDim.x;
        for (int k = 0; k < 3; ++k) {
            a[b * 32 + t] = k * 1000 + b;
            tl_sync_grid();
            out[(k * n + b) * 32 + t] = a[(b + 1) % n * 32 + t];
            tl_sync_grid();
        }""",
    )
    a, out = zeros(5, 32), zeros(3, 5, 32)
    found = launch(source, "k", [a, out], grid=(5,), schedule=schedule, cooperative=1)
    assert found.texts() == []
    expected = 1000 * np.arange(3)[:, None] + (np.arange(5)[None, :] + 1) % 5
    np.testing.assert_array_equal(out, np.repeat(expected[:, :, None], 32, axis=2))


# -- ends ------------------------------------------------------------------------------------------
def test_polling_gives_way_and_ends() -> None:
    wait = kernel(
        "volatile int* flag, int* out",
        """if (threadIdx.x == 0) { while (*flag == 0) __nanosleep(20); out[0] = 7; }
        else if (threadIdx.x == 40) *flag = 1;""",
    )
    flag, out = zeros(1), zeros(1)
    assert launch(wait, "k", [flag, out], block=(64,), checks=0).code == 0 and out[0] == 7
    never = kernel("volatile int* flag", "while (*flag == 0) __nanosleep(20);")
    found = launch(never, "k", [zeros(1)], checks=0)
    assert found.code == 1
    assert found.texts() == ["deadlock: 32 threads wait for ever at a loop that polls"]


def test_steps_are_bounded() -> None:
    source = kernel("int* out", "for (int k = 0;; ++k) { __syncthreads(); out[0] = k; }")
    found = launch(source, "k", [zeros(1)], block=(64,), checks=0, step_bound=10000)
    assert found.code == 1 and found.kinds == {"step-bound"}


def test_a_trap_ends_the_block_alone() -> None:
    source = kernel("int* out", "if (blockIdx.x == 1) __trap(); out[blockIdx.x] = 1;")
    out = zeros(3)
    found = launch(source, "k", [out], grid=(3,), block=(1,))
    assert found.code == 1 and found.texts() == ["trap: the kernel stopped itself"]
    np.testing.assert_array_equal(out, [1, 0, 1])


def test_a_seed_gives_the_same_order_again() -> None:
    source = kernel(
        "int* at, int* out", "tl_emu_yield(); out[threadIdx.x + blockIdx.x * 64] = (*at)++;"
    )

    def order(seed: int) -> list[int]:
        out = zeros(128)
        launch(
            source, "k", [zeros(1), out], grid=(2,), block=(64,), schedule=RANDOM, seed=seed,
            checks=0, workers=1,
        )  # fmt: skip
        return list(out)

    assert order(3) == order(3) != order(4)


@pytest.mark.skipif(sys.platform != "linux", reason="signals are handled on Linux alone")
def test_wild_addresses_end_the_block_and_not_the_process() -> None:
    source = kernel("int* out", "if (blockIdx.x == 1) out[1ll << 44] = 1; out[blockIdx.x] = 1;")
    out = zeros(3)
    found = launch(source, "k", [out], grid=(3,), block=(1,), checks=0)
    assert found.code == 1
    assert found.texts() == ["crash: an access to an address where there is no memory"]
    assert found.findings[0].pc and list(found.findings[0].block) == [1, 0, 0]
    np.testing.assert_array_equal(out, [1, 0, 1])


@pytest.mark.skipif(sys.platform != "linux", reason="signals are handled on Linux alone")
def test_a_full_stack_ends_the_block() -> None:
    source = kernel("int* out", "volatile char a[200000]; a[out[0]] = 1; out[1] = a[0];")
    found = launch(source, "k", [zeros(2)], block=(1,), checks=0)
    assert found.texts() == [
        "crash: the stack of a thread is full: its registers and local arrays need more"
    ]
    assert launch(source, "k", [zeros(2)], block=(1,), checks=0, stack_bytes=1 << 18).code == 0


def test_plain_polling_is_noticed_in_checked_kernels() -> None:
    source = kernel(
        "volatile int* flag, int* out",
        """if (threadIdx.x == 0) { while (*flag == 0) {} out[0] = 7; }
        else if (threadIdx.x == 40) *flag = 1;""",
    )
    out = zeros(1)
    found = launch(source, "k", [zeros(1), out], block=(64,), checks=machine.GLOBAL_BOUNDS)
    assert found.code == 0 and out[0] == 7
    never = kernel("volatile int* flag", "while (*flag == 0) {}")
    found = launch(never, "k", [zeros(1)], block=(2,), checks=machine.GLOBAL_BOUNDS)
    assert found.texts() == ["deadlock: 2 threads wait for ever at a loop that polls"]
