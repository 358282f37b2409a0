"""Reads of parallel loops in pipelined loops: staged where they form a small shared tile."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from contexts import SM_80
from tensor_types import F16, F32
from thread_races import simulate

import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.ir.visitor import rewrite_launches
from tilelang.options import Options
from tilelang.transforms.normalize.simplify import simplify_func
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.prefetch_reads import prefetch_reads

N, K, BLOCK = 48, 512, 128


def scaled(group: int, stages: int = 2, guarded: bool = False, changed: bool = False) -> Any:
    """Rows times a scale for each ``group`` of columns, summed over blocks of columns."""

    @T.prim_func
    def kernel(A: F32[N, K], scales: F16[N, K // group], C: F32[64, BLOCK]):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, BLOCK), "float32")
            total = T.alloc_fragment((64, BLOCK), "float32")
            T.clear(total)
            for k in T.Pipelined(K // BLOCK, num_stages=stages):
                T.copy(A[0:64, k * BLOCK : (k + 1) * BLOCK], tile)
                for i, j in T.Parallel(64, BLOCK):
                    if guarded:
                        if i < 40:
                            total[i, j] += tile[i, j] * scales[i, (k * BLOCK + j) // group]
                    else:
                        total[i, j] += tile[i, j] * scales[i, (k * BLOCK + j) // group]
                if changed:
                    T.atomic_add(scales[0, 0], T.float16(0))
            T.copy(total, C)

    return kernel


def copies(func: S.PrimFunc) -> list[str]:
    """Sources of the copies to shared memory."""
    facts = Facts(frozenset(), SM_80)
    found = rewrite_launches(
        simplify_func(func, SM_80), lambda launch: prefetch_reads(launch, facts)
    )
    return [n.src.buffer.name for n in S.walk(found.body)
            if isinstance(n, S.Copy) and n.dst.buffer.storage.startswith("shared")]  # fmt: skip


@pytest.mark.parametrize(("group", "stages"), [(16, 2), (64, 3)])
def test_a_staged_tile_reads_the_same(group: int, stages: int) -> None:
    rng = np.random.default_rng(group)
    a = rng.standard_normal((N, K)).astype(np.float32)
    scales = rng.standard_normal((N, K // group)).astype(np.float16)
    c = np.zeros((64, BLOCK), np.float32)
    func = scaled(group, stages)
    assert copies(func) == ["scales", "A"]
    func = lower(func, SM_80.target, Options())
    simulate(func.body, dict(zip(func.params, (a, scales, c), strict=True)))
    products = a * np.repeat(scales, group, axis=1).astype(np.float32)
    expected = np.zeros((64, BLOCK), np.float32)  # rows beyond the arrays read as 0
    expected[:N] = products.reshape(N, -1, BLOCK).sum(1)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "func",
    [
        scaled(1),  # as large as the loop
        scaled(128),  # one number a row: hardware copies at least four bytes
        scaled(48),  # groups do not end with blocks
        scaled(32, guarded=True),  # reads that may not happen
        scaled(32, changed=True),
        scaled(32, stages=1),  # no pipeline
    ],
)
def test_other_reads_stay_in_place(func: S.PrimFunc) -> None:
    assert copies(func) == ["A"]


def column(threads: int, rows: int = 64) -> Any:
    """Rows of A times a column of scales, one for each row and block of columns."""

    @T.prim_func
    def kernel(A: F32[N, K], scales: F32[N, K // BLOCK], C: F32[rows, BLOCK]):
        with T.Kernel(1, threads=threads):
            tile = T.alloc_shared((rows, BLOCK), "float32")
            factor = T.alloc_shared((rows,), "float32")
            total = T.alloc_fragment((rows, BLOCK), "float32")
            T.clear(total)
            for k in T.Pipelined(K // BLOCK, num_stages=2):
                T.copy(A[0, k * BLOCK], tile)
                for i in T.Parallel(rows):
                    factor[i] = scales[i, k] * 2
                for i, j in T.Parallel(rows, BLOCK):
                    total[i, j] += tile[i, j] * factor[i]
            T.copy(total, C)

    return kernel


def test_a_tile_of_an_element_for_each_thread_is_copied_ahead() -> None:
    assert copies(column(128)) == ["scales", "A"]
    assert copies(column(32)) == ["A"]  # two elements for each thread
    text = lower(column(128), SM_80.target, Options())
    assert any(
        "scales_tile" in str(node) and "cp_async" in str(node)
        for node in S.walk(text.body)
        if isinstance(node, S.Eval)
    )
    rng = np.random.default_rng(0)
    a = rng.standard_normal((N, K)).astype(np.float32)
    scales = rng.standard_normal((N, K // BLOCK)).astype(np.float32)
    c = np.zeros((64, BLOCK), np.float32)
    simulate(text.body, dict(zip(text.params, (a, scales, c), strict=True)))
    expected = np.zeros((64, BLOCK), np.float32)
    expected[:N] = (a.reshape(N, -1, BLOCK) * scales[:, :, None] * 2).sum(1)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-5)
