"""Annotations: their text, the keys they give, the parameters they make."""

from __future__ import annotations

import inspect
from typing import Any, TypeVar

import numpy as np
import pytest

import tilelang.language as T
from tilelang.errors import (
    ArgumentCountError,
    ArgumentTypeError,
    KernelArgumentError,
    TileTypeError,
    TileValueError,
)
from tilelang.language.v2 import annot
from tilelang.language.v2.annot import FuncAnnot, TensorAnnot

F16 = np.zeros((4, 8), np.float16)


def named(written: Any, name: str = "A") -> Any:
    return annot.annotation_of(written, name)


def key(written: Any, value: Any) -> tuple[Any, ...]:
    found: tuple[Any, ...] = named(written).get_key_parser()(value)
    return found


def test_the_text_marks_what_is_unknown_and_what_is_dynamic() -> None:
    assert repr(named(T.Tensor[[int, T.dyn["K"]], T.float16])) == (
        "TensorAnnot(shape=[A_shape_0$, K$dyn], strides=None, dtype=dtype('float16'))"
    )
    assert repr(named(T.StridedTensor[[T.dyn, 4], [int, 1], Any])) == (
        "StridedTensorAnnot(shape=[A_shape_0$dyn, 4], strides=[A_stride_0$, 1], dtype=None)"
    )
    assert repr(named(T.Tensor((2, 3), "float"))) == (
        "TensorAnnot(shape=[2, 3], strides=None, dtype=dtype('float32'))"
    )
    assert repr(named(T.int32, "n")) == "n$dyn"
    assert repr(named(None, "k")) == "k$"
    assert repr(named(T.dtype, "dt")) == "dt$dtype"
    assert repr(named(T.ptr, "p")) == "p$ptr"


def test_shapes_are_written_as_ints_tuples_or_lists() -> None:
    forms = [T.Tensor(4, "int32"), T.Tensor((4,), "int32"), T.Tensor([4], "int32")]
    forms += [T.Tensor[4, T.int32], T.Tensor[[4], T.int32], T.Tensor[(4,), T.int32]]
    forms += [T.Buffer[4, T.int32]]
    assert {repr(f.shape) for f in forms} == {"[4]"}
    assert T.Buffer((4,), dtype="int32").shape == (4,)
    assert {f.dtype for f in forms} == {"int32"}


@pytest.mark.parametrize("atom", [int, Any, TypeVar("N"), None])
def test_unknown_extents_are_the_key(atom: Any) -> None:
    assert key(T.Tensor[[atom, 8], T.float16], F16) == (4,)


def test_dynamic_and_given_extents_add_nothing() -> None:
    n = T.dynamic("n")
    assert key(T.Tensor[[T.dyn, n], T.float16], F16) == ()
    assert key(T.Tensor((n * 4, 8), "float16"), F16) == ()


def test_an_unknown_dtype_is_the_key() -> None:
    assert key(T.Tensor[[T.dyn, T.dyn], Any], F16) == ("float16",)
    assert key(T.Tensor[[int, T.dyn], None], F16) == (4, "float16")


def test_strides_are_counted_in_elements() -> None:
    strided = np.zeros((8, 16), np.float16)[::2, ::2]
    assert key(T.StridedTensor[[int, int], [int, int], T.float16], strided) == (4, 8, 32, 2)


def test_packed_types_are_counted_in_logical_elements() -> None:
    packed = np.zeros((4, 8), np.int8)
    assert key(T.Tensor[[int, int], "float4_e2m1fn"], packed) == (4, 16)
    strided = T.StridedTensor[[int, int], [int, int], "float4_e2m1fn"]
    assert key(strided, packed[::2, :6]) == (2, 12, 32, 1)


def test_placeholders_replace_tensors() -> None:
    written = T.Tensor[[int, int], T.float16]
    assert key(written, T.Tensor((4, 8), "float16")) == key(written, F16)
    assert key(written, T.Tensor((4, 8), "float32")) == key(written, F16)  # the annotation wins
    assert key(T.Tensor[[int, T.dyn], Any], T.Tensor((4, 8), T.int8)) == (4, "int8")
    assert key(T.ptr, T.ptr()) == ()


