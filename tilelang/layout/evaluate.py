"""Integer expressions evaluated over a whole index box at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

from tilelang.errors import TileUnsupportedError
from tilelang.ir.expr import Binary, Call, Cast, Const, Expr, Select, Unary, Var
from tilelang.ir.visitor import postorder

Array: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"


def _trunc_div(a: Array, b: Array) -> Array:
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) == (b < 0), quotient, -quotient)


_BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "floordiv": np.floor_divide, "floormod": np.mod, "truncdiv": _trunc_div, "truncmod": np.fmod,
    "min": np.minimum, "max": np.maximum,
    "bitand": np.bitwise_and, "bitor": np.bitwise_or, "bitxor": np.bitwise_xor,
    "shl": np.left_shift, "shr": np.right_shift,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal,
    "land": np.logical_and, "lor": np.logical_or,
}  # fmt: skip


_DEEP = 50


def evaluate(expr: Expr, values: Mapping[Var, Array]) -> Array:
    """``expr`` for every combination of ``values``, arrays that broadcast against each other.

    Raises:
        TileUnsupportedError: the expression reads memory or calls a function, or has a variable
            that is not in ``values``.
    """
    memo: dict[int, Any] = {id(var): array for var, array in values.items()}

    def visit(node: Expr) -> Any:
        result = memo.get(id(node))
        if result is None:
            result = memo[id(node)] = compute(node)
        return result

    def compute(node: Expr) -> Any:
        if isinstance(node, Const):
            return np.int64(int(node.value))
        if isinstance(node, Binary) and node.op in _BINARY:
            return _BINARY[node.op](visit(node.a), visit(node.b))
        if isinstance(node, Unary):
            value = visit(node.a)
            return {"neg": np.negative, "bitnot": np.invert, "lnot": np.logical_not}[node.op](value)
        if isinstance(node, Select):
            return np.where(visit(node.cond), visit(node.t), visit(node.f))
        if isinstance(node, Cast) and (node.type.is_integer or node.type.is_bool):
            return visit(node.value)
        if isinstance(node, Call) and node.atom.identity:
            return visit(node.args[0])
        raise TileUnsupportedError(
            f"a layout depends on `{node!r}`",
            expected="arithmetic of the indices and constants",
            got=type(node).__name__,
        )

    with np.errstate(divide="ignore"):  # where a name may be 0, the program says nothing
        if expr.depth > _DEEP:  # children first: recursion stays shallow
            for node in postorder(expr):
                visit(node)
        return np.asarray(visit(expr), dtype=np.int64)


def distinct(numbers: Array) -> Array:
    """The different numbers of an array, ascending, as ``np.unique`` gives them, which imports
    all of ``numpy.ma`` for it."""
    ordered = np.sort(numbers, axis=None)
    first = np.ones(ordered.shape, np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def ranks(keys: Array) -> Array:
    """For each entry how many equal ones come before it."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, keys.size])
    result = np.empty(keys.size, np.int64)
    result[order] = np.arange(keys.size) - np.repeat(starts, sizes)
    return result
