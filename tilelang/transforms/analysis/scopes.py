"""Memory scopes of tiles, as passes classify them."""

from __future__ import annotations

from tilelang.ir.buffer import Region
from tilelang.ir.effects import Access

FRAGMENT = "local.fragment"
MOST_ELEMENTS = 1 << 22  # of a fragment: layouts look at each place of its threads and registers


def is_fragment(region: Region | Access) -> bool:
    """Whether the region, or the access, is of a fragment."""
    return region.buffer.storage == FRAGMENT


def is_private(region: Region) -> bool:
    """Whether every thread has a tile of its own."""
    return region.buffer.storage in ("local", "local.var")
