"""TMA legalization outside of pipelines, including multicast: which copies use TMA, and what
replaces the others.

``T.tma_copy(src, dst, barrier=b)`` announces its bytes to ``b`` and counts them as they arrive; the
program arrives at ``b`` itself. Bytes that the program announces for such copies
(``T.mbarrier_expect_tx``) would never arrive, so these announcements are removed. An arrival that
precedes its copies moves after them: it must not complete a phase before all bytes are expected. A
copy that the program asks to arrive (``annotations={"emit_arrive": 1}``) is followed by an arrival
of its first thread. Where TMA cannot make all copies of a kernel, ordinary loads and stores before
that arrival replace them: what a thread wrote is visible to those that waited for its arrival.

``T.copy`` of a large enough tile becomes a synchronous TMA copy. ``T.atomic_add(...,
use_tma=True)`` becomes a TMA reduction.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from math import prod

from tilelang.errors import TileValueError, TileWarning
from tilelang.ir import effects, expr as E, schedule as H, stmt as S
from tilelang.ir.atoms import BARRIER
from tilelang.ir.buffer import Region
from tilelang.ir.hints import CopyHints
from tilelang.ir.tables import MBARRIER_ARRIVE
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.analysis.groups import thread_groups, thread_number
from tilelang.transforms.analysis.tma import TmaOp
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.tma_copies import TmaFacts


def legalize_tma_copies(launch: S.Launch, facts: Facts) -> S.Launch:
    """``launch`` with every copy of mode "tma" legal for TMA. Runs after

    the pipelines are planned, whose TMA copies stay as they are. Synchronous copies have the hint
    ``complete``; why a copy is not legal is in ``tma_note``.
    """
    launch = _for_clusters(launch)
    tma = facts.tma(launch)
    return _legalize(_choose_tma_copies(_use_tma_reductions(launch, tma), tma), tma)


def _for_clusters(launch: S.Launch) -> S.Launch:
    """``launch`` with every load of mode "cluster" one of mode "copy", which several blocks may
    share.

    Raises:
        TileValueError: the cluster has no such blocks.
    """
    dims = launch.hints.cluster_dims or (1,)

    def checked(stmt: S.Copy) -> S.Stmt:
        mask = stmt.hints.cluster_mask
        if mask is None and stmt.dst_block is None:
            return stmt
        mask = 1 if mask is None else mask
        if launch.hints.cluster_dims is None or not 0 < mask < 1 << prod(dims):
            raise _no_cluster(stmt, mask, prod(dims))
        multicast = stmt.mode == "cluster" and stmt.barrier is None
        return replace(stmt, mode="copy") if multicast else stmt

    return launch.with_body(map_stmts(launch.body, S.Copy, checked))


def _is_requested(stmt: S.Copy) -> bool:
    """Whether the program requests TMA for this copy, whatever its size."""
    return stmt.hints.cluster_mask is not None or stmt.hints.prefer_instruction == "tma"


def _no_cluster(stmt: S.Copy, mask: int, blocks: int) -> TileValueError:
    several = "s" if blocks != 1 else ""
    return TileValueError(
        "T.copy_cluster names blocks that the cluster does not have",
        expected="a kernel with cluster_dims=..., and bits of cluster_mask for its blocks",
        got=f"cluster_mask={mask:#b}, and {blocks} block{several} in a cluster",
        hint="write T.ClusterKernel(..., cluster_dims=(2, 1, 1))",
        loc=stmt.loc,
    )


def _use_tma_reductions(launch: S.Launch, facts: TmaFacts) -> S.Launch:
    """``launch`` with the tile atomics for which the program requests TMA, as TMA reductions or,
    where TMA cannot make them, as ordinary atomics."""

    def reduced(stmt: S.AtomicTile) -> S.Stmt:
        if not stmt.use_tma:
            return stmt
        why = facts.refusal(stmt)
        hints = replace(_with_outcome(stmt, why), unproved=_remark(stmt, why, facts))
        reduction = replace(stmt, use_tma=why is None, hints=hints)
        return _select_tma(stmt, reduction, facts) if why is None else reduction

    return launch.with_body(map_stmts(launch.body, S.AtomicTile, reduced))


def _remark(stmt: TmaOp, why: str | None, facts: TmaFacts) -> str | None:
    """A remark on a copy by TMA that is not proved to be the same in all threads."""
    unproved = facts.unproved(stmt) if why is None else None
    if unproved is None:
        return None
    message = (
        f"`{unproved!r}` is not proved uniform: one thread issues the copy, with its own value; "
        "tilelang.sanitize finds threads with another value"
    )
    if stmt.loc is not None:
        warnings.warn_explicit(message, TileWarning, stmt.loc.file, stmt.loc.line)
    return f"{unproved!r}"


def _with_outcome(stmt: TmaOp, why: str | None) -> CopyHints:
    """The hints of a copy that TMA makes, or that it does not make because of ``why``."""
    return replace(stmt.hints, complete=why is None, tma_note=why)


def _choose_tma_copies(launch: S.Launch, facts: TmaFacts) -> S.Launch:
    """``launch`` with TMA copies that the program does not require. Their barriers need shared
    memory, which a kernel near the limit does not have."""
    context = facts.context
    if not context.has("tma") or context.options.no_tma or context.saves_shared:
        return launch
    ahead = _loads_without_barrier(launch)

    def chosen(stmt: S.TileCopy) -> S.Stmt:
        if stmt.mode != "copy" or isinstance(stmt, S.Gather):
            return stmt
        if isinstance(stmt, S.Im2col):
            why = _NO_BARRIER if stmt in ahead else facts.refusal(stmt)
            return replace(stmt, hints=_with_outcome(stmt, why))
        if not (facts.is_profitable(stmt) or _is_requested(stmt)):
            return stmt
        why = _NO_BARRIER if stmt in ahead and not _is_requested(stmt) else facts.refusal(stmt)
        mode = "tma" if why is None else "copy"
        copied = replace(stmt, mode=mode, hints=_with_outcome(stmt, why))
        return _select_tma(stmt, copied, facts) if why is None else copied

    return launch.with_body(map_stmts(launch.body, S.COPIES, chosen))


def _select_tma(stmt: TmaOp, by_tma: TmaOp, facts: TmaFacts) -> S.Stmt:
    """``by_tma`` if it is legal, else ``stmt`` by threads, which drop elements out of bounds."""
    cond = facts.begins_inside(stmt)
    if isinstance(cond, E.Const):
        return by_tma
    by_threads = replace(stmt, use_tma=False) if isinstance(stmt, S.AtomicTile) else stmt
    return S.If(cond=cond, then=by_tma, orelse=by_threads, loc=stmt.loc)


_NO_BARRIER = "it would need another barrier in each iteration"


def _loads_without_barrier(launch: S.Launch) -> set[S.Stmt]:
    """Loads in loops without a barrier between two iterations, where a barrier for the
    phases of the load's mbarrier alone would cost more than the load gains. There is a barrier
    anyway between two loads that fill the same elements, which threads read meanwhile; it does not
    where mbarriers order the uses of a tile."""
    own = any(call.atom.signals for call in S.calls(launch.body))
    tiles = {data for node in S.find(launch.body, H.Pipeline) for data in node.tiles}
    return {
        node
        for loop in S.find(launch.body, S.For, S.While)
        for node in S.find(loop, *S.COPIES)
        if node.src.buffer.storage == "global"
        and (own or node.dst.buffer.data in tiles or not _uses_same_elements(node.dst, loop))
    }  # fmt: skip


def _uses_same_elements(tile: Region, loop: S.For | S.While) -> bool:
    """Whether each iteration of ``loop`` fills and reads the same elements."""
    bound = S.bound(loop)
    coords = (*tile.mins, *(E.as_expr(extent) for extent in tile.extents))
    moving = any(
        E.holds(coord, E.Load) or not bound.isdisjoint(coord.variables) for coord in coords
    )
    return not moving and any(
        access.buffer.data is tile.buffer.data and access.mode == "read"
        for access in effects.accesses(loop.body, nested=True)
    )


def _legalize(launch: S.Launch, facts: TmaFacts) -> S.Launch:
    """``launch`` with explicit copies that count bytes themselves: announcements are theirs."""
    explicit = [stmt for stmt in S.walk(launch.body) if _is_bulk(stmt)]
    if not explicit:
        return launch
    reasons = (facts.refusal(stmt) for stmt in explicit if isinstance(stmt, S.Copy))
    why = next((reason for reason in reasons if reason is not None), None)
    body = launch.body
    if any(isinstance(stmt, S.Copy) and stmt.arrives for stmt in explicit):
        body = _with_arrivals(launch, facts.context.limits.warp)
    arrives_after: set[S.Stmt] = set()  # copies after which all that make them arrive themselves
    counted = any(call.atom.completes.kind == "mbarrier" for call in S.calls(body))

    def sunk(seq: S.Seq) -> S.Stmt:
        stmts = _sink_arrivals(seq.stmts)
        for k, stmt in enumerate(stmts):
            if _is_bulk(stmt) and _arrives_next(stmts[k + 1 :], stmt):
                arrives_after.add(stmt)
        return seq if stmts == list(seq.stmts) else S.seq(*stmts)

    def legal(stmt: S.Copy | S.Eval) -> S.Stmt | None:
        if isinstance(stmt, S.Copy):
            if not _is_bulk(stmt):
                return stmt
            signals = stmt.barrier is not None and stmt not in arrives_after
            unproved = _remark(stmt, why, facts)
            hints = replace(stmt.hints, signals=signals, tma_note=why, unproved=unproved)
            copy = replace(stmt, hints=hints)
            return copy if why is None else replace(copy, mode="copy", barrier=None)
        call = stmt.call
        if counted or call is None:
            return stmt
        if _announces(call):
            return None
        arrives = call.atom.orders is not None and call.atom.orders.expects and _arrives(call)
        return S.do(MBARRIER_ARRIVE, call.args[0], loc=stmt.loc) if arrives else stmt

    body = body if counted else map_stmts(body, S.Seq, sunk)
    return launch.with_body(map_stmts(body, (S.Copy, S.Eval), legal))


def _with_arrivals(launch: S.Launch, warp: int) -> S.Stmt:
    """The body of ``launch`` with the arrivals that copies request."""
    groups, thread = thread_groups(launch, warp), thread_number(launch)

    def arriving(stmt: S.Copy) -> S.Stmt | list[S.Stmt]:
        if not (_is_bulk(stmt) and stmt.arrives):
            return stmt
        assert isinstance(stmt.barrier, E.Expr)
        arrive = S.do(MBARRIER_ARRIVE, stmt.barrier, loc=stmt.loc)
        return [stmt, S.If(cond=thread.equal(groups.of(stmt)[0]), then=arrive, loc=stmt.loc)]

    return map_stmts(launch.body, S.Copy, arriving)


def _is_bulk(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a bulk copy that the program orders; a pipeline's names the pipeline."""
    if not isinstance(stmt, S.Copy) or stmt.mode != "tma" or isinstance(stmt.barrier, E.Var):
        return False
    return not stmt.hints.complete


