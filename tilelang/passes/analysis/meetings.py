"""Where iterations of two loops meet in memory: what has to be known before loops become one.

Everything rests on :mod:`tilelang.ir.effects`. Two tensors of a program may be one (a kernel works
in place): parameters of the same dtype and rank are taken to be the same memory unless their
shapes differ; element ``(i, j)`` of one is then element ``(i, j)`` of the other.
"""

from __future__ import annotations

from collections.abc import Iterable

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.buffer import Buffer, same_extent
from tilelang.ir.linear import parted
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute

# Statements whose whole effect is what `effects` says of their accesses.
_QUIET = (S.Seq, S.Let, S.Alloc, S.Store, S.For, S.If, S.Gemm)


class Memory:
    """Which names of a program may stand for the same memory."""

    def __init__(self, func: S.PrimFunc) -> None:
        self.tensors = {item.data for item in func.params if isinstance(item, Buffer)}
        self.loose = {  # made from pointers, which may lead anywhere
            node.buffer.data
            for node in S.walk(func.body)
            if isinstance(node, S.View) and node.source is not None
        }

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
        if not (is_quiet(a) and is_quiet(b)):
            return False
        first, second = accesses_of(a), accesses_of(b)
        if first is None or second is None or _names(a) & _mentioned(b):
            return False
        return not any(
            (x.writes or y.writes) and self.same(x.buffer, y.buffer) for x in first for y in second
        )

    def meet_alike(self, a: S.For, b: S.For) -> bool:
        """Whether an iteration of ``a`` and one of ``b`` use the same memory, and one of them
        writes it, only where their variables are equal: then the loops may run as one, and
        iterations that were independent in both stay so."""
        first, second = accesses_of(a.body), accesses_of(b.body)
        if first is None or second is None:
            return False
        lets = _positions(a.body) | _positions(b.body) | {b.var: a.var}
        own = frozenset(_bound(a.body) | _bound(b.body) | {a.var})
        return all(
            self._apart(x, y, a.var, own, lets)
            for x in first
            for y in second
            if (x.writes or y.writes) and self.same(x.buffer, y.buffer)
        )

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
    return all(
        isinstance(node, _QUIET)
        and not any(
            call.atom.effect not in (Effect.NONE, Effect.HINT)
            for item in node.exprs()
            for call in E.find(item, E.Call)
        )
        for node in S.walk(stmt)
    )


def accesses_of(stmt: S.Stmt) -> list[effects.Access] | None:
    """The accesses of elements in ``stmt`` of memory that lives longer, loads before the store of
    a statement; None where it uses memory in other ways."""
    own = {node.buffer.data for node in S.walk(stmt) if isinstance(node, S.Alloc)}
    if any(True for _ in effects.pointers(stmt, nested=True)):
        return None
    found = []
    for access in effects.accesses(stmt, nested=True):
        if access.data in own:
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


def _positions(stmt: S.Stmt) -> dict[E.Var, E.Expr]:
    """Names of values that read no memory."""
    found: dict[E.Var, E.Expr] = {}
    for node in S.walk(stmt):
        if isinstance(node, S.Let) and not E.holds(node.value, E.Load, E.Call):
            found[node.var] = substitute(node.value, found)
    return found


def _bound(stmt: S.Stmt) -> set[E.Var]:
    """Variables that statements in ``stmt`` bind."""
    return {var for node in S.walk(stmt) for var in node.parts("var", "vars")}


def _names(stmt: S.Stmt) -> set[E.Var]:
    """What ``stmt`` gives a name for the statements behind it."""
    if isinstance(stmt, S.Let):
        return {stmt.var}
    return {stmt.buffer.data} if isinstance(stmt, S.Alloc) else set()


def _mentioned(stmt: S.Stmt) -> set[E.Var]:
    found: set[E.Var] = set(effects.used(stmt))
    for node in S.walk(stmt):
        for item in node.exprs():
            found |= item.variables
    return found


def flat(stmts: Iterable[S.Stmt]) -> list[S.Stmt]:
    """``stmts`` without sequences among them."""
    found: list[S.Stmt] = []
    for stmt in stmts:
        found += flat(stmt.stmts) if isinstance(stmt, S.Seq) else [stmt]
    return found
