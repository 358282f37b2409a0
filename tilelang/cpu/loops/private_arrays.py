"""Arrays of one iteration as variables, since vectors have lanes for variables only.

``w = T.alloc_local((4,), ...)`` inside a parallel loop belongs to one iteration. If all its indices
are constants once the loops over its elements are unrolled, each element becomes a variable. Then
the loop around it may become a vector loop.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.loops.nests import iteration
from tilelang.cpu.loops.scalar_replacement import ZERO, element_tiles
from tilelang.cpu.nontemporal_stores import bytes_of
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import map_exprs, map_stmts, replace_nodes
from tilelang.transforms.analysis.loops import steps_by_one, trip_count

MOST = 128  # bytes of an array
ROUNDS = 16  # of a loop over elements
LONGEST = 512  # statements


def with_variables(loop: S.For) -> S.For:
    """``loop`` with its small arrays as variables; ``loop`` itself if one cannot be."""
    buffers = [a.buffer for a in S.find(loop.body, S.Alloc) if not a.buffer.is_var]
    arrays = {buffer.data for buffer in buffers if 0 < (bytes_of(buffer) or 0) <= MOST}
    if not arrays or len(arrays) < len(buffers) or not arrays <= element_tiles(loop.body).keys():
        return loop
    body = map_stmts(loop.body, S.For, lambda each: _unrolled(each, arrays))
    body = map_exprs(body, simplify)
    uses = [
        use for use in effects.accesses(body, nested=True) if use.data in arrays and use.indices
    ]
    are_known = all(isinstance(index, E.Const) for use in uses for index in use.indices)
    if not are_known or len(list(S.walk(body))) > LONGEST:
        return loop
    cells = {
        E.Load(a.buffer, a.indices): Buffer(a.buffer.name, Shape((1,)), a.buffer.dtype, "local.var")
        for a in uses
    }

    def variable(stmt: S.Store | S.Alloc) -> S.Stmt | list[S.Stmt]:
        if stmt.buffer.data not in arrays:
            return stmt
        if isinstance(stmt, S.Store):
            return replace(stmt, buffer=cells[E.Load(stmt.buffer, stmt.indices)], indices=ZERO)
        own = [cell for load, cell in cells.items() if load.buffer.data is stmt.buffer.data]
        return [S.Alloc(buffer=cell, loc=stmt.loc) for cell in own]

    values = {load: E.Load(cell, ZERO) for load, cell in cells.items()}
    body = map_exprs(body, lambda expr: replace_nodes(expr, values))
    return replace(loop, body=map_stmts(body, (S.Store, S.Alloc), variable))


def _unrolled(loop: S.For, arrays: set[E.Var]) -> S.For | list[S.Stmt]:
    """The iterations of ``loop``, if it is one over elements of ``arrays``."""
    uses = [access for access in effects.accesses(loop, nested=True) if access.data in arrays]
    is_index = any(loop.var in index.variables for use in uses for index in use.indices)
    stmts, count = S.flat(loop.body), trip_count(loop) or ROUNDS + 1
    allocs = S.find(loop.body, S.Alloc)
    nested = any(alloc.buffer.data in arrays or alloc not in stmts for alloc in allocs)
    if nested or not is_index or count > ROUNDS or not steps_by_one(loop):
        return loop
    return [s for k in range(count) for s in iteration(stmts, {loop.var: loop.start + k})]
