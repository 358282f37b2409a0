"""Everyday kernels of layers: statistics, masks, choices, packed weights, and optimizers."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


@family((8192, 4096, 2, "bfloat16"), (4096, 1280, 4, "float16"), small=(6, 256, 2, "bfloat16"))
def layer_norm_stats(rows: int, columns: int, block: int, dtype: str) -> Program:
    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), dtype),
            W: T.Tensor((columns,), dtype),
            B: T.Tensor((columns,), dtype),
            Mean: T.Tensor((rows,), "float32"),
            Rstd: T.Tensor((rows,), "float32"),
            Y: T.Tensor((rows, columns), dtype),
        ):
            with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
                xs = T.alloc_shared((block, columns), dtype)
                x = T.alloc_fragment((block, columns), "float32")
                xx = T.alloc_fragment((block, columns), "float32")
                mean = T.alloc_fragment((block,), "float32")
                rstd = T.alloc_fragment((block,), "float32")
                T.copy(X[bx * block : (bx + 1) * block, :], xs)
                T.copy(xs, x)
                T.reduce_sum(x, mean, dim=1)
                for i in T.Parallel(block):
                    mean[i] = mean[i] / columns
                for i, j in T.Parallel(block, columns):
                    x[i, j] = x[i, j] - mean[i]
                    xx[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(xx, rstd, dim=1)
                for i in T.Parallel(block):
                    rstd[i] = T.rsqrt(rstd[i] / columns + 1e-5)
                for i, j in T.Parallel(block, columns):
                    x[i, j] = x[i, j] * rstd[i] * W[j] + B[j]
                T.copy(x, Y[bx * block : (bx + 1) * block, :])
                for i in T.Parallel(block):
                    Mean[bx * block + i] = mean[i]
                    Rstd[bx * block + i] = rstd[i]

        return kernel

    def reference(x: Any, w: Any, b: Any, _: Any, __: Any) -> Any:
        import torch

        return torch.nn.functional.layer_norm(x.float(), (columns,), w.float(), b.float()).to(
            x.dtype
        )

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype=dtype), normal(columns, dtype=dtype),
            normal(columns, dtype=dtype), normal(rows), normal(rows),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family((32, 256, 784), small=(3, 5, 49))
def batch_norm_statistics(batch: int, channels: int, pixels: int) -> Program:
    """The variance of each channel of images; a plane need not fill its tile."""
    tile = 1 << (pixels - 1).bit_length()

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, channels, pixels), "float16"),
            Mean: T.Tensor((channels,), "float32"),
            Var: T.Tensor((channels,), "float32"),
        ):
            with T.Kernel(channels, threads=128) as c:
                sums = T.alloc_fragment((tile,), "float32")
                squares = T.alloc_fragment((tile,), "float32")
                s = T.alloc_fragment((1,), "float32")
                q = T.alloc_fragment((1,), "float32")
                T.fill(sums, 0)
                T.fill(squares, 0)
                for n in T.serial(batch):
                    for p in T.Parallel(tile):
                        if p < pixels:
                            v = T.cast(X[n, c, p], "float32")
                            sums[p] = sums[p] + v
                            squares[p] = squares[p] + v * v
                T.reduce_sum(sums, s, dim=0)
                T.reduce_sum(squares, q, dim=0)
                mean = s[0] / (batch * pixels)
                Mean[c] = mean
                Var[c] = q[0] / (batch * pixels) - mean * mean

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, channels, pixels, dtype="float16"), normal(channels),
        ],
        lambda x, _: x.float().var((0, 2), unbiased=False),
    )  # fmt: skip


@family((16384, 1024, "float32"), (4096, 3000, "bfloat16"), small=(5, 200, "bfloat16"))
def softmax_lengths(rows: int, columns: int, dtype: str) -> Program:
    """Each row has a number of columns that count."""
    tile = 1 << (columns - 1).bit_length()

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), dtype),
            L: T.Tensor((rows,), "int32"),
            Y: T.Tensor((rows, columns), dtype),
        ):
            with T.Kernel(rows, threads=128) as row:
                x = T.alloc_fragment((1, tile), "float32")
                high = T.alloc_fragment((1,), "float32")
                total = T.alloc_fragment((1,), "float32")
                length = L[row]
                for i, j in T.Parallel(1, tile):
                    if j < length:
                        x[i, j] = T.cast(X[row, j], "float32")
                    else:
                        x[i, j] = -T.infinity("float32")
                T.reduce_max(x, high, dim=1, clear=True)
                for i, j in T.Parallel(1, tile):
                    x[i, j] = T.exp(x[i, j] - high[i])
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(1, tile):
                    if j < columns:
                        Y[row, j] = T.cast(x[i, j] / total[i], dtype)

        return kernel

    def reference(x: Any, length: Any) -> Any:
        import torch

        later = torch.arange(columns, device=x.device)[None] >= length[:, None]
        return x.float().masked_fill(later, float("-inf")).softmax(-1).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype=dtype), integers(columns, rows) + 1,
        ],
        reference,
    )  # fmt: skip


@family((8192, 128, 8, 32), (4096, 64, 6, 16), small=(16, 32, 2, 8))
def top_experts(tokens: int, experts: int, k: int, block: int) -> Program:
    """The largest numbers of each row, one after the other, and the softmax of them."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((tokens, experts), "float32"),
            I: T.Tensor((tokens, k), "int32"),
            G: T.Tensor((tokens, k), "float32"),
        ):
            with T.Kernel(T.ceildiv(tokens, block), threads=128) as bx:
                x = T.alloc_fragment((block, experts), "float32")
                at = T.alloc_fragment((block, experts), "int32")
                high = T.alloc_fragment((block,), "float32")
                where = T.alloc_fragment((block,), "int32")
                T.copy(X[bx * block, 0], x)
                for n in T.serial(k):
                    T.fill(at, -1)
                    T.reduce_max(x, high, dim=1, clear=True)
                    for i, j in T.Parallel(block, experts):
                        at[i, j] = T.if_then_else(high[i] == x[i, j], j, at[i, j])
                    T.reduce_max(at, where, dim=1, clear=True)
                    for i, j in T.Parallel(block, experts):
                        x[i, j] = T.if_then_else(where[i] == j, -10000.0, x[i, j])
                    for i in T.Parallel(block):
                        G[bx * block + i, n] = high[i]
                        I[bx * block + i, n] = where[i]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(tokens, experts), integers(2, tokens, k)],
        lambda x, _: x.topk(k, -1).values,
    )


