"""Everyday kernels: element-wise work, gathers, scatters, pooling, and recurrences."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


@family(
    (4096, 4096, "bfloat16", 1024),
    (2048, 5504, "float16", 1024),
    (8192, 1377, "float16", 512),
    small=(3, 300, "float16", 256),
)
def gated(rows: int, columns: int, dtype: str, block: int) -> Program:
    """silu(x) * y of the halves of a row."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, 2 * columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(T.ceildiv(columns, block), rows, threads=128) as (bx, by):
                for j in T.Parallel(block):
                    at = bx * block + j
                    if at < columns:
                        g = T.cast(X[by, at], "float32")
                        u = T.cast(X[by, columns + at], "float32")
                        Y[by, at] = T.cast(g / (1.0 + T.exp(-g)) * u, dtype)

        return kernel

    def reference(x: Any) -> Any:
        g, u = x.float().chunk(2, -1)
        return (g * g.sigmoid() * u).to(x.dtype)

    return Program(
        build, lambda normal, integers: [normal(rows, 2 * columns, dtype=dtype)], reference
    )


@family(
    (4096, 16, 128, "bfloat16", False),
    (8192, 8, 64, "float16", True),
    small=(5, 2, 32, "float16", False),
)
def rotary(tokens: int, heads: int, dim: int, dtype: str, interleaved: bool) -> Program:
    """Rotary embedding; the partner is the neighbour or half a head away."""
    half = dim // 2

    def build():
        shape = (tokens, heads, dim)

        @T.prim_func
        def kernel(
            X: T.Tensor(shape, dtype),
            P: T.Tensor((tokens,), "int32"),
            C: T.Tensor((4096, half), "float32"),
            S: T.Tensor((4096, half), "float32"),
            Y: T.Tensor(shape, dtype),
        ):
            with T.Kernel(tokens, threads=128) as n:
                for h, d in T.Parallel(heads, half):
                    position = P[n]
                    c = C[position, d]
                    s = S[position, d]
                    first = 2 * d if interleaved else d
                    second = 2 * d + 1 if interleaved else d + half
                    x = T.cast(X[n, h, first], "float32")
                    y = T.cast(X[n, h, second], "float32")
                    Y[n, h, first] = T.cast(x * c - y * s, dtype)
                    Y[n, h, second] = T.cast(y * c + x * s, dtype)

        return kernel

    def reference(x: Any, p: Any, c: Any, s: Any) -> Any:
        import torch

        c, s = c[p.long()][:, None], s[p.long()][:, None]
        a = (x[..., 0::2] if interleaved else x[..., :half]).float()
        b = (x[..., 1::2] if interleaved else x[..., half:]).float()
        parts = a * c - b * s, b * c + a * s
        out = torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)
        return out.to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, heads, dim, dtype=dtype), integers(4096, tokens),
            normal(4096, half), normal(4096, half),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family(
    (4096, 5504, "bfloat16", 1024), (8192, 1376, "float16", 512), small=(3, 300, "float16", 256)
)
def gated_pairs(rows: int, columns: int, dtype: str, block: int) -> Program:
    """silu(x) * y, where x and y are adjacent columns of one matrix."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, 2 * columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(T.ceildiv(columns, block), rows, threads=128) as (bx, by):
                for j in T.Parallel(block):
                    at = bx * block + j
                    if at < columns:
                        g = T.cast(X[by, 2 * at], "float32")
                        u = T.cast(X[by, 2 * at + 1], "float32")
                        Y[by, at] = T.cast(g / (1.0 + T.exp(-g)) * u, dtype)

        return kernel

    def reference(x: Any) -> Any:
        g, u = x.float()[:, 0::2], x.float()[:, 1::2]
        return (g * g.sigmoid() * u).to(x.dtype)

    return Program(
        build, lambda normal, integers: [normal(rows, 2 * columns, dtype=dtype)], reference
    )


@family((8192, 16, 128, "bfloat16"), (4096, 32, 64, "float16"), small=(5, 2, 32, "float16"))
def rotary_by_a_bit(tokens: int, heads: int, dim: int, dtype: str) -> Program:
    """Rotary embedding of neighbours, one element of the result at a time."""

    def build():
        shape, table = (tokens, heads, dim), (tokens, dim // 2)

        @T.prim_func
        def kernel(
            X: T.Tensor(shape, dtype),
            C: T.Tensor(table, "float32"),
            S: T.Tensor(table, "float32"),
            Y: T.Tensor(shape, dtype),
        ):
            with T.Kernel(tokens, threads=128) as n:
                for h, d in T.Parallel(heads, dim):
                    sign = T.if_then_else(d % 2 == 0, -1.0, 1.0)
                    partner = sign * T.cast(X[n, h, d ^ 1], "float32")
                    kept = T.cast(X[n, h, d], "float32") * C[n, d // 2]
                    Y[n, h, d] = T.cast(kept + partner * S[n, d // 2], dtype)

        return kernel

    def reference(x: Any, c: Any, s: Any) -> Any:
        import torch

        a, b = x[..., 0::2].float(), x[..., 1::2].float()
        c, s = c[:, None], s[:, None]
        return torch.stack((a * c - b * s, b * c + a * s), -1).flatten(-2).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, heads, dim, dtype=dtype), normal(tokens, dim // 2),
            normal(tokens, dim // 2),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family((4096, 4096, "float32"), (3000, 2000, "float16"), small=(100, 70, "float16"))
def transposed(rows: int, columns: int, dtype: str) -> Program:
    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((columns, rows), dtype)):
            with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 64), threads=256) as (bx, by):
                s = T.alloc_shared((64, 64), dtype)
                T.copy(X[by * 64, bx * 64], s)
                for i, j in T.Parallel(64, 64):
                    if bx * 64 + i < columns and by * 64 + j < rows:
                        Y[bx * 64 + i, by * 64 + j] = s[j, i]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype)],
        lambda x: x.t().contiguous(),
    )


@family((8, 2048, 16, 128), (4, 4000, 12, 64), small=(2, 40, 3, 32))
def heads_first(batch: int, length: int, heads: int, dim: int) -> Program:
    """(batch, length, heads, dim) to (batch, heads, length, dim)."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, length, heads, dim), "float16"),
            Y: T.Tensor((batch, heads, length, dim), "float16"),
        ):
            with T.Kernel(T.ceildiv(length, 32), heads, batch, threads=128) as (bx, by, bz):
                for i, d in T.Parallel(32, dim):
                    if bx * 32 + i < length:
                        Y[bz, by, bx * 32 + i, d] = X[bz, bx * 32 + i, by, d]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(batch, length, heads, dim, dtype="float16")],
        lambda x: x.transpose(1, 2).contiguous(),
    )


