"""Interval bounds and congruences of integer values, and what follows from them.

Machine integers wrap. Every result here is about the wrapped value: where an operation may leave
the range of its dtype, only "any value of the dtype" is concluded (and divisibility by powers of
two, which wrapping keeps).

There is one assumption, and the caller makes it: a variable whose interval has an *infinite* end
(a block index below a symbolic extent, say) is an index of unknown size, and arithmetic
with it is taken not to overflow. A variable without an interval may have any value of its dtype.

Names for arithmetic are seen through. A condition that holds (:meth:`Bounds.given`) narrows the
interval of what it compares, or becomes a fact: a sum over unbounded integers that is at least 0.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import lru_cache
from typing import Any, TypeAlias

from tilelang.ir import expr as E
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import holds
from tilelang.ir.indices import is_index, is_widening
from tilelang.ir.intervals import (
    ANY,
    INF,
    End,
    Interval,
    combined,
    congruent,
    corners,
    either,
    full,
    product,
    wrapped,
)
from tilelang.ir.linear import Linear
from tilelang.records import dataclass

NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}
INT64 = DType("int64")
_MOST_FACTS = 16  # the latest sums that are kept
MOST_DEEP = 24  # conditions around each other that are looked at


@dataclass(frozen=True, eq=False)
class Bounds:
    """The facts at one position of a program; immutable, extended by the ``with_`` methods and by
    conditions that hold.

    Attributes:
        ranges: intervals of variables of index arithmetic.
        names: values of names.
        narrowed: intervals of expressions that conditions bound.
        facts: sums over unbounded integers that are at least 0.
        depth: the number of conditions that were added.
        memo: results derived from these bounds, so asking again costs nothing.
    """

    ranges: Mapping[E.Var, Interval] = field(default_factory=dict)
    names: Mapping[E.Var, E.Expr] = field(default_factory=dict)
    narrowed: Mapping[E.Expr, Interval] = field(default_factory=dict)
    facts: tuple[Linear, ...] = ()
    depth: int = 0
    memo: dict[Any, Any] = field(default_factory=dict, init=False, repr=False)

    def with_range(self, var: E.Var, start: object, stop: object, step: object = 1) -> Bounds:
        """With ``var`` in ``range(start, stop, step)`` for a positive step."""
        return self.with_interval(var, self.within(start, stop, step))

    def within(self, start: object, stop: object, step: object = 1) -> Interval:
        """The values of a variable of ``range(start, stop, step)``, for a positive step."""
        first, last = self._end(start), self._end(stop)
        stride = step.value if isinstance(step, E.Const) else step
        modulus, remainder = 1, 0
        if isinstance(stride, (int, float)) and int(stride) > 0:
            have, remainder = first.congruence()
            modulus = math.gcd(have, int(stride))
            remainder %= modulus
        return Interval(first.low, last.high - 1, modulus, remainder)

    def _end(self, end: object) -> Interval:
        """The values of an end of a range. One that may be anything is of unknown size: see the
        module docstring."""
        value = end.value if isinstance(end, E.Const) else end
        if isinstance(value, int):
            return Interval(value, value, 0, value)
        expr = E.as_expr(end)
        values, all_values = interval(expr, self), full(expr.dtype)
        low = -INF if values.low == all_values.low < 0 else values.low
        return replace(values, low=low, high=INF if values.high == all_values.high else values.high)

    def with_interval(self, var: E.Var, allowed: Interval) -> Bounds:
        """With ``var`` in ``allowed``; the same object every time."""
        key = ("with", var, allowed)
        known = self.memo.get(key)
        if isinstance(known, Bounds):
            return known
        narrowed = self.memo[key] = replace(self, ranges={**self.ranges, var: allowed})
        return narrowed

    def with_ranges(self, ranges: Iterable[Range | Name]) -> Bounds:
        """With each ``var`` of (var, start, stop, step) in its range, or one of its ranges, and
        each of (var, value) as a name of its value, the earlier ones known to the later. The same
        ranges give the same object, so that passes share what was derived."""
        known, names, bound = dict(self.ranges), dict(self.names), set[E.Var]()
        for var, *ends in ranges:
            if len(ends) > 1:
                values = Bounds(known, names).within(*ends)
                known[var] = either(known[var], values) if var in bound else values
                bound.add(var)
            else:
                names[var] = E.as_expr(ends[0])
        return _bounds_of(frozenset(known.items()), frozenset(names.items()))

    def named(self, var: E.Var, value: E.Expr) -> Bounds:
        """With ``var`` as a name of ``value``."""
        return replace(self, names={**self.names, var: value})

    def assuming(self, cond: E.Expr, holds: bool = True, written: Collection[E.Var] = ()) -> Bounds:
        """With ``cond`` known to hold, or not to.

        Args:
            written: the storage that changes where this is known.
        """
        if self.depth > MOST_DEEP:
            return self
        loaded = {load.buffer.data for load in E.find(cond, E.Load)} if written else set()
        key = ("assuming", cond, holds, frozenset(loaded.intersection(written)))
        known = self.memo.get(key)
        if not isinstance(known, Bounds):
            known = self
            for part, truth in _conjuncts(cond, holds, self):
                known = known._with_truth(part, truth, written)
            if known is not self:
                known = replace(known, depth=self.depth + 1)
            self.memo[key] = known
        return known

    def _with_truth(self, cond: E.Expr, truth: bool, written: Collection[E.Var]) -> Bounds:
        """With a condition that is not a conjunction."""
        if holds(cond, E.Call) or any(load.buffer.data in written for load in E.find(cond, E.Load)):
            return self
        known = self
        if isinstance(cond, E.Binary) and cond.op in NEGATED and cond.a.dtype.is_integer:
            known = known._compared(cond.op if truth else NEGATED[cond.op], cond.a, cond.b)
        if isinstance(cond, E.Const) or cond.dtype.lanes > 1:
            return known
        known_truth = Interval(int(truth), int(truth), 0, int(truth))
        return replace(known, narrowed={**known.narrowed, cond: known_truth})

    def _compared(self, op: str, a: E.Expr, b: E.Expr) -> Bounds:
        # A sum that may wrap is a number of its own.
        left, right = (exact(side, self) or Linear(((side, 1),), 0, INT64) for side in (a, b))
        gap = left.added(right, -1).recomposed()  # a - b
        if op == "eq":
            return self._at_least_zero(gap)._at_least_zero(_negative(gap))
        if op == "ne":
            edge = next((side for side in (gap, _negative(gap)) if least(side, self) == 0), None)
            return self if edge is None else self._at_least_zero(edge.plus(-1))
        lower, upper, edge = (a, b, _negative(gap)) if op in ("lt", "le") else (b, a, gap)
        strict = op in ("lt", "gt")
        known = self._at_least_zero(edge.plus(-strict))
        below = Interval(-INF, interval(upper, self).high - strict)
        above = Interval(interval(lower, self).low + strict, INF)
        for side, allowed in ((lower, below), (upper, above)):  # of which there may be quotients
            while (value := self.opened(side)) is not None:
                side = value
            known = known._narrowed(side, allowed)
        return known

    def _at_least_zero(self, form: Linear) -> Bounds:
        """With a sum that is at least 0."""
        if len(form.terms) != 1:
            modulus, remainder = congruence(form, self)
            form = form.plus(-(remainder % modulus) if modulus else 0)
            if not form.terms:
                return self
            known = replace(self, facts=(*self.facts, form)[-_MOST_FACTS:])
            for term, factor in form.terms:  # a limit of a multiple is one, too
                if interval(term, self).modulus > 1:
                    rest = [part for part in form.terms if part[0] is not term]
                    limit = total(rest, form.constant, self).high
                    if limit < INF:  # factor * term >= -limit
                        known = known._narrowed(term, _values_above(factor, int(limit)))
            return known
        ((term, factor),) = form.terms
        known = self._narrowed(term, _values_above(factor, form.constant))
        values = interval(term, known)
        if values.is_single and isinstance(term, E.Binary) and term.op == "floormod":
            if isinstance(term.b, E.Const) and int(term.b.value) > 0:  # x % 8 == 0
                range_ = Interval(-INF, INF, int(term.b.value), int(values.low))
                dividend = exact(term.a, self)
                if dividend is not None and len(dividend.terms) == 1:
                    if dividend.terms[0][1] == 1 and dividend.constant == 0:
                        return known._narrowed(dividend.terms[0][0], range_)
        return known

    def _narrowed(self, term: E.Expr, allowed: Interval) -> Bounds:
        while isinstance(term, E.Cast) and full(wide := term.value.dtype).within(
            full(term.dtype)
        ) == full(wide):
            term = term.value  # a conversion to more bits
        values = interval(term, self)
        allowed = values.within(allowed)
        if allowed == values or allowed.low > allowed.high:  # nothing new, or never reached
            return self
        return replace(self, narrowed={**self.narrowed, term: allowed})

    def opened(self, var: E.Expr) -> E.Expr | None:
        """The value of the name ``var``, if it is the same everywhere."""
        value = self.names.get(var) if type(var) is E.Var else None
        return None if value is None or holds(value, E.Load, E.Call) else value

    def of(self, var: E.Var) -> Interval:
        """The known bounds of ``var``."""
        return self.ranges.get(var) or full(var.dtype)


Range: TypeAlias = "tuple[E.Var, object, object, object]"
Name: TypeAlias = "tuple[E.Var, E.Expr]"


@lru_cache(maxsize=8)
def _bounds_of(
    ranges: frozenset[tuple[E.Var, Interval]], names: frozenset[tuple[E.Var, E.Expr]]
) -> Bounds:
    return Bounds(dict(ranges), dict(names))


def _conjuncts(cond: E.Expr, truth: bool, bounds: Bounds) -> Iterator[tuple[E.Expr, bool]]:
    """The conditions that hold if ``cond`` does, or does not; with each whether it holds."""
    value = bounds.opened(cond)
    if isinstance(cond, E.Unary) and cond.op == "lnot":
        yield from _conjuncts(cond.a, not truth, bounds)
    elif isinstance(cond, E.Call) and cond.op == "likely":
        yield from _conjuncts(cond.args[0], truth, bounds)
    else:
        yield cond, truth
        if isinstance(cond, E.Binary) and cond.dtype.is_bool and cond.op in _JOINS[truth]:
            yield from _conjuncts(cond.a, truth, bounds)
            yield from _conjuncts(cond.b, truth, bounds)
        elif value is not None:
            yield from _conjuncts(value, truth, bounds)


_JOINS = {True: ("land", "bitand"), False: ("lor", "bitor")}


# -- sums over unbounded integers ------------------------------------------------------------------
def form_of(expr: E.Expr, bounds: Bounds, apart: bool = False) -> Linear:
    """``expr`` as a sum of 64 bits: names, conversions to more bits, sums and products with
    constants are opened. Quotients and remainders of one value are put together, but for those
    ``apart``, which facts may be about."""
    terms: dict[E.Expr, int] = {}
    constant, stack = 0, [(expr, 1)]
    while stack:
        node, factor = stack.pop()
        match node:
            case E.Const():
                constant += factor * int(node.value)
            case E.Unary(op="neg"):
                stack.append((node.a, -factor))
            case E.Binary(op="add" | "sub"):
                stack += [(node.a, factor), (node.b, factor if node.op == "add" else -factor)]
            case E.Binary(op="mul", b=E.Const(value=value)):
                stack.append((node.a, factor * int(value)))
            case E.Binary(op="mul", a=E.Const(value=value)):
                stack.append((node.b, factor * int(value)))
            case _:
                inner, named = None, bounds.opened(node)
                if named is not None:
                    stack.append((named, factor))
                    continue
                if isinstance(node, E.Cast) and is_widening(node):
                    inner = exact(node.value, bounds)
                for term, scale in ((node, 1),) if inner is None else inner.terms:
                    terms[term] = terms.get(term, 0) + factor * scale
                constant += 0 if inner is None else factor * inner.constant
    form = Linear.of_terms(terms, constant, INT64)
    return form if apart else form.recomposed()


def exact(expr: E.Expr, bounds: Bounds) -> Linear | None:
    """The sum over unbounded integers that ``expr`` is, None where it may wrap."""
    key = ("exact", expr)
    if key not in bounds.memo:
        bounds.memo[key] = _exact(expr, bounds)
    form: Linear | None = bounds.memo[key]
    return form


def _exact(expr: E.Expr, bounds: Bounds) -> Linear | None:
    if not expr.dtype.is_integer or expr.dtype.lanes > 1:
        return None
    form = form_of(expr, bounds)
    if len(form.terms) == 1 and form.constant == 0 and form.terms[0][1] == 1:
        return form
    if expr.dtype.bits <= 32 and expr.variables and _is_index(expr, bounds):
        return form
    range_ = full(expr.dtype)
    values = total(form.terms, form.constant, bounds)
    if -INF < values.low < range_.low or range_.high < values.high < INF:
        return Linear(((expr, 1),), 0, INT64) if isinstance(expr, (E.Var, E.Cast)) else None
    return form


def _is_index(expr: E.Expr, bounds: Bounds) -> bool:
    """Whether ``expr`` is index arithmetic, and so are the values of the names in it."""
    values: list[E.Expr | None] = [expr]
    visited = set[E.Var]()
    while values:
        if (value := values.pop()) is None or not is_index(value, ()):
            return False
        names = {var for var in value.variables - visited if var not in bounds.ranges}
        visited |= names
        values += [bounds.names.get(name) for name in names]
    return True


def total(terms: Iterable[tuple[E.Expr, int]], constant: int, bounds: Bounds) -> Interval:
    """The interval of a sum over unbounded integers."""
    low: End = constant
    high: End = constant
    for term, factor in terms:
        values = interval(term, bounds)
        a, b = (values.low, values.high) if factor > 0 else (values.high, values.low)
        low, high = low + factor * a, high + factor * b
    return Interval(low, high)


def congruence(form: Linear, bounds: Bounds) -> tuple[int, int]:
    """(modulus, remainder) of a sum over unbounded integers."""
    modulus, remainder = 0, form.constant
    for term, factor in form.terms:
        m, r = interval(term, bounds).congruence()
        modulus, remainder = math.gcd(modulus, m * factor), remainder + r * factor
    return congruent(modulus, remainder)


def least(form: Linear, bounds: Bounds) -> End:
    """The least value of a sum over unbounded integers."""
    low = total(form.terms, form.constant, bounds).low
    modulus, remainder = congruence(form, bounds) if -INF < low < 0 else (1, 0)
    return low + (remainder - low) % modulus if modulus > 1 else low


def _values_above(factor: int, rest: int) -> Interval:
    """The values of ``x`` with ``factor * x + rest >= 0``."""
    return Interval(-(rest // factor), INF) if factor > 0 else Interval(-INF, rest // -factor)


def _negative(form: Linear) -> Linear:
    return Linear((), 0, INT64).added(form, -1)


def interval(expr: E.Expr, bounds: Bounds | None = None) -> Interval:
    """An interval and congruence that hold for every value of the integer expression ``expr``."""
    bounds = bounds if bounds is not None else Bounds()
    memo: dict[Any, Any] = bounds.memo
    stack = [expr]
    while stack:
        node = stack[-1]
        if node in memo:
            stack.pop()
            continue
        named = bounds.names.get(node) if type(node) is E.Var else None
        inputs = _inputs(node) if named is None else (named,)
        pending = [operand for operand in inputs if operand not in memo]
        if pending:
            stack.extend(pending)
            continue
        computed = wrapped(_value(node, memo, bounds) if named is None else memo[named], node.dtype)
        own = bounds.narrowed.get(node)
        memo[node] = computed if own is None else _intersected(computed, own)
        stack.pop()
    result: Interval = memo[expr]
    return result


def _intersected(computed: Interval, own: Interval) -> Interval:
    common = computed.within(own)
    return common if common.low <= common.high else computed  # a place that is never reached


def _inputs(node: E.Expr) -> tuple[E.Expr, ...]:
    """The sub-expressions whose intervals decide that of ``node``."""
    if not node.dtype.is_integer:
        return ()
    if isinstance(node, E.Binary):
        return (node.a, node.b)
    if isinstance(node, E.Unary):
        return (node.a,)
    if isinstance(node, (E.Cast, E.Broadcast)):
        return (node.value,)
    if isinstance(node, E.Select):
        return (node.t, node.f)
    if isinstance(node, E.Ramp):
        return (node.base, node.stride)
    if isinstance(node, E.Vector):
        return node.elements
    if isinstance(node, E.Call) and (node.atom.identity or node.op == "abs"):
        return node.args[:1]
    return ()


def _value(node: E.Expr, memo: Mapping[Any, Interval], bounds: Bounds) -> Interval:
    """The interval of the exact result of ``node`` on the intervals of its inputs."""
    if isinstance(node, E.Const):
        if isinstance(node.value, float):
            return ANY
        return Interval(int(node.value), int(node.value), 0, int(node.value))
    if isinstance(node, E.Var):
        return bounds.of(node)
    if not node.dtype.is_integer:
        return full(node.dtype)
    if isinstance(node, E.Binary):
        return combined(node.op, memo[node.a], memo[node.b], node.dtype)
    if isinstance(node, E.Unary):
        a = memo[node.a]
        shift = -1 if node.op == "bitnot" and node.dtype.is_int else 0
        if node.op == "neg" or shift:
            modulus, remainder = congruent(a.modulus, shift - a.remainder)
            return Interval(shift - a.high, shift - a.low, modulus, remainder)
        return full(node.dtype)
    if isinstance(node, (E.Cast, E.Broadcast)):
        source = node.value.dtype
        if isinstance(node, E.Cast) and source.is_float and node.dtype.is_int and source.lanes == 1:
            return _truncated(node, bounds)
        range_ = full(source)  # an end at infinity is none in another dtype
        return memo[node.value].within(range_) if range_.is_known else full(node.dtype)
    if isinstance(node, E.Select):
        return _select_interval(node, memo[node.t], memo[node.f], bounds)
    if isinstance(node, E.Ramp):
        far = corners(memo[node.stride], Interval(0, node.lanes - 1), product)
        base = memo[node.base]
        return Interval(base.low + far.low, base.high + far.high)
    if isinstance(node, E.Vector):
        elements = [memo[element] for element in node.elements]
        return Interval(min(e.low for e in elements), max(e.high for e in elements))
    return _call(node, memo) if isinstance(node, E.Call) else full(node.dtype)


def _truncated(node: E.Cast, bounds: Bounds) -> Interval:
    """The integers that ``node`` makes of a floating-point value."""
    from tilelang.ir.float_ranges import float_range  # few programs need it

    def ends(value: E.Expr) -> tuple[End, End]:
        values = interval(value, bounds)
        return values.low, values.high

    names: Mapping[Any, E.Expr] = bounds.names
    values = float_range(node.value, ends, lambda expr: names.get(expr, expr))
    if values is None:
        return full(node.dtype)
    range_, inside = full(node.dtype), Interval(*map(math.trunc, values))
    return inside if range_.low <= inside.low and inside.high <= range_.high else range_


def _select_interval(node: E.Select, t: Interval, f: Interval, bounds: Bounds) -> Interval:
    """One of two sides, each with what the condition says there."""
    if isinstance(node.cond, E.Const) or bounds.depth > 2 or node.dtype.lanes > 1:
        return either(t, f)
    yes, no = bounds.assuming(node.cond), bounds.assuming(node.cond, False)
    return either(
        t if yes is bounds else interval(node.t, yes), f if no is bounds else interval(node.f, no)
    )


def _call(node: E.Call, memo: Mapping[Any, Interval]) -> Interval:
    if node.atom.identity:
        return memo[node.args[0]]
    if node.op == "abs":
        a = memo[node.args[0]]
        low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
        return Interval(low, max(abs(a.low), abs(a.high)))
    return Interval(0, 64) if node.op in ("popcount", "clz", "ffs") else full(node.dtype)


def is_divisible(expr: E.Expr, n: int, bounds: Bounds | None = None) -> bool:
    """Whether every value of ``expr`` is certainly a multiple of ``n``."""
    if n == 0 or not expr.dtype.is_integer:
        return False
    modulus, remainder = interval(expr, bounds).congruence()
    return modulus % n == 0 and remainder % n == 0
