"""Everyday kernels whose serial loops wait for memory: shared tiles, small grids, and bins."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
from typing import Any

from everyday_family import Program, family

import tilelang.language as T


@family(
    (256, 102400, 2, 2048, "float16"),
    (132, 65536, 1, 4096, "float32"),
    (528, 30000, 4, 1000, "bfloat16"),
    small=(6, 4096, 2, 512, "float16"),
)
def sums_by_tiles(rows: int, columns: int, block: int, tile: int, dtype: str) -> Program:
    """A sum of each row, over tiles in shared memory."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), dtype), Y: T.Tensor((rows,), "float32")):
            with T.Kernel(T.ceildiv(rows, block), threads=128) as b:
                s = T.alloc_shared((block, tile), dtype)
                x = T.alloc_fragment((block, tile), "float32")
                part = T.alloc_fragment((block,), "float32")
                sums = T.alloc_fragment((block,), "float32")
                T.clear(sums)
                for t in T.serial(T.ceildiv(columns, tile)):
                    T.copy(X[b * block, t * tile], s)
                    T.copy(s, x)
                    T.reduce_sum(x, part, dim=1)
                    for i in T.Parallel(block):
                        sums[i] += part[i]
                T.copy(sums, Y[b * block])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns, dtype=dtype)],
        lambda x: x.float().sum(-1),
        tolerance=6e-2,
    )


@family(
    (132, 32768, 1024, "bfloat16"), (96, 40000, 800, "float32"), small=(3, 2048, 256, "bfloat16")
)
def dots_by_tiles(rows: int, columns: int, tile: int, dtype: str) -> Program:
    """The product of two rows and the largest element; places and lengths have names."""

    def build():
        shape = (rows, columns)

        @T.prim_func
        def kernel(
            A: T.Tensor(shape, dtype), B: T.Tensor(shape, dtype), Y: T.Tensor((rows, 2), "float32")
        ):
            with T.Kernel(rows, threads=256) as row:
                a = T.alloc_shared((tile,), dtype)
                b = T.alloc_shared((tile,), dtype)
                sums = T.alloc_fragment((tile,), "float32")
                high = T.alloc_fragment((tile,), "float32")
                y = T.alloc_fragment((1,), "float32")
                T.clear(sums)
                T.fill(high, -T.infinity("float32"))
                for t in range(columns // tile):
                    start = t * tile
                    T.copy(A[row, start : start + tile], a)
                    T.copy(B[row, start : start + tile], b)
                    for j in T.Parallel(tile):
                        sums[j] += T.cast(a[j], "float32") * T.cast(b[j], "float32")
                        high[j] = T.max(high[j], T.cast(a[j], "float32"))
                T.reduce_sum(sums, y, dim=0)
                Y[row, 0] = y[0]
                T.reduce_max(high, y, dim=0)
                Y[row, 1] = y[0]

        return kernel

    def reference(a: Any, b: Any) -> Any:
        import torch

        return torch.stack(((a.float() * b.float()).sum(-1), a.float().amax(-1)), -1)

    return Program(
        build,
        lambda normal, integers: [
            normal(rows, columns, dtype=dtype), normal(rows, columns, dtype=dtype),
        ],
        reference,
        tolerance=6e-2,
    )  # fmt: skip


@family(
    (64, 512, 4096, 32, "float32"),
    (40, 300, 8192, 64, "float16"),
    small=(2, 24, 256, 32, "float16"),
)
def means_over_time(batch: int, steps: int, channels: int, block: int, dtype: str) -> Program:
    """The mean over the second of three dimensions, a thread a channel."""

    def build():
        @T.prim_func
        def kernel(
            X: T.Tensor((batch, steps, channels), dtype), Y: T.Tensor((batch, channels), "float32")
        ):
            with T.Kernel(channels // (block * 4), batch, threads=block) as (bx, n):
                sums = T.alloc_fragment((block * 4,), "float32")
                T.clear(sums)
                for t in T.serial(steps):
                    for j in T.Parallel(block * 4):
                        sums[j] += T.cast(X[n, t, bx * block * 4 + j], "float32")
                for j in T.Parallel(block * 4):
                    Y[n, bx * block * 4 + j] = sums[j] / steps

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(batch, steps, channels, dtype=dtype)],
        lambda x: x.float().mean(1),
    )


@family((1 << 22, 512, 8192), (3_000_000, 100, 4096), small=(1000, 20, 512))
def weighted_bins(elements: int, bins: int, tile: int) -> Program:
    """Sums of weights by bin, in shared memory first."""

    def build():
        @T.prim_func
        def kernel(
            I: T.Tensor((elements,), "int32"),
            W: T.Tensor((elements,), "int32"),
            Y: T.Tensor((bins,), "int32"),
        ):
            with T.Kernel(T.ceildiv(elements, tile), threads=256) as b:
                sums = T.alloc_shared((bins,), "int32")
                T.clear(sums)
                for t in T.Parallel(tile):
                    at = b * tile + t
                    if at < elements:
                        T.atomic_add(sums[I[at]], W[at])
                for t in T.Parallel(bins):
                    T.atomic_add(Y[t], sums[t])

        return kernel

    def reference(i: Any, w: Any) -> Any:
        import torch

        y = torch.zeros(bins, dtype=torch.int32, device=i.device)
        return y.scatter_add_(0, i.long(), w)

    return Program(
        build,
        lambda normal, integers: [integers(bins, elements), integers(9, elements)],
        reference,
        tolerance=0.0,
    )


@family((4096, 2048, 8), (8192, 1024, 4), small=(8, 512, 4))
def argmin_by_tiles(rows: int, columns: int, block: int) -> Program:
    """The position of the least element of a row: each thread keeps its own, by a branch."""

    def build():
        @T.prim_func
        def kernel(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows,), "int32")):
            with T.Kernel(rows // block, threads=128) as bx:
                best = T.alloc_fragment((block, 256), "float32")
                place = T.alloc_fragment((block, 256), "int32")
                low = T.alloc_fragment((block,), "float32")
                first = T.alloc_fragment((block,), "int32")
                T.fill(best, T.infinity("float32"))
                T.clear(place)
                for t in T.serial(columns // 256):
                    for i, j in T.Parallel(block, 256):
                        if X[bx * block + i, t * 256 + j] < best[i, j]:
                            best[i, j] = X[bx * block + i, t * 256 + j]
                            place[i, j] = t * 256 + j
                T.reduce_min(best, low, dim=1)
                for i, j in T.Parallel(block, 256):
                    place[i, j] = T.if_then_else(best[i, j] == low[i], place[i, j], columns)
                T.reduce_min(place, first, dim=1)
                T.copy(first, Y[bx * block])

        return kernel

    return Program(
        build,
        lambda normal, integers: [normal(rows, columns)],
        lambda x: x.argmin(-1).int(),
        tolerance=0.0,
    )
