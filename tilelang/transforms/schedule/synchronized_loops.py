"""Buffer versions for pipelined loops that the program synchronizes with its own mbarriers.

``T.Pipelined(n, num_stages=s)`` in which threads wait at mbarriers for the parity of the iteration
keeps its order: iteration ``k`` uses version ``k % s`` of each tile and of each mbarrier, whose
phases ``k // s`` counts. A version runs through the synchronization of the program with each
``s``-th iteration, so that what the program orders is ordered within a version. This is legal if
iterations are alike, and if threads exchange values by nothing but tiles whose first access in an
iteration copies to all of them: none is kept for the next iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import is_same_extent
from tilelang.ir.simplify import simplify
from tilelang.ir.tables import MBARRIER_WAIT
from tilelang.ir.uniform import PRIVATE
from tilelang.ir.visitor import map_stmts, rewrite_exprs, substitute
from tilelang.transforms.analysis.loops import steps_by_one
from tilelang.transforms.schedule.buffer_versions import UseVersions, Version, versioned
from tilelang.transforms.schedule.choose import SPARE
from tilelang.transforms.schedule.iteration import shared_bytes
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.pipeline import is_pipelined, stages_of
from tilelang.transforms.schedule.shrink_live_ranges import overwrites

Uses = dict[E.Var, list[effects.Access]]  # storage -> its accesses in an iteration, in order


def version_synchronized_loops(launch: S.Launch, facts: Facts) -> S.Launch:
    """``launch`` with the versions that its synchronized loops ask for, where that is legal."""
    loops = S.find(launch.body, S.For, S.While)
    nested = {inner for loop in loops for inner in S.find(loop.body, S.For)}
    for loop in loops:
        if is_pipelined(loop) and stages_of(loop) > 1 and loop not in nested:
            launch = _versioned(launch, loop, stages_of(loop), facts)
    return launch


def _versioned(launch: S.Launch, loop: S.For, stages: int, facts: Facts) -> S.Launch:
    uses: Uses = {}
    for access in effects.accesses(loop.body, nested=True):
        if access.buffer.storage not in (*PRIVATE, "local.fragment"):
            uses.setdefault(access.data, []).append(access)
    barriers = {data for data, own in uses.items() if own[0].buffer.storage == "shared.barrier"}
    tiles = {data for data, own in uses.items() if any(use.writes for use in own)} - barriers
    buffers = {data: uses[data][0].buffer for data in (*barriers, *tiles)}
    size = shared_bytes(launch) + (stages - 1) * sum(buffers[tile].constant_bytes for tile in tiles)
    is_legal = (
        barriers
        and all(buffers[data].constant_bytes == 8 for data in barriers)
        and all(_is_exchanged(uses[data]) for data in tiles)
        and all(use.buffer is buffers[data] for data in buffers for use in uses[data])
        and _is_local(launch, uses, buffers.keys())
        and _are_alike(loop, barriers)
        and size + SPARE <= facts.context.limits.shared_block
        and not facts.context.saves_shared
    )
    if not is_legal:
        return launch  # with one version, whose order the program states
    slot, phase = E.as_expr(loop.var % stages), {loop.var: loop.var // stages}
    stated = dict(launch.hints.layout_map)
    tile_versions = {d: versioned(tile, stages, stated) for d, tile in buffers.items()}
    versions = UseVersions({data: Version(tile, slot) for data, tile in tile_versions.items()})

    def counted(stmt: S.Eval) -> S.Stmt:
        return rewrite_exprs(stmt, lambda e: substitute(e, phase)) if _is_wait(stmt.call) else stmt

    result = versions.rewrite(launch.with_body(map_stmts(launch.body, S.Eval, counted)))
    assert isinstance(result, S.Launch)
    return result


def _is_exchanged(uses: list[effects.Access]) -> bool:
    """Whether an iteration first overwrites the whole tile, in shared memory."""
    first = uses[0].by
    return (
        uses[0].buffer.storage.startswith("shared")
        and isinstance(first, S.Stmt)
        and overwrites(first, uses[0].buffer)
    )


def _is_local(launch: S.Launch, uses: Uses, buffers: Collection[E.Var]) -> bool:
    """Whether nothing but the loop uses the buffers."""
    everywhere = effects.accesses(launch.body, nested=True)
    counts = Counter(use.data for use in everywhere if not isinstance(use.by, S.Alloc))
    return all(counts[data] == len(uses[data]) for data in buffers)


def _is_wait(call: E.Call | None) -> bool:
    return call is not None and call.atom is MBARRIER_WAIT


def _are_alike(loop: S.For, barriers: set[E.Var]) -> bool:
    """Whether iterations do the same, and phases alternate with them."""
    if not is_same_extent(loop.start, 0) or not steps_by_one(loop):
        return False
    varying = {loop.var} | S.bound(loop.body)
    for stmt in S.walk(loop.body):
        repeats = isinstance(stmt, (S.For, S.While)) and not barriers.isdisjoint(effects.used(stmt))
        if repeats or isinstance(stmt, S.LEAVES):
            return False
        steady = [stmt.cond] if isinstance(stmt, S.If) else []
        for call in stmt.calls():
            if not barriers.isdisjoint(effects.used(call)):
                steady += [] if _is_wait(call) and _alternates(call.args[1], loop.var) else [call]
        if any(varying & expr.variables or E.holds(expr, E.Load) for expr in steady):
            return False
    return True


def _alternates(parity: E.Expr, iteration: E.Var) -> bool:
    """Whether the parity changes with the iteration and depends on nothing else."""
    pair = E.Var("pair", iteration.dtype)
    sides = [simplify(substitute(parity, {iteration: pair * 2 + k})) for k in (0, 1)]
    return all(isinstance(side, E.Const) for side in sides) and sides[0] is not sides[1]
