"""More versions of pipelined tiles than a program asks for, where they cost nothing.

Blocks that have a multiprocessor to themselves leave what they do not use of its shared memory
idle: those of several warpgroups, whose registers fill it, and those of a grid that has no more
blocks than the device has multiprocessors. A version more lets operands of one version arrive
during the products before (attention with heads of 256 elements), and keeps copies in flight where
a condition skips iterations.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tilelang.ir import stmt as S
from tilelang.ir.visitor import map_stmts
from tilelang.transforms.schedule.iteration import bytes_of, is_load
from tilelang.transforms.schedule.legality import Facts
from tilelang.transforms.schedule.pipeline import is_pipelined, stages_of
from tilelang.transforms.schedule.specialize_warps import WARPGROUP, shared_bytes

OVERLAPPED = 2  # versions with which one arrives while another one is used
SKIPPED = 2  # versions for each that a loop asks for whose condition skips iterations
SPARE = 1024  # bytes for barriers and what tiles are aligned to


def with_free_versions(launch: S.Launch, facts: Facts) -> S.Launch:
    """``launch`` whose pipelined loops have the versions that help and are free."""
    at_once = facts.fits_at_once(launch)
    alone = at_once or prod(launch.threads) >= 2 * WARPGROUP
    if not alone or not facts.context.has("roles"):
        return launch
    room = facts.context.limits.shared_block - SPARE - shared_bytes(launch)

    def more(loop: S.For) -> S.Stmt:
        nonlocal room
        hints, stages = loop.hints, stages_of(loop)
        if not is_pipelined(loop) or not stages or hints.stage or hints.order or hints.group:
            return loop
        loads = {node.dst.buffer: bytes_of(node.dst) for node in S.walk(loop.body) if is_load(node)}
        room -= (stages - 1) * sum(loads.values())
        skips = at_once and any(S.holds(node, S.Copy) for node in S.find(loop.body, S.If))
        wanted = max(OVERLAPPED, SKIPPED * stages if skips else stages)
        added = min(wanted - stages, max(0, room) // max(1, sum(loads.values())))
        room -= added * sum(loads.values())
        return replace(loop, hints=replace(hints, num_stages=stages + added)) if added else loop

    return launch.with_body(map_stmts(launch.body, S.For, more))
