"""Cost model of layouts: cycles of a multiprocessor for one block.

The constants are rounded figures of current GPUs: they rank choices and do not predict times.
"""

from __future__ import annotations

from math import log2, prod

from tilelang.ir import stmt as S
from tilelang.layout.register_layout import RegisterLayout
from tilelang.transforms.layouts.access import accesses, is_memory
from tilelang.transforms.layouts.coalesce import transactions
from tilelang.transforms.layouts.shuffles import warp_shuffles

BARRIER = 30
SHARED = 128  # bytes that shared memory moves in a cycle
SECTOR = 2  # for 32 bytes of global memory
ISSUED = 4  # warps whose instructions start in a cycle


def of_loop(loop: S.Parallel, spread: RegisterLayout, warp: int) -> float:
    """The accesses of a loop: their instructions, and what they ask of global memory."""
    warps = -(-spread.used_threads // warp)
    steps = sectors = 0.0
    for access in accesses(loop):
        counts = None
        if is_memory(access) and not access.inner:
            counts = transactions(loop, access, spread, warp)
        if counts is None:
            steps += spread.register_count * prod(extent for _, _, extent in access.inner)
            continue
        steps += counts[1]
        sectors += counts[0] if access.buffer.storage == "global" else 0
    return warps * (steps / ISSUED + sectors * SECTOR)


def of_shuffles(src: RegisterLayout, dst: RegisterLayout, warp: int) -> float:
    """A fragment moved within the warps."""
    plan = warp_shuffles(src, dst, warp) or ()
    count = sum(len(source.registers) for source in plan if source.lane is not None)
    return count * (src.threads // warp)


def of_exchange(size: int, passes: int, barriers: int) -> float:
    """``size`` bytes that go to or from shared memory ``passes`` times."""
    return size * passes / SHARED + barriers * BARRIER


def of_reduction(
    stmt: S.Reduce, src: RegisterLayout, dst: RegisterLayout | None, warp: int
) -> float:
    """A reduction of a fragment: own elements, lanes, warps, and the way to the result."""
    result = src.drop(stmt.dim)
    warps = -(-src.threads // warp)
    modes = [mode for mode in src.modes[stmt.dim] if mode.kind == "thread" and mode.extent > 1]
    total = warps * src.register_count / ISSUED
    size = result.register_count * 4 * src.threads
    for mode in modes:
        lanes = min(mode.extent, max(1, warp // mode.stride))
        total += warps * result.register_count * log2(lanes)
        size //= lanes
    if any(mode.extent * mode.stride > warp for mode in modes):
        total += of_exchange(size, 2, 2)
    if dst is None:
        return total
    layout = result.with_shape(dst.shape)
    if layout.contains(dst):
        return total
    if warp_shuffles(layout, dst, warp) is not None:
        return total + of_shuffles(layout, dst, warp)
    return total + of_exchange(prod(dst.shape) * 4, 2, 2)
