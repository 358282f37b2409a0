"""Unrolling for memory: the loads of several iterations are in flight."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.ir import expr as E
from tilelang.ir import stmt as S
from tilelang.ir.atoms import Effect
from tilelang.ir.tables import VECTOR_COPY
from tilelang.transforms.analysis.loops import blocks_each, is_unrolled, trip_count
from tilelang.transforms.rules import Place, rule

IN_FLIGHT = 96 * 1024  # bytes that a multiprocessor asks for at once, at least
LEAST, MOST = 8, 32  # iterations that become one; the device's compiler joins a few by itself
REGISTERS, NODES = 128, 12288  # of the loads and expressions of all of them, at most
_BARS = (Effect.ATOMIC, Effect.SYNC, Effect.OUTPUT)  # loads do not pass them


@rule(S.For, needs="cp_async")
def unroll_loads(loop: S.For, place: Place) -> S.Stmt:
    """Unroll loops that load where a small grid has too few bytes in flight.

    A grid that does not fill the multiprocessors has few threads to hide the latency of memory:
    each has to ask for more at once (column sums of 8192 x 2048 by 32 blocks on an H200: 29 us as
    the compiler unrolls, 24 with eight iterations; a recurrence: 111 us with 16, 96 with 32).
    Loops of any number of iterations may have few, and stay.
    """
    limits, trips, (size, nodes) = place.context.limits, trip_count(loop), _cost(loop.body)
    if loop.kind != "serial" or not size or not trips or place.launch is None:
        return loop
    threads = blocks_each(place.launch, limits) * prod(place.launch.threads)
    if threads * 2 > limits.threads_processor:
        return loop
    most, factor = min(MOST, 4 * REGISTERS // size, NODES // nodes, trips // 2), 1
    while factor * 2 <= most and factor * size * threads < IN_FLIGHT:
        factor *= 2
    hints = replace(loop.hints, unroll_factor=factor)
    return loop if factor < LEAST else replace(loop, kind="unroll", hints=hints)


def _cost(stmt: S.Stmt) -> tuple[int, int]:
    """Bytes of global memory that a thread loads in ``stmt``, and nodes of expressions; more than
    may be where it waits, or has a loop of its own."""
    own = [node for expr in stmt.exprs() for node in E.walk(expr)]
    bars = [node for node in own if isinstance(node, E.Call) and node.atom.effect in _BARS]
    stays = isinstance(stmt, S.For) and not is_unrolled(stmt)
    if bars or stays or isinstance(stmt, (S.While, *S.LEAVES)):
        return 0, NODES + 1
    size = sum(map(_loaded, own))
    inner = [_cost(block) for block in stmt.blocks()]
    times = (trip_count(stmt) or 1) if isinstance(stmt, S.For) else 1
    size, nodes = size + sum(cost[0] for cost in inner), len(own) + sum(cost[1] for cost in inner)
    return times * size, times * (nodes + 1)


def _loaded(node: E.Expr) -> int:
    """Bytes of global memory that ``node`` itself loads."""
    if isinstance(node, E.Call) and node.atom is VECTOR_COPY:
        return int(node.attr("bytes")) if _is_global(node.args[1]) else 0
    return node.dtype.bits // 8 if isinstance(node, E.Load) and _is_global(node) else 0


def _is_global(place: E.Expr) -> bool:
    return isinstance(place, (E.Load, E.AddressOf)) and place.buffer.storage == "global"
