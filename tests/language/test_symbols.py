"""Sizes that no argument tells, found where the program is traced."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang.errors import TileNameError


def test_a_size_that_no_parameter_has_is_an_error_of_the_program() -> None:
    n, m = T.dynamic("n"), T.dynamic("m")

    with pytest.raises(TileNameError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((n, 8), "float32"), C: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(m, 4)):
                C[0] = A[0, 0]

    text = str(caught.value)
    assert "test_symbols.py:18:18\n   18 |             with T.Kernel(T.ceildiv(m, 4)):" in text
    assert text.split("\n -->")[0] == (
        "no argument of `kernel` tells the value of `m`\n"
        "  expected: an extent or a stride of a tensor parameter, or a scalar parameter\n"
        "  hint: declare it as a parameter, e.g. `m: T.int32`"
    )


def test_sizes_in_strides_and_scalar_parameters_have_values() -> None:
    n, s, m = T.dynamic("n"), T.dynamic("s"), T.dynamic("m")

    @T.prim_func
    def kernel(A: T.StridedTensor((n, 8), (s, 1), "float32"), m: T.int32):
        with T.Kernel(T.ceildiv(n, 4), threads=32) as bx:
            for i in T.serial(m):
                A[bx, i] = s

    assert kernel.name == "kernel"
