"""Bank conflicts of shared memory, counted from the addresses of warps.

Shared memory serves 32 words of 4 bytes at once, one per bank; an access of 8 bytes per lane is
served in half warps, one of 16 bytes in quarter warps. Words that several lanes read together count
once. The functions count how often a warp has to be served, and how often if the words that it
accesses were spread evenly over the banks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice, product

import numpy as np

from tilelang.errors import TileUnsupportedError
from tilelang.ir import expr as E, stmt as S
from tilelang.layout.evaluate import Array, evaluate
from tilelang.records import dataclass
from tilelang.target import Limits
from tilelang.transforms.analysis.groups import thread_indices

MAX_POINTS = 16  # combinations of loop variables that are looked at
MAX_WARPS = 4


@dataclass(frozen=True)
class Waves:
    """Shared-memory wavefronts of an access, and the fewest that it could have."""

    count: int = 0
    ideal: int = 0

    def __add__(self, other: Waves) -> Waves:
        return Waves(self.count + other.count, self.ideal + other.ideal)


@dataclass(frozen=True)
class Site:
    """The surroundings of an access: the kernel, its machine, loops (variable, values) and
    conditions."""

    launch: S.Launch
    limits: Limits
    loops: tuple[tuple[E.Var, range], ...] = ()
    conds: tuple[E.Expr, ...] = ()


def wavefronts(addresses: Sequence[int] | Array, size: int, limits: Limits) -> Waves:
    """The waves of one access of a warp.

    Args:
        addresses: bytes, one per active lane in order of the lanes.
        size: bytes that each lane moves.
        limits: of the machine: lanes of a warp, banks and their bytes.
    """
    banks, bank_bytes = limits.banks, limits.bank_bytes
    first = np.asarray(addresses, np.int64)
    together = max(1, limits.warp * bank_bytes // max(size, bank_bytes))
    total = Waves()
    for start in range(0, len(first), together):
        lanes = first[start : start + together]
        steps = np.arange(0, max(size, 1), bank_bytes)
        bank_words = np.unique((lanes[:, None] + steps[None, :]) // bank_bytes)
        if bank_words.size:
            count = int(np.bincount(bank_words % banks, minlength=banks).max())
            total += Waves(count, -(-int(bank_words.size) // banks))
    return total


def waves_of(address: E.Expr, size: int, site: Site, lanes: int | None = None) -> Waves | None:
    """The waves of an access, over warps of the block and values of the loops around it.

    Args:
        address: bytes from the start of the buffer.
        size: bytes of one lane.
        lanes: how many lanes of a warp give addresses (those of ldmatrix); None: all.
    Returns:
        None when the address depends on data.
    """
    waves, warp = Waves(), site.limits.warp
    threads = thread_indices(site.launch)
    total = len(next(iter(threads.values())))
    for values in islice(product(*(span for _, span in site.loops)), MAX_POINTS):
        fixed = {var: np.asarray(value, np.int64) for (var, _), value in zip(site.loops, values)}
        table = _known({**threads, **fixed}, (address, *site.conds))
        try:
            addresses = np.broadcast_to(evaluate(address, table), (total,))
        except TileUnsupportedError:
            return None
        active = _active(site.conds, table, total)
        for start in range(0, min(total, MAX_WARPS * warp), warp):
            chosen = slice(start, min(start + (lanes or warp), start + warp, total))
            waves += wavefronts(addresses[chosen][active[chosen]], size, site.limits)
    return waves


def _known(values: Mapping[E.Var, Array], exprs: Sequence[E.Expr]) -> dict[E.Var, Array]:
    """``values``, and 0 for all other variables: they are the same in all threads."""
    result = dict(values)
    for expr in exprs:
        for var in expr.variables:
            result.setdefault(var, np.zeros((), np.int64))
    return result


def _active(conds: Sequence[E.Expr], table: Mapping[E.Var, Array], total: int) -> Array:
    """Which threads take all conditions; one that depends on data counts as taken."""
    mask = np.ones(total, bool)
    for cond in conds:
        with suppress(TileUnsupportedError):
            mask = mask & (np.broadcast_to(evaluate(cond, table), (total,)) != 0)
    return mask
