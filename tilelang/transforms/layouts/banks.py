"""Bank conflicts of candidate layouts of shared tiles, counted.

A tile that no matrix instruction reads may still be read across its rows (a transpose). For the
loops that touch it the addresses of a warp are evaluated under each candidate layout, and the one
with the fewest wavefronts wins; row-major order is kept unless another is clearly better.

Shared memory has 32 banks of 4 bytes; an access of 16 bytes per lane is served in quarter warps,
one of 8 bytes in half warps (CUDA C++ Best Practices Guide, "Shared Memory").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import as_expr
from tilelang.layout.evaluate import Array, evaluate
from tilelang.layout.layout import Layout
from tilelang.layout.register_layout import RegisterLayout
from tilelang.layout.swizzle import CHUNK_BITS, SPANS, fits, swizzled
from tilelang.target import Limits
from tilelang.transforms.layouts.access import Access, nest_of, with_inner

SLOTS = 16  # registers of a thread that are looked at
MORE_SLOTS = 256  # where thread maps are compared
WORTH = 0.7  # a layout is chosen when it needs at most so many of the wavefronts

COMMON = Limits()  # the banks of all GPUs that are compared
Use = tuple[S.Parallel, Access, RegisterLayout]


def best_layout(
    buffer: Buffer, uses: Sequence[Use], limits: Limits, panels: bool = False,
    allowed: Sequence[Layout] | None = None,
) -> Layout | None:  # fmt: skip
    """The layout of a shared tile for the loops that touch it; None for row-major order.

    Args:
        panels: whether swizzles in panels, as copies with tensor maps have them, are taken where
            they serve as well as others.
        allowed: those that may be chosen, where not all may.
    """
    shape = tuple(extent for extent in buffer.shape if isinstance(extent, int))
    if len(shape) != len(buffer.shape) or len(shape) < 2 or CHUNK_BITS % buffer.dtype.bits:
        return None
    points = [table for use in uses if (table := warp_points(use, SLOTS, limits.warp)) is not None]
    if len(points) < len(uses) or not points:
        return None
    plain = [cost for cost, _ in _costs(points, shape, None, shape, buffer, limits)]
    best, least = None, sum(plain)
    offered = ((layout, layout.output_shape()) for layout in allowed or ())
    tried = _candidates(shape, buffer.dtype.bits, panels) if allowed is None else offered
    for layout, box in tried:
        costs = [cost for cost, _ in _costs(points, shape, layout, box, buffer, limits)]
        if sum(costs) < least and _is_better(costs, plain):
            best, least = layout, sum(costs)
    return best


def _is_better(costs: Sequence[int], plain: Sequence[int]) -> bool:
    """Whether a layout is clearly better than row-major order: in all, or for one use (of which
    there may be one in a loop and several before it) without a loss for another."""
    if sum(costs) < WORTH * sum(plain):
        return True
    pairs = list(zip(costs, plain))
    return all(a <= b for a, b in pairs) and any(a < WORTH * b for a, b in pairs)


def _candidates(
    shape: tuple[int, ...], bits: int, panels: bool
) -> Iterator[tuple[Layout, tuple[int, ...]]]:
    """Chunks of 16 bytes permuted within spans, by the row or by groups of rows; ``panels`` first,
    whose spans are contiguous; then pairs of chunks by the row, for accesses of halves of chunks;
    at last by parts of rows, for lanes several chunks apart. Each with the box of its images."""
    spans = [span for span in SPANS if fits(shape, bits, span)]
    for span in spans if panels else ():
        panel = swizzled(shape, bits, span)
        yield panel, panel.output_shape()
    for span in spans:
        for rows in (1, 2, 4, 8):
            yield _permuted(shape, bits, span, rows), shape
    for span in spans:
        yield _permuted(shape, bits, span, 1, 2), shape
    for rows in (shape[-2], 1) if shape[-1] * bits % (SPANS[0] * 8) == 0 else ():
        yield _permuted(shape, bits, SPANS[0], rows, part=1), shape


def _permuted(
    shape: tuple[int, ...], bits: int, span: int, rows: int, step: int = 1, part: int = 0
) -> Layout:
    chunk, width = CHUNK_BITS // bits, span * 8 // bits
    phases = span * 8 // CHUNK_BITS

    def forward(*indices: E.Expr) -> tuple[E.Expr, ...]:
        *lead, row, column = indices
        phase = (row // rows * step + column // width * part) % phases
        return (*lead, row, as_expr((column // chunk ^ phase) * chunk + column % chunk))

    return Layout(shape, forward)


def warp_points(use: Use, registers: int, warp: int) -> list[Array] | None:
    """The indices of an access for the first warp: one array (lanes, registers) per dimension.

    Args:
        registers: registers of a thread that are looked at, at most.
        warp: lanes of a warp.
    """
    loop, access, spread = use
    nest = nest_of(access, loop, spread.shape)
    if nest is None:
        return None
    indices, names, extents = nest
    table = np.maximum(
        _with_all_lanes(with_inner(spread, extents).index_table()[:warp, :registers]), 0
    )
    values: dict[E.Var, Array] = {var: table[..., dim] for dim, var in enumerate(names)}
    others = set[E.Var]().union(*(index.variables for index in indices)) - values.keys()
    values |= dict.fromkeys(others, np.zeros((1, 1), np.int64))  # the same for all threads
    try:
        return [np.broadcast_to(evaluate(i, values), table.shape[:2]) for i in indices]
    except TileUnsupportedError:
        return None


def _with_all_lanes(table: Array) -> Array:
    """The points of lanes, where a lane without one has that of the lane before it."""
    lanes = np.arange(len(table)).reshape(-1, 1)
    last = np.maximum.accumulate(np.where((table >= 0).all(axis=-1), lanes, 0), axis=0)
    return np.take_along_axis(table, last[..., None], axis=0)


def bank_conflicts(use: Use, run: int) -> float:
    """Wavefronts that bank conflicts add to those of the first warp, in the layout of a shared tile
    that suits the loop best; 0 where indices cannot be evaluated. ``run``: elements of a vector."""
    _, access, spread = use
    points = warp_points(use, MORE_SLOTS, COMMON.warp)
    shape = tuple(extent for extent in access.buffer.shape if isinstance(extent, int))
    if not points or len(shape) < len(points):
        return 0.0
    layout = best_layout(access.buffer, [use], COMMON)
    box = shape if layout is None else layout.output_shape()
    wavefronts, least = _costs([points], shape, layout, box, access.buffer, COMMON, run)[0]
    looked_at: int = points[0].shape[1]
    return (wavefronts - least) * max(1, spread.register_count * access.inner_count / looked_at)


def _costs(
    points: list[list[Array]], shape: tuple[int, ...], layout: Layout | None, box: tuple[int, ...],
    buffer: Buffer, limits: Limits, run: int = CHUNK_BITS,
) -> list[tuple[int, int]]:  # fmt: skip
    """Wavefronts of each use of a tile whose ``layout`` has its images in ``box``, by vectors of at
    most ``run`` elements, and those that it would have without bank conflicts."""
    unit = buffer.dtype.bits
    result = []
    for indices in points:
        # A lane whose index is outside makes no access: it counts where it disturbs no vector.
        image = [index % extent for index, extent in zip(indices, shape)]
        if layout is not None:  # it is one to one, so only the points need to be looked at
            values = dict(zip(layout.forward_vars, image))
            image = [evaluate(coordinate, values) for coordinate in layout.forward_index]
        addresses = np.zeros(indices[0].shape, np.int64)
        for coordinate, extent in zip(image, box):
            addresses = addresses * extent + coordinate
        result.append(_wavefronts(addresses, unit, limits, run))
    return result


def _wavefronts(addresses: Array, bits: int, limits: Limits, run: int) -> tuple[int, int]:
    """Wavefronts of the accesses of one warp, and those of their bytes without bank conflicts;
    ``addresses`` is (lanes, registers) in elements. A thread reads an element once, and neighbours
    as vectors."""
    addresses = np.unique(addresses, axis=1)
    run = min(run, CHUNK_BITS // bits)
    while run > 1:
        if addresses.shape[1] % run == 0:
            vectors = addresses.reshape(addresses.shape[0], -1, run)
            contiguous = (vectors == vectors[..., :1] + np.arange(run)).all()
            if bool(contiguous) and bool((vectors[..., 0] % run == 0).all()):
                break
        run //= 2
    banks, bank_bytes = limits.banks, limits.bank_bytes
    first = addresses[:, ::run] * bits // 8
    size = max(1, run * bits // 8)
    group = limits.warp * bank_bytes // max(size, bank_bytes)  # lanes that are served together
    steps = np.arange(0, size, bank_bytes) if size >= bank_bytes else np.zeros(1, np.int64)
    total = least = 0
    for start in range(0, first.shape[0], group):
        lanes = first[start : start + group]
        words = (lanes[:, None, :] + steps[None, :, None]) // bank_bytes
        words = np.sort(words.reshape(-1, words.shape[2]), axis=0)
        distinct = np.ones(words.shape, bool)
        distinct[1:] = words[1:] != words[:-1]
        warp_base = np.arange(words.shape[1]) * banks
        counts = np.bincount(
            (words % banks + warp_base)[distinct], minlength=words.shape[1] * banks
        )
        total += int(counts.reshape(-1, banks).max(axis=1).sum())
        least += words.shape[1]
    return total, least
