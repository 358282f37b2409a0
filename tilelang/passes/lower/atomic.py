"""``AtomicTile``: every element of a tile combined into global or shared memory as one step.

Each element counts once: copies of it in other threads stay silent. Elements of a per-thread array
are every thread's own, so each thread contributes.
"""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.passes.lower.context import Lowering
from tilelang.passes.lower.elements import ZERO, Element, each, element


def lower_atomic(stmt: S.AtomicTile, ctx: Lowering) -> S.Stmt:
    """Thread IR of an atomic update by a tile; bounds of global memory are left to guards."""
    src, dst = stmt.src, stmt.dst
    target_dims = dst.tile_dims()

    def update(item: Element) -> S.Stmt:
        moved = dict(zip(target_dims, (item.indices[d] for d in src.tile_dims()), strict=True))
        at = [moved.get(dim, ZERO) for dim in range(len(dst.extents))]
        call = E.call(
            f"atomic_{stmt.op}",
            element(dst, at, ctx).address(),
            E.cast(item.load(), dst.dtype),
            dtype=dst.dtype,
            memory_order=stmt.memory_order,
            return_prev=False,
        )
        return S.Eval(value=call, loc=stmt.loc)

    return each(src, ctx, update, once=True)
