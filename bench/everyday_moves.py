"""Everyday kernels: elements that change places, windows, masks, caches; sizes without a number."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


@family((64, 1024, 768, "float16"), (256, 196, 512, "float32"), small=(2, 70, 96, "float16"))
def batched_transpose(batch: int, rows: int, columns: int, dtype: str) -> Program:
    """The last two of three dimensions change places."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, rows, columns), dtype), Y: T.Tensor((batch, columns, rows), dtype)
        ):
            with T.Kernel(T.ceildiv(columns, 32), T.ceildiv(rows, 64), batch, threads=128) as (
                bx,
                by,
                bz,
            ):
                x = T.alloc_shared((64, 32), dtype)
                y = T.alloc_shared((32, 64), dtype)
                T.copy(X[bz, by * 64 : by * 64 + 64, bx * 32 : bx * 32 + 32], x)
                for i, j in T.Parallel(32, 64):
                    y[i, j] = x[j, i]
                T.copy(y, Y[bz, bx * 32 : bx * 32 + 32, by * 64 : by * 64 + 64])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(batch, rows, columns, dtype=dtype)],
        lambda x: x.transpose(1, 2).contiguous(),
    )


@family((64, 112, 128), small=(1, 8, 32))
def mean_of_windows(batch: int, size: int, channels: int) -> Program:
    """Windows of 2 x 2, channels last."""
    half = size // 2

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, size, size, channels), "float16"),
            Y: T.Tensor((batch, half, half, channels), "float16"),
        ):
            with T.Kernel(half, batch, threads=256) as (row, b):
                for p, c in T.Parallel(half, channels):
                    total = T.cast(X[b, row * 2, p * 2, c], "float32")
                    total = total + X[b, row * 2, p * 2 + 1, c]
                    total = total + X[b, row * 2 + 1, p * 2, c]
                    total = total + X[b, row * 2 + 1, p * 2 + 1, c]
                    Y[b, row, p, c] = total * 0.25

        return kernel

    def reference(x: Any) -> Any:
        y = x.float().view(batch, half, 2, half, 2, channels).mean((2, 4))
        return y.half()

    return Program(
        build,
        lambda normal, integers: [normal(batch, size, size, channels, dtype="float16")],
        reference,
    )


@family((32, 56, 256), small=(1, 6, 32))
def depthwise(batch: int, size: int, channels: int) -> Program:
    """A convolution of 3 x 3 of each channel alone, channels last, with a border of zeros."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, size, size, channels), "bfloat16"),
            W: T.Tensor((3, 3, channels), "bfloat16"),
            Y: T.Tensor((batch, size, size, channels), "bfloat16"),
        ):
            with T.Kernel(size, batch, threads=256) as (row, b):
                sums = T.alloc_fragment((size, channels), "float32")
                T.clear(sums)
                for u, v in T.grid(3, 3):
                    for p, c in T.Parallel(size, channels):
                        y = row + u - 1
                        x = p + v - 1
                        if y >= 0 and y < size and x >= 0 and x < size:
                            sums[p, c] += T.cast(X[b, y, x, c], "float32") * T.cast(
                                W[u, v, c], "float32"
                            )
                T.copy(sums, Y[b, row, 0:size, 0:channels])

        return kernel

    def reference(x: Any, w: Any) -> Any:
        import torch

        kernel = w.float().permute(2, 0, 1)[:, None]
        y = torch.nn.functional.conv2d(
            x.float().permute(0, 3, 1, 2), kernel, padding=1, groups=channels
        )
        return y.permute(0, 2, 3, 1).contiguous().bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, size, size, channels, dtype="bfloat16"),
            normal(3, 3, channels, dtype="bfloat16"),
        ],
        reference,
        tolerance=4e-2,
    )


@family((16384, 2048, 32000), small=(20, 128, 7))
def embedding_gradient(tokens: int, columns: int, words: int) -> Program:
    """Rows are added to those of their words; word 0 is padding. Launches add up: a few repeats."""

    def build():
        @T.prim_func
        def kernel(
            D: T.Tensor((tokens, columns), "float32"),
            I: T.Tensor((tokens,), "int64"),
            Y: T.Tensor((words, columns), "float32"),
        ):
            with T.Kernel(tokens, threads=128) as token:
                word = I[token]
                if word != 0:
                    for j in T.Parallel(columns):
                        T.atomic_add(Y[word, j], D[token, j])

        return kernel

    def reference(d: Any, index: Any) -> Any:
        y = d.new_zeros(words, columns).index_add(0, index, d)
        y[0] = 0
        return y

    return Program(
        build,
        lambda normal, integers: [normal(tokens, columns), integers(words, tokens).long()],
        reference,
    )


@family((8192, 8, 128, 1024, 16), small=(20, 2, 64, 3, 8))
def cache_append(tokens: int, heads: int, dim: int, pages: int, page: int) -> Program:
    """Keys go to the slots of a paged cache that a list names; a negative slot is none."""

    def build():
        @T.prim_func
        def kernel(
            K: T.Tensor((tokens, heads, dim), "bfloat16"),
            S: T.Tensor((tokens,), "int32"),
            C: T.Tensor((pages, page, heads, dim), "bfloat16"),
        ):
            with T.Kernel(tokens, threads=128) as token:
                slot = S[token]
                if slot >= 0:
                    for h, d in T.Parallel(heads, dim):
                        C[slot // page, slot % page, h, d] = K[token, h, d]

        return kernel

    def reference(k: Any, slot: Any) -> Any:
        y = k.new_zeros(pages * page, heads, dim)
        y[slot[slot >= 0].long()] = k[slot >= 0]
        return y.view(pages, page, heads, dim)

    def inputs(normal: Any, integers: Any) -> list[Any]:
        slots = normal(pages * page).argsort()[:tokens].int()
        slots = slots.masked_fill(integers(10, tokens) == 0, -1)
        return [normal(tokens, heads, dim, dtype="bfloat16"), slots]

    return Program(build, inputs, reference)


@family((16, 16, 1024), small=(1, 2, 70))
def masked_fill(batch: int, heads: int, length: int) -> Program:
    """Scores become -inf where a mask of the batch says so; all heads share it."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, heads, length, length), "float16"),
            M: T.Tensor((batch, length, length), "bool"),
            Y: T.Tensor((batch, heads, length, length), "float16"),
        ):
            with T.Kernel(T.ceildiv(length, 4), heads, batch, threads=256) as (bx, h, b):
                for i, j in T.Parallel(4, length):
                    if bx * 4 + i < length:
                        Y[b, h, bx * 4 + i, j] = T.if_then_else(
                            M[b, bx * 4 + i, j], T.cast(-1e4, "float16"), X[b, h, bx * 4 + i, j]
                        )

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, heads, length, length, dtype="float16"),
            integers(2, batch, length, length).bool(),
        ],
        lambda x, m: x.masked_fill(m[:, None], -1e4),
    )


