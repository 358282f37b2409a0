"""Everyday kernels of operator libraries: gradients, masks, quantization, and recurrences."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


def _type(name: str) -> Any:
    import torch

    return getattr(torch, name)


# -- quantization --------------------------------------------------------------------------------
@family((8192, 7168, "bfloat16"), (4096, 2048, "float16"), small=(32, 256, "bfloat16"))
def quantize_groups(rows: int, columns: int, dtype: str) -> Program:
    """Groups of 128 elements of a row in e4m3, each with a scale."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), dtype),
            S: T.Tensor((rows, columns // 128), "float32"),
            Y: T.Tensor((rows, columns), "float8_e4m3fn"),
        ):
            with T.Kernel(T.ceildiv(rows, 32), columns // 128, threads=128) as (bx, by):
                s = T.alloc_shared((32, 128), dtype)
                x = T.alloc_fragment((32, 128), dtype)
                high = T.alloc_fragment((32,), "float32")
                scale = T.alloc_fragment((32,), "float32")
                y = T.alloc_fragment((32, 128), "float8_e4m3fn")
                out = T.alloc_shared((32, 128), "float8_e4m3fn")
                T.copy(X[bx * 32, by * 128], s)
                T.copy(s, x)
                T.reduce_absmax(x, high, dim=1)
                for i in T.Parallel(32):
                    high[i] = T.max(high[i], 1e-4)
                    scale[i] = high[i] * (1.0 / 448.0)
                for i, j in T.Parallel(32, 128):
                    v = T.clamp(T.cast(x[i, j], "float32") / scale[i], -448.0, 448.0)
                    y[i, j] = T.cast(v, "float8_e4m3fn")
                for i in T.Parallel(32):
                    S[bx * 32 + i, by] = scale[i]
                T.copy(y, out)
                T.copy(out, Y[bx * 32, by * 128])

        return kernel

    def reference(x: Any, _: Any) -> Any:
        import torch

        y = x.float().view(rows, -1, 128)
        y = y / (y.abs().amax(-1, keepdim=True).clamp(min=1e-4) / 448)
        return y.view(rows, columns).to(torch.float8_e4m3fn)

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype), normal(rows, columns // 128)],
        reference,
        tolerance=8e-2,
    )


@family((4096, 4096, "bfloat16"), (2048, 8192, "float16"), small=(128, 256, "bfloat16"))
def scaled_blocks(rows: int, columns: int, dtype: str) -> Program:
    """e4m3 times a scale for each block of 128 x 128."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), "float8_e4m3fn"),
            S: T.Tensor((rows // 128, columns // 128), "float32"),
            Y: T.Tensor((rows, columns), dtype),
        ):
            with T.Kernel(columns // 256, rows // 16, threads=128) as (bx, by):
                for i, j in T.Parallel(16, 256):
                    m = by * 16 + i
                    n = bx * 256 + j
                    Y[m, n] = T.cast(T.cast(X[m, n], "float32") * S[m // 128, n // 128], dtype)

        return kernel

    def inputs(normal: Any, integers: Any) -> list[Any]:
        import torch

        x = normal(rows, columns).to(torch.float8_e4m3fn)
        return [x, normal(rows // 128, columns // 128)]

    def reference(x: Any, s: Any) -> Any:
        scales = s.repeat_interleave(128, 0).repeat_interleave(128, 1)
        return (x.float() * scales).to(_type(dtype))

    return Program(build, inputs, reference)


# -- softmax and its gradient --------------------------------------------------------------------
@family((16, 1024, 4, "bfloat16"), (8, 2048, 2, "float16"), small=(2, 128, 4, "bfloat16"))
def causal_softmax(heads: int, length: int, block: int, dtype: str) -> Program:
    """Rows of scores in shared memory, of which a row takes the columns before it."""

    def build():
        shape = (heads, length, length)

        @T.prim_func
        def kernel(X: T.Tensor(shape, dtype), Y: T.Tensor(shape, dtype)):
            with T.Kernel(length // block, heads, threads=128) as (bx, by):
                s = T.alloc_shared((block, length), dtype)
                x = T.alloc_fragment((block, length), "float32")
                high = T.alloc_fragment((block,), "float32")
                total = T.alloc_fragment((block,), "float32")
                T.copy(X[by, bx * block : (bx + 1) * block, :], s)
                for i, j in T.Parallel(block, length):
                    x[i, j] = T.if_then_else(
                        j <= bx * block + i, T.cast(s[i, j], "float32"), -T.infinity("float32")
                    )
                T.reduce_max(x, high, dim=1)
                for i, j in T.Parallel(block, length):
                    x[i, j] = T.exp(x[i, j] - high[i])
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(block, length):
                    x[i, j] /= total[i]
                T.copy(x, s)
                T.copy(s, Y[by, bx * block : (bx + 1) * block, :])

        return kernel

    def reference(x: Any) -> Any:
        later = x.new_ones(length, length).triu(1).bool()
        return x.float().masked_fill(later, float("-inf")).softmax(-1).to(x.dtype)

    return Program(
        build, lambda normal, integers: [normal(heads, length, length, dtype=dtype)], reference
    )


@family((4096, 2048, "float16"), (2048, 4096, "bfloat16"), small=(3, 256, "float16"))
def masked_softmax(rows: int, columns: int, dtype: str) -> Program:
    """A byte for each element says whether it counts."""

    def build():
        shape = (rows, columns)

        @T.prim_func
        def kernel(
            X: T.Tensor(shape, dtype), M: T.Tensor(shape, "uint8"), Y: T.Tensor(shape, dtype)
        ):
            with T.Kernel(rows, threads=128) as row:
                x = T.alloc_fragment((columns,), "float32")
                high = T.alloc_fragment((1,), "float32")
                total = T.alloc_fragment((1,), "float32")
                for j in T.Parallel(columns):
                    x[j] = T.if_then_else(
                        M[row, j] != 0, T.cast(X[row, j], "float32"), -T.infinity("float32")
                    )
                T.reduce_max(x, high, dim=0)
                for j in T.Parallel(columns):
                    x[j] = T.exp2((x[j] - high[0]) * 1.44269504)
                T.reduce_sum(x, total, dim=0)
                for j in T.Parallel(columns):
                    Y[row, j] = T.cast(x[j] / total[0], dtype)

        return kernel

    def inputs(normal: Any, integers: Any) -> list[Any]:
        mask = integers(2, rows, columns).byte()
        mask[:, 0] = 1
        return [normal(rows, columns, dtype=dtype), mask]

    return Program(
        build,
        inputs,
        lambda x, m: x.float().masked_fill(m == 0, float("-inf")).softmax(-1).to(x.dtype),
    )


@family((4096, 2048, 2, "float16"), (8192, 1000, 4, "bfloat16"), small=(5, 200, 2, "float16"))
def softmax_gradient(rows: int, columns: int, block: int, dtype: str) -> Program:
    def build():
        shape = (rows, columns)

        @T.prim_func
        def kernel(
            P: T.Tensor(shape, dtype), DP: T.Tensor(shape, dtype), DX: T.Tensor(shape, dtype)
        ):
            with T.Kernel(T.ceildiv(rows, block), threads=256) as bx:
                p = T.alloc_fragment((block, columns), "float32")
                d = T.alloc_fragment((block, columns), "float32")
                both = T.alloc_fragment((block, columns), "float32")
                total = T.alloc_fragment((block,), "float32")
                T.copy(P[bx * block, 0], p)
                T.copy(DP[bx * block, 0], d)
                for i, j in T.Parallel(block, columns):
                    both[i, j] = p[i, j] * d[i, j]
                T.reduce_sum(both, total, dim=1)
                for i, j in T.Parallel(block, columns):
                    d[i, j] = p[i, j] * (d[i, j] - total[i])
                T.copy(d, DX[bx * block, 0])

        return kernel

    def reference(p: Any, d: Any) -> Any:
        p, d = p.float(), d.float()
        return (p * (d - (p * d).sum(-1, keepdim=True))).to(_type(dtype))

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns).softmax(-1).to(_type(dtype)), normal(rows, columns, dtype=dtype),
        ],
        reference,
    )  # fmt: skip


# -- normalization -------------------------------------------------------------------------------
@family((4096, 2880, "float16"), (2048, 4096, "bfloat16"), small=(3, 200, "float16"))
def rms_norm_gradient(rows: int, columns: int, dtype: str) -> Program:
    """The gradient of the elements; a row is shorter than its tile."""
    tile = 1 << (columns - 1).bit_length()

    def build():
        shape = (rows, columns)

        @T.prim_func
        def kernel(
            DY: T.Tensor(shape, dtype), X: T.Tensor(shape, dtype), W: T.Tensor((columns,), dtype),
            DX: T.Tensor(shape, dtype),
        ):  # fmt: skip
            with T.Kernel(rows, threads=128) as row:
                x = T.alloc_fragment((tile,), "float32")
                g = T.alloc_fragment((tile,), "float32")
                xx = T.alloc_fragment((tile,), "float32")
                xg = T.alloc_fragment((tile,), "float32")
                squares = T.alloc_fragment((1,), "float32")
                dot = T.alloc_fragment((1,), "float32")
                for j in T.Parallel(tile):
                    inside = j < columns
                    x[j] = T.if_then_else(inside, T.cast(X[row, j], "float32"), 0.0)
                    g[j] = T.if_then_else(
                        inside, T.cast(DY[row, j], "float32") * T.cast(W[j], "float32"), 0.0
                    )
                    xx[j] = x[j] * x[j]
                    xg[j] = x[j] * g[j]
                T.reduce_sum(xx, squares, dim=0)
                T.reduce_sum(xg, dot, dim=0)
                r = T.alloc_var("float32")
                r = T.rsqrt(squares[0] / columns + 1e-6)
                for j in T.Parallel(tile):
                    if j < columns:
                        DX[row, j] = T.cast(r * (g[j] - x[j] * r * r * dot[0] / columns), dtype)

        return kernel

    def reference(d: Any, x: Any, w: Any) -> Any:
        x, g = x.float(), d.float() * w.float()
        r = ((x * x).mean(-1, keepdim=True) + 1e-6).rsqrt()
        return (r * (g - x * r * r * (g * x).mean(-1, keepdim=True))).to(_type(dtype))

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype=dtype), normal(rows, columns, dtype=dtype),
            normal(columns, dtype=dtype),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family((8192, 4096, "bfloat16"), (3000, 1024, "float32"), small=(96, 128, "bfloat16"))
def layer_norm_weight_gradient(rows: int, columns: int, dtype: str) -> Program:
    """Sums over rows of a product of two matrices and of numbers of each row."""

    def build():
        shape = (rows, columns)

        @T.prim_func
        def kernel(
            DY: T.Tensor(shape, dtype), X: T.Tensor(shape, dtype),
            M: T.Tensor((rows,), "float32"), R: T.Tensor((rows,), "float32"),
            DW: T.Tensor((columns,), "float32"),
        ):  # fmt: skip
            with T.Kernel(T.ceildiv(columns, 64), threads=128) as bx:
                d = T.alloc_fragment((32, 64), "float32")
                x = T.alloc_fragment((32, 64), "float32")
                sums = T.alloc_fragment((32, 64), "float32")
                y = T.alloc_fragment((64,), "float32")
                T.clear(sums)
                for t in T.serial(T.ceildiv(rows, 32)):
                    T.copy(DY[t * 32, bx * 64], d)
                    T.copy(X[t * 32, bx * 64], x)
                    for i, j in T.Parallel(32, 64):
                        sums[i, j] += d[i, j] * (x[i, j] - M[t * 32 + i]) * R[t * 32 + i]
                T.reduce_sum(sums, y, dim=0)
                T.copy(y, DW[bx * 64])

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype=dtype), normal(rows, columns, dtype=dtype),
            normal(rows), normal(rows),
        ],
        lambda d, x, m, r: (d.float() * (x.float() - m[:, None]) * r[:, None]).sum(0),
        tolerance=6e-2,
    )  # fmt: skip


# -- rotary embedding ----------------------------------------------------------------------------
@family((8192, 32, 128, "bfloat16"), (4096, 16, 64, "float16"), small=(3, 4, 64, "bfloat16"))
def rotary_pairs_in_tiles(tokens: int, heads: int, dim: int, dtype: str) -> Program:
    """Neighbours are rotated in registers: a loop over pairs touches tiles of elements."""

    def build():
        shape, table = (tokens, heads, dim), (tokens, dim // 2)

        @T.prim_func
        def kernel(
            X: T.Tensor(shape, dtype), C: T.Tensor(table, dtype), S: T.Tensor(table, dtype),
            Y: T.Tensor(shape, dtype),
        ):  # fmt: skip
            with T.Kernel(tokens, threads=128) as n:
                x = T.alloc_fragment((heads, dim), dtype)
                y = T.alloc_fragment((heads, dim), dtype)
                T.copy(X[n, 0:heads, 0:dim], x)
                for h, d in T.Parallel(heads, dim // 2):
                    c = T.cast(C[n, d], "float32")
                    s = T.cast(S[n, d], "float32")
                    a = T.cast(x[h, 2 * d], "float32")
                    b = T.cast(x[h, 2 * d + 1], "float32")
                    y[h, 2 * d] = T.cast(a * c - b * s, dtype)
                    y[h, 2 * d + 1] = T.cast(b * c + a * s, dtype)
                T.copy(y, Y[n, 0:heads, 0:dim])

        return kernel

    def reference(x: Any, c: Any, s: Any) -> Any:
        import torch

        a, b = x[..., 0::2].float(), x[..., 1::2].float()
        c, s = c[:, None].float(), s[:, None].float()
        return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, heads, dim, dtype=dtype), normal(tokens, dim // 2, dtype=dtype),
            normal(tokens, dim // 2, dtype=dtype),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family((8192, 32, 128), (4096, 8, 64), small=(3, 4, 64))
def rotary_in_shared(tokens: int, heads: int, dim: int) -> Program:
    """The halves of a head in shared memory; a choice says which half the partner is in."""
    half = dim // 2

    def build():
        shape, table = (tokens, heads, dim), (tokens, half)

        @T.prim_func
        def kernel(
            X: T.Tensor(shape, "bfloat16"), C: T.Tensor(table, "float32"),
            S: T.Tensor(table, "float32"), Y: T.Tensor(shape, "bfloat16"),
        ):  # fmt: skip
            with T.Kernel(tokens, threads=128) as n:
                x = T.alloc_shared((heads, dim), "bfloat16")
                y = T.alloc_shared((heads, dim), "bfloat16")
                T.copy(X[n, 0:heads, 0:dim], x)
                for h, d in T.Parallel(heads, dim):
                    partner = T.if_then_else(d < half, -x[h, d + half], x[h, d - half])
                    kept = T.cast(x[h, d], "float32") * C[n, d % half]
                    turned = T.cast(partner, "float32") * S[n, d % half]
                    y[h, d] = T.cast(kept + turned, "bfloat16")
                T.copy(y, Y[n, 0:heads, 0:dim])

        return kernel

    def reference(x: Any, c: Any, s: Any) -> Any:
        import torch

        a, b = x[..., :half].float(), x[..., half:].float()
        c, s = c[:, None], s[:, None]
        return torch.cat((a * c - b * s, b * c + a * s), -1).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, heads, dim, dtype="bfloat16"), normal(tokens, half),
            normal(tokens, half),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


# -- losses and routes ---------------------------------------------------------------------------
@family((4096, 8192, 1024), (2048, 10000, 2048), small=(3, 300, 256))
def divergence(rows: int, columns: int, tile: int) -> Program:
    """The Kullback-Leibler divergence of each row, over tiles that need not divide it."""

    def build():
        shape = (rows, columns)

        @T.prim_func
        def kernel(
            L: T.Tensor(shape, "float32"), Q: T.Tensor(shape, "float32"),
            Y: T.Tensor((rows,), "float32"),
        ):  # fmt: skip
            with T.Kernel(rows, threads=256) as row:
                sums = T.alloc_fragment((tile,), "float32")
                y = T.alloc_fragment((1,), "float32")
                T.clear(sums)
                for t in T.serial(T.ceildiv(columns, tile)):
                    for j in T.Parallel(tile):
                        at = t * tile + j
                        if at < columns:
                            q = Q[row, at]
                            sums[j] += q * (T.log(T.max(q, 1e-10)) - L[row, at])
                T.reduce_sum(sums, y, dim=0)
                Y[row] = y[0]

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns).log_softmax(-1), normal(rows, columns).softmax(-1),
        ],
        lambda p, q: (q * (q.clamp(min=1e-10).log() - p)).sum(-1),
    )  # fmt: skip


@family((4096, 2048, 6), (2048, 1408, 8), small=(5, 128, 2))
def unpermuted(tokens: int, columns: int, experts: int) -> Program:
    """Weighted sums of the rows that experts gave a token; a negative place is none."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((tokens * experts, columns), "bfloat16"),
            P: T.Tensor((tokens, experts), "int32"),
            W: T.Tensor((tokens, experts), "float32"),
            Y: T.Tensor((tokens, columns), "bfloat16"),
        ):
            with T.Kernel(tokens, threads=128) as m:
                sums = T.alloc_fragment((columns,), "float32")
                T.clear(sums)
                for k in T.serial(experts):
                    place = P[m, k]
                    if place >= 0:
                        for j in T.Parallel(columns):
                            sums[j] += T.cast(X[place, j], "float32") * W[m, k]
                T.copy(sums, Y[m, 0])

        return kernel

    def reference(x: Any, p: Any, w: Any) -> Any:
        rows = x[p.clamp(min=0).long()].float()
        return (rows * (w * (p >= 0))[..., None]).sum(1).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens * experts, columns, dtype="bfloat16"),
            integers(tokens * experts + 9, tokens, experts) - 9, normal(tokens, experts),
        ],
        reference,
        tolerance=4e-2,
    )  # fmt: skip


