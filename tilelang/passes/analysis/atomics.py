"""Atomic updates and the other calls that access one element at an address."""

from __future__ import annotations

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.tables import ATOMIC_UPDATES
from tilelang.ir.uniform import PRIVATE

SUMS = {"atomic_addx2": 2, "atomic_addx4": 4}  # elements that one call adds to
GUARDED_CALLS = frozenset(
    ["ldg", "atomic_load", *SUMS]
    + [f"atomic_{op}" for op in ("add", "max", "min", "or", "and", "xor", "exch", "store")]
)


def updated_in_two_ways(stmt: S.Stmt) -> set[E.Var]:
    """Memory that threads share and words in ``stmt`` update in two kinds, whose order matters."""
    kinds: dict[E.Var, set[str]] = {}
    for node in S.walk(stmt):
        for item in node.exprs():
            for call in E.find(item, E.Call):
                for target in call.written if call.op in ATOMIC_UPDATES else ():
                    if isinstance(target, E.AddressOf) and target.buffer.storage not in PRIVATE:
                        kinds.setdefault(target.buffer.data, set()).add(ATOMIC_UPDATES[call.op])
    return {var for var, found in kinds.items() if len(found) > 1}
