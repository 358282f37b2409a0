"""Rewrite rules of expression simplification, as data: a name, a pattern, a replacement.

A pattern is a nested tuple ``(op, operand, ...)`` with binary operator names of ``tables.BINARY``
or ``"lnot"``. An operand is a pattern or a name: ``c`` and ``d`` match positive integer constants,
``k`` and ``l`` any integer constants, every other name any expression; a name that occurs twice
must match the same expression. Operands of commutative operators match in both orders.

A replacement gets the :class:`Context` and the match and returns the new expression, or None where
the rule does not apply. Every rule keeps the *wrapped* value of the expression: one that is true
of unbounded integers only asks ``Context.exact`` first. The children of the matched node are
already simple.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from tilelang.ir.dtypes import max_value, min_value
from tilelang.ir.expr import Binary, Const, Expr, binary, const
from tilelang.ir.intervals import Interval
from tilelang.ir.linear import Linear
from tilelang.records import dataclass

Pattern: TypeAlias = "str | tuple[Any, ...]"
Match: TypeAlias = "dict[str, Expr]"


class Context(Protocol):
    """The interface of the engine to its rules."""

    def interval(self, expr: Expr) -> Interval:
        """The bounds of ``expr``."""

    def exact(self, form: Linear) -> Interval | None:
        """The interval of ``form`` over unbounded integers where its wrapped value is that very
        number, None where it may wrap."""

    def decide(self, op: str, a: Expr, b: Expr) -> bool | None:
        """The comparison ``a op b`` where it is decided."""

    def expr_of(self, form: Linear) -> Expr:
        """The canonical expression of ``form``."""


@dataclass(frozen=True)
class Rule:
    """``name`` appears in reports, ``pattern`` and ``result`` are described above."""

    name: str
    pattern: Pattern
    result: Callable[[Context, Match], Expr | None]


def _int(expr: Expr) -> int:
    return int(expr.value) if isinstance(expr, Const) else 0


def _fits(value: int, like: Expr) -> bool:
    return min_value(like.dtype) <= value <= max_value(like.dtype)


def _is_power_of_two(value: int) -> bool:
    return value & (value - 1) == 0


# -- division ------------------------------------------------------------------------------------
def _div_decided(ctx: Context, m: Match) -> Expr | None:
    bounds, n = ctx.interval(m["x"]), _int(m["c"])
    if bounds.is_known and bounds.low // n == bounds.high // n:
        return const(int(bounds.low // n), m["x"].dtype)
    return None


def _mod_decided(ctx: Context, m: Match) -> Expr | None:
    x, n = m["x"], _int(m["c"])
    bounds = ctx.interval(x)
    modulus, remainder = bounds.congruence()
    if modulus % n == 0:
        return const(remainder % n, x.dtype)
    if bounds.is_known and bounds.low // n == bounds.high // n:
        return ctx.expr_of(Linear.of(x).plus(-n * int(bounds.low // n)))
    return None


def _div_split(ctx: Context, m: Match) -> Expr | None:
    """``(8 * x + y) // 4 = 2 * x + y // 4``."""
    form, n = Linear.of(m["x"]), _int(m["c"])
    outside, inside = form.split(n)
    if not outside.terms and outside.constant == 0:
        return None
    if ctx.exact(form) is None or ctx.exact(inside) is None:
        return None
    low = binary("floordiv", ctx.expr_of(inside), m["c"])
    return ctx.expr_of(outside.divided(n).added(Linear.of(low), 1))


def _mod_split(ctx: Context, m: Match) -> Expr | None:
    """``(8 * x + y) % 4 = y % 4``."""
    form, n = Linear.of(m["x"]), _int(m["c"])
    outside, inside = form.split(n)
    if not outside.terms and outside.constant == 0:
        return None
    if not _is_power_of_two(n) and (ctx.exact(form) is None or ctx.exact(inside) is None):
        return None
    return binary("floormod", ctx.expr_of(inside), m["c"])


