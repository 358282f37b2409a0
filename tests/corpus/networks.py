"""Layers of networks: softmax, norms, attention, convolutions, masks, gates."""

from __future__ import annotations

import numpy as np
from tensor_types import F16, F32, I32

import tilelang.language as T

from .registry import F, H, I, Out, program

TOL = {"rtol": 2e-5, "atol": 2e-6}
HALF = {"rtol": 4e-3, "atol": 4e-3}


def _normal(shape, seed=0, dtype=F):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def _softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@program(also=("sm_90a",))
def softmax_of_rows():
    @T.prim_func
    def f(A: F32[10, 50], B: F32[10, 50]):
        with T.Kernel(5, threads=64) as b:
            x = T.alloc_fragment((2, 50), "float32")
            m = T.alloc_fragment((2,), "float32")
            s = T.alloc_fragment((2,), "float32")
            T.copy(A[b * 2, 0], x)
            T.reduce_max(x, m, dim=1)
            for i, j in T.Parallel(2, 50):
                x[i, j] = T.exp(x[i, j] - m[i])
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(2, 50):
                x[i, j] = x[i, j] / s[i]
            T.copy(x, B[b * 2, 0])

    a = _normal((10, 50)) * 5
    return f, [a, Out(_softmax(a), **TOL)]


@program()
def softmax_in_one_pass_over_tiles():
    @T.prim_func
    def f(A: F32[4, 100], B: F32[4, 100]):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((4, 32), "float32")
            m = T.alloc_fragment((4,), "float32")
            old = T.alloc_fragment((4,), "float32")
            s = T.alloc_fragment((4,), "float32")
            p = T.alloc_fragment((4,), "float32")
            T.fill(m, -T.infinity("float32"))
            T.clear(s)
            T.annotate_safe_value({A: -T.infinity("float32")})
            for k in T.serial(4):
                T.copy(A[0, k * 32], x)
                T.copy(m, old)
                T.reduce_max(x, m, dim=1, clear=False)
                for i, j in T.Parallel(4, 32):
                    x[i, j] = T.exp2((x[i, j] - m[i]) * 1.44269504)
                T.reduce_sum(x, p, dim=1)
                for i in T.Parallel(4):
                    s[i] = s[i] * T.exp2((old[i] - m[i]) * 1.44269504) + p[i]
            for k in T.serial(4):
                T.copy(A[0, k * 32], x)
                for i, j in T.Parallel(4, 32):
                    x[i, j] = T.exp2((x[i, j] - m[i]) * 1.44269504) / s[i]
                T.copy(x, B[0, k * 32])

    a = _normal((4, 100), 1) * 4
    return f, [a, Out(_softmax(a), **TOL)]


@program()
def softmax_of_a_row_that_is_masked_whole():
    @T.prim_func
    def f(A: F32[4, 32], M: T.Tensor((4, 32), "bool"), B: F32[4, 32]):
        with T.Kernel(1, threads=32):
            x = T.alloc_fragment((4, 32), "float32")
            m = T.alloc_fragment((4,), "float32")
            s = T.alloc_fragment((4,), "float32")
            for i, j in T.Parallel(4, 32):
                x[i, j] = T.if_then_else(M[i, j], A[i, j], -T.infinity("float32"))
            T.reduce_max(x, m, dim=1)
            for i in T.Parallel(4):
                m[i] = T.if_then_else(m[i] == -T.infinity("float32"), 0.0, m[i])
            for i, j in T.Parallel(4, 32):
                x[i, j] = T.exp(x[i, j] - m[i])
            T.reduce_sum(x, s, dim=1)
            for i, j in T.Parallel(4, 32):
                B[i, j] = T.if_then_else(s[i] == 0, 0.0, x[i, j] / s[i])

    a = _normal((4, 32), 2)
    mask = np.random.default_rng(3).random((4, 32)) < 0.5
    mask[2] = False
    e = np.where(mask, np.exp(a), 0)
    return f, [a, mask, Out((e / np.maximum(e.sum(1, keepdims=True), 1e-30)).astype(F), **TOL)]


