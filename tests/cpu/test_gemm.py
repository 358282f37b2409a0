"""Matrix products of every dtype, orientation and odd size through the C kernels."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from gemm_program import gemm_program
from tensor_types import F32

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler
from tilelang.ir import floats

pytestmark = pytest.mark.skipif(find_compiler() is None, reason="needs a C compiler")


def product(M, N, K, tile, dtype, acc, target="cpu", **form):  # type: ignore[no-untyped-def]  # a kernel factory
    kernel = gemm_program(M, N, K, tile, threads=64, dtype=dtype, out=acc, acc=acc, **form)
    return tilelang.compile(kernel, out_idx=[-1], target=target)


@T.macro
def doubled(a, b, c):  # type: ignore[no-untyped-def]  # a traced function
    """Other statements see the tile, so it keeps its plain layout."""
    for i, j in T.Parallel(*b.shape):
        b[i, j] = b[i, j] + b[i, j]


def inputs(M: int, N: int, K: int, dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Small integers: every dtype holds them, and all sums are exact."""
    rng = np.random.default_rng(M * 7 + N * 3 + K)
    low, high = (0, 4) if dtype.startswith("u") else (-3, 4)
    return rng.integers(low, high, (M, K)), rng.integers(low, high, (K, N))


def stored(values: np.ndarray, dtype: str) -> np.ndarray:
    kinds = {"float16": "f2", "float32": "f4", "float64": "f8", "int8": "i1", "int32": "i4"}
    if dtype in kinds:
        return np.ascontiguousarray(values.astype(kinds[dtype]))
    return floats.encode(np.ascontiguousarray(values).astype(np.float32), dtype)


CASES = [
    ("float16", "float32"), ("bfloat16", "float32"), ("float32", "float32"),
    ("float64", "float64"), ("int8", "int32"), ("float8_e4m3fn", "float32"),
    ("float8_e5m2", "float32"), ("float16", "float16"),
]  # fmt: skip


@pytest.mark.share(4)
@pytest.mark.parametrize(("dtype", "acc"), CASES)
@pytest.mark.parametrize(("trans_a", "trans_b"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_every_dtype_and_orientation(dtype: str, acc: str, trans_a: int, trans_b: int) -> None:
    M, N, K = 45, 70, 37  # not a multiple of a tile, a register block or a panel
    a, b = inputs(M, N, K, dtype)
    kernel = product(
        M, N, K, (32, 40, 16), dtype, acc, trans_a=bool(trans_a), trans_b=bool(trans_b)
    )
    got = kernel(stored(a.T if trans_a else a, dtype), stored(b.T if trans_b else b, dtype))
    np.testing.assert_array_equal(got, (a @ b).astype(got.dtype))


# The flag of Linux that a machine has which runs the code, and the target.
MACHINES = {"avx512f": "skylake-avx512", "avx2": "haswell", "sse2": "x86-64"}


@pytest.mark.share(4)
@pytest.mark.parametrize("feature", ["", *MACHINES])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "tile",
    [(1, 1, 1), (14, 32, 8), (15, 33, 7), (64, 64, 64), (28, 96, 5), (6, 16, 16), (19, 40, 5)],
)
def test_every_tile_size(tile: tuple[int, int, int], dtype: str, feature: str) -> None:
    facts = Path("/proc/cpuinfo")
    if feature and (not facts.exists() or feature not in facts.read_text().split()):
        pytest.skip(f"this machine has no {feature}")
    target = f"cpu -arch={MACHINES[feature]}" if feature else "cpu"
    a, b = inputs(61, 101, 20, dtype)
    kernel = product(61, 101, 20, tile, dtype, dtype, target)
    np.testing.assert_array_equal(kernel(stored(a, dtype), stored(b, dtype)), a @ b)


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8"])
@pytest.mark.parametrize("trans_b", [False, True])
def test_tiles_that_other_statements_use(dtype: str, trans_b: bool) -> None:
    acc = "int32" if dtype == "int8" else "float32"
    a, b = inputs(40, 48, 24, dtype)
    kernel = product(40, 48, 24, (32, 32, 16), dtype, acc, trans_b=trans_b, inside=doubled)
    got = kernel(stored(a, dtype), stored(b.T if trans_b else b, dtype))
    np.testing.assert_array_equal(got, a @ (2 * b))


def test_the_left_operand_in_a_fragment() -> None:
    a, b = inputs(40, 48, 24, "float16")
    kernel = product(40, 48, 24, (32, 32, 16), "float16", "float32", left="fragment")
    np.testing.assert_array_equal(kernel(stored(a, "float16"), stored(b, "float16")), a @ b)


def test_parts_of_tiles_and_clear_accum() -> None:
    @T.prim_func
    def kernel(A: F32[2, 32, 16], B: F32[16, 48], C: F32[32, 48]):
        with T.Kernel(1, threads=32):
            a = T.alloc_shared((2, 32, 16), "float32")
            b = T.alloc_shared((16, 48), "float32")
            c = T.alloc_fragment((32, 48), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 7)
            for s in T.serial(2):
                T.gemm(a[s, :, :], b, c, clear_accum=(s == 0))
                T.gemm(a[s, 0:16, :], b[:, 0:16], c[0:16, 0:16])
            T.copy(c, C)

    rng = np.random.default_rng(0)
    A = rng.integers(-3, 4, (2, 32, 16)).astype(np.float32)
    B = rng.integers(-3, 4, (16, 48)).astype(np.float32)
    wanted = A[0] @ B + A[1] @ B
    wanted[:16, :16] += A[0, :16] @ B[:, :16] + A[1, :16] @ B[:, :16]
    got = tilelang.compile(kernel, out_idx=[-1], target="cpu")(A, B)
    np.testing.assert_array_equal(got, wanted)


@pytest.mark.skipif(shutil.which("clang-19") is None, reason="needs Clang")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_panels_have_the_numbers_of_a_tile_with_any_compiler(
    dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packing moves numbers as bits, which a compiler may not take for other memory."""
    monkeypatch.setenv("CC", "clang-19")
    a, b = inputs(12, 7, 6, dtype)
    kernel = product(12, 7, 6, (12, 7, 3), dtype, dtype, trans_b=True, inside=doubled)
    got = kernel(stored(a, dtype), stored(np.ascontiguousarray(b.T), dtype))
    np.testing.assert_array_equal(got, 2 * (a @ b))
