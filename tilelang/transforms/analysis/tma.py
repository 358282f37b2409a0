"""TMA legality: whether one tensor map describes a copy of a tile, and with which boxes.

TMA moves a box of up to five dimensions between a tensor and shared memory, where the box
is contiguous, innermost dimension first, as the map's swizzle orders it. Outside of the tensor it
reads zeros and writes nothing, as ``T.copy`` does. A tile that is stored in panels, or that is
longer than a box may be, takes several boxes. Of rows that are longer the map has two dimensions if
their length and their starts are multiples of a box's, so that one box takes all of them.

Sources: PTX ISA, "Tensors" and "cp.async.bulk.tensor"; CUDA Driver API, "Tensor Map Object
Management".
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import TypeAlias

from tilelang.ir import effects, expr as E, stmt as S
from tilelang.ir.bounds import Bounds, is_divisible
from tilelang.ir.buffer import Buffer, Region, is_same_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.simplify import simplify
from tilelang.layout.layout import Layout
from tilelang.layout.swizzle import CHUNK_BITS, SPANS, fits, swizzle_of, swizzled
from tilelang.records import dataclass

CHUNK = 16  # bytes that addresses and strides of tensors, and rows of boxes, are multiples of
START = 128  # bytes that a box starts at multiples of in shared memory
MOST = 256  # elements of a box along each dimension
MOST_DIMS = 5
FOLD = -1  # the number of the dimension that counts the parts of a row
MOST_BOXES = 32  # of one tile; each is an instruction of its own
_FARTHEST = 1 << 40  # bytes from one element to the next, below
_WIDEST = (1 << 31) - 1  # coordinates are 32-bit
# Values of CUtensorMapDataType. Copies move bits, so a dtype without an entry uses its size.
KINDS = {"float16": 6, "float32": 7, "float64": 8, "bfloat16": 9, "int32": 3, "int64": 5}
KINDS_BY_SIZE = {8: 0, 16: 1, 32: 2, 64: 4}


TmaOp: TypeAlias = "S.TileCopy | S.AtomicTile"  # what may be one of boxes
# Elements that TMA adds up (PTX, "cp.reduce.async.bulk"), as signed or unsigned numbers.
_ADDED = ("float16", "bfloat16", "float32", "int32", "uint32", "uint64")


class TmaIneligibleError(Exception):
    """Why TMA cannot make a copy; caught where copies are planned."""


def require(condition: bool, why: str) -> None:
    """Refuse a copy unless ``condition`` holds.

    Raises:
        TmaIneligibleError: it does not hold.
    """
    if not condition:
        raise TmaIneligibleError(why)


@dataclass(frozen=True)
class Box:
    """Where one box begins: indices of the tile, coordinates of the tensor, innermost first."""

    tile: tuple[E.Expr, ...]
    tensor: tuple[E.Expr, ...]


@dataclass(frozen=True)
class Window:
    """The window of a convolution in an im2col map: the steps between its places, and the corners
    of the bounding box of its first pixels, innermost dimension first."""

    stride: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]


@dataclass(frozen=True)
class Boxes:
    """A copy as boxes of one tensor map.

    Attributes:
        tensor, tile: the buffers in global and in shared memory.
        kind: the value of CUtensorMapDataType of an element.
        sizes: elements along each dimension of the map, innermost first.
        strides: bytes from one element to the next along each dimension, innermost first.
        extents: of a box, innermost first.
        span: bytes of the swizzle in shared memory, 0 for none.
        boxes: all of the copy.
        window: of an im2col map, None of others. Its extents are channels and pixels. Offsets
            follow the coordinates of a box.
    """

    tensor: Buffer
    tile: Buffer
    kind: int
    sizes: tuple[E.Expr, ...]
    strides: tuple[E.Expr, ...]
    extents: tuple[int, ...]
    span: int
    boxes: tuple[Box, ...]
    window: Window | None = None

    @property
    def box_bytes(self) -> int:
        """Bytes of one box, those outside of the tensor included."""
        return prod(self.extents) * self.tensor.dtype.bits // 8

    @property
    def bytes(self) -> int:
        """Bytes of all boxes."""
        return self.box_bytes * len(self.boxes)


@dataclass(frozen=True)
class Subtile:
    """An epilogue subtile: a part of the copy of a result, which each warp stores by boxes.

    Attributes:
        rows: the tile in shared memory: for each warp buffers of :data:`SUBTILE_ROWS` x
            :data:`SUBTILE_COLUMNS` elements.
        number, count: which one of how many; without a number none is stored.
        last: whether its warps wait until TMA has read all that they stored.
    """

    rows: Buffer
    number: int | None
    count: int
    last: bool = False


SUBTILE_ROWS, SUBTILE_COLUMNS = 16, 64


@dataclass(frozen=True)
class _Axis:
    """One dimension of the tile as it is stored.

    Attributes:
        dim: of the tile's buffer; ``step``: its elements from one index to the next.
        extent: number of indices; ``start``, ``count``: those of the region.
        pitch: elements of memory from one index to the next.
    """

    dim: int
    extent: int
    start: E.Expr
    count: int
    pitch: int
    step: int = 1


def is_complete(stmt: S.Stmt) -> bool:
    """Whether ``stmt`` is a copy by boxes that is over where it ends."""
    return isinstance(stmt, (S.Copy, S.AtomicTile, S.Im2col)) and stmt.hints.complete


def is_only_added(update: S.AtomicTile, body: S.Stmt) -> bool:
    """Whether ``body`` does nothing with the tensor of ``update`` but add to it by TMA. Such
    updates may come in any order, so that none has to be written before the next."""
    tensor = update.dst.buffer.data
    users = (node for node in S.walk(body) if tensor in effects.used(node, nested=False))
    return all(isinstance(node, S.AtomicTile) and is_complete(node) for node in users)


def endpoints_of(stmt: TmaOp) -> tuple[Region, Region, bool]:
    """The regions of the tensor and of the tile, and whether the tile is filled."""
    if isinstance(stmt, S.Im2col):
        return stmt.src, stmt.dst, True
    load = stmt.src.buffer.storage == "global"
    return (stmt.src, stmt.dst, True) if load else (stmt.dst, stmt.src, False)


def check_reduction(stmt: S.AtomicTile) -> None:
    """Check that TMA can make the update of a tile, apart from regions and layouts.

    Raises:
        TmaIneligibleError: TMA has no such update.
    """
    if stmt.op != "add" or str(stmt.dst.dtype) not in _ADDED:
        raise TmaIneligibleError(f"TMA has no `{stmt.op}` of {stmt.dst.dtype}")
    require(stmt.memory_order == "relaxed", f"its memory order is {stmt.memory_order}")


def box_layout(shape: tuple[int, ...], bits: int) -> Layout | None:
    """The best layout of a tile of ``shape`` that boxes fill: the widest swizzle that
    fits, else None for row-major."""
    spans = SPANS if len(shape) > 1 and CHUNK_BITS % bits == 0 else ()
    return next((swizzled(shape, bits, span) for span in spans if fits(shape, bits, span)), None)


def boxes_of(copy: S.Copy | S.AtomicTile, layout: Layout | None, bounds: Bounds) -> Boxes:
    """The boxes that ``copy`` moves between a tensor and a tile in shared memory.

    Args:
        layout: of the tile; None is row-major.
        bounds: of the variables in its regions.

    Raises:
        TmaIneligibleError: TMA cannot make the copy; says why.
    """
    tensor, tile, _ = endpoints_of(copy)
    if isinstance(copy, S.AtomicTile):
        check_reduction(copy)
    if tensor.buffer.storage != "global" or tile.buffer.storage not in ("shared", "shared.dyn"):
        raise TmaIneligibleError("it is not a copy between global and shared memory")
    dtype = tensor.buffer.dtype
    require(dtype == tile.buffer.dtype, f"it converts {copy.src.dtype} to {copy.dst.dtype}")
    kind = kind_of(dtype)
    strides = strides_of(tensor.buffer, bounds)
    first = E.binary("mul", tensor.mins[-1], E.const(dtype.bits // 8))
    if not is_divisible(first, CHUNK, bounds):
        # Anything else is an illegal instruction, seen on an H200.
        raise TmaIneligibleError(
            f"column `{tensor.mins[-1]!r}` of `{tensor.buffer.name}` is not known to be a multiple "
            f"of {CHUNK} bytes"
        )
    span, axes = _axes(tile, layout, bounds)
    sizes = tuple(map(E.as_expr, reversed(tensor.buffer.shape)))
    pairs = dict(zip(tile.tile_dims(), tensor.tile_dims()))
    row, last = axes[0], tensor.buffer.ndim - 1
    width = 0 if span or pairs.get(row.dim) != last else _fold(row, tensor, bounds)
    if width:
        inner = replace(row, extent=width, start=E.const(0), count=width)
        outer = replace(row, dim=FOLD, extent=row.extent // width, count=row.count // width,
                        start=row.start // width, pitch=width, step=width)  # fmt: skip
        axes, pairs = [inner, outer, *axes[1:]], {**pairs, FOLD: FOLD}
        sizes = (E.const(width), simplify(sizes[0] // width, bounds), *sizes[1:])
        strides = (strides[0], simplify(strides[0] * width), *strides[1:])
    box, loops = _box_and_loops(axes, pairs, tensor.buffer)
    _check_starts(axes, loops, dtype.bits // 8, bounds)
    boxes = []
    for position in product(*(range(times) for _, times, _ in loops)):
        offsets: dict[int, int] = {}
        for at, (axis, _, unit) in zip(position, loops):
            dim = row.dim if axis.dim == FOLD else axis.dim
            offsets[dim] = offsets.get(dim, 0) + at * unit * axis.step
        far = {pairs[dim]: offset for dim, offset in offsets.items()}
        first, *others = reversed(_corner(tensor, far))
        corner = (E.const(0), simplify(first // width, bounds)) if width else (first,)
        boxes.append(Box(_corner(tile, offsets), (*corner, *others)))
    return Boxes(tensor.buffer, tile.buffer, kind, sizes, strides, box, span, tuple(boxes))


def _fold(row: _Axis, tensor: Region, bounds: Bounds) -> int:
    """Elements of the innermost of the two dimensions that the rows of ``tensor`` are described by;
    0 where one dimension is enough, or two are no description of them."""
    size, length = tensor.dtype.bits // 8, tensor.buffer.shape[-1]
    if row.count <= MOST or tensor.buffer.ndim == MOST_DIMS:
        return 0
    width = _box_step(row.count)
    sizes = map(E.as_expr, (length, tensor.mins[-1], row.start, row.extent))
    fits = width * size % CHUNK == 0 and all(is_divisible(n, width, bounds) for n in sizes)
    return width if fits else 0


def _corner(region: Region, moved: dict[int, int]) -> tuple[E.Expr, ...]:
    return tuple(
        E.binary("add", low, E.const(moved[d], low.dtype)) if moved.get(d) else low
        for d, low in enumerate(region.mins)
    )


# -- the tensor --
def kind_of(dtype: DType) -> int:
    """The number of ``dtype`` in a tensor map.

    Raises:
        TmaIneligibleError: no tensor map has such elements.
    """
    is_known = dtype.lanes == 1 and dtype.bits in KINDS_BY_SIZE
    require(is_known, f"tensor maps do not support {dtype}")
    return KINDS.get(str(dtype), KINDS_BY_SIZE[dtype.bits])


def strides_of(tensor: Buffer, bounds: Bounds) -> tuple[E.Expr, ...]:
    """Bytes between elements of a tensor that a map can describe, innermost dimension first.

    Raises:
        TmaIneligibleError: no tensor map can.
    """
    name, size, rank = tensor.name, tensor.dtype.bits // 8, tensor.ndim
    require(1 <= rank <= MOST_DIMS, f"`{name}` has {rank} dimensions, TMA takes 1 to {MOST_DIMS}")
    if any(isinstance(extent, int) and extent == 0 for extent in tensor.shape):
        raise TmaIneligibleError(f"`{name}` has no elements")
    if not (isinstance(tensor.elem_offset, int) and tensor.elem_offset == 0):
        raise TmaIneligibleError(f"`{name}` does not start at the start of its memory")
    if tensor.attrs.base_alignment % CHUNK:
        raise TmaIneligibleError(f"the address of `{name}` is not a multiple of {CHUNK} bytes")
    *outer, last = map(E.as_expr, tensor.stride_list())
    if not (isinstance(last, E.Const) and int(last) == 1):
        raise TmaIneligibleError(f"the last dimension of `{name}` is not contiguous")
    strides: list[E.Expr] = [E.const(size, DType("int64"))]
    for extent in tensor.shape:
        if isinstance(extent, int) and extent > _WIDEST:
            raise TmaIneligibleError(f"`{name}` has {extent} elements along one dimension")
    for dim in reversed(range(rank - 1)):
        extent, stride = tensor.shape[dim], outer[dim]
        if isinstance(extent, int) and extent == 1:
            strides.append(E.const(CHUNK, DType("int64")))  # never taken
            continue
        step = E.binary("mul", E.cast(stride, DType("int64")), E.const(size, DType("int64")))
        if not is_divisible(step, CHUNK, bounds):
            raise TmaIneligibleError(
                f"`{stride!r}` elements of `{name}` along dimension {dim} are not known to be a "
                f"multiple of {CHUNK} bytes"
            )
        if isinstance(step, E.Const) and not 0 < int(step) < _FARTHEST:
            raise TmaIneligibleError(
                f"the stride of dimension {dim} of `{name}` is {int(step)} bytes"
            )
        strides.append(step)
    return tuple(strides)


# -- the tile --
def shape_of(tile: Region) -> tuple[int, ...]:
    """The extents of the buffer of a tile.

    Raises:
        TmaIneligibleError: it is a part of another one, or they are not constants.
    """
    buffer = tile.buffer
    if buffer.strides is not None or not is_same_extent(buffer.elem_offset, 0):
        raise TmaIneligibleError(f"`{buffer.name}` is a view of a part of other memory")
    if not all(isinstance(extent, int) for extent in (*buffer.shape, *tile.extents)):
        raise TmaIneligibleError(f"the extents of `{buffer.name}` are not constants")
    return tuple(int(extent) for extent in buffer.shape)


def span_of(buffer: Buffer, shape: tuple[int, ...], layout: Layout | None) -> int:
    """The span of the swizzle of a tile, 0 without one.

    Raises:
        TmaIneligibleError: the tile has another layout.
    """
    span = 0 if layout is None else swizzle_of(layout, shape, buffer.dtype.bits)
    if span is None:
        raise TmaIneligibleError(f"the layout of `{buffer.name}` is not a swizzle of TMA")
    return span


def _axes(tile: Region, layout: Layout | None, bounds: Bounds) -> tuple[int, list[_Axis]]:
    """The span of the swizzle, and the tile's dimensions in memory order, innermost first."""
    buffer, shape = tile.buffer, shape_of(tile)
    counts = [int(extent) for extent in tile.extents]
    span = span_of(buffer, shape, layout)
    if not span:
        return 0, _rows(shape, tile, counts)
    width = span * 8 // buffer.dtype.bits
    *lead, rows, columns = shape
    if counts[-1] % width or not is_divisible(tile.mins[-1], width, bounds):
        raise TmaIneligibleError(f"it copies a part of the {span}-byte panels of `{buffer.name}`")
    last = len(shape) - 1
    panel, zero = rows * width, E.const(0)
    inner = [
        _Axis(last, width, zero, width, 1),
        _Axis(last - 1, rows, tile.mins[-2], counts[-2], width),
        _Axis(
            last, columns // width, tile.mins[-1] // width, counts[-1] // width, panel, width
        ),
    ]  # fmt: skip
    if not is_divisible(tile.mins[-2], 8, bounds):
        raise TmaIneligibleError(f"it begins inside the 8 rows of a swizzle of `{buffer.name}`")
    return span, [*inner, *_rows(tuple(lead), tile, counts, columns * rows)]