@family((16777216 + 96,), small=(3000,))
def softcap(elements: int) -> Program:
    """A flat tensor of any length."""

    def build():
        n = T.dynamic("n")

        @T.prim_func
        def kernel(X: T.Tensor((n,), "bfloat16"), Y: T.Tensor((n,), "bfloat16")):
            with T.Kernel(T.ceildiv(n, 2048), threads=256) as b:
                for t in T.Parallel(2048):
                    if b * 2048 + t < n:
                        x = T.cast(X[b * 2048 + t], "float32")
                        Y[b * 2048 + t] = T.cast(30.0 * T.tanh(x / 30.0), "bfloat16")

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(elements, dtype="bfloat16", scale=20.0)],
        lambda x: (30 * (x.float() / 30).tanh()).to(x.dtype),
    )


@family((33554432,), small=(4096,))
def dropout(elements: int) -> Program:
    """A byte for each element; eight neighbours at a time."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((elements,), "float16"),
            M: T.Tensor((elements,), "uint8"),
            Y: T.Tensor((elements,), "float16"),
        ):
            with T.Kernel(elements // 2048, threads=256) as b:
                for t in T.Parallel(256):
                    for v in T.vectorized(8):
                        at = b * 2048 + t * 8 + v
                        Y[at] = T.Select(M[at] > T.uint8(0), X[at] * T.float16(1.25), T.float16(0))

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(elements, dtype="float16"), integers(2, elements).byte()],
        lambda x, m: x * 1.25 * (m > 0),
    )


@family((8192, 4096, 128), (4096, 1536, 64), small=(8, 256, 64))
def quantize_with_zero(rows: int, columns: int, group: int) -> Program:
    """Bytes with a scale and a zero point for each group of a row."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), "float16"),
            S: T.Tensor((rows, columns // group), "float16"),
            Z: T.Tensor((rows, columns // group), "uint8"),
            Y: T.Tensor((rows, columns), "uint8"),
        ):
            with T.Kernel(columns // group, T.ceildiv(rows, 8), threads=128) as (bx, by):
                x = T.alloc_fragment((8, group), "float32")
                low = T.alloc_fragment((8,), "float32")
                high = T.alloc_fragment((8,), "float32")
                scale = T.alloc_fragment((8,), "float32")
                zero = T.alloc_fragment((8,), "float32")
                T.copy(X[by * 8, bx * group], x)
                T.reduce_min(x, low, dim=1)
                T.reduce_max(x, high, dim=1)
                for i in T.Parallel(8):
                    scale[i] = T.max(high[i] - low[i], 1e-5) / 255.0
                    zero[i] = T.round(-low[i] / scale[i])
                    S[by * 8 + i, bx] = T.cast(scale[i], "float16")
                    Z[by * 8 + i, bx] = T.cast(T.clamp(zero[i], 0.0, 255.0), "uint8")
                for i, j in T.Parallel(8, group):
                    q = T.round(x[i, j] / scale[i]) + zero[i]
                    Y[by * 8 + i, bx * group + j] = T.cast(T.clamp(q, 0.0, 255.0), "uint8")

        return kernel

    def reference(x: Any, _: Any, __: Any) -> Any:
        y = x.float().view(rows, -1, group)
        low, high = y.amin(-1, keepdim=True), y.amax(-1, keepdim=True)
        scale = (high - low).clamp(min=1e-5) / 255
        q = (y / scale).round() + (-low / scale).round()
        return q.clamp(0, 255).view(rows, columns).byte()

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype="float16"), normal(rows, columns // group, dtype="float16"),
            integers(9, rows, columns // group).byte(),
        ],
        reference,
        tolerance=2.01 / 255,
    )  # fmt: skip


@family((4096, 4096, 128), small=(128, 64, 64))
def packed_weights(rows: int, columns: int, group: int) -> Program:
    """Eight numbers of four bits in a word, with scales and zero points of groups of rows."""

    def build():
        @T.prim_func
        def kernel(
            Q: T.Tensor((rows, columns // 8), "int32"),
            Z: T.Tensor((rows // group, columns // 8), "int32"),
            S: T.Tensor((rows // group, columns), "float16"),
            Y: T.Tensor((rows, columns), "float16"),
        ):
            with T.Kernel(T.ceildiv(columns, 512), T.ceildiv(rows, 4), threads=128) as (bx, by):
                for i, w in T.Parallel(4, 64):
                    for v in T.serial(8):
                        r = by * 4 + i
                        q = (Q[r, bx * 64 + w] >> (4 * v)) & 0xF
                        z = (Z[r // group, bx * 64 + w] >> (4 * v)) & 0xF
                        at = (bx * 64 + w) * 8 + v
                        if at < columns:
                            Y[r, at] = T.cast(q - z, "float16") * S[r // group, at]

        return kernel

    def reference(q: Any, z: Any, s: Any) -> Any:
        import torch

        shifts = torch.arange(0, 32, 4, device=q.device)
        q, z = (((x[..., None] >> shifts) & 15).flatten(1) for x in (q, z))
        return (q - z.repeat_interleave(group, 0)).half() * s.repeat_interleave(group, 0)

    return Program(
        build,
        lambda normal, integers: [
            integers(2**31 - 1, rows, columns // 8),
            integers(2**31 - 1, rows // group, columns // 8),
            normal(rows // group, columns, dtype="float16"),
        ],
        reference,
    )  # fmt: skip


@family((4096, 4096, 64), small=(8, 256, 64))
def nf4(rows: int, columns: int, group: int) -> Program:
    """Two codes a byte, a table of sixteen values, a scale for each group."""

    def build():
        @T.prim_func
        def kernel(
            Q: T.Tensor((rows, columns // 2), "uint8"),
            C: T.Tensor((16,), "float32"),
            A: T.Tensor((rows, columns // group), "float32"),
            Y: T.Tensor((rows, columns), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(columns, 256), T.ceildiv(rows, 8), threads=128) as (bx, by):
                code = T.alloc_shared((16,), "float32")
                T.copy(C, code)
                for i, j in T.Parallel(8, 256):
                    byte = T.cast(Q[by * 8 + i, (bx * 256 + j) // 2], "int32")
                    nibble = (byte >> ((1 - j % 2) * 4)) & 15
                    Y[by * 8 + i, bx * 256 + j] = T.cast(
                        code[nibble] * A[by * 8 + i, (bx * 256 + j) // group], "bfloat16"
                    )

        return kernel

    def reference(q: Any, c: Any, a: Any) -> Any:
        import torch

        q = torch.stack((q >> 4, q & 15), -1).flatten(1)
        return (c[q.long()] * a.repeat_interleave(group, 1)).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            integers(256, rows, columns // 2).byte(), normal(16), normal(rows, columns // group),
        ],
        reference,
    )  # fmt: skip


@family((8, 96, 128), small=(1, 8, 32))
def bilinear(batch: int, size: int, channels: int) -> Program:
    """Twice the size, channels last."""
    out = 2 * size

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, size, size, channels), "bfloat16"),
            Y: T.Tensor((batch, out, out, channels), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(out, 8), out, batch, threads=128) as (bx, y, b):
                for i, c in T.Parallel(8, channels):
                    x = bx * 8 + i
                    fy = T.max(T.cast(y, "float32") * 0.5 - 0.25, 0.0)
                    fx = T.max(T.cast(x, "float32") * 0.5 - 0.25, 0.0)
                    y0 = T.cast(T.floor(fy), "int32")
                    x0 = T.cast(T.floor(fx), "int32")
                    y1 = T.min(y0 + 1, size - 1)
                    x1 = T.min(x0 + 1, size - 1)
                    wy = fy - T.floor(fy)
                    wx = fx - T.floor(fx)
                    top = X[b, y0, x0, c] * (1.0 - wx) + X[b, y0, x1, c] * wx
                    low = X[b, y1, x0, c] * (1.0 - wx) + X[b, y1, x1, c] * wx
                    Y[b, y, x, c] = T.cast(top * (1.0 - wy) + low * wy, "bfloat16")

        return kernel

    def reference(x: Any) -> Any:
        import torch

        y = torch.nn.functional.interpolate(
            x.permute(0, 3, 1, 2).float(), scale_factor=2, mode="bilinear", align_corners=False
        )
        return y.permute(0, 2, 3, 1).to(x.dtype).contiguous()

    return Program(
        build,
        lambda normal, integers: [normal(batch, size, size, channels, dtype="bfloat16")],
        reference,
    )


@family((8192, 32, 128, 64), small=(5, 4, 64, 32))
def partial_rotary(tokens: int, heads: int, dim: int, turned: int) -> Program:
    """The first dimensions of each head are turned by position, the others are copied."""
    half = turned // 2

    def build():
        n = T.dynamic("n")

        @T.prim_func
        def kernel(
            X: T.Tensor((n, heads, dim), "bfloat16"), P: T.Tensor((n,), "int32"),
            C: T.Tensor((2048, turned), "float32"), Y: T.Tensor((n, heads, dim), "bfloat16"),
        ):  # fmt: skip
            with T.Kernel(n, threads=256) as m:
                x = T.alloc_shared((heads, dim), "bfloat16")
                T.copy(X[m, 0, 0], x)
                for h, d in T.Parallel(heads, dim):
                    if d < half:
                        Y[m, h, d] = T.cast(
                            x[h, d] * C[P[m], d] - x[h, d + half] * C[P[m], d + half], "bfloat16"
                        )
                    elif d < turned:
                        Y[m, h, d] = T.cast(
                            x[h, d] * C[P[m], d - half] + x[h, d - half] * C[P[m], d], "bfloat16"
                        )
                    else:
                        Y[m, h, d] = x[h, d]

        return kernel

    def reference(x: Any, p: Any, c: Any) -> Any:
        import torch

        cos, sin = c[p.long()][:, None].chunk(2, -1)
        a, b = x[..., :half].float(), x[..., half:turned].float()
        return torch.cat(
            (a * cos - b * sin, b * cos + a * sin, x[..., turned:].float()), -1
        ).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, heads, dim, dtype="bfloat16"), integers(2048, tokens),
            normal(2048, turned),
        ],
        reference,
        tolerance=4e-2,
    )  # fmt: skip


@family((16777216,), small=(5000,))
def lion(elements: int) -> Program:
    """The sign of a mean of gradients, in place for the mean."""

    def build():
        n = T.dynamic("n")

        @T.prim_func
        def kernel(
            G: T.Tensor((n,), "bfloat16"), P: T.Tensor((n,), "bfloat16"),
            M: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "bfloat16"),
        ):  # fmt: skip
            with T.Kernel(T.ceildiv(n, 1024), threads=128) as b:
                for t in T.Parallel(1024):
                    if b * 1024 + t < n:
                        g = T.cast(G[b * 1024 + t], "float32")
                        c = M[b * 1024 + t] * 0.9 + g * 0.1
                        sign = T.if_then_else(c > 0.0, 1.0, T.if_then_else(c < 0.0, -1.0, 0.0))
                        Y[b * 1024 + t] = T.cast(
                            T.cast(P[b * 1024 + t], "float32") * 0.9999 - 0.01 * sign, "bfloat16"
                        )
                        M[b * 1024 + t] = M[b * 1024 + t] * 0.99 + g * 0.01

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(elements, dtype="bfloat16"), normal(elements, dtype="bfloat16"),
            normal(elements),
        ],
        lambda g, p, m: (p.float() * 0.9999 - 0.01 * (m * 0.9 + g.float() * 0.1).sign()).bfloat16(),
    )  # fmt: skip
