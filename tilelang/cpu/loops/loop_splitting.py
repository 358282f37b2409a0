"""Loop splitting: a flat loop becomes a nest of rows, and a loop over borders its pieces.

``for t in T.Parallel(2048): d = t % 64; h = t // 64 % 8`` is a loop over rows of 64 elements: with
``t = row * 64 + d`` quotients and remainders are those of the row, once for all of its elements,
and indices move on by a constant. ``d + 32 if d < 32 else d - 32`` is one sum below 32 and another
one from there on: a loop over each of the two pieces has no condition, where a condition would
stand between the loads of a vector. Iterations keep their order.

Quotients of ``t + rest`` by ``n`` change where that is a multiple of ``n``, so all that has to be
known of ``rest`` is its remainder. Only loops over neighbouring elements are split, which become
vectors; what a piece knows of its variable, ``simplify`` puts to use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import gcd

from tilelang.cpu.loops.vectorization import is_position
from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.bounds import interval
from tilelang.ir.facts import known_of
from tilelang.ir.hints import LoopHints
from tilelang.ir.linear import parted
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import BINARY
from tilelang.ir.visitor import inline_lets, substitute_in
from tilelang.target import Context
from tilelang.transforms.analysis.loops import steps_by_one, trip_count
from tilelang.transforms.normalize.simplify import SimplifyWalk

SHORTEST = 16  # iterations of a row that are worth a loop of their own
MOST = 3  # indices at which a loop is split


def split_loops(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with loops over elements as rows and pieces."""
    walk = _Splitter(known_of(func), frozenset(effects.written(func.body)))
    return func.with_body(walk.visit(func.body))


class _Splitter(SimplifyWalk):
    splits = False  # whether what is visited is part of a loop that was split

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        made = super().visit(stmt)
        if isinstance(made, S.For) and made.kind == "serial" and steps_by_one(made):
            if made.hints.parallel is not None and not made.hints.threads and trip_count(made):
                return made if S.holds(made.body, S.For, S.While) else self.split(made)
        return made

    def expr(self, expr: E.Expr) -> E.Expr:
        return super().expr(expr) if self.splits else expr

    def split(self, loop: S.For) -> S.Stmt:
        """A loop over elements as rows or pieces, if it has any."""
        first, count, var = int(loop.start), trip_count(loop) or 0, loop.var
        body = inline_lets(loop.body, is_position)
        cuts = {at for at in self.borders(body, var) if first < at < first + count}
        rows, outer = 0, (self.known, self.splits)
        for size, offset in sorted({*self.periods(body, var)}, reverse=True):
            starts = {*range(first + (offset - first) % size, first + count, size)} - {first}
            if len(starts) == 1:
                cuts |= starts
                break
            if starts and offset == first == 0 == count % size:
                rows = size
                break
        self.splits = True
        if rows:
            result = self.nest(loop, body, rows, count)
        elif 0 < len(cuts) <= MOST:
            ends = pairwise((first, *sorted(cuts), first + count))
            result = S.seq(*(self.piece(loop, body, *of) for of in ends))
        else:
            result = loop
        self.known, self.splits = outer
        return result

    def nest(self, loop: S.For, body: S.Stmt, size: int, count: int) -> S.Stmt:
        """``loop`` over rows of ``size`` elements."""
        row, at = (E.Var(name, loop.var.dtype) for name in (f"{loop.var.name}_row", loop.var.name))
        self.known = self.known.with_range(row, 0, count // size).with_range(at, 0, size)
        hints = LoopHints(parallel=(loop.hints.parallel or 0) + 1)
        body = substitute_in(body, {loop.var: row * size + at})
        inner = S.counted(at, size, body, hints=hints, loc=loop.loc)
        return self.visit(replace(loop, var=row, stop=E.const(count // size), body=inner))

    def piece(self, loop: S.For, body: S.Stmt, start: int, stop: int) -> S.Stmt:
        """The iterations of ``loop`` from ``start`` on and below ``stop``."""
        var = E.Var(loop.var.name, loop.var.dtype)
        self.known = self.known.with_range(var, start, stop)
        body, first, end = substitute_in(body, {loop.var: var}), E.const(start), E.const(stop)
        return self.visit(replace(loop, var=var, start=first, stop=end, body=body))

    def periods(self, body: S.Stmt, var: E.Var) -> Iterator[tuple[int, int]]:
        """After how many iterations quotients change, if that is a row, and a first one where
        they do."""
        for node in _nodes(body):
            if not isinstance(node, E.Binary) or node.op not in ("floordiv", "floormod"):
                continue
            form = parted(node.a, frozenset((var,)))
            step = form[0].factor(var) if form is not None else 0
            if form is None or step <= 0 or not isinstance(node.b, E.Const):
                continue
            modulus, rest = interval(form[1], self.known).congruence()
            size = gcd(modulus, int(node.b.value))
            if size >= SHORTEST * step and size % step == 0:
                yield size // step, -(rest // step) % (size // step)

    def borders(self, body: S.Stmt, var: E.Var) -> Iterator[int]:
        """Iterations from which on a condition between accesses is another one."""
        for cond in _conditions(body):
            form = parted(E.binary("sub", cond.a, cond.b), frozenset((var,)))
            if form is None or not (step := form[0].factor(var)):
                continue
            rest = simplify(form[1], self.known)
            if isinstance(rest, E.Const):
                for past in {"lt": (0,), "ge": (0,), "le": (1,), "gt": (1,)}.get(cond.op, (0, 1)):
                    start = int(rest.value) - past  # of values below 0, or of those that are not
                    yield -(start // step) if step > 0 else start // -step + 1


def _nodes(body: S.Stmt) -> Iterator[E.Expr]:
    for stmt in S.walk(body):
        for expr in stmt.exprs():
            yield from E.walk(expr)


def _conditions(body: S.Stmt) -> Iterator[E.Binary]:
    """Comparisons of integers that decide which memory is accessed."""
    tests = [stmt.cond for stmt in S.find(body, S.If)]
    for node in _nodes(body):
        if isinstance(node, E.Select):
            if node.dtype.is_int or E.holds(node.t, E.Load) or E.holds(node.f, E.Load):
                tests.append(node.cond)
        elif isinstance(node, E.Binary) and node.op in ("min", "max") and node.dtype.is_int:
            yield node
    for test in tests:
        for part in E.find(test, E.Binary):
            if BINARY[part.op].compares and part.a.dtype.is_int:
                yield part
