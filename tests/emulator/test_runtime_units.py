"""Defects around asynchronous units: bulk copies, matrix products of warpgroups, proxies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.machine import FIFO, launch
from tests.emulator.test_runtime import SCHEDULES, kernel, zeros


def unit_kernel(parameters: str, body: str) -> str:
    text = kernel(parameters, body)
    return text.replace('"tl_warp.h"', '"tl_tma.h"\n#include "tl_wgmma.h"', 1)


def changed(source: str, text: str, instead: str = "") -> str:
    assert text in source
    return source.replace(text, instead, 1)


# -- bulk copies into shared memory ----------------------------------------------------------------
LOAD = unit_kernel(
    "const float* a, float* b",
    """__shared__ __align__(128) float box[2][64];
    __shared__ uint64_t full[2], empty[2];
    const int t = threadIdx.x;
    if (t == 0) {
        for (int k = 0; k < 2; ++k) { tl_mbarrier_init(&full[k], 1); tl_mbarrier_init(&empty[k], 64); }
        tl_fence_barrier_init();
    }
    __syncthreads();
    for (int k = 0; k < 6; ++k) {
        const int s = k % 2, phase = k / 2 % 2;
        if (t == 64) {
            tl_mbarrier_wait(&empty[s], phase ^ 1);
            tl_mbarrier_arrive_expect_tx(&full[s], 256);
            tl_bulk_load(box[s], a + k * 64, 256, &full[s]);
        } else if (t < 64) {
            tl_mbarrier_wait(&full[s], phase);
            b[k * 64 + t] = box[s][t ^ 5];
            tl_mbarrier_arrive(&empty[s]);
        }
    }""",
)


@SCHEDULES
@pytest.mark.parametrize(
    ("text", "instead", "kinds"),
    [
        ("", "", ()),
        ("tl_mbarrier_wait(&full[s], phase);", "", ("missing-wait", "uninitialised")),
        ("tl_mbarrier_wait(&full[s], phase);", "tl_mbarrier_wait(&full[0], 0);", ("missing-wait",)),
        ("tl_mbarrier_wait(&empty[s], phase ^ 1);", "", ("read-write", "mbarrier", "missing-wait")),
        ("&full[s], 256);\n", "&full[s], 128);\n", ("deadlock", "mbarrier")),
        ("&full[s], 256);\n", "&full[s], 512);\n", ("deadlock",)),
        ("256, &full[s])", "256, &full[s ^ 1])", ("deadlock", "missing-wait", "mbarrier")),
        ("tl_mbarrier_arrive(&empty[s]);", "", ("deadlock",)),
        ("if (t == 0) {", "if (t < 64) box[1][t] = 0; if (t == 0) {", ("missing-fence",)),
    ],
)
def test_pipelines_of_bulk_loads(schedule: int, text: str, instead: str, kinds: tuple[str]) -> None:
    a, b = np.arange(384, dtype="float32"), zeros(384, dtype="float32")
    source = changed(LOAD, text, instead) if text else LOAD
    found = launch(source, "k", [a, b], block=(96,), schedule=schedule)
    if not kinds:
        assert found.texts() == []
        np.testing.assert_array_equal(b, a.reshape(6, 64)[:, np.arange(64) ^ 5].ravel())
    else:
        assert found.kinds & set(kinds), found.texts()


# -- bulk copies out of shared memory --------------------------------------------------------------
STORE = unit_kernel(
    "float* out",
    """__shared__ __align__(128) float box[64];
    const int t = threadIdx.x;
    for (int k = 0; k < 3; ++k) {
        box[t] = k * 64 + t;
        tl_fence_proxy_async();
        __syncthreads();
        if (t == 0) {
            tl_bulk_store(out + k * 64, box, 256);
            tl_bulk_commit();
            tl_bulk_wait_read<0>();
        }
        __syncthreads(); // free
    }
    if (t == 0) tl_bulk_wait<0>();""",
)


@SCHEDULES
@pytest.mark.parametrize(
    ("text", "instead", "kinds"),
    [
        ("", "", ()),
        ("tl_fence_proxy_async();\n        __syncthreads();",
         "__syncthreads();\n tl_fence_proxy_async();", ()),
        ("tl_fence_proxy_async();", "", ("missing-fence",)),
        ("tl_bulk_wait_read<0>();", "", ("missing-wait",)),
        ("tl_bulk_wait_read<0>();", "tl_bulk_wait_read<1>();", ("missing-wait",)),
        ("__syncthreads(); // free", "", ("missing-wait",)),
        ("tl_fence_proxy_async();\n        __syncthreads();", "tl_fence_proxy_async();",
         ("write-read", "uninitialised", "read-write", "missing-wait")),
    ],
)  # fmt: skip
def test_bulk_stores(schedule: int, text: str, instead: str, kinds: tuple[str]) -> None:
    out = zeros(192, dtype="float32")
    source = changed(STORE, text, instead) if text else STORE
    found = launch(source, "k", [out], block=(64,), schedule=schedule)
    if not kinds:
        assert found.texts() == []
        np.testing.assert_array_equal(out, np.arange(192))
    else:
        assert found.kinds & set(kinds), found.texts()


def test_stores_without_a_wait() -> None:
    source = changed(STORE, "tl_bulk_wait_read<0>();", "if (k < 2) tl_bulk_wait_read<0>();")
    source = changed(source, "if (t == 0) tl_bulk_wait<0>();")
    assert launch(source, "k", [zeros(192, dtype="float32")], block=(64,)).kinds == {"unfinished"}


def test_blocks_may_reduce_into_the_same_element() -> None:
    source = changed(STORE, "tl_bulk_store(", "tl_bulk_reduce_add_f32(")
    out = zeros(192, dtype="float32")
    found = launch(source, "k", [out], grid=(3,), block=(64,))
    assert found.texts() == []
    np.testing.assert_array_equal(out, 3 * np.arange(192))
    stored = launch(STORE, "k", [zeros(192, dtype="float32")], grid=(3,), block=(64,))
    assert stored.kinds == {"write-write"}


# -- matrix products of a warpgroup ----------------------------------------------------------------
@pytest.mark.parametrize(
    ("counts", "text"),
    [
        ((240, 24), ""),
        ((250, 24), "setmaxnreg of 250 registers: 24 to 256 in steps of 8 are possible"),
        ((256, 264), "setmaxnreg of 264 registers: 24 to 256 in steps of 8 are possible"),
        ((256, 256), "the warpgroups of the block hold 98304 registers together, there are 65536"),
    ],
)
def test_registers_of_warpgroups(counts: tuple[int, int], text: str) -> None:
    high, low = counts
    source = unit_kernel(
        "float* out",
        f"if (threadIdx.x < 128) tl_setmaxnreg_dec<{low}>(); else tl_setmaxnreg_inc<{high}>();",
    )
    found = launch(source, "k", [zeros(1)], block=(384,), schedule=FIFO)
    assert found.texts() == ([f"other: {text}"] if text else [])
