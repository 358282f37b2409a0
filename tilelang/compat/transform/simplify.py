"""Simplified programs, as functions and as a decorator."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tilelang.errors import TileTypeError
from tilelang.ir.stmt import PrimFunc

__all__ = ["apply_simplify", "simplify_prim_func"]


def apply_simplify(func: PrimFunc, inline_let: bool = False) -> PrimFunc:
    """``func`` with constants folded and decided branches removed; compilation does it anyway.

    Args:
        func: a traced function.
        inline_let: accepted; what is bound once is computed once.

    Raises:
        TileTypeError: ``func`` is not a traced function.
    """
    from tilelang.target import Context, Target
    from tilelang.transforms.normalize.simplify import simplify_func

    if not isinstance(func, PrimFunc):
        raise TileTypeError(
            "only a traced function can be simplified",
            expected="the result of @T.prim_func",
            got=type(func).__name__,
        )
    return simplify_func(func, Context(Target("cpu")))


def simplify_prim_func(function: Callable[..., PrimFunc]) -> Callable[..., PrimFunc]:
    """Decorator of a function that returns a traced function: what it returns is simplified."""

    @wraps(function)
    def simplified(*args: Any, **kwargs: Any) -> PrimFunc:
        return apply_simplify(function(*args, **kwargs))

    return simplified
