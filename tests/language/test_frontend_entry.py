"""Entry points: prim_func parameters and results, kernel templates, specialisation."""

# Kernels are Python in form only: linters and type checkers do not know its rules.
# mypy: ignore-errors
# ruff: noqa: F821, F841, RUF059, UP037
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tiny import kinds, run

import tilelang
import tilelang.language as T
from tilelang.errors import ArgumentCountError, ArgumentTypeError, TileValueError
from tilelang.ir.buffer import Buffer
from tilelang.ir.expr import Const
from tilelang.ir.stmt import Launch, PrimFunc, View, walk
from tilelang.language.v2.template import EagerFunc, classify_by_call, is_factory

A16 = np.zeros((1024, 512), np.float16)
B16 = np.zeros((512, 256), np.float16)


def shapes(func: PrimFunc) -> list[Any]:
    return [tuple(p.shape) if isinstance(p, Buffer) else p.name for p in func.params]


def test_parameters_of_every_annotation_form() -> None:
    m = T.dynamic("m")

    @T.prim_func
    def f(
        A: T.Tensor((m, 4), "float16"), B: T.Tensor[[m * 4], T.float32],
        C: T.StridedTensor((m, 4), (8, 1), T.int8), D: "T.Tensor((4,), 'int32')", p: T.ptr,
        h: T.handle, n: T.int64, s: "float32", i: int, b: bool, t: T.Tensor([3], T.ptr),
        u: T.Tensor[(8,)],
    ):  # fmt: skip
        with T.Kernel(1):
            pass

    kinds_ = [(p.name, str(p.dtype)) for p in f.params]
    assert kinds_ == [
        ("A", "float16"), ("B", "float32"), ("C", "int8"), ("D", "int32"), ("p", "handle"),
        ("h", "handle"), ("n", "int64"), ("s", "float32"), ("i", "int32"), ("b", "bool"),
        ("t", "int64"), ("u", "float32"),
    ]  # fmt: skip
    a, _, c, *_ = f.params
    assert isinstance(a, Buffer) and isinstance(c, Buffer)
    assert a.shape[0] is m and c.shape[0] is m and c.strides == (8, 1)


def test_outputs_are_appended_and_returned_in_order() -> None:
    @T.prim_func
    def f(A: T.Tensor((8,), T.int32)):
        C = T.empty((2, 3), T.float16)
        D = T.empty(4, 5, dtype="int8")
        E = T.empty([6], "float")
        with T.Kernel(1):
            pass
        return E, C, D

    assert shapes(f) == [(8,), (2, 3), (4, 5), (6,)]
    assert [p.name for p in f.params] == ["A", "C", "D", "E"]
    assert f.outputs == (3, 1, 2)
    assert f.attr("returns_list") is True
    assert [str(p.dtype) for p in f.params[1:]] == ["float16", "int8", "float32"]


def test_one_result_is_not_a_list() -> None:
    @T.prim_func
    def one():
        return T.empty((4,), T.int8)

    @T.prim_func
    def listed():
        return (T.empty((4,), T.int8),)

    assert (one.outputs, one.attr("returns_list")) == ((0,), None)
    assert listed.attr("returns_list") is True
    assert one.params[0].name == "out"


def test_pointers_are_made_tensors() -> None:
    @T.prim_func
    def f(p: T.ptr, table: T.Tensor((2,), T.ptr), n: T.int32):
        p = T.make_tensor(p, (n, 4), T.float16)
        q = T.match_buffer(p, (n * 4,), T.float16)
        with T.Kernel(1):
            r = T.make_tensor_from_addr(table[1], (4,), T.int8, strides=(2,))
            r[0] = 1
            q[0] = 1

    views = [s for s in walk(f.body) if isinstance(s, View)]
    assert [v.buffer.name for v in views] == ["p", "q", "r"]
    assert views[0].source is f.params[0]
    assert views[1].buffer.data is views[0].buffer.data and views[1].source is None
    assert views[2].buffer.strides == (2,)


