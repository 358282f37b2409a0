"""TMA box copies through tensor maps, in numpy.

A box is contiguous in shared memory, innermost dimension first; a swizzle of 32, 64 or 128 bytes
combines the number of a 16-byte chunk with bits of its address (PTX ISA, "Tensors", "Swizzling
modes"), where the buffer starts at a multiple of the pattern. Outside the tensor a load gives zeros
and a store does nothing. A copy arrives when it is issued.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from tilelang.errors import OutOfBoundsError
from tilelang.interpret import memory, values
from tilelang.interpret.instructions import Address, Meaning, address_of, locate, put_bytes
from tilelang.interpret.lanes import Active
from tilelang.interpret.values import Array
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Call, Expr
from tilelang.records import dataclass

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup

_PHASES = {0: 1, 1: 2, 2: 4, 3: 8}  # value of CUtensorMapSwizzle -> chunks that are permuted
# By the values of CUtensorMapDataType.
_KINDS = (
    "uint8", "uint16", "uint32", "int32", "uint64", "int64", "float16", "float32", "float64",
    "bfloat16",
)  # fmt: skip
_START = 128  # alignment of a box in bytes


@dataclass(frozen=True)
class _Map:
    """A tensor map: what the elements are, and, innermost first, extents, strides in bytes and
    extents of the box."""

    start: Expr
    kind: DType
    dims: list[int]
    strides: list[int]
    box: list[int]
    swizzle: int

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return self.strides[0]


def _numbers(s: DivergentGroup, box_map: Call, active: Active) -> list[int]:
    """The numbers that follow the address in a tensor map."""
    return [s.number(arg, active, "an operand of a tensor map") for arg in box_map.args[3:]]


def _map_of(s: DivergentGroup, expr: Expr, active: Active) -> _Map:
    assert isinstance(expr, Call)
    rank = s.number(expr.args[1], active, "the rank of a tensor map")
    numbers = _numbers(s, expr, active)
    dims, strides, box = (numbers[k * rank : (k + 1) * rank] for k in range(3))
    kind = DType(_KINDS[s.number(expr.args[0], active, "the data type of a tensor map")])
    return _Map(expr.args[2], kind, dims, strides, box, numbers[4 * rank + 1])


@dataclass(frozen=True)
class _Box:
    """The byte positions of one box of one lane: in shared memory and in the tensor, and a mask of
    the bytes in shared memory that are inside the tensor."""

    tile: Address
    shared_bytes: Array
    tensor: Address
    tensor_bytes: Array
    inside: Array


def _boxes(
    s: DivergentGroup, tile: Expr, box_map: _Map, coordinates: list[Expr], active: Active
) -> list[tuple[int, _Box]]:
    """The box of each active lane.

    Raises:
        OutOfBoundsError: the memory of the tensor is smaller than its map says.
    """
    smem, gmem = address_of(s, tile, active), address_of(s, box_map.start, active)
    corners = [s.spread(s.eval(coordinate, active)) for coordinate in coordinates]
    boxes = []
    for lane in s.lanes.members(active):
        axes = np.indices(tuple(reversed(box_map.box))).reshape(len(box_map.box), -1)
        indices = [axis + int(low[lane]) for axis, low in zip(reversed(axes), corners, strict=True)]
        tensor_bytes = sum(at * step for at, step in zip(indices, box_map.strides, strict=True))
        inside = np.logical_and.reduce(
            [(at >= 0) & (at < extent) for at, extent in zip(indices, box_map.dims, strict=True)]
        )
        tensor_bytes = _bytes(np.asarray(tensor_bytes)[inside] + gmem.offset[lane], box_map.size)
        if tensor_bytes.size and (tensor_bytes.min() < 0 or tensor_bytes.max() >= gmem.memory.size):
            raise OutOfBoundsError(
                f"a tensor map extends beyond `{gmem.name}`",
                expected=f"bytes 0..{gmem.memory.size}",
                got=f"bytes {tensor_bytes.min()} to {tensor_bytes.max()} {s.site.text(int(lane))}",
            )
        count = prod(box_map.box) * box_map.size
        start = locate(s, smem, np.array([lane]), count, _START)[0] - smem.base[lane]
        shared = smem.base[lane] + (start ^ ((start >> 7) % _PHASES[box_map.swizzle] << 4))
        mask = np.repeat(inside, box_map.size)
        boxes.append((int(lane), _Box(smem, shared, gmem, tensor_bytes + gmem.base[lane], mask)))
    return boxes


def _bytes(first: Array, size: int) -> Array:
    """The bytes of elements that begin at ``first``, contiguous."""
    return np.asarray((first[:, None] + np.arange(size)).reshape(-1))


def _load(s: DivergentGroup, node: Call, active: Active) -> None:
    tile, tensor_map, _, *coordinates = node.args
    for lane, box in _boxes(s, tile, _map_of(s, tensor_map, active), coordinates, active):
        raw = np.zeros(box.shared_bytes.size, np.uint8)
        raw[box.inside] = box.tensor.memory.raw[box.tensor_bytes]
        put_bytes(box.tile.memory, box.shared_bytes, raw)
        s.tell_bytes(box.tile.bound, np.array([lane]), box.shared_bytes[None], True)


def _load_pixels(s: DivergentGroup, node: Call, active: Active) -> None:
    """Runs of channels of pixels that follow each other in the bounding box of an image."""
    tile, tensor_map, _, *operands = node.args
    assert isinstance(tensor_map, Call)
    start, numbers = tensor_map.args[2], _numbers(s, tensor_map, active)
    dims, strides, steps, lower, upper, (pixels, channels), (_, swizzle, _, _) = (
        numbers[low:high]
        for low, high in ((0, 4), (4, 8), (8, 12), (12, 14), (14, 16), (16, 18), (18, 22))
    )
    spread = [s.spread(s.eval(operand, active)) for operand in operands]
    smem, gmem = address_of(s, tile, active), address_of(s, start, active)
    size = strides[0]
    for lane in (int(operand) for operand in s.lanes.members(active)):
        c, w, h, n, *offsets = (int(operand[lane]) for operand in spread)
        indices = []
        for _ in range(pixels):
            indices.append((n, h + offsets[1], w + offsets[0]))
            w += steps[1]
            if w >= dims[1] + upper[0]:
                w, h = lower[0], h + steps[2]
            if h >= dims[2] + upper[1]:
                h, n = lower[1], n + 1
        at = np.array(indices)[:, None, :]
        channel = c + np.arange(channels)[None, :]
        inside = ((at >= 0) & (at < np.array(dims[3:0:-1]))).all(-1) & (channel < dims[0])
        elements = (at * np.array(strides[3:0:-1])).sum(-1) + channel * size
        raw = np.zeros(pixels * channels * size, np.uint8)
        addresses = _bytes(elements[inside] + gmem.offset[lane] + gmem.base[lane], size)
        raw[np.repeat(inside.reshape(-1), size)] = gmem.memory.raw[addresses]
        begin = locate(s, smem, np.array([lane]), raw.size, _START)[0] - smem.base[lane]
        shared = smem.base[lane] + (begin ^ ((begin >> 7) % _PHASES[swizzle] << 4))
        put_bytes(smem.memory, shared, raw)
        s.tell_bytes(smem.bound, np.array([lane]), shared[None], True)


def _store(s: DivergentGroup, node: Call, active: Active) -> None:
    tensor_map, tile, *coordinates = node.args
    tensor = _map_of(s, tensor_map, active)
    for lane, box in _boxes(s, tile, tensor, coordinates, active):
        if not box.tensor.memory.writable:
            raise memory.read_only(box.tensor.bound)
        raw = box.tile.memory.raw[box.shared_bytes][box.inside]
        if node.attr("reduce") is not None:
            old = box.tensor.memory.raw[box.tensor_bytes]
            raw = _combined(str(node.attr("reduce")), old, raw, tensor.kind)
        put_bytes(box.tensor.memory, box.tensor_bytes, raw)
        s.tell_bytes(box.tile.bound, np.array([lane]), box.shared_bytes[None], False)


def _combined(op: str, old: Array, new: Array, kind: DType) -> Array:
    """The bytes of elements that are updated."""
    working_type = values.compute_dtype(kind)
    stored = floats.to_storage(np.zeros(1), kind).dtype
    first, second = (
        floats.from_storage(side.view(stored), kind).astype(working_type) for side in (old, new)
    )
    combined = values.combine(op, first, second, kind)
    return floats.to_storage(np.asarray(combined), kind).view(np.uint8)


MEANINGS: dict[str, Meaning] = {
    "load a box": _load,
    "load pixels": _load_pixels,
    "store a box": _store,
}
