"""Predicates on buffers, regions and elements, under an import path that programs use."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilelang.errors import TileTypeError, shown
from tilelang.ir.buffer import Buffer, Region
from tilelang.ir.dtypes import dtype as DType
from tilelang.ir.expr import AddressOf, Const, Expr, Load, as_expr, const
from tilelang.ir.simplify import simplify


def _region(operand: Any) -> Region:
    """A buffer, region or element as a region."""
    if isinstance(operand, Buffer):
        return operand.whole()
    if isinstance(operand, Region):
        return operand
    if isinstance(operand, Load):
        return Region(operand.buffer, operand.indices, (1,) * len(operand.indices), anchored=True)
    raise TileTypeError(
        "this is no buffer", expected="a buffer, a region or an element", got=shown(operand, 60)
    )


def _scope(operand: Any) -> str:
    return _region(operand).scope()


def is_global(operand: Any) -> bool:
    """Whether a buffer, region or element is in global memory."""
    return _scope(operand) == "global"


def is_shared(operand: Any, allow_dynamic: bool = True) -> bool:
    """Whether it is in shared memory, of static size or (if allowed) of dynamic."""
    return _scope(operand) == "shared" or (allow_dynamic and is_shared_dynamic(operand))


def is_shared_dynamic(operand: Any) -> bool:
    """Whether it is in shared memory whose size is set at launch."""
    return _scope(operand) == "shared.dyn"


def is_tensor_memory(operand: Any) -> bool:
    """Whether it is in the memory of fifth-generation matrix units."""
    return _scope(operand).startswith("shared.tmem")


def is_local(operand: Any) -> bool:
    """Whether each thread has its own."""
    return _scope(operand) == "local"


def is_local_var(operand: Any) -> bool:
    """Whether it is a scalar made by ``T.alloc_var``."""
    return _scope(operand) == "local.var"


def is_fragment(operand: Any) -> bool:
    """Whether it is a tile in the registers of all threads."""
    return _scope(operand) == "local.fragment"


def is_reducer(operand: Any) -> bool:
    """Whether it was made by ``T.alloc_reducer``."""
    return _region(operand).buffer.attrs.reducer is not None


def is_full_region(region: Region) -> bool:
    """Whether a region is the whole buffer."""
    return _region(region).is_whole


def retrieve_shape(operand: Any) -> list[Any]:
    """Extents of all dimensions; those of an element are 1."""
    return list(_region(operand).extents)


def retrieve_offset(operand: Any) -> list[Any]:
    """The start of a region in its buffer, an index per dimension."""
    return [low.value if isinstance(low, Const) else low for low in _region(operand).mins]


def retrieve_stride(operand: Any) -> list[Any]:
    """Strides of its buffer in elements."""
    return list(_region(operand).buffer.stride_list())


def retrieve_dtype(operand: Any) -> DType:
    """Dtype of the elements."""
    return _region(operand).dtype


def retrieve_buffer_and_offset(operand: Any) -> tuple[Buffer, Any]:
    """The buffer, and how many elements from its start the operand begins."""
    region = _region(operand)
    total: Expr = const(0)
    for low, stride in zip(region.mins, region.buffer.stride_list()):
        total = as_expr(total + low * stride)
    offset = simplify(total)
    return region.buffer, offset.value if isinstance(offset, Const) else offset


def retrieve_ptr(operand: Any, access_type: str = "r", ignore_last_ndim: int = 0) -> Expr:
    """A pointer to its first element; with ``ignore_last_ndim`` its last indices count as 0."""
    region = _region(operand)
    leading = len(region.mins) - ignore_last_ndim
    mins = (*region.mins[:leading], *(const(0) for _ in region.mins[leading:]))
    return AddressOf(region.buffer, mins, access_type)


retrive_ptr_from_buffer_region = retrieve_ptr  # the name that programs of PyPI's package use


def to_buffer_region(
    operand: Any, access_type: str = "rw", extents: Iterable[Any] | None = None
) -> Region:
    """A buffer, region or element as a region; ``extents`` make an element the start of a tile."""
    region = _region(operand)
    if extents is None:
        return region
    sizes = tuple(extents)
    sizes = (1,) * (len(region.mins) - len(sizes)) + sizes
    return Region(region.buffer, region.mins, sizes)
