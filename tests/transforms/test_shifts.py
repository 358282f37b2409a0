"""Shifts by any number of bits: what is left, on every executor, and what a count in range costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tensor_types import I8, I16, I32, I64, U8, U16, U32, U64

import tilelang
import tilelang.language as T
from tilelang.cpu.toolchain import find_compiler

DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
EXECUTORS = {
    "interpret": {"target": "cpu", "execution_backend": "interpret"},
    "cpu": {"target": "cpu"},
    "sm_80": {"target": "cuda -arch=sm_80", "execution_backend": "emulator"},
    "gfx942": {"target": "hip -mcpu=gfx942", "execution_backend": "emulator"},
    "metal": {"target": "metal", "execution_backend": "emulator"},
}


def all_dtypes(n: int) -> Any:
    """A program that shifts `n` elements of every dtype both ways."""

    @T.macro
    def shift(A, S, L, R):
        for i in T.Parallel(n):
            L[i] = A[i] << S[i]
            R[i] = A[i] >> S[i]

    @T.prim_func
    def main(
        A0: I8[n], S0: I8[n], L0: I8[n], R0: I8[n], A1: U8[n], S1: U8[n], L1: U8[n], R1: U8[n],
        A2: I16[n], S2: I16[n], L2: I16[n], R2: I16[n], A3: U16[n], S3: U16[n], L3: U16[n],
        R3: U16[n], A4: I32[n], S4: I32[n], L4: I32[n], R4: I32[n], A5: U32[n], S5: U32[n],
        L5: U32[n], R5: U32[n], A6: I64[n], S6: I64[n], L6: I64[n], R6: I64[n], A7: U64[n],
        S7: U64[n], L7: U64[n], R7: U64[n],
    ):  # fmt: skip
        with T.Kernel(1, threads=8):
            shift(A0, S0, L0, R0)
            shift(A1, S1, L1, R1)
            shift(A2, S2, L2, R2)
            shift(A3, S3, L3, R3)
            shift(A4, S4, L4, R4)
            shift(A5, S5, L5, R5)
            shift(A6, S6, L6, R6)
            shift(A7, S7, L7, R7)

    return main


def wrapped(values: list[int], dtype: str) -> np.ndarray:
    return np.array([value % 2**64 for value in values], np.uint64).astype(dtype)


@pytest.mark.parametrize("executor", EXECUTORS)
def test_all_bits_leave_at_the_width_and_beyond(executor: str) -> None:
    if executor != "interpret" and find_compiler() is None:
        pytest.skip("needs a C compiler")
    rng, n = np.random.default_rng(0), 44
    args: list[np.ndarray] = []
    expected: list[np.ndarray] = []
    for dtype in DTYPES:
        bits, ends = np.iinfo(dtype).bits, np.iinfo(dtype)
        values = rng.integers(ends.min, ends.max, n, dtype=dtype, endpoint=True)
        counts = [*range(-4, 34), bits - 1, bits, bits + 1, bits + 9, bits - 2, bits]
        unsigned = [count % 2**bits for count in counts]
        shifted = [int(a) << s if s < bits else 0 for a, s in zip(values, unsigned)]
        expected.append(wrapped(shifted, dtype))
        expected.append(wrapped([int(a) >> min(s, 64) for a, s in zip(values, unsigned)], dtype))
        results = [np.ones(n, dtype), np.ones(n, dtype)]
        args += [values, wrapped(counts, dtype), *results]
    tilelang.compile(all_dtypes(n), **EXECUTORS[executor])(*args)
    found = [arg for at, arg in enumerate(args) if at % 4 > 1]
    for left, right in zip(found, expected):
        np.testing.assert_array_equal(left, right)


def test_constants_fold_to_the_same() -> None:
    x = T.Var("x", "int32")
    assert [T.int32(5) << T.int32(n) for n in (31, 32, 99, -1)] == [
        T.int32(-(2**31)),
        *[T.int32(0)] * 3,
    ]
    assert [T.int32(-5) >> T.int32(n) for n in (1, 31, 32, -1)] == [T.int32(-3), *[T.int32(-1)] * 3]
    assert (x << 32) is T.int32(0)
    assert (x >> 40) is (x >> 31)
    assert (T.Var("u", "uint8") >> T.uint8(8)) is T.uint8(0)


def test_counts_that_are_known_to_be_in_range_cost_nothing() -> None:
    @T.prim_func
    def main(A: I32[64], B: I32[64], n: T.int32):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(64):
                B[i] = (A[i] >> (i % 8 * 4)) & 15
            if n >= 0 and n < 32:
                for i in T.Parallel(64):
                    B[i] += 1 << n
            for i in T.Parallel(64):
                B[i] += 1 << (A[i] & 31)
                B[i] += T.if_then_else(A[i] < 0 or A[i] > 31, 0, A[i] << A[i])
                B[i] += A[i] << (A[i] - 1)

    for target in ("cpu", "cuda -arch=sm_80"):
        source = tilelang.lower(main, target=target).source
        assert source.count("31u") == 1  # of the last one, which needs a look


def test_a_comparison_of_values_that_wrap_is_no_proof() -> None:
    """And a negative number without a sign is a large one."""

    @T.prim_func
    def main(A: U32[3], B: U32[3], C: U32[3]):
        with T.Kernel(1, threads=1):
            for i in T.serial(3):
                if A[i] - T.uint32(1) >= T.uint32(0):
                    B[i] = T.uint32(7) >> (T.uint32(31) - A[i])
                C[i] = T.uint32(255) >> (-A[i])

    a, b, c = np.array([40, 31, 0], np.uint32), np.zeros(3, np.uint32), np.ones(3, np.uint32)
    tilelang.compile(main, target="cpu")(a, b, c)
    assert list(b) == [0, 7, 0] and list(c) == [0, 0, 255]
