"""Atomic updates of memory that threads share."""

from __future__ import annotations

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.dtypes import dtype
from tilelang.ir.uniform import PRIVATE

SUMS = dtype("float32")  # of which machines add vectors to memory


def updated_in_two_ways(stmt: S.Stmt) -> set[E.Var]:
    """Memory that threads share and ``stmt`` updates in two kinds, whose order matters."""
    kinds: dict[E.Var, set[str]] = {}
    for access in effects.accesses(stmt, nested=True):
        kind = access.by.atom.update if isinstance(access.by, E.Call) else ""
        if kind and access.writes and access.buffer.storage not in PRIVATE:
            kinds.setdefault(access.data, set()).add(kind)
    return {var for var, updates in kinds.items() if len(updates) > 1}
