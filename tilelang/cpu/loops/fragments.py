"""Fragments become arrays of the block, because one core runs the whole block.

Here a fragment is not distributed over threads. Runs after tile operations, whose lowering depends
on the memory scope, have become loads and stores, which access a fragment like any other array.
"""

from __future__ import annotations

from dataclasses import replace

from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.levels import with_known_hints
from tilelang.ir.visitor import map_buffers, map_stmts, rewrite_launches
from tilelang.target import Context
from tilelang.transforms.analysis.scopes import FRAGMENT


def lower_fragments_to_arrays(func: S.PrimFunc, context: Context) -> S.PrimFunc:
    """``func`` without fragments, and without keys that only tile operations read."""

    def lowered(launch: S.Launch) -> S.Stmt:
        body = map_stmts(launch, S.Stmt, lambda stmt: with_known_hints(stmt, "thread"))
        if all(node.buffer.storage != FRAGMENT for node in S.find(body, S.Alloc)):
            return body

        def array(buffer: Buffer) -> Buffer:
            return replace(buffer, storage="local") if buffer.storage == FRAGMENT else buffer

        return map_buffers(body, array)

    return rewrite_launches(func, lowered)
