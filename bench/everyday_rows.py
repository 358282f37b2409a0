"""Everyday kernels: softmax, normalization, sums and scans of rows."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


@family(
    (4096, 1024, "float16", 4, 128),
    (8192, 512, "float32", 8, 256),
    (2048, 4096, "bfloat16", 1, 256),
    (6000, 384, "float32", 8, 128),
    small=(20, 128, "float32", 8, 128),
)
def softmax(rows: int, columns: int, dtype: str, block: int, threads: int) -> Program:
    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(T.ceildiv(rows, block), threads=threads) as bx:
                x = T.alloc_fragment((block, columns), "float32")
                high = T.alloc_fragment((block,), "float32")
                total = T.alloc_fragment((block,), "float32")
                T.copy(X[bx * block, 0], x)
                T.reduce_max(x, high, dim=1)
                for i, j in T.Parallel(block, columns):
                    x[i, j] = T.exp(x[i, j] - high[i])
                T.reduce_sum(x, total, dim=1)
                for i, j in T.Parallel(block, columns):
                    x[i, j] = x[i, j] / total[i]
                T.copy(x, Y[bx * block, 0])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype)],
        lambda x: x.float().softmax(-1).to(x.dtype),
    )


@family(
    (4096, 2048, 2048, False),
    (4096, 3000, 3072, True),
    (2048, 5120, 5120, True),
    (8192, 1000, 1024, False),
    small=(3, 300, 512, True),
)
def norm(rows: int, columns: int, tile: int, centered: bool) -> Program:
    """Layer (``centered``) or root mean square normalization; ``tile`` need not divide the row."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), "bfloat16"),
            W: T.Tensor((columns,), "bfloat16"),
            Y: T.Tensor((rows, columns), "bfloat16"),
        ):
            with T.Kernel(rows, threads=256) as row:
                x = T.alloc_fragment((1, tile), "float32")
                square = T.alloc_fragment((1, tile), "float32")
                mean = T.alloc_fragment((1,), "float32")
                var = T.alloc_fragment((1,), "float32")
                for i, j in T.Parallel(1, tile):
                    x[i, j] = T.if_then_else(j < columns, T.cast(X[row, j], "float32"), 0.0)
                T.reduce_sum(x, mean, dim=1)
                for i in T.Parallel(1):
                    mean[i] = mean[i] / columns if centered else 0.0
                for i, j in T.Parallel(1, tile):
                    d = x[i, j] - mean[i]
                    square[i, j] = T.if_then_else(j < columns, d * d, 0.0)
                T.reduce_sum(square, var, dim=1)
                for i, j in T.Parallel(1, tile):
                    if j < columns:
                        y = (x[i, j] - mean[i]) * T.rsqrt(var[i] / columns + 1e-5)
                        Y[row, j] = T.cast(y * T.cast(W[j], "float32"), "bfloat16")

        return kernel

    def reference(x: Any, w: Any) -> Any:
        y = x.float()
        y = y - y.mean(-1, keepdim=True) if centered else y
        return (y * ((y * y).mean(-1, keepdim=True) + 1e-5).rsqrt() * w.float()).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype="bfloat16"), normal(columns, dtype="bfloat16"),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family(
    (1024, 16384, 2048, "float16"), (512, 10000, 2048, "float32"), small=(2, 600, 256, "float16")
)
def rms_norm_by_tiles(rows: int, columns: int, tile: int, dtype: str) -> Program:
    """Two loops over the tiles of a row: the first sums squares, the second divides."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, columns), dtype),
            W: T.Tensor((columns,), dtype),
            Y: T.Tensor((rows, columns), dtype),
        ):
            with T.Kernel(rows, threads=256) as row:
                x = T.alloc_fragment((tile,), "float32")
                square = T.alloc_fragment((tile,), "float32")
                part = T.alloc_fragment((1,), "float32")
                T.clear(square)
                for t in T.serial(T.ceildiv(columns, tile)):
                    T.copy(X[row, t * tile], x)
                    for j in T.Parallel(tile):
                        square[j] += x[j] * x[j]
                T.reduce_sum(square, part, dim=0)
                for t in T.serial(T.ceildiv(columns, tile)):
                    for j in T.Parallel(tile):
                        at = t * tile + j
                        if at < columns:
                            Y[row, at] = X[row, at] * T.rsqrt(part[0] / columns + 1e-6) * W[at]

        return kernel

    def reference(x: Any, w: Any) -> Any:
        y = x.float()
        return (y * ((y * y).mean(-1, keepdim=True) + 1e-6).rsqrt() * w.float()).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype), normal(columns, dtype=dtype)],
        reference,
        tolerance=6e-2,
    )


@family((2048, 1024, 8, "float32"), (1024, 4096, 4, "float16"), small=(8, 512, 4, "float32"))
def scan(rows: int, columns: int, block: int, dtype: str) -> Program:
    """Running sums, tile after tile, by the scan of a tile."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), dtype)):
            with T.Kernel(rows // block, threads=128) as bx:
                s = T.alloc_shared((block, 256), "float32")
                x = T.alloc_fragment((block, 256), "float32")
                carry = T.alloc_fragment((block,), "float32")
                part = T.alloc_fragment((block,), "float32")
                T.clear(carry)
                for t in T.serial(columns // 256):
                    T.copy(X[bx * block, t * 256], x)
                    T.reduce_sum(x, part, dim=1)
                    T.copy(x, s)
                    T.cumsum(s, dim=1)
                    for i, j in T.Parallel(block, 256):
                        Y[bx * block + i, t * 256 + j] = T.cast(s[i, j] + carry[i], dtype)
                    for i in T.Parallel(block):
                        carry[i] = carry[i] + part[i]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype) * 0.1],
        lambda x: x.float().cumsum(-1).to(x.dtype),
        tolerance=6e-2,
    )


