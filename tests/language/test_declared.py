"""Buffers that are declared over memory that exists: every option is honoured or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from executors import EVERYWHERE, compiled, holds

import tilelang
import tilelang.language as T
from tilelang.errors import (
    KernelArgumentError,
    TileError,
    TileTypeError,
    TileUnsupportedError,
    TileWarning,
)
from tilelang.language.v2 import annot


def views(make: Callable[[Any], Any], count: int) -> Any:
    """Copies the first ``count`` elements of ``make(B)``."""

    @T.prim_func
    def kernel(B: T.Tensor((64,), "float32"), C: T.Tensor((count,), "float32")):
        with T.Kernel(1, threads=32):
            V = make(B)
            for i in T.serial(count):
                C[i] = V[i]

    return kernel


B64 = np.arange(64, dtype=np.float32)
WORDS = B64.view(np.int32)
FORMS: dict[str, tuple[Callable[[Any], Any], np.ndarray[Any, Any]]] = {
    "tensor": (lambda B: T.Tensor((4,), "float32", data=B.data, elem_offset=8), B64[8:12]),
    "buffer": (lambda B: T.Buffer((4,), "float32", data=B.data, elem_offset=8), B64[8:12]),
    "match_buffer": (lambda B: T.match_buffer(B, (4,), elem_offset=8, offset_factor=4), B64[8:12]),
    "make_tensor": (lambda B: T.make_tensor(B, (4,), elem_offset=8, scope="global"), B64[8:12]),
    "decl_buffer": (lambda B: T.decl_buffer((4,), "float32", B.data, elem_offset=8), B64[8:12]),
    "steps": (lambda B: T.Tensor((4,), data=B.data, strides=(3,), elem_offset=1), B64[1:13:3]),
    "strided": (
        lambda B: T.StridedTensor((4,), (5,), "float32", data=B.data, elem_offset=2), B64[2:22:5],
    ),
    "align": (lambda B: T.Tensor((4,), data=B.data, elem_offset=3, align=4), B64[3:7]),
    "twice": (
        lambda B: T.make_tensor(T.make_tensor(B, (32,), elem_offset=4), (4,), elem_offset=2),
        B64[6:10],
    ),
    "narrower": (
        lambda B: T.make_tensor(
            T.make_tensor(B, (32,), elem_offset=4), (4,), "int32", elem_offset=2
        ),
        WORDS[6:10].astype(np.float32),
    ),
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_declared_buffer_starts_at_its_offset(form: str) -> None:
    make, want = FORMS[form]
    holds(views(make, len(want)), (B64, np.zeros(len(want), np.float32)), want)


def test_an_element_offset_may_be_a_value_of_the_program() -> None:
    @T.prim_func
    def rows(B: T.Tensor((64,), "float32"), C: T.Tensor((4, 8), "float32")):
        with T.Kernel(4, threads=32) as bx:
            V = T.Tensor((8,), "float32", data=B.data, elem_offset=bx * 16 + 3, offset_factor=8)
            for i in T.Parallel(8):
                C[bx, i] = V[i]

    holds(rows, (B64, np.zeros((4, 8), np.float32)), B64.reshape(4, 16)[:, 3:11])


def test_shared_memory_is_declared_anew_from_an_offset_on() -> None:
    @T.prim_func
    def halves(B: T.Tensor((64,), "float32"), C: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((64,), "float32")
            V = T.Tensor((4, 8), "float32", data=s.data, elem_offset=32, scope="shared")
            T.copy(B, s)
            for i, j in T.Parallel(4, 8):
                C[i * 8 + j] = V[i, j]

    holds(halves, (B64, np.zeros(32, np.float32)), B64[32:])


def refusal(make: Callable[[Any], Any]) -> str:
    with pytest.raises(TileError) as error:
        views(make, 4)
    return str(error.value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda B: T.Tensor((4,), data=B.data, elem_offset=-1),
         "elem_offset of T.make_tensor is negative\n"),
        (lambda B: T.Tensor((4,), data=B.data, elem_offset=6, offset_factor=4),
         "elem_offset of T.make_tensor is not a multiple of its offset_factor\n"),
        (lambda B: T.Tensor((4,), data=B.data, elem_offset=62),
         "the tensor exceeds the memory of `B`\n"),
        (lambda B: T.StridedTensor((4,), (32,), data=B.data),
         "the tensor exceeds the memory of `B`\n"),
        (lambda B: T.Tensor((4,), data=B.data, scope="shared"),
         "T.make_tensor with scope='shared' of other memory\n"),
        (lambda B: T.Tensor((4,), data=B.data, align=12),
         "align=12 of T.make_tensor is not a power of 2\n"),
        (lambda B: T.Tensor((4,), data=B.data, align="x"),
         "align of T.make_tensor is not a number\n"),
        (lambda B: T.Tensor((4,), data=B.data, buffer_type="auto_broadcast"),
         "T.make_tensor with buffer_type='auto_broadcast'\n"),
        (lambda B: T.Tensor((4, 1), data=B.data, axis_separators=[2, 1]),
         "axis_separators of T.make_tensor are not numbers of axes\n"
         "  expected: ints in rising order, e.g. [1]\n  got: [2, 1]\n"),
        (lambda B: T.Tensor((4,), data="junk"), "T.make_tensor needs a pointer\n"),
        (lambda B: T.match_buffer(B, (4,), data=T.alloc_local((4,), "float32").data),
         "T.match_buffer has the data of another buffer\n"),
        (lambda B: T.decl_buffer((4,), "float32", elem_offset=4, scope="local"),
         "T.decl_buffer of fresh memory with strides or an element offset\n"),
    ],
)  # fmt: skip
def test_an_invalid_declared_buffer_is_an_error(make: Callable[[Any], Any], text: str) -> None:
    assert refusal(make).startswith(text)


def test_a_parameter_starts_where_its_tensor_does() -> None:
    with pytest.raises(TileUnsupportedError) as error:
        T.Tensor((4,), "float32", elem_offset=8)
    assert (
        str(error.value)
        .split("\n -->")[0]
        .startswith(
            "T.Tensor as a parameter with elem_offset\n"
            "  expected: 0: the tensor of a call has the start\n"
            "  got: 8\n"
        )
    )
    for options in ({"align": 4, "offset_factor": 2}, {"axis_separators": [1]}):
        assert repr(T.Tensor((4,), "float32", **options)) == repr(T.Tensor((4,), "float32"))


@pytest.mark.parametrize("said", [T.SharedBuffer((4,), "float32"), T.Tensor((4,), scope="shared"),
                                  T.Buffer((4,), scope="local")])  # fmt: skip
def test_a_parameter_of_a_kernel_is_in_global_memory(said: Any) -> None:
    def kernel(A: said):
        with T.Kernel(1, threads=32):
            A[0] = 1.0

    with pytest.raises(TileTypeError, match=r"the parameter `A` of a kernel is in (shared|local)"):
        T.prim_func(kernel)


# -- T.Buffer --------------------------------------------------------------------------------------
def test_a_buffer_annotation_is_a_fixed_parameter() -> None:
    @tilelang.lazy_jit
    def foo(A: T.Buffer((128,), T.float32)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(128):
                A[i] = A[i] + 1.0

    found = foo.func.annot["A"]
    assert isinstance(found, annot.TIRAnnot) and repr(found) == "TIRAnnot(A)"
    assert found.data.shape == [128] and found.data.dtype == "float32"
    assert isinstance(T.Buffer((128,), T.float32), annot.Buffer) and T.Buffer is annot.Buffer
    a = np.zeros(128, np.float32)
    foo(a)
    assert (a == 1).all()
    with pytest.raises(KernelArgumentError):
        foo(np.zeros(64, np.float32))
    with pytest.raises(KernelArgumentError):
        foo(np.zeros(128, np.int32))


def test_a_buffer_is_described_from_its_dtype_on() -> None:
    plain = annot.Buffer()
    assert (plain.shape, plain.dtype, plain.scope()) == ((), "float32", "global")
    assert annot.Buffer("float16").dtype == annot.Buffer(dtype="half").dtype == "float16"
    assert annot.Buffer("float16", None, (4, 1)).strides == (4, 1)
    assert annot.Buffer(T.int8, scope="shared").scope() == "shared"
    assert annot.Buffer((2, 3), "int32", strides=(8, 1)).strides == (8, 1)
    for wrong, text in (
        (lambda: annot.Buffer("float16", dtype="int8"), "T.Buffer cannot take dtype"),
        (lambda: annot.Buffer(alignment=3), "T.Buffer cannot take alignment"),
        (lambda: annot.Buffer(elem_offset=3), "T.Tensor as a parameter with elem_offset"),
        (lambda: annot.Buffer((4,), scope="nowhere"), "unknown scope 'nowhere'"),
    ):
        with pytest.raises(TileError, match=text.replace(".", r"\.")):
            wrong()


@pytest.mark.parametrize("place", EVERYWHERE)
def test_strides_of_a_buffer_annotation_are_those_of_the_parameter(place: str) -> None:
    @T.prim_func
    def second(A: T.Buffer((4,), "float32", strides=(2,)), C: T.Buffer((4,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = A[i]

    kernel, a, got = (
        compiled(second, place),
        np.arange(8, dtype=np.float32),
        np.zeros(4, np.float32),
    )
    kernel(a[::2], got)
    np.testing.assert_array_equal(got, a[::2])
    with pytest.raises(KernelArgumentError):
        kernel(a[:4], got)


@pytest.mark.parametrize("written", [T.Buffer, T.Buffer("float32"), T.Buffer[[int], T.float32]])
def test_a_buffer_without_a_shape_accepts_any(written: Any) -> None:
    @tilelang.lazy_jit
    def ones(A: written):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(A.shape[0]):
                A[i] = 1.0

    for size in (8, 40):
        a = np.zeros(size, np.float32)
        ones(a)
        assert (a == 1).all()


# -- signatures ------------------------------------------------------------------------------------
def test_a_run_time_scalar_is_not_known_at_compile_time() -> None:
    def scalar(A: T.Tensor((4,), "float32"), m: T.int32) -> None: ...

    def fixed(A: T.Tensor((4,), "float32"), B: T.Buffer((4,), "int8")) -> None: ...

    import inspect

    for function, static in ((scalar, False), (fixed, True)):
        signature = inspect.signature(function, eval_str=True)
        written = {name: item.annotation for name, item in signature.parameters.items()}
        found = annot.FuncAnnot.from_sig_annots(signature, written)
        assert found.is_all_static() is static
        assert (len(found.get_all_static_args()) == 2) is static


@pytest.mark.parametrize("target", [(3,), (3, 4, 5)])
def test_a_shape_of_another_rank_is_refused(target: tuple[int, ...]) -> None:
    values = [annot.Value.from_value(int, "m"), annot.Value.from_value(int, "n")]
    with pytest.raises(KernelArgumentError) as error:
        annot.BufferAnnot.match_shape(values, target, annot.ArgVarTable())
    assert str(error.value) == (
        "a shape has another rank than its annotation\n"
        f"  expected: 2 extents [m$, n$]\n  got: {len(target)} extents {list(target)}"
    )


def test_a_name_denotes_one_dtype() -> None:
    table = annot.ArgVarTable()
    assert table.get_or_create_var("K", "int32") is table.get_or_create_var("K", T.int32)
    with pytest.raises(TileTypeError) as error:
        table.get_or_create_var("K", "int64")
    assert str(error.value) == (
        "the run-time value `K` has two dtypes\n"
        "  expected: int32, as where it is named first\n  got: int64\n"
        "  hint: give one of them another name"
    )


# -- parameters of macros --------------------------------------------------------------------------
@T.macro
def into_registers(
    src: T.SharedBuffer((8, 8), "float32"), dst: T.FragmentBuffer((8, 8), T.float32)
):
    T.clear(dst)


def uses(scope: str, shape: tuple[int, ...], dtype: str, first: str = "shared") -> Any:
    @T.prim_func
    def kernel(A: T.Tensor((8, 8), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((8, 8), "float32") if first == "shared" else A
            b = T.alloc_buffer(shape, dtype, scope)
            into_registers(a, b)

    return kernel


def test_a_macro_accepts_its_annotated_types() -> None:
    assert uses("local.fragment", (8, 8), "float32") is not None


@pytest.mark.parametrize(
    ("given", "got", "said"),
    [
        (("shared", (8, 8), "float32"),
         "`dst` of the macro `into_registers` is `b` in shared memory", "local.fragment memory"),
        (("local.fragment", (8, 8), "float16"),
         "`dst` of the macro `into_registers` is `b` of float16", "float32"),
        (("local.fragment", (1, 8, 8), "float32"),
         "`dst` of the macro `into_registers` is `b` of 3 dimensions", "2 dimensions"),
        (("local.fragment", (8, 8), "float32", "global"),
         "`src` of the macro `into_registers` is `A` in global memory", "shared.dyn memory"),
    ],
)  # fmt: skip
def test_an_argument_overrides_its_annotation(given: tuple[Any, ...], got: str, said: str) -> None:
    with pytest.warns(TileWarning) as found:
        uses(*given)
    assert f"the argument {got}, its annotation says {said}: the annotation is ignored" in [
        str(one.message) for one in found
    ]
