"""Division by an invariant: one reciprocal for many divisions, with the same results.

A float32 division is a reciprocal, its refinement and a branch to a slow path, so that divisions do
not overlap. Where a loop nest divides by an invariant ``b``, its correctly rounded reciprocal ``y``
is computed once. A quotient is then ``q - (b * q - a) * y`` with ``q = a * y``: one product and two
fused multiply-adds, and those of different quotients overlap.

It is the correctly rounded quotient. Let ``a`` and ``b`` be whole numbers of 24 bits, and
``1 <= b < 2`` by their places. ``q`` is off by less than 1.5 units in its last place, so that
``b * q - a`` has at most 25 bits and is rounded by half a unit of 2^-47 if at all; what is rounded
last is then off from ``a / b`` by less than 2.5 * 2^-48. A quotient is never halfway between two
neighbours. It is ``k / (2^25 * b)`` away from such a number, or twice that, where the remainder
``k`` of ``a * 2^s - b * m`` (``s`` 24 or 25) is an integer other than 0. So only ``|k| < 6`` needs
a check. All 907 million pairs with ``|k| <= 40`` and ``b`` other than a power of two (by which
products are exact) were divided both ways: no result differs. (Where ``q`` is off by at most one
unit, as most are, it is Markstein's theorem.) The tests repeat a sample.

No step leaves the normal numbers while ``b`` is in ``[2^-24, 2^24]`` and ``|a|`` in
``[2^-100, 2^100]``: ``q`` and ``y`` are normal, and the lowest bit of ``b * q`` is at least that of
the least number. Zeros keep their sign: ``b`` is above 0, and ``b * q - a`` is +0. The nest first
tests all operands. If one is outside of these ranges, infinite or NaN, it divides as written.

Runs after lanes have been packed, on loops over registers in their final form.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, Shape
from tilelang.ir.dtypes import dtype
from tilelang.ir.linear import parted
from tilelang.ir.tables import HALF2_STORE
from tilelang.ir.visitor import map_exprs, rebuild, substitute_in
from tilelang.transforms.analysis.loops import UNROLLED, trip_count
from tilelang.transforms.lower.context import HIDDEN
from tilelang.transforms.rules import Cursor, rule

FEWEST = 8  # divisions for which the reciprocal and the look at all operands pay
NEAR = 24  # a divisor is within 2^-24 and 2^24
FAR = 100  # a dividend is 0 or within 2^-100 and 2^100
FLOAT, WORD = dtype("float32"), dtype("uint32")
# Twice the bits of the least dividend, minus one: below it are smaller ones, and zeros above all.
LEAST = 2 * (127 - FAR << 23) - 1


@rule(S.For, needs="division_branches", where=lambda _, context: not context.options.fast_math)
def divide_by_reciprocals(loop: S.For, cursor: Cursor) -> S.Stmt:
    """Divide by an invariant through one reciprocal, with the same results.

    The nests are the outermost ones that have one divisor.
    """
    nest = _Nest.of(loop) if loop.kind in UNROLLED else None
    if nest is None:
        return loop
    outer = cursor.around[-2]
    return loop if isinstance(outer, S.For) and _Nest.of(outer) is not None else nest.both_ways()


class _Nest:
    """Loops over one statement that divides ``dividends`` by ``divisor``."""

    def __init__(self, loops: list[S.For], last: S.Stmt, divisions: list[E.Binary]) -> None:
        self.loops = loops
        self.last = last
        self.divisor = divisions[0].b
        self.dividends = tuple(dict.fromkeys(division.a for division in divisions))

    @classmethod
    def of(cls, stmt: S.For) -> _Nest | None:
        """The nest from ``stmt`` on; None where it is none, or has not enough divisions."""
        loops, count, last = [], 1, stmt
        while isinstance(last, S.For):
            trips = trip_count(last)
            if last.kind not in UNROLLED or not trips:
                return None
            loops.append(last)
            count *= trips
            last = last.body  # type: ignore[assignment]  # narrowed by the condition
        if not isinstance(last, (S.Store, S.Eval)):
            return None
        nodes = (node for e in effects.expressions(last) for node in E.find(e, E.Binary))
        divisions = list(filter(_divides, nodes))
        if not divisions or any(division.b is not divisions[0].b for division in divisions):
            return None
        nest = cls(loops, last, divisions)
        return nest if count * len(nest.dividends) >= FEWEST and nest.is_free() else None

    def is_free(self) -> bool:
        """Whether the divisor is the same in all iterations, no iteration changes the dividends of
        another, and nothing synchronizes threads, because they may diverge here."""
        exprs = effects.expressions(self.last)
        if not all(_is_alone(call) for expr in exprs for call in E.find(expr, E.Call)):
            return False
        variables = {loop.var for loop in self.loops}
        written = effects.written(self.last)
        known = isinstance(self.divisor, E.Const) or self.divisor.variables & variables
        if known or not _is_plain(self.divisor) or effects.used(self.divisor) & written:
            return False
        for dividend in self.dividends:
            loads = E.find(dividend, E.Load)
            if not _is_plain(dividend) or any(load.buffer.storage != "local" for load in loads):
                return False
            for load in loads:
                if load.buffer.data in written and not self.is_own(load):
                    return False
        return True

    def is_own(self, load: E.Load) -> bool:
        """Whether ``load`` is of the element that its iteration stores, and no other one does."""
        store = self.last
        if not isinstance(store, S.Store) or store.buffer is not load.buffer:
            return False
        if not E.are_same_exprs(store.indices, load.indices) or len(load.indices) != 1:
            return False
        sizes = {loop.var: trip_count(loop) or 0 for loop in self.loops}
        split = parted(load.indices[0], frozenset(sizes))
        if split is None or any(int(loop.step) != 1 for loop in self.loops):
            return False
        reach = 0
        for factor, size in sorted((abs(split[0].factor(var)), n) for var, n in sizes.items()):
            if factor <= reach and size > 1:
                return False
            reach += factor * (size - 1)
        return True

    def both_ways(self) -> S.Stmt:
        """The nest by the reciprocal, where all operands allow it, or as it was."""
        loc = self.last.loc
        divisor, inverse = E.Var("divisor", FLOAT), E.Var("inverse", FLOAT)
        least = Buffer("least", Shape((1,)), WORD, "local", attrs=HIDDEN)
        total = Buffer("total", Shape((1,)), FLOAT, "local", attrs=HIDDEN)
        at = (E.const(0),)
        low, high = E.Load(least, at), E.Load(total, at)
        seen: list[S.Stmt] = []
        for a in self.dividends:
            bits = E.call("reinterpret", a, dtype=WORD) * E.const(2, WORD) - E.const(1, WORD)
            seen.append(
                S.Store(buffer=least, indices=at, value=E.binary("min", low, bits), loc=loc)
            )
            seen.append(S.Store(buffer=total, indices=at, value=high + E.call("abs", a), loc=loc))
        fits = E.conjunction((
            low >= E.const(LEAST, WORD),
            high <= E.const(2.0**FAR, FLOAT),  # no infinity, no NaN
            divisor >= E.const(2.0**-NEAR, FLOAT),
            divisor <= E.const(2.0**NEAR, FLOAT),
        ))  # fmt: skip

        def quotient(expr: E.Expr) -> E.Expr:
            if not isinstance(expr, E.Binary) or not _divides(expr) or expr.b is not self.divisor:
                return rebuild(expr, quotient)
            first = expr.a * inverse
            return E.call("fma", -E.call("fma", divisor, first, -expr.a), inverse, first)

        fast = map_exprs(self.last, quotient)
        return S.seq(
            S.Let(var=divisor, value=self.divisor, loc=loc),
            S.Let(var=inverse, value=E.const(1.0, FLOAT) / divisor, loc=loc),
            S.Alloc(buffer=least, loc=loc),
            S.Alloc(buffer=total, loc=loc),
            S.Store(buffer=least, indices=at, value=E.const(0xFFFFFFFF, WORD), loc=loc),
            S.Store(buffer=total, indices=at, value=E.const(0.0, FLOAT), loc=loc),
            self.around(S.seq(*seen)),
            S.If(cond=fits, then=self.around(fast), orelse=self.around(self.last), loc=loc),
        )

    def around(self, body: S.Stmt) -> S.Stmt:
        """The loops over ``body``, by names of their own: no two copies share one."""
        for loop in reversed(self.loops):
            var = E.Var(loop.var.name, loop.var.dtype)
            body = replace(loop, var=var, body=substitute_in(body, {loop.var: var}))
        return body


def _divides(expr: E.Expr) -> bool:
    return isinstance(expr, E.Binary) and expr.op == "div" and expr.dtype is FLOAT


def _is_alone(call: E.Call) -> bool:
    """Whether a thread does ``call`` by itself, without effect but on an array of its own."""
    atom = call.atom
    return atom is HALF2_STORE or (atom.effect is Effect.NONE and not atom.exchanges)


def _is_plain(expr: E.Expr) -> bool:
    """Whether ``expr`` has no effect and reads no memory."""
    return not E.find(expr, E.Call, E.Select)
