"""Memory: bits of buffers, bounds checks, and which elements were ever written.

A :class:`Memory` is a run of bytes; several buffers (views) may name it. Private memory
(``local``) keeps one copy while its content is the same in every lane and one per lane afterwards.
A :class:`Bound` ties a buffer to a memory with concrete shape and strides. Tiles are read and
written through strided numpy views where the address is uniform, elements through index arrays.
"""

from __future__ import annotations

from math import gcd, prod
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilelang.errors import OutOfBoundsError, TileRuntimeError, UninitializedReadError
from tilelang.interpret import values
from tilelang.interpret.lanes import Lanes
from tilelang.interpret.values import Array, Value
from tilelang.ir.buffer import Buffer
from tilelang.ir.dtypes import dtype as DType
from tilelang.records import dataclass


def nibbles_of(kind: DType) -> int:
    """Half-bytes one lane of ``kind`` takes in memory."""
    return 1 if kind.packing > 1 else 2 * kind.as_numpy().itemsize


def _stop(error: UninitializedReadError, where: Value = None) -> None:
    raise error


class Memory:
    """Bytes of one allocation.

    ``valid`` says which units of ``unit`` half-bytes were written; None means all of them.
    ``space`` are the lanes that own a private copy each, None for memory of the block or launch.
    """

    def __init__(
        self, raw: Array, unit: int, *, written: bool = True, space: Lanes | None = None
    ) -> None:
        self.raw = raw
        self.unit = unit
        self.size = raw.size  # bytes of one copy
        self.space = space
        self.copies = 1
        self.valid: Array | None = None if written else np.zeros(2 * raw.size // unit, np.bool_)
        self.writable = bool(raw.flags.writeable)
        self.owner: Array | None = None  # the lanes that were active at its allocation
        self.absent = False  # a tensor argument that was given as None
        self.complain = _stop  # called for an uninitialized read
        self._typed: dict[object, Array] = {}

    def typed(self, kind: np.dtype[Any]) -> Array:
        """All bytes as elements of ``kind``."""
        cached = self._typed.get(kind)
        if cached is None:
            usable = self.raw.size - self.raw.size % kind.itemsize
            cached = self._typed[kind] = self.raw[:usable].view(kind)
        return cached

    def spread(self) -> None:
        """Give each lane of ``space`` its own copy."""
        if self.space is None or self.copies == self.space.count:
            return
        self.copies = self.space.count
        self.raw = np.tile(self.raw, self.copies)
        self._typed.clear()
        if self.valid is not None:
            self.valid = np.tile(self.valid, self.copies)

    def spread_for(self, lanes: Lanes, active: Array | None, varies: bool) -> None:
        """:meth:`spread`, unless a store of ``lanes`` gives all copies the same value."""
        own = self.space is not None
        if own and (varies or active is not self.owner or self.space is not lanes):
            self.spread()

    def units_per(self, nibbles: int) -> int:
        """Units of ``valid`` in an element of ``nibbles`` half-bytes, refining it if needed."""
        if self.valid is not None and nibbles % self.unit:
            finer = gcd(nibbles, self.unit)
            self.valid = np.repeat(self.valid, self.unit // finer)
            self.unit = finer
        return nibbles // self.unit


def allocate(buffer: Buffer, shape: tuple[int, ...], space: Lanes | None) -> Memory:
    """Uninitialized memory for ``buffer``."""
    nibbles = nibbles_of(buffer.dtype)
    count = prod(shape) * buffer.dtype.lanes
    return Memory(np.zeros(-(-count * nibbles // 2), np.uint8), nibbles, written=False, space=space)


@dataclass(frozen=True)
class Bound:
    """A buffer with its memory and its concrete shape, strides and offset in elements."""

    buffer: Buffer
    memory: Memory
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    safe: Value  # what a guarded load gives outside the shape

    @property
    def is_guarded(self) -> bool:
        """Whether the scope has the out-of-bounds rule."""
        return self.buffer.storage == "global"


@dataclass
class Site:
    """The executing block and threads, for messages."""

    block: tuple[int, int, int] | None
    lanes: Lanes

    def text(self, lane: int | None) -> str:
        """``block (0, 0, 0), thread 5``."""
        if self.block is None:
            return "on the host"
        where = f"in block {self.block}"
        if lane is None or self.lanes.count == 1:
            return where
        unit = "iteration" if self.lanes.threads is None else "thread"
        return f"{where}, {unit} {lane}"


# -- elements ---------------------------------------------------------------------------------
def _element(bound: Bound, indices: list[Value], shape: tuple[int, ...], at: int) -> str:
    """``A[3, 5]`` for the position ``at`` of the broadcast index arrays."""
    coordinates = [int(np.broadcast_to(index, shape).reshape(-1)[at]) for index in indices]
    return f"{bound.buffer.name or 'buf'}[{', '.join(map(str, coordinates))}]"


def _lane_of(shape: tuple[int, ...], at: int) -> int | None:
    return at // max(1, prod(shape[1:])) if shape else None


def _outside(bound: Bound, indices: list[Value], bad: Array, site: Site) -> OutOfBoundsError:
    at = int(np.flatnonzero(bad)[0])
    name = bound.buffer.name or "buf"
    return OutOfBoundsError(
        f"`{_element(bound, indices, bad.shape, at)}` is outside the {bound.buffer.storage} "
        f"buffer `{name}`",
        expected=f"indices within the shape {bound.shape}",
        got=f"{_element(bound, indices, bad.shape, at)} {site.text(_lane_of(bad.shape, at))}",
        hint="only global memory has a bounds rule; guard the access with `if` or T.if_then_else",
    )


def negative(
    buffer: Buffer, indices: list[Value], lane: int | None, site: Site
) -> OutOfBoundsError:
    """The message about an element whose index is negative at run time."""
    numbers = [int(index if np.ndim(index) == 0 else index[lane or 0]) for index in indices]
    element = f"{buffer.name or 'buf'}[{', '.join(map(str, numbers))}]"
    return OutOfBoundsError(
        f"`{element}` has an index that is negative at run time: it is outside",
        expected=f"indices of `{buffer.name or 'buf'}` from 0 on",
        got=f"{element} {site.text(lane)}",
        hint="only an index that is known to be negative counts from the end; write `index % n` "
        "to count from the end at run time",
    )


def _unwritten(
    bound: Bound, indices: list[Value], bad: Array, site: Site
) -> UninitializedReadError:
    at = int(np.flatnonzero(bad)[0])
    element = _element(bound, indices, bad.shape, at)
    return UninitializedReadError(
        f"`{element}` is read before anything is written to it",
        expected=f"initialised memory in the {bound.buffer.storage} buffer "
        f"`{bound.buffer.name or 'buf'}`",
        got=f"uninitialised {element} {site.text(_lane_of(bad.shape, at))}",
        hint="initialise the buffer first, e.g. with T.clear or T.fill",
    )


def check_present(bound: Bound) -> None:
    """Error when the buffer is an argument that was given as None."""
    if bound.memory.absent:
        raise TileRuntimeError(
            f"the kernel uses `{bound.buffer.name}`, but None was passed for it",
            expected=f"an array of shape {bound.shape} and dtype {bound.buffer.dtype}",
            got="None",
        )


def locate(bound: Bound, indices: list[Value], copy: Array | None) -> tuple[Array, Array]:
    """Scalar positions in memory and whether they are inside the shape (both one shape)."""
    linear: Value = np.int64(bound.offset)
    inside: Value = np.True_
    for index, extent, stride in zip(indices, bound.shape, bound.strides):
        wide = np.asarray(index).astype(np.int64, copy=False)
        inside = inside & (wide.view(np.uint64) < np.uint64(max(extent, 0)))
        linear = linear + wide * np.int64(stride)
    linear = linear * np.int64(bound.buffer.dtype.lanes)
    if copy is not None:
        per_copy = 2 * bound.memory.size // nibbles_of(bound.buffer.dtype)
        linear = linear + copy * np.int64(per_copy)
    linear, inside = np.broadcast_arrays(linear, inside)
    return linear, inside


def read(
    bound: Bound, indices: list[Value], need: Array | None, copy: Array | None, site: Site,
    safe_memory: bool,
) -> Value:  # fmt: skip
    """Values at broadcast index arrays; undefined where ``need`` is false.

    Elements outside the shape give ``bound.safe`` under the out-of-bounds rule, else an error.
    Buffers of vectors get a last axis for their lanes.
    """
    check_present(bound)
    if need is None and copy is None and _is_single(bound, indices):
        return _read_element(bound, indices, site, safe_memory)
    linear, inside = locate(bound, indices, copy)
    good = inside
    if need is not None:
        need, inside = np.broadcast_arrays(need, inside)
        linear = np.broadcast_to(linear, need.shape)
        good = need & inside
    if not good.all():
        bad = ~inside if need is None else need & ~inside
        if bad.any() and not (bound.is_guarded and safe_memory):
            raise _outside(bound, indices, bad, site)
        linear = np.where(good, linear, 0)
    width = bound.buffer.dtype.lanes
    offsets = linear if width == 1 else linear[..., None] + np.arange(width)
    if bound.memory.valid is not None:
        unwritten = ~_written(bound, offsets)
        if width > 1:
            unwritten = np.asarray(unwritten.any(-1))
        if (bad := unwritten & good).any():
            bound.memory.complain(_unwritten(bound, indices, bad, site), bad)
    if not good.any():
        result: Value = np.broadcast_to(bound.safe, offsets.shape)
    else:
        result = values.decode(_codes(bound, offsets, good, site, indices), bound.buffer.dtype)
        if not good.all():
            result = np.where(good if width == 1 else good[..., None], result, bound.safe)
    return result[()]


def _is_single(bound: Bound, indices: list[Value]) -> bool:
    """Whether this is one plain element, as most scalar code accesses."""
    kind = bound.buffer.dtype
    return kind.lanes == 1 and kind.packing == 1 and all(np.ndim(index) == 0 for index in indices)


def _offset_of(bound: Bound, indices: list[Value], site: Site, safe_memory: bool) -> int | None:
    """Position of one element; None outside the shape or the memory behind it, where the
    out-of-bounds rule allows that."""
    offset = bound.offset
    for index, extent, stride in zip(indices, bound.shape, bound.strides):
        at = int(index)
        if not 0 <= at < extent:
            break
        offset += at * stride
    else:
        if 0 <= offset < bound.memory.typed(_stored(bound.buffer.dtype)).size:
            return offset
    if bound.is_guarded and safe_memory:
        return None
    raise _outside(bound, indices, np.ones((), np.bool_), site)


def _read_element(bound: Bound, indices: list[Value], site: Site, safe_memory: bool) -> Value:
    offset = _offset_of(bound, indices, site, safe_memory)
    if offset is None:
        return bound.safe
    if bound.memory.valid is not None and not _written(bound, np.asarray(offset)).all():
        bound.memory.complain(_unwritten(bound, indices, np.ones((), np.bool_), site))
    kind = bound.buffer.dtype
    return values.decode(bound.memory.typed(_stored(kind))[offset], kind)


def _write_element(
    bound: Bound, indices: list[Value], value: Value, site: Site, safe_memory: bool
) -> None:
    offset = _offset_of(bound, indices, site, safe_memory)
    if offset is None:
        return
    if not bound.memory.writable:
        raise read_only(bound)
    memory, kind = bound.memory, bound.buffer.dtype
    memory.typed(_stored(kind))[offset] = values.encode(value, kind)
    if memory.valid is not None:
        per = memory.units_per(nibbles_of(kind))
        memory.valid[offset * per : (offset + 1) * per] = True


def _codes(bound: Bound, offsets: Array, good: Array, site: Site, indices: list[Value]) -> Array:
    kind = bound.buffer.dtype
    packed = kind.packing > 1
    flat = bound.memory.raw if packed else bound.memory.typed(_stored(kind))
    limit = flat.size * (2 if packed else 1)
    if offsets.size and (int(offsets.max()) >= limit or int(offsets.min()) < 0):
        # The declared shape is larger than the memory behind it (a view or raw pointer).
        over = (offsets >= limit) | (offsets < 0)
        over = np.asarray(over.any(-1)) if kind.lanes > 1 else over
        raise _outside(bound, indices, over, site)
    if not packed:
        return np.asarray(flat[offsets])
    return np.asarray((flat[offsets >> 1] >> ((offsets & 1) << 2).astype(np.uint8)) & np.uint8(15))


def _stored(kind: DType) -> np.dtype[Any]:
    return np.dtype(np.uint8) if kind.element_of.is_bool else kind.as_numpy()


def _written(bound: Bound, offsets: Array) -> Array:
    per = bound.memory.units_per(nibbles_of(bound.buffer.dtype))
    valid = bound.memory.valid
    if valid is None:
        return np.ones(offsets.shape, np.bool_)
    if per == 1:
        return np.asarray(valid[np.minimum(offsets, valid.size - 1)])
    units = np.minimum(offsets[..., None] * per + np.arange(per), valid.size - 1)
    return np.asarray(valid[units].all(-1))


def write(
    bound: Bound, indices: list[Value], value: Value, need: Array | None, copy: Array | None,
    site: Site, safe_memory: bool,
) -> None:  # fmt: skip
    """Store ``value`` at broadcast index arrays where ``need`` holds; on conflicts the last wins.

    Outside the shape the store is dropped under the out-of-bounds rule, else it is an error.
    """
    check_present(bound)
    if need is None and copy is None and np.ndim(value) == 0 and _is_single(bound, indices):
        _write_element(bound, indices, value, site, safe_memory)
        return
    kind = bound.buffer.dtype
    width = kind.lanes
    linear, inside = locate(bound, indices, copy)
    value = np.asarray(value)
    tail = value.shape[:-1] if width > 1 else value.shape
    shape = np.broadcast_shapes(linear.shape, tail, () if need is None else need.shape)
    linear = np.broadcast_to(linear, shape)
    good = np.broadcast_to(inside, shape)
    if need is not None:
        good = good & need
    if not good.all():
        bad = np.broadcast_to(~inside if need is None else need & ~inside, shape)
        if bad.any() and not (bound.is_guarded and safe_memory):
            raise _outside(bound, indices, bad, site)
    if not bound.memory.writable:
        raise read_only(bound)
    offsets = linear[good]
    chosen = np.broadcast_to(value, shape + value.shape[len(tail) :])[good]
    if width > 1:
        offsets = (offsets[..., None] + np.arange(width)).reshape(-1)
        chosen = chosen.reshape(-1)
    _encode(bound, offsets, values.encode(chosen, kind), site, indices)


def _encode(bound: Bound, offsets: Array, codes: Array, site: Site, indices: list[Value]) -> None:
    memory, kind = bound.memory, bound.buffer.dtype
    packed = kind.packing > 1
    flat = memory.raw if packed else memory.typed(_stored(kind))
    limit = flat.size * (2 if packed else 1)
    if offsets.size and (int(offsets.max()) >= limit or int(offsets.min()) < 0):
        raise _outside(bound, indices, np.ones(1, np.bool_), site)
    if packed:
        for half in (0, 1):
            own = (offsets & 1) == half
            keep = np.uint8(0xF0 if half == 0 else 0x0F)
            moved = codes[own] << np.uint8(4 * half)
            flat[offsets[own] >> 1] = (flat[offsets[own] >> 1] & keep) | moved
    else:
        flat[offsets] = codes
    if memory.valid is not None:
        per = memory.units_per(nibbles_of(kind))
        if per == 1:
            memory.valid[offsets] = True
        else:
            memory.valid[offsets[:, None] * per + np.arange(per)] = True


def read_only(bound: Bound) -> TileRuntimeError:
    """The error of a store to an array that may not be changed."""
    return TileRuntimeError(
        f"the kernel writes `{bound.buffer.name}`, but the array passed for it is read-only",
        expected="a writable array",
        got="an array with flags.writeable == False",
        hint="pass a copy, e.g. numpy.array(x)",
    )


# -- tiles at a uniform address -----------------------------------------------------------------
@dataclass(frozen=True)
class _Box:
    """The part of a tile that is inside its buffer, as strided views of memory."""

    codes: Array
    valid: Array | None  # None: everything is written
    inner: tuple[slice, ...]  # where the part is within the tile
    is_whole: bool  # the part is the entire tile


def _box(
    bound: Bound, mins: list[int], extents: tuple[int, ...], site: Site, safe_memory: bool
) -> _Box | None:
    """Views for a plain tile; None when index arrays are needed (packed or vector elements)."""
    kind = bound.buffer.dtype
    memory = bound.memory
    if kind.packing > 1 or kind.lanes > 1 or memory.copies > 1:
        return None
    per = memory.units_per(nibbles_of(kind))
    inner, starts, sizes, is_whole = [], [], [], True
    for low, extent, limit in zip(mins, extents, bound.shape):
        start = min(max(0, -low), extent)
        stop = max(start, min(extent, limit - low))
        is_whole = is_whole and (start, stop) == (0, extent)
        inner.append(slice(start, stop))
        starts.append(low + start)
        sizes.append(stop - start)
    if not is_whole and not (bound.is_guarded and safe_memory):
        grid = _grid(mins, extents)
        _, inside = locate(bound, grid, None)
        raise _outside(bound, grid, ~inside, Site(site.block, Lanes(1)))
    flat = memory.typed(_stored(kind))
    first = bound.offset + sum(s * t for s, t in zip(starts, bound.strides))
    if prod(sizes) == 0:
        return _Box(np.empty(sizes, flat.dtype), None, tuple(inner), is_whole)
    last = first + sum((n - 1) * t for n, t in zip(sizes, bound.strides))
    if last >= flat.size or first < 0:
        return None  # memory smaller than declared: the index path reports it
    step = tuple(t * flat.itemsize for t in bound.strides)
    codes = as_strided(flat[first:], tuple(sizes), step)
    valid = None
    if memory.valid is not None:
        if per != 1:
            return None
        valid = as_strided(memory.valid[first:], tuple(sizes), bound.strides)
    return _Box(codes, valid, tuple(inner), is_whole)


def _grid(mins: list[int], extents: tuple[int, ...]) -> list[Value]:
    return list(np.ix_(*(np.arange(low, low + e) for low, e in zip(mins, extents))))


def read_box(
    bound: Bound, mins: list[int], extents: tuple[int, ...], site: Site, safe_memory: bool,
    need: Array | None = None,
) -> Array:  # fmt: skip
    """Values of the tile at ``mins``, shape ``extents`` (+ vector lanes); undefined where ``need``
    is false."""
    check_present(bound)
    box = _box(bound, mins, extents, site, safe_memory)
    if box is None:
        return np.asarray(read(bound, _grid(mins, extents), need, None, site, safe_memory))
    if box.valid is not None and not box.valid.all():
        missing = np.zeros(extents, np.bool_)
        missing[box.inner] = ~box.valid
        missing &= True if need is None else need
        site_of_block = Site(site.block, Lanes(1))
        if missing.any():
            bound.memory.complain(_unwritten(bound, _grid(mins, extents), missing, site_of_block))
    part = np.asarray(values.decode(box.codes, bound.buffer.dtype))
    if box.is_whole:
        return part.copy() if part.base is not None else part
    tile = np.full(extents, bound.safe, part.dtype)
    tile[box.inner] = part
    return tile


def forget(bound: Bound, mins: list[int], extents: tuple[int, ...]) -> None:
    """Mark the tile at ``mins`` as uninitialized."""
    store, kind = bound.memory, bound.buffer.dtype
    if store.valid is None:
        store.valid = np.ones(2 * store.raw.size // store.unit, np.bool_)
    per = store.units_per(nibbles_of(kind)) * kind.lanes
    linear, inside = locate(bound, _grid(mins, extents), None)
    store.valid[(linear[inside] // kind.lanes * per)[:, None] + np.arange(per)] = False


def write_box(
    bound: Bound, mins: list[int], value: Value, extents: tuple[int, ...], site: Site,
    safe_memory: bool,
) -> None:  # fmt: skip
    """Store ``value`` (broadcast to ``extents``) into the tile at ``mins``."""
    check_present(bound)
    if not bound.memory.writable:
        raise read_only(bound)
    box = _box(bound, mins, extents, site, safe_memory)
    if box is None:
        write(bound, _grid(mins, extents), value, None, None, site, safe_memory)
        return
    box.codes[...] = values.encode(np.broadcast_to(value, extents)[box.inner], bound.buffer.dtype)
    memory = bound.memory
    if box.valid is not None and memory.valid is not None:
        if box.is_whole and box.codes.size == memory.valid.size:
            memory.valid = None  # one store covered everything
        else:
            box.valid[...] = True
