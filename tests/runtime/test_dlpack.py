"""DLPack capsules with wrong contents are refused before anything is read through them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import pytest
from refusals import refusal

from tilelang.errors import ArgumentTypeError, KernelArgumentError
from tilelang.runtime import dlpack
from tilelang.runtime.signature import LaunchSpec, Symbol, tensor

ARRAY = np.arange(24, dtype=np.float32).reshape(4, 6)
SPEC = LaunchSpec(
    "f", (tensor("A", "float32", (("$0",), 6)), tensor("B", "float32", (4, 6))), (Symbol("m"),)
)


class _Managed(ctypes.Structure):
    _fields_ = [
        ("tensor", dlpack.DlTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
    ]  # fmt: skip


class Liar:
    """Hands out a capsule of ``ARRAY`` in which some fields are changed."""

    def __init__(self, name: bytes = b"dltensor", version: int = 1, **fields: Any) -> None:
        self.name = name
        self.version = version
        self.fields = fields
        self.keep: list[Any] = []

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_: Any) -> Any:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype = ctypes.py_object
        new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        if self.name == b"dltensor_versioned":
            managed: Any = dlpack._Versioned()
            managed.major = self.version
        else:
            managed = _Managed()
        found = managed.tensor
        shape, strides = (ctypes.c_int64 * 2)(4, 6), (ctypes.c_int64 * 2)(6, 1)
        found.data, found.device_type, found.ndim = ARRAY.ctypes.data, 1, 2
        found.code, found.bits, found.lanes = 2, 32, 1
        found.shape, found.strides = shape, strides
        for name, value in self.fields.items():
            if isinstance(value, tuple):
                value = (ctypes.c_int64 * len(value))(*value)
                self.keep.append(value)
            setattr(found, name, value)
        self.keep += [managed, shape, strides]
        return new(ctypes.addressof(managed), self.name, None)


@pytest.mark.parametrize("name", [b"dltensor", b"dltensor_versioned"])
def test_honest_capsules_are_taken(harness: Any, name: bytes) -> None:
    call, kernel = harness.make(SPEC)
    call(Liar(name), Liar(name, strides=None))
    assert kernel.slots == [ARRAY.ctypes.data, ARRAY.ctypes.data, 4]
    call(Liar(name, byte_offset=24, shape=(3, 6)), ARRAY)
    assert kernel.slots == [ARRAY.ctypes.data + 24, ARRAY.ctypes.data, 3]


@pytest.mark.parametrize(
    ("fields", "got"),
    [
        ({"ndim": -1}, "-1 dimensions"),
        ({"ndim": 2**31 - 1}, "2147483647 dimensions"),
        ({"shape": None}, "2 dimensions without a shape"),
        ({"shape": (-4, 6)}, "the shape (-4, 6)"),
        ({"shape": (2**62, 6)}, "elements outside of memory: shape (4611686018427387904, 6)"),
        ({"strides": (2**62, 1)}, "elements outside of memory: shape (4, 6), strides (46116860"),
        ({"strides": (-(2**62), 1)}, "elements outside of memory"),
        ({"byte_offset": 2**64 - 1}, "elements outside of memory"),
        ({"data": None}, "no memory for the shape (4, 6)"),
        ({"data": None, "byte_offset": 4096}, "no memory for the shape (4, 6)"),
        ({"lanes": 0}, "elements of 32 bits in 0 lanes"),
        ({"bits": 0}, "elements of 0 bits in 1 lanes"),
        ({"name": b"used_dltensor"}, "PyCapsule without a tensor"),
        ({"name": b"dltensor_versioned", "version": 2}, "DLPack version 2"),
        ({"name": b"dltensor_versioned", "version": 0}, "DLPack version 0"),
    ],
)
def test_inconsistent_capsules_are_an_error(harness: Any, fields: dict[str, Any], got: str) -> None:
    call, kernel = harness.make(SPEC)
    with pytest.raises(ArgumentTypeError) as caught:
        call(Liar(**fields), ARRAY)
    text = str(caught.value)
    assert text.startswith(
        "kernel f input A: the __dlpack__ of this Liar gives no tensor\n"
        "  expected: a DLPack capsule of version 0 or 1\n"
    )
    assert got in text
    assert not kernel.calls


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"device_type": 2}, "input A is on the wrong device\n  expected: cpu\n  got: cuda:0"),
        ({"device_type": 99}, "on the wrong device\n  expected: cpu\n  got: device type 99:0"),
        ({"lanes": 4}, "has the wrong dtype\n  expected: float32\n  got: float32x4"),
        ({"code": 5, "bits": 64}, "has the wrong dtype\n  expected: float32\n  got: complex64"),
        ({"code": 200}, "has the wrong dtype\n  expected: float32\n  got: type200_32"),
        ({"ndim": 1}, "has the wrong number of dimensions"),
        ({"ndim": 0}, "has the wrong number of dimensions"),
        ({"shape": (4, 7)}, "shape[1] does not match"),
        ({"strides": (7, 1)}, "is not contiguous"),
        ({"strides": (-6, 1)}, "is not contiguous"),
        ({"byte_offset": 2}, "is misaligned"),
    ],
)
def test_capsules_of_other_tensors_are_distinguished(
    harness: Any, fields: dict[str, Any], text: str
) -> None:
    call, kernel = harness.make(SPEC)
    assert text in refusal(KernelArgumentError, call, Liar(**fields), ARRAY)
    assert not kernel.calls


def test_an_empty_tensor_has_no_elements(harness: Any) -> None:
    call, kernel = harness.make(SPEC)
    call(Liar(shape=(0, 6), data=None), ARRAY)
    assert kernel.slots[2] == 0


class Broken:
    """Has an interface that does not keep to its rules."""

    def __init__(self, name: str, value: Any) -> None:
        setattr(self, name, value)


class Refusing:
    def __init__(self, error: Exception) -> None:
        self.error = error

    def __dlpack__(self, **_: Any) -> Any:
        raise self.error


@pytest.mark.parametrize(
    ("broken", "got"),
    [
        (Broken("__array_interface__", {"version": 3}), "__array_interface__ of this Broken"),
        (Broken("__array_interface__", 3), "__array_interface__ of this Broken"),
        (Broken("__cuda_array_interface__", {}), "__cuda_array_interface__ of this Broken"),
        (Broken("__cuda_array_interface__", None), "__cuda_array_interface__ of this Broken"),
        (Broken("__cuda_array_interface__", {"typestr": "<f4", "shape": (4, 6), "data": 3}),
         "__cuda_array_interface__ of this Broken"),
        (Refusing(BufferError("not now")), "got: BufferError: not now"),
        (Refusing(AttributeError("no data")), "got: AttributeError: no data"),
        (Refusing(RuntimeError("x" * 10**6)), "got: RuntimeError: xxxx"),
    ],
    ids=range(8),
)  # fmt: skip
def test_objects_with_broken_interfaces_are_refused(harness: Any, broken: Any, got: str) -> None:
    call, kernel = harness.make(SPEC)
    with pytest.raises(ArgumentTypeError) as caught:
        call(broken, ARRAY)
    assert got in str(caught.value)
    assert len(str(caught.value)) < 500
    assert not kernel.calls
