"""Group fragments: operations of the whole block on a fragment that only some threads use.

For example ``T.clear(acc)`` before `if tx < 128:`, where only these 128 threads use ``acc``. They
hold the elements, so they execute the operation. An operation that only fills the fragments of
several groups is executed in each of them.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.elementwise import loop_of
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.analysis.groups import ThreadGroups, is_among, thread_groups
from tilelang.transforms.analysis.scopes import FRAGMENT

Group = tuple[int, int]  # first thread, count


def in_their_groups(launch: S.Launch, warp: int) -> S.Launch:
    """``launch`` with operations on fragments of fewer threads in branches of these."""
    groups = thread_groups(launch, warp)
    holders = _holders(launch, groups)

    def branched(stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        subsets = _parts(stmt, groups.of(stmt), holders) if loop_of(stmt) is not None else []
        if not subsets:
            return stmt
        return [
            S.If(cond=is_among(launch, *group), then=replace(stmt), loc=stmt.loc)
            for group in subsets
        ]

    return launch.with_body(map_stmts(launch.body, (S.Fill, S.Copy, S.Parallel), branched))


def _holders(launch: S.Launch, groups: ThreadGroups) -> dict[E.Var, frozenset[Group]]:
    """The smallest groups that use each fragment."""
    uses: dict[E.Var, set[Group]] = {}
    for stmt in S.walk(launch.body):
        if isinstance(stmt, (S.TileOp, S.Parallel)) or loop_of(stmt) is not None:
            for access in effects.accesses(stmt, nested=True):
                if access.buffer.storage == FRAGMENT:
                    uses.setdefault(access.data, set()).add(groups.of(stmt))
    least = {data: min(count for _, count in counts) for data, counts in uses.items()}
    return {d: frozenset(g for g in counts if g[1] == least[d]) for d, counts in uses.items()}


def _parts(stmt: S.Stmt, own: Group, owners: dict[E.Var, frozenset[Group]]) -> list[Group]:
    """The groups that do ``stmt`` instead of ``own``; none where it stays as it is."""
    accesses = list(effects.accesses(stmt, nested=True))
    holders = {owners[a.data] for a in accesses if a.buffer.storage == FRAGMENT}
    if len(holders) != 1:
        return []
    groups = sorted(next(iter(holders)))
    inside = all(own[0] <= lo and lo + count <= sum(own) for lo, count in groups)
    if not inside or groups[0][1] >= own[1]:
        return []
    if any(a.buffer.storage.startswith("local") and a.buffer.storage != FRAGMENT for a in accesses):
        return []  # all threads have private memory
    writes_memory = any(a.writes and a.buffer.storage != FRAGMENT for a in accesses)
    return [] if writes_memory and len(groups) > 1 else groups
