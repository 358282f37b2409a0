"""Everyday kernels: attention of newer models, its gradients, and states that pass chunks."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_attention import LOG2_E, MASKED, online_softmax
from everyday_family import Program, family

import tilelang.language as T


@family((2, 64, 8, 2048, 64, 128), small=(1, 4, 2, 256, 64, 100))
def sink_attention(batch: int, heads: int, groups: int, length: int, dim: int,
                   window: int) -> Program:  # fmt: skip
    """A window of tokens and a learned sink for each head, which takes weight and gives none."""
    scale = dim**-0.5 * LOG2_E

    def build():
        @T.prim_func
        def kernel(
            Q: T.Tensor((batch, heads, length, dim), "bfloat16"),
            K: T.Tensor((batch, groups, length, dim), "bfloat16"),
            V: T.Tensor((batch, groups, length, dim), "bfloat16"),
            S: T.Tensor((heads,), "float32"),
            O: T.Tensor((batch, heads, length, dim), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(length, 128), heads, batch, threads=256) as (bx, by, bz):
                q = T.alloc_shared((128, dim), "bfloat16")
                k = T.alloc_shared((128, dim), "bfloat16")
                v = T.alloc_shared((128, dim), "bfloat16")
                out = T.alloc_shared((128, dim), "bfloat16")
                s = T.alloc_fragment((128, 128), "float32")
                p = T.alloc_fragment((128, 128), "bfloat16")
                o = T.alloc_fragment((128, dim), "float32")
                high = T.alloc_fragment((128,), "float32")
                before = T.alloc_fragment((128,), "float32")
                part = T.alloc_fragment((128,), "float32")
                total = T.alloc_fragment((128,), "float32")
                group = by // (heads // groups)
                T.copy(Q[bz, by, bx * 128 : (bx + 1) * 128, :], q)
                T.clear(o)
                T.clear(total)
                T.fill(high, MASKED)
                first = T.max(0, bx * 128 - window + 1) // 128
                for t in T.Pipelined(first, bx + 1, num_stages=2):
                    T.copy(K[bz, group, t * 128 : (t + 1) * 128, :], k)
                    for i, j in T.Parallel(128, 128):
                        ahead = bx * 128 + i - (t * 128 + j)
                        s[i, j] = T.if_then_else(ahead >= 0 and ahead < window, 0, MASKED)
                    T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    online_softmax(s, high, before, part, total, o, 128, 128, dim, scale)
                    T.copy(s, p)
                    T.copy(V[bz, group, t * 128 : (t + 1) * 128, :], v)
                    T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
                for i in T.Parallel(128):
                    total[i] += T.exp2(S[by] * LOG2_E - high[i] * scale)
                for i, j in T.Parallel(128, dim):
                    o[i, j] = o[i, j] / total[i]
                T.copy(o, out)
                T.copy(out, O[bz, by, bx * 128 : (bx + 1) * 128, :])

        return kernel

    def reference(q: Any, k: Any, v: Any, sinks: Any) -> Any:
        import torch

        k, v = (x.float().repeat_interleave(heads // groups, 1) for x in (k, v))
        at = torch.arange(length, device=q.device)
        ahead = at[:, None] - at
        s = (q.float() @ k.transpose(2, 3)) * dim**-0.5
        s = s.masked_fill((ahead < 0) | (ahead >= window), -1e30)
        s = torch.cat((s, sinks[None, :, None, None].expand(batch, -1, length, 1)), -1)
        return (s.softmax(-1)[..., :-1] @ v).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, heads, length, dim, dtype="bfloat16"),
            normal(batch, groups, length, dim, dtype="bfloat16"),
            normal(batch, groups, length, dim, dtype="bfloat16"), normal(heads),
        ],
        reference,
        operations=4 * batch * heads * length * window * dim,
        tolerance=4e-2,
    )  # fmt: skip


@family((8, 32, 8, 8192, 128, 8), small=(2, 8, 2, 256, 64, 2))
def split_decode(batch: int, heads: int, groups: int, length: int, dim: int,
                 parts: int) -> Program:  # fmt: skip
    """Decoding: blocks share the cache of a sequence; a second kernel combines their results."""
    scale = dim**-0.5 * LOG2_E
    shared, share = heads // groups, length // parts

    def build():
        @T.prim_func
        def kernel(
            Q: T.Tensor((batch, heads, dim), "float16"),
            K: T.Tensor((batch, length, groups, dim), "float16"),
            V: T.Tensor((batch, length, groups, dim), "float16"),
            L: T.Tensor((batch, heads, parts), "float32"),
            P: T.Tensor((batch, heads, parts, dim), "float16"),
            O: T.Tensor((batch, heads, dim), "float16"),
        ):
            with T.Kernel(batch, groups, parts, threads=128) as (bx, by, bz):
                q = T.alloc_shared((64, dim), "float16")
                k = T.alloc_shared((128, dim), "float16")
                v = T.alloc_shared((128, dim), "float16")
                s = T.alloc_fragment((64, 128), "float32")
                p = T.alloc_fragment((64, 128), "float16")
                o = T.alloc_fragment((64, dim), "float32")
                high = T.alloc_fragment((64,), "float32")
                before = T.alloc_fragment((64,), "float32")
                part = T.alloc_fragment((64,), "float32")
                total = T.alloc_fragment((64,), "float32")
                T.copy(Q[bx, by * shared : by * shared + 64, :], q)
                T.clear(o)
                T.clear(total)
                T.fill(high, MASKED)
                for t in T.Pipelined(share // 128, num_stages=2):
                    at = bz * share + t * 128
                    T.copy(K[bx, at : at + 128, by, :], k)
                    T.clear(s)
                    T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.copy(V[bx, at : at + 128, by, :], v)
                    online_softmax(s, high, before, part, total, o, 64, 128, dim, scale)
                    T.copy(s, p)
                    T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(64, dim):
                    o[i, j] = o[i, j] / total[i]
                for i in T.Parallel(64):
                    total[i] = T.log2(total[i]) + high[i] * scale
                for i in T.Parallel(64):
                    if i < shared:
                        L[bx, by * shared + i, bz] = total[i]
                for i, j in T.Parallel(64, dim):
                    if i < shared:
                        P[bx, by * shared + i, bz, j] = o[i, j]
            with T.Kernel(heads, batch, threads=128) as (by, bz):
                row = T.alloc_fragment((dim,), "float32")
                weight = T.alloc_local((1,), "float32")
                most = T.alloc_local((1,), "float32")
                sums = T.alloc_local((1,), "float32")
                T.clear(row)
                most[0] = MASKED
                sums[0] = 0
                for i in T.serial(parts):
                    most[0] = T.max(most[0], L[bz, by, i])
                for i in T.serial(parts):
                    weight[0] = T.exp2(L[bz, by, i] - most[0])
                    sums[0] += weight[0]
                    for j in T.Parallel(dim):
                        row[j] += weight[0] * T.cast(P[bz, by, i, j], "float32")
                for j in T.Parallel(dim):
                    O[bz, by, j] = row[j] / sums[0]

        return kernel

    def reference(q: Any, k: Any, v: Any, *_: Any) -> Any:
        import torch

        k, v = (x.transpose(1, 2).repeat_interleave(shared, 1) for x in (k, v))
        return torch.nn.functional.scaled_dot_product_attention(q[:, :, None], k, v)[:, :, 0]

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, heads, dim, dtype="float16"),
            normal(batch, length, groups, dim, dtype="float16"),
            normal(batch, length, groups, dim, dtype="float16"),
            normal(batch, heads, parts), normal(batch, heads, parts, dim, dtype="float16"),
        ],
        reference,
    )  # fmt: skip


def gradient_inputs(batch: int, heads: int, length: int, dim: int) -> Any:
    def inputs(normal: Any, integers: Any) -> list[Any]:
        import torch

        q, k, v, do = (normal(batch, heads, length, dim, dtype="bfloat16") for _ in range(4))
        later = torch.ones(length, length, device=q.device).triu(1).bool()
        s = (q.float() @ k.float().transpose(2, 3) * dim**-0.5).masked_fill(later, -1e30)
        o = s.softmax(-1) @ v.float()
        return [q, k, v, do, s.logsumexp(-1) * LOG2_E, (o * do.float()).sum(-1)]

    return inputs


def gradients(q: Any, k: Any, v: Any, do: Any) -> Any:
    import torch

    q, k, v = (x.float().requires_grad_() for x in (q, k, v))
    later = torch.ones(q.shape[2], q.shape[2], device=q.device).triu(1).bool()
    s = (q @ k.transpose(2, 3) * q.shape[-1] ** -0.5).masked_fill(later, -1e30)
    return torch.autograd.grad(s.softmax(-1) @ v, (q, k, v), do.float())


@family((2, 16, 2048, 64), small=(1, 2, 128, 64))
def query_gradient(batch: int, heads: int, length: int, dim: int) -> Program:
    """The gradient of the queries of causal attention."""
    scale = dim**-0.5

    def build():
        shape = (batch, heads, length, dim)

        @T.prim_func
        def kernel(
            Q: T.Tensor(shape, "bfloat16"),
            K: T.Tensor(shape, "bfloat16"),
            V: T.Tensor(shape, "bfloat16"),
            G: T.Tensor(shape, "bfloat16"),
            L: T.Tensor((batch, heads, length), "float32"),
            D: T.Tensor((batch, heads, length), "float32"),
            O: T.Tensor(shape, "bfloat16"),
        ):
            with T.Kernel(length // 64, heads, batch, threads=128) as (bx, by, bz):
                q = T.alloc_shared((64, dim), "bfloat16")
                g = T.alloc_shared((64, dim), "bfloat16")
                k = T.alloc_shared((64, dim), "bfloat16")
                v = T.alloc_shared((64, dim), "bfloat16")
                ds = T.alloc_shared((64, 64), "bfloat16")
                s = T.alloc_fragment((64, 64), "float32")
                dp = T.alloc_fragment((64, 64), "float32")
                lse = T.alloc_fragment((64,), "float32")
                delta = T.alloc_fragment((64,), "float32")
                dq = T.alloc_fragment((64, dim), "float32")
                T.copy(Q[bz, by, bx * 64 : bx * 64 + 64, :], q)
                T.copy(G[bz, by, bx * 64 : bx * 64 + 64, :], g)
                T.copy(L[bz, by, bx * 64 : bx * 64 + 64], lse)
                T.copy(D[bz, by, bx * 64 : bx * 64 + 64], delta)
                T.clear(dq)
                for t in T.Pipelined(bx + 1, num_stages=2):
                    T.copy(K[bz, by, t * 64 : t * 64 + 64, :], k)
                    T.copy(V[bz, by, t * 64 : t * 64 + 64, :], v)
                    T.clear(s)
                    T.clear(dp)
                    T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    T.gemm(g, v, dp, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                    for i, j in T.Parallel(64, 64):
                        s[i, j] = T.if_then_else(
                            bx * 64 + i >= t * 64 + j,
                            T.exp2(s[i, j] * (scale * LOG2_E) - lse[i]), 0.0,
                        )  # fmt: skip
                    for i, j in T.Parallel(64, 64):
                        ds[i, j] = s[i, j] * (dp[i, j] - delta[i]) * scale
                    T.gemm(ds, k, dq, policy=T.GemmWarpPolicy.FullRow)
                T.copy(dq, O[bz, by, bx * 64 : bx * 64 + 64, :])

        return kernel

    return Program(
        build, gradient_inputs(batch, heads, length, dim),
        lambda q, k, v, do, *_: gradients(q, k, v, do)[0].bfloat16().contiguous(),
        operations=3 * batch * heads * length * length * dim, tolerance=4e-2,
    )  # fmt: skip


@family((4, 8, 4096, 64, 128), small=(1, 2, 128, 64, 64))
def retention(batch: int, heads: int, length: int, dim: int, wide: int) -> Program:
    """Chunks of 64 with a decay for each head; a block has a part of the width of the values."""

    def build():
        @T.prim_func
        def kernel(
            Q: T.Tensor((batch, length, heads, dim), "float16"),
            K: T.Tensor((batch, length, heads, dim), "float16"),
            V: T.Tensor((batch, length, heads, wide), "float16"),
            D: T.Tensor((heads,), "float32"),
            O: T.Tensor((batch, length, heads, wide), "float16"),
        ):
            with T.Kernel(wide // 64, batch * heads, threads=128) as (bx, by):
                q = T.alloc_shared((64, dim), "float16")
                k = T.alloc_shared((64, dim), "float16")
                v = T.alloc_shared((64, 64), "float16")
                p = T.alloc_shared((64, 64), "float16")
                held = T.alloc_shared((dim, 64), "float16")
                s = T.alloc_fragment((64, 64), "float32")
                h = T.alloc_fragment((dim, 64), "float32")
                o = T.alloc_fragment((64, 64), "float32")
                kept = T.alloc_fragment((64, 64), "float16")
                head = by % heads
                b = by // heads
                decay = D[head]
                T.clear(h)
                for t in T.Pipelined(length // 64, num_stages=2):
                    T.copy(Q[b, t * 64 : t * 64 + 64, head, :], q)
                    T.copy(K[b, t * 64 : t * 64 + 64, head, :], k)
                    T.copy(V[b, t * 64 : t * 64 + 64, head, bx * 64 : bx * 64 + 64], v)
                    T.clear(s)
                    T.gemm(q, k, s, transpose_B=True)
                    for i, j in T.Parallel(64, 64):
                        p[i, j] = T.if_then_else(
                            i >= j, s[i, j] * T.exp2(T.cast(i - j, "float32") * decay), 0.0
                        )
                    T.copy(h, held)
                    T.clear(o)
                    T.gemm(q, held, o)
                    for i, j in T.Parallel(64, 64):
                        o[i, j] *= T.exp2(T.cast(i + 1, "float32") * decay)
                    T.gemm(p, v, o)
                    T.copy(o, O[b, t * 64 : t * 64 + 64, head, bx * 64 : bx * 64 + 64])
                    for i, j in T.Parallel(64, 64):
                        kept[i, j] = v[i, j] * T.exp2(T.cast(63 - i, "float32") * decay)
                    for i, j in T.Parallel(dim, 64):
                        h[i, j] *= T.exp2(64.0 * decay)
                    T.copy(kept, v)
                    T.gemm(k, v, h, transpose_A=True)

        return kernel

    def reference(q: Any, k: Any, v: Any, d: Any) -> Any:
        import torch

        q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
        at = torch.arange(length, device=q.device)
        weight = torch.exp2((at[:, None] - at).clamp(min=0) * d[:, None, None]).tril()
        return ((q @ k.transpose(2, 3) * weight) @ v).transpose(1, 2).half().contiguous()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, length, heads, dim, dtype="float16", scale=0.3),
            normal(batch, length, heads, dim, dtype="float16", scale=0.3),
            normal(batch, length, heads, wide, dtype="float16", scale=0.3),
            -normal(heads).abs() * 0.1 - 0.01,
        ],
        reference,
        operations=batch * heads * length * (wide // 64) * (6 * dim * 64 + 2 * 64 * 64),
    )


@family((4, 2048, 32, 64, 128, 256), small=(1, 128, 2, 64, 64, 64))
def chunk_scan(batch: int, length: int, heads: int, dim: int, state: int, chunk: int) -> Program:
    """mamba2: the result of a chunk from its own tokens and the state before it."""
    chunks = length // chunk

    def build():
        @T.prim_func
        def kernel(
            CB: T.Tensor((batch, chunks, chunk, chunk), "float16"),
            X: T.Tensor((batch, length, heads, dim), "float16"),
            DT: T.Tensor((batch, heads, chunks, chunk), "float16"),
            A: T.Tensor((batch, heads, chunks, chunk), "float16"),
            C: T.Tensor((batch, length, state), "float16"),
            H: T.Tensor((batch, chunks, heads, dim, state), "float16"),
            D: T.Tensor((heads,), "float16"),
            O: T.Tensor((batch, length, heads, dim), "float16"),
        ):
            with T.Kernel(heads, chunk // 64, batch * chunks, threads=128) as (bx, bm, bc):
                o = T.alloc_fragment((64, dim), "float32")
                cb = T.alloc_shared((64, 64), "float16")
                weight = T.alloc_fragment((64, 64), "float16")
                ak = T.alloc_shared((64,), "float16")
                dt = T.alloc_shared((64,), "float16")
                am = T.alloc_shared((64,), "float16")
                am_held = T.alloc_fragment((64,), "float32")
                ak_held = T.alloc_fragment((64,), "float32")
                dt_held = T.alloc_fragment((64,), "float32")
                grown = T.alloc_fragment((64,), "float32")
                x = T.alloc_shared((64, dim), "float16")
                c = T.alloc_shared((64, state), "float16")
                h = T.alloc_shared((dim, state), "float16")
                b = bc // chunks
                n = bc % chunks
                T.copy(A[b, bx, n, bm * 64 : bm * 64 + 64], am)
                T.copy(am, am_held)
                T.copy(C[b, n * chunk + bm * 64 : n * chunk + bm * 64 + 64, 0:state], c)
                T.copy(H[b, n, bx, 0:dim, 0:state], h)
                T.clear(o)
                for i in T.Parallel(64):
                    grown[i] = T.exp2(am_held[i] * LOG2_E)
                T.gemm(c, h, o, transpose_B=True)
                for i, j in T.Parallel(64, dim):
                    o[i, j] *= grown[i]
                for t in T.Pipelined(bm + 1, num_stages=2):
                    T.copy(CB[b, n, bm * 64 : bm * 64 + 64, t * 64 : t * 64 + 64], cb)
                    T.copy(cb, weight)
                    T.copy(A[b, bx, n, t * 64 : t * 64 + 64], ak)
                    T.copy(ak, ak_held)
                    T.copy(DT[b, bx, n, t * 64 : t * 64 + 64], dt)
                    T.copy(dt, dt_held)
                    for i, j in T.Parallel(64, 64):
                        weight[i, j] = T.if_then_else(
                            bm * 64 + i >= t * 64 + j,
                            weight[i, j] * T.exp2((am_held[i] - ak_held[j]) * LOG2_E) * dt_held[j],
                            0.0,
                        )
                    T.copy(X[b, n * chunk + t * 64 : n * chunk + t * 64 + 64, bx, 0:dim], x)
                    T.gemm(weight, x, o)
                for i, j in T.Parallel(64, dim):
                    o[i, j] += D[bx] * X[b, n * chunk + bm * 64 + i, bx, j]
                T.copy(o, O[b, n * chunk + bm * 64 : n * chunk + bm * 64 + 64, bx, 0:dim])

        return kernel

    def reference(cb: Any, x: Any, dt: Any, a: Any, c: Any, h: Any, d: Any) -> Any:
        import torch

        own = x.float().view(batch, chunks, chunk, heads, dim).permute(0, 3, 1, 2, 4)
        a, dt = a.float(), dt.float()
        w = cb.float()[:, None] * torch.exp((a[..., :, None] - a[..., None, :]).clamp(max=0))
        w = (w * dt[..., None, :]).tril()
        states = h.float().permute(0, 2, 1, 4, 3)
        rows = c.float().view(batch, 1, chunks, chunk, state)
        o = w @ own + (rows @ states) * a.exp()[..., None] + d.float()[:, None, None, None] * own
        return o.permute(0, 2, 3, 1, 4).reshape(batch, length, heads, dim).half().contiguous()

    def inputs(normal: Any, integers: Any) -> list[Any]:
        falling = -normal(batch, heads, chunks, chunk).abs().mul(0.05).cumsum(-1)
        return [
            normal(batch, chunks, chunk, chunk, dtype="float16", scale=0.3),
            normal(batch, length, heads, dim, dtype="float16", scale=0.3),
            normal(batch, heads, chunks, chunk).abs().half(),
            falling.half(),
            normal(batch, length, state, dtype="float16", scale=0.3),
            normal(batch, chunks, heads, dim, state, dtype="float16", scale=0.3),
            normal(heads, dtype="float16"),
        ]

    return Program(
        build, inputs, reference,
        operations=batch * heads * length * dim * (chunk + 2 * state),
    )  # fmt: skip


@family((2, 16, 4096, 128, 128), small=(1, 2, 192, 64, 64))
def delta_states(batch: int, heads: int, length: int, dim: int, wide: int) -> Program:
    """Gated delta rule: the state before each chunk of 64, from W, U, K and the gates."""
    chunks = length // 64

    def build():
        @T.prim_func
        def kernel(
            K: T.Tensor((batch, length, heads, dim), "bfloat16"),
            W: T.Tensor((batch, length, heads, dim), "bfloat16"),
            U: T.Tensor((batch, length, heads, wide), "bfloat16"),
            G: T.Tensor((batch, length, heads), "float32"),
            N: T.Tensor((batch, length, heads, wide), "bfloat16"),
            H: T.Tensor((batch, chunks, heads, dim, wide), "bfloat16"),
        ):
            with T.Kernel(wide // 32, batch * heads, threads=128) as (bx, by):
                h = T.alloc_fragment((dim, 32), "float32")
                held = T.alloc_shared((dim, 32), "bfloat16")
                w = T.alloc_shared((64, dim), "bfloat16")
                u = T.alloc_shared((64, 32), "bfloat16")
                k = T.alloc_shared((64, dim), "bfloat16")
                new = T.alloc_fragment((64, 32), "float32")
                wide_u = T.alloc_fragment((64, 32), "float32")
                out = T.alloc_shared((64, 32), "bfloat16")
                g = T.alloc_shared((64,), "float32")
                b = by // heads
                head = by % heads
                T.clear(h)
                for t in T.Pipelined(chunks, num_stages=2):
                    T.copy(h, held)
                    T.copy(held, H[b, t, head, 0:dim, bx * 32 : bx * 32 + 32])
                    T.copy(W[b, t * 64 : t * 64 + 64, head, 0:dim], w)
                    T.copy(U[b, t * 64 : t * 64 + 64, head, bx * 32 : bx * 32 + 32], u)
                    T.copy(K[b, t * 64 : t * 64 + 64, head, 0:dim], k)
                    T.clear(new)
                    T.gemm(w, held, new)
                    T.copy(u, wide_u)
                    for i, j in T.Parallel(64, 32):
                        new[i, j] = wide_u[i, j] - new[i, j]
                    T.copy(new, N[b, t * 64 : t * 64 + 64, head, bx * 32 : bx * 32 + 32])
                    for i in T.Parallel(64):
                        g[i] = G[b, t * 64 + i, head]
                    for i, j in T.Parallel(64, 32):
                        new[i, j] = new[i, j] * T.exp2((g[63] - g[i]) * LOG2_E)
                    for i, j in T.Parallel(dim, 32):
                        h[i, j] *= T.exp2(g[63] * LOG2_E)
                    T.copy(new, out)
                    T.gemm(k, out, h, transpose_A=True)

        return kernel

    def reference(k: Any, w: Any, u: Any, g: Any, _: Any) -> Any:
        import torch

        k, w, u = (x.float().transpose(1, 2) for x in (k, w, u))
        g = g.transpose(1, 2)
        h = k.new_zeros(batch, heads, dim, wide)
        states = []
        for t in range(chunks):
            at = slice(t * 64, t * 64 + 64)
            states.append(h.bfloat16())
            new = u[:, :, at] - w[:, :, at] @ h.bfloat16().float()
            last = g[:, :, t * 64 + 63, None]
            new = new * (last - g[:, :, at]).exp()[..., None]
            h = h * last.exp()[..., None] + k[:, :, at].transpose(2, 3) @ new.bfloat16().float()
        return torch.stack(states, 1)

    def inputs(normal: Any, integers: Any) -> list[Any]:
        gates = -normal(batch, chunks, 64, heads).abs().mul(0.02).cumsum(2)
        return [
            normal(batch, length, heads, dim, dtype="bfloat16", scale=0.1),
            normal(batch, length, heads, dim, dtype="bfloat16", scale=0.05),
            normal(batch, length, heads, wide, dtype="bfloat16", scale=0.3),
            gates.view(batch, length, heads),
            normal(batch, length, heads, wide, dtype="bfloat16"),
        ]

    return Program(
        build, inputs, reference,
        operations=4 * batch * heads * length * dim * wide, tolerance=4e-2,
    )  # fmt: skip
