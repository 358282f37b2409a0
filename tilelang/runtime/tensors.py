"""Tensors of any framework seen as memory: dtype, shape, strides, device, address.

torch tensors and numpy arrays are recognised directly (torch is never imported), everything else
through ``__dlpack__``, the array interface or the buffer protocol. Nothing here copies.

numpy has no bfloat16 or fp8. Arrays of the ``ml_dtypes`` package are understood, and so are
"storage arrays" that hold the same bits (uint16 for bfloat16, uint8 for fp8); results for numpy
callers are of ``ml_dtypes`` types where that package is installed, else storage arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np

from tilelang.errors import ArgumentTypeError, TileTypeError, shown
from tilelang.ir.buffer import row_major_strides
from tilelang.ir.dtypes import dtype as DType
from tilelang.records import dataclass
from tilelang.runtime import dlpack
from tilelang.runtime.autograd import refuse_traced
from tilelang.runtime.device_array import DeviceArray
from tilelang.target.device import import_gpu_framework

_MOST_STEPS: Any = 1 << 16  # of a search for an element that two tensors share
_EXPECTED = "a numpy array, a torch tensor, or an object with __dlpack__"
# ml_dtypes keeps one 4-bit value per byte, which only one of our types does.
_OF_ML_DTYPES = {
    "float4_e2m1fn": "float4_e2m1_unpacked", "int4": "", "uint4": "",
    "float8_e4m3": dlpack.INFINITE_E4M3,
}  # fmt: skip
_FROM_DLPACK = {"jaxlib": "jax.dlpack", "jax": "jax.dlpack"}  # home of from_dlpack


@dataclass(frozen=True)
class TensorInfo:
    """A tensor as memory.

    Attributes:
        dtype: element type; None when the language has no such type.
        dtype_name: what the framework calls it.
        shape, strides: in storage units (a packed pair of 4-bit values is one unit).
        device, index: "cpu", "cuda", "hip", "metal", ... and the number of the device.
        pointer: address of the first element.
        readonly: writing is forbidden.
        raw: the framework has few types, so storage types replace the types that they hold.
        owner: object that must stay alive while the memory is used.
    """

    dtype: DType | None
    dtype_name: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    index: int
    pointer: int
    readonly: bool = False
    raw: bool = True
    owner: object = None

    @property
    def size(self) -> int:
        """Number of storage units."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count


