"""Hooks that other implementations run on generated code; programs import them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.absent import TEXTS, absent_names
from tilelang.errors import TileUnsupportedError

__all__ = ["register_cuda_postproc", "register_cuda_postproc_callback"]

__getattr__ = absent_names("tilelang.engine.callback")


def register_cuda_postproc(func: Callable[[str, Any], str], override: bool = True) -> None:
    """Refuse to change generated source, which must be that of the program.

    Raises:
        TileUnsupportedError: always.
    """
    raise TileUnsupportedError(
        "generated CUDA source cannot be replaced by a callback",
        got=f"register_cuda_postproc({getattr(func, '__name__', 'a function')})",
        hint=TEXTS,
    )


def register_cuda_postproc_callback(func: Any = None, override: bool = True) -> Any:
    """The decorator of :func:`register_cuda_postproc`."""
    if callable(func):
        register_cuda_postproc(func, override)
    return lambda function: register_cuda_postproc(function, override)