@program()
def a_norm_of_rows():
    @T.prim_func
    def f(A: F16[6, 80], G: F32[80], B: F32[80], C: F16[6, 80]):
        with T.Kernel(6, threads=32) as r:
            x = T.alloc_fragment((80,), "float32")
            q = T.alloc_fragment((80,), "float32")
            s = T.alloc_fragment((1,), "float32")
            v = T.alloc_fragment((1,), "float32")
            T.copy(A[r, 0:80], x)
            T.reduce_sum(x, s)
            for j in T.Parallel(80):
                x[j] = x[j] - s[0] / 80
            for j in T.Parallel(80):
                q[j] = x[j] * x[j]
            T.reduce_sum(q, v)
            for j in T.Parallel(80):
                x[j] = x[j] * T.rsqrt(v[0] / 80 + 1e-5) * G[j] + B[j]
            T.copy(x, C[r, 0:80])

    a, g, b = _normal((6, 80), 4, H), _normal(80, 5), _normal(80, 6)
    x = a.astype(F)
    x = x - x.mean(1, keepdims=True)
    want = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-5) * g + b
    return f, [a, g, b, Out(want.astype(H), **HALF)]


@program()
def a_norm_of_squares_with_split_sums():
    @T.prim_func
    def f(A: F32[8, 96], W: F32[96], B: F32[8, 96]):
        with T.Kernel(2, threads=64) as b:
            x = T.alloc_shared((4, 96), "float32")
            part = T.alloc_fragment((4, 32), "float32")
            s = T.alloc_fragment((4,), "float32")
            T.copy(A[b * 4, 0], x)
            T.clear(part)
            for k in T.serial(3):
                for i, j in T.Parallel(4, 32):
                    part[i, j] += x[i, k * 32 + j] * x[i, k * 32 + j]
            T.reduce_sum(part, s, dim=1)
            for i, j in T.Parallel(4, 96):
                B[b * 4 + i, j] = x[i, j] * T.rsqrt(s[i] / 96 + 1e-6) * W[j]

    a, w = _normal((8, 96), 7), _normal(96, 8)
    return f, [a, w, Out((a / np.sqrt((a * a).mean(1, keepdims=True) + 1e-6) * w).astype(F), **TOL)]


