"""Barriers of the workspaces of reductions: those in them order more, those behind may be absent."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

ROWS, COLUMNS, HEADS, WIDTH, ROPE, KEYS = 4, 2048, 64, 128, 64, 192


@T.prim_func
def softmax(X: F32[3 * ROWS, COLUMNS], Y: F32[3 * ROWS, COLUMNS]) -> None:
    with T.Kernel(1, threads=256):
        tile = T.alloc_fragment((ROWS, COLUMNS), "float32")
        top, total = T.alloc_fragment((ROWS,), "float32"), T.alloc_fragment((ROWS,), "float32")
        for k in T.serial(3):
            T.copy(X[k * ROWS, 0], tile)
            T.reduce_max(tile, top, dim=1)
            for i, j in T.Parallel(ROWS, COLUMNS):
                tile[i, j] = T.exp(tile[i, j] - top[i])
            T.reduce_sum(tile, total, dim=1)
            for i, j in T.Parallel(ROWS, COLUMNS):
                tile[i, j] /= total[i]
            T.copy(tile, Y[k * ROWS, 0])


@T.prim_func
def latent(
    Q: F16[HEADS, WIDTH], Q_rope: F16[HEADS, ROPE], KV: F16[KEYS, WIDTH], K_rope: F16[KEYS, ROPE],
    O: F32[HEADS, WIDTH],
) -> None:  # fmt: skip
    """Attention whose weights go through shared memory, as of ``bench/h200_programs.py``."""
    with T.Kernel(1, threads=256):
        q = T.alloc_shared((HEADS, WIDTH), "float16")
        qr = T.alloc_shared((HEADS, ROPE), "float16")
        kv = T.alloc_shared((64, WIDTH), "float16")
        kr = T.alloc_shared((64, ROPE), "float16")
        weights = T.alloc_shared((HEADS, 64), "float16")
        scores = T.alloc_fragment((HEADS, 64), "float32")
        out = T.alloc_fragment((HEADS, WIDTH), "float32")
        top, before, factor, part, total = (T.alloc_fragment((HEADS,), "float32") for _ in range(5))
        T.copy(Q, q)
        T.copy(Q_rope, qr)
        T.fill(out, 0)
        T.fill(total, 0)
        T.fill(top, -T.infinity("float32"))
        for k in T.Pipelined(KEYS // 64, num_stages=2):
            T.copy(KV[k * 64, 0], kv)
            T.copy(K_rope[k * 64, 0], kr)
            T.clear(scores)
            T.gemm(q, kv, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
            T.gemm(qr, kr, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
            T.copy(top, before)
            T.reduce_max(scores, top, dim=1, clear=False)
            for i in T.Parallel(HEADS):
                factor[i] = T.exp2(before[i] - top[i])
            for i, j in T.Parallel(HEADS, 64):
                scores[i, j] = T.exp2(scores[i, j] - top[i])
            T.reduce_sum(scores, part, dim=1)
            T.copy(scores, weights)
            for i in T.Parallel(HEADS):
                total[i] = total[i] * factor[i] + part[i]
            for i, j in T.Parallel(HEADS, WIDTH):
                out[i, j] *= factor[i]
            T.gemm(weights, kv, out, policy=T.GemmWarpPolicy.FullCol)
        for i, j in T.Parallel(HEADS, WIDTH):
            out[i, j] /= total[i]
        T.copy(out, O)


def meetings(func: S.PrimFunc, target: str, **options: bool) -> int:
    """Barriers in the loops of the lowered program."""
    lowered = lower(func, parse_target(target), Options(**options))
    loops = (node for node in S.walk(lowered.body) if isinstance(node, S.For))
    bodies = (S.walk(loop.body) for loop in loops)
    return sum(
        "sync_threads" in str(node) for body in bodies for node in body if isinstance(node, S.Eval)
    )


def test_two_reductions_of_a_loop_have_a_barrier_each() -> None:
    """Each is between the reads of the other's workspace and the next iteration's writes."""
    assert meetings(softmax, "cuda -arch=sm_80") == 2  # of four
    x = np.random.default_rng(0).standard_normal((3 * ROWS, COLUMNS)).astype(np.float32)
    y = np.empty_like(x)
    kernel = tilelang.compile(softmax, target="cuda -arch=sm_80", execution_backend="emulator")
    assert tilelang.sanitize(kernel, x, y).ok
    kernel(x, y)
    powers = np.exp(x - x.max(1, keepdims=True))
    np.testing.assert_allclose(y, powers / powers.sum(1, keepdims=True), rtol=1e-5, atol=1e-8)


def test_weights_between_products_are_written_without_a_barrier_before() -> None:
    """The products that read them are waited for before the maximum is exchanged."""
    assert meetings(latent, "cuda -arch=sm_90a") == 3  # of six
    rng = np.random.default_rng(1)
    shapes = ((HEADS, WIDTH), (HEADS, ROPE), (KEYS, WIDTH), (KEYS, ROPE))
    given = [(rng.standard_normal(shape) / math.sqrt(8)).astype(np.float16) for shape in shapes]
    out = np.empty((HEADS, WIDTH), np.float32)
    kernel = tilelang.compile(latent, target="cuda -arch=sm_90a", execution_backend="emulator")
    assert tilelang.sanitize(kernel, *given, out, schedule="late").ok
    kernel(*given, out)
    q, qr, kv, kr = (array.astype(np.float64) for array in given)
    powers = np.exp2(q @ kv.T + qr @ kr.T)
    np.testing.assert_allclose(out, powers @ kv / powers.sum(1, keepdims=True), atol=2e-3)


@pytest.mark.parametrize("gone", range(3))
def test_each_that_is_left_is_needed(gone: int) -> None:
    kernel = tilelang.compile(latent, target="cuda -arch=sm_90a", execution_backend="emulator")
    text = kernel.get_kernel_source()
    start = text.index("for (int k = 0; k < 3;")
    parts = text[start:].split("tl_bar_sync(1, 256);")
    edited = (
        text[:start]
        + "tl_bar_sync(1, 256);".join(parts[: gone + 1])
        + "tl_bar_sync(1, 256);".join(["", *parts[gone + 1 :]])[len("tl_bar_sync(1, 256);") :]
    )
    rng = np.random.default_rng(1)
    shapes = ((HEADS, WIDTH), (HEADS, ROPE), (KEYS, WIDTH), (KEYS, ROPE))
    given = [rng.standard_normal(shape).astype(np.float16) for shape in shapes]
    out = np.empty((HEADS, WIDTH), np.float32)
    assert not tilelang.sanitize(kernel, *given, out, schedule="late", source=edited).ok


# -- what stays ----------------------------------------------------------------------------------
@T.prim_func
def leaving(X: F32[4 * ROWS, COLUMNS], Y: F32[4, ROWS]) -> None:
    with T.Kernel(1, threads=256):
        tile = T.alloc_fragment((ROWS, COLUMNS), "float32")
        top, total = T.alloc_fragment((ROWS,), "float32"), T.alloc_fragment((ROWS,), "float32")
        for k in T.serial(4):
            T.copy(X[k * ROWS, 0], tile)
            T.reduce_max(tile, top, dim=1)
            T.copy(top, Y[k, 0])
            if k % 2 == 0:
                continue
            T.reduce_sum(tile, total, dim=1)
            T.copy(total, Y[k, 0])


def test_an_iteration_that_may_end_early_keeps_the_barrier_of_a_workspace() -> None:
    assert meetings(leaving, "cuda -arch=sm_80") == 3  # of four
    x = np.random.default_rng(0).integers(-9, 9, (4 * ROWS, COLUMNS)).astype(np.float32)
    y = np.empty((4, ROWS), np.float32)
    kernel = tilelang.compile(leaving, target="cuda -arch=sm_80", execution_backend="emulator")
    assert tilelang.sanitize(kernel, x, y).ok
    kernel(x, y)
    blocks = x.reshape(4, ROWS, COLUMNS)
    np.testing.assert_array_equal(y[::2], blocks[::2].max(2))
    np.testing.assert_array_equal(y[1::2], blocks[1::2].sum(2))


# -- the next execution ----------------------------------------------------------------------------
def repeated(form: str) -> S.PrimFunc:
    """Row maxima of four tiles, by warps that share a row."""

    @T.prim_func
    def kernel(X: F32[4 * ROWS, COLUMNS], Y: F32[4, ROWS]) -> None:
        with T.Kernel(1, threads=256):
            tile = T.alloc_fragment((ROWS, COLUMNS), "float32")
            top = T.alloc_fragment((ROWS,), "float32")
            if form == "once":
                T.copy(X[0, 0], tile)
                T.reduce_max(tile, top, dim=1)
                T.copy(top, Y[0, 0])
            elif form == "loop":
                for k in T.serial(4):
                    T.copy(X[k * ROWS, 0], tile)
                    T.reduce_max(tile, top, dim=1)
                    T.copy(top, Y[k, 0])
            elif form == "loops":
                for k in T.serial(2):
                    for m in T.serial(2):
                        T.copy(X[(2 * k + m) * ROWS, 0], tile)
                        T.reduce_max(tile, top, dim=1)
                        T.copy(top, Y[2 * k + m, 0])
            elif form == "branch":
                for k in T.serial(4):
                    if k != 2:
                        T.copy(X[k * ROWS, 0], tile)
                        T.reduce_max(tile, top, dim=1)
                        T.copy(top, Y[k, 0])
            else:
                k = T.alloc_var("int32", init=0)
                while k < 4:
                    T.copy(X[k * ROWS, 0], tile)
                    T.reduce_max(tile, top, dim=1)
                    T.copy(top, Y[k, 0])
                    k = k + 1

    return kernel


@pytest.mark.parametrize("form", ["once", "loop", "loops", "branch", "while"])
def test_only_a_reduction_that_is_executed_again_has_a_second_barrier(form: str) -> None:
    kernel = tilelang.compile(
        repeated(form), target="cuda -arch=sm_80", execution_backend="emulator"
    )
    text = kernel.get_kernel_source()
    assert text.count("__syncthreads();") == (1 if form == "once" else 2)
    x = np.random.default_rng(0).integers(-9, 9, (4 * ROWS, COLUMNS)).astype(np.float32)
    y = np.zeros((4, ROWS), np.float32)
    assert tilelang.sanitize(kernel, x, y).ok
    if form != "once":  # without the barrier before the next iteration's writes
        first, second, third = text.split("__syncthreads();")
        edited = f"{first}__syncthreads();{second}{third}"
        assert not tilelang.sanitize(kernel, x, y, source=edited).ok