@family((8192, 32, 8, 128), (4096, 12, 4, 64), small=(3, 2, 1, 32))
def split_heads(tokens: int, queries: int, keys: int, dim: int) -> Program:
    """The heads of queries and keys of one matrix, by branches on the head."""

    def build():
        width = (queries + keys) * dim

        @T.prim_func
        def kernel(
            X: T.Tensor((tokens, width), "bfloat16"),
            Q: T.Tensor((tokens, queries, dim), "bfloat16"),
            K: T.Tensor((tokens, keys, dim), "bfloat16"),
        ):  # fmt: skip
            with T.Kernel(tokens, threads=256) as n:
                for j in T.Parallel(width):
                    h = j // dim
                    if h < queries:
                        Q[n, h, j % dim] = X[n, j]
                    else:
                        K[n, h - queries, j % dim] = X[n, j]

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, (queries + keys) * dim, dtype="bfloat16"),
            normal(tokens, queries, dim, dtype="bfloat16"),
        ],
        lambda x, _: x[:, queries * dim :].reshape(tokens, keys, dim).clone(),
        tolerance=0.0,
    )  # fmt: skip


# -- recurrences ---------------------------------------------------------------------------------
@family((2, 1024, 16, 64), (4, 512, 8, 32), small=(1, 6, 2, 32))
def delta_rule(batch: int, length: int, heads: int, dim: int) -> Program:
    """A state that each token decays, reads and corrects."""

    def build():
        shape, gates = (batch, length, heads, dim), (batch, length, heads)

        @T.prim_func
        def kernel(
            Q: T.Tensor(shape, "float16"), K: T.Tensor(shape, "float16"),
            V: T.Tensor(shape, "float16"), G: T.Tensor(gates, "float32"),
            B: T.Tensor(gates, "float32"), O: T.Tensor(shape, "float32"),
        ):  # fmt: skip
            with T.Kernel(heads, batch, threads=128) as (h, b):
                state = T.alloc_fragment((dim, dim), "float32")
                part = T.alloc_fragment((dim, dim), "float32")
                u = T.alloc_fragment((dim,), "float32")
                o = T.alloc_fragment((dim,), "float32")
                T.clear(state)
                for t in T.serial(length):
                    decay = T.exp(G[b, t, h])
                    for d, e in T.Parallel(dim, dim):
                        state[d, e] = state[d, e] * decay
                        part[d, e] = state[d, e] * T.cast(K[b, t, h, d], "float32")
                    T.reduce_sum(part, u, dim=0)
                    for e in T.Parallel(dim):
                        u[e] = (T.cast(V[b, t, h, e], "float32") - u[e]) * B[b, t, h]
                    for d, e in T.Parallel(dim, dim):
                        state[d, e] += T.cast(K[b, t, h, d], "float32") * u[e]
                        part[d, e] = state[d, e] * T.cast(Q[b, t, h, d], "float32")
                    T.reduce_sum(part, o, dim=0)
                    for e in T.Parallel(dim):
                        O[b, t, h, e] = o[e]

        return kernel

    def reference(q: Any, k: Any, v: Any, g: Any, beta: Any) -> Any:
        import torch

        state, rows = q.new_zeros(batch, heads, dim, dim).float(), []
        for t in range(length):
            state = state * g[:, t, :, None, None].exp()
            kept = (state * k[:, t].float()[..., None]).sum(-2)
            u = (v[:, t].float() - kept) * beta[:, t, :, None]
            state = state + k[:, t].float()[..., None] * u[:, :, None]
            rows.append((state * q[:, t].float()[..., None]).sum(-2))
        return torch.stack(rows, 1)

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, length, heads, dim, dtype="float16", scale=0.1),
            normal(batch, length, heads, dim, dtype="float16", scale=0.1),
            normal(batch, length, heads, dim, dtype="float16"),
            -0.1 * normal(batch, length, heads).abs(), normal(batch, length, heads).sigmoid(),
        ],
        reference,
        tolerance=3e-2,
    )  # fmt: skip
