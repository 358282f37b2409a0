"""A barrier between two others goes where these order all that it did, and only there."""

from __future__ import annotations

import math

import numpy as np
import pytest
from contexts import OWN_BARRIERS, SM_80

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target
from tilelang.transforms.sync.eliminate_barriers import eliminate_barriers

ROWS, COLUMNS, HEADS, WIDTH, ROPE, KEYS = 4, 2048, 64, 128, 64, 192


@T.prim_func
def softmax(
    X: T.Tensor((3 * ROWS, COLUMNS), "float32"), Y: T.Tensor((3 * ROWS, COLUMNS), "float32")
) -> None:
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
    Q: T.Tensor((HEADS, WIDTH), "float16"),
    Q_rope: T.Tensor((HEADS, ROPE), "float16"),
    KV: T.Tensor((KEYS, WIDTH), "float16"),
    K_rope: T.Tensor((KEYS, ROPE), "float16"),
    O: T.Tensor((HEADS, WIDTH), "float32"),
) -> None:
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


def test_two_reductions_have_a_barrier_each_and_one_for_the_next_iteration() -> None:
    assert meetings(softmax, "cuda -arch=sm_80") == 3  # of four
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


@T.prim_func
def by_hand(
    A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "float32")
) -> None:
    """Three barriers; what stands on either side of the middle one meets, or does not."""
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        one = T.alloc_shared((64,), "float32")
        two = T.alloc_shared((64,), "float32")
        T.sync_threads()
        one[tx] = A[tx]
        T.sync_threads()
        two[tx] = A[63 - tx]
        T.sync_threads()
        B[tx] = one[63 - tx]
        C[tx] = two[63 - tx]


def kept(func: S.PrimFunc) -> int:
    return str(eliminate_barriers(func, SM_80).script()).count("sync_threads")


def test_neighbours_that_touch_nothing_of_each_other_need_no_barrier() -> None:
    assert kept(by_hand) == 2


def test_programs_that_place_all_barriers_keep_them() -> None:
    assert eliminate_barriers(by_hand, OWN_BARRIERS) is by_hand


def test_what_one_side_writes_and_the_other_reads_keeps_its_barrier() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            one = T.alloc_shared((64,), "float32")
            two = T.alloc_shared((64,), "float32")
            T.sync_threads()
            one[tx] = A[tx]
            T.sync_threads()
            two[tx] = one[63 - tx]
            T.sync_threads()
            B[tx] = two[63 - tx]

    assert eliminate_barriers(kernel, SM_80) is kernel


def test_an_arrival_of_some_keeps_the_barrier_before_it() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):  # type: ignore[no-untyped-def]  # a traced function
        with T.Kernel(1, threads=64):
            tx = T.get_thread_binding()
            one = T.alloc_shared((64,), "float32")
            bar = T.alloc_barrier(1)
            T.sync_threads()
            one[tx] = A[tx]
            T.sync_threads()
            if tx == 0:
                T.mbarrier_arrive(bar[0])
            T.sync_threads()
            B[tx] = one[tx]

    assert eliminate_barriers(kernel, SM_80) is kernel
