"""The integer prover: comparisons that hold for every value that :class:`Bounds` admit.

A comparison is decided by the intervals of its sides, or by the sum over unbounded integers that is
their difference: by the intervals of its terms, less multiples of facts that share terms with it,
and case by case where a term is a minimum, a maximum, a choice or a quotient.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TypeAlias

from tilelang.ir.bounds import INT64, NEGATED, Bounds, congruence, exact, form_of, interval, least
from tilelang.ir.expr import Binary, Const, Expr, Select, Unary, const
from tilelang.ir.intervals import compare
from tilelang.ir.linear import Linear

_DEPTH = 3  # facts and cases that are put together for one answer


def prove(cond: Expr, bounds: Bounds | None = None) -> bool | None:
    """True or False where ``cond`` is decided, None where it is not."""
    known = bounds if bounds is not None else Bounds()
    if isinstance(cond, Const):
        return bool(cond.value)
    value, truth = known.opened(cond), known.narrowed.get(cond)
    if value is not None:
        return prove(value, known)
    if truth is not None and truth.is_single:
        return bool(truth.low)
    if isinstance(cond, Unary) and cond.op == "lnot":
        inner = prove(cond.a, known)
        return None if inner is None else not inner
    if not isinstance(cond, Binary):
        return None
    if cond.dtype.is_bool and cond.op in ("land", "lor", "bitand", "bitor"):
        a, b = prove(cond.a, known), prove(cond.b, known)
        stop = cond.op in ("lor", "bitor")
        if a is stop or b is stop:
            return stop
        return (not stop) if a is (not stop) and b is (not stop) else None
    if cond.op not in NEGATED or not cond.a.dtype.is_integer:
        return None
    return decide(cond.op, cond.a, cond.b, known)


def decide(op: str, a: Expr, b: Expr, bounds: Bounds) -> bool | None:
    """The comparison ``a op b`` of integers where it is decided."""
    if a is b:
        return op in ("eq", "le", "ge")
    truth = compare(op, interval(a, bounds), interval(b, bounds))
    if truth is not None or a.dtype.lanes > 1:
        return truth
    key = ("decide", op, a, b)
    if key not in bounds.memo:
        bounds.memo[key] = _compare_forms(op, a, b, bounds)
    result: bool | None = bounds.memo[key]
    return result


def is_nonnegative(expr: Expr, bounds: Bounds) -> bool:
    """Whether no value of ``expr`` is negative."""
    return decide("ge", expr, const(0, expr.dtype), bounds) is True


def _compare_forms(op: str, a: Expr, b: Expr, bounds: Bounds) -> bool | None:
    left, right = exact(a, bounds), exact(b, bounds)
    if left is None or right is None:
        if op not in ("eq", "ne"):
            return None
        difference = Linear.of(a).added(Linear.of(b), -1)  # equality needs the wrapped one only
        return None if difference.terms else (difference.constant == 0) == (op == "eq")
    gap = left.added(right, -1).recomposed()  # a - b
    apart = form_of(a, bounds, apart=True).added(form_of(b, bounds, apart=True), -1)
    quotient = apart.recomposed()
    rest = quotient.added(gap, -1)
    forms = (gap,) if quotient is apart or rest.terms or rest.constant else (gap, apart)

    def is_shown(sign: int, offset: int) -> bool:
        """Whether ``sign * (a - b) + offset`` is at least 0."""
        sums = (Linear((), offset, INT64).added(form, sign) for form in forms)
        return any(_is_nonnegative(form, bounds, _DEPTH) for form in sums)

    if op not in ("eq", "ne"):
        sign, strict = (1 if op in ("gt", "ge") else -1), op in ("gt", "lt")
        return True if is_shown(sign, -strict) else False if is_shown(-sign, strict - 1) else None
    if _is_nonzero(gap, bounds) or is_shown(1, -1) or is_shown(-1, -1):
        return op == "ne"
    return op == "eq" if is_shown(1, 0) and is_shown(-1, 0) else None


def _is_nonzero(gap: Linear, bounds: Bounds) -> bool:
    """Whether a sum is certainly not 0: it has a known remainder, maybe by a number by which terms
    of it are remainders, as ``(x + 1) % 2 - x % 2`` has by 2."""
    parts = [
        (Linear(((term, factor),), 0, INT64), term.a, factor, int(term.b.value))
        for term, factor in gap.terms
        if isinstance(term, Binary) and term.op == "floormod" and isinstance(term.b, Const)
    ]
    for n in {0, *(abs(number) for *_, number in parts)}:
        form = gap
        for part, dividend, factor, number in parts:
            opened = exact(dividend, bounds) if n & (n - 1) else Linear.of(dividend)
            if opened is not None and abs(number) == n > 0:
                form = form.added(part, -1).added(opened, factor)
        modulus, remainder = congruence(form, bounds)
        common = math.gcd(modulus, n)
        if remainder % common if common else remainder:
            return True
    return False


def _is_nonnegative(form: Linear, bounds: Bounds, depth: int) -> bool:
    """Whether ``form`` is at least 0."""
    low = least(form, bounds)
    if low >= 0 or depth == 0:
        return low >= 0
    factors = dict(form.terms)
    for fact in bounds.facts:
        for term, factor in fact.terms:
            times, remainder = divmod(factors.get(term, 0), factor)
            if remainder == 0 and times > 0:
                if _is_nonnegative(form.added(fact, -times), bounds, depth - 1):
                    return True
    for term, factor in form.terms:
        n = _divisor(term)
        scale = n // math.gcd(n, factor)  # ``scale * form > -scale`` is enough: ``form`` is whole
        rest = form.added(Linear(((term, factor),), 0, form.dtype), -1)
        rest = rest.added(rest, scale - 1).plus(scale - 1)
        for cases in _cases(term, factor * scale, bounds):
            if all(
                _is_nonnegative(rest.added(value, times).recomposed(), known, depth - 1)
                for value, times, known in cases
            ):
                return True
    return False


def _divisor(term: Expr) -> int:
    """The positive constant by which ``term`` is a quotient, or 1."""
    if isinstance(term, Binary) and term.op == "floordiv" and isinstance(term.b, Const):
        return max(int(term.b.value), 1)
    return 1


Cases: TypeAlias = "list[tuple[Linear, int, Bounds]]"


def _cases(term: Expr, factor: int, bounds: Bounds) -> Iterator[Cases]:
    """Lower bounds of ``factor * term``: each of the lists has a sum and a factor for every case,
    with what is known in it."""
    if isinstance(term, Select):
        sides = [(term.t, bounds.assuming(term.cond)), (term.f, bounds.assuming(term.cond, False))]
        yield [(_form(side, known), factor, known) for side, known in sides]
    elif isinstance(term, Binary) and term.op in ("min", "max"):
        sides_of = [[(_form(side, bounds), factor, bounds)] for side in (term.a, term.b)]
        if (term.op == "min") == (factor > 0):
            yield [*sides_of[0], *sides_of[1]]
        else:
            yield from sides_of
    elif isinstance(term, Binary) and (n := _divisor(term)) > 1:  # ``factor`` is a multiple of it
        yield [(_form(term.a, bounds).plus(0 if factor < 0 else 1 - n), factor // n, bounds)]
    elif isinstance(term, Binary) and term.op == "floormod" and factor < 0:
        if interval(term.b, bounds).low >= 0:
            yield [(_form(term.b, bounds).plus(-1), factor, bounds)]


def _form(expr: Expr, bounds: Bounds) -> Linear:
    form = exact(expr, bounds)
    return Linear(((expr, 1),), 0, INT64) if form is None else form
