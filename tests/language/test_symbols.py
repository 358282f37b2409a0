"""Sizes that no argument tells, found where the program is traced."""

from __future__ import annotations

import numpy as np
import pytest
from columns import as_known

import tilelang
import tilelang.language as T
from tilelang.errors import TileError, TileNameError


def test_a_size_that_no_parameter_has_is_an_error_of_the_program() -> None:
    n, m = T.dynamic("n"), T.dynamic("m")

    with pytest.raises(TileNameError) as caught:

        @T.prim_func
        def kernel(A: T.Tensor((n, 8), "float32"), C: T.Tensor((n,), "float32")):
            with T.Kernel(T.ceildiv(m, 4)):
                C[0] = A[0, 0]

    text = str(caught.value)
    assert (
        as_known("test_symbols.py:21:18\n   21 |             with T.Kernel(T.ceildiv(m, 4)):")
        in text
    )
    assert text.split("\n -->")[0] == (
        "no argument of `kernel` determines the value of `m`\n"
        "  expected: an extent or a stride of a tensor parameter, or a scalar parameter\n"
        "  hint: declare it as a parameter, e.g. `m: T.int32`"
    )


@pytest.mark.parametrize("how", ["cpu", "interpret"])
def test_a_name_of_a_dimension_is_one_size(how: str) -> None:
    @T.prim_func
    def scaled(
        X: T.Tensor((T.dynamic("m"), 8), "float32"), Y: T.Tensor((T.dynamic("m"), 8), "float32")
    ):
        with T.Kernel(T.ceildiv(X.shape[0], 4), threads=32) as b:
            T.copy(X[b * 4, 0], Y[b * 4 : b * 4 + 4, 0:8])

    backend = "interpret" if how == "interpret" else "auto"
    ones = np.ones((5, 8), np.float32)
    made = tilelang.compile(scaled, out_idx=-1, target="cpu", execution_backend=backend)
    np.testing.assert_array_equal(made(ones), ones)
    plain = tilelang.compile(scaled, target="cpu", execution_backend=backend)
    with pytest.raises(TileError) as caught:
        plain(ones, np.ones((6, 8), np.float32))
    assert str(caught.value).splitlines()[0] == "kernel scaled input Y shape[0] does not match"
    assert T.dynamic("m") is T.dynamic("m") is not T.dynamic("m", "int64")
