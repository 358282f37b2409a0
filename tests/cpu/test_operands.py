"""Operand tiles of products get the layouts that kernels want, if nothing else reads them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from contexts import CPU

import tilelang.language as T
from tilelang.cpu.module import emit_module
from tilelang.cpu.operands import choose_operands
from tilelang.errors import TileUnsupportedError
from tilelang.ir import stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.transforms.normalize.simplify import simplify_func

from .modes import agree


def program(
    *, dtype: str = "float16", acc: str = "float32", columns: int = 40, rows: int = 16,
    trans_b: bool = False, part: bool = False, seen: bool = False, both: bool = False,
) -> S.PrimFunc:  # fmt: skip
    """``c += a . b`` with a (16, rows) and b (rows, columns); b transposed, filled in part, read
    by another statement, or the left operand of a second product."""
    shape = (columns, rows) if trans_b else (rows, columns)

    @T.prim_func
    def kernel(A: T.Tensor((16, rows), dtype), B: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, rows), dtype)
            b = T.alloc_shared(shape, dtype)
            c = T.alloc_fragment((16, columns), acc)
            T.copy(A, a)
            if part:
                T.copy(B[0:8, :], b[0:8, :])
            else:
                T.copy(B, b)
            if seen:
                for i, j in T.Parallel(*shape):
                    b[i, j] = b[i, j] + b[i, j]
            T.gemm(a, b, c, transpose_B=trans_b)
            if both:
                d = T.alloc_fragment((rows, rows), acc)
                T.gemm(b, b, d, transpose_B=True)

    func: S.PrimFunc = simplify_func(kernel, CPU)
    return func


def tiles(func: S.PrimFunc) -> dict[str, Buffer]:
    return {n.buffer.name: n.buffer for n in S.walk(func.body) if isinstance(n, S.Alloc)}


def described(buffer: Buffer) -> tuple[Any, ...]:
    return tuple(buffer.shape), str(buffer.dtype), buffer.strides


PLAIN_B = ((16, 40), "float16", None)
ROWS_B = ((16, 40), "float32", (56, 1))
PANELS_B = ((3, 16, 16), "float32", None)


def test_the_left_tile_gets_padded_rows_and_the_right_tile_panels_in_the_accumulator_dtype() -> (
    None
):
    found = tiles(choose_operands(program(), CPU))
    assert described(found["a"]) == ((16, 16), "float32", (32, 1))
    assert described(found["b"]) == PANELS_B
    assert described(found["c"]) == ((16, 40), "float32", None)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"seen": True}, PLAIN_B),
        ({"part": True}, ROWS_B),
        ({"both": True}, ROWS_B),
        ({"trans_b": True}, ((40, 16), "float32", (32, 1))),
        ({"dtype": "int8", "acc": "int32"}, ((16, 40), "int8", None)),
        ({"dtype": "float64", "acc": "float64"}, ((5, 16, 8), "float64", None)),
    ],
    ids=["read by others", "filled in part", "also a left operand", "transposed", "int8", "double"],
)
def test_the_right_tile(options: dict[str, Any], expected: tuple[Any, ...]) -> None:
    assert described(tiles(choose_operands(program(**options), CPU))["b"]) == expected


def test_a_value_is_rounded_to_the_dtype_of_the_tile_before_it_is_widened() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 16), "float32"), C: T.Tensor((16, 16), "float32")):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((16, 16), "float16")
            c = T.alloc_fragment((16, 16), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True)
            T.copy(c, C)

    eighths = np.random.default_rng(0).integers(0, 8, (16, 16)) + np.float32(1 / 4096)
    agree(kernel, eighths.astype(np.float32), np.zeros((16, 16), np.float32))


# -- kernels --------------------------------------------------------------------------------
def product(func: S.PrimFunc) -> S.Gemm:
    (found,) = (n for n in S.walk(func.body) if isinstance(n, S.Gemm))
    return found


def test_a_strided_operand_is_refused() -> None:
    func = program(dtype="float32")
    tile = replace(tiles(func)["a"], strides=(1, 16))
    stmt = replace(product(func), a=tile.whole())
    with pytest.raises(TileUnsupportedError) as caught:
        emit_module(S.PrimFunc("kernel", (), stmt))
    assert str(caught.value).split("\n -->")[0] == (
        "an operand of T.gemm is the strided tensor `a`\n"
        "  expected: a tile made by T.alloc_shared or T.alloc_fragment"
    )
