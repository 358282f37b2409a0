"""Dependence analysis and alias analysis: may two accesses touch one element, and at which distance
of iterations?

An index is a linear form: a multiple of a loop variable, plus a rest that is the same in all
iterations. Where two accesses have the same multiple, the difference of their rests divided by it
is the distance between the iterations that touch the same element. Where they have not, as in
``a[i, j]`` and ``a[i, k]``, the ends of loops may show that the indices never meet: ``j`` starts at
``k + 1``. All queries build on that:

* :meth:`Iterations.distance`: the distances of two accesses in the iterations of a loop,
* :func:`may_overlap`: whether two regions have an element in common,
* :func:`is_same_element`: whether two accesses always touch the same element,
* :class:`Memory`: which statements of a program may be reordered, and which loops fused.

The accesses come from :mod:`tilelang.ir.effects`. Two parameters may be the same tensor, as in a
kernel that works in place: parameters of the same dtype and rank are assumed to alias unless their
shapes differ, and then element ``(i, j)`` of one is element ``(i, j)`` of the other. No access is
outside of its buffer, so equal elements have equal indices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.bounds import Bounds, interval
from tilelang.ir.buffer import Buffer, Region, Shape, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.effects import Access
from tilelang.ir.facts import FactWalk
from tilelang.ir.intervals import ANY, INF, End, Interval, floored
from tilelang.ir.linear import Linear, parted
from tilelang.ir.memo import memoized
from tilelang.ir.prover import decide
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import let_values, substitute
from tilelang.records import dataclass
from tilelang.transforms.analysis.loops import steps_by_one, trip_count

# Statements whose whole effect is what `effects` says of their accesses.
_QUIET = (S.Seq, S.Let, S.Alloc, S.Store, S.For, S.Parallel, S.If, S.Copy, S.Fill, S.Gemm)
# Those that access memory element by element.
_ELEMENTS = {S.Seq, S.Let, S.Alloc, S.Store, S.For, S.If}


# -- two accesses ----------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Iterations:
    """The iterations of the loop over ``var``; without it there is one.

    ``varying``: variables that each iteration sets again (of loops in it, names); ``values``: what
    names mean; ``extents``: how many values ``var`` and variables of ``varying`` have, which
    have step one, where that is known; ``bounds``: what holds in an iteration of ``loop``.
    """

    var: E.Var | None = None
    varying: frozenset[E.Var] = frozenset()
    values: Mapping[E.Var, E.Expr] = field(default_factory=dict)
    extents: Mapping[E.Var, int] = field(default_factory=dict)
    bounds: Bounds = field(default_factory=Bounds)
    loop: S.For | None = None

    def distance(self, a: Access | Region, b: Access | Region) -> Interval | None:
        """The distance, in iterations, from an access ``a`` to an access ``b`` of an element, where
        both are of the same memory; None: never."""
        trips = self._most(self.var)
        distances = Interval(-trips, trips)
        for (low, size), (other, other_size) in _common_dims(a, b):
            along = self._index_distances(low, other, size - 1, other_size - 1)
            if along is None or (size == other_size == 1 and self._always_differ(low, other)):
                return None
            distances = Interval(max(distances.low, along.low), min(distances.high, along.high))
        return distances if distances.low <= distances.high else None

    def are_disjoint(self, a: Access, b: Access) -> bool:
        """Whether no iteration touches what ``a`` or ``b`` touches in another one."""
        distance = self.distance(a, b)
        return distance is None or distance.low == distance.high == 0

    def _most(self, var: E.Expr | None) -> End:
        """The largest distance of two values of ``var``."""
        return self.extents[var] - 1 if isinstance(var, E.Var) and var in self.extents else INF

    def _index_distances(self, a: E.Expr, b: E.Expr, more: End, other_more: End) -> Interval | None:
        """The distances at which the indices ``a`` and ``b``, and so many more, may be equal.

        Then the distances of all variables, each times its step, add up to the difference of what
        the iterations share. The variables with the largest steps come first: what the others add
        is less than such a step in an index of digits (``64 * i + j`` for j below 64).
        """
        form, other = self._form(a), self._form(b)
        if form is None or other is None or dict(form[0].terms) != dict(other[0].terms):
            return ANY
        gap, steps = self._difference(form[1], other[1]), ANY
        low, high = gap.low - other_more, gap.high + more
        terms = sorted(form[0].terms, key=lambda pair: -abs(pair[1]))
        reach = [abs(step) * self._most(term) for term, step in terms]
        for at, (term, step) in enumerate(terms):
            smaller, last_value = sum(reach[at + 1 :]), self._most(term)
            ends = (low - smaller, high + smaller) if step > 0 else (-high - smaller, smaller - low)
            first = max(-floored(-ends[0], abs(step)), -last_value)
            last = min(floored(ends[1], abs(step)), last_value)
            if first > last:
                return None
            if term is self.var:
                steps = Interval(first, last)
            far = (step * first, step * last)
            low, high = low - max(far), high - min(far)
        return steps if low <= 0 <= high else None

    def _always_differ(self, a: E.Expr, b: E.Expr) -> bool:
        """Whether the index ``a`` in an iteration is another one than ``b`` in any."""
        x, y = (substitute(index, self.values) for index in (a, b))
        is_known = x is not y and not (E.holds(x, E.Load, E.Call) or E.holds(y, E.Load, E.Call))
        return is_known and decide("ne", x, substitute(y, self._others), self._both) is True

    @cached_property
    def _others(self) -> dict[E.Var, E.Var]:
        """What changes, with the names that it has in another iteration."""
        changing = self.varying if self.var is None else self.varying | {self.var}
        return {var: E.Var(var.name, var.dtype) for var in changing}

    @cached_property
    def _both(self) -> Bounds:
        """What holds in an iteration and, by other names, in another one."""
        if self.loop is None:
            return self.bounds
        var = self._others[self.loop.var]
        known = self.bounds.with_interval(var, self.bounds.of(self.loop.var))
        return FactWalk(known).inside(replace(self.loop, var=var))

    @memoized
    def _form(self, index: E.Expr) -> tuple[Linear, E.Expr] | None:
        return parted(substitute(index, self.values), frozenset(self._others))

    def _difference(self, a: E.Expr, b: E.Expr) -> Interval:
        """The bounds of ``a - b``, in which names have been replaced."""
        if a is b:
            return Interval(0, 0, 0, 0)
        return interval(simplify(a - b, self.bounds), self.bounds) if a.dtype == b.dtype else ANY


def may_overlap(
    a: Region, b: Region, bounds: Bounds, values: Mapping[E.Var, E.Expr] | None = None
) -> bool:
    """Whether two regions may have an element in common."""
    if a.buffer is not b.buffer:
        return a.buffer.data is b.buffer.data
    return Iterations(values=values or {}, bounds=bounds).distance(a, b) is not None


def is_same_region(a: Region, b: Region, bounds: Bounds, values: dict[E.Var, E.Expr]) -> bool:
    """Whether two regions certainly have the same elements."""
    if a.buffer is not b.buffer or Shape(a.extents) != Shape(b.extents):
        return False
    pairs = ((substitute(x, values), substitute(y, values)) for x, y in zip(a.mins, b.mins))
    return all(decide("eq", x, y, bounds) for x, y in pairs)


def written_in(launch: S.Launch) -> frozenset[E.Var]:
    """The storage that ``launch`` may write."""
    return frozenset(effects.written(launch.body))


def is_same_element(a: Access | E.Load | S.Store, b: Access | E.Load | S.Store) -> bool:
    """Whether two accesses are of one element, by one name; equal expressions are one object."""
    return a.buffer is b.buffer and E.are_same_exprs(a.indices, b.indices)


def uses_only(
    store: S.Store, node: S.Stmt | E.Expr, may_alias: Callable[[Buffer, Buffer], bool]
) -> bool:
    """Whether ``node`` uses no other element of what ``store`` stores to."""
    return all(
        is_same_element(access, store)
        for access in effects.accesses(node, nested=True)
        if may_alias(access.buffer, store.buffer)
    )


def steps_of(
    indices: Iterable[E.Expr], var: E.Var, varying: frozenset[E.Var] = frozenset()
) -> tuple[int | None, ...]:
    """The step of each index per iteration of the loop over ``var``; None where that is no
    constant, or where it depends on ``varying``, which change in the loop, too."""
    forms = (parted(index, varying | {var}) for index in indices)
    steps = (None if form is None else dict(form[0].terms) for form in forms)
    return tuple(
        None if step is None or not step.keys() <= {var} else step.get(var, 0) for step in steps
    )


def uses_by(body: S.Stmt, *kinds: type[S.Stmt] | type[E.Expr]) -> Counter[E.Var]:
    """The number of uses by statements and expressions of ``kinds`` of storage that has one name,
    and that nothing else uses; allocations aside."""
    others = {node.buffer.data for node in S.find(body, S.View)}
    others.update(var for var, _ in effects.pointers(body, nested=True))
    counts: Counter[E.Var] = Counter()
    for access in effects.accesses(body, nested=True):
        if isinstance(access.by, S.Alloc):
            continue
        counts[access.data] += 1
        if not isinstance(access.by, kinds) or access.kind is not effects.Kind.PLAIN:
            others.add(access.data)
    return Counter({data: count for data, count in counts.items() if data not in others})


def have_own_elements(body: S.Stmt, own: Mapping[E.Var, int], others: Mapping[E.Var, int]) -> bool:
    """Whether ``body`` uses what it stores to by the stored elements alone, which iterations that
    differ in a variable of ``own`` never share, whatever the variables of ``others`` are.

    Args:
        own, others: variables of loops around ``body``, and their extents; all count from 0.
    """
    facts = facts_of(body)
    if facts.accesses is None or not facts.kinds <= _ELEMENTS:
        return False
    loops = {loop.var: trip_count(loop) for loop in S.find(body, S.For) if steps_by_one(loop)}
    extents = {**own, **others, **{var: count for var, count in loops.items() if count}}
    varying, values = facts.bound.union(own, others), facts.pure_values()
    iterations = [Iterations(var, varying, values, extents) for var in own]
    return all(
        is_same_element(store, access) and all(i.are_disjoint(store, access) for i in iterations)
        if access.data is store.data
        else E.are_same_exprs(access.indices, store.indices)
        for store in facts.accesses
        if store.writes
        for access in facts.accesses
        if access.data is store.data or _may_be_one(access.buffer, store.buffer)
    )


def _may_be_one(a: Buffer, b: Buffer) -> bool:
    """Whether two tensors may be the same memory, as of a kernel that works in place."""
    ranks = (a.attrs.rank or a.ndim, b.attrs.rank or b.ndim)
    return a.storage == b.storage == "global" and a.dtype == b.dtype and ranks[0] == ranks[1]


def constant_difference(a: E.Expr, b: E.Expr) -> int | None:
    """``a - b`` if it is a constant."""
    if a is b:
        return 0
    difference = simplify(a - b) if a.dtype == b.dtype else None
    return int(difference.value) if isinstance(difference, E.Const) else None


def _common_dims(
    a: Access | Region, b: Access | Region
) -> Iterable[tuple[tuple[E.Expr, End], tuple[E.Expr, End]]]:
    """Pairs of indices, and how many follow them, that are equal for equal elements: those of each
    dimension, or the position in memory; none where nothing is known."""
    if isinstance(a, Region) or isinstance(b, Region) or _has_same_indexing(a.buffer, b.buffer):
        return zip(_dims(a), _dims(b))
    x, y = a.buffer, b.buffer
    is_element = isinstance(a.where, tuple) and isinstance(b.where, tuple)
    if not is_element or x.data is not y.data or x.dtype != y.dtype:
        return ()
    equal = Shape((*x.stride_list(), x.elem_offset)) == (*y.stride_list(), y.elem_offset)
    return [((_position(a), 1), (_position(b), 1))] if equal else ()


def _dims(access: Access | Region) -> list[tuple[E.Expr, End]]:
    region = access if isinstance(access, Region) else access.region
    ends = (extent if isinstance(extent, int) else INF for extent in region.extents)
    return list(zip(region.mins, ends))


def _position(access: Access) -> E.Expr:
    """The element in memory that ``access`` names."""
    position: E.Expr = E.const(0, DType("int64"))
    for index, stride in zip(access.indices, access.buffer.stride_list()):
        position = position + E.cast(index, position.dtype) * E.cast(stride, position.dtype)
    return position


def _has_same_indexing(a: Buffer, b: Buffer) -> bool:
    """Whether the two names give each element the same indices."""
    alike = a.dtype == b.dtype and all(map(is_same_extent, a.shape, b.shape))
    return (alike or a.data is not b.data) and a.ndim == b.ndim and _is_plain(a) and _is_plain(b)


def _is_plain(buffer: Buffer) -> bool:
    """Whether the elements of a buffer are contiguous from its start on."""
    return buffer.strides is None and is_same_extent(buffer.elem_offset, 0)


# -- statements ------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Facts:
    """The effects of a statement and everything in it. Facts of a statement are made from those of
    its parts, so a loop that takes in another one costs no second look at either body."""

    quiet: bool  # nothing but accesses of memory happens, always and to the end
    calls: bool  # a call is in an expression
    raw: bool  # memory is used through raw pointers
    noted: bool  # a loop with hints is there
    kinds: frozenset[type[S.Stmt]]
    allocated: frozenset[E.Var]
    used: frozenset[E.Var]  # storage that is named in any way
    mentioned: frozenset[E.Var]  # the same and the variables of expressions
    bound: frozenset[E.Var]  # variables that statements bind
    values: tuple[S.Let, ...]
    stores: dict[tuple[Buffer, tuple[E.Expr, ...]], S.Store]  # to an element, the last one
    by_key: dict[tuple[object, ...], Access]  # accesses, equal ones once

    @cached_property
    def accesses(self) -> list[Access] | None:
        """The accesses of elements of memory that lives longer, equal ones once; None where memory
        is used in other ways."""
        lasting = [a for a in self.by_key.values() if a.buffer.data not in self.allocated]
        plain = all(a.kind is effects.Kind.PLAIN and a.mode != effects.NAME for a in lasting)
        return lasting if plain and not self.raw else None

    def pure_values(self) -> dict[E.Var, E.Expr]:
        """Names of values that read no memory."""
        return let_values(self.values, lambda value: not E.holds(value, E.Load, E.Call))


class Memory:
    """Which names of a program may alias, and what its statements do."""

    def __init__(self, func: S.PrimFunc) -> None:
        self.known: dict[S.Stmt, Facts] = {}
        self.bounds = Bounds()  # remembers simple forms
        self.tensors = {param.data: param for param in func.buffers}
        self.any_address = {  # views of pointers, which may alias anything
            node.buffer.data for node in S.find(func.body, S.View) if node.source is not None
        }
        if not func.attr("tir.noalias", True):  # for calls whose tensors share memory in part
            self.any_address |= self.tensors.keys()

    def facts(self, stmt: S.Stmt) -> Facts:
        """The effects of ``stmt``, computed once."""
        return facts_of(stmt, self.known)

    def concatenate(self, a: S.Stmt, b: S.Stmt) -> S.Seq:
        """``a`` and then ``b``; its facts are those of the two, so a sequence that grows by one
        statement at a time is not looked at as a whole each time."""
        seq = S.Seq(stmts=(*S.flat(a), *S.flat(b)))
        self.known[seq] = _merge_facts([_own_facts(seq), self.facts(a), self.facts(b)])
        return seq

    def may_alias(self, a: Buffer, b: Buffer) -> bool:
        """Whether an element of ``a`` may be one of ``b``."""
        if a.data is b.data or a.data in self.any_address or b.data in self.any_address:
            return True
        p, q = self.tensors.get(a.data), self.tensors.get(b.data)
        if p is None or q is None or p.dtype != q.dtype or p.ndim != q.ndim:
            return False
        return not any(
            isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(p.shape, q.shape)
        )

    def is_written(self, buffer: Buffer, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` may write an element of ``buffer``."""
        accesses = self.facts(stmt).accesses
        return accesses is None or any(
            access.writes and self.may_alias(access.buffer, buffer) for access in accesses
        )

    def uses_only(self, store: S.Store, stmt: S.Stmt) -> bool:
        """Whether ``stmt`` uses no other element of what ``store`` stores to, by any name."""
        return uses_only(store, stmt, self.may_alias)

    def is_unchanged_by(self, stmt: S.Stmt, *buffers: Buffer) -> bool:
        """Whether ``stmt`` certainly leaves the contents of ``buffers`` unchanged."""
        return self.facts(stmt).quiet and not any(self.is_written(b, stmt) for b in buffers)

    def is_independent(self, a: S.Stmt, b: S.Stmt) -> bool:
        """Whether ``a`` and ``b`` may be reordered."""
        first, second = self.facts(a), self.facts(b)
        if not (first.quiet and second.quiet) or first.accesses is None or second.accesses is None:
            return False
        named = a.var if isinstance(a, S.Let) else a.buffer.data if isinstance(a, S.Alloc) else None
        return named not in second.mentioned and not self._conflicts(
            first.accesses, second.accesses
        )

    def is_fusion_legal(self, a: S.For, b: S.For) -> bool:
        """Whether an iteration of ``a`` and one of ``b`` use the same memory, and one of them
        writes it, only where their variables are equal: then the loops may run as one, and
        iterations that were independent in both stay so."""
        first, second = self.facts(a.body), self.facts(b.body)
        if first.accesses is None or second.accesses is None:
            return False
        count = trip_count(a) if steps_by_one(a) else None
        values = first.pure_values() | second.pure_values() | {b.var: a.var}
        extents = {} if count is None else {a.var: count}
        iterations = Iterations(a.var, first.bound | second.bound, values, extents, self.bounds)
        return all(
            x.data not in self.any_address
            and y.data not in self.any_address
            and iterations.are_disjoint(x, y)
            for x, y in self._conflicts(first.accesses, second.accesses)
        )

    def _conflicts(self, first: list[Access], second: list[Access]) -> list[tuple[Access, Access]]:
        """Pairs of accesses that may be of the same memory, one of them writing."""
        return [
            (x, y)
            for x in first
            for y in second
            if (x.writes or y.writes) and self.may_alias(x.buffer, y.buffer)
        ]