def _rows(shape: tuple[int, ...], tile: Region, counts: list[int], pitch: int = 1) -> list[_Axis]:
    """The first dimensions row by row, the innermost first."""
    axes = []
    for dim in reversed(range(len(shape))):
        axes.append(_Axis(dim, shape[dim], tile.mins[dim], counts[dim], pitch))
        pitch *= shape[dim]
    return axes


Loop = tuple[_Axis, int, int]  # so many times so many indices of an axis


def _box_and_loops(
    axes: list[_Axis], pairs: dict[int, int], tensor: Buffer
) -> tuple[tuple[int, ...], list[Loop]]:
    """Extents of a box, innermost first, and what has to be done box by box."""
    box_extents: dict[int, int] = {}
    loops: list[Loop] = []
    dense = True  # whether the box so far fills the memory up to the next axis
    for axis in axes:
        if axis.count == 1:
            dense &= axis.extent == 1
            continue
        dim = pairs[axis.dim]
        if not dense or dim in box_extents:
            loops.append((axis, axis.count, 1))
            dense = False
            continue
        step = _box_step(axis.count)
        box_extents[dim] = step
        if step < axis.count:
            loops.append((axis, axis.count // step, step))
        dense = step == axis.extent
    last, size = tensor.ndim - 1, tensor.dtype.bits // 8
    row = box_extents.get(last, 1) * size
    if row % CHUNK:
        raise TmaIneligibleError(
            f"it takes {row} bytes of a row of `{tensor.name}`, not multiples of {CHUNK}"
        )
    count = prod(times for _, times, _ in loops)
    require(count <= MOST_BOXES, f"it needs {count} boxes, more than {MOST_BOXES}")
    dims = [last, *([FOLD] if FOLD in pairs else []), *reversed(range(last))]
    return tuple(box_extents.get(dim, 1) for dim in dims), loops


def _box_step(count: int) -> int:
    """The most indices of an axis that a box takes at once, in equal steps."""
    return next(step for step in range(min(count, MOST), 0, -1) if count % step == 0)


def _check_starts(axes: list[_Axis], loops: list[Loop], size: int, bounds: Bounds) -> None:
    """Every box starts at an aligned address."""
    aligned = all(
        is_divisible(E.binary("mul", axis.start, E.const(axis.pitch * size)), START, bounds)
        for axis in axes
    ) and all(axis.pitch * unit * size % START == 0 for axis, _, unit in loops)
    require(aligned, f"its boxes do not start at multiples of {START} bytes of the tile")
