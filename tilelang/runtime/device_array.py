"""Arrays in the memory of a GPU by its driver alone, for processes that need no framework.

The import of torch takes longer than many searches for the best kernel. The class has the exchange
table of DLPack, so that launchers read these arrays as fast as tensors of torch.
"""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import TileRuntimeError
from tilelang.ir.buffer import row_major_strides
from tilelang.runtime.dlpack import CUDA, DlTensor, type_code

if TYPE_CHECKING:
    from tilelang.ir.dtypes import dtype as DType


class DeviceMemory:
    """Memory of one GPU, used in the order of its default stream by one thread.

    Args:
        driver: a :class:`tilelang.cuda.driver.Driver`.
        index: number of the GPU.
    """

    def __init__(self, driver: Any, index: int) -> None:
        self.driver, self.index = driver, index
        # Free blocks by size. They are reused in stream order; an allocation by the driver would
        # add work between two calls.
        self._blocks: dict[int, list[int]] = {}
        context = ctypes.c_void_p(driver.context(index))
        driver.call("cuCtxSetCurrent", context, action=f"selecting GPU {index}")

    def take(self, size: int) -> int:
        """Allocate ``size`` bytes; returns their address."""
        free = self._blocks.get(size)
        if free:
            return free.pop()
        try:
            return int(self.driver.allocate(self.index, size))
        except TileRuntimeError:
            if not any(self._blocks.values()):
                raise
        for blocks in self._blocks.values():
            while blocks:
                self.driver.free(self.index, blocks.pop())
        self.wait()  # the driver frees memory in stream order
        return int(self.driver.allocate(self.index, size))

    def give(self, address: int, size: int) -> None:
        """Free a block."""
        self._blocks.setdefault(size, []).append(address)

    def empty(self, dtype: DType, shape: tuple[int, ...]) -> DeviceArray:
        """An uninitialised array; ``shape`` in storage units."""
        return DeviceArray(self, dtype, shape)

    def upload(self, array: Any, dtype: DType, shape: tuple[int, ...]) -> DeviceArray:
        """Copy a storage array of numpy to the device, repeated until it fills ``shape``."""
        result, source = self.empty(dtype, shape), np.ascontiguousarray(array)
        copied = min(source.nbytes, result.size)
        self.driver.copy(self.index, result.pointer, source.ctypes.data, copied)
        while 0 < copied < result.size:  # double the filled part
            step = min(copied, result.size - copied)
            self.driver.copy(self.index, result.pointer + copied, result.pointer, step)
            copied += step
        self.wait()
        return result

    def wait(self) -> None:
        """Wait for the GPU; raises its pending errors."""
        self.driver.synchronize(self.index)


def _view(array: Any, out: int) -> int:
    ctypes.memmove(out, array.address, ctypes.sizeof(DlTensor))
    return 0


def _stream(kind: int, device: int, out: int) -> int:
    ctypes.c_void_p.from_address(out).value = None  # the default stream
    return 0


_FUNCTIONS = (
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(_view),
    ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_int32, ctypes.c_void_p)(_stream),
)
# DLPack's exchange table: version 1.3, four functions that are left out, view, stream.
_TABLE = (ctypes.c_void_p * 7)(
    1 | 3 << 32, *[None] * 4, *(ctypes.cast(function, ctypes.c_void_p) for function in _FUNCTIONS)
)
_NAME = b"dlpack_exchange_api"  # lives as long as the capsule


def _capsule() -> object:
    make = ctypes.pythonapi.PyCapsule_New
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    capsule: object = make(ctypes.addressof(_TABLE), _NAME, None)
    return capsule


@cache  # copies share the extents and strides
def _description(dtype: DType, shape: tuple[int, ...], index: int) -> tuple[DlTensor, int]:
    """The description of arrays for C, without an address, and their bytes."""
    code, rank = type_code(dtype), len(shape)
    kinds = code >> 24, code >> 16 & 255, code & 0xFFFF
    rows = (ctypes.c_int64 * rank for _ in range(2))
    extents, steps = (kind(*row) for kind, row in zip(rows, (shape, row_major_strides(shape))))
    form = DlTensor(None, CUDA, index, rank, *kinds, extents, steps)
    return form, math.prod(shape) * dtype.as_numpy().itemsize


class DeviceArray:
    """A contiguous tensor in device memory.

    Attributes:
        dtype, shape: the latter in storage units.
        size: bytes.
        pointer: its address.
        address: the address of its DLPack description.
    """

    __slots__ = ("_tensor", "address", "dtype", "memory", "pointer", "shape", "size")
    __dlpack_c_exchange_api__ = _capsule()

    def __init__(self, memory: DeviceMemory, dtype: DType, shape: tuple[int, ...]) -> None:
        self.memory, self.dtype, self.shape = memory, dtype, shape
        form, self.size = _description(dtype, shape, memory.index)
        self.pointer = memory.take(self.size)
        self._tensor = DlTensor.from_buffer_copy(form)
        self._tensor.data = self.pointer
        self.address = ctypes.addressof(self._tensor)

    def __del__(self) -> None:
        if hasattr(self, "pointer"):  # the allocation succeeded
            self.memory.give(self.pointer, self.size)

    def get(self) -> np.ndarray[Any, Any]:
        """The storage array in host memory."""
        array = np.empty(self.shape, self.dtype.as_numpy())
        self.memory.driver.copy(self.memory.index, array.ctypes.data, self.pointer, self.size)
        self.memory.wait()
        return array
