"""Tensors of different frameworks seen as memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilelang.ir.dtypes import dtype
from tilelang.runtime.dlpack import open_capsule
from tilelang.runtime.tensors import (
    as_numpy_view,
    describe,
    empty_like_framework,
    numpy_result_dtype,
    storage_shape,
    to_framework,
)


class Foreign:
    """A tensor that only supports DLPack, of the old or the new kind."""

    def __init__(self, array: Any, versioned: bool = True) -> None:
        self.array = array
        self.versioned = versioned

    def __dlpack__(self, **options: Any) -> Any:
        if options and not self.versioned:
            raise TypeError("unexpected argument")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("versioned", [False, True])
def test_dlpack_capsule_is_read(versioned: bool) -> None:
    array = np.arange(12, dtype=np.int16).reshape(3, 4)[:, 1:3]
    view = open_capsule(Foreign(array, versioned))
    assert (view.dtype_name, view.shape, view.strides) == ("int16", (3, 2), (4, 1))
    assert (view.device, view.index, view.pointer) == (1, 0, array.ctypes.data)


def test_foreign_tensor_as_numpy_shares_memory_and_lives_on() -> None:
    array = np.arange(6.0).reshape(2, 3).T
    view = as_numpy_view(Foreign(array))
    view[1, 0] = 50
    assert array[1, 0] == 50 and view.strides == array.strides
    pointer = array.ctypes.data
    del array
    assert view.ctypes.data == pointer and view.sum() == 64.0


def test_read_only_stays_read_only() -> None:
    array = np.arange(3)
    array.setflags(write=False)
    assert describe(array).readonly
    assert describe(Foreign(array)).readonly
    assert not as_numpy_view(Foreign(array)).flags.writeable
    assert not describe(Foreign(np.arange(3))).readonly


def test_torch_types_become_storage_arrays() -> None:
    torch = pytest.importorskip("torch", reason="torch tensors")
    for name, storage in [
        ("bfloat16", np.uint16), ("float8_e4m3fn", np.uint8), ("bool", np.bool_),
        ("float16", np.float16), ("int64", np.int64),
    ]:  # fmt: skip
        tensor = torch.zeros(4, 6).to(getattr(torch, name))[:, 2:]
        view = as_numpy_view(tensor)
        assert view.dtype == storage and view.shape == (4, 4)
        assert view.ctypes.data == tensor.data_ptr()
        assert view.strides == (6 * view.itemsize, view.itemsize)
    tensor = torch.tensor([1.5], dtype=torch.bfloat16, requires_grad=True)
    assert as_numpy_view(tensor)[0] == 0x3FC0


def test_description_says_where_and_what() -> None:
    torch = pytest.importorskip("torch", reason="torch tensors")
    info = describe(torch.zeros(2, 3, dtype=torch.bfloat16))
    assert (info.dtype, info.shape, info.strides) == ("bfloat16", (2, 3), (3, 1))
    assert (info.device, info.raw, info.size) == ("cpu", False, 6)
    assert describe(torch.zeros(2, dtype=torch.complex64)).dtype is None


def test_results_follow_the_framework() -> None:
    bf16 = dtype("bfloat16")
    assert isinstance(empty_like_framework(np.zeros(1), dtype("float32"), (2, 3)), np.ndarray)
    assert empty_like_framework(np.zeros(1), bf16, (2,)).itemsize == 2
    torch = pytest.importorskip("torch", reason="torch tensors")
    made = empty_like_framework(torch.zeros(1), bf16, (2, 3))
    assert (made.dtype, tuple(made.shape)) == (torch.bfloat16, (2, 3))
    assert isinstance(empty_like_framework(None, bf16, (1,)), torch.Tensor)


def test_results_for_other_frameworks_go_through_their_from_dlpack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys
    import types

    module = types.ModuleType("strange")
    module.from_dlpack = lambda array: ("strange", array)  # type: ignore[attr-defined]  # a mock
    monkeypatch.setitem(sys.modules, "strange", module)
    like = type("Tensor", (), {"__module__": "strange.core"})()
    array = np.zeros(2)
    assert to_framework(like, array) == ("strange", array)
    assert to_framework(object(), array) is array


def test_numpy_result_types_are_storage_where_numpy_has_no_type() -> None:
    assert numpy_result_dtype(dtype("float32")) == np.float32
    assert numpy_result_dtype(dtype("int4")) == np.int8
    assert numpy_result_dtype(dtype("bfloat16")).itemsize == 2
    assert numpy_result_dtype(dtype("float8_e4m3")).itemsize == 1
    assert storage_shape((3, 5), dtype("int4")) == (3, 3)
    assert storage_shape((), dtype("int4")) == ()


def test_ml_dtypes_arrays_are_understood() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="numpy arrays of small floats")
    array = np.array([1.5, 2], ml_dtypes.bfloat16)
    info = describe(array)
    assert info.dtype == "bfloat16" and info.pointer == array.ctypes.data
    assert as_numpy_view(array).tolist() == [0x3FC0, 0x4000]
    assert describe(np.zeros(2, ml_dtypes.float8_e4m3fn)).dtype == "float8_e4m3fn"
    assert describe(np.zeros(2, ml_dtypes.int4)).dtype is None