@family((8192, 4096, "bfloat16"), (5000, 3001, "float32"), small=(5, 130, "bfloat16"))
def bias_gelu(rows: int, columns: int, dtype: str) -> Program:
    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), dtype),
            B: T.Tensor((columns,), dtype),
            Y: T.Tensor((rows, columns), dtype),
        ):
            with T.Kernel(T.ceildiv(rows * columns, 2048), threads=256) as b:
                for t in T.Parallel(2048):
                    at = b * 2048 + t
                    if at < rows * columns:
                        i = at // columns
                        j = at % columns
                        x = T.cast(X[i, j], "float32") + T.cast(B[j], "float32")
                        y = 0.5 * x * (1.0 + T.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
                        Y[i, j] = T.cast(y, dtype)

        return kernel

    def reference(x: Any, b: Any) -> Any:
        import torch

        y = x.float() + b.float()
        return torch.nn.functional.gelu(y, approximate="tanh").to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype), normal(columns, dtype=dtype)],
        reference,
        tolerance=6e-2,
    )


# -- windows -------------------------------------------------------------------------------------
@family((32, 64, 112, 2), small=(1, 2, 8, 2))
def mean_pool(batch: int, channels: int, size: int, window: int) -> Program:
    out = size // window

    def build():
        image = (batch, channels, size, size)

        @T.prim_func
        def kernel(
            X: T.Tensor(image, "float16"),
            Y: T.Tensor((batch, channels, out, out), "float16"),
        ):
            with T.Kernel(T.ceildiv(batch * channels * out * out, 512), threads=256) as b:
                for t in T.Parallel(512):
                    at = b * 512 + t
                    if at < batch * channels * out * out:
                        column = at % out
                        row = at // out % out
                        plane = at // (out * out)
                        acc = T.alloc_var("float32")
                        acc = 0.0
                        for y in T.serial(window):
                            for x in T.serial(window):
                                acc = acc + T.cast(
                                    X[plane // channels, plane % channels,
                                      row * window + y, column * window + x], "float32"
                                )  # fmt: skip
                        Y[plane // channels, plane % channels, row, column] = T.cast(
                            acc / (window * window), "float16"
                        )

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(batch, channels, size, size, dtype="float16")],
        lambda x: x.float().view(batch, channels, out, window, out, window).mean((3, 5)).half(),
    )


