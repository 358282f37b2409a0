"""Redundant barrier elimination: drop barriers whose accesses other barriers order already.

Tiles are ordered before it is known how they are computed: a maximum that several warps share goes
through a workspace between two barriers of its own, and what follows gets another one. Here all of
them are known. One is dropped where, in one sequence of statements, there is another one
before it and again behind it, and no statement of the one gap uses what a statement of the other
writes: everything else is ordered by these two.

In the gaps only threads may access memory, at once, and nobody may be told of it: arrivals, waits
and units stand next to barriers that stay. A tile that products of warpgroups read is free only
where they have been waited for before the first of the three barriers.

Relies on barriers and workspaces being final; the plan of shared memory sees what is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import TypeAlias

from tilelang.ir import effects
from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Atom, Effect
from tilelang.ir.visitor import Rewriter, rewrite_bodies
from tilelang.target import Context, operations
from tilelang.transforms.analysis.scopes import FRAGMENT

Units: TypeAlias = "Mapping[object, set[Atom]]"  # storage -> what uses it asynchronously
NEIGHBOURS = 3  # a barrier between two others
WORKSPACE = 1024  # bytes that may stay in use a little longer
_ACCESSES = (Effect.NONE, Effect.HINT, Effect.READ, Effect.WRITE)
_OWN = (FRAGMENT, "local", "local.var")  # memory of one thread
_ALONE = (operations.FENCE_PROXY_ASYNC, operations.WARPGROUP_WAIT, operations.WARPGROUP_FENCE)
_PRODUCTS = (operations.WGMMA_SS, operations.WGMMA_RS)
_LEAVES = (S.Break, S.Continue, S.ThreadReturn, S.While)


def eliminate_barriers(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func``, Thread IR, without the barriers that order nothing more."""
    if context.options.no_auto_sync:
        return func

    def dropped(launch: S.Launch) -> S.Stmt:
        if sum(_block_barrier(node) is not None for node in S.walk(launch.body)) < NEIGHBOURS:
            return launch.body
        return _BarrierEliminator(launch).rewrite(launch.body)

    return rewrite_bodies(func, dropped)


class _BarrierEliminator(Rewriter):
    def __init__(self, launch: S.Launch) -> None:
        self.units = _units(launch)
        groups = launch.hints.barrier_ids
        self.known = {(E.const(ident), E.const(count)) for _, count, ident in groups}
        self.branches = 0  # around the statement in hand

    def _visit(self, stmt: S.Stmt) -> S.Stmt | list[S.Stmt]:
        self.branches += isinstance(stmt, S.If)
        rewritten = super()._visit(stmt)
        self.branches -= isinstance(stmt, S.If)
        return rewritten

    def stmt(self, stmt: S.Stmt) -> S.Stmt:
        """A sequence without the barriers that its others make needless."""
        if not isinstance(stmt, S.Seq):
            return stmt
        stmts, at = list(S.flat(stmt)), 0
        count = len(stmts)
        while at < len(stmts):
            call = _block_barrier(stmts[at])
            if call is not None and self.is_of_all(call) and _is_redundant(stmts, at, self.units):
                del stmts[at]
            else:
                at += 1
        return stmt if len(stmts) == count else S.seq(*stmts)

    def is_of_all(self, call: E.Call) -> bool:
        """Whether all threads that reach the barrier take part: those of a group at its own
        barrier, or of the block outside of branches. Others may pair with threads elsewhere."""
        return call.args in self.known if call.args else self.branches == 0


def _block_barrier(stmt: S.Stmt) -> E.Call | None:
    """The barrier of a block that ``stmt`` is, if it is one."""
    call = stmt.call
    return call if call is not None and call.atom.is_barrier("block") else None


def _is_redundant(stmts: Sequence[S.Stmt], at: int, units: Units) -> bool:
    """Whether the barrier ``stmts[at]`` orders nothing that its neighbours do not."""
    here = _block_barrier(stmts[at])
    assert here is not None
    first = next((k for k in range(at - 1, -1, -1) if not _is_plain(stmts[k])), None)
    last = next((k for k in range(at + 1, len(stmts)) if not _is_plain(stmts[k])), None)
    if first is None or last is None:
        return False
    around = (_block_barrier(stmts[first]), _block_barrier(stmts[last]))
    if any(call is None or call.args != here.args for call in around):
        return False
    before, after = stmts[first + 1 : at], stmts[at + 1 : last]
    written_before, used_before = _shared(before, written=True), _shared(before)
    written_after, used_after = _shared(after, written=True), _shared(after)
    if not (
        written_before.isdisjoint(used_after) and used_before.isdisjoint(written_after)
    ) or _has_large_workspace(before):
        return False
    return _is_complete(stmts[:first], written_after, units)


def _has_large_workspace(stmts: Iterable[S.Stmt]) -> bool:
    """Whether the memory of a workspace of ``stmts`` should be reused by what follows."""
    workspaces = {
        access.buffer
        for stmt in stmts
        for access in effects.accesses(stmt, nested=True)
        if access.buffer.storage == "shared" and access.buffer.attrs.made
    }
    bits = (prod(map(int, buffer.shape)) * buffer.dtype.bits for buffer in workspaces)
    return sum(bits) // 8 > WORKSPACE


def _is_plain(stmt: S.Stmt) -> bool:
    """Whether threads do no more in ``stmt`` than compute and access memory, at once."""
    for node in S.walk(stmt):
        if isinstance(node, _LEAVES):
            return False
        calls = node.calls()
        if not all(map(_accesses, calls)):
            return False
        if any(access.how in (effects.How.ASYNC, effects.How.NAMED, effects.How.TENSOR)
               for access in effects.accesses(node)):  # fmt: skip
            return False
    return True


def _accesses(call: E.Call) -> bool:
    atom = call.atom
    if atom in _ALONE or atom.exchanges == "warp":
        return True
    return atom.effect in _ACCESSES and not atom.own_order and not atom.exchanges


def _shared(stmts: Iterable[S.Stmt], written: bool = False) -> set[object]:
    """The storage that ``stmts`` use, or write, and threads have in common. All tensors are one:
    they may lie over each other."""
    return {
        access.data if access.buffer.storage.startswith("shared") else "elsewhere"
        for stmt in stmts
        for access in effects.accesses(stmt, nested=True)
        if access.buffer.storage not in _OWN and not isinstance(access.by, S.Alloc)
        if access.writes or not written
    }


def _is_complete(stmts: Sequence[S.Stmt], tiles: set[object], units: Units) -> bool:
    """Whether no unit uses any of ``tiles`` behind ``stmts``, as far as it was started there or in
    an iteration before: only products do, and all of them have been waited for."""
    busy = tiles & units.keys()
    if not busy:
        return True
    if any(atom not in _PRODUCTS for data in busy for atom in units[data]):
        return False
    for stmt in reversed(stmts):
        call = stmt.call
        if call is not None and call.atom is operations.WARPGROUP_WAIT:
            return call.args == (E.const(0),)
        if not busy.isdisjoint(effects.used(stmt)) and not _is_plain(stmt):
            return False
    return False


def _units(launch: S.Launch) -> Units:
    """The storage that other calls than accesses of threads use, and which."""
    units: dict[object, set[Atom]] = {}
    for node in S.walk(launch.body):
        for call in node.calls():
            if not _accesses(call):
                for data in effects.used(call):
                    units.setdefault(data, set()).add(call.atom)
    return units