def test_lazy_style_infers_compile_time_extents() -> None:
    @EagerFunc
    def gemm(
        A: T.Tensor[[int, int], T.float16], B: T.Tensor[[int, int], T.float16],
        out_dtype: T.dtype = T.float32, block_M: int = 128,
    ):  # fmt: skip
        M, K = A.shape
        K, N = B.shape
        assert (M, K, N) == (1024, 512, 256)
        C = T.empty((M, N), out_dtype)
        with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_M)) as (bx, by):
            pass
        return C

    func = gemm.specialise(A16, B16, out_dtype="half")
    assert shapes(func) == [(1024, 512), (512, 256), (1024, 256)]
    assert func.outputs == (2,) and func.params[2].dtype == "float16"
    assert gemm.parse_key(A16, B16) == gemm.parse_key(A16, B=B16, block_M=128)
    assert gemm.parse_key(A16, B16) != gemm.parse_key(A16, B16, block_M=64)
    assert gemm.parse_key(A16, B16) != gemm.parse_key(A16[:512], B16)
    assert gemm.kernel_args(A16, B16, block_M=64) == (A16, B16)
    placeholders = T.Tensor((1024, 512), T.float16), T.Tensor((512, 256), T.float32)
    assert shapes(gemm.specialise(*placeholders)) == shapes(func)


def test_lazy_style_with_strides_and_any_dtype() -> None:
    @EagerFunc
    def f(A: T.StridedTensor[[T.dyn, T.dyn], [T.dyn, T.dyn], Any]):
        M, N = A.shape
        B = T.empty((M, N), A.dtype)
        with T.Kernel(M):
            pass
        return B

    a, b = f.specialise(A16[::2, ::2]).buffers
    assert a.strides is not None and [s.name for s in a.strides] == ["A_stride_0", "A_stride_1"]
    assert b.dtype == "float16" and b.shape == a.shape


@EagerFunc
def eager(A, B, dtype=T.float16, block: int = 64):
    M, N, K = T.const("M, N K")
    A: T.Tensor[[M, K], dtype]
    B: T.Tensor((K, N), dtype)
    C = T.empty((M, N), dtype)
    with T.Kernel(T.ceildiv(M, block)) as bx:
        if M > 8:
            C[bx, 0] = A[bx, 0] * B[0, 0]
    return C


def test_eager_style_infers_constants_from_the_tensors() -> None:
    func = eager.specialise(A16, B16)
    assert shapes(func) == [(1024, 512), (512, 256), (1024, 256)]
    launch = next(s for s in walk(func.body) if isinstance(s, Launch))
    assert isinstance(launch.grid[0], Const) and launch.grid[0].value == 16
    assert "If" not in kinds(func)
    assert eager.parse_key(A16, B16) == eager.parse_key(A16, B16, block=64)
    assert eager.parse_key(A16, B16) != eager.parse_key(A16[:512], B16)
    assert eager.kernel_args(A16, B16) == (A16, B16)


def test_eager_style_compiles_from_constants_alone() -> None:
    func = eager.specialise(M=16, N=8, K=4, dtype="float32")
    assert shapes(func) == [(16, 4), (4, 8), (16, 8)]
    assert func.params[0].dtype == "float32" and func.outputs == (2,)
    key = eager.parse_key(M=16, N=8, K=4, dtype="float32")
    assert key != eager.parse_key(M=16, N=8, K=5, dtype="float32")


def test_eager_constants_must_agree() -> None:
    with pytest.raises(TileValueError, match="the constant `K` has two values"):
        eager.specialise(A16, A16)
    with pytest.raises(TileValueError, match="the constant `M` has two values"):
        eager.specialise(A16, B16, M=5)
    with pytest.raises(TileValueError, match="the constant `N` cannot be inferred"):
        eager.specialise(M=16, K=4)
    with pytest.raises(ArgumentTypeError, match="expected float16, got int32"):
        eager.parse_key(A16.astype(np.int32), B16)


