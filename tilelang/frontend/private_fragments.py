"""Fragments whose elements differ between the threads: each thread has its own.

Statements outside of tile operations and ``T.Parallel`` run in every thread. A fragment that only
such statements use, and into which they store values that differ between threads, is memory of
one thread. It becomes local memory, so that every executor gives each thread its own elements.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import effects, stmt as S
from tilelang.ir.uniform import Varying
from tilelang.ir.visitor import replace_buffers


def make_fragments_private(launch: S.Launch) -> S.Launch:
    """Move fragments of one element a thread, or of more, to local memory.

    An index that differs between threads may mean an element that another thread holds. Fragments
    accessed there, and those with views or stated layouts, stay as they are.
    """
    plain = [alloc.buffer for alloc in S.find(launch.body, S.Alloc)]
    plain = [tile for tile in plain if tile.storage == "local.fragment" and not tile.attrs.reducer]
    if not plain:
        return launch
    shared = {tile.data for tile, _ in launch.hints.layout_map}
    for stmt in S.walk(launch.body):
        if isinstance(stmt, (S.TileOp, S.Parallel, S.View)):
            shared |= effects.used(stmt)
    if all(tile.data in shared for tile in plain):
        return launch
    private = {tile: replace(tile, storage="local") for tile in plain if tile.data not in shared}
    varying = Varying(launch.with_body(replace_buffers(launch.body, private)))
    accesses = list(effects.accesses(launch.body, nested=True))
    shared |= {a.data for a in accesses if any(map(varying.varies, a.indices))}
    chosen = {tile: own for tile, own in private.items() if tile.data in varying.names - shared}
    return launch.with_body(replace_buffers(launch.body, chosen))
