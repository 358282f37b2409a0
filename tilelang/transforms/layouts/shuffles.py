"""Warp shuffles that convert a fragment from one layout to another, without shared memory.

Where a thread of the same warp holds every element that a thread needs, shuffles can move the
elements: one shuffle for each target register and each source register that any lane needs for it.
The plan is made from the tables of both layouts, and its expressions are checked against them.
"""

from __future__ import annotations

import numpy as np

from tilelang.layout.evaluate import Array, distinct
from tilelang.layout.register_layout import Mode, RegisterLayout, fit_modes
from tilelang.records import dataclass
from tilelang.transforms.layouts.access import Mask

# A shuffle takes as long as an access of shared memory, which moves 16 bytes where layouts allow
# and needs a barrier besides. So few shuffles are quicker, and many are not.
FREE = 16
SHARE = 4  # registers of both layouts for one more shuffle


@dataclass(frozen=True)
class ThreadFunction:
    """A function of the thread number: ``base + sum(thread // below % extent * stride)``."""

    base: int
    modes: tuple[tuple[int, int, int], ...]  # (below, extent, stride)


@dataclass(frozen=True)
class ShuffleSource:
    """The source of one register of the new layout.

    Attributes:
        lane: of the warp, that holds the element; None if it is always the thread itself.
        register: the register there.
        registers: the registers that ``register`` can be.
    """

    lane: ThreadFunction | None
    register: ThreadFunction
    registers: tuple[int, ...]


def warp_shuffles(
    src: RegisterLayout, dst: RegisterLayout, warp: int
) -> tuple[ShuffleSource, ...] | None:
    """For each register of ``dst`` where it comes from; None if not from the same warp, if the
    positions are not sums of modes of the thread number, or if it takes too many shuffles."""
    threads = dst.threads
    if src.threads != threads or threads % warp or src.shape != dst.shape:
        return None
    plan = _plan(src, dst, True, warp)
    return _plan(src, dst, False, warp) if plan is None else plan


def _plan(
    src: RegisterLayout, dst: RegisterLayout, own: bool, warp: int
) -> tuple[ShuffleSource, ...] | None:
    """The plan; of several holders the thread itself if ``own``, else the lowest lane, lends."""
    tables = _places(src, dst, own, warp)
    if tables is None:
        return None
    lanes, registers, exists = tables
    number = np.arange(dst.threads)
    sources: list[ShuffleSource] = []
    for r in range(dst.register_count):
        present = exists[:, r]
        if not present.any():
            sources.append(ShuffleSource(None, ThreadFunction(0, ()), (0,)))
            continue
        stays = bool((lanes[present, r] == number[present] % warp).all())
        lane = None if stays else _fit(lanes[:, r], present)
        register = _fit(registers[:, r], present)
        if register is None or (lane is None and not stays):
            return None
        sources.append(
            ShuffleSource(lane, register, tuple(int(s) for s in distinct(registers[present, r])))
        )
    cost = sum(len(source.registers) for source in sources if source.lane is not None)
    limit = FREE + (src.register_count + dst.register_count) // SHARE
    return tuple(sources) if cost <= limit else None


def _places(
    src: RegisterLayout, dst: RegisterLayout, own: bool, warp: int
) -> tuple[Array, Array, Mask] | None:
    """(lane, register, whether there is an element) per thread and register of ``dst``."""
    table = dst.index_table()
    exists: Mask = np.all(table >= 0, axis=-1)
    element = tuple(np.maximum(table[..., d], 0) for d in range(table.shape[-1]))
    owners = src.owner_table()[element]  # (threads, registers, copies)
    thread = np.arange(dst.threads)[:, None, None]
    outside = src.threads
    rank = np.where(owners // warp == thread // warp, owners, outside)
    if own:
        rank = np.where(owners == thread, -1, rank)
    best = np.take_along_axis(owners, rank.argmin(axis=-1)[..., None], axis=-1)[..., 0]
    if bool(((rank.min(axis=-1) == outside) & exists).any()):
        return None
    return best % warp, src.register_table()[element], exists


def _fit(values: Array, exists: Mask) -> ThreadFunction | None:
    """``values`` per thread as a sum of modes, where ``exists`` holds."""
    if bool((values[exists] == values[exists][0]).all()):
        return ThreadFunction(int(values[exists][0]), ())
    modes: tuple[Mode, ...] = fit_modes(np.zeros(values.size, np.int64), values)
    terms: list[tuple[int, int, int]] = []
    below = 1
    total = np.full(values.size, int(values[0]), np.int64)
    for mode in reversed(modes):
        if mode.extent > 1 and mode.stride:
            terms.append((below, mode.extent, mode.stride))
            total = total + np.arange(values.size) // below % mode.extent * mode.stride
        below *= mode.extent
    is_exact = bool((total == values)[exists].all())
    return ThreadFunction(int(values[0]), tuple(terms)) if is_exact else None
