"""Making inputs for kernels and comparing results, for numpy arrays and torch tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable
from enum import Enum
from typing import Any

import numpy as np

from tilelang.errors import TileValueError
from tilelang.ir import floats
from tilelang.ir.dtypes import dtype as DType


class TensorSupplyType(Enum):
    """How generated inputs are filled."""

    Integer = 1
    Uniform = 2
    Normal = 3
    Randn = 4
    Zero = 5
    One = 6
    Auto = 7


def map_torch_type(name: object) -> Any:
    """The torch dtype for a dtype name."""
    return DType(name).as_torch()


def _values(kind: TensorSupplyType, dtype: DType, shape: tuple[int, ...], rng: Any) -> Any:
    """Values (as numpy float64 or int64) that a supply of ``kind`` gives for ``dtype``."""
    if kind is TensorSupplyType.Zero:
        return np.zeros(shape)
    if kind is TensorSupplyType.One:
        return np.ones(shape)
    if kind in (TensorSupplyType.Normal, TensorSupplyType.Randn) and dtype.is_float:
        return rng.standard_normal(shape)
    if kind is TensorSupplyType.Uniform and dtype.is_float:
        return rng.uniform(-1, 1, shape)
    if dtype.is_uint:
        return rng.integers(0, 3, shape)
    if dtype.is_bool:
        return rng.integers(0, 2, shape)
    if kind is TensorSupplyType.Auto and dtype.is_float:
        if dtype.bits == 4:
            return rng.integers(0, 6, shape)
        if dtype.bits == 8:
            return rng.integers(-128, 128, shape)
        return rng.uniform(-1, 1, shape)
    return rng.integers(-2, 3, shape)


def get_tensor_supply(
    supply_type: TensorSupplyType = TensorSupplyType.Auto, seed: int | None = None
) -> Callable[[Any], Any]:
    """A function that makes one input for a kernel parameter (``.dtype``, ``.shape``).

    Tensors are torch tensors when torch is already imported, numpy arrays otherwise.

    Raises:
        TileValueError: by the function, for a parameter with a symbolic shape.
    """
    rng = np.random.default_rng(seed)

    def supply(param: Any) -> Any:
        if hasattr(param, "is_scalar") and param.is_scalar():
            return 1.0 if param.dtype.is_float else 1
        if any(not isinstance(extent, int) for extent in param.shape):
            raise TileValueError(
                f"cannot make an input for the symbolic shape {tuple(param.shape)}",
                expected="constant extents",
                hint="pass input_tensors=... to the profiler",
            )
        values = _values(supply_type, param.dtype, tuple(param.shape), rng)
        return to_framework(values, param.dtype)

    return supply


def to_framework(values: Any, dtype: DType) -> Any:
    """``values`` as a tensor of ``dtype``: torch when it is imported, else a storage array."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return torch.from_numpy(np.ascontiguousarray(values)).to(dtype.as_torch())
    if dtype.as_numpy().kind in "fiub" and str(dtype.as_numpy()) == str(dtype):
        return np.ascontiguousarray(values).astype(dtype.as_numpy())
    return floats.encode(np.asarray(values, dtype=np.float32), dtype)


def as_float(tensor: Any) -> Any:
    """A float64 numpy array of the values of a tensor."""
    if isinstance(tensor, np.ndarray):
        return tensor.astype(np.float64)
    return tensor.detach().cpu().double().numpy()


def torch_assert_close(
    actual: Any,
    expected: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    **_: Any,
) -> bool:
    """Check that at most ``max_mismatched_ratio`` of the elements differ by more than allowed.

    Raises:
        AssertionError: with the number of differing elements and the largest difference.
    """
    a, b = as_float(actual), as_float(expected)
    if a.shape != b.shape:
        raise AssertionError(f"shapes differ: {a.shape} and {b.shape}")
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    count, total = int(wrong.sum()), max(1, wrong.size)
    if count > max_mismatched_ratio * total:
        worst = np.unravel_index(int(np.argmax(np.where(wrong, np.abs(a - b), -1))), a.shape)
        raise AssertionError(
            f"{count} of {total} elements differ ({100 * count / total:.2f} %, allowed "
            f"{100 * max_mismatched_ratio:.2f} %); largest at {tuple(map(int, worst))}: "
            f"{a[worst]} instead of {b[worst]}"
        )
    return True
