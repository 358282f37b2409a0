"""Products of few rows and a transposed right operand, and operands that are read in place."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from contexts import CPU

import tilelang
import tilelang.language as T
from tilelang.cpu.loops.gemm_forwarding import forward_gemm_copies
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import floats, stmt as S
from tilelang.transforms.normalize.simplify import simplify_func

from .instruction_models import BRAIN_HALVES

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def program(
    M: int, N: int, K: int, dtype: str, acc: str = "float32", between: str = "", tile: int = 16
) -> Any:
    """``C = A B^T`` in one block of rows; ``between`` says what is between copy and product."""
    columns, step = 8, tile

    @T.prim_func
    def kernel(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), acc)):
        with T.Kernel(T.ceildiv(N, columns), threads=32) as bx:
            a = T.alloc_shared((M, step), dtype)
            b = T.alloc_shared((columns, step), dtype)
            c = T.alloc_fragment((M, columns), acc)
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, step), num_stages=2):
                T.copy(A[0, k * step], a)
                T.copy(B[bx * columns, k * step], b)
                if between == "a store to the source":
                    for i in T.Parallel(M):
                        B[0, 0] = B[0, 0]
                if between == "another use":
                    for i, j in T.Parallel(columns, step):
                        b[i, j] = b[i, j] + b[i, j]
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[0, bx * columns])

    return kernel


def scopes(func: Any) -> list[str]:
    """Where the operands of the product are, after the pass."""
    lowered = forward_gemm_copies(simplify_func(func, CPU), CPU)
    (gemm,) = (n for n in S.walk(lowered.body) if isinstance(n, S.Gemm))
    return [region.buffer.storage for region in (gemm.a, gemm.b)]


def test_tiles_read_by_one_product_are_removed() -> None:
    func = program(2, 16, 64, "float16")
    assert scopes(func) == ["global", "global"]
    lowered = forward_gemm_copies(simplify_func(func, CPU), CPU)
    assert [n.dst.buffer.name for n in S.walk(lowered.body) if isinstance(n, S.Copy)] == ["C"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"M": 9}, ["shared.dyn", "shared.dyn"]),  # many rows
        ({"N": 20}, ["global", "shared.dyn"]),  # columns outside
        ({"K": 65}, ["shared.dyn", "shared.dyn"]),  # steps outside
        ({"between": "a store to the source"}, ["global", "shared.dyn"]),
        ({"between": "another use"}, ["global", "shared.dyn"]),
        ({"M": 9, "dtype": "int8", "acc": "int32"}, ["global", "global"]),  # by words
        ({"dtype": "float8_e5m2"}, ["shared.dyn", "shared.dyn"]),
    ],
    ids=str,
)
def test_other_tiles_stay(options: dict[str, Any], expected: list[str]) -> None:
    given: dict[str, Any] = {"M": 2, "N": 16, "K": 64, "dtype": "float16", **options}
    assert scopes(program(**given)) == expected


@needs_compiler
@pytest.mark.share(5)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float8_e5m2", "int8"])
@pytest.mark.parametrize("M", [1, 2, 3, 4, 5, 6, 7, 8, 9])
def test_every_number_of_rows(M: int, dtype: str) -> None:
    N, K = 21, 44  # columns, steps and lanes that are left over
    acc = "int32" if dtype == "int8" else "float32"
    rng = np.random.default_rng(M)
    a, b = rng.integers(-3, 4, (M, K)), rng.integers(-3, 4, (N, K))
    kinds = {"float32": "f4", "float16": "f2", "int8": "i1"}
    given = [
        x.astype(kinds[dtype]) if dtype in kinds else floats.encode(x.astype(np.float32), dtype)
        for x in (a, b)
    ]
    got = tilelang.compile(program(M, N, K, dtype, acc, tile=22), out_idx=[-1], target="cpu")(
        *given
    )
    np.testing.assert_array_equal(got, (a @ b.T).astype(got.dtype))


BUILDS = BRAIN_HALVES | {
    f"{width} bytes": [f"-DTL_VECTOR_BYTES={width}"] for width in (16, 32, 128)
}


@needs_compiler
@pytest.mark.share(6)
@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("M", "N", "K"), [(8, 21, 64), (1, 24, 96), (5, 9, 60)])
@pytest.mark.parametrize("small", ["", "A", "B"])
def test_products_of_bfloat16_by_pairs_count_subnormal_factors(
    M: int, N: int, K: int, small: str, build: str
) -> None:
    rng = np.random.default_rng(M)
    A, B = (rng.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((M, K), (N, K)))
    for name, (mine, other) in (("A", (A, B)), ("B", (B, A))):
        if small == name:  # one product, 0.085, with a factor that counts as zero in pairs
            mine[:, K - 1], other[:, K - 1] = 0, 2.0**126
            mine[-1, K - 1] = 1e-39
    want = A.astype("f8") @ B.astype("f8").T
    func = program(M, N, K, "bfloat16", tile=K)
    run = tilelang.compile(func, out_idx=[-1], target="cpu", compile_flags=BUILDS[build])
    got = run(A.view("u2"), B.view("u2"))
    np.testing.assert_allclose(got, want, rtol=1e-6)
    assert (got != np.rint(got)).any() == bool(small)
