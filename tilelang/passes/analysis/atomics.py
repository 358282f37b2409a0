"""Atomic updates of memory that threads share."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.uniform import PRIVATE


def updated_in_two_ways(stmt: S.Stmt) -> set[E.Var]:
    """Memory that threads share and words in ``stmt`` update in two kinds, whose order matters."""
    kinds: dict[E.Var, set[str]] = {}
    for node in S.walk(stmt):
        for item in node.exprs():
            for call in E.find(item, E.Call):
                update = call.atom.update
                for target in call.written if update else ():
                    if isinstance(target, E.AddressOf) and target.buffer.storage not in PRIVATE:
                        kinds.setdefault(target.buffer.data, set()).add(update)
    return {var for var, found in kinds.items() if len(found) > 1}
