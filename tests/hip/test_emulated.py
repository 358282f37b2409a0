"""HIP kernels in the emulator: products of every chip, random programs, and faults
that are put into texts."""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.draws import SeededDraw
from fuzz.programs import make_program
from fuzz.running import check
from hip.programs import PRODUCTS, product, small_numbers

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
SHARED = ("gfx942", "gfx1100")  # what all chips of a family do is tried on these


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("kinds", "chip"),
    [(kinds, chip) for kinds, chips in PRODUCTS.items() for chip in chips if chip != "gfx1151"],
    ids=str,
)
def test_a_product_is_numpys_and_has_no_finding(kinds: tuple[str, str, str], chip: str) -> None:
    kernel = tilelang.compile(
        product(*kinds), target=f"hip -mcpu={chip}", execution_backend="emulator"
    )
    a, left = small_numbers((32, 64), kinds[0], 1)
    b, right = small_numbers((64, 64), kinds[1], 2)
    report = tilelang.sanitize(kernel, a, b, np.zeros((32, 64), kinds[2]))
    assert report.ok, str(report)
    np.testing.assert_array_equal(report.arguments[2], left @ right)


@pytest.mark.share(3)
@pytest.mark.parametrize("seed", range(12))
def test_programs_mean_the_same_and_have_no_finding(seed: int) -> None:
    check(make_program(SeededDraw(seed)), seed=seed, target=SHARED[seed % 2])


@T.prim_func
def turn(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        tile = T.alloc_shared((64, 64), "float32")
        T.copy(A, tile)
        for i, j in T.Parallel(64, 64):
            B[i, j] = tile[j, i]


@pytest.mark.parametrize("chip", SHARED)
def test_a_barrier_that_is_missing_is_named_by_its_lines(chip: str) -> None:
    kernel = tilelang.compile(
        turn, out_idx=-1, target=f"hip -mcpu={chip}", execution_backend="emulator"
    )
    x = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    assert tilelang.sanitize(kernel, x).ok
    edited = kernel.get_kernel_source().replace("__syncthreads();", "", 1)
    report = tilelang.sanitize(kernel, x, source=edited)
    assert {found.kind for found in report.findings} == {"race", "uninitialised-read"}
    race = next(found for found in report.findings if found.kind == "race")
    assert race.location.user_text == "T.copy(A, tile)"
    width = 64 if chip == "gfx942" else 32
    assert race.actor.warp == race.actor.thread // width


@pytest.mark.parametrize("chip", SHARED)
def test_many_sums_by_compare_and_swap_are_no_deadlock(chip: str) -> None:
    @T.prim_func
    def added(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_fragment((64, 64), "float16")
            T.copy(A, tile)
            T.atomic_add(B, tile)

    a = np.random.default_rng(0).integers(-8, 8, (64, 64)).astype(np.float16)
    report = tilelang.sanitize(added, a, np.ones((64, 64), np.float16), target=f"hip -mcpu={chip}")
    assert report.ok, str(report)
    np.testing.assert_array_equal(report.arguments[1], a + 1)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("chip", SHARED)
def test_sums_of_the_last_half_leave_what_shares_its_word(chip: str, dtype: str) -> None:
    """The word is exchanged: the other half may be behind the end, or another thread's."""

    @T.prim_func
    def summed(A: T.Tensor((5,), dtype), B: T.Tensor((1,), dtype)):
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            T.atomic_add(A[4], 1)
            T.atomic_add(B[0], 1)
            T.atomic_add(A[2], 1)
            if tx == 40:
                A[3] = 7

    a, b = (np.zeros(n, np.float16 if dtype == "float16" else np.uint16) for n in (5, 1))
    report = tilelang.sanitize(summed, a, b, target=f"hip -mcpu={chip}")
    assert report.ok, str(report)
    if dtype == "float16":
        assert report.arguments[0].tolist() == [0, 0, 64, 7, 64]
