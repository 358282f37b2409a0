"""Fragments that programs name: the 8 x 8 matrix of one warp, and full replication."""

from __future__ import annotations

from tilelang.ir.expr import Expr, const
from tilelang.ir.indices import row_major
from tilelang.layout.fragment import Fragment
from tilelang.layout.layout import constant_extents


def make_gemm_fragment_8x8() -> Fragment:
    """Return an 8 x 8 matrix in a warp: two neighbours of a row per thread."""
    return Fragment((8, 8), lambda i, j: (i * 4 + j // 2, j % 2))


def make_gemm_fragment_8x8_transposed() -> Fragment:
    """Return an 8 x 8 matrix in a warp: two neighbours of a column per thread."""
    return Fragment((8, 8), lambda i, j: (j * 4 + i // 2, i % 2))


def make_fully_replicated_layout_fragment(buffer: object, threads: int) -> Fragment:
    """Return a fragment of which every thread holds all elements, in row-major order.

    Args:
        buffer: a buffer or a shape.
        threads: number of threads.
    """
    shape = constant_extents(buffer, "a fully replicated fragment")
    (count,) = constant_extents(threads, "the threads of a fully replicated fragment")

    def forward(*args: Expr) -> tuple[Expr, Expr]:
        return (args[-1] if count > 1 else const(0)), row_major(shape, args[: len(shape)])

    return Fragment(shape, forward, replicate=count)
