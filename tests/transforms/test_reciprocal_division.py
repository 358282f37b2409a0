"""Divisions by one number through its reciprocal: where, where not, and results bit by bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_types import F16, F32

import tilelang
import tilelang.language as T
from tilelang.compiler import lower
from tilelang.ir import stmt as S
from tilelang.options import Options
from tilelang.target import parse_target

TARGET = "cuda -arch=sm_90a"


def divided(rows: int, each: int = 8, threads: int = 64) -> Any:
    """Each thread divides a row by the number of its row."""

    @T.prim_func
    def kernel(X: F32[rows, each], D: F32[rows], Y: F32[rows, each]):
        with T.Kernel(rows // threads, threads=threads) as bx:
            row = bx * threads + T.get_thread_binding()
            x = T.alloc_local((each,), "float32")
            for j in T.vectorized(each):
                x[j] = X[row, j]
            for j in T.unroll(each):
                x[j] = x[j] / D[row]
            for j in T.vectorized(each):
                Y[row, j] = x[j]

    return kernel


def script(func: S.PrimFunc, target: str = TARGET, **options: Any) -> str:
    """The lowered program."""
    return lower(func, parse_target(target), Options(**options)).script()


def softmax(dtype: str = "float32", steps: Any = None) -> Any:
    """Rows divided by their sum."""

    @T.prim_func
    def kernel(X: T.Tensor((4, 1024), dtype), Y: F16[4, 1024]):
        with T.Kernel(4, threads=64) as bx:
            x = T.alloc_fragment((1, 1024), dtype)
            total = T.alloc_fragment((1,), dtype)
            T.copy(X[bx, 0], x)
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, 1024):
                x[i, j] = x[i, j] / total[i]
            T.copy(x, Y[bx, 0])

    return kernel


def unshared(kind: str) -> Any:
    """Divisions that stay as they are."""

    @T.prim_func
    def kernel(X: F32[64, 8], D: F32[64, 8]):
        with T.Kernel(1, threads=64):
            row = T.get_thread_binding()
            x = T.alloc_local((8,), "float32")
            d = T.alloc_local((8,), "float32")
            for j in T.vectorized(8):
                x[j] = X[row, j]
            for j in T.vectorized(8):
                d[j] = D[row, j]
            for j in T.unroll(4 if kind == "few" else 8):
                if kind == "other divisors":
                    x[j] = x[j] / d[j]
                elif kind == "its own result":
                    x[j] = x[j] / x[0]
                elif kind == "the same place":
                    x[0] = x[0] / d[0]
                elif kind == "a neighbour's":
                    x[j] = x[7 - j] / d[0]
                elif kind == "an exchange":
                    x[j] = T.shfl_xor(x[j] / d[0], 1)
                elif kind == "few":
                    x[j] = x[j] / d[0]
                else:
                    x[j] = x[j] / T.float32(3)
            for j in T.vectorized(8):
                X[row, j] = x[j]

    return kernel


def test_a_nest_of_one_divisor_has_one_reciprocal() -> None:
    assert script(softmax()).count("inverse: ") == 1


@pytest.mark.parametrize(
    "kind",
    [
        "other divisors",
        "its own result",
        "the same place",
        "a neighbour's",
        "an exchange",
        "few",
        "a constant",
    ],  # fmt: skip
)
def test_divisions_that_stay(kind: str) -> None:
    assert "inverse" not in script(unshared(kind))


def test_other_machines_formats_and_approximations_divide_as_before() -> None:
    assert "inverse" not in script(softmax(), "hip -arch=gfx942")
    assert "inverse" not in script(softmax("float64"))
    assert "inverse" not in script(softmax(), fast_math=True)


def bits(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of numbers, one pattern for all NaN."""
    return np.where(np.isnan(x), np.uint32(0x7FC00000), x.view(np.uint32))


def agrees(x: np.ndarray[Any, Any], d: np.ndarray[Any, Any]) -> None:
    """Quotients of the emulated kernel and of numpy are equal bit by bit."""
    func = divided(len(d), x.shape[1])
    kernel = tilelang.compile(func, target=TARGET, execution_backend="emulator")
    y = np.full(x.shape, 7, np.float32)
    kernel(x, d, y)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(bits(y), bits(x / d[:, None]))


def hard(divisors: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """For each odd divisor of 24 bits eight dividends whose quotients are nearest to halfway between
    two numbers: ``a * 2^25 = k (mod b)`` with ``|k|`` up to 4."""
    found = np.zeros((len(divisors), 8), np.float32)
    for row, b in enumerate(map(int, divisors)):
        inverse = pow(1 << 25, -1, b)
        for column, k in enumerate((-4, -3, -2, -1, 1, 2, 3, 4)):
            a = k * inverse % b
            found[row, column] = a if a >= 1 << 23 else a + b if a + b < 1 << 24 else a
    return found


def test_quotients_near_rounding_ties() -> None:
    rng = np.random.default_rng(1)
    divisors = rng.integers(1 << 23, 1 << 24, 8192) | 1
    divisors[:512] = np.arange((1 << 24) - 1023, 1 << 24, 2)  # where a quotient is off most
    agrees(hard(divisors), divisors.astype(np.float32))


def test_any_numbers() -> None:
    rng = np.random.default_rng(2)
    raw = rng.integers(0, 1 << 32, (8192, 8), np.uint64).astype(np.uint32).view(np.float32)
    raw[:4096] = rng.standard_normal((4096, 8)) * 2.0 ** rng.integers(-90, 90, (4096, 1))
    agrees(raw, (rng.random(8192) * 2.0 ** rng.integers(-26, 27, 8192)).astype(np.float32))


def test_edges_and_special_numbers() -> None:
    tiny, edges = np.float32(1e-45), [2.0**-100, 2.0**100, 2.0**-126, 2.0**-24, 2.0**24, 1.0, 3.0]
    around = [np.nextafter(np.float32(x), np.float32(to)) for x in edges for to in (0, np.inf)]
    special = [0.0, tiny, np.inf, np.nan, 3.4028235e38, *edges, *around]
    values = np.array([*special, *(-np.float32(x) for x in special)], np.float32)
    rows = np.repeat(values, len(values))  # each with each
    x = np.repeat(rows[:, None], 8, 1)
    x[1::2, 1:] = 1.0  # one of a row decides for all
    d = np.tile(values, len(values))
    pad = -len(d) % 64
    agrees(np.pad(x, ((0, pad), (0, 0))), np.pad(d, (0, pad), constant_values=1))
