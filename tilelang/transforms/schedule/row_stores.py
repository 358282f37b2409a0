"""Row stores: loops that only store all or some rows of a result."""

from __future__ import annotations

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import is_divisible
from tilelang.ir.simplify import simplify
from tilelang.records import dataclass

BITS = 16  # of an element that blocks of rows are stored of
CHUNK = 8  # elements in 16 bytes


@dataclass(frozen=True)
class RowStores:
    """The stores of a loop.

    Attributes:
        store: one element of a row, whose columns begin at a multiple of :data:`CHUNK`.
        load: the element of the result.
        cond: the condition of the row, if there is one.
    """

    store: S.Store
    load: E.Load
    cond: E.Expr | None


def stored_rows(stmt: S.Parallel) -> RowStores | None:
    """The stores of ``stmt`` to a tensor of 16-bit elements if it goes over a whole tile and does
    nothing else; a condition may depend on the row, not on the column."""
    body: S.Stmt = stmt.body
    cond: E.Expr | None = None
    if isinstance(body, S.If) and body.orelse is None:
        cond, body = body.cond, body.then
    if not isinstance(body, S.Store) or len(stmt.vars) != 2 or stmt.loop_layout is not None:
        return None
    value, column = body.value, stmt.vars[1]
    load = value.value if isinstance(value, E.Cast) and not value.rounding else value
    if not isinstance(load, E.Load):
        return None
    shape = tuple(map(E.as_expr, load.buffer.shape))
    if not E.are_same_exprs(load.indices, stmt.vars) or not E.are_same_exprs(stmt.extents, shape):
        return None
    to = body.buffer
    if to.storage != "global" or to.dtype.bits != BITS or to.dtype.lanes > 1:
        return None
    first = simplify(body.indices[-1] - column)
    rows = (*body.indices[:-1], *(() if cond is None else (cond,)), first)
    if any(column in expr.variables for expr in rows) or not is_divisible(first, CHUNK):
        return None
    return RowStores(body, load, cond)
