"""``PrimFunc.specialize`` and the other views and copies of a traced function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refusal

import tilelang
import tilelang.language as T
from tilelang.errors import TileTypeError, TileValueError
from tilelang.tvm import tir


def scaled() -> Any:
    m, n = T.dynamic("m, n")

    @T.prim_func
    def scale(A: T.Tensor((m, n), "float32"), k: T.int32, B: T.Tensor((m, n), "float32")):
        with T.Kernel(T.ceildiv(m, 4), threads=32) as bx:
            tile = T.alloc_shared((4, 8), "float32")
            T.copy(A[bx * 4, 0], tile)
            for i, j in T.Parallel(4, 8):
                if bx * 4 + i < m and j < n:
                    B[bx * 4 + i, j] = tile[i, j] * k

    return scale


def check(func: Any, *args: Any) -> None:
    a = np.arange(42, dtype=np.float32).reshape(6, 7)
    for mode in ("interpret", "auto"):
        b = np.zeros_like(a)
        tilelang.compile(func, target="cpu", execution_backend=mode)(a, *args, b)
        np.testing.assert_array_equal(b, a * 3)


def test_scalars_that_are_fixed_leave_the_signature() -> None:
    func = scaled()
    for key in (func.params[1], "k"):
        fixed = func.specialize({key: 3})
        assert [param.name for param in fixed.params] == ["A", "B"]
        check(fixed)
    check(func, 3)


def test_a_buffer_fixes_the_symbols_of_its_shape() -> None:
    func = scaled()
    fixed = func.specialize({func.params[0]: tir.decl_buffer((6, 7), "float32")})
    assert [tuple(buffer.shape) for buffer in fixed.buffers] == [(6, 7), (6, 7)]
    check(fixed, 3)
    with pytest.raises(Exception, match="does not match"):
        tilelang.compile(fixed, target="cpu")(np.zeros((5, 7), "f"), 3, np.zeros((5, 7), "f"))


def test_symbols_are_fixed_by_name_and_all_uses_follow() -> None:
    fixed = scaled().specialize({"m": 6, "n": 7, "k": 3})
    assert [tuple(buffer.shape) for buffer in fixed.buffers] == [(6, 7), (6, 7)]
    assert "m = T." in scaled().script()
    assert "m = T." not in fixed.script()
    check(fixed)


def test_results_keep_their_positions() -> None:
    @T.prim_func
    def doubled(k: T.int32, A: T.Tensor((4,), "int32")):
        B = T.empty((4,), "int32")
        with T.Kernel(1, threads=4):
            for i in T.Parallel(4):
                B[i] = A[i] * k
        return B

    fixed = doubled.specialize({"k": 2})
    assert fixed.outputs == (1,)
    a = np.arange(4, dtype=np.int32)
    np.testing.assert_array_equal(tilelang.compile(fixed, target="cpu")(a), a * 2)


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        ({"q": 1}, TileTypeError,
         "`scale` has no parameter or symbol 'q'\n  expected: A, B, k, m, n\n  got: 'q'"),
        ({"A": 3}, TileTypeError,
         "`A` of `scale` is a tensor\n  expected: a buffer, e.g. T.Buffer((16, 16), dtype)\n"
         "  got: 3"),
        ({"A": tir.decl_buffer((6,), "float32")}, TileValueError,
         "the buffer given for `A` of `scale` does not fit\n"
         "  expected: float32 of shape (m, n)\n  got: float32 of shape (6,)"),
        ({"A": tir.decl_buffer((6, 7), "float32"), "m": 5}, TileValueError,
         "`m` of `scale` is given two values\n  expected: 6\n  got: 5"),
        ({"k": tir.decl_buffer((6, 7), "float32")}, TileTypeError,
         "`k` of `scale` is a number\n  expected: int32\n  got: buffer"),
    ],
)  # fmt: skip
def test_a_value_that_does_not_fit_is_an_error(given: Any, kind: Any, text: str) -> None:
    assert refusal(kind, scaled().specialize, given) == text


def test_views_and_copies_of_a_function() -> None:
    func = scaled()
    assert list(func.buffer_map.values()) == [func.params[0], func.params[2]]
    assert func.buffer_map[func.params[0]] is func.params[0]
    assert func.params[1] not in func.buffer_map
    assert func.ret_type is None
    marked = func.with_attr("note", 1)
    assert marked.attr("note") == 1
    assert marked.without_attr("note").attr("note") is None
    assert func.without_attr("note") is func
    assert func.specialize({}) is func
    assert func.with_body(marked.body).params == func.params
