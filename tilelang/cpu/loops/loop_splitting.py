"""Loop splitting: a flat loop becomes a nest of rows, and a loop over borders its pieces.

``for t in T.Parallel(2048): d = t % 64; h = t // 64 % 8`` is a loop over rows of 64 elements. With
``t = row * 64 + d``, quotients and remainders are computed once per row, and indices advance by a
constant. ``d + 32 if d < 32 else d - 32`` has one form below 32 and another from 32 on. A loop over
each of the two pieces needs no condition, which would prevent vector loads. So does ``abs(d - 3)``,
which is ``3 - d`` below 3. Where a row of a tensor ends within a tile, so does a piece. Where a
window of an inner loop crosses a border for a few iterations only, these are a piece. Iterations
keep their order; a reduction has pieces, too.

Quotients of ``t + rest`` by ``n`` change at multiples of ``n``, so only the remainder of ``rest``
must be known. Where it is not known (a block of 256 pixels in rows of 56), the outer loop runs over
the rows that the block touches and the inner loop over its part of the row. Only loops over
adjacent elements are split, since only these are vectorized. ``simplify`` uses the narrower range
of the variable in each piece.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import gcd
from typing import NamedTuple

from tilelang.cpu.loops.plain_updates import plain_updates
from tilelang.cpu.loops.vectorization import FEWEST, is_position
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.facts import known_of
from tilelang.ir.hints import LoopHints
from tilelang.ir.intervals import full
from tilelang.ir.linear import parted
from tilelang.ir.prover import decide
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import inline_lets, map_exprs, replace_nodes, substitute_in
from tilelang.target import Context
from tilelang.transforms.analysis.borders import conditions, edges, nodes_of
from tilelang.transforms.analysis.loops import steps_by_one, trip_count
from tilelang.transforms.normalize.simplify import SimplifyWalk

SHORTEST = 16  # iterations of a row that justify a separate loop
MOST = 3  # indices at which a loop is split


def split_loops(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with plain updates in loops, and loops over elements as rows and pieces."""
    func = plain_updates(func)
    walk = _Splitter(known_of(func), frozenset(effects.written(func.body)))
    return func.with_body(walk.visit(func.body))


class _Row(NamedTuple):
    """Quotients change every ``size`` iterations, in ``first`` and so on.

    Attributes:
        period: after how many the quotient itself changes, a multiple of ``size``.
        rest: what is added to the variable, where that makes the first row a part of one.
    """

    size: int
    first: int
    period: int
    rest: E.Expr | None