def test_a_constant_inside_an_expression_is_given_by_keyword() -> None:
    @EagerFunc
    def f(A):
        M = T.const("M")
        A: T.Tensor[[M * 2], T.float32]
        with T.Kernel(M):
            A[0] = M

    with pytest.raises(TileValueError, match="cannot be inferred"):
        f.specialise(np.zeros(8, np.float32))
    assert shapes(f.specialise(np.zeros(8, np.float32), M=4)) == [(8,)]


def test_eager_style_mixes_scalars_dynamics_and_signature_annotations() -> None:
    n = T.dynamic("n")

    @EagerFunc
    def f(A, B: T.Tensor((n,), T.int32), s, t: T.float32, flag=True):
        M = T.const("M")
        A: T.Tensor[[M, n], T.int32]
        s: T.int32
        with T.Kernel(n):
            if flag:
                A[0, 0] = B[0] + s + M

    a, b = np.zeros((4, 8), np.int32), np.zeros(8, np.int32)
    func = f.specialise(a, b, 3, 2.5)
    assert [p.name for p in func.params] == ["A", "B", "s", "t"]
    assert f.kernel_args(a, b, 3, 2.5) == (a, b, 3, 2.5)
    assert f.parse_key(a, b, 3, 2.5) == f.parse_key(a, b, 4, 3.5)
    assert f.parse_key(a, b, 3, 2.5) != f.parse_key(a, b, 3, 2.5, flag=False)


def test_prim_func_eager_jit_is_a_template() -> None:
    @T.prim_func(eager_jit=True)
    def f(A):
        M = T.const("M")
        A: T.Tensor[[M], T.int8]
        with T.Kernel(M):
            A[0] = 1

    assert isinstance(f, EagerFunc)
    assert shapes(f.specialise(M=4)) == [(4,)]


def test_factories_are_distinguished_from_kernels() -> None:
    def factory(n):
        @T.prim_func
        def main(A: T.Tensor((n,), T.int8)):
            with T.Kernel(1):
                pass

        return main

    def kernel(A: T.Tensor[[int], T.int8]):
        with T.Kernel(1):
            pass

    @T.macro
    def body(A):
        with T.Kernel(1):
            pass

    def through_a_function(n):
        return factory(n)

    def through_a_macro(A: T.Tensor[[int], T.int8]):
        body(A)

    assert is_factory(factory) is True
    assert is_factory(kernel) is False
    assert is_factory(eager.orig_func) is False
    assert is_factory(through_a_function) is is_factory(through_a_macro) is None
    assert isinstance(classify_by_call(through_a_function, 4), PrimFunc)
    assert classify_by_call(through_a_macro, np.zeros(4, np.int8)) is None


def test_a_fully_annotated_kernel_compiles_without_arguments() -> None:
    @tilelang.jit
    def double(A: T.Tensor((16,), "float16"), B: T.Tensor((16,), "float16")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                B[i] = A[i] * 2

    assert shapes(double.compile().prim_func) == [(16,), (16,)]
    assert double.get_kernel_source() == double.compile().get_kernel_source()

    @tilelang.jit
    def set_first(A: T.Tensor((16,), "float16"), n: int):
        with T.Kernel(1, threads=32):
            A[0] = n

    with pytest.raises(ArgumentCountError, match="missing argument `n`"):
        set_first.compile()


def test_parameters_of_a_prim_func_annotated_by_statements() -> None:
    @T.prim_func
    def f(A, B: T.Tensor((4,), "int32"), n):
        m = T.dynamic("m")
        A: T.Tensor[[m], T.int32]
        n: T.int32
        with T.Kernel(1, threads=1):
            for i in T.serial(4):
                B[i] = A[i] + m + n

    assert [getattr(p, "name", None) for p in f.params] == ["A", "B", "n"]
    out = np.zeros(4, np.int32)
    run(f, np.arange(9, dtype=np.int32), out, 100)
    assert out.tolist() == [109, 110, 111, 112]
