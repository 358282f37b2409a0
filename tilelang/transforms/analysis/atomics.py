"""Atomic updates of memory that threads share."""

from __future__ import annotations

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.uniform import PRIVATE

# Of which machines add vectors to memory, and the most lanes of one.
SUMS = {"float32": 4, "float16": 2, "bfloat16": 2}


def neighbour(indices: tuple[E.Expr, ...], at: int) -> tuple[E.Expr, ...]:
    """The element ``at`` positions further along the last dimension."""
    return (*indices[:-1], E.as_expr(indices[-1] + at))


def summand(source: E.Expr, at: int) -> E.Expr:
    """The summand of element ``at`` in an atomic sum of neighbours."""
    if isinstance(source, E.AddressOf):
        return E.Load(source.buffer, neighbour(source.indices, at))
    return source.elements[at] if isinstance(source, E.Vector) else E.Lane(source, E.const(at))


def element_added(target: E.Expr, at: int, value: E.Expr, returns: bool) -> E.Expr:
    """The sum of element ``at`` alone; ``returns``: its previous value is used."""
    assert isinstance(target, E.AddressOf)
    address = E.AddressOf(target.buffer, neighbour(target.indices, at), target.access)
    return E.call(
        "atomic_add", address, value,
        dtype=target.buffer.dtype, memory_order="relaxed", return_prev=returns,
    )  # fmt: skip


def updated_in_two_ways(stmt: S.Stmt) -> set[E.Var]:
    """Memory that threads share and ``stmt`` updates in two kinds, whose order matters."""
    kinds: dict[E.Var, set[str]] = {}
    for access in effects.accesses(stmt, nested=True):
        kind = access.by.atom.update if isinstance(access.by, E.Call) else ""
        if kind and access.writes and access.buffer.storage not in PRIVATE:
            kinds.setdefault(access.data, set()).add(kind)
    return {var for var, updates in kinds.items() if len(updates) > 1}
