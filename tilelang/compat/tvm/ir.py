"""Modules of functions, ranges, and structural equality."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.absent import absent_names
from tilelang.errors import TileTypeError
from tilelang.ir.buffer import Range as _Range, as_extent
from tilelang.ir.canonical import canonical_text
from tilelang.ir.expr import Expr, Expr as PrimExpr, as_expr
from tilelang.ir.simplify import simplify
from tilelang.ir.stmt import PrimFunc

__all__ = ["IRModule", "PrimExpr", "Range", "assert_structural_equal", "structural_equal"]

__getattr__ = absent_names("tilelang.tvm.ir")


class IRModule:
    """Functions by name. ``tilelang.lower`` and the host wrappers take one of a single function.

    Args:
        functions: name -> traced function.
    """

    def __init__(self, functions: Mapping[Any, PrimFunc] | None = None) -> None:
        self.functions = {str(name): func for name, func in (functions or {}).items()}

    @staticmethod
    def from_expr(func: PrimFunc) -> IRModule:
        """A module that holds ``func`` under its name."""
        if not isinstance(func, PrimFunc):
            raise TileTypeError(
                "a module holds traced functions",
                expected="the result of @T.prim_func",
                got=type(func).__name__,
            )
        return IRModule({func.name: func})

    def __getitem__(self, name: object) -> PrimFunc:
        return self.functions[str(name)]

    def script(self, **_: object) -> str:
        """All functions as Python text."""
        return "\n\n".join(func.script() for func in self.functions.values())

    def __repr__(self) -> str:
        return self.script()


class Range:
    """``Range(begin, end)``: the half-open range, as regions hold it (``min``, ``extent``)."""

    def __new__(cls, begin: Any, end: Any = None) -> _Range:  # type: ignore[misc]  # a maker
        low, high = (0, begin) if end is None else (begin, end)
        return _Range(as_expr(low), as_extent(simplify(as_expr(high) - as_expr(low))))

    @staticmethod
    def from_min_extent(low: Any, extent: Any) -> _Range:
        """``[low, low + extent)``."""
        return _Range(as_expr(low), as_extent(extent))


def structural_equal(left: Any, right: Any, map_free_vars: bool = False) -> bool:
    """Whether two functions (up to names), modules or expressions say the same.

    Raises:
        TileTypeError: of other kinds.
    """
    if isinstance(left, IRModule) and isinstance(right, IRModule):
        names = left.functions.keys()
        return names == right.functions.keys() and all(
            structural_equal(left[name], right[name]) for name in names
        )
    if isinstance(left, PrimFunc) and isinstance(right, PrimFunc):
        return canonical_text(left) == canonical_text(right)
    if isinstance(left, (Expr, int, float)) and isinstance(right, (Expr, int, float)):
        return as_expr(left) is as_expr(right)
    raise TileTypeError(
        "these cannot be compared",
        expected="two functions, modules or expressions",
        got=f"{type(left).__name__} and {type(right).__name__}",
    )


def assert_structural_equal(left: Any, right: Any, map_free_vars: bool = False) -> None:
    """Check :func:`structural_equal`.

    Raises:
        AssertionError: they differ; the message has both.
    """
    if not structural_equal(left, right, map_free_vars):
        raise AssertionError(f"the two differ:\n{left}\n-- and --\n{right}")
