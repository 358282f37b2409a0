"""Dependence analysis and fusion legality: which iterations of two loops access the same memory.

Everything rests on :mod:`tilelang.ir.effects`. Two tensors of a program may be one (a kernel works
in place): parameters of the same dtype and rank are taken to be the same memory unless their
shapes differ; element ``(i, j)`` of one is then element ``(i, j)`` of the other.
"""

from __future__ import annotations

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, same_extent
from tilelang.ir.linear import parted
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.records import dataclass

# Statements whose whole effect is what `effects` says of their accesses.
_QUIET = (S.Seq, S.Let, S.Alloc, S.Store, S.For, S.If, S.Gemm)


@dataclass(frozen=True, eq=False)
class Facts:
    """What a statement and everything in it does. Facts of a statement are made from those of its
    parts, so a loop that takes in another one costs no second look at either body."""

    quiet: bool  # nothing but accesses of memory happens, always and to the end
    calls: bool  # a call is in an expression
    raw: bool  # memory is used through raw pointers
    kinds: frozenset[type[S.Stmt]]
    noted: bool  # a loop with annotations is there
    every: dict[tuple[object, ...], effects.Access]  # accesses, equal ones once
    allocated: frozenset[E.Var]
    used: frozenset[E.Var]  # storage that is named in any way
    mentioned: frozenset[E.Var]  # the same and the variables of expressions
    bound: frozenset[E.Var]  # variables that statements bind
    values: tuple[S.Let, ...]
    stores: tuple[S.Store, ...]
    accesses: list[effects.Access] | None  # of elements of memory that lives longer, if that is all


class Memory:
    """Which names of a program may stand for the same memory, and what its statements do."""

    def __init__(self, func: S.PrimFunc) -> None:
        self.known: dict[S.Stmt, Facts] = {}
        self.tensors = {param.data for param in func.params if isinstance(param, Buffer)}
        self.any_address = {  # views of pointers, which may alias anything
            node.buffer.data for node in S.find(func.body, S.View) if node.source is not None
        }

    def facts(self, stmt: S.Stmt) -> Facts:
        """What ``stmt`` does, computed once."""
        return facts_of(stmt, self.known)

    def may_alias(self, a: Buffer, b: Buffer) -> bool:
        """Whether an element of ``a`` may be one of ``b``."""
        if a.data is b.data or a.data in self.any_address or b.data in self.any_address:
            return True
        if a.data not in self.tensors or b.data not in self.tensors:
            return False
        if a.dtype != b.dtype or a.ndim != b.ndim:
            return False
        return not any(
            isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(a.shape, b.shape)
        )

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
        lets = _pure_values(first) | _pure_values(second) | {b.var: a.var}
        bound = first.bound | second.bound | {a.var}
        pairs = self._conflicts(first.accesses, second.accesses)
        return all(self._are_disjoint(x, y, a.var, bound, lets) for x, y in pairs)

    def _conflicts(
        self, first: list[effects.Access], second: list[effects.Access]
    ) -> list[tuple[effects.Access, effects.Access]]:
        """Pairs of accesses that may be of the same memory, one of them writing."""
        read, tensors, any_address, pairs = effects.READ, self.tensors, self.any_address, []
        for x in first:
            data = x.buffer.data
            for y in second:
                if x.mode == read and y.mode == read:
                    continue
                other = y.buffer.data
                anywhere = (
                    data in any_address
                    or other in any_address
                    or (data in tensors and other in tensors)
                )
                if data is other or (anywhere and self.may_alias(x.buffer, y.buffer)):
                    pairs.append((x, y))
        return pairs

    def _are_disjoint(
        self,
        a: effects.Access,
        b: effects.Access,
        var: E.Var,
        bound: frozenset[E.Var],
        lets: dict[E.Var, E.Expr],
    ) -> bool:
        """Whether some dimension tells the two iterations: its index is ``c * var + r`` in both,
        with the same ``c`` that is not 0 and the same ``r`` outside of the loops. Accesses outside
        of a tensor do not happen, so equal elements have equal indices."""
        if (
            a.data in self.any_address
            or b.data in self.any_address
            or not _has_same_indexing(a.buffer, b.buffer)
        ):
            return False
        for index_a, index_b in zip(a.indices, b.indices):
            forms = [parted(substitute(index, lets), bound) for index in (index_a, index_b)]
            if forms[0] is None or forms[1] is None:
                continue
            steps = [dict(form[0].terms) for form in forms if form]
            if steps[0] != steps[1] or set(steps[0]) != {var}:
                continue
            if simplify(forms[0][1]) is simplify(forms[1][1]):
                return True
        return False


def is_quiet(stmt: S.Stmt) -> bool:
    """Whether nothing but accesses of memory happens in ``stmt``, always and to its end."""
    return facts_of(stmt, {}).quiet


