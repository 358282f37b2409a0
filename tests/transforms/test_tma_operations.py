"""Operations that use TMA, compared with numpy: in the emulator, which looks for races,
lowered in the interpreter, and through the assembler."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from __future__ import annotations

import numpy as np
import pytest
from executors import SM_90A, compiled, holds
from tensor_types import F16, F32
from test_tma_programs import HOPPER, lowered_holds, numbers

import tilelang.language as T
from tilelang.cuda.nvrtc import find_nvrtc
from tilelang.cuda.toolchain import compile_cubin, find_nvcc
from tilelang.explain.report import explain
from tilelang.options import Options
from tilelang.target import parse_target


def notes(func) -> list[str]:
    """What the report says of copies and updates."""
    lines = explain(func, HOPPER, Options()).splitlines()
    return [line.strip() for line in lines if line.strip().startswith(("copy:", "update:"))]


# -- updates of tiles ------------------------------------------------------------------------------
def summed(dtype, M=100, N=192, loops=2, where="shared", order=None):
    """All tiles of a tensor, added up in one of their size."""

    @T.prim_func
    def tma_summed(A: T.Tensor((M, N), dtype), C: T.Tensor((64, 64), dtype)):
        with T.Kernel(T.ceildiv(M, 64), T.ceildiv(N, 64), threads=128) as (bx, by):
            s = T.alloc_shared((64, 64), dtype)
            r = T.alloc_fragment((64, 64), dtype)
            for _ in T.serial(loops):
                T.copy(A[bx * 64, by * 64], s)
                T.copy(s, r)
                added = s if where == "shared" else r
                T.atomic_add(C[0, 0], added, use_tma=True, memory_order=order)

    return tma_summed


def the_sum(a: np.ndarray, loops: int) -> np.ndarray:
    padded = np.zeros((128, 192), a.dtype)
    padded[: a.shape[0], : a.shape[1]] = a
    return (1 + loops * padded.reshape(2, 64, 3, 64).sum((0, 2))).astype(a.dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "uint32", "uint64"])
def test_tiles_are_added_by_the_unit(dtype: str) -> None:
    func = summed(dtype)
    text = compiled(func, SM_90A).get_kernel_source()
    assert text.count("tl_tma_reduce_add(") == 1 and "atomic" not in text
    a = numbers(100, 192, dtype=dtype) % 4
    given, wanted = (a, np.ones((64, 64), dtype)), the_sum(a, 2)
    holds(func, given, wanted)
    lowered_holds(func, given, wanted)
    assert notes(func)[-1] == "update: TMA"


def test_updates_wait_only_before_a_read() -> None:
    @T.prim_func
    def tma_read_back(A: F32[64, 64], C: F32[64, 64], D: F32[1, 64, 64]):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float32")
            for n in T.serial(2):
                T.copy(A, s)
                T.atomic_add(C[0, 0], s, use_tma=True)
                T.copy(C, s)
                T.copy(s, D[0, :, :])

    text = compiled(summed("float32"), SM_90A).get_kernel_source()
    assert "tl_bulk_wait_read<0>" in text and "tl_bulk_wait<0>" not in text
    assert "tl_bulk_wait<0>" in compiled(tma_read_back, SM_90A).get_kernel_source()
    a = numbers(64, 64, dtype="float32")
    holds(tma_read_back, (a, 0 * a, np.zeros((1, 64, 64), np.float32)), 2 * a[None])


@pytest.mark.parametrize(
    ("func", "why"),
    [
        (summed("float32", where="fragment"), "it is not a copy between global and shared memory"),
        (summed("float64"), "TMA has no `add` of float64"),
        (summed("float32", order="release"), "its memory order is release"),
    ],
)
def test_updates_unsupported_by_tma_use_threads(func, why: str) -> None:
    text = compiled(func, SM_90A).get_kernel_source()
    assert "tl_tma_reduce" not in text and "tl_atomic_add" in text
    assert f"update: without TMA: {why}" in notes(func)
    dtype = str(func.buffers[0].dtype)
    a = numbers(100, 192, dtype=dtype) % 4
    holds(func, (a, np.ones((64, 64), dtype)), the_sum(a, 2), on=(SM_90A,))


def test_older_targets_and_switches_leave_updates_to_threads() -> None:
    func, reason = summed("float32"), "update: without TMA:"
    assert f"{reason} tl.disable_tma_lower\n" in explain(func, HOPPER, Options(no_tma=True))
    ampere = parse_target("cuda -arch=sm_80")
    assert f"{reason} the target has no tensor maps\n" in explain(func, ampere, Options())


# -- cache policies --------------------------------------------------------------------------------
def hinted(load: str | None, store: str | None, dtype="float16"):
    """A tensor through tiles, with a policy for each way."""

    @T.prim_func
    def tma_hinted(A: T.Tensor((128, 128), dtype), B: T.Tensor((128, 128), dtype)):
        with T.Kernel(2, 2, threads=128) as (bx, by):
            s = T.alloc_shared((64, 64), dtype)
            T.copy(A[bx * 64, by * 64], s, eviction_policy=load)
            T.copy(s, B[bx * 64, by * 64], eviction_policy=store)

    return tma_hinted


def test_boxes_carry_the_policies_of_copies() -> None:
    func = hinted("evict_first", "evict_last")
    text = compiled(func, SM_90A).get_kernel_source()
    assert "tl_tma_load_hint(s, &A_map, loaded, 0x12f0000000000000ull, by * 64, bx * 64)" in text
    assert "tl_tma_store_hint(&B_map, s, 0x14f0000000000000ull, by * 64, bx * 64)" in text
    a = numbers(128, 128)
    holds(func, (a, 0 * a), a)
    lowered_holds(func, (a, 0 * a), a)
    assert notes(func) == [
        "copy: TMA, evict_first in the L2 cache",
        "copy: TMA, evict_last in the L2 cache",
    ]


@pytest.mark.parametrize("policy", [None, "evict_normal"])
def test_the_usual_policy_is_no_hint(policy: str | None) -> None:
    text = compiled(hinted(policy, policy), SM_90A).get_kernel_source()
    assert "tl_tma_load(" in text and "tl_tma_store(" in text and "_hint(" not in text


def test_a_policy_that_nothing_carries_is_reported() -> None:
    @T.prim_func
    def tma_unhinted(A: F16[64, 64], B: F16[64, 64]):
        with T.Kernel(1, threads=128):
            r = T.alloc_fragment((64, 64), "float16")
            T.copy(A, r, eviction_policy="evict_first")
            T.copy(r, B)

    assert "copy: 'evict_first' is for TMA copies only" in notes(tma_unhinted)


# -- instructions that copies ask for --------------------------------------------------------------
def small(columns=32, **asked):
    """A tile that is too small for a barrier of its own."""

    @T.prim_func
    def tma_small(A: F16[64, columns], B: F16[64, columns]):
        with T.Kernel(4, threads=64) as bx:
            s = T.alloc_shared((16, 32), "float16")
            T.copy(A[bx * 16, 0], s, **asked)
            for i, j in T.Parallel(16, 32):
                B[bx * 16 + i, j] = s[i, j] + 1

    return tma_small


def test_an_explicit_small_tma_copy_uses_tma() -> None:
    assert "tl_tma_load(" not in compiled(small(), SM_90A).get_kernel_source()
    func = small(prefer_instruction="tma")
    assert "tl_tma_load(" in compiled(func, SM_90A).get_kernel_source()
    a = numbers(64, 32)
    holds(func, (a, 0 * a), a + 1)
    lowered_holds(func, (a, 0 * a), a + 1)
    assert notes(func) == ["copy: TMA"]


# -- the assembler ---------------------------------------------------------------------------------
@pytest.mark.skipif(find_nvrtc() is None and find_nvcc() is None, reason="needs NVRTC or nvcc")
@pytest.mark.parametrize(
    "func", [summed("float32"), summed("float16"), hinted("evict_first", "evict_last")]
)
def test_the_assembler_accepts_them(func) -> None:
    source = compiled(func, SM_90A).get_kernel_source()
    assert compile_cubin(source, "sm_90a").cubin[:4] == b"\x7fELF"
