"""Kernels of model servers as their authors write them: quantisation, indexers, paged and sparse
attention, states by chunks, selection by digits."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
from tensor_types import BF16, F16, F32, I8, I32

import tilelang
import tilelang.language as T

from .registry import Out, program

bf = ml_dtypes.bfloat16
f8 = ml_dtypes.float8_e4m3fn


def _checked(func, arguments, wanted, room):
    """The program with what it has to write at these positions, within `room` of the largest."""
    for position, want in wanted:
        largest = np.abs(want[np.isfinite(want)].astype(np.float64)).max()
        want = want.astype(arguments[position].dtype)
        arguments[position] = Out(want, rtol=room, atol=room * max(1.0, largest))
    return func, arguments


@program(also=("sm_90a",))
def rows_quantised_with_scales_that_are_powers_of_two():
    rng = np.random.default_rng(1)
    M, N, G = (40, 256, 128)
    blk_m = 32
    fp8_min, fp8_max = (-448.0, 448.0)

    def fast_log2_ceil(x):
        bits_x = T.reinterpret("uint32", x)
        exp_x = bits_x >> 23 & 255
        man_bits = bits_x & (1 << 23) - 1
        return T.Cast("int32", exp_x - 127 + T.if_then_else(man_bits != 0, 1, 0))

    def fast_pow2(x):
        bits_x = x + 127 << 23
        return T.reinterpret("float32", bits_x)

    def fast_round_scale(amax, inv):
        return fast_pow2(fast_log2_ceil(amax * inv))

    m = T.dynamic("M")

    @T.prim_func
    def act_quant_kernel(
        X: T.Tensor[(m, N), "bfloat16"],
        Y: T.Tensor[(m, N), "float8_e4m3"],
        S: T.Tensor[(m, T.ceildiv(N, G)), "float32"],
    ):
        with T.Kernel(T.ceildiv(m, blk_m), T.ceildiv(N, G), threads=128) as (pid_m, pid_n):
            x_shared = T.alloc_shared((blk_m, G), "bfloat16")
            x_local = T.alloc_fragment((blk_m, G), "bfloat16")
            amax_local = T.alloc_fragment((blk_m,), "float32")
            s_local = T.alloc_fragment((blk_m,), "float32")
            y_local = T.alloc_fragment((blk_m, G), "float8_e4m3")
            y_shared = T.alloc_shared((blk_m, G), "float8_e4m3")
            for _ in T.Pipelined(1, num_stages=0):
                T.copy(X[pid_m * blk_m, pid_n * G], x_shared)
                T.copy(x_shared, x_local)
                T.reduce_absmax(x_local, amax_local, dim=1)
                for i in T.Parallel(blk_m):
                    amax_local[i] = T.max(amax_local[i], 0.0001)
                    s_local[i] = fast_round_scale(amax_local[i], 1 / fp8_max)
                for i, j in T.Parallel(blk_m, G):
                    y_local[i, j] = T.clamp(x_local[i, j] / s_local[i], fp8_min, fp8_max)
                for i in T.Parallel(blk_m):
                    S[pid_m * blk_m + i, pid_n] = s_local[i]
                T.copy(y_local, y_shared)
                T.copy(y_shared, Y[pid_m * blk_m, pid_n * G])

    x = rng.standard_normal((M, N)).astype(bf)
    y = np.zeros((M, N), f8)
    s = np.zeros((M, N // G), np.float32)
    xf = x.astype(np.float32).reshape(M, N // G, G)
    am = np.maximum(np.abs(xf).max(-1), 0.0001)
    sc = (2.0 ** np.ceil(np.log2(am * np.float32(1 / 448)))).astype(np.float32)
    want_y = np.clip(xf / sc[..., None], -448, 448).astype(f8).reshape(M, N)
    return _checked(act_quant_kernel, [x, y, s], [(1, want_y), (2, sc)], 0.07)


@program(also=("sm_90a",))
def a_product_of_float8_with_scales_of_blocks():
    rng = np.random.default_rng(2)
    M, N, K = (48, 96, 256)
    bM, bN, bK, G = (32, 64, 128, 128)

    @T.prim_func
    def k(
        A: T.Tensor[(M, K), "float8_e4m3"], B: T.Tensor[(N, K), "float8_e4m3"],
        C: T.Tensor[(M, N), "bfloat16"], sa: T.Tensor[(M, T.ceildiv(K, G)), "float32"],
        sb: T.Tensor[(T.ceildiv(N, G), T.ceildiv(K, G)), "float32"],
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(N, bN), T.ceildiv(M, bM), threads=128) as (bx, by):
            As = T.alloc_shared((bM, bK), "float8_e4m3")
            Bs = T.alloc_shared((bN, bK), "float8_e4m3")
            Cs = T.alloc_shared((bM, bN), "bfloat16")
            scale = T.alloc_shared((bM,), "float32")
            Cl = T.alloc_fragment((bM, bN), "float32")
            Ca = T.alloc_fragment((bM, bN), "float32")
            T.use_swizzle(panel_size=10)
            T.clear(Cl)
            T.clear(Ca)
            for k in T.Pipelined(T.ceildiv(K, bK), num_stages=4):
                T.copy(A[by * bM, k * bK], As)
                T.copy(B[bx * bN, k * bK], Bs)
                Scale_B = sb[bx * bN // G, k]
                for i in T.Parallel(bM):
                    scale[i] = sa[by * bM + i, k] * Scale_B
                T.gemm(As, Bs, Cl, transpose_B=True)
                for i, j in T.Parallel(bM, bN):
                    Ca[i, j] += Cl[i, j] * scale[i]
                T.clear(Cl)
            T.copy(Ca, Cs)
            T.copy(Cs, C[by * bM, bx * bN])

    a = rng.standard_normal((M, K)).astype(f8)
    b = rng.standard_normal((N, K)).astype(f8)
    sa = rng.random((M, 2)).astype(np.float32)
    sb = rng.random((1, 2)).astype(np.float32)
    want = 0
    for g in range(2):
        s = slice(g * G, g * G + G)
        want = (
            want
            + a[:, s].astype(np.float32)
            @ b[:, s].astype(np.float32).T
            * sa[:, g : g + 1]
            * sb[0, g]
        )
    return _checked(k, [a, b, np.zeros((M, N), bf), sa, sb], [(2, want)], 0.02)


@program(also=("sm_90a",))
def scores_of_an_indexer():
    rng = np.random.default_rng(3)
    b, m, n, h, d = (1, 3, 200, 32, 64)
    bn1, bn2 = (128, 64)

    @T.prim_func
    def k(
        q: T.Tensor[(b, m, h, d), "float8_e4m3"], qs: T.Tensor[(b, m, h), "float32"],
        kk: T.Tensor[(b, n, d), "float8_e4m3"], ks: T.Tensor[(b, n), "float32"],
        o: T.Tensor[(b, m, n), "float32"],
    ):  # fmt: skip
        with T.Kernel(b, m, T.ceildiv(n, bn1)) as (ib, im, i1):
            qsm = T.alloc_shared((h, d), "float8_e4m3")
            T.copy(q[ib, im, 0, 0], qsm)
            qsf = T.alloc_fragment(h, "float32")
            T.copy(qs[ib, im, 0], qsf)
            for i2 in T.Pipelined(bn1 // bn2, num_stages=2):
                ksm = T.alloc_shared((bn2, d), "float8_e4m3")
                T.copy(kk[ib, i1 * bn1 + i2 * bn2, 0], ksm)
                ksf = T.alloc_fragment(bn2, "float32")
                T.copy(ks[ib, i1 * bn1 + i2 * bn2], ksf)
                logits = T.alloc_fragment((bn2, h), "float32")
                T.gemm(ksm, qsm, logits, transpose_A=False, transpose_B=True, clear_accum=True)
                for ih, i3 in T.Parallel(h, bn2):
                    logits[i3, ih] = T.max(logits[i3, ih], 0) * qsf[ih]
                ls = T.alloc_fragment(bn2, "float32")
                T.reduce_sum(logits, ls, dim=1)
                for i3 in T.Parallel(bn2):
                    ls[i3] *= ksf[i3]
                T.copy(ls, o[ib, im, i1 * bn1 + i2 * bn2])

    q = rng.standard_normal((b, m, h, d)).astype(f8)
    kk = rng.standard_normal((b, n, d)).astype(f8)
    qs = rng.random((b, m, h)).astype(np.float32)
    ks = rng.random((b, n)).astype(np.float32)
    l = np.einsum("bmhd,bnd->bmhn", q.astype(np.float32), kk.astype(np.float32))
    want = (np.maximum(l, 0) * qs[..., None]).sum(2) * ks[:, None]
    return _checked(k, [q, qs, kk, ks, np.zeros((b, m, n), np.float32)], [(4, want)], 0.001)


@program(also=("sm_90a",))
def attention_over_chosen_rows():
    rng = np.random.default_rng(4)
    S, SK, H, D, TD, topk, BI = (4, 100, 16, 64, 16, 64, 32)
    sm = (1.0 / (D + TD)) ** 0.5 * 1.44269504
    NI = topk // BI

    @T.prim_func
    def k(
        Q: BF16[1, S, H, D + TD], KV: BF16[1, SK, 1, D + TD], Ind: I32[1, S, 1, topk],
        Out: BF16[1, S, H, D], Lse: F32[1, S, H],
    ):  # fmt: skip
        with T.Kernel(S, 1, 1, threads=128) as (bx, by, bz):
            Qs = T.alloc_shared([H, D], "bfloat16")
            Qt = T.alloc_shared([H, TD], "bfloat16")
            KVs = T.alloc_shared([BI, D], "bfloat16")
            Kt = T.alloc_shared([BI, TD], "bfloat16")
            Os = T.alloc_shared([H, D], "bfloat16")
            Ls = T.alloc_shared([H], "float32")
            mask = T.alloc_fragment([BI], "bool")
            acc_o = T.alloc_fragment([H, D], "float32")
            acc_s = T.alloc_fragment([H, BI], "float32")
            Ss = T.alloc_shared([H, BI], "bfloat16")
            sumexp = T.alloc_fragment([H], "float32")
            sumi = T.alloc_fragment([H], "float32")
            alpha = T.alloc_fragment([H], "float32")
            mi = T.alloc_fragment([H], "float32")
            mp = T.alloc_fragment([H], "float32")
            T.fill(acc_o, 0)
            T.fill(sumexp, 0)
            T.fill(mi, -(2**30))
            b_i, g_i = (by, bz)
            s_i = bx
            max_kv_i = s_i * 20 + 10
            T.copy(Q[b_i, s_i, 0:H, :D], Qs)
            T.copy(Q[b_i, s_i, 0:H, D:], Qt)
            for i_i in T.Pipelined(NI, num_stages=2):
                for bi_i in T.Parallel(BI):
                    mask[bi_i] = Ind[b_i, s_i, g_i, i_i * BI + bi_i] <= max_kv_i
                for bi_i, d_i in T.Parallel(BI, D):
                    KVs[bi_i, d_i] = KV[b_i, Ind[b_i, s_i, g_i, i_i * BI + bi_i], g_i, d_i]
                for bi_i, d_i in T.Parallel(BI, TD):
                    Kt[bi_i, d_i] = KV[b_i, Ind[b_i, s_i, g_i, i_i * BI + bi_i], g_i, D + d_i]
                for h_i, bi_i in T.Parallel(H, BI):
                    acc_s[h_i, bi_i] = T.if_then_else(mask[bi_i], 0, -T.infinity(acc_s.dtype))
                T.gemm(Qs, KVs, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(Qt, Kt, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                T.copy(mi, mp)
                T.reduce_max(acc_s, mi, dim=1, clear=False)
                for h_i in T.Parallel(H):
                    alpha[h_i] = T.exp2((mp[h_i] - mi[h_i]) * sm)
                for h_i, bi_i in T.Parallel(H, BI):
                    acc_s[h_i, bi_i] = T.exp2(acc_s[h_i, bi_i] * sm - mi[h_i] * sm)
                T.reduce_sum(acc_s, sumi, dim=1)
                for h_i in T.Parallel(H):
                    sumexp[h_i] = sumexp[h_i] * alpha[h_i] + sumi[h_i]
                for h_i, d_i in T.Parallel(H, D):
                    acc_o[h_i, d_i] = acc_o[h_i, d_i] * alpha[h_i]
                T.copy(acc_s, Ss)
                T.gemm(Ss, KVs, acc_o, policy=T.GemmWarpPolicy.FullCol)
            for h_i, d_i in T.Parallel(H, D):
                acc_o[h_i, d_i] /= sumexp[h_i]
            for h_i in T.Parallel(H):
                sumexp[h_i] = T.log2(sumexp[h_i]) + mi[h_i] * sm
            T.copy(acc_o, Os)
            T.copy(acc_o, Out[b_i, s_i, 0:H, :])
            T.copy(sumexp, Ls)
            T.copy(sumexp, Lse[b_i, s_i, 0:H])

    q = rng.standard_normal((1, S, H, D + TD)).astype(bf)
    kv = rng.standard_normal((1, SK, 1, D + TD)).astype(bf)
    ind = np.stack([rng.permutation(SK)[:topk] for _ in range(S)]).astype(np.int32)[None, :, None]
    wo = np.zeros((1, S, H, D), np.float32)
    wl = np.zeros((1, S, H), np.float32)
    for s in range(S):
        ks = kv[0, ind[0, s, 0], 0].astype(np.float32)
        sc = q[0, s].astype(np.float32) @ ks.T * sm
        sc = np.where(ind[0, s, 0] <= s * 20 + 10, sc, -np.inf)
        mx = sc.max(-1, keepdims=True)
        p = np.exp2(sc - mx)
        su = p.sum(-1, keepdims=True)
        wo[0, s] = p @ ks[:, :D] / su
        wl[0, s] = (np.log2(su) + mx)[:, 0]
    return _checked(
        k,
        [q, kv, ind, np.zeros((1, S, H, D), bf), np.zeros((1, S, H), np.float32)],
        [(3, wo), (4, wl)],
        0.03,
    )


@program(also=("sm_90a",))
def a_state_space_scan_by_chunks():
    rng = np.random.default_rng(5)
    B, L, C, H, G, P, N = (1, 128, 64, 2, 1, 32, 16)
    bm, bn, bk, bd = (32, 32, 32, 16)
    p2 = 1.44269504

    @T.prim_func
    def k(
        cb: F16[B, L // C, G, C, C], x: F16[B, L, H, P], dt: F16[B, H, L // C, C],
        dA: F16[B, H, L // C, C], Cm: F16[B, L, G, N], prev: F16[B, L // C, H, P, N], D: F16[H],
        O: F16[B, L, H, P],
    ):  # fmt: skip
        with T.Kernel(H, T.ceildiv(C, bm) * T.ceildiv(P, bn), B * (L // C), threads=128) as (
            bz,
            bx,
            by,
        ):
            ao = T.alloc_fragment((bm, bn), "float32")
            aos = T.alloc_shared((bm, bn), "float16")
            cbs = T.alloc_shared((bm, bk), "float16", scope="shared.dyn")
            cbl = T.alloc_fragment((bm, bk), "float16")
            dks = T.alloc_shared((bk,), "float16", scope="shared")
            dkl = T.alloc_fragment((bk,), "float32")
            dml = T.alloc_fragment((bm,), "float32")
            dts = T.alloc_shared((bk,), "float16", scope="shared")
            dtl = T.alloc_fragment((bk,), "float32")
            xs = T.alloc_shared((bk, bn), "float16", scope="shared.dyn")
            dms = T.alloc_shared((bm,), "float16", scope="shared")
            scm = T.alloc_fragment((bm,), "float32")
            Cs = T.alloc_shared((bm, bd), "float16")
            ps = T.alloc_shared((bn, bd), "float16")
            Dl = T.alloc_fragment((1,), "float32")
            xrs = T.alloc_shared((bm, bn), "float16", scope="shared.dyn")
            xr = T.alloc_fragment((bm, bn), "float32")
            bi = by % B
            ci = by // B
            mi = bx // T.ceildiv(P, bn)
            ni = bx % T.ceildiv(P, bn)
            T.annotate_layout({aos: tilelang.layout.make_swizzled_layout(aos)})
            T.no_set_max_nreg()
            T.copy(dA[bi, bz, ci, mi * bm : (mi + 1) * bm], dms)
            T.copy(dms, dml)
            T.clear(ao)
            for i in T.Parallel(bm):
                scm[i] = T.exp2(dml[i] * p2)
            T.copy(Cm[bi, ci * C + mi * bm : ci * C + (mi + 1) * bm, bz // (H // G), 0:bd], Cs)
            T.copy(prev[bi, ci, bz, ni * bn : (ni + 1) * bn, 0:bd], ps)
            T.gemm(Cs, ps, ao, transpose_B=True)
            for i, j in T.Parallel(bm, bn):
                ao[i, j] *= scm[i]
            for kk in T.Pipelined(T.ceildiv((mi + 1) * bm, bk), num_stages=2):
                T.copy(
                    cb[bi, ci, bz // (H // G), mi * bm : (mi + 1) * bm, kk * bk : (kk + 1) * bk],
                    cbs,
                )
                T.copy(cbs, cbl)
                T.copy(dA[bi, bz, ci, kk * bk : (kk + 1) * bk], dks)
                T.copy(dks, dkl)
                for i, j in T.Parallel(bm, bk):
                    cbl[i, j] = cbl[i, j] * T.exp2(dml[i] * p2 - dkl[j] * p2)
                T.copy(dt[bi, bz, ci, kk * bk : (kk + 1) * bk], dts)
                T.copy(dts, dtl)
                for i, j in T.Parallel(bm, bk):
                    cbl[i, j] *= dtl[j]
                for i, j in T.Parallel(bm, bk):
                    cbl[i, j] = T.if_then_else(mi * bm + i >= kk * bk + j, cbl[i, j], 0)
                T.copy(
                    x[bi, ci * C + kk * bk : ci * C + (kk + 1) * bk, bz, ni * bn : (ni + 1) * bn],
                    xs,
                )
                T.gemm(cbl, xs, ao)
            Dl[0] = D[bz]
            T.copy(
                x[bi, ci * C + mi * bm : ci * C + (mi + 1) * bm, bz, ni * bn : (ni + 1) * bn], xrs
            )
            T.copy(xrs, xr)
            for i, j in T.Parallel(bm, bn):
                ao[i, j] += xr[i, j] * Dl[0]
            T.copy(ao, aos)
            T.copy(
                aos, O[bi, ci * C + mi * bm : ci * C + (mi + 1) * bm, bz, ni * bn : (ni + 1) * bn]
            )

    h = np.float16
    cb = rng.standard_normal((B, L // C, G, C, C)).astype(h)
    x = rng.standard_normal((B, L, H, P)).astype(h)
    dt = rng.random((B, H, L // C, C)).astype(h)
    dA = -np.cumsum(rng.random((B, H, L // C, C)) * 0.1, -1).astype(h)
    Cm = rng.standard_normal((B, L, G, N)).astype(h)
    prev = rng.standard_normal((B, L // C, H, P, N)).astype(h)
    D = rng.standard_normal(H).astype(h)
    f = lambda a: a.astype(np.float64)
    want = np.zeros((B, L, H, P))
    for c in range(L // C):
        for hh in range(H):
            a = f(dA)[0, hh, c]
            X = f(x)[0, c * C : (c + 1) * C, hh]
            w = np.tril(f(cb)[0, c, 0] * np.exp(a[:, None] - a[None]) * f(dt)[0, hh, c][None])
            y = (
                w @ X
                + f(Cm)[0, c * C : (c + 1) * C, 0] @ f(prev)[0, c, hh].T * np.exp(a)[:, None]
                + X * f(D)[hh]
            )
            want[0, c * C : (c + 1) * C, hh] = y
    return _checked(k, [cb, x, dt, dA, Cm, prev, D, np.zeros((B, L, H, P), h)], [(7, want)], 0.03)


@program(also=("sm_90a",))
def the_largest_chosen_by_digits():
    rng = np.random.default_rng(6)
    B, N, K, BS = (3, 700, 50, 256)
    RADIX = 256

    def convert_to_uint16(x):
        hval = T.Cast("float16", x)
        bits = T.reinterpret("uint16", hval)
        bits = T.if_then_else(x < 0, ~bits & 65535, bits | 32768)
        return bits >> 8

    def convert_to_uint32(x):
        bits = T.reinterpret("uint32", x)
        return T.if_then_else(
            x < 0, ~bits & T.Cast("uint32", 4294967295), bits | T.Cast("uint32", 2147483648)
        )

    SM = 1024

    @T.macro
    def find_threshold(tx, s_hist, s_thr, l_val: T.Ref, l_new):
        if tx < RADIX:
            for i in T.serial(8):
                offset = 1 << i
                T.sync_threads(3, RADIX)
                if tx < RADIX - offset:
                    l_val = s_hist[tx] + s_hist[tx + offset]
                T.sync_threads(3, RADIX)
                if tx < RADIX - offset:
                    s_hist[tx] = l_val
            T.sync_threads(3, RADIX)
            if s_hist[tx] > l_new and s_hist[tx + 1] <= l_new:
                s_thr[0] = tx
        T.sync_threads()

    @T.prim_func
    def k(inp: F32[B, N], places: I32[B, K], chosen: I32[B, N], starts: I32[B], ends: I32[B]):
        with T.Kernel(B, threads=BS) as bx:
            tx = T.get_thread_binding()
            s_thr = T.alloc_shared([1], "int32")
            s_hist = T.alloc_shared([RADIX + 1], "int32")
            s_nin = T.alloc_shared([2], "int32")
            s_idx = T.alloc_shared([2, SM], "int32")
            l_thr = T.alloc_var("int32")
            l_bin = T.alloc_var("int32")
            l_new = T.alloc_var("int32")
            l_val = T.alloc_var("int32")
            l_b32 = T.alloc_var("int32")
            l_nin = T.alloc_var("int32")
            l_out = T.alloc_var("int32")
            l_start = T.alloc_var("int32")
            l_s = T.alloc_var("int32")
            l_e = T.alloc_var("int32")
            l_new = K
            l_s = starts[bx]
            l_e = ends[bx]
            T.fill(s_hist, 0)
            T.fill(s_nin[0], 0)
            T.sync_threads()
            for s in T.serial(T.ceildiv(N, BS)):
                i = s * BS + tx
                if i < l_e and i >= l_s and (i < N):
                    b16 = convert_to_uint16(inp[bx, i])
                    T.atomic_add(s_hist[T.Cast("int32", b16)], 1)
            T.sync_threads()
            find_threshold(tx, s_hist, s_thr, l_val, l_new)
            l_thr = s_thr[0]
            l_new = l_new - s_hist[l_thr + 1]
            T.sync_threads()
            for s in T.serial(T.ceildiv(N, BS)):
                T.sync_threads()
                i = s * BS + tx
                if i < l_e and i >= l_s and (i < N):
                    b16 = convert_to_uint16(inp[bx, i])
                    l_b32 = T.Cast("int32", b16)
                    if l_b32 > l_thr:
                        pos = T.atomic_add(s_hist[l_b32 + 1], 1, return_prev=True)
                        places[bx, pos] = 1
                        chosen[bx, i] = 1
                    elif l_b32 == l_thr and l_new > 0:
                        pos = T.atomic_add(s_nin[0], 1, return_prev=True)
                        s_idx[0, pos] = i
            for rnd in T.serial(4):
                if l_new <= 0:
                    T.loop_break()
                r_idx = rnd % 2
                l_start = K - l_new
                T.sync_threads()
                T.fill(s_hist, 0)
                if tx == 0:
                    s_nin[r_idx ^ 1] = 0
                T.sync_threads()
                l_nin = s_nin[r_idx]
                for s in T.serial(T.ceildiv(l_nin, BS)):
                    if s * BS + tx < l_nin:
                        l_b32 = T.Cast(
                            "int32",
                            convert_to_uint32(inp[bx, s_idx[r_idx, s * BS + tx]]) >> 24 - rnd * 8
                            & 255,
                        )
                        T.atomic_add(s_hist[l_b32], 1)
                T.sync_threads()
                find_threshold(tx, s_hist, s_thr, l_val, l_new)
                l_thr = s_thr[0]
                l_new = l_new - s_hist[l_thr + 1]
                T.sync_threads()
                for s in T.serial(T.ceildiv(l_nin, BS)):
                    T.sync_threads()
                    if s * BS + tx < l_nin:
                        l_b32 = T.Cast(
                            "int32",
                            convert_to_uint32(inp[bx, s_idx[r_idx, s * BS + tx]]) >> 24 - rnd * 8
                            & 255,
                        )
                        if l_b32 > l_thr:
                            pos = T.atomic_add(s_hist[l_b32 + 1], 1, return_prev=True) + l_start
                            places[bx, pos] = 1
                            chosen[bx, s_idx[r_idx, s * BS + tx]] = 1
                        elif l_b32 == l_thr and l_new > 0:
                            if rnd == 3:
                                l_out = (
                                    T.atomic_add(s_hist[l_b32 + 1], 1, return_prev=True) + l_start
                                )
                                if l_out < K:
                                    places[bx, l_out] = 1
                                    chosen[bx, s_idx[r_idx, s * BS + tx]] = 1
                            else:
                                pos = T.atomic_add(s_nin[r_idx ^ 1], 1, return_prev=True)
                                s_idx[r_idx ^ 1, pos] = s_idx[r_idx, s * BS + tx]

    x = rng.standard_normal((B, N)).astype(np.float32)
    st = np.array([0, 13, 100], np.int32)
    en = np.array([700, 650, 500], np.int32)

    flags = np.zeros((B, N), np.int32)
    for b in range(B):
        flags[b, np.argsort(-x[b, st[b] : en[b]])[:K] + st[b]] = 1
    nothing = np.zeros((B, N), np.int32)
    return k, [x, Out(np.ones((B, K), np.int32)), Out(flags, initial=nothing), st, en]


@program(also=("sm_90a",))
def rows_and_columns_normalised_in_turns():
    rng = np.random.default_rng(7)
    n, hc, iters, eps = (37, 4, 20, 1e-06)
    mix = (2 + hc) * hc
    nn = T.dynamic("n")

    @T.prim_func
    def k(
        mixes: T.Tensor[(nn, mix), "float32"], sc: T.Tensor[(3,), "float32"],
        base: T.Tensor[(mix,), "float32"], pre: T.Tensor[(nn, hc), "float32"],
        post: T.Tensor[(nn, hc), "float32"], comb: T.Tensor[(nn, hc, hc), "float32"],
    ):  # fmt: skip
        with T.Kernel(nn, threads=64) as i:
            ms = T.alloc_shared(mix, "float32")
            cf = T.alloc_fragment((hc, hc), "float32")
            T.copy(mixes[i, :], ms)
            for j in T.Parallel(hc):
                pre[i, j] = T.sigmoid(ms[j] * sc[0] + base[j]) + eps
            for j in T.Parallel(hc):
                post[i, j] = 2 * T.sigmoid(ms[j + hc] * sc[1] + base[j + hc])
            for j, kk in T.Parallel(hc, hc):
                cf[j, kk] = ms[j * hc + kk + hc * 2] * sc[2] + base[j * hc + kk + hc * 2]
            rs = T.alloc_fragment(hc, "float32")
            cs = T.alloc_fragment(hc, "float32")
            rm = T.alloc_fragment(hc, "float32")
            T.reduce_max(cf, rm, dim=1)
            for j, kk in T.Parallel(hc, hc):
                cf[j, kk] = T.exp(cf[j, kk] - rm[j])
            T.reduce_sum(cf, rs, dim=1)
            for j, kk in T.Parallel(hc, hc):
                cf[j, kk] = cf[j, kk] / rs[j] + eps
            T.reduce_sum(cf, cs, dim=0)
            for j, kk in T.Parallel(hc, hc):
                cf[j, kk] = cf[j, kk] / (cs[kk] + eps)
            for _ in T.serial(iters - 1):
                T.reduce_sum(cf, rs, dim=1)
                for j, kk in T.Parallel(hc, hc):
                    cf[j, kk] = cf[j, kk] / (rs[j] + eps)
                T.reduce_sum(cf, cs, dim=0)
                for j, kk in T.Parallel(hc, hc):
                    cf[j, kk] = cf[j, kk] / (cs[kk] + eps)
            T.copy(cf, comb[i, 0, 0])

    m = rng.standard_normal((n, mix)).astype(np.float32)
    sc = rng.standard_normal(3).astype(np.float32)
    ba = rng.standard_normal(mix).astype(np.float32)

    def sg(v):
        return 1 / (1 + np.exp(-v))

    wp = sg(m[:, :hc] * sc[0] + ba[:hc]) + eps
    wq = 2 * sg(m[:, hc : 2 * hc] * sc[1] + ba[hc : 2 * hc])
    c = (m[:, 2 * hc :] * sc[2] + ba[2 * hc :]).reshape(n, hc, hc)
    c = np.exp(c - c.max(-1, keepdims=True))
    c = c / c.sum(-1, keepdims=True) + eps
    c = c / (c.sum(-2, keepdims=True) + eps)
    for _ in range(iters - 1):
        c = c / (c.sum(-1, keepdims=True) + eps)
        c = c / (c.sum(-2, keepdims=True) + eps)
    z = np.zeros
    return _checked(
        k,
        [m, sc, ba, z((n, hc), np.float32), z((n, hc), np.float32), z((n, hc, hc), np.float32)],
        [(3, wp), (4, wq), (5, c)],
        0.0001,
    )


@program(also=("sm_90a",))
def decoding_over_pages_in_splits():
    rng = np.random.default_rng(8)
    Bz, H, D, BS, NB, MAXB = (2, 16, 64, 32, 12, 4)
    splits = 2

    @T.prim_func
    def k(
        Q: F16[Bz, H, D], Kc: F16[NB, BS, D], Vc: F16[NB, BS, D], table: I32[Bz, MAXB],
        lens: I32[Bz], gl: F32[Bz, splits, H], Op: F32[Bz, splits, H, D], O: F16[Bz, H, D],
    ):  # fmt: skip
        with T.Kernel(Bz, splits, threads=128) as (b, sp):
            Qs = T.alloc_shared((H, D), "float16")
            Ks = T.alloc_shared((BS, D), "float16")
            Vs = T.alloc_shared((BS, D), "float16")
            s = T.alloc_fragment((H, BS), "float32")
            p = T.alloc_fragment((H, BS), "float16")
            o = T.alloc_fragment((H, D), "float32")
            mx = T.alloc_fragment((H,), "float32")
            mp = T.alloc_fragment((H,), "float32")
            sc = T.alloc_fragment((H,), "float32")
            su = T.alloc_fragment((H,), "float32")
            lg = T.alloc_fragment((H,), "float32")
            T.copy(Q[b, 0, 0], Qs)
            T.clear(o)
            T.clear(lg)
            T.fill(mx, -T.infinity("float32"))
            total = T.ceildiv(lens[b], BS)
            per = T.ceildiv(total, splits)
            first = sp * per
            count = T.max(0, T.min(per, total - first))
            for kk in T.Pipelined(count, num_stages=2):
                blk = table[b, first + kk]
                T.copy(Kc[blk, 0, 0], Ks)
                T.gemm(Qs, Ks, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(H, BS):
                    s[i, j] = T.if_then_else(
                        (first + kk) * BS + j < lens[b], s[i, j], -T.infinity("float32")
                    )
                T.copy(mx, mp)
                T.reduce_max(s, mx, dim=1, clear=False)
                for i in T.Parallel(H):
                    sc[i] = T.exp2((mp[i] - mx[i]) * 0.18)
                for i, j in T.Parallel(H, BS):
                    s[i, j] = T.exp2((s[i, j] - mx[i]) * 0.18)
                T.reduce_sum(s, su, dim=1)
                for i in T.Parallel(H):
                    lg[i] = lg[i] * sc[i] + su[i]
                for i, j in T.Parallel(H, D):
                    o[i, j] *= sc[i]
                T.copy(s, p)
                T.copy(Vc[blk, 0, 0], Vs)
                T.gemm(p, Vs, o)
            for i, j in T.Parallel(H, D):
                o[i, j] = T.if_then_else(lg[i] > 0, o[i, j] / lg[i], 0)
            for i in T.Parallel(H):
                lg[i] = T.if_then_else(
                    lg[i] > 0, T.log2(lg[i]) + mx[i] * 0.18, -T.infinity("float32")
                )
            T.copy(lg, gl[b, sp, 0])
            T.copy(o, Op[b, sp, 0, 0])
        with T.Kernel(H, Bz, threads=64) as (h, b):
            acc = T.alloc_fragment((D,), "float32")
            lm = T.alloc_local((1,), "float32")
            ls = T.alloc_local((1,), "float32")
            w = T.alloc_local((1,), "float32")
            T.clear(acc)
            T.clear(ls)
            lm[0] = -T.infinity("float32")
            for q in T.serial(splits):
                lm[0] = T.max(lm[0], gl[b, q, h])
            for q in T.serial(splits):
                ls[0] += T.exp2(gl[b, q, h] - lm[0])
            for q in T.serial(splits):
                w[0] = T.exp2(gl[b, q, h] - lm[0]) / ls[0]
                for i in T.Parallel(D):
                    acc[i] += Op[b, q, h, i] * w[0]
            for i in T.Parallel(D):
                O[b, h, i] = acc[i]

    h = np.float16
    q = rng.standard_normal((Bz, H, D)).astype(h)
    kc = rng.standard_normal((NB, BS, D)).astype(h)
    vc = rng.standard_normal((NB, BS, D)).astype(h)
    tb = rng.permutation(NB)[: Bz * MAXB].reshape(Bz, MAXB).astype(np.int32)
    ln = np.array([101, 20], np.int32)
    want = np.zeros((Bz, H, D))
    logs = np.full((Bz, splits, H), -np.inf)
    parts = np.zeros((Bz, splits, H, D))
    for b in range(Bz):
        keys, values = (rows[tb[b]].reshape(-1, D)[: ln[b]].astype(np.float64) for rows in (kc, vc))
        s = q[b].astype(np.float64) @ keys.T * 0.18
        per = -(-(-(-int(ln[b]) // BS)) // splits) * BS
        for split in range(splits):
            there = slice(split * per, (split + 1) * per)
            if s[:, there].size:
                p = np.exp2(s[:, there])
                logs[b, split] = np.log2(p.sum(-1))
                parts[b, split] = p @ values[there] / p.sum(-1, keepdims=True)
        p = np.exp2(s)
        want[b] = p @ values / p.sum(-1, keepdims=True)
    return _checked(
        k,
        [q, kc, vc, tb, ln, logs.astype("f4"), parts.astype("f4"), want.astype(h)],
        [(5, logs), (6, parts), (7, want)],
        0.01,
    )


@program(also=("sm_90a",))
def attention_over_sequences_of_any_length():
    rng = np.random.default_rng(9)
    H, D, bM, bN = (2, 32, 32, 32)
    seqs = [50, 7, 33]
    tot = sum(seqs)
    mxl = max(seqs)
    UQ = T.dynamic("UQ")
    nb = len(seqs)
    scale = (1.0 / D) ** 0.5 * 1.44269504

    @T.prim_func
    def k(
        Q: F16[UQ, H, D], K: F16[UQ, H, D], V: F16[UQ, H, D], cu: I32[nb + 1], maxs: T.int32,
        O: F16[UQ, H, D],
    ):  # fmt: skip
        with T.Kernel(T.ceildiv(maxs, bM), H, nb, threads=128) as (bx, by, bz):
            Qs = T.alloc_shared([bM, D], "float16")
            Ks = T.alloc_shared([bN, D], "float16")
            Vs = T.alloc_shared([bN, D], "float16")
            Os = T.alloc_shared([bM, D], "float16")
            s = T.alloc_fragment([bM, bN], "float32")
            p = T.alloc_fragment([bM, bN], "float16")
            o = T.alloc_fragment([bM, D], "float32")
            mx = T.alloc_fragment([bM], "float32")
            mp = T.alloc_fragment([bM], "float32")
            sc = T.alloc_fragment([bM], "float32")
            su = T.alloc_fragment([bM], "float32")
            ls = T.alloc_fragment([bM], "float32")
            st = cu[bz]
            en = cu[bz + 1]
            n = en - st
            for i, d in T.Parallel(bM, D):
                if bx * bM + i < n:
                    Qs[i, d] = Q[st + bx * bM + i, by, d]
                else:
                    Qs[i, d] = 0
            T.fill(o, 0)
            T.fill(ls, 0)
            T.fill(mx, -T.infinity("float32"))
            loop = T.ceildiv(n, bN)
            for k in T.Pipelined(loop, num_stages=1):
                for i, d in T.Parallel(bN, D):
                    if k * bN + i < n:
                        Ks[i, d] = K[st + k * bN + i, by, d]
                    else:
                        Ks[i, d] = 0
                for i, j in T.Parallel(bM, bN):
                    s[i, j] = T.if_then_else(
                        bx * bM + i >= k * bN + j and (bx * bM + i >= n or k * bN + j >= n),
                        -T.infinity("float32"),
                        T.if_then_else(bx * bM + i >= k * bN + j, 0.0, -T.infinity("float32")),
                    )
                T.gemm(Qs, Ks, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(mx, mp)
                T.reduce_max(s, mx, dim=1, clear=False)
                for i in T.Parallel(bM):
                    mx[i] = T.max(mx[i], mp[i])
                for i in T.Parallel(bM):
                    sc[i] = T.if_then_else(
                        mx[i] == -T.infinity("float32"), 1.0, T.exp2(mp[i] * scale - mx[i] * scale)
                    )
                for i, j in T.Parallel(bM, bN):
                    s[i, j] = T.if_then_else(
                        mx[i] == -T.infinity("float32"),
                        0.0,
                        T.exp2(s[i, j] * scale - mx[i] * scale),
                    )
                T.reduce_sum(s, su, dim=1)
                for i in T.Parallel(bM):
                    ls[i] = ls[i] * sc[i] + su[i]
                T.copy(s, p)
                for i, j in T.Parallel(bM, D):
                    o[i, j] *= sc[i]
                for i, d in T.Parallel(bN, D):
                    if k * bN + i < n:
                        Vs[i, d] = V[st + k * bN + i, by, d]
                    else:
                        Vs[i, d] = 0
                T.gemm(p, Vs, o, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(bM, D):
                o[i, j] /= ls[i]
            T.copy(o, Os)
            for i, d in T.Parallel(bM, D):
                if bx * bM + i < n:
                    O[st + bx * bM + i, by, d] = Os[i, d]

    h = np.float16
    q, kk, v = (rng.standard_normal((tot, H, D)).astype(h) for _ in range(3))
    cu = np.concatenate([[0], np.cumsum(seqs)]).astype(np.int32)
    want = np.zeros((tot, H, D))
    for b in range(nb):
        sl = slice(cu[b], cu[b + 1])
        for hh in range(H):
            s = q[sl, hh].astype(np.float64) @ kk[sl, hh].astype(np.float64).T / math.sqrt(D)
            s = np.where(np.tril(np.ones_like(s)) > 0, s, -np.inf)
            p = np.exp(s - s.max(-1, keepdims=True))
            want[sl, hh] = p @ v[sl, hh].astype(np.float64) / p.sum(-1, keepdims=True)
    return _checked(k, [q, kk, v, cu, mxl, np.zeros((tot, H, D), h)], [(5, want)], 0.01)


@program(also=("sm_90a",))
def a_gated_delta_rule_by_chunks():
    rng = np.random.default_rng(10)
    C, D, L = (32, 32, 96)

    @T.prim_func
    def k(
        Q: F32[L, D], K: F32[L, D], V: F32[L, D], beta: F32[L], g: F32[L], O: F32[L, D],
        Sf: F32[D, D],
    ):  # fmt: skip
        with T.Kernel(1, threads=128) as _:
            S = T.alloc_shared((D, D), "float32")
            qs = T.alloc_shared((C, D), "float32")
            ks = T.alloc_shared((C, D), "float32")
            vs = T.alloc_shared((C, D), "float32")
            A = T.alloc_shared((C, C), "float32")
            Ai = T.alloc_shared((C, C), "float32")
            gs = T.alloc_shared((C,), "float32")
            bs = T.alloc_shared((C,), "float32")
            acc = T.alloc_fragment((C, C), "float32")
            av = T.alloc_fragment((C, D), "float32")
            u = T.alloc_shared((C, D), "float32")
            ad = T.alloc_fragment((D, D), "float32")
            tmp = T.alloc_fragment((C,), "float32")
            kd = T.alloc_shared((C, D), "float32")
            T.clear(S)
            for c in T.serial(L // C):
                T.copy(Q[c * C, 0], qs)
                T.copy(K[c * C, 0], ks)
                T.copy(V[c * C, 0], vs)
                T.copy(beta[c * C], bs)
                T.copy(g[c * C], gs)
                T.cumsum(gs, dim=0)
                T.gemm(ks, ks, acc, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(C, C):
                    A[i, j] = T.if_then_else(i > j, acc[i, j] * bs[i] * T.exp(gs[i] - gs[j]), 0.0)
                for i, j in T.Parallel(C, C):
                    Ai[i, j] = T.if_then_else(i == j, 1.0, 0.0)
                for r in T.serial(1, C):
                    T.clear(tmp)
                    for m in T.serial(r):
                        for j in T.Parallel(C):
                            tmp[j] += A[r, m] * Ai[m, j]
                    for j in T.Parallel(C):
                        Ai[r, j] = Ai[r, j] - tmp[j]
                T.gemm(ks, S, av, clear_accum=True)
                for i, j in T.Parallel(C, D):
                    u[i, j] = bs[i] * (vs[i, j] - T.exp(gs[i]) * av[i, j])
                T.gemm(Ai, u, av, clear_accum=True)
                T.copy(av, u)
                T.gemm(qs, ks, acc, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(C, C):
                    A[i, j] = T.if_then_else(i >= j, acc[i, j] * T.exp(gs[i] - gs[j]), 0.0)
                T.gemm(qs, S, av, clear_accum=True)
                for i, j in T.Parallel(C, D):
                    av[i, j] *= T.exp(gs[i])
                T.gemm(A, u, av)
                T.copy(av, O[c * C, 0])
                for i, j in T.Parallel(C, D):
                    kd[i, j] = ks[i, j] * T.exp(gs[C - 1] - gs[i])
                T.copy(S, ad)
                for i, j in T.Parallel(D, D):
                    ad[i, j] *= T.exp(gs[C - 1])
                T.gemm(kd, u, ad, transpose_A=True)
                T.copy(ad, S)
            T.copy(S, Sf)

    f = lambda *s: rng.standard_normal(s).astype(np.float32)
    q, kk, v = (f(L, D), f(L, D) / 6, f(L, D))
    be = rng.random(L).astype(np.float32)
    g = -rng.random(L).astype(np.float32) * 0.1
    S = np.zeros((D, D))
    o = np.zeros((L, D))
    for t in range(L):
        S = S * np.exp(float(g[t]))
        S = S + np.outer(kk[t], be[t] * (v[t] - kk[t].astype(float) @ S))
        o[t] = q[t].astype(float) @ S
    return _checked(
        k,
        [q, kk, v, be, g, np.zeros((L, D), np.float32), np.zeros((D, D), np.float32)],
        [(5, o), (6, S)],
        0.03,
    )


@program(also=("sm_90a",))
def two_bit_weights_and_a_sum_over_threads():
    rng = np.random.default_rng(11)
    M, N, K = (16, 32, 128)

    @T.macro
    def decode(src, dst, n: int):
        for i in T.serial(n):
            dst[i] = T.Cast("int8", src[i // 4] >> T.Cast("int8", i % 4 * 2) & T.int8(3)) - T.int8(
                1
            )

    @T.prim_func
    def k(A: I8[M, K], B: I8[N, K // 4], C: I32[M, N]):
        with T.Kernel(N // 4, M, threads=(32, 4)) as (bx, by):
            Al = T.alloc_local((16,), "int8")
            Bq = T.alloc_local((4,), "int8")
            Bl = T.alloc_local((16,), "int8")
            acc = T.alloc_local((1,), "int32")
            red = T.alloc_local((1,), "int32")
            kr = T.thread_binding(0, 32, thread="threadIdx.x")
            ni = T.thread_binding(0, 4, thread="threadIdx.y")
            T.clear(acc)
            for ko in T.serial(T.ceildiv(K, 32 * 16)):
                if kr * 16 + ko * 512 < K:
                    for v in T.vectorized(16):
                        Al[v] = A[by, ko * 512 + kr * 16 + v]
                    for v in T.vectorized(4):
                        Bq[v] = B[bx * 4 + ni, (ko * 512 + kr * 16) // 4 + v]
                    decode(Bq, Bl, 16)
                    for v in T.serial(16):
                        acc[0] += Al[v].astype("int32") * Bl[v].astype("int32")
            with T.attr(
                T.comm_reducer(lambda x, y: x + y, [T.Cast("int32", 0)]),
                "reduce_scope",
                T.reinterpret(T.uint64(0), dtype="handle"),
            ):
                T.evaluate(
                    T.tvm_thread_allreduce(T.uint32(1), acc[0], True, red[0], kr, dtype="handle")
                )
            if kr == 0:
                C[by, bx * 4 + ni] = red[0]

    a = rng.integers(-128, 128, (M, K)).astype(np.int8)
    b = rng.integers(-128, 128, (N, K // 4)).astype(np.int8)
    w = np.stack([(b.astype(np.int32) >> 2 * i & 3) - 1 for i in range(4)], -1).reshape(N, K)
    return _checked(k, [a, b, np.zeros((M, N), np.int32)], [(2, a.astype(np.int32) @ w.T)], 0)
