"""Non-temporal stores: results that are larger than the cache bypass it.

An ordinary store first reads its cache line from memory. For ``a + b`` of large arrays that read is
a quarter of the memory traffic. Whether a non-temporal store pays depends on the machine and, with
dynamic shapes, on the call. So host code decides (``tl_fits`` of ``tl_block.h``), and each store
tests that decision together with its alignment.

Only buffers that the launch does not read are stored in this way. The function that runs blocks
ends with a fence, since these stores are not ordered with the signal that the blocks are done.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.buffer import Buffer

LEAST = 4 << 20  # bytes; no machine has a last cache that is smaller than what it is for


@dataclass(frozen=True)
class Streams:
    """The storage of results of non-temporal stores, and the tensors that the launch accesses."""

    results: frozenset[E.Var] = frozenset()
    tensors: tuple[Buffer, ...] = ()


NONE = Streams()


def streams_of(stmt: S.Launch) -> Streams:
    """The results that a launch may store with non-temporal stores; NONE if the launch is small, or
    if its memory may have unknown aliases."""
    tensors: dict[E.Var, Buffer] = {}
    written, seen = set[E.Var](), set[E.Var]()
    if any(isinstance(node, S.View) and node.source is not None for node in S.walk(stmt.body)):
        return NONE
    if next(effects.pointers(stmt.body, nested=True), None) is not None:
        return NONE
    for access in effects.accesses(stmt.body, nested=True):
        if access.buffer.storage != "global":
            continue
        tensors.setdefault(access.data, access.buffer)
        if access.mode == effects.WRITE and isinstance(access.by, S.Store):
            written.add(access.data)
        else:
            seen.add(access.data)
    results = frozenset(written - seen)
    sizes = [bytes_of(buffer) for buffer in tensors.values()]
    known_sizes = [size for size in sizes if size is not None]
    if not results or (len(known_sizes) == len(sizes) and sum(known_sizes) < LEAST):
        return NONE
    return Streams(results, tuple(tensors.values()))


def bytes_of(buffer: Buffer) -> int | None:
    """Bytes of the elements of a tensor; None where its shape is dynamic."""
    bits = buffer.dtype.bits
    for extent in buffer.shape:
        if not isinstance(extent, int):
            return None
        bits *= extent
    return bits // 8
