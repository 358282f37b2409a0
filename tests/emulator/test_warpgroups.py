"""Products of warpgroups from ``T.gemm``: checked runs in the emulator, and what each fence, commit
and wait in the text is there for."""

# ruff: noqa: E402  # imports from bench/ follow the line that finds them
from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.emulator.compilers import find_cxx
from tilelang.interpret import values
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.stmt import PrimFunc

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "tests" / "emulator")]

import mutate
from captured import Case
from mutate_changes import mutants
from mutate_run import Runner

pytestmark = pytest.mark.skipif(find_cxx() is None, reason="needs a C++ compiler")
SM_90A = "cuda -arch=sm_90a"
STRICT = ("races", "bounds", "alignment", "registers", "warps")


def product(
    m: int, n: int, k: int, tile: tuple[int, int, int], threads: int, dtype: str, out: str,
    trans_a: bool, trans_b: bool, scope: str, stages: int,
) -> PrimFunc:  # fmt: skip
    left = "both" if scope == "rs" else "shared"
    return gemm_program(
        m, n, k, tile, stages, threads, dtype, out,
        acc=out, trans_a=trans_a, trans_b=trans_b, left=left,
    )  # fmt: skip


def encoded(array: Any, dtype: str) -> Any:
    kind = DType(dtype)
    return np.ascontiguousarray(values.encode(array.astype(values.compute_dtype(kind)), kind))


def multiplied(func: PrimFunc, m: int, n: int, k: int, dtype: str, out: str, ta: bool, tb: bool,
               expects: str = "wgmma") -> None:  # fmt: skip
    """Run ``func`` on small integers, checked; sums are exact."""
    rng = np.random.default_rng(m + n + k)
    low = 0 if DType(dtype).is_uint else -3
    a, b = rng.integers(low, 4, (m, k)), rng.integers(low, 4, (k, n))
    kernel = tilelang.compile(func, target=SM_90A, execution_backend="emulator")
    assert expects in kernel.get_kernel_source()
    c = encoded(np.zeros((m, n)), out)
    given = encoded(a.T if ta else a, dtype), encoded(b.T if tb else b, dtype), c
    report = tilelang.sanitize(kernel, *given, seed=1, checks=STRICT)
    assert report.ok, str(report)
    found = np.asarray(values.decode(report.arguments[2], DType(out)))
    assert np.array_equal(found.astype(np.int64), a @ b)


@pytest.mark.share(3)
@pytest.mark.parametrize(
    ("tile", "threads", "dtype", "out", "trans_a", "trans_b", "scope", "stages"),
    [
        ((128, 64, 64), 128, "float16", "float32", False, False, "ss", 3),
        ((128, 64, 32), 256, "float16", "float32", False, True, "ss", 2),
        ((64, 128, 16), 128, "bfloat16", "float32", False, True, "ss", 2),
        ((64, 32, 64), 128, "float16", "float16", True, False, "ss", 2),
        ((192, 32, 32), 384, "float16", "float32", True, True, "ss", 2),
        ((64, 64, 64), 256, "float16", "float32", False, False, "ss", 2),
        ((64, 48, 32), 128, "float32", "float32", False, True, "ss", 2),
        ((64, 64, 64), 128, "int8", "int32", False, True, "ss", 2),
        ((64, 64, 128), 128, "uint8", "int32", False, True, "ss", 1),
        ((64, 64, 64), 128, "float8_e4m3", "float32", False, True, "ss", 2),
        ((64, 64, 32), 128, "float8_e5m2", "float32", False, True, "rs", 2),
        ((128, 64, 64), 128, "float16", "float32", False, False, "rs", 2),
        ((128, 32, 32), 256, "bfloat16", "float32", False, True, "rs", 2),
        ((64, 32, 32), 128, "int8", "int32", False, True, "rs", 2),
        ((64, 32, 16), 128, "float32", "float32", False, True, "rs", 2),
    ],
)
def test_products(
    tile: tuple[int, int, int], threads: int, dtype: str, out: str, trans_a: bool, trans_b: bool,
    scope: str, stages: int,
) -> None:  # fmt: skip
    m, n, k = 2 * tile[0], tile[1], 3 * tile[2]
    func = product(m, n, k, tile, threads, dtype, out, trans_a, trans_b, scope, stages)
    multiplied(func, m, n, k, dtype, out, trans_a, trans_b, f"_{scope}<")


@T.prim_func
def sub_tiles(A: F16[128, 128], B: F16[128, 64], C: F32[128, 64]):
    """Versions and parts of larger tiles, by two groups of threads of their own."""
    with T.Kernel(1, threads=256):
        tx = T.get_thread_binding()
        a = T.alloc_shared((2, 128, 64), "float16")
        b = T.alloc_shared((128, 64), "float16")
        upper = T.alloc_fragment((64, 64), "float32")
        lower = T.alloc_fragment((64, 64), "float32")
        for s in T.serial(2):
            T.copy(A[0, s * 64], a[s, :, :])
        T.copy(B, b)
        if tx < 128:
            T.clear(upper)
            for s in T.serial(2):
                T.gemm(a[s, 0:64, :], b[s * 64 : s * 64 + 64, :], upper)
            T.copy(upper, C[0, 0])
        else:
            T.clear(lower)
            for s in T.serial(2):
                T.gemm(a[s, 64:128, :], b[s * 64 : s * 64 + 64, :], lower)
            T.copy(lower, C[64, 0])