def test_torch_tensors_are_read_like_arrays() -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    tensor = torch.zeros(8, 16, dtype=torch.bfloat16)[:, ::2]
    written = T.StridedTensor[[int, T.dyn], [int, int], Any]
    assert key(written, tensor) == (8, 16, 2, "bfloat16")
    assert key(T.Tensor[[int, int], T.bfloat16], tensor.contiguous()) == (8, 8)
    assert key(T.dtype, torch.float32) == key(T.dtype, "float") == ("float32",)


def test_storage_twins_are_accepted() -> None:
    assert key(T.Tensor[[int], T.bfloat16], np.zeros(3, np.uint16)) == (3,)
    assert key(T.Tensor[[int], T.bool], np.zeros(3, np.int8)) == (3,)


def test_wrong_arguments_name_the_parameter() -> None:
    written = T.Tensor[[int, int], T.float16]
    with pytest.raises(ArgumentTypeError) as wrong_dtype:
        key(written, np.zeros((2, 2), np.float32))
    assert str(wrong_dtype.value) == (
        "Tensor dtype mismatch for argument `A`, expected float16, got float32"
    )
    assert isinstance(wrong_dtype.value, TypeError)
    with pytest.raises(KernelArgumentError, match="Tensor rank mismatch for argument `A`"):
        key(written, np.zeros(3, np.float16))
    with pytest.raises(ArgumentTypeError, match="argument `A` is not a tensor"):
        key(written, 3)
    with pytest.raises(TileValueError, match="placeholder dimension"):
        key(written, T.Tensor((int, 2), "float16"))


def test_compile_time_values_are_distinguished_by_type() -> None:
    keys = [key(None, v) for v in (1, 1.0, True, "1", None, (1,), [1], {"a": 1}, {1})]
    assert len(set(keys)) == len(keys)
    assert key(None, [1, [2]]) == key(None, [1, [2]])
    assert key(None, T.float32) == key(None, T.float32)
    with pytest.raises(TileTypeError, match="cannot be a compile-time argument"):
        key(None, np.zeros(3))


def test_the_typing_view_of_a_buffer() -> None:
    made: annot.Buffer[Any, Any] = annot.Buffer((2, 3), "half")
    assert (made.shape, made.dtype, made.strides, made.scope()) == (
        (2, 3), "float16", (3, 1), "global",
    )  # fmt: skip
    fixed = named(made)
    assert (
        isinstance(fixed, annot.TIRAnnot) and fixed.data.shape == [2, 3] and fixed.data.name == "A"
    )
    assert repr(named(T.Buffer((int, 3)))).startswith("BufferAnnot(shape=[A_shape_0$, 3]")


def function(A, n, k=4, dt=T.float32):
    pass


def func_annot() -> FuncAnnot:
    written = {"A": T.Tensor[[int, T.dyn], T.float16], "n": T.int32, "dt": T.dtype}
    return FuncAnnot.from_sig_annots(inspect.signature(function), written)


def test_a_function_parses_its_calls() -> None:
    found = func_annot()
    assert found.arg_names == ["A", "n", "k", "dt"]
    assert found.ker_arg_names == ["A", "n"]
    assert isinstance(found.annots["A"], TensorAnnot)
    assert found.parse_key(F16, 3) == (4, (int, 4), "float32")
    assert found.parse_key(F16, n=99, dt="half", k=4) == (4, (int, 4), "float16")
    assert found.parse_key(F16, 3, 4, T.float32) == found.parse_key(F16, 5)
    assert found.convert_to_kernel_args(F16, n=3) == [F16, 3]
    assert found.arg_parser["dt"]("float") == ("float32",)


def test_wrong_calls() -> None:
    found = func_annot()
    with pytest.raises(ArgumentCountError, match="missing argument `n`"):
        found.parse_key(F16)
    with pytest.raises(ArgumentCountError, match="too many arguments"):
        found.parse_key(F16, 1, 2, 3, 4)
    with pytest.raises(ArgumentTypeError, match="unexpected argument `q`"):
        found.parse_key(F16, 1, q=2)
    with pytest.raises(ArgumentTypeError, match="argument `A` is given twice"):
        found.parse_key(F16, 1, A=F16)
