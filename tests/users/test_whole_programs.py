"""Whole programs as people write them who have read the documentation, beside plain numpy.

Each function gives a program, the positions of its results, its arguments, what numpy computes, how
far a result may be from that, and the arguments that the program writes where it has no results.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tensor_types import BF16, F16, F32, F64, I8, I16, I32, I64, U8

import tilelang
import tilelang.language as T

HOW: dict[str, dict[str, Any]] = {
    "interpret": {"target": "cpu", "execution_backend": "interpret"},
    "cpu": {"target": "cpu"},
    "sm_80": {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    "sm_90a": {"target": "cuda -arch=sm_90a", "execution_backend": "emulator"},
}
PROGRAMS: list[Callable[[], Any]] = []
rng = np.random.default_rng(1)


def program(make: Callable[[], Any]) -> Callable[[], Any]:
    PROGRAMS.append(make)
    return make


def N(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def as_float64(value: Any) -> Any:
    value = value.double().numpy() if hasattr(value, "double") else np.asarray(value)
    return value.astype(np.float64)


@program
def layernorm_residual_dropout() -> Any:
    M, D = 7, 100

    @T.prim_func
    def k(
        X: F16[M, D], R: F16[M, D], mask: T.Tensor((M, D), "bool"), w: F32[D], b: F32[D],
        Y: F16[M, D], S: F16[M, D],
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(M, 2), threads=128) as bx:
            x = T.alloc_fragment((2, D), "float32")
            r = T.alloc_fragment((2, D), "float32")
            sq = T.alloc_fragment((2, D), "float32")
            mu = T.alloc_fragment((2,), "float32")
            va = T.alloc_fragment((2,), "float32")
            T.copy(X[bx * 2, 0], x)
            T.copy(R[bx * 2, 0], r)
            for i, j in T.Parallel(2, D):
                x[i, j] = T.if_then_else(mask[bx * 2 + i, j], x[i, j] / 0.9, 0.0) + r[i, j]
            T.copy(x, S[bx * 2, 0])
            T.reduce_sum(x, mu, dim=-1)
            for i, j in T.Parallel(2, D):
                x[i, j] -= mu[i] / D
                sq[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(sq, va, dim=1)
            for i, j in T.Parallel(2, D):
                x[i, j] = x[i, j] * T.rsqrt(va[i] / D + 1e-5) * w[j] + b[j]
            T.copy(x, Y[bx * 2, 0])

    x, r = N(M, D).astype(np.float16), N(M, D).astype(np.float16)
    m = rng.random((M, D)) > 0.1
    w, b = N(D), N(D)
    s = np.where(m, x.astype(np.float32) / 0.9, 0) + r.astype(np.float32)
    y = (s - s.mean(1, keepdims=True)) / np.sqrt(s.var(1, keepdims=True) + 1e-5) * w + b
    return k, [-2, -1], (x, r, m, w, b), (y, s), 5e-3


@program
def segsum() -> Any:
    n, g, d = 53, 6, 10

    @T.prim_func
    def k(X: F64[n, d], off: I64[g + 1], Y: F64[g, d]):
        with T.Kernel(g, threads=32) as s:
            acc = T.alloc_fragment((d,), "float64")
            T.clear(acc)
            for r in T.serial(off[s + 1] - off[s]):
                for j in T.Parallel(d):
                    acc[j] += X[off[s] + r, j]
            T.copy(acc, Y[s, 0])

    x = rng.standard_normal((n, d))
    cut = np.sort(rng.integers(0, n, g - 1))
    off = np.concatenate([[0], cut, [n]]).astype(np.int64)
    return k, 2, (x, off), np.stack([x[off[i] : off[i + 1]].sum(0) for i in range(g)])


@program
def stencil5() -> Any:
    H, W = 30, 45
    B = 16

    @T.prim_func
    def k(X: F32[H, W], Y: F32[H, W]):
        with T.Kernel(T.ceildiv(W, B), T.ceildiv(H, B), threads=128) as (bx, by):
            t = T.alloc_shared((B + 2, B + 2), "float32")
            T.copy(X[by * B - 1 : by * B + B + 1, bx * B - 1 : bx * B + B + 1], t)
            for i, j in T.Parallel(B, B):
                if by * B + i < H and bx * B + j < W:
                    Y[by * B + i, bx * B + j] = (
                        t[i + 1, j + 1] * 4
                        - t[i, j + 1]
                        - t[i + 2, j + 1]
                        - t[i + 1, j]
                        - t[i + 1, j + 2]
                    )

    x = N(H, W)
    p = np.pad(x, 1)
    return k, -1, (x,), 4 * x - p[:-2, 1:-1] - p[2:, 1:-1] - p[1:-1, :-2] - p[1:-1, 2:], 1e-4


@program
def cholesky() -> Any:
    b, n = 4, 9

    @T.prim_func
    def k(A: F32[b, n, n], L: F32[b, n, n]):
        with T.Kernel(b, threads=32) as z:
            a = T.alloc_shared((n, n), "float32")
            T.copy(A[z, 0, 0], a)
            for c in T.serial(n):
                a[c, c] = T.sqrt(a[c, c])
                for i in T.Parallel(n):
                    if i > c:
                        a[i, c] = a[i, c] / a[c, c]
                for i, j in T.Parallel(n, n):
                    if i > c and j > c and i >= j:
                        a[i, j] -= a[i, c] * a[j, c]
            for i, j in T.Parallel(n, n):
                L[z, i, j] = T.if_then_else(i >= j, a[i, j], 0)

    m = N(b, n, n)
    a = m @ m.transpose(0, 2, 1) + n * np.eye(n, dtype=np.float32)
    return k, -1, (a,), np.linalg.cholesky(a), 1e-3


@program
def fft_step() -> Any:
    n = 16

    @T.prim_func
    def k(X: F32[n, 2], Y: F32[n, 2]):
        with T.Kernel(1, threads=n):
            a = T.alloc_shared((n, 2), "float32")
            b = T.alloc_shared((n, 2), "float32")
            T.copy(X, a)
            for p in T.unroll(4):
                h = 1 << p
                for i in T.Parallel(n // 2):
                    kk = i & (h - 1)
                    w = -3.14159265358979 * kk / h
                    re = a[i + n // 2, 0] * T.cos(w) - a[i + n // 2, 1] * T.sin(w)
                    im = a[i + n // 2, 0] * T.sin(w) + a[i + n // 2, 1] * T.cos(w)
                    j = ((i - kk) << 1) + kk
                    b[j, 0] = a[i, 0] + re
                    b[j, 1] = a[i, 1] + im
                    b[j + h, 0] = a[i, 0] - re
                    b[j + h, 1] = a[i, 1] - im
                T.copy(b, a)
            T.copy(a, Y)

    x = N(n, 2)
    f = np.fft.fft(x[:, 0] + 1j * x[:, 1])
    return k, -1, (x,), np.stack([f.real, f.imag], 1), 1e-4


@program
def sliding_window_attention() -> Any:
    S, D, W = 50, 32, 9
    BM = 16

    @T.prim_func
    def k(Q: F16[S, D], K: F16[S, D], V: F16[S, D], O: F16[S, D]):
        with T.Kernel(T.ceildiv(S, BM), threads=128) as bx:
            q = T.alloc_shared((BM, D), "float16")
            kk = T.alloc_shared((BM, D), "float16")
            v = T.alloc_shared((BM, D), "float16")
            s = T.alloc_fragment((BM, BM), "float32")
            p = T.alloc_fragment((BM, BM), "float16")
            acc = T.alloc_fragment((BM, D), "float32")
            m = T.alloc_fragment((BM,), "float32")
            mp = T.alloc_fragment((BM,), "float32")
            l = T.alloc_fragment((BM,), "float32")
            ls = T.alloc_fragment((BM,), "float32")
            T.copy(Q[bx * BM, 0], q)
            T.fill(acc, 0)
            T.fill(l, 0)
            T.fill(m, -1e30)
            lo = T.max(0, bx * BM - W + 1) // BM
            for t in T.Pipelined(bx + 1 - lo, num_stages=2):
                kb = (lo + t) * BM
                T.copy(K[kb, 0], kk)
                T.copy(V[kb, 0], v)
                T.clear(s)
                T.gemm(q, kk, s, transpose_B=True)
                for i, j in T.Parallel(BM, BM):
                    d = bx * BM + i - kb - j
                    s[i, j] = T.if_then_else((d >= 0) & (d < W), s[i, j] / D**0.5, -1e30)
                T.copy(m, mp)
                T.reduce_max(s, m, dim=1, clear=False)
                for i, j in T.Parallel(BM, BM):
                    s[i, j] = T.if_then_else(s[i, j] <= -1e29, 0.0, T.exp(s[i, j] - m[i]))
                T.reduce_sum(s, ls, dim=1)
                for i in T.Parallel(BM):
                    l[i] = l[i] * T.exp(mp[i] - m[i]) + ls[i]
                for i, j in T.Parallel(BM, D):
                    acc[i, j] *= T.exp(mp[i] - m[i])
                T.copy(s, p)
                T.gemm(p, v, acc)
            for i, j in T.Parallel(BM, D):
                acc[i, j] /= l[i]
            T.copy(acc, O[bx * BM, 0])

    q, kk, v = (N(S, D).astype(np.float16) for _ in range(3))
    s = q.astype(np.float32) @ kk.astype(np.float32).T / D**0.5
    i = np.arange(S)
    d = i[:, None] - i[None]
    s = np.where((d >= 0) & (d < W), s, -np.inf)
    e = np.exp(s - s.max(1, keepdims=True))
    return k, -1, (q, kk, v), (e / e.sum(1, keepdims=True)) @ v.astype(np.float32), 5e-3


@program
def varlen_softmax_dyn() -> Any:
    B = T.dynamic("B")
    M = T.dynamic("M")
    D = 20

    @T.prim_func
    def k(X: F32[B, M, D], L: I32[B], Y: F32[B, M, D]):
        with T.Kernel(T.ceildiv(M, 4), B, threads=64) as (bx, b):
            x = T.alloc_fragment((4, D), "float32")
            mx = T.alloc_fragment((4,), "float32")
            sm = T.alloc_fragment((4,), "float32")
            for i, j in T.Parallel(4, D):
                ok = (bx * 4 + i < M) & (j < L[b])
                x[i, j] = T.if_then_else(ok, X[b, bx * 4 + i, j], -1e30)
            T.reduce_max(x, mx, dim=1)
            for i, j in T.Parallel(4, D):
                x[i, j] = T.exp(x[i, j] - mx[i])
            T.reduce_sum(x, sm, dim=1)
            for i, j in T.Parallel(4, D):
                x[i, j] = x[i, j] / sm[i]
            T.copy(x, Y[b, bx * 4 : bx * 4 + 4, :])

    x = N(3, 7, D)
    L = np.array([5, 20, 1], np.int32)
    s = np.where(np.arange(D) < L[:, None, None], x, -np.inf)
    e = np.exp(s - s.max(-1, keepdims=True))
    return k, -1, (x, L), e / e.sum(-1, keepdims=True), 1e-5


@program
def batched_bf16() -> Any:
    torch = pytest.importorskip("torch", reason="has bfloat16 and views")
    B, M, N_, K = 3, 33, 40, 48

    @T.prim_func
    def k(A: BF16[B, M, K], Bm: BF16[B, N_, K], C: BF16[B, M, N_]):
        with T.Kernel(T.ceildiv(N_, 32), T.ceildiv(M, 32), B, threads=128) as (bx, by, bz):
            a = T.alloc_shared((32, 16), "bfloat16")
            b = T.alloc_shared((32, 16), "bfloat16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for kk in T.Pipelined(K // 16, num_stages=2):
                T.copy(A[bz, by * 32, kk * 16], a)
                T.copy(Bm[bz, bx * 32, kk * 16], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[bz, by * 32, bx * 32])

    torch.manual_seed(0)
    a = torch.randn(B, M, K).bfloat16()
    b = torch.randn(B, N_, K).bfloat16()
    return k, -1, (a, b), (a.float() @ b.float().transpose(1, 2)).numpy(), 4e-2


@program
def reduce_middle() -> Any:
    A_, B_, C_ = 3, 11, 5

    @T.prim_func
    def k(X: I64[A_, B_, C_], Y: I64[A_, C_], Z: I64[A_, 1, C_], W: I64[B_, C_]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((A_, B_, C_), "int64")
            y = T.alloc_fragment((A_, C_), "int64")
            z = T.alloc_fragment((A_, 1, C_), "int64")
            w = T.alloc_fragment((B_, C_), "int64")
            T.copy(X, x)
            T.reduce_sum(x, y, dim=1)
            T.reduce_max(x, z, dim=-2)
            T.reduce_min(x, w, dim=0)
            T.copy(y, Y)
            T.copy(z, Z)
            T.copy(w, W)

    x = rng.integers(-(2**40), 2**40, (A_, B_, C_))
    return k, [1, 2, 3], (x,), (x.sum(1), x.max(1, keepdims=True), x.min(0)), 0


@program
def macro_closure() -> Any:
    @dataclass(frozen=True)
    class Cfg:
        m: int = 20
        n: int = 36
        block: int = 16
        dtype: str = "float32"
        act: str = "silu"

    cfg = Cfg()

    @T.macro
    def silu(x):
        return x / (1.0 + T.exp(-x))

    acts = {"silu": silu, "relu": lambda x: T.max(x, 0.0)}

    @T.macro
    def apply(t, f):
        for i, j in T.Parallel(*t.shape):
            t[i, j] = f(t[i, j])

    @T.prim_func
    def k(X: T.Tensor((cfg.m, cfg.n), cfg.dtype), Y: T.Tensor((cfg.m, cfg.n), cfg.dtype)):
        with T.Kernel(T.ceildiv(cfg.n, cfg.block), T.ceildiv(cfg.m, cfg.block), threads=64) as (
            bx,
            by,
        ):
            t = T.alloc_fragment((cfg.block, cfg.block), cfg.dtype)
            T.copy(X[by * cfg.block, bx * cfg.block], t)
            apply(t, acts[cfg.act])
            T.copy(t, Y[by * cfg.block, bx * cfg.block])

    x = N(cfg.m, cfg.n)
    return k, -1, (x,), x / (1 + np.exp(-x)), 1e-4


@program
def strided_input() -> Any:
    m, n = T.dynamic("m"), T.dynamic("n")
    s = T.dynamic("s")

    @T.prim_func
    def k(X: T.StridedTensor((m, n), (s, 1), "float32"), Y: F32[n, m]):
        with T.Kernel(T.ceildiv(n, 16), T.ceildiv(m, 16), threads=64) as (bx, by):
            t = T.alloc_shared((16, 16), "float32")
            T.copy(X[by * 16, bx * 16], t)
            for i, j in T.Parallel(16, 16):
                if bx * 16 + i < n and by * 16 + j < m:
                    Y[bx * 16 + i, by * 16 + j] = t[j, i]

    x = N(25, 60)
    torch = pytest.importorskip("torch", reason="has bfloat16 and views")
    xt = torch.from_numpy(x)[:, 7:40]
    return k, -1, (xt,), x[:, 7:40].T


@program
def conv1d_dw() -> Any:
    B, L, C, K = 2, 29, 10, 4

    @T.prim_func
    def k(X: F32[B, L, C], W: F32[C, K], Y: F32[B, L, C]):
        with T.Kernel(T.ceildiv(L, 8), B, threads=32) as (bx, b):
            acc = T.alloc_fragment((8, C), "float32")
            T.clear(acc)
            for t in range(K):
                for i, c in T.Parallel(8, C):
                    p = bx * 8 + i + t - (K - 1)
                    if p >= 0 and p < L:
                        acc[i, c] += X[b, p, c] * W[c, t]
            T.copy(acc, Y[b, bx * 8, 0])

    x, w = N(B, L, C), N(C, K)
    p = np.pad(x, ((0, 0), (K - 1, 0), (0, 0)))
    y = sum(p[:, t : t + L] * w[:, t] for t in range(K))
    return k, -1, (x, w), y, 1e-4


@program
def argmax_f64_rows() -> Any:
    M, D = 6, 19

    @T.prim_func
    def k(X: F64[M, D], I: I64[M], mx: F64[M]):
        with T.Kernel(1, threads=96):
            x = T.alloc_fragment((M, D), "float64")
            top = T.alloc_fragment((M,), "float64")
            ix = T.alloc_fragment((M, D), "int64")
            best = T.alloc_fragment((M,), "int64")
            T.copy(X, x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(M, D):
                ix[i, j] = T.if_then_else(x[i, j] == top[i], j, D)
            T.reduce_min(ix, best, dim=1)
            T.copy(best, I)
            T.copy(top, mx)

    x = rng.standard_normal((M, D))
    return k, [1, 2], (x,), (x.argmax(1), x.max(1)), 0


@program
def bool_logic() -> Any:
    n = 77

    @T.prim_func
    def k(
        A: T.Tensor((n,), "bool"), B: T.Tensor((n,), "bool"), X: T.Tensor((n,), "bool"),
        Y: T.Tensor((n,), "bool"), c: I32[1],
    ):  # fmt: skip
        with T.Kernel(1, threads=128):
            f = T.alloc_fragment((n,), "int32")
            s = T.alloc_fragment((1,), "int32")
            for i in T.Parallel(n):
                X[i] = A[i] ^ B[i]
                Y[i] = ~A[i] | (A[i] & B[i])
                f[i] = T.cast(A[i], "int32")
            T.reduce_sum(f, s, dim=0)
            T.copy(s, c)

    a, b = rng.random(n) > 0.5, rng.random(n) > 0.5
    return k, [2, 3, 4], (a, b), (a ^ b, ~a | (a & b), np.array([a.sum()])), 0


@program
def inplace_scan_scalar() -> Any:
    m, n = 6, 40

    @T.prim_func
    def k(A: F32[m, n], B: F32[m, n], H: F32[m, n], alpha: T.float32, steps: T.int32):
        with T.Kernel(m, threads=1) as r:
            h = T.alloc_var("float32", 0.0)
            for t in T.serial(steps):
                h = alpha * A[r, t] * h + B[r, t]
                H[r, t] = h

    a, b = N(m, n), N(m, n)
    H = np.zeros((m, n), np.float32)
    h = np.zeros(m, np.float32)
    for t in range(33):
        h = np.float32(0.5) * a[:, t] * h + b[:, t]
        H[:, t] = h
    return k, None, (a, b, np.zeros((m, n), np.float32), 0.5, 33), H, 1e-4, [2]


@program
def bits_of_narrow_integers() -> Any:
    @T.prim_func
    def k(A: I8[256], B: U8[256], C: I16[256], D: I32[7, 256]):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(256):
                D[0, i] = T.popcount(A[i])
                D[1, i] = T.popcount(C[i])
                D[2, i] = T.clz(A[i])
                D[3, i] = T.clz(B[i])
                D[4, i] = T.clz(C[i])
                D[5, i] = T.call_extern("int32", "__popc", A[i])
                D[6, i] = T.call_extern("int32", "__clz", B[i])

    b = np.arange(256)
    a, c = b.astype(np.uint8).view(np.int8), (b * 257).astype(np.uint16).view(np.int16)

    def ones(values: Any, bits: int) -> Any:
        return [bin(int(x) & ((1 << bits) - 1)).count("1") for x in values]

    def zeros(values: Any, bits: int) -> Any:
        return [bits - (int(x) & ((1 << bits) - 1)).bit_length() for x in values]

    rows = [
        ones(a, 8),
        ones(c, 16),
        zeros(a, 8),
        zeros(b, 8),
        zeros(c, 16),
        ones(a, 32),
        zeros(b, 32),
    ]
    return k, -1, (a, b.astype(np.uint8), c), np.array(rows)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("make", PROGRAMS, ids=lambda make: make.__name__)
def test_a_program_agrees_with_numpy(make: Callable[[], Any], how: str) -> None:
    func, results, args, want, *more = make()
    tolerance = more[0] if more else 1e-5
    args = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    found = tilelang.compile(func, out_idx=results, **HOW[how])(*args)
    if results is None:
        found = [args[index] for index in more[1]]
    pairs = [found, want] if isinstance(want, tuple) else [[found], [want]]
    if results is None and not isinstance(want, tuple):
        pairs = [found, [want]]
    assert len(pairs[0]) == len(pairs[1])
    for got, expected in zip(*pairs):
        assert got.shape == expected.shape
        np.testing.assert_allclose(
            as_float64(got), as_float64(expected), rtol=tolerance, atol=tolerance
        )
