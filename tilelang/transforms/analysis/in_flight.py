"""Outstanding operations: which products and TMA updates are incomplete, and what needs a wait.

A product of a warpgroup, and an update of global memory by TMA, run asynchronously until the
threads that issued them wait: "all groups but the N last are complete" (PTX, "wgmma.wait_group" and
"cp.async.bulk.wait_group"). All threads of a warpgroup issue its products; one thread issues an
update. The groups of an issuer complete in order. So for each operation in flight the analysis
keeps the least number of groups that its issuer committed after it, over all paths. Where there are
more, the same wait only waits for more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import cached_property
from typing import TypeAlias

from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.lanes import WARP
from tilelang.transforms.analysis.groups import thread_groups
from tilelang.transforms.analysis.mechanism import MECHANISMS, changed
from tilelang.transforms.analysis.reductions import has_barrier
from tilelang.transforms.analysis.scopes import FRAGMENT
from tilelang.transforms.analysis.tma import is_complete, is_only_added

GROUP = "wgmma"
Operation: TypeAlias = "S.Gemm | S.AtomicTile"
Pending: TypeAlias = "Mapping[Operation, int]"  # how many groups are certainly newer
NOTHING: Pending = {}
NO_ISSUERS: Mapping[S.Stmt, int] = {}


def can_stay_in_flight(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a product of warpgroups into registers that a later wait can be for: it
    adds up in those of its result and converts nothing."""
    if not isinstance(stmt, S.Gemm) or stmt.plan is None or not stmt.plan.uses_wgmma:
        return False
    return stmt.c.buffer.storage == FRAGMENT and stmt.c.dtype is stmt.plan.atom.c


def issuers(launch: S.Launch) -> dict[S.Stmt, int]:
    """The updates by TMA that a later wait can be for, with the thread that issues each.

    Updates of a tensor that is only added to come in any order: none has to be written before the
    next. Nothing overlaps an update at the end of a branch, of a role or of the kernel.
    """
    body = launch.body
    updates = {node for node in S.find(body, S.AtomicTile) if is_complete(node)}
    if not updates:
        return {}
    blocks = (block for node in S.find(body, S.If, H.Run) for block in node.blocks())
    groups = thread_groups(launch, WARP)
    alone = {S.flat(block)[-1:] for block in (body, *blocks)}
    return {
        update: groups.of(update)[0]
        for update in updates - groups.elected - groups.divergent
        if (update,) not in alone and is_only_added(update, body)
    }


def after_issue(
    before: Pending, issued: Operation, threads: Mapping[S.Stmt, int] = NO_ISSUERS
) -> Pending:
    """Operations that may be in flight after ``issued``. ``threads``: those that issue updates."""
    newer = {op: count + (threads.get(op) == threads.get(issued)) for op, count in before.items()}
    return {**newer, issued: 0}


def after_wait(
    before: Pending,
    newer: int,
    threads: Mapping[S.Stmt, int] = NO_ISSUERS,
    issuer: int | None = None,
) -> Pending:
    """Operations in flight when all but the ``newer`` last groups of ``issuer`` are complete: of a
    thread of ``threads``, which issue updates, or None for the products of warpgroups."""
    return {op: n for op, n in before.items() if n < newer or threads.get(op) != issuer}


def merge(first: Pending, second: Pending) -> Pending:
    """Operations that may be in flight where two paths join."""
    if first == second:
        return first
    return {
        operation: min(state[operation] for state in (first, second) if operation in state)
        for operation in (*first, *(operation for operation in second if operation not in first))
    }


def depth(before: Pending, operations: Iterable[Operation]) -> int | None:
    """The most groups in flight where ``operations`` of one issuer have to be complete."""
    return min((before[operation] for operation in operations), default=None)


