"""Kernels of operator libraries that load where tables say, skip, stop early and share work:
gathers and conditions in pipelines, pages, sums over blocks, loops that data ends."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tensor_types import BF16, F16, F32, I32, I64

import tilelang.language as T

from .registry import Out, program

bf = ml_dtypes.bfloat16
A9 = ("sm_90a",)


def _ints(rng, *shape):
    return rng.integers(-3, 4, shape)


def _half(x):
    return x.astype(np.float16)


def _near(want, dtype, room):
    largest = max(1.0, np.abs(want).max())
    return Out(want.astype(dtype), rtol=room, atol=room * largest)


def _one_tile(stages, thr, b=64, D=64):
    rng = np.random.default_rng(0)
    S = 3 * b + 5

    @T.prim_func
    def main(Q: F16[b, D], K: F16[S, D], V: F16[S, D], O: F32[b, D]):
        with T.Kernel(1, threads=thr) as bx:
            Qs = T.alloc_shared((b, D), "float16")
            KV = T.alloc_shared((b, D), "float16")
            s = T.alloc_fragment((b, b), "float32")
            p = T.alloc_fragment((b, b), "float16")
            o = T.alloc_fragment((b, D), "float32")
            T.copy(Q, Qs)
            T.clear(o)
            for k in T.Pipelined(T.ceildiv(S, b), num_stages=stages):
                T.copy(K[k * b : (k + 1) * b, :], KV)
                T.gemm(
                    Qs, KV, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow
                )
                T.copy(V[k * b : (k + 1) * b, :], KV)
                T.copy(s, p)
                T.gemm(p, KV, o, policy=T.GemmWarpPolicy.FullRow)
            T.copy(o, O)

    q, k, v = _ints(rng, b, D) % 2, _ints(rng, S, D) % 2, _ints(rng, S, D)
    f = _half
    return main, [f(q), f(k), f(v), Out(((q @ k.T) @ v).astype(np.float32))]


@program(also=A9)
def one_tile_for_keys_and_then_values_with_one_stage():
    return _one_tile(1, 128)


@program(also=A9)
def one_tile_for_keys_and_then_values_with_three_stages():
    return _one_tile(3, 256, 128)


def _gathers(stages, thr, cond):
    rng = np.random.default_rng(1)
    S, NK, b, D = 70, 5, 32, 64

    @T.prim_func
    def main(K: BF16[S, D], idx: I32[NK * b - 3], Q: BF16[64, D], O: F32[64, D]):
        with T.Kernel(1, threads=thr) as bx:
            Qs = T.alloc_shared((64, D), "bfloat16")
            Is = T.alloc_shared((b,), "int32")
            Ks = T.alloc_shared((b, D), "bfloat16")
            s = T.alloc_fragment((64, b), "float32")
            p = T.alloc_fragment((64, b), "bfloat16")
            o = T.alloc_fragment((64, D), "float32")
            T.copy(Q, Qs)
            T.clear(o)
            for k in T.Pipelined(NK, num_stages=stages):
                T.copy(idx[k * b : (k + 1) * b], Is)
                for i, d in T.Parallel(b, D):
                    if cond == 0:
                        Ks[i, d] = K[Is[i], d]
                    elif cond == 1:
                        Ks[i, d] = T.if_then_else(
                            Is[i] >= 0 and k * b + i < NK * b - 3, K[Is[i], d], T.bfloat16(0)
                        )
                    else:
                        Ks[i, d] = K[idx[k * b + i], d]
                T.gemm(Qs, Ks, s, transpose_B=True, clear_accum=True)
                T.copy(s, p)
                T.gemm(p, Ks, o)
            T.copy(o, O)

    k = _ints(rng, S, D) % 2
    q = _ints(rng, 64, D) % 2
    i = rng.integers(-2, S + (0 if cond == 1 else 2), NK * b - 3).astype(np.int32)
    ii = np.concatenate([i, np.zeros(3, np.int32) if cond != 1 else np.full(3, -1, np.int32)])
    ok = (ii >= 0) & (ii < S)
    kk = np.where(ok[:, None], k[np.where(ok, ii, 0)], 0)
    x = (q @ kk.T).astype(bf).astype(float)
    return main, [k.astype(bf), i, q.astype(bf), Out((x @ kk).astype(np.float32))]


@program(also=A9)
def rows_gathered_by_a_tile_that_is_copied_ahead():
    return _gathers(2, 128, 0)


@program(also=A9)
def rows_gathered_where_a_tile_says_so_with_one_stage():
    return _gathers(1, 128, 1)


@program(also=A9)
def rows_gathered_at_loaded_places_that_leave_the_tensor():
    return _gathers(3, 128, 2)


def _conditions(stages, form, thr=128):
    rng = np.random.default_rng(2)
    N, b, D = 7, 64, 64

    @T.prim_func
    def main(A: F16[N * b, D], B: F16[N * b, D], Q: F16[b, D], F: I32[N], O: F32[b, b]):
        with T.Kernel(1, threads=thr) as bx:
            Qs = T.alloc_shared((b, D), "float16")
            Ks = T.alloc_shared((b, D), "float16")
            o = T.alloc_fragment((b, b), "float32")
            n = T.alloc_var("int32", 0)
            T.copy(Q, Qs)
            T.clear(o)
            for k in T.Pipelined(N, num_stages=stages):
                if form == 0:
                    if F[k] > 0:
                        T.copy(A[k * b, 0], Ks)
                    else:
                        T.copy(B[k * b, 0], Ks)
                    T.gemm(Qs, Ks, o, transpose_B=True)
                elif form == 1:
                    if F[k] > 0:
                        T.copy(A[k * b, 0], Ks)
                        if F[k] > 1:
                            T.copy(B[k * b, 0], Ks)
                        T.gemm(Qs, Ks, o, transpose_B=True)
                elif form == 2:
                    if n < 3:
                        T.copy(A[n * b, 0], Ks)
                        T.gemm(Qs, Ks, o, transpose_B=True)
                    if F[k] > 0:
                        n += 1
                elif form == 3:
                    if F[k] > 0:
                        T.copy(A[k * b, 0], Ks)
                    if F[k] >= 0:
                        T.gemm(Qs, Ks, o, transpose_B=True)
                elif form == 4:
                    T.copy(A[k * b, 0], Ks)
                    if F[k] > 0:
                        for i, j in T.Parallel(b, D):
                            Ks[i, j] = Ks[i, j] + Ks[i, j]
                    T.gemm(Qs, Ks, o, transpose_B=True)
                elif form == 5:
                    if F[k] == 0:
                        T.clear(o)
                    elif F[k] > 0:
                        T.copy(A[F[k] * b, 0], Ks)
                        T.gemm(Qs, Ks, o, transpose_B=True)
            T.copy(o, O)

    a, c, q = _ints(rng, N * b, D), _ints(rng, N * b, D), _ints(rng, b, D)
    F = np.array([1, 2, -1, 0, 2, 1, 0 if form != 5 else 1], np.int32)
    o = np.zeros((b, b))
    K = None
    n = 0
    for k in range(N):
        ak, ck = a[k * b : k * b + b], c[k * b : k * b + b]
        if form == 0:
            o += q @ (ak if F[k] > 0 else ck).T
        elif form == 1:
            if F[k] > 0:
                o += q @ (ck if F[k] > 1 else ak).T
        elif form == 2:
            if n < 3:
                o += q @ a[n * b : n * b + b].T
            if F[k] > 0:
                n += 1
        elif form == 3:
            if F[k] > 0:
                K = ak
            if F[k] >= 0:
                o += q @ K.T
        elif form == 4:
            o += q @ (ak * (2 if F[k] > 0 else 1)).T
        elif form == 5:
            if F[k] == 0:
                o[:] = 0
            elif F[k] > 0:
                o += q @ a[F[k] * b : F[k] * b + b].T
    f = _half
    return main, [f(a), f(c), f(q), F, Out(o.astype(np.float32))]


@program(also=A9)
def one_of_two_tensors_copied_by_a_condition():
    return _conditions(2, 0)


@program(also=A9)
def a_condition_inside_a_condition_copies_again():
    return _conditions(1, 1)


@program(also=A9)
def a_place_counted_by_a_condition():
    return _conditions(3, 2, 256)


@program(also=A9)
def a_product_with_what_an_earlier_condition_copied():
    return _conditions(2, 3)


@program(also=A9)
def a_copied_tile_doubled_by_a_condition():
    return _conditions(1, 4)


@program(also=A9)
def sums_cleared_or_added_to_by_a_condition():
    return _conditions(3, 5, 256)


@program(also=A9)
def loops_ended_by_what_a_shared_tile_holds():
    rng = np.random.default_rng(6)
    N = 64

    @T.prim_func
    def main(X: I32[N], Y: I32[N], R: I32[1]):
        with T.Kernel(1, threads=64) as bx:
            a = T.alloc_shared((N,), "int32")
            ch = T.alloc_shared((1,), "int32")
            rounds = T.alloc_var("int32", 0)
            T.copy(X, a)
            ch[0] = 1
            while ch[0] != 0:
                T.sync_threads()
                ch[0] = 0
                for i in T.Parallel(N // 2):
                    if a[2 * i] > a[2 * i + 1]:
                        t = a[2 * i]
                        a[2 * i] = a[2 * i + 1]
                        a[2 * i + 1] = t
                        ch[0] = 1
                for i in T.Parallel(N // 2 - 1):
                    if a[2 * i + 1] > a[2 * i + 2]:
                        t = a[2 * i + 1]
                        a[2 * i + 1] = a[2 * i + 2]
                        a[2 * i + 2] = t
                        ch[0] = 1
                rounds += 1
            T.copy(a, Y)
            if T.get_thread_binding() == 0:
                R[0] = rounds

    x = rng.permutation(N).astype(np.int32)
    a = list(x)
    r = 0
    while True:
        c = False
        for st in (0, 1):
            for i in range(st, N - 1, 2):
                if a[i] > a[i + 1]:
                    a[i], a[i + 1] = a[i + 1], a[i]
                    c = True
        r += 1
        if not c:
            break
    return main, [x, Out(np.sort(x)), Out(np.array([r], np.int32))]


@program(also=A9)
def the_first_long_run_found_by_a_loop_that_is_left():
    rng = np.random.default_rng(8)
    R, N, b = 6, 90, 32

    @T.prim_func
    def main(X: I32[R, N], lim: T.int32, P: I32[R], S: I32[R]):
        with T.Kernel(R, threads=32) as r:
            x = T.alloc_shared((b,), "int32")
            tot = T.alloc_fragment((1,), "int32")
            xf = T.alloc_fragment((b,), "int32")
            acc = T.alloc_var("int32", 0)
            at = T.alloc_var("int32", -1)
            for k in T.serial(T.ceildiv(N, b)):
                T.copy(X[r, k * b : (k + 1) * b], x)
                T.copy(x, xf)
                T.reduce_sum(xf, tot, dim=0)
                if acc + tot[0] >= lim:
                    for i in T.serial(b):
                        acc += x[i]
                        if acc >= lim:
                            at = k * b + i
                            break
                    break
                acc += tot[0]
            if T.get_thread_binding() == 0:
                P[r] = at
                S[r] = acc

    x = rng.integers(0, 5, (R, N)).astype(np.int32)
    x[0] = 0
    lim = 100
    P = np.full(R, -1, np.int32)
    S = np.zeros(R, np.int32)
    for r in range(R):
        c = np.cumsum(x[r])
        w = np.nonzero(c >= lim)[0]
        if len(w):
            P[r] = w[0]
            S[r] = c[w[0]]
        else:
            S[r] = c[-1]
    return main, [x, lim, Out(P), Out(S)]


@program(also=A9)
def stream_of_products_over_tiles():
    rng = np.random.default_rng(11)
    M, N, K, bM, bN, bK, P = 64, 96, 160, 32, 32, 32, 4
    tiles = (M // bM) * (N // bN)
    kt = K // bK
    tot = tiles * kt

    @T.prim_func
    def main(A: F16[M, K], B: F16[K, N], C: F32[M, N]):
        with T.Kernel(P, threads=64) as p:
            As = T.alloc_shared((bM, bK), "float16")
            Bs = T.alloc_shared((bK, bN), "float16")
            c = T.alloc_fragment((bM, bN), "float32")
            it = T.alloc_local((1,), "int32")
            en = T.alloc_local((1,), "int32")
            it[0] = p * tot // P
            last = (p + 1) * tot // P
            while it[0] < last:
                tile = it[0] // kt
                en[0] = T.min(last, (tile + 1) * kt)
                T.clear(c)
                for k in T.Pipelined(en[0] - it[0], num_stages=2):
                    T.copy(A[tile // (N // bN) * bM, ((it[0] + k) % kt) * bK], As)
                    T.copy(B[((it[0] + k) % kt) * bK, tile % (N // bN) * bN], Bs)
                    T.gemm(As, Bs, c)
                if it[0] % kt == 0 and en[0] == (tile + 1) * kt:
                    T.copy(c, C[tile // (N // bN) * bM, tile % (N // bN) * bN])
                else:
                    for i, j in T.Parallel(bM, bN):
                        T.atomic_add(
                            C[tile // (N // bN) * bM + i, tile % (N // bN) * bN + j], c[i, j]
                        )
                it[0] = en[0]

    a, b = _ints(rng, M, K), _ints(rng, K, N)
    w = (a @ b).astype(np.float32)
    return main, [a.astype(np.float16), b.astype(np.float16), Out(w, np.zeros_like(w))]


@program(also=A9)
def sums_of_warps_by_shuffles_and_a_block_sum():
    rng = np.random.default_rng(9)
    N = 1000

    @T.prim_func
    def main(X: F32[3, N], S: F32[3], M: I32[3]):
        with T.Kernel(3, threads=128) as b:
            tx = T.get_thread_binding()
            a = T.alloc_var("float32", 0.0)
            best = T.alloc_var("float32", -1e30)
            at = T.alloc_var("int32", 0)
            p = T.alloc_shared((4,), "float32")
            pv = T.alloc_shared((4,), "float32")
            pi = T.alloc_shared((4,), "int32")
            for k in T.serial(T.ceildiv(N, 128)):
                i = k * 128 + tx
                if i < N:
                    a += X[b, i]
                    if X[b, i] > best:
                        best = X[b, i]
                        at = i
            for s in T.unroll(5):
                a += T.shfl_xor(a, 1 << s)
                ob = T.shfl_xor(best, 1 << s)
                oi = T.shfl_xor(at, 1 << s)
                if ob > best or (ob == best and oi < at):
                    best = ob
                    at = oi
            if tx % 32 == 0:
                p[tx // 32] = a
                pv[tx // 32] = best
                pi[tx // 32] = at
            T.sync_threads()
            if tx == 0:
                for w in T.serial(1, 4):
                    p[0] += p[w]
                    if pv[w] > pv[0] or (pv[w] == pv[0] and pi[w] < pi[0]):
                        pv[0] = pv[w]
                        pi[0] = pi[w]
                S[b] = p[0]
                M[b] = pi[0]

    x = rng.integers(-90, 90, (3, N)).astype(np.float32)
    return main, [x, Out(x.sum(1)), Out(x.argmax(1).astype(np.int32))]


@program(also=A9)
def a_factor_computed_column_by_column():
    rng = np.random.default_rng(6)
    N = 24

    @T.prim_func
    def main(A: F32[3, N, N], L: F32[3, N, N]):
        with T.Kernel(3, threads=64) as b:
            a = T.alloc_shared((N, N), "float32")
            T.copy(A[b, :, :], a)
            for k in T.serial(N):
                d = T.sqrt(a[k, k])
                for i in T.Parallel(N):
                    if i > k:
                        a[i, k] = a[i, k] / d
                if T.get_thread_binding() == 0:
                    a[k, k] = d
                for i, j in T.Parallel(N, N):
                    if i > k and j > k and j <= i:
                        a[i, j] -= a[i, k] * a[j, k]
            for i, j in T.Parallel(N, N):
                L[b, i, j] = T.if_then_else(j <= i, a[i, j], 0)

    x = rng.standard_normal((3, N, N))
    s = (x @ x.transpose(0, 2, 1) + N * np.eye(N)).astype(np.float32)
    return main, [s, _near(np.linalg.cholesky(s.astype(float)), np.float32, 1e-4)]


@program(also=("sm_90a",))
def delta_rule_by_chunks_with_a_triangular_solve():
    rng = np.random.default_rng(8)
    S, DK, DV, C = 48, 32, 32, 16

    @T.prim_func
    def main(Q: F16[S, DK], K: F16[S, DK], V: F16[S, DV], beta: F32[S], O: F32[S, DV]):
        with T.Kernel(1, threads=64) as bx:
            q = T.alloc_shared((C, DK), "float16")
            k = T.alloc_shared((C, DK), "float16")
            kb = T.alloc_shared((C, DK), "float16")
            A = T.alloc_shared((C, C), "float32")
            Af = T.alloc_fragment((C, C), "float32")
            u = T.alloc_fragment((C, DV), "float32")
            us = T.alloc_shared((C, DV), "float32")
            uh = T.alloc_shared((C, DV), "float16")
            h = T.alloc_fragment((DK, DV), "float32")
            hs = T.alloc_shared((DK, DV), "float16")
            o = T.alloc_fragment((C, DV), "float32")
            qk = T.alloc_shared((C, C), "float16")
            T.clear(h)
            for t in T.serial(S // C):
                T.copy(Q[t * C, 0], q)
                T.copy(K[t * C, 0], k)
                for i, j in T.Parallel(C, DK):
                    kb[i, j] = k[i, j] * beta[t * C + i]
                T.gemm(kb, k, Af, transpose_B=True, clear_accum=True)
                T.copy(Af, A)
                T.copy(h, hs)
                T.gemm(kb, hs, u, clear_accum=True)
                for i, j in T.Parallel(C, DV):
                    us[i, j] = V[t * C + i, j] * beta[t * C + i] - u[i, j]
                for r in T.serial(1, C):
                    for j in T.Parallel(DV):
                        acc = T.alloc_var("float32", 0.0)
                        for c in T.serial(r):
                            acc += A[r, c] * us[c, j]
                        us[r, j] = us[r, j] - acc
                T.copy(us, uh)
                T.gemm(q, hs, o, clear_accum=True)
                T.gemm(q, k, Af, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(C, C):
                    qk[i, j] = T.if_then_else(i >= j, Af[i, j], 0)
                T.gemm(qk, uh, o)
                T.gemm(k, uh, h, transpose_A=True)
                T.copy(o, O[t * C, 0])

    q, k = [rng.standard_normal((S, DK)) for _ in range(2)]
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    q = (q * 0.3).astype(np.float16)
    k = k.astype(np.float16)
    v = rng.standard_normal((S, DV)).astype(np.float16)
    be = rng.random(S).astype(np.float32)
    h = np.zeros((DK, DV))
    o = np.zeros((S, DV))
    for t in range(S):
        kt = k[t].astype(float)
        h = h + be[t] * np.outer(kt, v[t].astype(float) - kt @ h)
        o[t] = q[t].astype(float) @ h
    return main, [q, k, v, be, _near(o, np.float32, 0.03)]


@program(also=A9)
def rows_of_a_sparse_matrix_by_warps():
    rng = np.random.default_rng(8)
    R, C, D = 21, 50, 36
    deg = rng.integers(0, 9, R)
    ptr = np.concatenate([[0], np.cumsum(deg)]).astype(np.int64)
    col = rng.integers(0, C, ptr[-1]).astype(np.int32)
    nnz = T.dynamic("nnz")

    @T.prim_func
    def main(ptr_: I64[R + 1], col_: I32[nnz], val: F32[nnz], X: F16[C, D], Y: F16[R, D]):
        with T.Kernel(T.ceildiv(R, 4), threads=128) as b:
            w = T.get_thread_binding() // 32
            l = T.get_thread_binding() % 32
            r = b * 4 + w
            if r < R:
                for c in T.serial(T.ceildiv(D, 32)):
                    a = T.alloc_var("float32", 0.0)
                    for e in T.serial(ptr_[r], ptr_[r + 1]):
                        if c * 32 + l < D:
                            a += val[e] * X[col_[e], c * 32 + l]
                    if c * 32 + l < D:
                        Y[r, c * 32 + l] = a

    v = _ints(rng, int(ptr[-1])).astype(np.float32)
    x = _ints(rng, C, D).astype(np.float16)
    y = np.zeros((R, D))
    for r in range(R):
        for e in range(ptr[r], ptr[r + 1]):
            y[r] += v[e] * x[col[e]].astype(float)
    return main, [ptr, col, v, x, Out(y.astype(np.float16))]
