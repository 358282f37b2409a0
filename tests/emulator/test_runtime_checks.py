"""Defects planted in small kernels, each with the correct kernel."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.emulator import machine
from tests.emulator.machine import FIFO, Result, launch
from tests.emulator.test_runtime import PIPELINE, SCHEDULES, kernel, zeros


def run(source: str, args: list, schedule: int = FIFO, **options: object) -> Result:
    return launch(source, "k", args, schedule=schedule, **options)


def without(source: str, text: str, instead: str = "") -> str:
    assert text in source
    return source.replace(text, instead, 1)


# -- races in shared memory ------------------------------------------------------------------------
EXCHANGE = kernel(
    "int* out",
    """__shared__ int box[64];
    const int t = threadIdx.x;
    for (int k = 0; k < 3; ++k) {
        box[t] = k + t;
        __syncthreads(); // written
        out[k * 64 + t] = box[t ^ 33];
        __syncthreads(); // read
    }""",
)


@SCHEDULES
def test_a_missing_barrier_is_a_race(schedule: int) -> None:
    assert run(EXCHANGE, [zeros(192)], schedule, block=(64,)).texts() == []
    found = run(
        without(EXCHANGE, "__syncthreads(); // written"), [zeros(192)], schedule, block=(64,)
    )
    assert found.kinds & {"write-read", "read-write", "uninitialised"}
    # Numbers are right in most orders without this one.
    late = run(without(EXCHANGE, "__syncthreads(); // read"), [zeros(192)], schedule, block=(64,))
    assert late.kinds & {"read-write", "write-read"} and not late.kinds & {"uninitialised"}


def test_a_race_names_both_lines_and_threads() -> None:
    source = kernel(
        "int* out",
        """__shared__ int box[32];
        const int t = threadIdx.x;
        if (t == 3) box[5] = 1;
        if (t == 9) out[0] = box[5];""",
    )
    found = run(source, [zeros(1)], tiles=[(0, 16)])
    race = found.findings[0]
    assert found.kinds == {"write-read"} and len(found.findings) == 1
    assert (race.thread, race.other_thread, race.space, race.bytes, race.count) == (9, 3, 2, 4, 2)
    assert race.pc and race.other_pc and race.pc != race.other_pc
    assert race.offset == 5 * 4 and list(race.block) == [0, 0, 0]


@pytest.mark.parametrize(("value", "kinds"), [("1", set()), ("threadIdx.x / 2", {"write-write"})])
def test_stores_of_one_value_are_no_race(value: str, kinds: set[str]) -> None:
    loop = f"box = {value}; __syncthreads(); out[threadIdx.x] = box;"
    source = kernel("int* out", f"__shared__ int box; {loop}")
    assert run(source, [zeros(4)], block=(4,)).kinds == kinds


def test_a_store_of_one_value_is_one_of_a_copy_too() -> None:
    source = kernel(
        "int* out, int* a",
        """__shared__ __align__(16) int box[4];
        if (threadIdx.x < 2) tl_cp_async_16(box, a + 4 * threadIdx.x);
        tl_cp_async_commit(); tl_cp_async_wait<0>(); __syncthreads(); out[0] = box[0];""",
    )
    assert run(source, [zeros(1), zeros(8)], block=(32,)).kinds


def test_threads_may_write_neighbouring_bytes() -> None:
    source = kernel(
        "char* out",
        """__shared__ char box[64];
        const int t = threadIdx.x;
        box[t] = t;
        __syncthreads();
        out[t] = box[t ^ 1];""",
    )
    assert run(source, [zeros(64, dtype="int8")], block=(64,)).texts() == []
    assert run(without(source, "__syncthreads();"), [zeros(64, dtype="int8")], block=(64,)).findings


# -- asynchronous copies ---------------------------------------------------------------------------
@SCHEDULES
def test_copies_belong_to_themselves_until_they_are_waited_for(schedule: int) -> None:
    args = [np.arange(512, dtype="float32"), zeros(512, dtype="float32"), ctypes.c_int(6)]
    options = {"block": (64,), "shared": 512}
    assert run(PIPELINE, args, schedule, **options).texts() == []
    weak = run(without(PIPELINE, "wait<1>", "wait<2>"), args, schedule, **options)
    assert "missing-wait" in weak.kinds
    reused = without(PIPELINE, "__syncthreads();\n    }", "}")
    assert "read-write" in run(reused, args, schedule, **options).kinds


MBARRIER = kernel(
    "int* out",
    """__shared__ uint64_t full[2], empty[2];
    __shared__ int box[2][32];
    const int t = threadIdx.x;
    if (t == 0)
        for (int k = 0; k < 2; ++k) { tl_mbarrier_init(&full[k], 32); tl_mbarrier_init(&empty[k], 32); }
    tl_fence_barrier_init();
    __syncthreads();
    for (int k = 0; k < 8; ++k) {
        const int s = k % 2, phase = k / 2 % 2;
        if (t < 32) {
            tl_mbarrier_wait(&empty[s], phase ^ 1);
            box[s][t] = k + t;
            tl_mbarrier_arrive(&full[s]);
        } else {
            tl_mbarrier_wait(&full[s], phase);
            out[k * 32 + t - 32] = box[s][63 - t];
            tl_mbarrier_arrive(&empty[s]);
        }
    }""",
)


@SCHEDULES
@pytest.mark.parametrize(
    ("text", "instead", "kinds"),
    [
        ("", "", set()),
        ("tl_mbarrier_wait(&empty[s], phase ^ 1);", "", {"read-write", "write-read", "deadlock"}),
        ("tl_mbarrier_wait(&full[s], phase);", "", {"write-read", "read-write", "uninitialised"}),
        ("tl_mbarrier_arrive(&empty[s]);", "", {"deadlock"}),
        ("tl_mbarrier_arrive(&full[s]);", "if (t) tl_mbarrier_arrive(&full[s]);", {"deadlock"}),
        ("&full[s], phase)", "&full[s], phase ^ 1)", {"deadlock", "write-read", "read-write"}),
        ("tl_mbarrier_init(&full[k], 32)", "tl_mbarrier_init(&full[k], 31)",
         {"mbarrier", "write-read", "read-write"}),
        ("__syncthreads();", "", {"mbarrier", "write-read", "write-write", "uninitialised"}),
    ],
)  # fmt: skip
def test_pipelines_of_barriers(schedule: int, text: str, instead: str, kinds: set[str]) -> None:
    source = without(MBARRIER, text, instead) if text else MBARRIER
    out = zeros(8, 32)
    found = run(source, [out], schedule, block=(64,))
    if not kinds:
        np.testing.assert_array_equal(out, np.arange(8)[:, None] + np.arange(31, -1, -1))
    assert bool(found.kinds & kinds) == bool(kinds) and bool(found.findings) == bool(kinds), (
        found.texts()
    )


def test_deadlocks_name_waiting_threads_and_lines() -> None:
    source = kernel(
        "int* out",
        """__shared__ uint64_t bar;
        const int t = threadIdx.x;
        if (t == 0) tl_mbarrier_init(&bar, 65);
        __syncthreads();
        if (t < 64) { tl_mbarrier_arrive(&bar); tl_mbarrier_wait(&bar, 0); }
        else if (t < 96) tl_bar_sync(3, 64);
        else __syncthreads();""",
    )
    found = run(source, [zeros(1)], block=(128,))
    assert found.code == 1
    assert found.texts() == [
        "deadlock: 64 threads wait for ever at the mbarrier at 0 in shared memory, "
        "which lacks 1 of 65 arrivals and 0 bytes in phase 0",
        "deadlock: 32 threads wait for ever at barrier 3, where 32 of 64 threads are",
        "deadlock: 32 threads wait for ever at __syncthreads, where 32 of 128 threads are",
    ]


# -- global memory ---------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "kinds"),
    [
        ("out[blockIdx.x] = 1;", set()),
        ("out[0] = 1;", set()),
        ("out[0] = blockIdx.x;", {"write-write"}),
        ("if (blockIdx.x == 0) out[0] = 1; else out[1] = out[0];", {"write-read"}),
        ("if (blockIdx.x == 1) out[0] = 1; else out[1] = out[0];", {"read-write"}),
        ("out[blockIdx.x] = out[5];", set()),
    ],
)
def test_blocks_are_not_ordered(body: str, kinds: set[str]) -> None:
    assert run(kernel("int* out", body), [zeros(8)], grid=(2,), block=(1,)).kinds == kinds


def test_threads_of_a_block_share_global_memory_through_barriers() -> None:
    source = kernel(
        "int* a", "a[threadIdx.x] = 1; __syncthreads(); a[threadIdx.x + 64] = a[threadIdx.x ^ 32];"
    )
    assert run(source, [zeros(128)], block=(64,)).texts() == []
    assert run(without(source, "__syncthreads();"), [zeros(128)], block=(64,)).kinds <= {
        "write-read",
        "read-write",
    }
    assert run(without(source, "__syncthreads();"), [zeros(128)], block=(64,)).findings


# -- bounds and alignment --------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("out[8] = 1;", "bounds: a store outside every buffer"),
        ("out[0] = a[-1];", "bounds: a load outside every buffer"),
        ("((int*)a)[0] = 1;", "bounds: a store to a buffer that the kernel only reads"),
        ("extern __shared__ int s[]; s[0] = 1; s[16] = 1;",
         "bounds: a write at offset 64 of 64 bytes of shared memory"),
        ("extern __shared__ char s[]; *(short*)(s + 3) = 1;",
         "misaligned: an access of 2 bytes needs an address that is a multiple of 2"),
        ("int v[4]; tl_copy_16(v, a + 1); out[0] = v[0];",
         "misaligned: an access of 16 bytes needs an address that is a multiple of 16"),
    ],
)  # fmt: skip
def test_positions_of_nothing(body: str, text: str) -> None:
    found = run(
        kernel("const int* a, int* out", body), [zeros(8), zeros(8)], block=(1,), shared=64,
        read_only=(0,),
    )  # fmt: skip
    assert found.texts() == [text]
    assert found.code == (0 if text.startswith("misaligned") else 1)


def test_a_store_out_of_bounds_is_not_made() -> None:
    memory = zeros(16)
    run(kernel("int* out", "out[8] = 1; out[0] = 1;"), [memory[:8]], block=(1,))
    assert not memory.any()


# -- meetings that are none ------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("if (t < 16) __syncthreads(); else if (t < 32) __syncwarp(0xffff0000u);", "divergence"),
        ("if (t < 16) __syncthreads(); else __syncthreads();", ""),
        ("if (t % 4 == 0) out[t] = __shfl_sync(~0u, t, 0);", "warp-divergence"),
        ("if (t % 4 == 0) out[t] = __shfl_sync(0x11111111u, t, 0);", ""),
        ("if (t < 16)\n __syncthreads();\n else\n __syncthreads();", "divergence"),
        ("tl_bar_sync(1, t < 32 ? 64 : 96);", "barrier-count"),
        ("tl_bar_sync(16, 64);", "barrier-count"),
        ("tl_bar_sync(2, 50);", "barrier-count"),
        ("if (t & 1) __syncwarp(); else __shfl_sync(~0u, t, 0);", "warp-divergence"),
        # Lanes may meet while others already wait for them.
        ("if (t % 2 == 0) __syncwarp(0x55555555u); __syncwarp();", ""),
        ("if (t % 2) { __syncwarp(); __syncwarp(); } else "
         "{ __syncwarp(0x55555555u); __syncwarp(); __shfl_sync(0x55555555u, t, 2); __syncwarp(); }", ""),
        ("if (t == 0) __syncwarp(0x3u); else if (t < 3) __syncwarp(0x7u);", "warp-divergence"),
        ("if (t < 8) __shfl_sync(0xff00u, t, 0);", "warp-divergence"),
        ("if (t >= 8) out[t] = __shfl_sync(0xffffff00u, t, 2);", "warp-divergence"),
        ("__shared__ uint64_t bar; if (t == 0) tl_mbarrier_arrive(&bar);", "mbarrier"),
    ],
)  # fmt: skip
def test_misused_barriers(body: str, kind: str) -> None:
    source = kernel("int* out", f"const int t = threadIdx.x; {body}")
    found = run(source, [zeros(64)], block=(64,))
    assert found.kinds >= ({kind} if kind else set()), found.texts()
    assert bool(found.findings) == bool(kind), found.texts()


# -- counters --------------------------------------------------------------------------------------
def counted(body: str, block: int = 32) -> list[machine.Site]:
    source = kernel(
        "const int* a, int* out",
        f"__shared__ __align__(128) int s[2048]; const int t = threadIdx.x; {body}",
    )
    found = run(source, [zeros(2048), zeros(2048)], block=(block,), checks=machine.COUNTERS)
    return sorted(found.sites, key=lambda site: site.pc)


def shared_sites(body: str) -> list[machine.Site]:
    return [site for site in counted(body) if site.space == 2]


@pytest.mark.parametrize(("stride", "cost"), ((1, 1), (2, 2), (32, 32), (33, 1), (0, 1)))
def test_bank_conflicts_by_line(stride: int, cost: int) -> None:
    (site,) = shared_sites(f"for (int k = 0; k < a[0] + 5; ++k) s[t * {stride} + k] = t;")
    assert (site.requests, site.accesses, site.cost, site.ideal) == (5, 160, 5 * cost, 5)
    assert (site.space, site.bytes, site.low, site.high) == (2, 4, 0, (31 * stride + 5) * 4)


def test_wide_accesses_move_128_bytes_at_a_time() -> None:
    (site,) = shared_sites("int4 v = {1, 2, 3, 4}; tl_copy_16(&s[t * 4], &v);")
    assert (site.cost, site.ideal) == (4, 4)


@pytest.mark.parametrize(("stride", "cost"), ((1, 4), (2, 8), (8, 32), (0, 1)))
def test_sectors_of_global_memory(stride: int, cost: int) -> None:
    (site,) = counted(f"out[t * {stride}] = t;")
    assert (site.space, site.requests, site.cost, site.ideal) == (1, 1, cost, 4 if stride else 1)


def test_rows_of_matrices() -> None:
    for swizzle, cost in (("0", 8 * 4), ("t % 8", 4)):
        sites = counted(
            f"int r[4]; tl_ldmatrix_x4(r, &s[t * 32 + (({swizzle}) ^ 1) * 4]); out[t] = r[0];"
        )
        (matrix,) = (site for site in sites if site.space == 2 and site.bytes == 16)
        assert (matrix.requests, matrix.cost, matrix.ideal) == (1, cost, 4)


def test_events_of_one_block() -> None:
    found = run(MBARRIER, [zeros(256)], block=(64,), checks=machine.EVENTS)
    waits = {(event.warp, event.what.decode()) for event in found.events}
    assert {(0, "an mbarrier"), (1, "an mbarrier")} <= waits
    assert all(event.begin < event.end and event.pc for event in found.events)


# -- atomic accesses -------------------------------------------------------------------------------
ATOMIC = kernel(
    "int* out",
    """__shared__ int sum;
    const int t = threadIdx.x;
    if (t == 0) sum = 0;
    __syncthreads(); // zero
    tl_atomic_add_i32(&sum, t);
    __syncthreads(); // summed
    out[blockIdx.x * 64 + t] = sum;""",
).replace("tl_warp.h", "tl_atomic.h")


@SCHEDULES
def test_atomic_accesses_need_no_order_among_themselves(schedule: int) -> None:
    out = zeros(128)
    assert run(ATOMIC, [out], schedule, grid=(2,), block=(64,)).texts() == []
    np.testing.assert_array_equal(out, 2016)
    for barrier in ("zero", "summed"):
        broken = without(ATOMIC, f"__syncthreads(); // {barrier}")
        assert run(broken, [zeros(128)], schedule, grid=(2,), block=(64,)).findings