@family((8, 56, 128), small=(1, 6, 32))
def max_pool_3x3(batch: int, size: int, channels: int) -> Program:
    """Windows of 3 x 3 with a border, channels last."""

    def build():
        shape = (batch, size, size, channels)

        @T.prim_func
        def kernel(X: T.Tensor(shape, "float16"), Y: T.Tensor(shape, "float16")):
            with T.Kernel(size, size, batch, threads=128) as (bx, by, bz):
                high = T.alloc_fragment((channels,), "float16")
                T.fill(high, -65504.0)
                for r, s in T.grid(3, 3):
                    row = by + r - 1
                    column = bx + s - 1
                    if row >= 0 and row < size and column >= 0 and column < size:
                        for c in T.Parallel(channels):
                            high[c] = T.max(high[c], X[bz, row, column, c])
                T.copy(high, Y[bz, by, bx, :])

        return kernel

    def reference(x: Any) -> Any:
        import torch

        y = torch.nn.functional.max_pool2d(x.permute(0, 3, 1, 2).float(), 3, 1, 1)
        return y.permute(0, 2, 3, 1).to(x.dtype).contiguous()

    return Program(
        build,
        lambda normal, integers: [normal(batch, size, size, channels, dtype="float16")],
        reference,
    )


@family((8, 2048, 2048, 4), (4, 3000, 1536, 3), small=(2, 40, 64, 4))
def causal_convolution(batch: int, length: int, channels: int, taps: int) -> Program:
    """Each channel alone over the last ``taps`` tokens, as state space models have it."""

    def build():
        shape = (batch, length, channels)

        @T.prim_func
        def kernel(
            X: T.Tensor(shape, "bfloat16"),
            W: T.Tensor((taps, channels), "float32"),
            Y: T.Tensor(shape, "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(channels, 256), T.ceildiv(length, 16), batch, threads=128) as (
                bx, by, bz,
            ):  # fmt: skip
                acc = T.alloc_fragment((16, 256), "float32")
                T.clear(acc)
                for t in T.serial(taps):
                    for i, c in T.Parallel(16, 256):
                        token = by * 16 + i + t - (taps - 1)
                        channel = bx * 256 + c
                        if token >= 0 and token < length and channel < channels:
                            acc[i, c] += T.cast(X[bz, token, channel], "float32") * W[t, channel]
                T.copy(acc, Y[bz, by * 16, bx * 256])

        return kernel

    def reference(x: Any, w: Any) -> Any:
        import torch

        y = torch.nn.functional.pad(x.float(), (0, 0, taps - 1, 0))
        return sum(y[:, t : t + length] * w[t] for t in range(taps)).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, length, channels, dtype="bfloat16"), normal(taps, channels),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


# -- rows by number ------------------------------------------------------------------------------
@family(
    (50000, 512, 16384, "float32", False),
    (30000, 768, 16384, "bfloat16", True),
    small=(50, 64, 30, "float32", True),
)
def gather(rows: int, columns: int, out: int, dtype: str, guarded: bool) -> Program:
    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), dtype),
            I: T.Tensor((out,), "int32"),
            Y: T.Tensor((out, columns), dtype),
        ):
            with T.Kernel(T.ceildiv(out, 4), threads=128) as b:
                for r, j in T.Parallel(4, columns):
                    slot = b * 4 + r
                    row = I[slot]
                    if guarded:
                        Y[slot, j] = T.if_then_else(row >= 0, X[row, j], T.cast(0, dtype))
                    else:
                        Y[slot, j] = X[row, j]

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype=dtype),
            integers(rows, out) - (rows // 2 if guarded else 0) * integers(2, out),
        ],
        lambda x, i: (x[i.clamp(min=0).long()] * (i >= 0)[:, None]).to(x.dtype),
    )


@family((100000, 256, 4096, 20), (50000, 1024, 2048, 8), small=(60, 128, 5, 3))
def embedding_bag(rows: int, columns: int, bags: int, length: int) -> Program:
    """Sums of rows that a list names."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), "float32"),
            I: T.Tensor((bags, length), "int32"),
            Y: T.Tensor((bags, columns), "float32"),
        ):
            with T.Kernel(bags, threads=64) as b:
                acc = T.alloc_fragment((columns,), "float32")
                T.clear(acc)
                for n in T.serial(length):
                    for j in T.Parallel(columns):
                        acc[j] += X[I[b, n], j]
                T.copy(acc, Y[b, 0])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns), integers(rows, bags, length)],
        lambda x, i: x[i.long()].sum(1),
    )


@family((16384, 2000, 512), small=(40, 9, 64))
def scatter_add(tokens: int, rows: int, columns: int) -> Program:
    """Rows added to the rows that a list names. The result keeps what a launch before it left."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((tokens, columns), "float32"),
            I: T.Tensor((tokens,), "int32"),
            Y: T.Tensor((rows, columns), "float32"),
        ):
            with T.Kernel(T.ceildiv(tokens, 4), threads=128) as b:
                for r, j in T.Parallel(4, columns):
                    T.atomic_add(Y[I[b * 4 + r], j], X[b * 4 + r, j])

        return kernel

    def reference(x: Any, i: Any) -> Any:
        return x.new_zeros(rows, columns).index_add_(0, i.long(), x)

    return Program(
        build,
        lambda normal, integers: [normal(tokens, columns), integers(rows, tokens)],
        reference,
    )


@family((1 << 22, 256), small=(3000, 32))
def histogram(elements: int, bins: int) -> Program:
    """Counts in shared memory, added up in global memory."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((elements,), "int32"), Y: T.Tensor((bins,), "int32")):
            with T.Kernel(T.ceildiv(elements, 8192), threads=256) as b:
                counts = T.alloc_shared((bins,), "int32")
                T.clear(counts)
                for t in T.Parallel(8192):
                    if b * 8192 + t < elements:
                        T.atomic_add(counts[X[b * 8192 + t]], 1)
                for t in T.Parallel(bins):
                    T.atomic_add(Y[t], counts[t])

        return kernel

    return Program(
        build,
        lambda normal, integers: [integers(bins, elements)],
        lambda x: x.bincount(minlength=bins).int(),
        tolerance=0.0,
    )


# -- recurrences ---------------------------------------------------------------------------------
@family((8, 1024, 2048), (2, 2048, 4096), small=(1, 12, 128))
def recurrence(batch: int, length: int, channels: int) -> Program:
    """h = a h + x for each channel, token after token."""

    def build():
        shape = (batch, length, channels)

        @T.prim_func
        def kernel(
            A: T.Tensor(shape, "float32"),
            X: T.Tensor(shape, "float32"),
            Y: T.Tensor(shape, "float32"),
        ):
            with T.Kernel(T.ceildiv(channels, 128), batch, threads=128) as (bx, by):
                h = T.alloc_fragment((128,), "float32")
                T.clear(h)
                for t in T.serial(length):
                    for c in T.Parallel(128):
                        h[c] = A[by, t, bx * 128 + c] * h[c] + X[by, t, bx * 128 + c]
                        Y[by, t, bx * 128 + c] = h[c]

        return kernel

    def reference(a: Any, x: Any) -> Any:
        import torch

        rows, h = [], torch.zeros_like(x[:, 0])
        for t in range(length):
            h = a[:, t] * h + x[:, t]
            rows.append(h)
        return torch.stack(rows, 1)

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, length, channels).sigmoid(), normal(batch, length, channels),
        ],
        reference,
    )  # fmt: skip