def test_one_warp_may_wait_for_the_whole_product_unless_warps_are_checked() -> None:
    m, n, k = 64, 32, 128
    func = product(m, n, k, (64, 32, 16), 128, "float16", "float32", False, True, "ss", 2)
    one_role = {"tl.disable_warp_specialized": True}
    kernel = tilelang.compile(
        func, target=SM_90A, execution_backend="emulator", pass_configs=one_role
    )
    text = kernel.get_kernel_source()
    wait = next(line for line in text.splitlines() if "tl_mbarrier_wait(&empty[" in line)
    rng = np.random.default_rng(0)
    args = rng.standard_normal((m, k)), rng.standard_normal((n, k)), np.zeros((m, n))
    given = [encoded(arg, dtype) for arg, dtype in zip(args, ("float16", "float16", "float32"))]
    for source, checks, kinds in (
        (text, STRICT, set()),
        (text.replace(wait, ""), STRICT[:-1], set()),
        (text.replace(wait, ""), STRICT, {"missing-wait"}),
    ):
        report = tilelang.sanitize(kernel, *given, source=source, checks=checks)
        assert {item.kind for item in report.findings} == kinds, str(report)


def test_parts_of_tiles_by_groups_of_threads() -> None:
    multiplied(sub_tiles, 128, 64, 128, "float16", "float32", False, False)


@T.prim_func
def attention(A: F16[64, 64], B: F16[64, 64], C: F32[64, 64]):
    """A product of a product: the first result stays in registers."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        s = T.alloc_fragment((64, 64), "float32")
        p = T.alloc_fragment((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, s, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            p[i, j] = s[i, j] - 1
        T.gemm(p, b, c, clear_accum=True)
        T.copy(c, C)


def test_a_result_is_the_operand_of_the_next_product() -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, (64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    kernel = tilelang.compile(attention, target=SM_90A, execution_backend="emulator")
    text = kernel.get_kernel_source()
    assert "_ss<" in text
    assert "_rs<" in text
    assert "shfl" not in text
    report = tilelang.sanitize(kernel, a, b, c, seed=1)
    assert report.ok, str(report)
    wide = a.astype(np.float32) @ b.astype(np.float32) - 1
    assert np.array_equal(report.arguments[2], wide @ b.astype(np.float32))


@T.prim_func
def in_flight(A: F16[64, 128], B: F16[128, 64], C: F32[64, 64]):
    """Tiles are overwritten, and sums read, without a wait for the product."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A[0, 0], a)
        T.copy(B[0, 0], b)
        T.wgmma_gemm(a, b, c, clear_accum=True)
        T.copy(A[0, 64], a)
        T.copy(B[64, 0], b)
        T.gemm(a, b, c, wg_wait=-1)
        T.copy(c, C)
        T.wait_wgmma(0)


def test_products_without_a_wait_are_complete_before_the_barrier() -> None:
    """One thread overwrites what the products of all warps read."""
    multiplied(in_flight, 64, 64, 128, "float16", "float32", False, False)


@T.prim_func
def other_names(A: F16[64, 64], B: F16[64, 64], C: F32[64, 64]):
    """Tiles behind one whose size is not a multiple of the pattern: one has another name, and the
    layout of the other one is the swizzle written as one number."""
    with T.Kernel(1, threads=128):
        flat = T.alloc_shared((64 * 64,), "float16")
        more = T.alloc_shared((2080,), "float32")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        a = T.view(flat, (64, 64))
        T.annotate_layout(
            {b: T.Layout((64, 64), lambda i, j: i * 64 + (j // 8 ^ i % 8) * 8 + j % 8)}
        )
        T.clear(more)
        T.copy(A, a)
        T.copy(B, b)
        T.gemm(a, b, c, clear_accum=True)
        for i, j in T.Parallel(64, 64):
            c[i, j] += more[i]
        T.copy(c, C)


def test_tiles_begin_where_the_pattern_of_addresses_does() -> None:
    multiplied(other_names, 64, 64, 64, "float16", "float32", False, False)


# -- what a statement is there for ---------------------------------------------------------------
@T.prim_func
def computed(A: F16[64, 64], B: F16[128, 64], C: F32[64, 64]):
    """Tiles that loops write, and that copies bring."""
    with T.Kernel(1, threads=128):
        a = T.alloc_shared((64, 64), "float16")
        b = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        for i, j in T.Parallel(64, 64):
            a[i, j] = A[j, i] + 1
        T.clear(c)
        for k in T.Pipelined(2, num_stages=2):
            T.copy(B[k * 64, 0], b)
            T.gemm(a, b, c)
        for i, j in T.Parallel(64, 64):
            c[i, j] = c[i, j] * 2
        T.copy(c, C)


WANTED = {
    "remove tl_fence_proxy_async": {"missing-proxy-fence"},
    "remove tl_wgmma_commit": {"missing-wait", "race", "async-unfinished"},
    "remove tl_wgmma_wait": {"missing-wait", "race", "async-unfinished"},
    "weaken tl_wgmma_wait": {"missing-wait", "race", "async-unfinished"},
}


def test_every_fence_commit_and_wait_is_missed() -> None:
    rng = np.random.default_rng(0)
    data = rng.standard_normal((64, 64)), rng.standard_normal((128, 64))
    args = (*(array.astype(np.float16) for array in data), np.zeros((64, 64), np.float32))
    runner = Runner(Case("computed", computed, (), args, ()), "sm_90a")
    assert runner.report(checks=("races", "bounds")).ok
    seen = dict.fromkeys(WANTED, 0)
    for mutant in mutants(runner.source):
        if mutant.kind in seen or mutant.kind == "remove tl_wgmma_fence":
            kinds, _ = mutate.findings(runner, mutant)
            assert kinds, f"{mutant.kind} in line {mutant.line}: {mutant.before}"
            if mutant.kind in seen:
                seen[mutant.kind] += 1
                assert set(kinds) & WANTED[mutant.kind], (mutant.kind, kinds)
    assert all(seen.values())
