"""Unroll-and-jam: several rows that update the same elements are computed at a time.

A sum over columns is a loop over rows around a loop that adds one row to a row of totals, which it
loads and stores each time. With several rows per iteration the totals are loaded once, the elements
of these rows are added in order, and the totals are stored once. The operations of each element
keep their order, so results do not change. Reading more rows at a time also hides memory latency.

The loop over rows must have a constant trip count, and its body must be one innermost parallel loop
with one store to a tile, at indices that do not depend on the row. Other loads of the loop access
other memory or the stored element. Runs after loop fusion and array contraction, and before guards
are inserted.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.cpu.loops.nests import iteration, line_of
from tilelang.cpu.loops.scalar_replacement import ZERO, Elements
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.transforms.analysis.dependence import Memory
from tilelang.transforms.analysis.loops import steps_by_one, trip_count

ROWS = 8  # at once, or 4, or 2: what divides their number
LARGEST = 6  # statements of the inner loop


def jammed(loop: S.For, memory: Memory) -> tuple[S.For, str] | None:
    """``loop`` with rows that go into the same elements taken several at a time, if it is one over
    such rows, and what a report says of it."""
    count = next((n for n in (ROWS, ROWS // 2, ROWS // 4) if _rows(loop) % n == 0), 0)
    store = _update(loop, memory) if count and _rows(loop) else None
    if store is None:
        return None
    return _jam(loop, store, count), line_of(loop, f"takes {count} rows (unroll-and-jam)")


def _rows(loop: S.For) -> int:
    """The number of rows if ``loop`` may be one over rows."""
    plain = not loop.hints and steps_by_one(loop) and loop.kind == "serial"
    return (trip_count(loop) or 0) if plain else 0


def _update(loop: S.For, memory: Memory) -> S.Store | None:
    """The store of a loop over rows that update the same elements of a tile, and use nothing else
    of it; None where ``loop`` is not such a loop."""
    inner = loop.body
    if not isinstance(inner, S.For) or inner.hints.parallel is None:
        return None
    *lets, store = S.flat(inner.body) or (inner,)
    if not isinstance(store, S.Store) or not all(isinstance(stmt, S.Let) for stmt in lets):
        return None
    buffer, bounds = store.buffer, {*inner.start.variables, *inner.stop.variables}
    names = {loop.var, *(stmt.var for stmt in lets if isinstance(stmt, S.Let))}
    if len(lets) >= LARGEST or not memory.facts(inner).quiet:
        return None
    if buffer.storage == "global" or buffer.is_var or buffer.dtype.bits < 8:
        return None
    if any(not names.isdisjoint(index.variables) for index in store.indices):
        return None
    if loop.var in bounds or E.holds(inner.stop, E.Load):
        return None
    reads = any(buffer.data in effects.used(x) for stmt in (*lets, store) for x in stmt.exprs())
    return store if reads and memory.uses_only(store, inner.body) else None


def _jam(loop: S.For, store: S.Store, count: int) -> S.For:
    """``loop`` with ``count`` rows in each iteration, and a variable for the element."""
    inner, buffer = loop.body, store.buffer
    assert isinstance(inner, S.For)
    cell = Buffer(buffer.name, Shape((1,)), buffer.dtype, "local.var")
    element = Elements(buffer.data, E.Load(cell, ZERO), cell)
    row_body = [element.rewrite(stmt) for stmt in S.flat(inner.body)]
    body: list[S.Stmt] = [S.Alloc(buffer=cell, init=E.Load(buffer, store.indices), loc=store.loc)]
    for row in range(count):
        body += iteration(row_body, {loop.var: loop.start + loop.var * count + row})
    body.append(replace(store, value=E.Load(cell, ZERO)))
    dtype, rounds = loop.var.dtype, _rows(loop) // count
    inner = replace(inner, body=S.seq(*body))
    return replace(loop, start=E.const(0, dtype), stop=E.const(rounds, dtype), body=inner)
