"""Cross-tile prefetch: the producer copies the next tile's inputs while the current tile ends.

A persistent, warp-specialized block (its loop has the hint ``tiles``) may copy a tensor once per
tile, outside of the pipelined loop, such as the queries of attention. Without this pass the
consumers issue that copy and stall on memory. With it, the copy becomes a pipeline of one stage.
The producer fills it for the next tile after the last read of the current tile, while the consumers
still have products, a division and stores to do::

    consumers                                producer
    for tile:                                for tile:
        Wait(n)                                  Acquire(n); copy; Commit(n)
        ... pipelined loop ...                   ... copies of the pipelined loop ...
        Release(n)
        ... statements that do not read the buffer ...

Conditions: TMA can make the copy, nothing else writes the buffer, and all reads follow the copy in
the same loop. The source coordinates may depend on the tile's number, but on nothing that the
kernel writes. The order is proved like that of every pipeline; where it cannot be, the copy stays
where it is.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, schedule as H, stmt as S
from tilelang.ir.launch_schedule import Schedule
from tilelang.transforms.schedule.dependence import needed_lets
from tilelang.transforms.schedule.legality import Facts, NotLegalError
from tilelang.transforms.schedule.specialize_warps import RoleWriter
from tilelang.transforms.schedule.tile_loop import TileStage
from tilelang.transforms.verify.schedule import refusal


def prefetch_across_tiles(roles: RoleWriter, schedule: Schedule, facts: Facts) -> RoleWriter:
    """``roles`` with a copy at the top of the loop over tiles moved to the producer."""
    tma = facts.tma(roles.old)
    for loop in roles.work:
        if not isinstance(loop, S.For) or not loop.hints.tiles:
            continue
        for copy in S.flat(loop.body):
            if not isinstance(copy, S.Copy) or not _is_input(roles.old, loop, copy):
                continue
            if tma.refusal(copy) is None:
                result = replace(roles, prefetch=TileStage.of(loop, copy))
                pipeline, *_ = S.find(result.launch.body, H.Pipeline)
                if refusal(pipeline) is None:
                    return result
    raise NotLegalError("the producer can copy no tile outside the pipelines")


def _is_input(launch: S.Launch, loop: S.For, copy: S.Copy) -> bool:
    """Whether nothing but ``copy`` writes its tile, all that reads it follows in ``loop``, and what
    it copies does not depend on what the kernel writes."""
    stmts, data, written = S.flat(loop.body), copy.dst.buffer.data, effects.written(launch.body)
    uses, reads = (
        [
            access for access in effects.accesses(body, nested=True)
            if access.data is data and access.mode != effects.NAME
        ]
        for body in (launch.body, S.seq(*stmts[stmts.index(copy) + 1 :]))
    )  # fmt: skip
    if not reads or any(access.writes for access in reads) or len(uses) != len(reads) + 1:
        return False
    steady = all(effects.is_steady(let.value, written) for let in needed_lets(stmts, copy.src.mins))
    return steady and copy.dst.is_whole and copy.src.buffer.data not in written
