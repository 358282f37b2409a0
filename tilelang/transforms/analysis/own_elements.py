"""Whether iterations of a loop nest touch elements of their own."""

from __future__ import annotations

from collections.abc import Mapping

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.linear import parted
from tilelang.ir.visitor import substitute
from tilelang.transforms.analysis.loops import values_of


def have_own_elements(body: S.Stmt, own: Mapping[E.Var, int], others: Mapping[E.Var, int]) -> bool:
    """Whether iterations of ``body`` that differ in a variable of ``own`` never meet at an element
    that one of them writes, whatever the variables of ``others`` are.

    Args:
        own, others: variables of loops around ``body``, and their extents; all count from 0.
    """
    extents, lets = {**own, **others}, dict[E.Var, E.Expr]()
    made = {node.buffer.data for node in S.find(body, S.Alloc)}
    for node in S.walk(body):
        if isinstance(node, S.Let):
            lets[node.var] = substitute(node.value, lets)
        elif isinstance(node, S.For) and (values := values_of(node)):
            extents[node.var] = max(values) - min(values) + 1
        elif not isinstance(node, (S.Seq, S.If, S.Store, S.Alloc)):
            return False
    accesses = [a for a in effects.accesses(body, nested=True) if a.data not in made]
    stores = {access.data: access for access in accesses if access.writes}
    for access in accesses:
        store = stores.get(access.data, access)
        if store is access and not access.writes:
            continue
        if not isinstance(store.where, tuple) or not isinstance(access.where, tuple):
            return False
        plain = access.how is effects.How.PLAIN and access.buffer is store.buffer
        element = tuple(substitute(index, lets) for index in store.where)
        if not plain or not E.same_exprs(store.where, access.where):
            return False
        if not set(own) <= _counted(element, extents):
            return False
    return True


def _counted(element: tuple[E.Expr, ...], extents: Mapping[E.Var, int]) -> set[E.Var]:
    """The variables whose values follow from ``element``: those that write its indices in mixed
    radix. Of the others the indices may not be made."""
    counted: set[E.Var] = set()
    for index in element:
        split = parted(index, frozenset(extents))
        if split is None or E.holds(split[1], E.Load, E.Call):
            continue
        reach, terms = 1, sorted(split[0].terms, key=lambda pair: abs(pair[1]))
        own = {term for term, _ in terms if isinstance(term, E.Var)}
        for var, factor in terms:
            own = own if abs(factor) >= reach else set()
            reach += abs(factor) * (extents.get(var, 1) - 1)  # type: ignore[call-overload]  # a Var
        counted |= own
    return counted
