"""Kernels as functions of torch tensors, under an import path that older programs use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import TileTypeError

__all__ = ["convert_func", "to_pytorch_func"]


def convert_func(
    function: Callable[..., Any], tensor_type: type, to_dlpack_func: Callable[[Any], Any]
) -> Callable[..., Any]:
    """``function`` for arguments of another framework.

    Args:
        function: takes whatever has ``__dlpack__``, as every kernel does.
        tensor_type: arguments of this type are converted, others passed as they are.
        to_dlpack_func: gives for one of them what ``function`` can take.
    """

    def converted(*args: Any) -> Any:
        return function(*(to_dlpack_func(a) if isinstance(a, tensor_type) else a for a in args))

    return converted


def to_pytorch_func(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` itself: kernels take torch tensors as they are.

    Raises:
        TileTypeError: it cannot be called.
    """
    if not callable(function):
        raise TileTypeError(
            "only a kernel can be converted", expected="a callable", got=type(function).__name__
        )
    return function
