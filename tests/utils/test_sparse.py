"""``tilelang.utils.sparse``: making and packing matrices with two of four values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from refusals import refusal

from tilelang.errors import TileTypeError, TileValueError
from tilelang.utils import sparse


def unpack(values: Any, meta: Any, columns: int) -> Any:
    """The dense matrix of a packed one, written with Python's integers."""
    rows, bits = values.shape[0], meta.dtype.itemsize * 8
    dense = np.zeros((rows, columns), values.dtype)
    for row in range(rows):
        for group in range(columns // 4):
            word = int(meta[row, group // (bits // 4)]) & ((1 << bits) - 1)
            code = word >> 4 * (group % (bits // 4)) & 15
            first, second = code & 3, code >> 2
            assert first < second
            dense[row, 4 * group + first] += values[row, 2 * group]
            dense[row, 4 * group + second] += values[row, 2 * group + 1]
    return dense


@pytest.mark.parametrize("dtype", ["float16", "int8", "uint8", "int16"])
@pytest.mark.parametrize("meta", ["int8", "int16", "int32"])
def test_packed_matrices_unpack(dtype: str, meta: str) -> None:
    rng = np.random.default_rng(1)
    dense = rng.integers(-3 if dtype[0] != "u" else 0, 4, (5, 64)).astype(dtype)
    groups = dense.reshape(5, 16, 4)
    groups[..., 1] = 0
    groups[:, ::2, 3] = 0
    groups[:, 1::2, 0] = 0
    values, places = sparse.compress(dense, meta)
    assert values.shape == (5, 32)
    assert str(places.dtype) == meta
    np.testing.assert_array_equal(unpack(values, places, 64), dense)


def test_torch_tensors_give_torch_tensors() -> None:
    torch = pytest.importorskip("torch", reason="packs torch tensors")
    dense = sparse.randn_semi_sparse(4, 32, torch.bfloat16)
    assert dense.dtype is torch.bfloat16
    assert ((dense.reshape(4, 8, 4) != 0).sum(-1) == 2).all()
    values, places = sparse.compress(dense)
    assert (values.dtype, places.dtype) == (torch.bfloat16, torch.int16)
    again = unpack(values.float().numpy(), places.numpy(), 32)
    np.testing.assert_array_equal(again, dense.float().numpy())
    assert sparse.arange_semi_sparse(2, 8, torch.float16, transposed=True).shape == (8, 2)
    assert sparse.randint_semi_sparse(2, 8, 1, 5, torch.int8).dtype is torch.int8


def test_what_has_no_packed_form_is_said() -> None:
    dense = np.ones((1, 16), np.float16)
    assert refusal(TileValueError, sparse.compress, dense) == (
        "the matrix is not sparse enough\n"
        "  expected: at most 2 of 4 neighbours in a row other than 0\n  got: 4 at row 0"
    )
    with pytest.raises(TileValueError, match="no packed form"):
        sparse.compress(np.zeros((1, 12), np.float16))
    with pytest.raises(TileTypeError, match="no sparse matrices of this type"):
        sparse.compress(np.zeros((1, 16), np.float64))
