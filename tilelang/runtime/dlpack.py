"""Reading DLPack capsules with ctypes: the plain facts of the ABI, versions 0 and 1.

Only what is needed to read a tensor. The capsule is not consumed: it keeps the memory alive, and
its own destructor releases the tensor.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

from tilelang.errors import ArgumentTypeError
from tilelang.ir.buffer import row_major_strides
from tilelang.records import dataclass

CPU, CUDA = 1, 2
DEVICES = {
    1: "cpu", 2: "cuda", 3: "cpu", 4: "opencl", 7: "vulkan", 8: "metal", 10: "hip", 11: "cpu",
    13: "cuda", 14: "oneapi", 15: "webgpu",
}  # fmt: skip

# Type code and bits -> name; the codes from 7 on are one small float each.
_CODES = {0: "int", 1: "uint", 2: "float", 3: "handle", 4: "bfloat", 5: "complex", 6: "bool"}
# What ml_dtypes and JAX call float8_e4m3; the language's type of that name is the finite format.
INFINITE_E4M3 = "float8_e4m3 with infinities (float8_e4m3fn has none)"
_SMALL = (
    "float8_e3m4", INFINITE_E4M3, "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
    "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn",
    "float4_e2m1fn",
)  # fmt: skip
_READ_ONLY = 1
MAX_DIMS = 64  # of a tensor; frameworks have fewer
_ADDRESSES = 1 << 64


class DlTensor(ctypes.Structure):
    """``DLTensor`` of the ABI."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class _Versioned(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", DlTensor),
    ]


@dataclass(frozen=True)
class CapsuleView:
    """A tensor in a capsule; strides in elements."""

    dtype_name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: int
    index: int
    pointer: int
    readonly: bool
    capsule: object


def type_name(code: int, bits: int, lanes: int) -> str:
    """Name of a DLPack type, that of the language if it has the type."""
    if code == 6:
        name = "bool"
    elif 7 <= code < 7 + len(_SMALL):
        name = _SMALL[code - 7]
        if name == "float4_e2m1fn" and lanes == 2:  # a packed pair
            return name
    else:
        name = f"{_CODES.get(code, f'type{code}_')}{bits}"
    return name if lanes == 1 else f"{name}x{lanes}"


def type_code(dtype: Any) -> int:
    """Code, bits and lanes of a scalar type in one number, as the C launcher compares them."""
    code, bits, lanes = dtype.code, dtype.bits, dtype.lanes
    name = "float8_e4m3fn" if dtype == "float8_e4m3" else str(dtype)
    if name in _SMALL:
        number = 7 + _SMALL.index(name)
        lanes = 2 if dtype == "float4_e2m1fn" else lanes
    else:
        number = {"int": 0, "uint": 1, "float": 2, "bfloat": 4, "bool": 6}.get(code, 255)
    return int(number << 24 | bits << 16 | lanes)


@lru_cache(maxsize=1)
def _api() -> Any:
    """The two C functions of Python for capsules."""
    python = ctypes.pythonapi
    valid, pointer = python.PyCapsule_IsValid, python.PyCapsule_GetPointer
    valid.restype, valid.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return valid, pointer


def open_capsule(obj: Any) -> CapsuleView:
    """The tensor in the capsule that ``obj`` exports.

    Raises:
        ArgumentTypeError: the object refuses, or exports something else.
    """
    try:
        capsule = obj.__dlpack__(max_version=(1, 0))
    # Older producers have no such argument; some refuse, or fail.
    except (TypeError, BufferError, ValueError, RuntimeError, AttributeError):
        capsule = _old_capsule(obj)
    valid, pointer = _api()
    readonly = False
    if valid(capsule, b"dltensor_versioned"):
        managed = _Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
        if managed.major != 1:
            raise _refused(obj, f"DLPack version {managed.major}")
        tensor, readonly = managed.tensor, bool(managed.flags & _READ_ONLY)
    elif valid(capsule, b"dltensor"):
        tensor = DlTensor.from_address(pointer(capsule, b"dltensor"))
    else:
        raise _refused(obj, f"{type(capsule).__name__} without a tensor")
    shape, strides, address = _checked(obj, tensor)
    return CapsuleView(
        dtype_name=type_name(tensor.code, tensor.bits, tensor.lanes),
        shape=shape,
        strides=strides,
        device=tensor.device_type,
        index=tensor.device_id,
        pointer=address,
        readonly=readonly,
        capsule=capsule,
    )


def _checked(obj: Any, tensor: DlTensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Shape, strides and address of the first element, when they can be those of a tensor."""
    rank = tensor.ndim
    if not 0 <= rank <= MAX_DIMS:
        raise _refused(obj, f"{rank} dimensions")
    if rank and not tensor.shape:
        raise _refused(obj, f"{rank} dimensions without a shape")
    if not tensor.lanes or not tensor.bits:
        raise _refused(obj, f"elements of {tensor.bits} bits in {tensor.lanes} lanes")
    shape = tuple(tensor.shape[i] for i in range(rank))
    strides = (
        tuple(tensor.strides[i] for i in range(rank))
        if tensor.strides
        else row_major_strides(shape)
    )
    if any(extent < 0 for extent in shape):
        raise _refused(obj, f"the shape {shape}")
    start = tensor.data or 0
    if not all(shape):
        return shape, strides, start  # nothing is there
    if not start:
        raise _refused(obj, f"no memory for the shape {shape}")
    size = tensor.bits * tensor.lanes / 8
    address = start + tensor.byte_offset
    steps = [(extent - 1) * stride for extent, stride in zip(shape, strides)]
    first = address + sum(step for step in steps if step < 0) * size
    last = address + sum(step for step in steps if step > 0) * size + size
    if first < 0 or last > _ADDRESSES:
        raise _refused(
            obj, f"elements outside of memory: shape {shape}, strides {strides}, "
            f"{tensor.byte_offset} bytes from 0x{start:x}",
        )  # fmt: skip
    return shape, strides, address


def _old_capsule(obj: Any) -> Any:
    try:
        return obj.__dlpack__()
    except (TypeError, BufferError, ValueError, RuntimeError, AttributeError) as error:
        raise _refused(obj, f"{type(error).__name__}: {str(error)[:200]}") from error


def _refused(obj: object, got: str) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"the __dlpack__ of this {type(obj).__name__} gives no tensor",
        expected="a DLPack capsule of version 0 or 1",
        got=got,
    )
