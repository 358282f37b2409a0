"""Lanes: how an expression changes between neighbouring values of a variable.

A vector access needs the memory offset of each lane from the first. A test that all lanes share
needs a condition that has one value for all of them. Both follow from how expressions depend on the
variable. The first lane is at a multiple of the lane count, so quotients by that count, masks and
comparisons with its multiples have one value for all lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.fold import INT_OPS
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass

_FAR = 1 << 62  # what a constant is known modulo
Offsets = tuple[int, ...]


@dataclass(frozen=True)
class Chunk:
    """Lanes ``start`` to ``start + count`` of a lane loop; ``known`` remembers simple forms."""

    lane: E.Var
    start: int
    count: int
    known: Bounds

    def at(self, expr: E.Expr, lane: int = 0) -> E.Expr:
        """``expr`` for the first lane, or another."""
        return simplify(substitute(expr, {self.lane: E.const(self.start + lane)}), self.known)

    def begin(self, at: E.Load | S.Store, start: int) -> tuple[E.Expr, ...]:
        """Where a vector begins that does so ``start`` elements past the first lane's, along the
        last dimension of more than one element."""
        indices = [*map(self.at, at.indices)]
        constants = [extent if isinstance(extent, int) else 0 for extent in at.buffer.shape]
        along = max((dim for dim, extent in enumerate(constants) if extent != 1), default=-1)
        indices[along] = simplify(indices[along] + start, self.known)
        return tuple(indices)

    def parts(self, count: int) -> Iterator[Chunk]:
        """The chunk in parts of ``count`` lanes."""
        for start in range(self.start, self.start + self.count, count):
            yield Chunk(self.lane, start, count, self.known)


class Lanes:
    """``count`` lanes of ``var``, from a multiple of their number on."""

    def __init__(self, var: E.Var, count: int, bounds: Bounds) -> None:
        self.var, self.count, self.bounds = var, count, bounds
        vector = E.Var(f"{var.name}_vector", var.dtype)
        self.values: dict[E.Var, E.Expr] = {var: E.binary("mul", vector, E.const(count))}
        self.same: Offsets = (0,) * count
        self.known: dict[E.Expr, Offsets | None] = {var: tuple(range(count))}

    def first(self, expr: E.Expr) -> E.Expr:
        """``expr`` in the first lane."""
        return substitute(expr, self.values)

    def offsets(self, expr: E.Expr) -> Offsets | None:
        """The value of ``expr`` in each lane less that in the first; None where that is no
        constant, or not known. Integers that become wider are taken as exact, which indices are."""
        if self.var not in expr.variables:
            return self.same
        if expr not in self.known:
            self.known[expr] = self._offsets(expr)
        return self.known[expr]

    def is_uniform(self, cond: E.Expr) -> bool:
        """Whether ``cond`` has one value in all lanes."""
        return self.offsets(cond) == self.same

    def _offsets(self, expr: E.Expr) -> Offsets | None:
        parts = [self.offsets(child) for child in expr.children()]
        if all(part == self.same for part in parts):
            return self.same
        if isinstance(expr, E.Binary) and expr.a.dtype.is_integer:
            a, b = parts
            return None if a is None or b is None else self._integer_offsets(expr, a, b)
        if isinstance(expr, E.Select) and expr.dtype.is_integer:
            is_equal = parts[0] == self.same and parts[1] == parts[2]
            return parts[1] if is_equal else self._select_offsets(expr, parts[1], parts[2])
        if isinstance(expr, E.Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
            return parts[0] if expr.dtype.bits >= expr.value.dtype.bits else None
        return None

    def _select_offsets(
        self, expr: E.Select, t: Offsets | None, f: Offsets | None
    ) -> Offsets | None:
        """The offsets of a choice whose condition is known in each lane."""
        gap, vector = simplify(self.first(expr.f - expr.t), self.bounds), self.values[self.var]
        lanes = (substitute(expr.cond, {self.var: vector + k}) for k in range(self.count))
        conds = [c for lane in lanes if isinstance(c := simplify(lane, self.bounds), E.Const)]
        if t is None or f is None or not isinstance(gap, E.Const) or len(conds) < self.count:
            return None
        ahead = [a if c.value else b + int(gap.value) for c, a, b in zip(conds, t, f)]
        return tuple([each - ahead[0] for each in ahead])

    def _integer_offsets(self, expr: E.Binary, a: Offsets, b: Offsets) -> Offsets | None:
        """The offsets of ``expr`` for those of its operands, of which one is not the same."""
        n = int(expr.b.value) if isinstance(expr.b, E.Const) else 0
        match expr.op:
            case "add" | "sub":
                return tuple(map(INT_OPS[expr.op], a, b))
            case "mul" if n:
                return tuple(each * n for each in a)
            case "mul" if isinstance(expr.a, E.Const):
                return tuple(each * int(expr.a.value) for each in b)
            case "min" | "max" if a == b:
                return a
            case "lt" | "ge" | "le" | "gt" if expr.a.dtype.is_int:
                # a - b is negative where (a - b) // m is, for any m: for one by which it is known.
                gap = expr.a - expr.b - int(expr.op in ("le", "gt"))
                modulus, remainder = interval(self.first(gap), self.bounds).congruence()
                size = modulus or _FAR
                ends = [remainder % size + x - y for x, y in zip(a, b)]
                return self.same if a == b or 0 <= min(ends) <= max(ends) < size else None
            case "shr" | "floordiv" | "floormod" if n > 0:
                return self._by_number(expr, a, 1 << n if expr.op == "shr" else n, n)
            case "bitand" | "bitor" | "bitxor" if n:
                return self._by_number(expr, a, 1 << max(n, ~n).bit_length(), n)
        return None

    def _by_number(self, expr: E.Binary, offsets: Offsets, period: int, n: int) -> Offsets | None:
        """Quotients, remainders and masks: what they add for a multiple of their period, or of a
        smaller block that holds all lanes, is the same for all that comes on top of it."""
        modulus, start = interval(self.first(expr.a), self.bounds).congruence()
        if all(each % period == 0 for each in offsets):
            start = 0
        elif modulus % period:
            block = gcd(modulus, period)
            start %= block
            if start + min(offsets) < 0 or start + max(offsets) >= block:
                return None
        fn = INT_OPS[expr.op]
        return tuple(fn(start + each, n) - fn(start, n) for each in offsets)
