"""``Transpose``: the last two dimensions of a tile exchanged.

The threads that hold elements of one side reach into the other side, if that is memory. Between
fragments, and in place, the tile passes through a shared workspace.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Region
from tilelang.passes.analysis.scopes import is_fragment, is_private
from tilelang.passes.lower.context import Lowering
from tilelang.passes.lower.elements import (
    Element,
    constant_extents,
    each,
    element,
    row_major,
    stage,
)


def lower_transpose(stmt: S.Transpose, ctx: Lowering) -> S.Stmt:
    """Thread IR of ``dst[.., j, i] = src[.., i, j]``."""
    src, dst = stmt.src, stmt.dst
    in_place = src.buffer.data is dst.buffer.data
    if is_fragment(src) and not is_fragment(dst) and not is_private(dst):
        return each(
            src,
            ctx,
            lambda item: element(dst, _swapped(item.indices, dst), ctx).store(item.load()),
            once=True,
        )
    if not is_fragment(src) and not in_place:
        return each(
            dst,
            ctx,
            lambda item: item.store(element(src, _swapped(item.indices, src), ctx).load()),
            once=False,
        )
    staged, room = stage(src, ctx, "transposed", "a transpose")
    extents = constant_extents(src, "a transpose")

    def take(item: Element) -> S.Stmt:
        return item.store(E.Load(room, (row_major(extents, _swapped(item.indices, src)),)))

    return S.seq(staged, each(dst, ctx, take, once=False), ctx.barrier())


def _swapped(indices: Sequence[E.Expr], other: Region) -> tuple[E.Expr, ...]:
    """The place in ``other`` of a position in one operand; a tile of a pipeline has a stage in
    front, of extent 1 in the region."""
    lead = tuple(indices[:-2])
    wanted = len(other.extents) - 2
    lead = (E.const(0),) * (wanted - len(lead)) + lead[max(0, len(lead) - wanted) :]
    return (*lead, indices[-1], indices[-2])