@family((8192, 4096), small=(10, 100))
def where_by_column(rows: int, columns: int) -> Program:
    """A number of the row or one of the column, by the sign of an element."""

    def build():
        @T.prim_func
        def kernel(
            C: T.Tensor((rows, columns), "int8"),
            A: T.Tensor((rows,), "float32"),
            B: T.Tensor((columns,), "float32"),
            Y: T.Tensor((rows, columns), "float32"),
        ):
            with T.Kernel(T.ceildiv(columns, 512), T.ceildiv(rows, 8), threads=128) as (bx, by):
                for i, j in T.Parallel(8, 512):
                    row = by * 8 + i
                    column = bx * 512 + j
                    if row < rows and column < columns:
                        Y[row, column] = T.if_then_else(C[row, column] > 0, A[row], B[column])

        return kernel

    def reference(c: Any, a: Any, b: Any) -> Any:
        import torch

        return torch.where(c > 0, a[:, None], b)

    return Program(
        build,
        lambda normal, integers: [
            (integers(3, rows, columns) - 1).char(), normal(rows), normal(columns),
        ],
        reference,
    )  # fmt: skip


@family((64, 64, 64), small=(1, 2, 6))
def nearest(batch: int, channels: int, size: int) -> Program:
    """Twice the size, planes of channels."""
    wide = 2 * size

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, channels, size, size), "float32"),
            Y: T.Tensor((batch, channels, wide, wide), "float32"),
        ):
            with T.Kernel(channels, batch, threads=256) as (c, b):
                for i, j in T.Parallel(wide, wide):
                    Y[b, c, i, j] = X[b, c, i // 2, j // 2]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(batch, channels, size, size)],
        lambda x: x.repeat_interleave(2, 2).repeat_interleave(2, 3),
    )


@family((8192, 4096, 1000, "bfloat16"), small=(4, 96, 30, "bfloat16"))
def roll(rows: int, columns: int, by: int, dtype: str) -> Program:
    """Columns move on and enter again at the front."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(rows, threads=256) as row:
                for j in T.Parallel(columns):
                    Y[row, j] = X[row, (j + columns - by) % columns]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype)],
        lambda x: x.roll(by, 1),
    )


@family((8192, 4096, "float16"), small=(4, 96, "float16"))
def flip(rows: int, columns: int, dtype: str) -> Program:
    """Columns in the opposite order."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(rows, threads=256) as row:
                for j in T.Parallel(columns):
                    Y[row, j] = X[row, columns - 1 - j]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype)],
        lambda x: x.flip(1),
    )


