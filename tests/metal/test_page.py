"""The table of products on the page of Metal."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tilelang.language as T
from tilelang.compiler import compile
from tilelang.errors import TileUnsupportedError
from tilelang.target import parse_target

PAGE = Path(__file__).resolve().parents[2] / "docs" / "metal.md"
ROWS = re.findall(
    r"^\| (\w+) \| (\w+) \| (simdgroup matrices|FMA|error) \|$", PAGE.read_text(), re.MULTILINE
)


def test_the_table_has_rows() -> None:
    assert len(ROWS) == 7


@pytest.mark.parametrize(("factor", "result", "how"), ROWS)
def test_the_product_of_the_page_runs(factor: str, result: str, how: str) -> None:
    @T.prim_func
    def gemm(
        A: T.Tensor((32, 32), factor), B: T.Tensor((32, 32), factor), C: T.Tensor((32, 32), result)
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((32, 32), factor)
            b = T.alloc_shared((32, 32), factor)
            c = T.alloc_fragment((32, 32), result)
            T.copy(A, a)
            T.copy(B, b)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    try:
        text = compile(gemm, parse_target("metal")).source
    except TileUnsupportedError:
        assert how == "error"
        return
    assert how == ("simdgroup matrices" if "tl_matrix_multiply(" in text else "FMA")
