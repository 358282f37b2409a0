"""Cache keys: hashable representations of compile-time arguments of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.errors import TileTypeError, shown
from tilelang.ir.dtypes import dtype as DType

__all__ = ["freeze"]


def freeze(value: Any, name: str | None = None) -> Any:
    """A hashable key of a compile-time argument; equal only for equal values and types.

    Raises:
        TileTypeError: the value cannot be hashed.
    """
    if type(value) is int or value is None:
        return (int, value)
    if isinstance(value, (list, tuple)):
        return (type(value), *(freeze(element, name) for element in value))
    if isinstance(value, Mapping):
        return (
            dict,
            *((freeze(key, name), freeze(element, name)) for key, element in value.items()),
        )
    if isinstance(value, (set, frozenset)):
        return (set, frozenset(freeze(element, name) for element in value))
    if isinstance(value, DType):
        return (str, str(value))
    try:
        hash(value)
    except TypeError:
        raise TileTypeError(
            f"a value of type {type(value).__name__} cannot be a compile-time argument"
            + (f": `{name}`" if name else ""),
            expected="a hashable value, or a list, tuple, dict or set of such values",
            got=shown(value),
            hint="a tensor needs an annotation: T.Tensor[[...], dtype]",
        ) from None
    return (type(value), value)