@family((16, 2048), small=(2, 80))
def lower_triangle(batch: int, size: int) -> Program:
    """What is above the diagonal becomes zero."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, size, size), "float32"), Y: T.Tensor((batch, size, size), "float32")
        ):
            with T.Kernel(T.ceildiv(size, 32), T.ceildiv(size, 32), batch, threads=128) as (
                bx,
                by,
                b,
            ):
                x = T.alloc_fragment((32, 32), "float32")
                T.copy(X[b, by * 32 : by * 32 + 32, bx * 32 : bx * 32 + 32], x)
                for i, j in T.Parallel(32, 32):
                    x[i, j] = T.if_then_else(bx * 32 + j <= by * 32 + i, x[i, j], 0)
                T.copy(x, Y[b, by * 32 : by * 32 + 32, bx * 32 : bx * 32 + 32])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(batch, size, size)],
        lambda x: x.tril(),
    )


@family((32768, 1000), small=(9, 50))
def one_hot(rows: int, classes: int) -> Program:
    """A one in the column of the label."""

    def build():
        @T.prim_func
        def kernel(L: T.Tensor((rows,), "int64"), Y: T.Tensor((rows, classes), "int32")):
            with T.Kernel(T.ceildiv(rows, 4), threads=256) as bx:
                for i, j in T.Parallel(4, classes):
                    if bx * 4 + i < rows:
                        Y[bx * 4 + i, j] = T.if_then_else(L[bx * 4 + i] == j, 1, 0)

        return kernel

    def reference(label: Any) -> Any:
        import torch

        return torch.nn.functional.one_hot(label, classes).int()

    return Program(build, lambda normal, integers: [integers(classes, rows).long()], reference)


@family((8192, 8192, 2048), small=(5, 100, 40))
def chosen_columns(rows: int, columns: int, chosen: int) -> Program:
    """The columns that a list names."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), "float16"),
            I: T.Tensor((chosen,), "int32"),
            Y: T.Tensor((rows, chosen), "float16"),
        ):
            with T.Kernel(rows, threads=128) as row:
                for j in T.Parallel(chosen):
                    Y[row, j] = X[row, I[j]]

        return kernel

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype="float16"), integers(columns, chosen),
        ],
        lambda x, index: x[:, index.long()],
    )  # fmt: skip


@family((64, 1048576, 3), small=(2, 1024, 3))
def stencil(rows: int, length: int, reach: int) -> Program:
    """A mean of neighbours; a tile and its borders wait in shared memory."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, length), "float32"), Y: T.Tensor((rows, length), "float32")):
            with T.Kernel(length // 512, rows, threads=128) as (bx, row):
                x = T.alloc_shared((512 + 2 * reach,), "float32")
                for j in T.Parallel(512 + 2 * reach):
                    at = bx * 512 + j - reach
                    x[j] = T.if_then_else(at >= 0 and at < length, X[row, at], 0.0)
                for j in T.Parallel(512):
                    total = T.alloc_var("float32")
                    total = 0.0
                    for t in T.unroll(2 * reach + 1):
                        total = total + x[j + t]
                    Y[row, bx * 512 + j] = total / (2 * reach + 1)

        return kernel

    def reference(x: Any) -> Any:
        import torch

        return torch.nn.functional.avg_pool1d(x, 2 * reach + 1, 1, reach)

    return Program(build, lambda normal, integers: [normal(rows, length)], reference)


@family((4096, 16384, 16), small=(3, 256, 4))
def bins_of_rows(rows: int, columns: int, bins: int) -> Program:
    """How often each of a few values occurs in a row."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), "uint8"), Y: T.Tensor((rows, bins), "int32")):
            with T.Kernel(rows, threads=256) as row:
                count = T.alloc_shared((bins,), "int32")
                for i in T.Parallel(bins):
                    count[i] = 0
                for j in T.Parallel(columns):
                    T.atomic_add(count[X[row, j]], 1)
                for i in T.Parallel(bins):
                    Y[row, i] = count[i]

        return kernel

    def reference(x: Any) -> Any:
        import torch

        y = torch.zeros(rows, bins, dtype=torch.int32, device=x.device)
        return y.scatter_add(1, x.long(), torch.ones_like(x, dtype=torch.int32))

    return Program(
        build, lambda normal, integers: [integers(bins, rows, columns).byte()], reference
    )


