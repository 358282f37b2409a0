"""Where iterations of two loops meet in memory: what has to be known before loops become one.

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
    every: dict[tuple[object, ...], effects.Access]  # accesses, those that are alike once
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
        self.tensors = {item.data for item in func.params if isinstance(item, Buffer)}
        self.loose = {  # made from pointers, which may lead anywhere
            node.buffer.data for node in S.find(func.body, S.View) if node.source is not None
        }

    def facts(self, stmt: S.Stmt) -> Facts:
        """What ``stmt`` does, found once."""
        return facts_of(stmt, self.known)

    def same(self, a: Buffer, b: Buffer) -> bool:
        """Whether an element of ``a`` may be one of ``b``."""
        if a.data is b.data or a.data in self.loose or b.data in self.loose:
            return True
        if a.data not in self.tensors or b.data not in self.tensors:
            return False
        if a.dtype != b.dtype or a.ndim != b.ndim:
            return False
        return not any(
            isinstance(x, int) and isinstance(y, int) and x != y for x, y in zip(a.shape, b.shape)
        )

    def independent(self, a: S.Stmt, b: S.Stmt) -> bool:
        """Whether ``a`` and ``b`` may change places."""
        one, other = self.facts(a), self.facts(b)
        if not (one.quiet and other.quiet) or one.accesses is None or other.accesses is None:
            return False
        named = a.var if isinstance(a, S.Let) else a.buffer.data if isinstance(a, S.Alloc) else None
        return named not in other.mentioned and not self._conflicts(one.accesses, other.accesses)

    def meet_alike(self, a: S.For, b: S.For) -> bool:
        """Whether an iteration of ``a`` and one of ``b`` use the same memory, and one of them
        writes it, only where their variables are equal: then the loops may run as one, and
        iterations that were independent in both stay so."""
        one, other = self.facts(a.body), self.facts(b.body)
        if one.accesses is None or other.accesses is None:
            return False
        lets = _positions(one) | _positions(other) | {b.var: a.var}
        own = one.bound | other.bound | {a.var}
        pairs = self._conflicts(one.accesses, other.accesses)
        return all(self._apart(x, y, a.var, own, lets) for x, y in pairs)

    def _conflicts(
        self, first: list[effects.Access], second: list[effects.Access]
    ) -> list[tuple[effects.Access, effects.Access]]:
        """Pairs of accesses that may be of the same memory, one of them writing."""
        read, tensors, loose, found = effects.READ, self.tensors, self.loose, []
        for x in first:
            data = x.buffer.data
            for y in second:
                if x.mode == read and y.mode == read:
                    continue
                near = y.buffer.data
                anywhere = data in loose or near in loose or (data in tensors and near in tensors)
                if data is near or (anywhere and self.same(x.buffer, y.buffer)):
                    found.append((x, y))
        return found

    def _apart(
        self,
        a: effects.Access,
        b: effects.Access,
        var: E.Var,
        own: frozenset[E.Var],
        lets: dict[E.Var, E.Expr],
    ) -> bool:
        """Whether some dimension tells the two iterations: its index is ``c * var + r`` in both,
        with the same ``c`` that is not 0 and the same ``r`` outside of the loops. Accesses outside
        of a tensor do not happen, so equal elements have equal indices."""
        if a.data in self.loose or b.data in self.loose or not _alike(a.buffer, b.buffer):
            return False
        for one, other in zip(a.indices, b.indices):
            forms = [parted(substitute(index, lets), own) for index in (one, other)]
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
    """What ``stmt`` does; ``known`` holds what was found before."""
    found = known.get(stmt)
    if found is None:
        inner = []
        for block in stmt.blocks():
            inner.append(known.get(block) or facts_of(block, known))
        found = known[stmt] = _together(stmt, _alone(stmt), inner)
    return found


def _alone(stmt: S.Stmt) -> Facts:
    """What ``stmt`` itself does."""
    exprs = stmt.exprs()
    found = [call for item in exprs for call in E.find(item, E.Call)]
    silent = all(call.atom.effect in (Effect.NONE, Effect.HINT) for call in found)
    raw = {var for var, _ in effects.pointers(stmt)}
    every: dict[tuple[object, ...], effects.Access] = {}
    for access in effects.accesses(stmt):
        plain = access.how is effects.How.PLAIN
        every.setdefault((access.buffer, access.where, access.mode, plain), access)
    used = raw.union(access.buffer.data for access in every.values())
    return Facts(
        quiet=isinstance(stmt, _QUIET) and silent,
        calls=bool(found),
        raw=bool(raw),
        kinds=frozenset((type(stmt),)),
        noted=isinstance(stmt, S.For) and bool(stmt.annotations),
        every=every,
        allocated=frozenset((stmt.buffer.data,) if isinstance(stmt, S.Alloc) else ()),
        used=frozenset(used),
        mentioned=frozenset(used.union(*(item.variables for item in exprs))),
        bound=frozenset(stmt.parts("var", "vars")),
        values=(stmt,) if isinstance(stmt, S.Let) else (),
        stores=(stmt,) if isinstance(stmt, S.Store) else (),
        accesses=None,
    )


def _together(stmt: S.Stmt, own: Facts, inner: list[Facts]) -> Facts:
    """What ``stmt`` does, given what it does itself and what its blocks do."""
    parts = [own, *inner]
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
        kinds=own.kinds.union(*[part.kinds for part in inner]),
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
    found = []
    for access in every.values():
        if access.buffer.data in allocated:
            continue
        if access.how is not effects.How.PLAIN or access.mode == effects.NAME:
            return None
        found.append(access)
    return found


def _alike(a: Buffer, b: Buffer) -> bool:
    """Whether the two names give each place the same indices."""
    if not (_is_plain(a) and _is_plain(b)):
        return False
    if a.data is not b.data:
        return True
    shapes = a.ndim == b.ndim and all(map(same_extent, a.shape, b.shape))
    return shapes and a.dtype == b.dtype


def _is_plain(buffer: Buffer) -> bool:
    """Whether the elements of a buffer lie one after the other from its start on."""
    offset = buffer.elem_offset
    return buffer.strides is None and isinstance(offset, int) and offset == 0


def _positions(facts: Facts) -> dict[E.Var, E.Expr]:
    """Names of values that read no memory."""
    found: dict[E.Var, E.Expr] = {}
    for node in facts.values:
        if not E.holds(node.value, E.Load, E.Call):
            found[node.var] = substitute(node.value, found)
    return found
