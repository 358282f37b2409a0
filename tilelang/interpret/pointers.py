"""Arrays of the caller and addresses as memory of the interpreter, and buffers over that memory."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tilelang.errors import ArgumentTypeError, KernelArgumentError, TileRuntimeError, TileTypeError
from tilelang.interpret.lanes import Active
from tilelang.interpret.memory import Bound, Memory, nibbles_of
from tilelang.interpret.values import Array
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import AddressOf, Expr, Load, RegionArg
from tilelang.ir.stmt import View

if TYPE_CHECKING:
    from tilelang.interpret.machine import DivergentGroup


def target(expr: Expr) -> tuple[Buffer, tuple[Expr, ...]]:
    """Buffer and indices of an address operand."""
    if isinstance(expr, (AddressOf, Load)):
        return expr.buffer, expr.indices
    if isinstance(expr, RegionArg):
        return expr.region.buffer, expr.region.mins
    raise TileTypeError(
        "the interpreter needs the buffer of an address",
        expected="a buffer element or T.address_of(buffer[i])",
        got=f"`{expr!r}`",
    )


def flat_bytes(array: Array) -> tuple[Array, int]:
    """The memory an array spans, as bytes, and the position of its first element in it.

    The bytes are shared with the array, whatever its strides.
    """
    if array.size == 0:
        return np.zeros(0, np.uint8), 0
    flips = tuple(slice(None, None, -1) if step < 0 else slice(None) for step in array.strides)
    lowest = array[flips] if array.ndim else array.reshape(1)
    first = sum(-step * (size - 1) for step, size in zip(array.strides, array.shape) if step < 0)
    span = sum(abs(step) * (size - 1) for step, size in zip(array.strides, array.shape))
    count = span // array.itemsize + 1
    line = as_strided(lowest, (count,), (array.itemsize,), writeable=array.flags.writeable)
    return line.view(np.uint8), first


def storage_of(buffer: Buffer, array: Any, name: str) -> Array:
    """``array`` checked to be the storage form of ``buffer``'s dtype."""
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(
            f"the argument `{name}` is not an array",
            expected="a numpy array of storage elements",
            got=type(array).__name__,
        )
    kind = buffer.dtype
    dtype = kind.as_numpy()
    if array.dtype == dtype:
        return array
    same_size = array.dtype.itemsize == dtype.itemsize
    opaque = kind.is_bool or kind.packing > 1 or (kind.is_float and kind.as_numpy().kind == "u")
    pointer = kind.is_handle and array.dtype.kind in "iu"
    if same_size and (opaque or pointer) and array.dtype.kind in "iub":
        return array.view(dtype)
    raise ArgumentTypeError(
        f"the argument `{name}` has the wrong dtype",
        expected=f"{kind}, held in {dtype}",
        got=str(array.dtype),
    )


def bind_array(s: DivergentGroup, buffer: Buffer, array: Array, written: bool) -> None:
    """Tie a parameter to the array given for it; its shape symbols are known already."""
    raw, first = flat_bytes(array)
    storage = Memory(raw, nibbles_of(buffer.dtype), written=written)
    storage.writable = bool(array.flags.writeable)
    packing, lanes = buffer.dtype.packing, buffer.dtype.lanes
    step = array.itemsize * lanes
    if any(stride * packing % step for stride in array.strides[:-1]):
        raise KernelArgumentError(
            f"the strides of `{buffer.name}` are not a multiple of its element size",
            expected=f"multiples of {step} bytes",
            got=str(array.strides),
        )
    bound = s.attach(buffer, storage)
    strides = [stride * packing // step for stride in array.strides]
    if packing > 1 and strides:
        strides[-1] = 1
    if lanes > 1 and len(strides) == len(bound.shape) + 1:
        strides = strides[:-1]
    if len(strides) != len(bound.shape):
        return
    fixed = Bound(buffer, storage, bound.shape, tuple(strides), first * packing // step, bound.safe)
    s.scope.bounds[id(buffer)] = fixed


def view(s: DivergentGroup, node: View, active: Active) -> None:
    """A buffer over memory that exists."""
    buffer = node.buffer
    if node.source is None:
        s.attach(buffer)
        return
    if isinstance(node.source, AddressOf) and buffer.dtype is node.source.buffer.dtype:
        _shift(s, buffer, node.source, active)
        return
    address = s.number(node.source, active, f"the address of `{buffer.name}`")
    s.attach(buffer, _at_address(s, buffer, address & 0xFFFFFFFFFFFFFFFF))


def _shift(s: DivergentGroup, buffer: Buffer, source: AddressOf, active: Active) -> None:
    origin = s.bound(source.buffer)
    bound = s.attach(buffer, origin.memory)
    shift = origin.offset + sum(
        s.number(index, active, "an address") * stride
        for index, stride in zip(source.indices, origin.strides)
    )
    s.scope.bounds[id(buffer)] = Bound(
        buffer, origin.memory, bound.shape, bound.strides, bound.offset + shift, bound.safe
    )


def _at_address(s: DivergentGroup, buffer: Buffer, address: int) -> Memory:
    """Memory behind a machine address, as large as the buffer's declared shape."""
    import ctypes

    nibbles = nibbles_of(buffer.dtype) * buffer.dtype.lanes
    if address == 0:
        missing = Memory(np.zeros(0, np.uint8), nibbles)
        missing.absent = True
        return missing
    shape = [s.number(extent, None, "an extent") for extent in buffer.shape]
    if buffer.strides is None:
        count = prod(shape)
    else:
        steps = [s.number(stride, None, "a stride") for stride in buffer.strides]
        count = 1 + sum((n - 1) * step for n, step in zip(shape, steps)) if prod(shape) else 0
    offset = s.number(buffer.elem_offset, None, "an offset")
    size = -(-(count + offset) * nibbles // 2)
    tensor = s.run.pointers.get(address)
    if tensor is not None and tensor.nbytes < size:
        raise TileRuntimeError(
            f"`{buffer.name}` is larger than the array its pointer was taken from",
            expected=f"an array of at least {size} bytes",
            got=f"{tensor.nbytes} bytes",
        )
    # ctypes gives a writable view of foreign memory; it is not typed as a buffer.
    raw = np.frombuffer(cast("memoryview", (ctypes.c_uint8 * size).from_address(address)), np.uint8)
    return Memory(raw, nibbles)