def _attention(causal, heads=2, length=64, width=32, stages=2):
    scale = 1.44269504 / width**0.5

    @T.prim_func
    def f(
        Q: F16[heads, length, width],
        K: F16[heads, length, width],
        V: F16[heads, length, width],
        O: F32[heads, length, width],
    ):
        with T.Kernel(T.ceildiv(length, 32), heads, threads=64) as (bx, h):
            q = T.alloc_shared((32, width), "float16")
            k = T.alloc_shared((32, width), "float16")
            v = T.alloc_shared((32, width), "float16")
            p = T.alloc_fragment((32, 32), "float32")
            ph = T.alloc_fragment((32, 32), "float16")
            o = T.alloc_fragment((32, width), "float32")
            m = T.alloc_fragment((32,), "float32")
            old = T.alloc_fragment((32,), "float32")
            s = T.alloc_fragment((32,), "float32")
            part = T.alloc_fragment((32,), "float32")
            T.copy(Q[h, bx * 32, 0], q)
            T.clear(o)
            T.clear(s)
            T.fill(m, -1e30)
            last = T.ceildiv((bx + 1) * 32, 32) if causal else T.ceildiv(length, 32)
            for t in T.Pipelined(last, num_stages=stages):
                T.copy(K[h, t * 32, 0], k)
                T.gemm(q, k, p, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(32, 32):
                    inside = t * 32 + j <= bx * 32 + i if causal else t * 32 + j < length
                    p[i, j] = T.if_then_else(inside, p[i, j], -1e30)
                T.copy(m, old)
                T.reduce_max(p, m, dim=1, clear=False)
                for i, j in T.Parallel(32, 32):
                    p[i, j] = T.exp2((p[i, j] - m[i]) * scale)
                T.reduce_sum(p, part, dim=1)
                for i in T.Parallel(32):
                    old[i] = T.exp2((old[i] - m[i]) * scale)
                    s[i] = s[i] * old[i] + part[i]
                for i, j in T.Parallel(32, width):
                    o[i, j] = o[i, j] * old[i]
                T.copy(p, ph)
                T.copy(V[h, t * 32, 0], v)
                T.gemm(ph, v, o)
            for i, j in T.Parallel(32, width):
                o[i, j] = o[i, j] / s[i]
            T.copy(o, O[h, bx * 32, 0])

    q, k, v = (_normal((heads, length, width), seed, H) for seed in (9, 10, 11))
    score = np.einsum("hid,hjd->hij", q.astype(F), k.astype(F)) / width**0.5
    if causal:
        score = np.where(np.tril(np.ones((length, length), bool)), score, -np.inf)
    want = np.einsum("hij,hjd->hid", _softmax(score), v.astype(F))
    return f, [q, k, v, Out(want.astype(F), rtol=1e-2, atol=5e-3)]


@program(also=("sm_90a",))
def attention():
    return _attention(False)


@program()
def attention_of_what_came_before():
    return _attention(True)


@program()
def attention_with_an_incomplete_last_tile():
    return _attention(False, length=50)


@program()
def attention_without_stages():
    return _attention(True, length=70, stages=0)


@program()
def a_convolution_by_columns():
    @T.prim_func
    def f(X: F16[1, 8, 8, 8], W: F16[72, 16], Y: F32[64, 16]):
        with T.Kernel(2, threads=64) as b:
            col = T.alloc_shared((32, 24), "float16")
            w = T.alloc_shared((24, 16), "float16")
            y = T.alloc_fragment((32, 16), "float32")
            T.clear(y)
            for k in T.serial(3):
                for i, j in T.Parallel(32, 24):
                    m = b * 32 + i
                    c = k * 24 + j
                    h = m // 8 + c // 24 - 1
                    v = m % 8 + c // 8 % 3 - 1
                    if h >= 0 and h < 8 and v >= 0 and v < 8:
                        col[i, j] = X[0, h, v, c % 8]
                    else:
                        col[i, j] = 0
                T.copy(W[k * 24, 0], w)
                T.gemm(col, w, y)
            T.copy(y, Y[b * 32, 0])

    x = np.random.default_rng(12).integers(-3, 4, (1, 8, 8, 8)).astype(H)
    w = np.random.default_rng(13).integers(-3, 4, (72, 16)).astype(H)
    padded = np.pad(x[0].astype(F), ((1, 1), (1, 1), (0, 0)))
    columns = np.stack(
        [padded[r : r + 8, s : s + 8] for r in range(3) for s in range(3)], 2
    ).reshape(64, 72)
    return f, [x, w, Out(columns @ w.astype(F))]


@program()
def a_convolution_by_the_word_for_columns():
    @T.prim_func
    def f(X: F16[2, 6, 6, 16], W: F16[144, 16], Y: F32[18, 16]):
        with T.Kernel(1, threads=64):
            col = T.alloc_shared((32, 48), "float16")
            w = T.alloc_shared((48, 16), "float16")
            y = T.alloc_fragment((32, 16), "float32")
            T.clear(y)
            for k in T.Pipelined(3, num_stages=2):
                T.im2col(X, col, 0, k, 3, 2, 1, 1)
                T.copy(W[k * 48, 0], w)
                T.gemm(col, w, y)
            T.copy(y, Y[0, 0])

    x = np.random.default_rng(14).integers(-3, 4, (2, 6, 6, 16)).astype(H)
    w = np.random.default_rng(15).integers(-3, 4, (144, 16)).astype(H)
    padded = np.pad(x.astype(F), ((0, 0), (1, 1), (1, 1), (0, 0)))
    columns = np.stack(
        [padded[:, r : r + 6 : 2, s : s + 6 : 2] for r in range(3) for s in range(3)], 3
    )
    return f, [x, w, Out(columns.reshape(18, 144) @ w.astype(F))]


@program()
def windows_pooled():
    @T.prim_func
    def f(X: F32[9, 11], A: F32[4, 5], M: F32[4, 5]):
        with T.Kernel(1, threads=32):
            for i, j in T.Parallel(4, 5):
                total = T.alloc_var("float32", 0.0)
                high = T.alloc_var("float32", -T.infinity("float32"))
                for r, s in T.grid(3, 3):
                    total += X[i * 2 + r, j * 2 + s]
                    high = T.max(high, X[i * 2 + r, j * 2 + s])
                A[i, j] = total / 9
                M[i, j] = high

    x = np.random.default_rng(16).integers(-9, 9, (9, 11)).astype(F)
    w = np.lib.stride_tricks.sliding_window_view(x, (3, 3))[::2, ::2]
    return f, [x, Out((w.sum((2, 3)) / F(9)).astype(F)), Out(w.max((2, 3)))]


@program()
def blocks_left_out_by_a_mask():
    @T.prim_func
    def f(M: T.Tensor((2, 3, 4), "bool"), A: F16[64, 128], B: F16[128, 96], C: F32[64, 96]):
        with T.Kernel(3, 2, threads=64) as (x, y):
            a = T.alloc_shared((32, 32), "float16")
            b = T.alloc_shared((32, 32), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                if M[y, x, k]:
                    T.copy(A[y * 32, k * 32], a)
                    T.copy(B[k * 32, x * 32], b)
                    T.gemm(a, b, c)
            T.copy(c, C[y * 32, x * 32])

    rng = np.random.default_rng(17)
    m = rng.random((2, 3, 4)) < 0.5
    m[1, 2] = False
    a, b = rng.integers(-4, 5, (64, 128)).astype(H), rng.integers(-4, 5, (128, 96)).astype(H)
    full = m.repeat(32, 0).repeat(32, 1)
    product = np.einsum(
        "ikt,jkt->ijk", a.astype(F).reshape(64, 4, 32), b.astype(F).T.reshape(96, 4, 32)
    )
    return f, [m, a, b, Out((product * full).sum(2).astype(F))]


@program()
def groups_of_rows_with_weights_of_their_own():
    @T.prim_func
    def f(G: I32[4], X: F16[80, 32], W: F16[3, 32, 32], Y: F32[80, 32]):
        with T.Kernel(3, 2, threads=64) as (g, b):
            x = T.alloc_shared((32, 32), "float16")
            w = T.alloc_shared((32, 32), "float16")
            y = T.alloc_fragment((32, 32), "float32")
            first = G[g] + b * 32
            if first < G[g + 1]:
                T.copy(X[first : first + 32, 0:32], x)
                T.copy(W[g, 0, 0], w)
                T.gemm(x, w, y, clear_accum=True)
                for i, j in T.Parallel(32, 32):
                    if first + i < G[g + 1]:
                        Y[first + i, j] = y[i, j]

    g = np.array([0, 20, 70, 80], I)
    rng = np.random.default_rng(18)
    x, w = rng.integers(-4, 5, (80, 32)).astype(H), rng.integers(-4, 5, (3, 32, 32)).astype(H)
    which = np.repeat(np.arange(3), np.diff(g))
    return f, [g, x, w, Out(np.einsum("ri,rij->rj", x.astype(F), w.astype(F)[which]))]


@program()
def gates_and_activations():
    @T.prim_func
    def f(A: F32[5, 60], B: F32[4, 5, 30]):
        with T.Kernel(5, threads=32) as r:
            for j in T.Parallel(30):
                g = A[r, j]
                u = A[r, j + 30]
                B[0, r, j] = g * T.sigmoid(g) * u
                B[1, r, j] = 0.5 * g * (1.0 + T.erf(g * 0.70710678)) * u
                B[2, r, j] = T.log(1.0 + T.exp(-T.abs(g))) + T.max(g, 0.0)
                B[3, r, j] = T.tanh(g) - T.if_then_else(u > 0, u, 0.1 * u)

    from math import erf

    a = _normal((5, 60), 19)
    g, u = a[:, :30].astype(np.float64), a[:, 30:].astype(np.float64)
    gelu = 0.5 * g * (1 + np.vectorize(erf)(g * 0.70710678)) * u
    want = [
        g / (1 + np.exp(-g)) * u,
        gelu,
        np.log1p(np.exp(-np.abs(g))) + np.maximum(g, 0),
        np.tanh(g) - np.where(u > 0, u, 0.1 * u),
    ]
    return f, [a, Out(np.stack(want).astype(F), rtol=1e-5, atol=2e-6)]


@program(also=("sm_90a",))
def rotary_positions():
    @T.prim_func
    def f(X: F32[6, 2, 16], C: F32[6, 8], S: F32[6, 8], Y: F32[6, 2, 16]):
        with T.Kernel(6, threads=32) as t:
            for h, j in T.Parallel(2, 16):
                other = T.if_then_else(j < 8, -X[t, h, (j + 8) % 16], X[t, h, (j + 8) % 16])
                Y[t, h, j] = X[t, h, j] * C[t, j % 8] + other * S[t, j % 8]

    x = _normal((6, 2, 16), 20)
    angle = np.arange(6)[:, None] / 100 ** (np.arange(8) / 8)
    c, s = np.cos(angle).astype(F), np.sin(angle).astype(F)
    a, b = x[..., :8], x[..., 8:]
    want = np.concatenate([a * c[:, None] - b * s[:, None], b * c[:, None] + a * s[:, None]], -1)
    return f, [x, c, s, Out(want.astype(F), **TOL)]


@program()
def losses_and_their_gradients():
    @T.prim_func
    def f(X: F32[7, 33], L: I32[7], Y: F32[7], G: F32[7, 33]):
        with T.Kernel(7, threads=32) as r:
            x = T.alloc_fragment((33,), "float32")
            e = T.alloc_fragment((33,), "float32")
            m = T.alloc_fragment((1,), "float32")
            s = T.alloc_fragment((1,), "float32")
            T.copy(X[r, 0:33], x)
            T.reduce_max(x, m)
            for j in T.Parallel(33):
                e[j] = T.exp(x[j] - m[0])
            T.reduce_sum(e, s)
            for j in T.Parallel(33):
                G[r, j] = e[j] / s[0] - T.if_then_else(j == L[r], 1.0, 0.0)
            Y[r] = T.log(s[0]) + m[0] - X[r, L[r]]

    x = _normal((7, 33), 21) * 3
    label = np.random.default_rng(22).integers(0, 33, 7).astype(I)
    p = _softmax(x.astype(np.float64))
    rows = np.arange(7)
    g = p.copy()
    g[rows, label] -= 1
    return f, [x, label, Out(-np.log(p[rows, label]).astype(F), **TOL), Out(g.astype(F), **TOL)]


@program()
def a_recurrence_over_time():
    @T.prim_func
    def f(A: F32[12, 8], X: F32[12, 8], Y: F32[12, 8]):
        with T.Kernel(1, threads=32):
            h = T.alloc_fragment((8,), "float32")
            T.clear(h)
            for t in T.serial(12):
                for j in T.Parallel(8):
                    h[j] = h[j] * A[t, j] + X[t, j]
                T.copy(h, Y[t, 0:8])

    rng = np.random.default_rng(23)
    a, x = rng.integers(-1, 2, (12, 8)).astype(F), rng.integers(-5, 6, (12, 8)).astype(F)
    h, want = np.zeros(8, F), []
    for t in range(12):
        h = h * a[t] + x[t]
        want.append(h)
    return f, [a, x, Out(np.stack(want))]


@program(also=("sm_90a",))
def embeddings_gathered_and_their_gradients_scattered():
    @T.prim_func
    def f(W: F32[10, 24], P: I32[15], Y: F32[15, 24], G: F32[10, 24]):
        with T.Kernel(15, threads=32) as r:
            x = T.alloc_fragment((24,), "float32")
            T.copy(W[P[r], 0:24], x)
            T.copy(x, Y[r, 0:24])
            for j in T.Parallel(24):
                T.atomic_add(G[P[r], j], x[j])

    w = np.random.default_rng(24).integers(-9, 9, (10, 24)).astype(F)
    p = np.random.default_rng(25).integers(0, 10, 15).astype(I)
    return f, [
        w,
        p,
        Out(w[p]),
        Out(w * np.bincount(p, minlength=10)[:, None].astype(F) + 0, np.zeros((10, 24), F)),
    ]
