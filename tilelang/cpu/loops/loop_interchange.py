"""Loop interchange: a row that is updated in pieces is finished before the next row.

A tiled matrix-vector product has three loops: steps along k, rows of the tile, and elements of a
piece of a row. So it reads pieces that are one row apart, and the hardware prefetcher fetches data
that is not needed soon. With the outer loops interchanged, each row is read from its start to its
end.

The outer loop copies pieces of vectors into tiles and contains a loop over rows. Condition: no row
uses what another row writes, in any step. The operations of each element keep their order, so
results do not change. The copies are removed: the loop over rows reads their sources directly, once
per row, so the sources must fit into a cache.

Runs after loop fusion and array contraction: a loop over the rows of a tile is a single loop, and
values of one iteration are not in tiles.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from tilelang.cpu.loops.copy_forwarding import ForwardLoads, TileCopy, tile_copy
from tilelang.cpu.loops.nests import line_of
from tilelang.cpu.loops.scalar_replacement import element_tiles
from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.linear import parted
from tilelang.ir.visitor import rewrite_blocks, rewrite_launches, without_allocations
from tilelang.target import Context
from tilelang.transforms.analysis.dependence import Memory
from tilelang.transforms.analysis.loops import trip_count
from tilelang.transforms.notes import with_lines

LARGEST = 128 * 1024  # bytes of vectors that every row reads again: they stay in the second cache


def interchange_loops(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` with loops over rows around those along them."""
    memory, removed = Memory(func), set[E.Var]()

    def interchanged(launch: S.Launch) -> S.Stmt:
        counts, lines = element_tiles(launch.body), list[str]()

        def visit(stmt: S.Stmt) -> S.Stmt:
            result = _interchange(stmt, counts, memory) if isinstance(stmt, S.For) else None
            if result is None:
                return rewrite_blocks(stmt, visit)
            removed.update(result[1])
            lines.append(line_of(result[0], "runs row by row (loop interchange)"))
            return result[0]

        body = visit(launch.body)
        return with_lines(launch.with_body(body), tuple(filter(None, lines))) if lines else launch

    result = rewrite_launches(func, interchanged)
    return result.with_body(without_allocations(result.body, removed)) if removed else result


def _interchange(
    steps: S.For, counts: dict[E.Var, int], memory: Memory
) -> tuple[S.For, dict[E.Var, TileCopy]] | None:
    """The loop over rows with ``steps`` in it, and the copies that it needs no more, if ``steps``
    is a loop along rows."""
    *before, rows = S.flat(steps.body) or [steps.body]
    if not isinstance(rows, S.For) or not _is_fixed(steps) or not _is_fixed(rows):
        return None
    if steps.hints or not rows.hints.has_only("parallel"):
        return None
    found_copies = [tile_copy(stmt, counts) for stmt in before]
    copies = {copy.store.buffer.data: copy for copy in found_copies if copy is not None}
    if len(copies) != len(before):
        return None
    uses = Counter(access.data for access in effects.accesses(steps.body, nested=True))
    if any(uses[data] != counts[data] for data in copies):
        return None
    interchanged = replace(rows, body=replace(steps, body=ForwardLoads(copies).rewrite(rows.body)))
    facts = memory.facts(interchanged)
    if (
        not facts.quiet
        or not memory.is_fusion_legal(interchanged, interchanged)
        or not _is_along(interchanged, steps.var)
    ):
        return None
    tiles = (copy.store.buffer for copy in copies.values())
    reread_bytes = sum(tile.constant_bytes for tile in tiles) * (trip_count(steps) or 0)
    return (interchanged, copies) if reread_bytes <= LARGEST else None


def _is_fixed(loop: S.For) -> bool:
    """Whether ``loop`` runs a constant number of times and is not written out."""
    return loop.kind in ("serial", "pipelined") and bool(trip_count(loop))


def _is_along(rows: S.For, step: E.Var) -> bool:
    """Whether the steps within a row continue each other somewhere in memory, and no element's
    neighbour in memory is that of the next row."""
    inner = {node.var: trip_count(node) for node in S.find(rows.body, S.For)}
    loop_vars, continued = frozenset((rows.var, *inner)), False
    for access in effects.accesses(rows.body, nested=True):
        if access.buffer.storage != "global" or not access.indices:
            continue
        *leading, last = access.indices
        form = parted(last, loop_vars)
        if form is None or form[0].factor(rows.var):
            return False
        if any(rows.var in index.variables for index in leading):
            pieces = [count for var, count in inner.items() if form[0].factor(var) == 1]
            continued |= form[0].factor(step) in pieces
    return continued