def is_torch(obj: object) -> bool:
    """Whether ``obj`` is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def framework_of(obj: object) -> str:
    """One of "torch", "numpy", "driver" (arrays of this package) and "other"."""
    if is_torch(obj):
        return "torch"
    if isinstance(obj, DeviceArray):
        return "driver"
    return "numpy" if isinstance(obj, np.ndarray) else "other"


def describe(obj: object) -> TensorInfo:
    """``obj`` as memory.

    Raises:
        ArgumentTypeError: it is not a tensor, or one without plain memory (sparse, lists, ...).
    """
    if is_torch(obj):
        return _describe_torch(obj)
    if isinstance(obj, (np.ndarray, np.generic)):
        return _describe_numpy(np.asarray(obj), obj)
    if isinstance(obj, DeviceArray):
        return _describe_own(obj)
    if hasattr(obj, "__cuda_array_interface__") and not isinstance(obj, type):
        try:
            info = _describe_cuda(obj)
        except _BROKEN as error:
            raise _no_tensor(obj, "__cuda_array_interface__", error) from error
        if info is not None:
            return info
    if hasattr(obj, "__dlpack__") and not isinstance(obj, type):
        _refuse_jax_tracer(obj)
        return _describe_dlpack(obj)
    array = _through_buffer(obj)
    if array is None:
        raise ArgumentTypeError(
            "this is not a tensor", expected=_EXPECTED, got=_kind(obj), hint=conversion_hint(obj)
        )
    return _describe_numpy(array, array)


def memory_of(obj: object) -> Any:
    """The elements of a tensor as bytes without a meaning, on any device; no elements if it is no
    tensor or its memory is freed."""
    with suppress(ArgumentTypeError):
        info = describe(obj)
        if info.dtype is not None and info.pointer:
            size = int(info.dtype.as_numpy().itemsize) * info.dtype.lanes
            return _array_at(info, np.dtype(f"V{size}"))
    return np.empty(0, "V1")


def span(array: Any) -> tuple[int, int]:
    """The address range of an array: its first byte, and the one past its last."""
    reach = [(extent - 1) * step for extent, step in zip(array.shape, array.strides)]
    low, high = (sum(step for step in reach if (step < 0) == back) for back in (True, False))
    return array.ctypes.data + low, array.ctypes.data + high + array.itemsize


def have_common_elements(a: Any, b: Any) -> bool:
    """Whether two arrays share memory; they do where that takes too long to say."""
    try:
        return np.shares_memory(a, b, max_work=_MOST_STEPS)
    except RuntimeError:  # of a search that is too long
        return True


# Exceptions of interfaces that violate their protocol.
_BROKEN = (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError)


def _no_tensor(obj: object, interface: str, error: Exception) -> ArgumentTypeError:
    return ArgumentTypeError(
        f"the {interface} of this {type(obj).__name__} gives no tensor",
        expected=_EXPECTED,
        got=f"{type(error).__name__}: {str(error)[:200]}",
    )


def _kind(obj: object) -> str:
    plain = isinstance(obj, (int, float, str, list, tuple))
    return type(obj).__name__ + (f" {shown(obj, 60)}" if plain else "")


def conversion_hint(obj: object, name: str = "A") -> str | None:
    """A conversion to an array, for an object with values but without accessible memory (a column
    of polars or pandas). It is not done here, because a kernel would write into a copy."""
    if isinstance(obj, type) or not hasattr(obj, "to_numpy"):
        return None
    return f"pass {name}.to_numpy(); where that is a copy, what a kernel writes goes there"


def is_jax(obj: object) -> bool:
    """Whether this is an array of JAX, which never changes, whatever its capsule says."""
    jax: Any = sys.modules.get("jax")
    return jax is not None and isinstance(obj, jax.Array)


def _refuse_jax_tracer(obj: object) -> None:
    """Refuse an array of JAX without values.

    Raises:
        ArgumentTypeError: it is a tracer while JAX traces a program.
    """
    core: Any = sys.modules.get("jax.core")
    if core is not None and isinstance(obj, core.Tracer):
        raise ArgumentTypeError(
            "this array of JAX has no values: it is traced (jit, grad, vmap, ...)",
            expected="an array with memory",
            got=f"a {type(obj).__name__}",
            hint="tilelang.jax.custom_call(kernel) makes a function that JAX traces",
        )


def _through_buffer(obj: object) -> Any:
    if isinstance(obj, type):
        return None
    if hasattr(obj, "__array_interface__"):
        try:
            return np.asarray(obj)
        except _BROKEN as error:
            raise _no_tensor(obj, "__array_interface__", error) from error
    try:
        return np.asarray(memoryview(obj))  # type: ignore[arg-type]  # refused below if it is none
    except (TypeError, ValueError):
        return None


def _describe_torch(tensor: Any) -> TensorInfo:
    where = tensor.device
    kind = {"mps": "metal"}.get(where.type, where.type)
    if kind == "cuda" and getattr(sys.modules["torch"].version, "hip", None):
        kind = "hip"
    if tensor.is_nested:
        raise ArgumentTypeError(
            "this torch tensor is nested: its rows have lengths of their own",
            expected="a dense tensor",
            got=f"a nested tensor with layout {tensor.layout}",
            hint="pass A.values(), or A.to_padded_tensor(0)",
        )
    refuse_traced(tensor)
    try:
        pointer = tensor.data_ptr()
        strides = tuple(tensor.stride())
    except RuntimeError as error:
        raise ArgumentTypeError(
            "this torch tensor has no plain memory",
            expected="a dense tensor",
            got=f"{type(tensor).__name__} with layout {tensor.layout}",
        ) from error
    if tensor.is_neg():
        raise ArgumentTypeError(
            "this torch tensor has the negative bit set",
            expected="a tensor that holds its values",
            got=f"a view with the negative bit of shape {tuple(tensor.shape)}",
            hint="pass A.resolve_neg()",
        )
    name = str(tensor.dtype).removeprefix("torch.")
    return TensorInfo(
        dtype=_dtype_or_none(tensor.dtype), dtype_name=name, shape=tuple(tensor.shape),
        strides=strides, device=kind, index=where.index or 0, pointer=pointer, raw=False,
        owner=tensor,
    )  # fmt: skip


def _describe_numpy(array: Any, owner: object) -> TensorInfo:
    if hasattr(type(owner), "mask"):
        raise ArgumentTypeError(
            "this is a masked array, whose mask a kernel would not see",
            expected="a plain array",
            got=type(owner).__name__,
            hint="pass A.filled(value), or A.data with the mask as an array of its own",
        )
    pointer, readonly = array.__array_interface__["data"]
    name = array.dtype.name if array.dtype.isnative else array.dtype.str
    name = dlpack.INFINITE_E4M3 if name == "float8_e4m3" else name
    size = array.dtype.itemsize or 1
    # A dimension of extent 1 has no neighbours.
    steps = [s if extent > 1 else 0 for extent, s in zip(array.shape, array.strides)]
    if any(step % size for step in steps):
        raise ArgumentTypeError(
            "the strides of this array are not multiples of the element size",
            expected=f"strides that are multiples of {size} bytes",
            got=f"strides of {array.strides} bytes",
            hint="pass a copy, e.g. np.ascontiguousarray(A)",
        )
    return TensorInfo(
        dtype=_numpy_dtype(array.dtype),
        dtype_name=name,
        shape=array.shape,
        strides=tuple(s // size for s in array.strides),
        device="cpu",
        index=0,
        pointer=pointer,
        readonly=readonly or isinstance(owner, np.generic),  # a scalar is a value, no memory
        owner=(array, owner),
    )


def _describe_own(array: DeviceArray) -> TensorInfo:
    return TensorInfo(
        array.dtype, str(array.dtype), array.shape, row_major_strides(array.shape), "cuda",
        array.memory.index, array.pointer, raw=False, owner=array,
    )  # fmt: skip


def _describe_cuda(obj: Any) -> TensorInfo | None:
    """An array of cupy or numba: asks for no synchronisation, unlike ``__dlpack__``."""
    interface = obj.__cuda_array_interface__
    kind = np.dtype(getattr(obj, "dtype", interface["typestr"]))
    dtype = _numpy_dtype(kind)
    shape, strides = tuple(interface["shape"]), interface.get("strides")
    size = kind.itemsize or 1
    if strides is None:
        steps = row_major_strides(shape)
    elif any(stride % size for stride in strides):
        return None
    else:
        steps = tuple(stride // size for stride in strides)
    pointer, readonly = interface["data"]
    return TensorInfo(
        dtype=dtype, dtype_name=kind.name, shape=shape, strides=steps, device="cuda",
        index=_device_index(obj), pointer=int(pointer or 0), readonly=bool(readonly), owner=obj,
    )  # fmt: skip


def _device_index(obj: Any) -> int:
    """Number of the device of an array; the first when it does not say."""
    number = getattr(getattr(obj, "device", None), "id", None)
    if isinstance(number, int):
        return number
    ask = getattr(obj, "__dlpack_device__", None)
    return 0 if ask is None else int(ask()[1])


def _describe_dlpack(obj: Any) -> TensorInfo:
    view = dlpack.open_capsule(obj)
    name = view.dtype_name
    return TensorInfo(
        dtype=_dtype_or_none(name),
        dtype_name=name,
        shape=view.shape,
        strides=view.strides,
        device=dlpack.DEVICES.get(view.device, f"device type {view.device}"),
        index=view.index,
        pointer=view.pointer,
        readonly=view.readonly or is_jax(obj),
        owner=(view.capsule, obj),
    )


def _dtype_or_none(dtype: object) -> DType | None:
    try:
        return DType(dtype)
    except TileTypeError:
        return None


@lru_cache(maxsize=256)
def _numpy_dtype(dtype: np.dtype[Any]) -> DType | None:
    if dtype.names is not None or dtype.hasobject:
        return None
    name = _OF_ML_DTYPES.get(dtype.name)
    return _dtype_or_none(dtype) if name is None else _dtype_or_none(name)


def as_numpy_view(obj: object) -> Any:
    """The storage array of a tensor in host memory: a numpy array that shares its memory.

    bfloat16 becomes uint16, fp8 uint8, packed 4-bit types bytes with two values each.

    Raises:
        ArgumentTypeError: not a tensor, or not in host memory, or of an unknown dtype.
    """
    if isinstance(obj, np.ndarray):
        dtype = _numpy_dtype(obj.dtype)
        if dtype is not None:
            storage = dtype.as_numpy()
            return obj if obj.dtype == storage else obj.view(storage)
    info = describe(obj)
    if info.device != "cpu" or info.dtype is None:
        raise ArgumentTypeError(
            "this tensor cannot be seen as a numpy array",
            expected="host memory and a dtype of the language",
            got=f"{info.dtype_name} on {info.device}",
        )
    return _array_at(info, info.dtype.as_numpy())


def _array_at(info: TensorInfo, storage: np.dtype[Any]) -> Any:
    """A numpy array over described memory; it keeps the owner alive."""
    if not info.size:
        return np.empty(info.shape, storage)
    interface = {
        "version": 3,
        "shape": info.shape,
        "strides": tuple(stride * storage.itemsize for stride in info.strides),
        "typestr": storage.str,
        "data": (info.pointer, info.readonly),
    }
    return np.asarray(_Memory(interface, info.owner))


class _Memory:
    """The owner of foreign memory, from which numpy makes an array."""

    def __init__(self, interface: dict[str, Any], owner: object) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def stand_in(shape: tuple[int, ...], dtype: Any) -> Any:
    """A contiguous array of numpy with a shape, a dtype and an aligned address, but no memory: for
    checks of tensors without values."""
    kind = np.dtype(dtype)
    if 0 in shape or kind.itemsize not in (1, 2, 4, 8):
        return np.empty(shape, kind)
    raw = np.dtype(f"u{kind.itemsize}")
    steps = tuple(step * kind.itemsize for step in row_major_strides(shape))
    interface = {
        "version": 3, "shape": shape, "strides": steps, "typestr": raw.str, "data": (64, False),
    }  # fmt: skip
    return np.asarray(_Memory(interface, None)).view(kind)


@lru_cache(maxsize=1)
def _ml_dtypes() -> Any:
    try:
        import ml_dtypes  # type: ignore[import-not-found,unused-ignore]  # optional
    except ImportError:
        return None
    return ml_dtypes


@lru_cache(maxsize=64)
def numpy_result_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of a result: the type itself, from ``ml_dtypes``, or the storage type."""
    storage = dtype.as_numpy()
    if str(storage) == str(dtype) or dtype.packing > 1 or not dtype.is_float:
        return storage
    package = _ml_dtypes() if dtype != "tfloat32" else None
    result = getattr(package, "float8_e4m3fn" if dtype == "float8_e4m3" else str(dtype), None)
    return storage if result is None else np.dtype(result)


