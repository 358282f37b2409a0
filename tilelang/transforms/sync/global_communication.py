"""Global buffers through which the threads of one block exchange data.

Statements of a block take effect in order, in global memory too: a statement reads what the one
before it has stored, whichever threads execute the two. Most tensors are only read, or written by
one statement, and need no barriers. Barrier insertion considers a buffer if a launch writes or
updates it in one statement and uses it in another, or reads and writes it in the same. Atomic
updates of one kind alone need no order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.transforms.sync.events import Scope, commutes, is_shared, own_accesses


def communication_buffers(launch: S.Launch, scope: Scope) -> frozenset[E.Var]:
    """The global buffers of ``launch`` that barriers order like shared memory; those that the
    hint ``exchanges`` of the launch lists are among them."""
    known = frozenset(launch.hints.exchanges)
    written = {var for stmt in _steps(launch.body) for var in _written_global(stmt)} - known
    if not written:
        return known
    full = replace(scope, exchanges=frozenset(written))
    uses: dict[E.Var, set[tuple[int, str]]] = {}
    for stmt in _steps(launch.body):
        for access in own_accesses(stmt, full):
            if not is_shared(access.buffer):
                uses.setdefault(access.buffer.data, set()).add((id(stmt), access.mode))
    return known | {var for var, accesses in uses.items() if _needs_order(accesses)}


def _needs_order(uses: set[tuple[int, str]]) -> bool:
    """Whether two uses need an order; atomic updates of one kind do not."""
    modes = {mode for _, mode in uses}
    return len(uses) > 1 and not all(commutes(a, b) for a in modes for b in modes)


def _steps(stmt: S.Stmt) -> Iterator[S.Stmt]:
    """Statements that threads run one after the other; a parallel loop is one of them."""
    yield stmt
    if not isinstance(stmt, S.Parallel):
        for block in stmt.blocks():
            yield from _steps(block)


def _written_global(stmt: S.Stmt) -> Iterator[E.Var]:
    """Global memory that ``stmt`` stores to or updates, for a parallel loop including its body.
    Intrinsics that move a value have no update: programs order them. Subtiles of a result are
    disjoint, and one warp has each."""
    if isinstance(stmt, (S.Copy, S.Parallel)) and stmt.hints.subtile is not None:
        return
    for access in effects.accesses(stmt, nested=isinstance(stmt, S.Parallel)):
        if access.writes and access.buffer.storage == "global":
            by = access.by
            if isinstance(by, S.Stmt) or (isinstance(by, E.Call) and by.atom.update):
                yield access.data
