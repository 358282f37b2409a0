"""Serial loops that load tiles and compute with them: their copies run ahead, too.

A loop that waits for every tile has the bytes of one tile in flight, and memory answers after a
thousand cycles. Where the blocks of a multiprocessor together have too few bytes in flight to keep
memory busy, such a loop is pipelined as if the program had said so, with as many versions as it
takes (two rows of 100 Ki halves a block on an H200: 53 us, 22 so). Products are left to
``T.Pipelined``: memory does not bound them. So are small tiles, whose iterations take less time
than the steps of a pipeline.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.ir import schedule as H
from tilelang.ir import stmt as S
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.analysis.loops import blocks_each, trip_count
from tilelang.transforms.schedule.iteration import bytes_of, is_load
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.specialize_warps import shared_bytes
from tilelang.transforms.schedule.tma_copies import LEAST

IN_FLIGHT = 40 * 1024  # bytes of a multiprocessor: its share of the bandwidth, for the latency
MOST, FEW = 7, 3  # versions that run ahead; iterations of a loop

_ORDERED = (H.Pipeline, H.Roles)  # a program that orders its copies already


def pipeline_serial_loads(launch: S.Launch, facts: Facts) -> S.Launch:
    """``launch`` whose serial loops over tiles are pipelined where they wait for memory."""
    context, limits = facts.context, facts.context.limits
    if context.low_shared or not context.has("cp_async") or S.holds(launch.body, S.Gemm, *_ORDERED):
        return launch
    shared = max(1, shared_bytes(launch))
    resident = min(limits.threads_processor // prod(launch.threads), blocks_each(launch, limits))
    resident = max(1, min(resident, limits.shared_processor // shared))

    def pipelined(loop: S.For) -> S.For:
        sizes = [bytes_of(stmt.dst) for stmt in S.flat(loop.body) if is_load(stmt)]
        count = trip_count(loop)
        if loop.kind != "serial" or min(sizes, default=0) < LEAST or count in range(FEW):
            return loop
        size = sum(sizes)
        room = (limits.shared_processor // resident - shared) // size
        stages = 1 + min(MOST, -(-IN_FLIGHT // (size * resident)), room)
        # With two versions or fewer, what is in flight is enough, or there is no room.
        hints = replace(loop.hints, num_stages=stages)
        return loop if stages <= 2 else replace(loop, kind="pipelined", hints=hints)

    return launch.with_body(map_stmts(launch.body, S.For, pipelined))
