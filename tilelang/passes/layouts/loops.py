"""The threads of loops that no fragment decides."""

from __future__ import annotations

from tilelang.ir import stmt as S
from tilelang.ir.bounds import Bounds
from tilelang.ir.lanes import exchange_in, exchange_in_shared_loop
from tilelang.layout.register_layout import RegisterLayout
from tilelang.passes.analysis.vectors import VECTOR_BITS, run_of
from tilelang.passes.layouts.access import accesses, is_memory


def free_mapping(
    loop: S.Parallel, extents: tuple[int, ...], threads: int, bounds: Bounds
) -> RegisterLayout:
    """The mapping of a loop that no fragment decides: neighbouring threads take neighbouring
    vectors, as wide as its memory accesses allow and all threads have work.

    Raises:
        TileUnsupportedError: threads that have several iterations tell each other values in it.
    """
    found = RegisterLayout.linear(extents, threads, vector_width(loop, extents, threads, bounds))
    exchange = exchange_in(loop.body) if found.register_count > 1 else None
    if exchange is not None:
        raise exchange_in_shared_loop(exchange, found.register_count, loop.loc)
    return found


def vector_width(loop: S.Parallel, extents: tuple[int, ...], threads: int, bounds: Bounds) -> int:
    """Elements per thread and step: 16 bytes of the widest memory access along the last loop
    variable, fewer if accesses are not aligned or there is less than a vector per thread."""
    if not extents:
        return 1
    var, inner = loop.vars[-1], bounds
    for item, extent in zip(loop.vars, extents):
        inner = inner.with_range(item, 0, extent)
    total = 1
    for extent in extents:
        total *= extent
    runs, bits = [], []
    for access in accesses(loop):
        if is_memory(access) and any(var in index.variables for index in access.indices):
            runs.append(run_of(access.buffer, access.indices, var, inner))
            bits.append(access.buffer.dtype.bits)
    width = max(runs, default=1)
    if bits and width > 1:
        width = min(width, max(1, VECTOR_BITS // min(bits)))
    while width > 1 and (extents[-1] % width or total // width < threads):
        width //= 2
    return width