def _announces(call: E.Call) -> bool:
    """Whether a call only makes a barrier expect bytes."""
    return call.atom.orders is not None and call.atom.orders.kind == "expect"


def _arrives(call: E.Call) -> bool:
    """Whether the thread arrives at a barrier in memory there."""
    orders = call.atom.orders
    arrives = orders is not None and orders.kind == "arrive" and not orders.group
    return arrives and call.atom.operands[:1] == (BARRIER,)


def _sink_arrivals(stmts: tuple[S.Stmt, ...]) -> list[S.Stmt]:
    """``stmts`` with arrivals that announce bytes after the copies that bring them: those up to
    the next use of the same barrier. Any other arrival goes after copies that follow at once."""
    pending = list(stmts)
    result: list[S.Stmt] = []
    while pending:
        first = pending.pop(0)
        barrier, announced = _arrival(first)
        end = 0
        for k, other in enumerate(pending if barrier is not None else ()):
            if not announced and not _is_bulk(other):
                break
            if any(call.args and call.args[0] is barrier for call in S.calls(other)):
                break
            if any(_is_bulk(node) and node.barrier is barrier for node in S.find(other, S.Copy)):
                end = k + 1
        result += pending[:end]
        del pending[:end]
        result.append(first)
    return result


def _arrival(stmt: S.Stmt) -> tuple[E.Expr | None, bool]:
    """The barrier, if ``stmt`` is only an arrival (maybe of some threads), and whether
    it announces bytes."""
    while isinstance(stmt, S.If) and stmt.orelse is None:
        stmt = stmt.then
    call = stmt.call
    if call is None or not _arrives(call):
        return None, False
    announced = call.atom.orders is not None and call.atom.orders.expects
    return (call.args[0], announced) if announced or len(call.args) == 1 else (None, False)


def _arrives_next(rest: list[S.Stmt], copy: S.Stmt) -> bool:
    """Whether the threads that make ``copy`` arrive next, each of them."""
    assert isinstance(copy, S.Copy)
    for stmt in rest:
        call = stmt.call
        if call is not None and _arrives(call):
            return len(call.args) > 0 and call.args[0] is copy.barrier
        if not _is_bulk(stmt) and (call is None or not _announces(call)):
            return False
    return False