def _div_reduced(ctx: Context, m: Match) -> Expr | None:
    """``(4 * x + 5) // 8 = (x + 1) // 2``."""
    form, n = Linear.of(m["x"]), _int(m["c"])
    common = math.gcd(n, *(factor for _, factor in form.terms))
    if common == 1 or not form.terms:
        return None
    smaller = Linear(
        tuple((term, factor // common) for term, factor in form.terms),
        form.constant // common,
        form.dtype,
    )
    if ctx.exact(form) is None or ctx.exact(smaller) is None:
        return None
    return binary("floordiv", ctx.expr_of(smaller), const(n // common, form.dtype))


def _div_of_div(ctx: Context, m: Match) -> Expr | None:
    product = _int(m["c"]) * _int(m["d"])
    if not _fits(product, m["x"]):
        return None
    return binary("floordiv", m["x"], const(product, m["x"].dtype))


def _mod_of_mod(ctx: Context, m: Match) -> Expr | None:
    return binary("floormod", m["x"], m["d"]) if _int(m["c"]) % _int(m["d"]) == 0 else None


def _step(ctx: Context, form: Linear, n: int) -> tuple[Linear, Linear, int] | None:
    """``(x, y, step)`` where ``form`` is ``step * x + y``, ``0 <= y < step``, and n a multiple."""
    if len(form.terms) < 2 or ctx.exact(form) is None:
        return None
    for step in sorted({math.gcd(n, factor) for _, factor in form.terms} - {1}, reverse=True):
        outside, inside = form.split(step)
        rest = ctx.exact(inside)
        if outside.terms and inside.terms and rest and rest.low >= 0 and rest.high < step:
            return outside.divided(step), inside, step
    return None


def _steps(op: str) -> Callable[[Context, Match], Expr | None]:
    """``(64 * x + y) // 192 = x // 3``, ``(64 * x + y) % 192 = x % 3 * 64 + y``, and
    ``64 * x + y < 192`` is ``x < 3``, where ``0 <= y < 64``."""

    def split(ctx: Context, m: Match) -> Expr | None:
        form, n = Linear.of(m["x"]), _int(m["c"])
        parts = _step(ctx, form, n)
        if parts is None:
            return None
        x, y, step = parts
        result = binary(op, ctx.expr_of(x), const(n // step, form.dtype))
        return ctx.expr_of(y.added(Linear.of(result), step)) if op == "floormod" else result

    return split


def _as_division(op: str) -> Callable[[Context, Match], Expr | None]:
    """A mask or shift as the remainder or quotient that it is, where that is known or smaller."""

    def changed(ctx: Context, m: Match) -> Expr | None:
        x, n = m["x"], _int(m["c"])
        n = n + 1 if op == "bitand" else 1 << n if 0 <= n < x.dtype.bits else 0
        if n < 2 or not _is_power_of_two(n) or not _fits(n, x):
            return None
        match = {"x": x, "c": const(n, x.dtype)}
        if op == "bitand":
            rules = (_mod_decided, _mod_split, _steps("floormod"))
        else:
            rules = (_div_decided, _div_split, _steps("floordiv"))
        return next((divided for rule in rules if (divided := rule(ctx, match)) is not None), None)

    return changed


# -- min, max ------------------------------------------------------------------------------------
def _extreme(op: str) -> Callable[[Context, Match], Expr | None]:
    def decided(ctx: Context, m: Match) -> Expr | None:
        less = ctx.decide("le", m["x"], m["y"])
        return None if less is None else m["x"] if less == (op == "min") else m["y"]

    return decided


def _nested(op: str) -> Callable[[Context, Match], Expr | None]:
    return lambda ctx, m: binary(op, m["x"], m["y"] if "y" in m else binary(op, m["k"], m["l"]))


# -- comparisons and logic -----------------------------------------------------------------------
def _comparison(op: str) -> Callable[[Context, Match], Expr | None]:
    def decided(ctx: Context, m: Match) -> Expr | None:
        decision = ctx.decide(op, m["x"], m["y"])
        return None if decision is None else const(decision)

    return decided


def _move_constant(op: str) -> Callable[[Context, Match], Expr | None]:
    """``x + 3 < 10`` is ``x < 7``."""

    def moved(ctx: Context, m: Match) -> Expr | None:
        x, limit = m["x"], _int(m["k"])
        form = Linear.of(x)
        if form.constant == 0 or not form.terms or not _fits(limit - form.constant, x):
            return None
        rest = form.plus(-form.constant)
        wraps = ctx.exact(form) is None or ctx.exact(rest) is None
        if wraps and op not in ("eq", "ne"):
            return None
        return binary(op, ctx.expr_of(rest), const(limit - form.constant, x.dtype))

    return moved


_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


def _negated(ctx: Context, m: Match) -> Expr | None:
    x = m["x"]
    if isinstance(x, Binary) and x.op in _NEGATED and x.a.dtype.is_integer:
        return binary(_NEGATED[x.op], x.a, x.b)  # not so for floats: NaN
    return None


_BY_STEPS = ("floordiv", "floormod", "lt", "ge")
_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")

RULES: tuple[Rule, ...] = (
    Rule("division decided by bounds", ("floordiv", "x", "c"), _div_decided),
    Rule("remainder decided by bounds", ("floormod", "x", "c"), _mod_decided),
    Rule("division of a division", ("floordiv", ("floordiv", "x", "c"), "d"), _div_of_div),
    Rule("remainder of a remainder", ("floormod", ("floormod", "x", "c"), "d"), _mod_of_mod),
    Rule("multiples leave a division", ("floordiv", "x", "c"), _div_split),
    Rule("multiples leave a remainder", ("floormod", "x", "c"), _mod_split),
    Rule("common factor of a division", ("floordiv", "x", "c"), _div_reduced),
    *(Rule(f"part of a step leaves {op}", (op, "x", "c"), _steps(op)) for op in _BY_STEPS),
    Rule("mask as a remainder", ("bitand", "x", "c"), _as_division("bitand")),
    Rule("shift as a quotient", ("shr", "x", "c"), _as_division("shr")),
    *(Rule(f"{op} decided", (op, "x", "y"), _extreme(op)) for op in ("min", "max")),
    *(Rule(f"{op} of constants", (op, (op, "x", "k"), "l"), _nested(op)) for op in ("min", "max")),
    *(Rule(f"{op} of itself", (op, (op, "x", "y"), "y"), _nested(op)) for op in ("min", "max")),
    *(Rule(f"{op} decided", (op, "x", "y"), _comparison(op)) for op in _COMPARISONS),
    *(Rule(f"{op} without constant", (op, "x", "k"), _move_constant(op)) for op in _COMPARISONS),
    Rule("negated comparison", ("lnot", "x"), _negated),
    *(
        Rule(f"{op} of equals", (op, "x", "x"), lambda ctx, m: m["x"])
        for op in ("land", "lor", "bitand", "bitor")
    ),
    Rule("bitxor of equals", ("bitxor", "x", "x"), lambda ctx, m: const(0, m["x"].dtype)),
)