class _Splitter(SimplifyWalk):
    splits = False  # whether what is visited is part of a loop that was split
    used: frozenset[int] = frozenset()  # the iterations at which it was

    def visit(self, stmt: S.Stmt) -> S.Stmt:
        loop = super().visit(stmt)
        if not isinstance(loop, S.For) or loop.kind != "serial" or not steps_by_one(loop):
            return loop
        if loop.hints.threads or trip_count(loop) == 0:
            return loop
        inner = S.find(loop.body, S.For, S.While)
        is_last = bool(loop.hints.reduction) and not inner and trip_count(loop) is not None
        if loop.hints.parallel is not None:
            is_last = all(isinstance(n, S.For) and n.hints.parallel is None for n in inner)
        return self.split(loop) if is_last else loop

    def expr(self, expr: E.Expr) -> E.Expr:
        return super().expr(expr) if self.splits else expr

    def split(self, loop: S.For) -> S.Stmt:
        """A loop over elements as rows or pieces, if it has any."""
        var, count = loop.var, trip_count(loop) or 0
        outer = (self.known, self.splits, self.used)
        known = self.known = self.known.with_range(var, loop.start, loop.stop)
        body = inline_lets(loop.body, is_position)
        signed = _with_signs(body, var, known)
        cuts = {
            at for at in self.borders(signed, var, count) if at not in self.used
            and decide("gt", E.const(at), loop.start, known) is not False
            and decide("lt", E.const(at), loop.stop, known) is not False
        }  # fmt: skip
        are_rows = loop.hints.parallel is not None and count  # a total is of pieces only
        rows = sorted(self.rows(body, var) if are_rows else (), key=lambda row: -row.size)
        ragged = [(row.period, row.rest) for row in rows if row.rest is not None]
        nested: tuple[int, E.Expr] | None = None
        for row in rows:
            first = int(loop.start)
            starts = {*range(first + (row.first - first) % row.size, first + count, row.size)}
            if row.size >= SHORTEST and len(starts - {first}) == 1:
                cuts |= starts - {first}
                break
            if first in starts and count % row.size == 0 and SHORTEST <= row.size < count:
                if row.size == row.period or not ragged:
                    nested = row.size, E.const(-first, var.dtype)
                    break
        if nested is None and ragged and not cuts:
            nested = min(ragged, key=lambda piece: piece[0])
        result: S.Stmt = replace(loop, body=signed) if self.splits else loop
        self.splits = True
        if nested is not None:
            result = self.nest(loop, body, *nested, count)
        elif 0 < len(cuts) <= MOST:
            self.used = self.used | cuts
            ends = pairwise((loop.start, *map(E.const, sorted(cuts)), loop.stop))
            result = S.seq(*(self.piece(loop, signed, *piece) for piece in ends))
        self.known, self.splits, self.used = outer
        return result

    def nest(self, loop: S.For, body: S.Stmt, size: int, rest: E.Expr, count: int) -> S.Stmt:
        """``loop`` over its parts of rows of ``size`` elements, which are those of the variable
        plus ``rest``."""
        row, at = (E.Var(name, loop.var.dtype) for name in (f"{loop.var.name}_row", loop.var.name))
        low = simplify(rest + loop.start, self.known)
        begin, end = low // size, (low + (count - 1)) // size + 1
        self.known = self.known.with_range(row, begin, end).with_range(at, 0, size)
        ahead = low - row * size
        inner = replace(
            loop, var=at, start=E.binary("max", ahead, E.const(0)),
            stop=E.binary("min", ahead + count, E.const(size)),
            body=substitute_in(body, {loop.var: row * size + at - rest}),
            hints=LoopHints(parallel=(loop.hints.parallel or 0) + 1),
        )  # fmt: skip
        return self.visit(replace(loop, var=row, start=begin, stop=end, body=inner))

    def piece(self, loop: S.For, body: S.Stmt, start: E.Expr, stop: E.Expr) -> S.Stmt:
        """The iterations of ``loop`` from ``start`` on and below ``stop``."""
        var = E.Var(loop.var.name, loop.var.dtype)
        first = simplify(E.binary("max", start, loop.start), self.known)
        end = simplify(E.binary("min", stop, loop.stop), self.known)
        self.known = self.known.with_range(var, first, end)
        body, inside = substitute_in(body, {loop.var: var}), self.known.of(var)
        piece = replace(loop, var=var, start=first, stop=end, body=body)
        if trip_count(piece) is None and inside.high - inside.low + 1 < FEWEST:
            piece = replace(piece, kind="unroll", hints=LoopHints())
        return inline_lets(self.visit(piece), is_position)

    def rows(self, body: S.Stmt, var: E.Var) -> Iterator[_Row]:
        """After how many iterations quotients change, if those of one are a row."""
        for node in nodes_of(body):
            if not isinstance(node, E.Binary) or node.op not in ("floordiv", "floormod"):
                continue
            form = parted(node.a, frozenset((var,)))
            step = form[0].factor(var) if form is not None else 0
            if form is None or step <= 0 or not isinstance(node.b, E.Const):
                continue
            modulus, past = interval(rest := form[1], self.known).congruence()
            size, period = gcd(modulus, int(node.b.value)), int(node.b.value)
            if period < SHORTEST * step or size % step:
                continue
            size, period = size // step, period // step
            is_part = step == 1 and size < period and rest.dtype == var.dtype
            varies = S.bound(body) | effects.written(body)
            is_part = is_part and varies.isdisjoint(rest.variables | effects.used(rest))
            yield _Row(size, -(past // step) % size, period, rest if is_part else None)

    def borders(self, body: S.Stmt, var: E.Var, count: int) -> Iterator[int]:
        """Iterations from which on a condition between accesses is another one, and those from
        which on it is for all iterations of the loops in the body, if these are few."""
        loops = [loop for loop in S.find(body, S.For) if steps_by_one(loop)]
        known = self.known.with_ranges((loop.var, loop.start, loop.stop, 1) for loop in loops)
        inner = {loop.var for loop in loops}
        for cond in (*conditions(body), *edges(body)):
            form = parted(simplify(cond.a - cond.b, known), frozenset((var,)))
            if form is None or not (step := form[0].factor(var)):
                continue
            rest = simplify(form[1], known)
            values = interval(rest, known)
            few = 2 * (values.high - values.low) <= abs(step) * count
            if not inner.issuperset(rest.variables) or not few:
                continue
            for past in {"lt": (0,), "ge": (0,), "le": (1,), "gt": (1,)}.get(cond.op, (0, 1)):
                for end in (values.low, values.high):
                    start = int(end) - past  # of values below 0, or of those that are not
                    yield -(start // step) if step > 0 else start // -step + 1


def _with_signs(body: S.Stmt, var: E.Var, known: Bounds) -> S.Stmt:
    """``body`` with the absolute values of sums of ``var`` as choices between two signs, where no
    operation wraps: a comparison is one of exact integers."""
    choices: dict[E.Expr, E.Expr] = {}
    for node in nodes_of(body):
        if isinstance(node, E.Call) and node.op == "abs" and var in node.variables:
            parts = list(E.walk(at := node.args[0])) if is_position(node.args[0]) else []
            if parts and all(interval(x, known).low != full(x.dtype).low for x in parts):
                choices[node] = at if interval(at, known).low >= 0 else E.select(at < 0, -at, at)
    return map_exprs(body, lambda expr: replace_nodes(expr, choices))