def accesses_of(stmt: S.Stmt) -> list[effects.Access] | None:
    """The accesses of elements in ``stmt`` of memory that lives longer, those that are alike once;
    None where it uses memory in other ways."""
    return facts_of(stmt, {}).accesses


def facts_of(stmt: S.Stmt, known: dict[S.Stmt, Facts]) -> Facts:
    """What ``stmt`` does; ``known`` holds earlier results."""
    facts = known.get(stmt)
    if facts is None:
        inner = []
        for block in stmt.blocks():
            inner.append(known.get(block) or facts_of(block, known))
        facts = known[stmt] = _merge(stmt, _own_facts(stmt), inner)
    return facts


def _own_facts(stmt: S.Stmt) -> Facts:
    """What ``stmt`` itself does."""
    exprs = stmt.exprs()
    calls = [call for expr in exprs for call in E.find(expr, E.Call)]
    silent = all(call.atom.effect in (Effect.NONE, Effect.HINT) for call in calls)
    raw = {var for var, _ in effects.pointers(stmt)}
    every: dict[tuple[object, ...], effects.Access] = {}
    for access in effects.accesses(stmt):
        plain = access.how is effects.How.PLAIN
        every.setdefault((access.buffer, access.where, access.mode, plain), access)
    used = raw.union(access.buffer.data for access in every.values())
    return Facts(
        quiet=isinstance(stmt, _QUIET) and silent,
        calls=bool(calls),
        raw=bool(raw),
        kinds=frozenset((type(stmt),)),
        noted=isinstance(stmt, S.For) and bool(stmt.annotations),
        every=every,
        allocated=frozenset((stmt.buffer.data,) if isinstance(stmt, S.Alloc) else ()),
        used=frozenset(used),
        mentioned=frozenset(used.union(*(expr.variables for expr in exprs))),
        bound=frozenset(stmt.parts("var", "vars")),
        values=(stmt,) if isinstance(stmt, S.Let) else (),
        stores=(stmt,) if isinstance(stmt, S.Store) else (),
        accesses=None,
    )


def _merge(stmt: S.Stmt, own_facts: Facts, inner: list[Facts]) -> Facts:
    """What ``stmt`` does, given what it does itself and what its blocks do."""
    parts = [own_facts, *inner]
    every: dict[tuple[object, ...], effects.Access] = {}
    values: list[S.Let] = []
    stores: list[S.Store] = []
    quiet, calls, raw, noted = True, False, False, False
    for part in parts:
        for key, access in part.every.items():
            every.setdefault(key, access)
        values += part.values
        stores += part.stores
        quiet, calls = quiet and part.quiet, calls or part.calls
        raw, noted = raw or part.raw, noted or part.noted
    none: frozenset[E.Var] = frozenset()
    allocated = none.union(*[part.allocated for part in parts])
    return Facts(
        quiet=quiet,
        calls=calls,
        raw=raw,
        kinds=own_facts.kinds.union(*[part.kinds for part in inner]),
        noted=noted,
        every=every,
        allocated=allocated,
        used=none.union(*[part.used for part in parts]),
        mentioned=none.union(*[part.mentioned for part in parts]),
        bound=none.union(*[part.bound for part in parts]),
        values=tuple(values),
        stores=tuple(stores),
        accesses=None if raw else _lasting(every, allocated),
    )


def _lasting(
    every: dict[tuple[object, ...], effects.Access], allocated: frozenset[E.Var]
) -> list[effects.Access] | None:
    """The accesses of what is not ``allocated``; None if one is no plain access."""
    accesses = []
    for access in every.values():
        if access.buffer.data in allocated:
            continue
        if access.how is not effects.How.PLAIN or access.mode == effects.NAME:
            return None
        accesses.append(access)
    return accesses


def _has_same_indexing(a: Buffer, b: Buffer) -> bool:
    """Whether the two names give each element the same indices."""
    if not (_is_plain(a) and _is_plain(b)):
        return False
    if a.data is not b.data:
        return True
    shapes = a.ndim == b.ndim and all(map(same_extent, a.shape, b.shape))
    return shapes and a.dtype == b.dtype


def _is_plain(buffer: Buffer) -> bool:
    """Whether the elements of a buffer are contiguous from its start on."""
    offset = buffer.elem_offset
    return buffer.strides is None and isinstance(offset, int) and offset == 0


def _pure_values(facts: Facts) -> dict[E.Var, E.Expr]:
    """Names of values that read no memory."""
    values: dict[E.Var, E.Expr] = {}
    for node in facts.values:
        if not E.holds(node.value, E.Load, E.Call):
            values[node.var] = substitute(node.value, values)
    return values