@family((1 << 24, "float32", "sum"), (1 << 23, "bfloat16", "max"), small=(8192, "float32", "sum"))
def total(elements: int, dtype: str, kind: str) -> Program:
    """A reduction to one number of each block."""
    tile = 4096
    blocks = elements // tile

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((elements,), dtype), Y: T.Tensor((blocks,), "float32")):
            with T.Kernel(blocks, threads=256) as bx:
                x = T.alloc_fragment((tile,), "float32")
                y = T.alloc_fragment((1,), "float32")
                T.copy(X[bx * tile], x)
                if kind == "max":
                    T.reduce_max(x, y, dim=0)
                else:
                    T.reduce_sum(x, y, dim=0)
                Y[bx] = y[0]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(elements, dtype=dtype)],
        lambda x: (
            x.float().view(-1, tile).amax(-1) if kind == "max" else x.float().view(-1, tile).sum(-1)
        ),
    )


@family((4096, 2048, "float32", 4), (8192, 640, "bfloat16", 8), small=(6, 200, "float32", 4))
def log_sum_exp(rows: int, columns: int, dtype: str, block: int) -> Program:
    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows,), "float32")):
            with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
                x = T.alloc_fragment((block, columns), "float32")
                high = T.alloc_fragment((block,), "float32")
                sums = T.alloc_fragment((block,), "float32")
                T.copy(X[bx * block, 0], x)
                T.reduce_max(x, high, dim=1)
                for i, j in T.Parallel(block, columns):
                    x[i, j] = T.exp(x[i, j] - high[i])
                T.reduce_sum(x, sums, dim=1)
                for i in T.Parallel(block):
                    if bx * block + i < rows:
                        Y[bx * block + i] = T.log(sums[i]) + high[i]

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype)],
        lambda x: x.float().logsumexp(-1),
    )