@family((8192, 32, 8, 128), small=(6, 4, 2, 64))
def rotary_of_both(tokens: int, queries: int, keys: int, dim: int) -> Program:
    """Queries and keys turned by one kernel: the halves of a head are partners."""
    half = dim // 2
    heads = queries + keys

    def build():
        @T.prim_func
        def kernel(
            Q: T.Tensor((tokens, queries, dim), "bfloat16"),
            K: T.Tensor((tokens, keys, dim), "bfloat16"),
            C: T.Tensor((tokens, half), "float32"),
            S: T.Tensor((tokens, half), "float32"),
            Y: T.Tensor((tokens, heads, dim), "bfloat16"),
        ):
            with T.Kernel(tokens, threads=128) as token:
                for h, d in T.Parallel(queries, half):
                    a = T.cast(Q[token, h, d], "float32")
                    b = T.cast(Q[token, h, d + half], "float32")
                    Y[token, h, d] = a * C[token, d] - b * S[token, d]
                    Y[token, h, d + half] = b * C[token, d] + a * S[token, d]
                for h, d in T.Parallel(keys, half):
                    a = T.cast(K[token, h, d], "float32")
                    b = T.cast(K[token, h, d + half], "float32")
                    Y[token, queries + h, d] = a * C[token, d] - b * S[token, d]
                    Y[token, queries + h, d + half] = b * C[token, d] + a * S[token, d]

        return kernel

    def reference(q: Any, k: Any, c: Any, s: Any) -> Any:
        import torch

        x = torch.cat((q, k), 1).float()
        a, b, c, s = x[..., :half], x[..., half:], c[:, None], s[:, None]
        return torch.cat((a * c - b * s, b * c + a * s), -1).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(tokens, queries, dim, dtype="bfloat16"),
            normal(tokens, keys, dim, dtype="bfloat16"), normal(tokens, half), normal(tokens, half),
        ],
        reference,
    )  # fmt: skip


@family((8192, 8192), small=(40, 96))
def int8_channels(rows: int, columns: int) -> Program:
    """int8 times the scale of its column."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), "int8"),
            S: T.Tensor((columns,), "float32"),
            Y: T.Tensor((rows, columns), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(columns, 256), T.ceildiv(rows, 32), threads=256) as (bx, by):
                x = T.alloc_shared((32, 256), "int8")
                T.copy(X[by * 32, bx * 256], x)
                for i, j in T.Parallel(32, 256):
                    if by * 32 + i < rows and bx * 256 + j < columns:
                        y = T.cast(x[i, j], "float32") * S[bx * 256 + j]
                        Y[by * 32 + i, bx * 256 + j] = T.cast(y, "bfloat16")

        return kernel

    return Program(
        build,
        lambda normal, integers: [(integers(255, rows, columns) - 127).char(), normal(columns)],
        lambda x, s: (x.float() * s).bfloat16(),
    )


@family((50000001, "float16"), small=(1001, "float16"))
def any_length(length: int, dtype: str) -> Program:
    """a x + y of vectors whose length is known at the launch."""

    def build():
        n = T.dynamic("n")

        @T.prim_func
        def kernel(X: T.Tensor((n,), dtype), Y: T.Tensor((n,), dtype), Z: T.Tensor((n,), dtype)):
            with T.Kernel(T.ceildiv(n, 2048), threads=256) as bx:
                for i in T.Parallel(2048):
                    if bx * 2048 + i < n:
                        Z[bx * 2048 + i] = X[bx * 2048 + i] * 0.5 + Y[bx * 2048 + i]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(length, dtype=dtype), normal(length, dtype=dtype)],
        lambda x, y: (x.float() * 0.5 + y.float()).to(x.dtype),
    )


@family((10000, 4096), small=(5, 256))
def any_rows(rows: int, columns: int) -> Program:
    """The root mean square norm of as many rows as come."""

    def build():
        m = T.dynamic("m")

        @T.prim_func
        def kernel(
            X: T.Tensor((m, columns), "bfloat16"),
            W: T.Tensor((columns,), "bfloat16"),
            Y: T.Tensor((m, columns), "bfloat16"),
        ):
            with T.Kernel(T.ceildiv(m, 2), threads=256) as bx:
                x = T.alloc_fragment((2, columns), "float32")
                square = T.alloc_fragment((2, columns), "float32")
                total = T.alloc_fragment((2,), "float32")
                T.copy(X[bx * 2 : bx * 2 + 2, 0:columns], x)
                for i, j in T.Parallel(2, columns):
                    square[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(square, total, dim=1)
                for i, j in T.Parallel(2, columns):
                    x[i, j] = x[i, j] * T.rsqrt(total[i] / columns + 1e-6) * W[j]
                T.copy(x, Y[bx * 2 : bx * 2 + 2, 0:columns])

        return kernel

    def reference(x: Any, w: Any) -> Any:
        y = x.float()
        return (y * ((y * y).mean(-1, keepdim=True) + 1e-6).rsqrt() * w.float()).bfloat16()

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype="bfloat16"), normal(columns, dtype="bfloat16"),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip
