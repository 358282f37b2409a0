"""Unroll-and-jam: several rows that update the same elements are computed at a time.

A sum over columns is a loop over rows around a loop that adds the elements of one row to a row of
totals, which it loads and stores for each of them. Several rows at once share that: the totals are
loaded, the elements of all these rows are added in their order, and the totals stored once. An
element goes through the same operations in the same order, so results do not change; more rows are
read at the same time, which hides the time that memory takes.

A loop over rows is one of a constant number of iterations whose body is one parallel innermost
loop with one store, to a tile, at indices that the row does not choose; what else the loop reads is
other memory, or that element. Relies on fused loops and contracted tiles; guards of accesses are
put in after it.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.visitor import Rewriter, rebuild, rewrite_blocks, rewrite_launches, substitute
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import facts_of, uses_only
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.notes import with_lines

ROWS = 8  # at once, or 4, or 2: what divides their number
LARGEST = 6  # statements of the inner loop
ZERO = (E.const(0),)


def unroll_and_jam(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with rows that go into the same elements taken several at a time."""
    named = {
        node.source
        for node in S.walk(func.body)
        if isinstance(node, S.View) and node.source is not None
    }
    views = {var for source in named for var in source.variables}
    views |= {node.buffer.data for node in S.walk(func.body) if isinstance(node, S.View)}

    def jammed(launch: S.Launch) -> S.Stmt:
        lines: list[str] = []

        def visit(stmt: S.Stmt) -> S.Stmt:
            stmt = rewrite_blocks(stmt, visit)
            rows = _rows(stmt, views) if isinstance(stmt, S.For) else None
            if rows is None:
                return stmt
            if stmt.loc is not None:
                lines.append(f"line {stmt.loc.line} takes {rows.count} rows at a time")
            return rows.jammed()

        body = visit(launch.body)
        if body is launch.body:
            return launch
        return with_lines(replace(launch, body=body), tuple(dict.fromkeys(lines)))

    return rewrite_launches(func, jammed)


def _rows(loop: S.For, views: set[E.Var]) -> _Rows | None:
    """The loop over rows that ``loop`` is, else None."""
    inner = loop.body
    total = trip_count(loop)
    steps_by_one = isinstance(loop.step, E.Const) and loop.step.value == 1 and loop.kind == "serial"
    if loop.annotations or not steps_by_one or not isinstance(inner, S.For) or not total:
        return None
    count = next((n for n in (ROWS, ROWS // 2, ROWS // 4) if total % n == 0), 1)
    body = S.flat(inner.body)
    simple = all(isinstance(stmt, (S.Let, S.Store)) for stmt in body) and len(body) <= LARGEST
    if count == 1 or "parallel" not in dict(inner.annotations) or not (simple and body):
        return None
    store = body[-1]
    if not isinstance(store, S.Store) or not facts_of(inner).quiet:
        return None
    if sum(isinstance(stmt, S.Store) for stmt in body) > 1:
        return None
    rows = _Rows(loop, inner, body, store, count)
    return rows if store.buffer.data not in views and rows.fit() else None


class _Rows:
    """A loop over rows, that over the elements of one, its statements, the store among them, and
    how many rows to take at a time."""

    def __init__(
        self, loop: S.For, inner: S.For, body: tuple[S.Stmt, ...], store: S.Store, count: int
    ) -> None:
        self.loop, self.inner, self.body, self.store, self.count = loop, inner, body, store, count

    def fit(self) -> bool:
        """Whether each row works on the same elements of a tile, and on nothing else of it."""
        buffer, names = self.store.buffer, {self.loop.var}
        names |= {stmt.var for stmt in self.body if isinstance(stmt, S.Let)}
        if buffer.storage == "global" or buffer.is_var or buffer.dtype.bits < 8:
            return False
        bounds = {*self.inner.start.variables, *self.inner.stop.variables}
        if any(not names.isdisjoint(index.variables) for index in self.store.indices):
            return False
        if self.loop.var in bounds or E.holds(self.inner.stop, E.Load):
            return False
        reads = any(buffer.data in effects.used(x) for stmt in self.body for x in stmt.exprs())
        return reads and uses_only(self.store, *self.body)

    def jammed(self) -> S.Stmt:
        """The loop with several rows in each iteration."""
        indices, buffer = self.store.indices, self.store.buffer
        cell = Buffer(buffer.name, Shape((1,)), buffer.dtype, "local.var")
        start = S.Alloc(buffer=cell, init=E.Load(buffer, indices), loc=self.store.loc)
        body: list[S.Stmt] = [start]
        for row in range(self.count):
            row_index = self.loop.start + self.loop.var * self.count + row
            body += _Element(buffer, cell, {self.loop.var: row_index}).copies(self.body)
        body.append(replace(self.store, value=E.Load(cell, ZERO)))
        inner = replace(self.inner, body=S.seq(*body))
        stop = E.const((trip_count(self.loop) or 0) // self.count, self.loop.var.dtype)
        zero = E.const(0, self.loop.var.dtype)
        return replace(self.loop, start=zero, stop=stop, body=inner)


class _Element(Rewriter):
    """Statements of one row, with a variable for the element of the tile."""

    def __init__(self, buffer: Buffer, cell: Buffer, names: dict[E.Var, E.Expr]) -> None:
        self.tile, self.cell, self.names = buffer, cell, names

    def copies(self, body: tuple[S.Stmt, ...]) -> list[S.Stmt]:
        """``body`` with names of its own."""
        renamed: list[S.Stmt] = []
        for stmt in body:
            rewritten = self.rewrite(stmt)
            if isinstance(rewritten, S.Let):
                var = E.Var(rewritten.var.name, rewritten.var.dtype)
                self.names = {**self.names, rewritten.var: var}
                rewritten = replace(rewritten, var=var)
            renamed.append(rewritten)
        return renamed

    def expr(self, expr: E.Expr) -> E.Expr:
        return self.loaded(substitute(expr, self.names))

    def loaded(self, expr: E.Expr) -> E.Expr:
        """``expr`` with the variable for loads of the tile."""
        if not E.holds(expr, E.Load):
            return expr
        if isinstance(expr, E.Load) and expr.buffer.data is self.tile.data:
            return E.Load(self.cell, ZERO)
        return rebuild(expr, self.loaded)

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        if isinstance(stmt, S.Store) and stmt.buffer.data is self.tile.data:
            return replace(stmt, buffer=self.cell, indices=ZERO)
        return stmt
