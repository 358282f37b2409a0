"""Making inputs for kernels and comparing results, for numpy arrays and torch tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from tilelang.errors import TileValueError
from tilelang.ir import floats
from tilelang.ir.buffer import Buffer, as_extent
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import Expr, const
from tilelang.ir.simplify import simplify
from tilelang.ir.visitor import substitute
from tilelang.target.device import import_gpu_framework

if TYPE_CHECKING:
    from tilelang.runtime.device_array import DeviceMemory

# Elements of a large tensor that are drawn, and repeated from there on. A prime, so that no two
# rows or tiles are equal: mixing them up is still detected.
PERIOD = 1_000_003


_PIECE = 1 << 24  # elements that are compared at a time


class TensorSupplyType(Enum):
    """The values of generated inputs.

    ``Uniform`` draws from -1 to 1, ``Randn`` from the standard normal distribution, ``Normal`` from
    that around -1, ``Auto`` from what suits the dtype.
    """

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


def copied(value: Any) -> Any:
    """A copy of a tensor, for a call that may change it; anything else as it is."""
    for name in ("clone", "copy"):
        method = getattr(value, name, None)
        if method is not None:
            return method()
    return value


def _values(kind: TensorSupplyType, dtype: DType, shape: tuple[int, ...], rng: Any) -> Any:
    """Values (as numpy float64 or int64) that a supply of ``kind`` gives for ``dtype``."""
    if kind is TensorSupplyType.Zero:
        return np.zeros(shape)
    if kind is TensorSupplyType.One:
        return np.ones(shape)
    if kind in (TensorSupplyType.Normal, TensorSupplyType.Randn) and dtype.is_float:
        # Checks of programs depend on it: sums around a mean cancel less than sums around 0.
        return rng.standard_normal(shape) - (kind is TensorSupplyType.Normal)
    if kind is TensorSupplyType.Uniform and dtype.is_float:
        return rng.uniform(-1, 1, shape)
    if dtype.is_uint:
        return rng.integers(0, 3, shape)
    if dtype.is_bool:
        return rng.integers(0, 2, shape)
    if kind is TensorSupplyType.Auto and dtype.is_float:
        if dtype.bits == 4:
            return floats.decode(rng.integers(0, 16, shape), dtype)
        return rng.integers(-128, 128, shape) if dtype.bits == 8 else rng.uniform(-1, 1, shape)
    return rng.integers(-2, 3, shape)


def get_tensor_supply(
    supply_type: TensorSupplyType = TensorSupplyType.Auto,
    seed: int | None = None,
    device: str | DeviceMemory | None = None,
    symbols: Mapping[str, int] | None = None,
) -> Callable[[Any], Any]:
    """A function that makes one input for a parameter of a kernel or of a traced function.

    Large tensors repeat :data:`PERIOD` drawn values, on the device.
    Tensors are torch tensors when torch is already imported, numpy arrays otherwise. With
    ``device="cuda"`` they are torch or cupy tensors on the current GPU, and where neither is
    imported, the one that is installed is. In a memory they need neither. A scalar is 1, or what
    ``symbols`` says for its name.

    Args:
        supply_type: how tensors are filled.
        seed: of the generator; None for other values each time.
        device: where tensors are.
        symbols: values of the symbols in shapes (``T.dynamic``) and of scalar parameters, by name.

    Raises:
        TileValueError: by the function, for a shape with a symbol that has no value, or a
            negative extent.
    """
    if isinstance(device, str):
        import_gpu_framework()
    rng = np.random.default_rng(seed)
    known = dict(symbols or {})

    def supply(param: Any) -> Any:
        if not getattr(param, "shape", ()) and not isinstance(param, Buffer):
            value = known.get(getattr(param, "name", ""), 1)
            return float(value) if param.dtype.is_float else value
        shape = extents_of(param, known)
        repeats = prod(shape) > PERIOD and param.dtype.packing == 1
        values = _values(supply_type, param.dtype, (PERIOD,) if repeats else shape, rng)
        if device is not None and not isinstance(device, str):
            if param.dtype == "handle":
                raise TileValueError(
                    "addresses are not made up",
                    expected="tensors of numbers, or inputs that are given",
                    got=f"a tensor of {param.dtype}",
                    hint="supply_prog=... makes the inputs of a search",
                )
            if param.dtype.is_float and param.dtype.bits < 64:
                values = values.astype(np.float32)  # ten times faster to convert
            array = floats.to_storage(values, param.dtype)
            return device.upload(array, param.dtype, shape if repeats else array.shape)
        tensor = to_framework(values, param.dtype)
        placed = tensor if device is None else to_device(tensor, device)
        return _repeated(placed, shape) if repeats else placed

    return supply


def _repeated(tensor: Any, shape: tuple[int, ...]) -> Any:
    """A tensor of one dimension, repeated to a shape."""
    count, size = prod(shape), len(tensor)
    module: Any = sys.modules[type(tensor).__module__.partition(".")[0]]
    if module.__name__ != "torch":
        return module.resize(tensor, shape)
    wide = tensor.itemsize > 1  # as bytes else: not every release repeats 8-bit floats on a GPU
    plain = tensor if wide else tensor.view(module.uint8)
    return plain.repeat(-(-count // size))[:count].view(tensor.dtype).reshape(shape)


def extents_of(param: Any, symbols: Mapping[str, int]) -> tuple[int, ...]:
    """The extents of a tensor parameter for these values of symbols, by name.

    Raises:
        TileValueError: a symbol without a value, or a negative extent.
    """
    extents = []
    for extent in param.shape:
        if isinstance(extent, Expr):
            unknown = [var.name for var in extent.variables if var.name not in symbols]
            if unknown:
                names = ", ".join(f"{name!r}: 128" for name in sorted(set(unknown)))
                shape = ", ".join(map(str, param.shape)) + ("," if len(param.shape) == 1 else "")
                raise TileValueError(
                    f"cannot make an input for the symbolic shape ({shape})",
                    expected="a value for each symbol",
                    hint="pass input_tensors=..., or dynamic_symbolic_constraints={" + names + "}",
                )
            values = {var: const(int(symbols[var.name]), var.dtype) for var in extent.variables}
            extent = as_extent(simplify(substitute(extent, dict(values))))
        if not isinstance(extent, int) or extent < 0:
            raise TileValueError(
                f"cannot make an input with the extent {extent}",
                expected="extents that are not negative",
                got=", ".join(f"{name} = {value}" for name, value in symbols.items()),
            )
        extents.append(extent)
    return tuple(extents)


def to_framework(values: Any, dtype: DType) -> Any:
    """``values`` as a tensor of ``dtype``: torch when it is imported, else a storage array."""
    torch = sys.modules.get("torch")
    if torch is None:
        return floats.to_storage(values, dtype)
    kind = dtype.as_torch()
    if dtype.packing == 1 and getattr(torch, str(dtype), None) is kind:
        return torch.from_numpy(np.ascontiguousarray(values)).to(kind)
    return torch.from_numpy(floats.to_storage(values, dtype)).view(kind)


def to_device(tensor: Any, device: str) -> Any:
    """``tensor`` on a GPU, by torch or cupy.

    Raises:
        TileValueError: neither is imported, or torch has no GPU, so no framework has memory there.
    """
    torch: Any = sys.modules.get("torch")
    cupy: Any = sys.modules.get("cupy")
    if torch is not None and isinstance(tensor, torch.Tensor):
        if not torch.cuda.is_available():
            raise TileValueError(
                "cannot make an input on the GPU",
                expected="a GPU that torch can use",
                got=f"torch {torch.__version__} without one",
                hint='execution_backend="emulator" runs the kernel without a GPU',
            )
        return tensor.to(device)
    if cupy is not None:
        return cupy.asarray(tensor)
    raise TileValueError(
        "cannot make an input on the GPU",
        expected="torch or cupy",
        got="neither is installed",
        hint="pip install torch",
    )


def as_float(tensor: Any, dtype: DType | None = None) -> Any:
    """A float64 numpy array of the values of a tensor or number.

    Args:
        tensor: numpy array, torch tensor or number.
        dtype: what a numpy array holds when numpy has no such type and it therefore stores codes.
    """
    if hasattr(tensor, "detach"):
        return tensor.detach().cpu().double().numpy()
    if hasattr(tensor, "__cuda_array_interface__"):  # cupy, which converts on request only
        tensor = tensor.get()
    array = np.asarray(tensor)
    if dtype is not None and array.ndim and array.dtype == dtype.as_numpy():
        array = floats.from_storage(array, dtype)
    return array.astype(np.float64)


def _are_close(a: Any, b: Any, rtol: float, atol: float, ratio: float) -> bool:
    """Whether two torch tensors are close, found out where the first is, piece by piece; False
    for other arrays."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not all(isinstance(tensor, torch.Tensor) for tensor in (a, b)):
        return False
    if a.shape != b.shape:
        return False
    count = 0
    for left, right in zip(*(tensor.detach().reshape(-1).split(_PIECE) for tensor in (a, b))):
        right = right.to(left.device).double()
        wrong = ~torch.isclose(left.double(), right, rtol=rtol, atol=atol, equal_nan=True)
        count += int(wrong.sum())
    return bool(count <= ratio * max(1, a.numel()))


def torch_assert_close(
    actual: Any, expected: Any, rtol: float = 1e-2, atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001, **_: Any,
) -> bool:  # fmt: skip
    """Check that at most ``max_mismatched_ratio`` of the elements differ by more than allowed.

    Raises:
        AssertionError: with the number of differing elements and the largest difference.
    """
    if _are_close(actual, expected, rtol, atol, max_mismatched_ratio):
        return True
    a, b = as_float(actual), as_float(expected)
    if a.shape != b.shape:
        raise AssertionError(f"shapes differ: {a.shape} and {b.shape}")
    wrong = ~np.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
    count, total = int(wrong.sum()), max(1, wrong.size)
    if count > max_mismatched_ratio * total:
        with np.errstate(invalid="ignore"):  # infinities that agree differ by NaN
            distance = np.where(wrong, np.abs(a - b), -1)
        worst = np.unravel_index(int(np.argmax(distance)), a.shape)
        raise AssertionError(
            f"{count} of {total} elements differ ({100 * count / total:.2f} %, allowed "
            f"{100 * max_mismatched_ratio:.2f} %); largest at {tuple(map(int, worst))}: "
            f"{a[worst]} instead of {b[worst]}"
        )
    return True
