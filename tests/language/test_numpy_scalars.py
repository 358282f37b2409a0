"""Numbers of numpy where a program gives Python's: sizes, counts, flags and values."""

from __future__ import annotations

from typing import Any

import numpy as np
from tensor_types import F32

import tilelang.language as T


def program(number: Any, flag: Any, real: Any) -> Any:
    """A program whose numbers, flags and values are made by these functions."""

    @T.prim_func
    def kernel(A: F32[number(64), 64], B: F32[64, 64], S: F32[number(64)]):
        with T.Kernel(number(1), threads=number(128)):
            T.assume(number(64) > 3)
            T.alloc_barrier([number(128)])
            a = T.alloc_shared((number(2), 64, 64), "float32")
            c = T.alloc_fragment((64, 64), "float32")
            s = T.alloc_fragment(number(64), "float32")
            T.fill(c, real(1.5))
            for k in T.Pipelined(number(2), num_stages=number(2)):
                T.copy(A, a[k, :, :], disable_tma=flag(False))
                T.gemm(a[k, :, :], a[k, :, :], c, transpose_B=flag(True), k_pack=number(1))
            for i, j in T.Parallel(64, number(64), coalesced_width=number(4)):
                c[i, j] = T.max(c[i, j], real(-2.0)) * real(0.5)
            T.reduce_sum(c, s, dim=number(1), clear=flag(True))
            for i in T.serial(number(0), number(4), number(2)):
                s[i] = T.if_then_else(flag(True), s[i], real(1.0))
            T.sync_threads(number(1), number(128))
            T.copy(c, B)
            T.copy(s, S)

    return kernel


def test_scalars_of_numpy_are_the_numbers_that_they_hold() -> None:
    assert str(program(np.int64, np.bool_, np.float32)) == str(program(int, bool, float))