@family((4096, 32000, 2048), (2048, 50257, 4096), small=(3, 700, 256))
def cross_entropy(rows: int, vocabulary: int, tile: int) -> Program:
    """The loss of a token, over tiles of the vocabulary; labels below 0 are left out."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((rows, vocabulary), "bfloat16"),
            L: T.Tensor((rows,), "int32"),
            Y: T.Tensor((rows,), "float32"),
        ):
            with T.Kernel(rows, threads=256) as row:
                x = T.alloc_fragment((tile,), "float32")
                high = T.alloc_fragment((1,), "float32")
                before = T.alloc_fragment((1,), "float32")
                sums = T.alloc_fragment((1,), "float32")
                part = T.alloc_fragment((1,), "float32")
                T.fill(high, -T.infinity("float32"))
                T.clear(sums)
                for t in T.serial(T.ceildiv(vocabulary, tile)):
                    for j in T.Parallel(tile):
                        x[j] = T.if_then_else(
                            t * tile + j < vocabulary,
                            T.cast(X[row, t * tile + j], "float32"),
                            -T.infinity("float32"),
                        )
                    before[0] = high[0]
                    T.reduce_max(x, high, dim=0, clear=False)
                    for j in T.Parallel(tile):
                        x[j] = T.exp(x[j] - high[0])
                    T.reduce_sum(x, part, dim=0)
                    sums[0] = sums[0] * T.exp(before[0] - high[0]) + part[0]
                label = L[row]
                if label >= 0:
                    Y[row] = T.log(sums[0]) + high[0] - T.cast(X[row, label], "float32")
                else:
                    Y[row] = 0.0

        return kernel

    def reference(x: Any, labels: Any) -> Any:
        import torch

        return torch.nn.functional.cross_entropy(
            x.float(), labels.long(), ignore_index=-1, reduction="none"
        )

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, vocabulary, dtype="bfloat16"), integers(vocabulary + 1, rows) - 1,
        ],
        reference,
    )  # fmt: skip


@family((32, 512, 1024, 32), (16, 320, 1024, 20), small=(2, 8, 64, 2))
def group_norm(batch: int, channels: int, size: int, groups: int) -> Program:
    """Normalization of all elements of some channels of an image."""
    inside = channels // groups

    def build():
        shape = (batch, channels, size)

        @T.prim_func
        def kernel(
            X: T.Tensor(shape, "float16"),
            W: T.Tensor((channels,), "float32"),
            B: T.Tensor((channels,), "float32"),
            Y: T.Tensor(shape, "float16"),
        ):
            with T.Kernel(groups, batch, threads=256) as (g, n):
                x = T.alloc_fragment((inside, size), "float32")
                rows = T.alloc_fragment((inside,), "float32")
                mean = T.alloc_fragment((1,), "float32")
                var = T.alloc_fragment((1,), "float32")
                T.copy(X[n, g * inside : (g + 1) * inside, :], x)
                T.reduce_sum(x, rows, dim=1)
                T.reduce_sum(rows, mean, dim=0)
                for i, j in T.Parallel(inside, size):
                    x[i, j] = x[i, j] - mean[0] / (inside * size)
                squares = T.alloc_fragment((inside, size), "float32")
                for i, j in T.Parallel(inside, size):
                    squares[i, j] = x[i, j] * x[i, j]
                T.reduce_sum(squares, rows, dim=1)
                T.reduce_sum(rows, var, dim=0)
                for i, j in T.Parallel(inside, size):
                    c = g * inside + i
                    Y[n, c, j] = x[i, j] * T.rsqrt(var[0] / (inside * size) + 1e-5) * W[c] + B[c]

        return kernel

    def reference(x: Any, w: Any, b: Any) -> Any:
        import torch

        return torch.nn.functional.group_norm(x.float(), groups, w, b).to(x.dtype)

    return Program(
        build,
        lambda normal, integers: [
            normal(batch, channels, size, dtype="float16"), normal(channels), normal(channels),
        ],
        reference,
    )  # fmt: skip


@family((8192, 1024, 4), (4096, 5000, 1), small=(6, 200, 4))
def argmax(rows: int, columns: int, block: int) -> Program:
    """The first position of the largest element of a row."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows,), "int32")):
            with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
                x = T.alloc_fragment((block, columns), "float32")
                high = T.alloc_fragment((block,), "float32")
                position = T.alloc_fragment((block, columns), "int32")
                first = T.alloc_fragment((block,), "int32")
                T.copy(X[bx * block, 0], x)
                T.reduce_max(x, high, dim=1)
                for i, j in T.Parallel(block, columns):
                    position[i, j] = T.if_then_else(x[i, j] == high[i], j, columns)
                T.reduce_min(position, first, dim=1)
                T.copy(first, Y[bx * block])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns)],
        lambda x: x.argmax(-1).int(),
        tolerance=0.0,
    )


@family((4096, 7168, "bfloat16"), (8192, 1536, "float16"), small=(3, 256, "float16"))
def quantize_rows(rows: int, columns: int, dtype: str) -> Program:
    """Rows in int8 by their largest element."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows, columns), "int8")):
            with T.Kernel(rows, threads=256) as row:
                x = T.alloc_fragment((columns,), "float32")
                high = T.alloc_fragment((1,), "float32")
                T.copy(X[row, 0], x)
                T.reduce_absmax(x, high, dim=0)
                for j in T.Parallel(columns):
                    Y[row, j] = T.cast(T.round(x[j] * (127.0 / T.max(high[0], 1e-6))), "int8")

        return kernel

    def reference(x: Any) -> Any:
        y = x.float()
        return (y * (127.0 / y.abs().amax(-1, keepdim=True).clamp(min=1e-6))).round().char()

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype)],
        reference,
    )  # a half may be rounded to either side


@family((8192, 2048, 64, "float32"), (20000, 768, 128, "bfloat16"), small=(200, 128, 64, "float32"))
def column_sums(rows: int, columns: int, block: int, dtype: str) -> Program:
    """Sums over rows, tile after tile: the gradient of a bias."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((columns,), "float32")):
            with T.Kernel(T.ceildiv(columns, block), threads=256) as bx:
                x = T.alloc_fragment((64, block), "float32")
                sums = T.alloc_fragment((64, block), "float32")
                y = T.alloc_fragment((block,), "float32")
                T.clear(sums)
                for t in T.serial(T.ceildiv(rows, 64)):
                    T.copy(X[t * 64, bx * block], x)
                    for i, j in T.Parallel(64, block):
                        sums[i, j] += x[i, j]
                T.reduce_sum(sums, y, dim=0)
                T.copy(y, Y[bx * block])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype)],
        lambda x: x.float().sum(0),
    )
