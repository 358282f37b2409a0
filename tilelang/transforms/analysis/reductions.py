"""Reductions and scans: properties of their lowering that other passes need before it."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TypeGuard

from tilelang.ir import stmt as S
from tilelang.transforms.analysis.scopes import is_fragment, is_private


def lanes_of_row(extents: Sequence[int], dim: int, threads: int, warp: int) -> int:
    """The number of ``threads`` that reduce a row of memory: as many as there are."""
    enough = 1 << max(0, (extents[dim] - 1).bit_length())
    lanes = max(1, threads // max(1, prod(extents[:dim]) * prod(extents[dim + 1 :])))
    if threads % warp == 0:
        lanes = 1 << (lanes.bit_length() - 1)
        lanes = max(lanes, warp) if dim == len(extents) - 1 else lanes
    return min(lanes, enough, threads)


def has_barrier(
    stmt: S.Stmt, warp: int, threads: int | None = None
) -> TypeGuard[S.Reduce | S.Scan]:
    """Whether ``stmt`` is a reduction or scan in which its threads certainly reach a barrier before
    they touch its result: it combines rows of several warps, or what it reads or writes passes
    through a workspace. Where it is not said how many ``threads`` there are: whether they may."""
    if not isinstance(stmt, (S.Reduce, S.Scan)) or is_private(stmt.src):
        return False
    shared_by = 1 if threads is not None and threads % warp else warp  # lanes that can shuffle
    if isinstance(stmt, S.Reduce) and is_fragment(stmt.src):
        modes = stmt.src.buffer.attrs.register_layout.modes[stmt.dim]
        spread = [mode for mode in modes if mode.kind == "thread" and mode.extent > 1]
        return not stmt.partial and any(mode.extent * mode.stride > shared_by for mode in spread)
    if isinstance(stmt, S.Scan) or is_fragment(stmt.dst) or is_private(stmt.dst):
        return is_fragment(stmt.src) or is_fragment(stmt.dst) or is_private(stmt.dst)
    extents = [extent for extent in stmt.src.extents if isinstance(extent, int)]
    if threads is None or len(extents) < len(stmt.src.extents):
        return threads is None
    lanes = lanes_of_row(extents, stmt.dim, threads, warp)
    stride = 1 if stmt.dim == len(extents) - 1 else threads // lanes
    return lanes > 1 and lanes * stride > shared_by
