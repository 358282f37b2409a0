"""Lanes: how an expression changes between neighbouring values of a variable.

A vector access needs indices that count up by one from lane to lane, and a test that all lanes
share needs a condition with one value. Both follow from how the lanes depend on the variable: they
begin at a multiple of their number, so that quotients, masks and comparisons at multiples of it say
the same for all of them.
"""

from __future__ import annotations

from math import gcd

from tilelang.ir import expr as E
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.visitor import substitute

_FAR = 1 << 62  # what a constant is known modulo


class Lanes:
    """``count`` lanes of ``var``, from a multiple of their number on."""

    def __init__(self, var: E.Var, count: int, bounds: Bounds) -> None:
        self.var, self.count, self.bounds = var, count, bounds
        vector = E.Var(f"{var.name}_vector", var.dtype)
        self.values: dict[E.Var, E.Expr] = {var: E.binary("mul", vector, E.const(count))}
        self.steps: dict[E.Expr, int | None] = {var: 1}

    def first(self, expr: E.Expr) -> E.Expr:
        """``expr`` in the first lane."""
        return substitute(expr, self.values)

    def step(self, expr: E.Expr) -> int | None:
        """What is added to ``expr`` from each lane to the next; None where that is no constant, or
        not known. Integers that become wider are taken as exact, which indices are."""
        if self.var not in expr.variables:
            return 0
        if expr not in self.steps:
            self.steps[expr] = self._step(expr)
        return self.steps[expr]

    def agree(self, cond: E.Expr) -> bool:
        """Whether ``cond`` has one value in all lanes."""
        return self.step(cond) == 0

    def _step(self, expr: E.Expr) -> int | None:
        steps = [self.step(child) for child in expr.children()]
        if not any(step != 0 for step in steps):
            return 0
        if isinstance(expr, E.Binary) and expr.a.dtype.is_integer:
            a, b = steps
            return None if a is None or b is None else self._of_integers(expr, a, b)
        if isinstance(expr, E.Select) and expr.dtype.is_integer:
            return steps[1] if steps[0] == 0 and steps[1] == steps[2] else None
        if isinstance(expr, E.Cast) and expr.dtype.is_int and expr.value.dtype.is_int:
            return steps[0] if expr.dtype.bits >= expr.value.dtype.bits else None
        return None

    def _of_integers(self, expr: E.Binary, a: int, b: int) -> int | None:
        """The step of ``expr`` for those of its operands, of which one is not 0."""
        n = int(expr.b.value) if isinstance(expr.b, E.Const) else 0
        low = n & -n  # the lowest bit of a mask
        match expr.op:
            case "add" | "sub":
                return a + b if expr.op == "add" else a - b
            case "mul" if n:
                return a * n
            case "mul" if isinstance(expr.a, E.Const):
                return b * int(expr.a.value)
            case "min" | "max" if a == b:
                return a
            case "lt" | "ge" | "le" | "gt" if expr.a.dtype.is_int:
                # a - b is negative where (a - b) // m is, for any m: for one by which it is known.
                gap = expr.a - expr.b - int(expr.op in ("le", "gt"))
                return 0 if a == b or self._is_within(gap, a - b, 0) else None
            case "floordiv" | "shr" if n > 0:
                n = 1 << n if expr.op == "shr" else n
                return a // n if a % n == 0 else self._if_within(0, expr.a, a, n)
            case "floormod" if n > 0:
                return 0 if a % n == 0 else self._if_within(a, expr.a, a, n)
            case "bitand" if n > 0 and n & (n + 1) == 0:
                return 0 if a % (n + 1) == 0 else self._if_within(a, expr.a, a, n + 1)
            case "bitand" | "bitor" | "bitxor" if n:
                return self._if_within(0 if expr.op == "bitand" else a, expr.a, a, low)
        return None

    def _if_within(self, result: int, expr: E.Expr, step: int, block: int) -> int | None:
        return result if self._is_within(expr, step, block) else None

    def _is_within(self, expr: E.Expr, step: int, block: int) -> bool:
        """Whether the values of all lanes are in one block of numbers from a multiple of ``block``
        on; for 0, from a multiple of what ``expr`` is known by."""
        modulus, remainder = interval(self.first(expr), self.bounds).congruence()
        size = gcd(modulus, block) or _FAR
        return 0 <= remainder % size + step * (self.count - 1) < size
