"""Matrices of which two of four neighbours are zero: making them, and their packed form.

Packed, a matrix has the two values of each group that are kept, and for each of them its position
in the group (2 bits, the first one lowest) in a matrix of metadata; one element of metadata holds
the places of several groups (PTX ISA, "Sparse matrix storage").
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tilelang.absent import absent_names
from tilelang.errors import TileTypeError, TileValueError
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.floats import to_storage

__all__ = ["arange_semi_sparse", "compress", "randint_semi_sparse", "randn_semi_sparse"]

__getattr__ = absent_names("tilelang.utils.sparse")


_KEPT, _GROUP, _WIDTH = 2, 4, 2  # values kept of a group, its size, bits of a place


def _check_type(dtype: DType) -> None:
    if dtype.bits not in (8, 16):
        raise TileTypeError(
            "there are no sparse matrices of this type",
            expected="a type of 8 or 16 bits",
            got=str(dtype),
        )


def compress(dense: Any, meta_dtype: Any = "int16") -> tuple[Any, Any]:
    """The packed form of a matrix: values that are not zero, and metadata.

    Args:
        dense: a numpy array or torch tensor of two dimensions with at most two values other than 0
            among four neighbours of a row.
        meta_dtype: int8, int16 or int32: type of the metadata.

    Returns:
        Values of shape (rows, columns / 2), and metadata of shape (rows, columns / per element).

    Raises:
        TileTypeError: a type without a sparse form.
        TileValueError: another shape, or more values than fit.
    """
    array = dense.detach().cpu() if hasattr(dense, "detach") else np.asarray(dense)
    kind, meta = DType(array.dtype), DType(meta_dtype)
    _check_type(kind)
    keep, size, width = _KEPT, _GROUP, _WIDTH
    groups_each = meta.bits // (keep * width)
    if array.ndim != 2 or array.shape[1] % (size * groups_each):
        raise TileValueError(
            "this matrix has no packed form",
            expected=f"2 dimensions, columns a multiple of {size * groups_each}",
            got=f"shape {tuple(array.shape)}",
        )
    rows = array.shape[0]
    groups = _bits(array).reshape(rows, -1, size)
    used = groups != 0
    if kind.is_float:  # minus zero is not a value
        used = used & (groups != 1 << (kind.bits - 1))
    if (used.sum(-1) > keep).any():
        raise TileValueError(
            "the matrix is not sparse enough",
            expected=f"at most {keep} of {size} neighbours in a row other than 0",
            got=f"{int(used.sum(-1).max())} at row {int(np.argwhere(used.sum(-1) > keep)[0][0])}",
        )
    # Positions of the kept values in order; a group with fewer values keeps zeros, too.
    order = np.argsort(~used, axis=-1, kind="stable")[..., :keep]
    columns = np.sort(order, axis=-1)
    values = np.take_along_axis(groups, columns, -1).reshape(rows, -1)
    codes = (columns << width * np.arange(keep)).sum(-1).reshape(rows, -1, groups_each)
    packed = (codes << keep * width * np.arange(groups_each)).sum(-1)
    return _convert(dense, values, kind), _convert(dense, packed.astype(f"uint{meta.bits}"), meta)


def randn_semi_sparse(
    M: int, K: int, dtype: Any = "float16", device: Any = None, transposed: bool = False
) -> Any:
    """A random matrix of M rows and K columns whose larger neighbours of each group are 0.

    Args:
        M, K: extents.
        dtype: a dtype of tilelang, numpy or torch.
        device: of torch tensors.
        transposed: give the transposed matrix, (K, M).
    """
    return _sparse(np.random.standard_normal((M, K)), DType(dtype), device, transposed)


def randint_semi_sparse(
    M: int, K: int, low: int, high: int, dtype: Any = "int8", device: Any = None,
    transposed: bool = False,
) -> Any:  # fmt: skip
    """Random integers from ``low`` to below ``high``; else as :func:`randn_semi_sparse`."""
    return _sparse(np.random.randint(low, high, (M, K)), DType(dtype), device, transposed)


def arange_semi_sparse(
    M: int, K: int, dtype: Any = "float16", device: Any = None, transposed: bool = False
) -> Any:
    """0, 1, 2, ... in rows; else as :func:`randn_semi_sparse`."""
    return _sparse(np.arange(M * K).reshape(M, K), DType(dtype), device, transposed)


def _sparse(values: Any, kind: DType, device: Any, transposed: bool) -> Any:
    _check_type(kind)
    keep, size = _KEPT, _GROUP
    if values.shape[1] % size:
        raise TileValueError(
            "these rows have no whole groups",
            expected=f"columns a multiple of {size}",
            got=str(values.shape[1]),
        )
    groups = values.reshape(values.shape[0], -1, size)
    np.put_along_axis(groups, np.argsort(groups, axis=-1, kind="stable")[..., size - keep :], 0, -1)
    pruned = groups.reshape(values.shape)
    stored = to_storage(pruned.T if transposed else pruned, kind)
    result = _framework(np.ascontiguousarray(stored), kind, None)
    return result if device is None or isinstance(result, np.ndarray) else result.to(device)


def _bits(array: Any) -> Any:
    """The bits of the elements as unsigned integers."""
    plain: Any = array.contiguous() if hasattr(array, "contiguous") else np.ascontiguousarray(array)
    kind = DType(array.dtype)
    if hasattr(plain, "contiguous"):
        import torch

        plain = plain.view({8: torch.uint8, 16: torch.int16}[kind.bits]).numpy()
    return plain.view(np.uint8 if kind.bits == 8 else np.uint16)


def _convert(dense: Any, bits: Any, kind: DType) -> Any:
    return _framework(bits.view(kind.as_numpy()), kind, dense)


def _framework(array: Any, kind: DType, like: Any) -> Any:
    """A torch tensor where ``like`` is one, or torch is imported and there is no ``like``."""
    torch: Any = sys.modules.get("torch")
    if torch is None or (like is not None and not isinstance(like, torch.Tensor)):
        return array
    tensor = torch.from_numpy(array).view(kind.as_torch())
    return tensor if like is None else tensor.to(like.device)
