"""Products by matrices of simdgroups: their text, and what it computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from metal_programs import attention, product, turned

import tilelang
import tilelang.language as T
from tilelang.compiler import compile, lower
from tilelang.interpret import run as interpret
from tilelang.ir.stmt import PrimFunc
from tilelang.options import Options
from tilelang.target import parse_target

METAL = parse_target("metal")
RANDOM = np.random.default_rng(5)


def normal(shape: tuple[int, ...], dtype: str = "float16") -> Any:
    return RANDOM.standard_normal(shape).astype(dtype)


def run(
    func: PrimFunc, args: list[Any], rtol: float = 1e-4, wanted: Any = None,
    options: Options = Options(),
) -> None:  # fmt: skip
    """The last argument is the result, by the emulated text and by the interpreted statements that
    it is printed from, whose matrices have their elements in different places."""
    first, second = ([item.copy() for item in args] for _ in range(2))
    configs = {"tl.simdgroup_element_map": options.element_map}
    kernel = tilelang.compile(
        func, target="metal", execution_backend="emulator", pass_configs=configs
    )
    report = tilelang.sanitize(kernel, *args)
    assert report.ok, str(report)
    kernel(*first)
    interpret(lower(func, METAL, options), second)
    for found in (first[-1], second[-1]):
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=rtol, atol=10 * rtol)


def test_sums_stay_in_matrices_while_a_loop_uses_them_for_nothing_else() -> None:
    text = compile(product("float16", 64, 64, 96), METAL).source
    loop, behind = text.split("for (int k", 1)[1].split("\n    }\n", 1)
    assert "tl_matrix_multiply(&sums[" in loop and "tl_matrix_store" not in loop
    assert "room_float32" not in loop and "tl_matrix_store(&room_float32[" in behind
    assert "simdgroup_float8x8 sums[8];" in text and "simdgroup_half8x8 a_matrix[" in text


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_a_product_with_tails(dtype: str) -> None:
    a, b = normal((50, 72), dtype), normal((72, 40), dtype)
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    run(product(dtype, 50, 40, 72), [a, b, np.zeros((50, 40), np.float32)], wanted=wanted)


@pytest.mark.parametrize("trans_a", [False, True])
@pytest.mark.parametrize("trans_b", [False, True])
def test_factors_in_either_order(trans_a: bool, trans_b: bool) -> None:
    a, b, c = normal((16, 32)), normal((32, 24)), normal((16, 24), "float32")
    wanted = c + a.astype(np.float64) @ b.astype(np.float64)
    held = [
        np.ascontiguousarray(a.T if trans_a else a),
        np.ascontiguousarray(b.T if trans_b else b),
    ]
    run(turned(trans_a, trans_b), [*held, c], wanted=wanted)


def test_sums_of_float16_are_rounded_once() -> None:
    a, b, c = normal((16, 32)), normal((32, 24)), normal((16, 24))
    wanted = c.astype(np.float64) + a.astype(np.float64) @ b.astype(np.float64)
    func = turned(False, False, result="float16")
    run(func, [a, b, c], rtol=2e-3, wanted=wanted)


def test_attention_scales_sums_and_multiplies_registers() -> None:
    q, k, v = normal((32, 32)), normal((64, 32)), normal((64, 32))
    scores = np.exp(q.astype(np.float64) @ k.astype(np.float64).T)
    wanted = scores / scores.sum(1, keepdims=True) @ v.astype(np.float64)
    run(attention(), [q, k, v, np.zeros((32, 32), np.float16)], rtol=5e-3, wanted=wanted)
    text = compile(attention(), METAL).source
    assert "room_float16" in text  # the weights are in registers


def test_elements_with_a_known_layout_need_no_memory() -> None:
    known = Options(element_map=True)
    a, b = normal((50, 72), "float32"), normal((72, 40), "float32")
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    func = product("float32", 50, 40, 72)
    run(func, [a, b, np.zeros((50, 40), np.float32)], wanted=wanted, options=known)
    text = compile(func, METAL, known).source
    assert "tl_matrix_take(" in text and "tl_matrix_store(" not in text and "room" not in text
    assert "tl_matrix_take(" not in compile(func, METAL).source


def test_attention_with_the_known_element_layout() -> None:
    q, k, v = normal((32, 32)), normal((64, 32)), normal((64, 32))
    scores = np.exp(q.astype(np.float64) @ k.astype(np.float64).T)
    wanted = scores / scores.sum(1, keepdims=True) @ v.astype(np.float64)
    known = Options(element_map=True)
    run(attention(), [q, k, v, np.zeros((32, 32), np.float16)], 5e-3, wanted, known)
    text = compile(attention(), METAL, known).source
    assert "tl_matrix_give(" in text and "room" not in text


def test_rows_are_not_padded_where_memory_is_short() -> None:
    @T.prim_func
    def func(A: T.Tensor((64, 128), "float32"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float32")
            b = T.alloc_shared((64, 64), "float32")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(2):
                T.copy(A[0, k * 64], a)
                T.copy(A[0, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    a = normal((64, 128), "float32")
    wanted = a.astype(np.float64) @ a.astype(np.float64).T
    run(func, [a, np.zeros((64, 64), np.float32)], wanted=wanted)
    assert "tl_smem[32768]" in compile(func, METAL).source


def test_rows_that_a_program_swizzles_are_gathered() -> None:
    @T.prim_func
    def func(A: T.Tensor((32, 64), "float16"), C: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((32, 32), "float32")
            T.annotate_layout({a: tilelang.layout.make_swizzled_layout(a)})
            T.copy(A, a)
            T.gemm(a, a, c, transpose_B=True, clear_accum=True)
            T.copy(c, C)

    a = normal((32, 64))
    wanted = a.astype(np.float64) @ a.astype(np.float64).T
    run(func, [a, np.zeros((32, 32), np.float32)], wanted=wanted)