class Needs:
    """The operations that statements of a launch need to be complete.

    Threads may access the accumulator of a product and its register operand only when the product
    is complete, also to read the operand, which is undefined before (PTX, "wgmma.mma_async").
    Other products may read it earlier. The threads of the product may then overwrite its operands
    in shared memory. Other threads may overwrite them after a barrier, or, for the tiles of a
    pipeline with mbarriers, after the release of the stage. The same holds for the tile that an
    update reads.

    ``issuers``: the updates, see :func:`issuers`.
    ``read_only``: storage that nothing writes in the loop around, which stays allocated there.
    """

    read_only: frozenset[E.Var] = frozenset()

    def __init__(self, launch: S.Launch) -> None:
        self.launch = launch
        self.issuers = issuers(launch)
        self.tiles: dict[E.Expr, Set[E.Var]] = {}  # pipeline with mbarriers -> its tiles
        # Product -> the tiles of such pipelines around it.
        self.pipelined_tiles: dict[S.Stmt, Set[E.Var]] = {}
        for node in S.find(launch.body, H.Pipeline):
            if MECHANISMS[node.mechanism].has_phases:
                self.tiles[node.pipe] = frozenset(node.tiles)
                tiles = frozenset(node.tiles) - changed(node, node.tiles)
                for inner in filter(can_stay_in_flight, S.walk(node.body)):
                    self.pipelined_tiles[inner] = self.pipelined_tiles.get(inner, tiles) | tiles

    def unwritten(self, loop: S.For | S.While) -> frozenset[E.Var]:
        """Storage that ``loop`` uses and that nothing writes while it runs: neither the loop, nor
        threads that are elsewhere, where the program tells them when they may."""
        used = effects.used(loop.body) - effects.written(loop.body)
        if not self.is_user_synchronized:
            return frozenset(used)
        paths = list(_with_paths(self.launch.body, ()))
        around = next(path for stmt, path in paths if stmt is loop)
        others = (stmt for stmt, path in paths if path != around[: len(path)])
        return frozenset(used.difference(*(effects.written(stmt, nested=False) for stmt in others)))

    @cached_property
    def is_user_synchronized(self) -> bool:
        """Whether the program itself orders groups of threads."""
        generated = {ident for _, _, ident in self.launch.hints.barrier_ids}
        return any(
            call.atom.signals
            or (
                call.atom.is_barrier("block")
                and len(call.args) > 1
                and _number(call.args[0]) not in generated
            )
            for call in S.calls(self.launch.body)
        )

    def of(self, stmt: S.Stmt, before: Pending, nested: bool = True) -> list[Operation]:
        """Operations that have to be complete before ``stmt``, or what it evaluates itself."""
        if not before:
            return []
        if isinstance(stmt, H.PipelineStep) and stmt.pipe in self.tiles:
            released = self.tiles[stmt.pipe] if isinstance(stmt, H.Release) else frozenset()
            return [op for op in before if not released.isdisjoint(_shared(op))]
        if isinstance(stmt, S.If) and any(isinstance(x, H.Acquire) for x in S.flat(stmt.then)):
            nested = False  # it fills a version whose release has waited for its readers
        has_barrier = any(map(orders_threads, tuple(S.walk(stmt)) if nested else (stmt,)))
        used, written = effects.used(stmt, nested), effects.written(stmt, nested)
        needed = []
        for operation in before:
            shared = _shared(operation)
            pipelined_tiles = self.pipelined_tiles.get(operation, frozenset())
            signals_others = has_barrier and not shared <= pipelined_tiles | self.read_only
            if signals_others or not shared.isdisjoint(written):
                needed.append(operation)
            elif isinstance(operation, S.Gemm):
                operands = {operation.a.buffer.data, operation.b.buffer.data} - shared
                sums = operation.c.buffer.data in used and not continues(stmt, operation)
                read = operands & used and not can_stay_in_flight(stmt)
                if sums or read or not operands.isdisjoint(written):
                    needed.append(operation)
        return needed

    def at_end(self, pipeline: H.Pipeline, before: Pending) -> list[Operation]:
        """Operations that have to be complete where ``pipeline`` ends."""
        return [op for op in before if not _shared(op).isdisjoint(pipeline.tiles)]


def continues(stmt: S.Stmt, product: S.Gemm) -> bool:
    """Whether ``stmt`` adds to the sum of ``product`` in the same registers by instructions of the
    same shape, which the tensor core orders itself (PTX, "wgmma.fence")."""
    if not isinstance(stmt, S.Gemm) or not can_stay_in_flight(stmt):
        return False
    if stmt.c.buffer.data in {stmt.a.buffer.data, stmt.b.buffer.data}:
        return False
    ours, theirs = stmt.plan, product.plan
    is_accumulating = stmt.c.buffer is product.c.buffer and ours.c == theirs.c
    return is_accumulating and ours.atom == theirs.atom and ours.tiles[:2] == theirs.tiles[:2]


def orders_itself(launch: S.Launch) -> bool:
    """Whether the program issues, or waits for, such groups by instructions of its own."""
    return any(
        call.atom.completes.name == GROUP or (call.atom.orders and call.atom.orders.group == GROUP)
        for call in S.calls(launch.body)
    )


def groups_in_flight(stmt: S.Stmt) -> int | None:
    """The number of groups that a wait of the program leaves in flight; None for other
    statements."""
    call = stmt.call
    if call is None or not call.atom.waits_for(GROUP):
        return None
    count = call.args[0] if call.args else None
    return int(count) if isinstance(count, E.Const) else None


def _shared(operation: Operation) -> set[E.Var]:
    """Storage of the operands that the tensor core reads from shared memory."""
    regions = [operation.a, operation.b] if isinstance(operation, S.Gemm) else [operation.src]
    return {region.buffer.data for region in regions if region.buffer.storage != FRAGMENT}


def _number(ident: E.Expr) -> int:
    """The number of a barrier, -1 where it is not known."""
    return int(ident.value) if isinstance(ident, E.Const) else -1


def _with_paths(
    stmt: S.Stmt, path: tuple[tuple[int, int], ...]
) -> Iterator[tuple[S.Stmt, tuple[tuple[int, int], ...]]]:
    yield stmt, path
    for side, block in enumerate(stmt.blocks()):
        yield from _with_paths(block, (*path, (id(stmt), side)) if isinstance(stmt, S.If) else path)


def orders_threads(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` itself is, or holds, a barrier or a fence, or signals other threads."""
    if isinstance(stmt, (H.PipelineStep, H.Pipeline)) or has_barrier(stmt, WARP):
        return True
    return any(call.atom.effect is Effect.SYNC for call in stmt.calls())