def facts_of(stmt: S.Stmt, known: dict[S.Stmt, Facts] | None = None) -> Facts:
    """The effects of ``stmt``; ``known`` holds earlier results."""
    known = {} if known is None else known
    facts = known.get(stmt)
    if facts is None:
        parts = [_own_facts(stmt), *(facts_of(block, known) for block in stmt.blocks())]
        facts = known[stmt] = _merge_facts(parts) if len(parts) > 1 else parts[0]
    return facts


def _own_facts(stmt: S.Stmt) -> Facts:
    """The effects of ``stmt`` itself."""
    exprs = stmt.exprs()
    calls = [call for expr in exprs for call in E.find(expr, E.Call)]
    silent = all(call.atom.effect in (Effect.NONE, Effect.HINT) for call in calls)
    raw = {var for var, _ in effects.pointers(stmt)}
    by_key: dict[tuple[object, ...], Access] = {}
    for access in effects.accesses(stmt):
        plain = access.kind is effects.Kind.PLAIN
        by_key.setdefault((access.buffer, access.where, access.mode, plain), access)
    used = raw.union(access.buffer.data for access in by_key.values())
    return Facts(
        quiet=isinstance(stmt, _QUIET) and silent,
        calls=bool(calls),
        raw=bool(raw),
        noted=isinstance(stmt, S.For) and bool(stmt.hints),
        kinds=frozenset((type(stmt),)),
        allocated=frozenset((stmt.buffer.data,) if isinstance(stmt, S.Alloc) else ()),
        used=frozenset(used),
        mentioned=frozenset(used.union(*(expr.variables for expr in exprs))),
        bound=frozenset(stmt.parts("var", "vars")),
        values=(stmt,) if isinstance(stmt, S.Let) else (),
        stores={(stmt.buffer, stmt.indices): stmt} if isinstance(stmt, S.Store) else {},
        by_key=by_key,
    )


def _merge_facts(parts: list[Facts]) -> Facts:
    """The effects of a statement, given its own and those of its blocks."""
    by_key: dict[tuple[object, ...], Access] = {}
    for part in (*parts, *reversed(parts)):  # in order, and of equal ones the first
        by_key.update(part.by_key)  # computes no hash again
    stores: dict[tuple[Buffer, tuple[E.Expr, ...]], S.Store] = {}
    for part in parts:
        stores.update(part.stores)
    none: frozenset[E.Var] = frozenset()
    return Facts(
        quiet=all(part.quiet for part in parts),
        calls=any(part.calls for part in parts),
        raw=any(part.raw for part in parts),
        noted=any(part.noted for part in parts),
        kinds=parts[0].kinds.union(*(part.kinds for part in parts)),
        allocated=none.union(*(part.allocated for part in parts)),
        used=none.union(*(part.used for part in parts)),
        mentioned=none.union(*(part.mentioned for part in parts)),
        bound=none.union(*(part.bound for part in parts)),
        values=tuple(let for part in parts for let in part.values),
        stores=stores,
        by_key=by_key,
    )