def storage_shape(shape: tuple[int, ...], dtype: DType) -> tuple[int, ...]:
    """Extents in storage units of a tensor with ``shape`` elements."""
    pack = dtype.packing
    if pack == 1 or not shape:
        return shape
    return (*shape[:-1], -(-shape[-1] // pack))


def fresh_tensor(like: Any, dtype: Any, shape: tuple[int, ...]) -> Any:
    """:func:`empty_like_framework` for a plain torch tensor, by the fastest calls.

    Args:
        like: a torch tensor.
        dtype: the dtype as torch names it.
        shape: in storage units.
    """
    if like.dtype is not dtype:
        return like.new_empty(shape, dtype=dtype)
    if like.shape == shape and like.is_contiguous():
        return sys.modules["torch"].empty_like(like)
    return like.new_empty(shape)


def empty_like_framework(like: object, dtype: DType, shape: tuple[int, ...]) -> Any:
    """A new uninitialised tensor of the framework and device of ``like``.

    Args:
        like: a tensor; None means torch when it is imported, else numpy. Objects of other
            frameworks give numpy arrays, which :func:`to_framework` converts when filled.
        dtype: element type.
        shape: in storage units.
    """
    torch = sys.modules.get("torch")
    if torch is not None and (like is None or isinstance(like, torch.Tensor)):
        device = None if like is None else like.device
        return torch.empty(shape, dtype=dtype.as_torch(), device=device)
    return np.empty(shape, numpy_result_dtype(dtype))


def empty_on_gpu(like: object, dtype: DType, shape: tuple[int, ...]) -> Any:
    """A new uninitialised tensor in device memory, of the framework and device of ``like``.

    Args:
        like: a tensor on a GPU; None means the current device of torch, or of cupy: of the one
            that is imported, else of the one that is installed.
        dtype: element type.
        shape: in storage units.

    Raises:
        ArgumentTypeError: a framework in which no tensor can be allocated from here.
    """
    if isinstance(like, DeviceArray):
        return like.memory.empty(dtype, shape)
    if like is None:
        import_gpu_framework()
    torch, cupy = sys.modules.get("torch"), sys.modules.get("cupy")
    if torch is not None and (like is None or isinstance(like, torch.Tensor)):
        return torch.empty(
            shape, dtype=dtype.as_torch(), device="cuda" if like is None else like.device
        )
    if cupy is not None and (like is None or isinstance(like, cupy.ndarray)):
        index = cupy.cuda.runtime.getDevice() if like is None else _device_index(like)
        with cupy.cuda.Device(index):
            return cupy.empty(shape, numpy_result_dtype(dtype))
    raise ArgumentTypeError(
        "results on a GPU cannot be allocated for this caller",
        expected="torch or cupy tensors",
        got="no tensor, and neither torch nor cupy is installed" if like is None else _kind(like),
        hint="tilelang.jax.custom_call(kernel) returns arrays of JAX"
        if is_jax(like)
        else "pass the results as arguments, or convert the inputs with torch.from_dlpack",
    )


def to_framework(like: object, array: Any) -> Any:
    """A filled numpy array as a tensor of the framework of ``like``, or itself if it has none."""
    if like is None or framework_of(like) != "other" or not isinstance(array, np.ndarray):
        return array
    root = type(like).__module__.partition(".")[0]
    module = sys.modules.get(_FROM_DLPACK.get(root, root))
    if array.dtype.isbuiltin != 1 and module is not None:
        # numpy exports only its own dtypes by DLPack, so that the result is copied.
        copy: Callable[[Any], Any] | None = getattr(sys.modules.get("jax.numpy"), "asarray", None)
        return array if copy is None or root not in _FROM_DLPACK else copy(array)
    convert: Callable[[Any], Any] | None = getattr(module, "from_dlpack", None)
    return array if convert is None else convert(array)
