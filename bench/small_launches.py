"""Small launches of real programs' shapes: where a kernel of a few microseconds is lost or won.

Each has its program, its arguments and what must hold of them afterwards; ``h200.py`` times them in
a graph of calls, beside the microseconds that PyPI's tilelang took for such launches on an H200.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilelang.language as T


def rounding(count: int = 1 << 20, threads: int = 256, each: int = 8) -> Any:
    """To whole numbers, half to even; by fragments, which a loop over two variables indexes."""
    block = threads * each

    @T.prim_func
    def kernel(X: T.Tensor((count,), "float16"), Y: T.Tensor((count,), "float16")):
        with T.Kernel(count // block, threads=threads) as bx:
            x = T.alloc_fragment((block,), "float16")
            y = T.alloc_fragment((block,), "float16")
            T.copy(X[bx * block : (bx + 1) * block], x)
            for i, j in T.Parallel(threads, each):
                y[i * each + j] = T.nearbyint(T.cast(x[i * each + j], "float32"))
            T.copy(y, Y[bx * block : (bx + 1) * block])

    return kernel


def dropping(count: int = 4_000_000, share: float = 0.5, threads: int = 256, each: int = 8) -> Any:
    """Zeros with a probability, the others scaled: a random number for each element."""

    @T.prim_func
    def kernel(X: T.Tensor((count,), "float16"), Y: T.Tensor((count,), "float16")):
        with T.Kernel(T.ceildiv(count, threads * each), threads=threads) as bx:
            T.rng_init(7)
            for i, j in T.Parallel(threads, each):
                at = (bx * threads + i) * each + j
                number = T.rng_rand_float()
                if at < count:
                    Y[at] = T.if_then_else(
                        number >= T.float32(share), X[at] * T.float16(1 / (1 - share)), T.float16(0)
                    )

    return kernel


def whole_softmax(count: int = 32768, threads: int = 256) -> Any:
    """Softmax over all of a tensor, by one block."""

    @T.prim_func
    def kernel(X: T.Tensor((1, count), "float16"), Y: T.Tensor((1, count), "float16")):
        with T.Kernel(1, threads=threads) as bx:
            tile = T.alloc_shared((1, count), "float16")
            x = T.alloc_fragment((1, count), "float32")
            top = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[bx, 0], tile)
            T.copy(tile, x)
            T.reduce_max(x, top, dim=1)
            for i, j in T.Parallel(1, count):
                x[i, j] = T.exp(x[i, j] - top[i])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, count):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, tile)
            T.copy(tile, Y[bx, 0])

    return kernel


def first_largest(rows: int = 512, count: int = 256, threads: int = 128) -> Any:
    """Where the first of a row's largest elements stands, found by a scan."""

    @T.prim_func
    def kernel(X: T.Tensor((rows, count), "float16"), Y: T.Tensor((rows,), "int64")):
        with T.Kernel(rows, threads=threads) as bx:
            tile = T.alloc_shared((1, count), "float16")
            x = T.alloc_fragment((1, count), "float32")
            top = T.alloc_fragment((1,), "float32")
            found = T.alloc_fragment((1,), "int64")
            T.copy(X[bx, 0], tile)
            T.copy(tile, x)
            T.reduce_max(x, top, dim=1)
            T.fill(found, 0)
            for i in T.Parallel(1):
                for j in T.serial(count):
                    if x[i, j] == top[i]:
                        found[i] = T.cast(j, "int64")
                        T.loop_break()
            T.copy(found, Y[bx])

    return kernel


def numbers(*shape: int) -> Any:
    """Numbers around zero, without zeros."""
    import torch  # the programs themselves are compiled without it, too

    return torch.randn(*shape, device="cuda").mul(8).half() + 0.25


def result(*shape: int, dtype: str = "float16") -> Any:
    """Room for results, of which none is right yet."""
    import torch

    return torch.full(shape, -7, device="cuda", dtype=getattr(torch, dtype))


def is_softmax(x: Any, y: Any) -> bool:
    import torch

    return torch.allclose(y.float(), torch.softmax(x.float(), -1), atol=1e-3)


# Name -> the program, its arguments, whether they are right afterwards, and microseconds elsewhere.
Case = tuple[Callable[[], Any], Callable[[], tuple[Any, Any]], Callable[[Any, Any], bool], float]
SMALL: dict[str, Case] = {
    "rounding": (
        rounding, lambda: (numbers(1 << 20), result(1 << 20)),
        lambda x, y: bool((y == x.float().round().half()).all()), 2.7),
    "random": (
        dropping, lambda: (numbers(4_000_000), result(4_000_000)),
        lambda x, y: bool(((y == 0) | (y == 2 * x)).all())
        and abs(float((y == 0).float().mean()) - 0.5) < 1e-2, 11.8),
    "softmax_whole": (
        whole_softmax, lambda: (numbers(1, 32768), result(1, 32768)),
        is_softmax, 15.1),
    "first_largest": (
        first_largest, lambda: (numbers(512, 256), result(512, dtype="int64")),
        lambda x, y: bool((y == (x == x.amax(1, keepdim=True)).int().argmax(1)).all()), 13.1),
}  # fmt: skip
