"""Split-K within a block: groups of warps divide k of a product of few rows, then add their sums.

A product of few rows has few instruction tiles to divide among its warps. Where there are more
warps than tiles of weights, each group of warps multiplies a part of k. Then one warp unpacks each
weight, one group loads each row of the other operand, and more warps hide latency. The partial sums
are added once, after the loop.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.visitor import rewrite_blocks


def reduction_region(body: S.Stmt, product: S.Gemm) -> S.Stmt | None:
    """The statement of ``body`` after which the result of ``product`` is complete: its loop, or
    the pipeline of the loop. None where other statements in there use the result, or where it does
    not start from zero."""
    around = _path(body, product)
    loops = [node for node in around if isinstance(node, S.For)]
    if not loops:
        return None
    loop = loops[-1]
    if product.clear is not E.binary("eq", loop.var, loop.start):
        return None
    outer = [node for node in around[: around.index(loop)] if not isinstance(node, S.Seq)]
    region = outer[-1] if outer and isinstance(outer[-1], H.Pipeline) else loop
    data = product.c.buffer.data
    users = [node for node in S.walk(region) if data in effects.used(node, nested=False)]
    return region if users == [product] else None


def _path(body: S.Stmt, product: S.Gemm) -> list[S.Stmt]:
    """The statements from ``body`` to ``product``, each a part of the one before."""
    if body is product:
        return [body]
    for block in body.blocks():
        path = _path(block, product)
        if path:
            return [body, *path]
    return []


def split_k_partials(tile: Buffer, slices: int) -> Buffer:
    """A buffer for ``slices`` partial sums of the shape of ``tile``."""
    return Buffer(f"{tile.name}_parts", Shape((slices, *tile.shape)), tile.dtype, tile.storage)


def with_sums(body: S.Stmt, sums: Mapping[S.Stmt, tuple[Buffer, Buffer]]) -> S.Stmt:
    """``body`` with the parts allocated in front of each key of ``sums`` and added up after it.

    Args:
        sums: statement -> the parts, and the tile that gets their sum.
    """
    if body not in sums:
        return rewrite_blocks(body, lambda block: with_sums(block, sums))
    partials, tile = sums[body]
    add = S.Reduce(src=partials.whole(), dst=tile.whole(), kind="sum", dim=0, loc=body.loc)
    return S.seq(S.Alloc(buffer=partials, loc=body.loc), body, add)
