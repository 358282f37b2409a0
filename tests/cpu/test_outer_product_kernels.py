"""Products of few rows with a right operand that is read in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from gemm_program import gemm_program

import tilelang
from tilelang.cpu.outer_product_kernels import OuterProduct
from tilelang.cpu.toolchain import find_compiler

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def product(M: int, N: int, K: int, bn: int, bk: int, dtype: str = "float32") -> Any:
    return gemm_program(M, N, K, (M, bn, bk), threads=64, dtype=dtype)


@needs_compiler
@pytest.mark.share(6)
@pytest.mark.parametrize("width", [16, 32, 64])
@pytest.mark.parametrize("M", range(1, 9))
@pytest.mark.parametrize("bn", [48, 128])
def test_all_counts_of_rows_are_right(M: int, bn: int, width: int) -> None:
    N, K = 3 * bn, 192
    compiled = tilelang.compile(
        product(M, N, K, bn, 64), out_idx=[-1], target="cpu",
        compile_flags=[f"-DTL_VECTOR_BYTES={width}"],
    )  # fmt: skip
    assert "tl_passing_" in compiled.get_kernel_source()
    rng = np.random.default_rng(M)
    a, b = (rng.integers(-8, 8, size).astype(np.float32) for size in ((M, K), (K, N)))
    np.testing.assert_array_equal(compiled(a, b), a @ b)


@needs_compiler
@pytest.mark.parametrize(
    "func",
    [
        product(9, 256, 192, 128, 64),
        product(8, 200, 192, 128, 64),  # not all columns of the last tile exist
        product(8, 256, 200, 128, 64),  # nor all rows
        product(8, 240, 192, 120, 64),  # no whole vectors
        product(8, 256, 189, 128, 63),
        product(8, 256, 192, 128, 64, "float16"),
    ],
    ids=["rows", "columns", "depth", "vectors", "steps", "halves"],
)
def test_other_products_pack_b_in_panels(func: Any) -> None:
    compiled = tilelang.compile(func, out_idx=[-1], target="cpu")
    assert "tl_passing_" not in compiled.get_kernel_source()
    shapes = [tuple(int(x) for x in param.shape) for param in func.params[:2]]
    rng = np.random.default_rng(0)
    dtype = np.dtype(str(func.params[0].dtype))
    a, b = (rng.integers(-8, 8, shape).astype(dtype) for shape in shapes)
    np.testing.assert_array_equal(compiled(a, b), a.astype(np.float32) @ b.astype(np.float32))


def test_rows_are_in_groups_of_up_to_four() -> None:
    specs = {m: OuterProduct(m, 256, 64, 64, 256, 256) for m in (1, 2, 4, 5, 8)}
    sizes = {m: [len(rows) for rows in spec.groups] for m, spec in specs.items()}
    assert sizes == {1: [1], 2: [2], 4: [4], 5: [2, 3], 8: [4, 4]}
    assert [spec.vectors for spec in specs.values()] == [8, 4, 2, 2, 2]
    assert OuterProduct(1, 48, 64, 64, 48, 48).vectors == 1
