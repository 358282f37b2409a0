"""Index arithmetic: which expressions are computed exactly, whatever the width of their dtype.

Sums, differences, products, quotients, remainders, minima and maxima of loop, block and thread
variables, sizes, integer parameters and constants are *index arithmetic*. Where such an expression
is an index, an extent, a side of a comparison or what becomes int64, it has the exact
integer: ``A[bx * 65536 * 65536]`` has no overflow in 32 bits. As a value of int32 (stored, say) it
wraps like every other value.

Everything else (what is loaded above all) keeps the arithmetic of its dtype, unless the dimension
that it indexes is a long one (:func:`is_long`): then all of its arithmetic is in 64 bits.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tilelang.ir import expr as E
from tilelang.ir.tables import IMMEDIATE

INDEX_OPS = frozenset("add sub mul floordiv floormod truncdiv truncmod min max".split())
_MOST = 2**31  # elements of a dimension whose indices all fit 32 bits


def is_long(extent: int | E.Expr) -> bool:
    """Whether a dimension may have indices that 32 bits do not hold."""
    if isinstance(extent, E.Const):
        extent = int(extent)
    if isinstance(extent, int):
        return extent > _MOST
    return extent.dtype.bits > 32 or extent.dtype == "uint32"


def is_widening(expr: E.Cast) -> bool:
    """Whether a conversion only gives a signed integer more bits, up to 64."""
    source = expr.value.dtype
    return expr.dtype == "int64" and source.is_int and source.lanes == 1


def displaced(start: E.Expr, immediate: E.Expr) -> E.Expr:
    """The index ``start + immediate`` of an instruction that takes the second as a constant."""
    return E.binary("add", start, E.call(IMMEDIATE, immediate))


def parted(index: E.Expr) -> tuple[E.Expr, E.Expr | None]:
    """The operands of which :func:`displaced` made ``index``; None for the second if it did not."""
    start: E.Expr = E.const(0, index.dtype)
    last = index
    if isinstance(index, E.Binary) and index.op == "add":
        start, last = index.a, index.b
    if isinstance(last, E.Call) and last.atom is IMMEDIATE:
        return start, last.args[0]
    return index, None


def row_major(extents: Sequence[int | E.Expr], indices: Sequence[E.Expr]) -> E.Expr:
    """The position of an element in row-major order."""
    total: E.Expr = E.const(0)
    for extent, index in zip(extents, indices, strict=True):
        total = E.as_expr(total * extent + index)
    return total


def unravel(extents: Sequence[int | E.Expr], position: E.Expr) -> tuple[E.Expr, ...]:
    """The indices of the element at a row-major position."""
    indices: list[E.Expr] = []
    outermost = next((d for d, extent in enumerate(extents) if not _is_one(extent)), -1)
    for dim in reversed(range(len(extents))):
        extent = E.as_expr(extents[dim])
        indices.append(position if dim == outermost else position % extent)
        position = position // extent
    return tuple(reversed(indices))


def _is_one(extent: int | E.Expr) -> bool:
    return isinstance(extent, (int, E.Const)) and int(extent) == 1


def is_sum(expr: E.Expr) -> bool:
    """Whether ``expr`` is an operation of index arithmetic, on whatever operands."""
    if not isinstance(expr, E.Binary) or expr.op not in INDEX_OPS:
        return False
    return expr.dtype.is_int and expr.dtype.lanes == 1


def is_index(expr: E.Expr, values: Collection[E.Var]) -> bool:
    """Whether ``expr`` is index arithmetic.

    Args:
        values: the variables that are none, see :func:`tilelang.ir.facts.plain_values`.
    """
    visited: dict[E.Expr, None] = {expr: None}
    stack = [expr]
    while stack:
        node = stack.pop()
        if isinstance(node, (E.Const, E.Var)):
            if not node.dtype.is_int or node.dtype.lanes > 1 or node in values:
                return False
            continue
        parts = _operands(node)
        if not parts:
            return False
        stack += [part for part in parts if part not in visited]
        visited.update(dict.fromkeys(parts))
    return True


def _operands(node: E.Expr) -> tuple[E.Expr, ...]:
    """The operands that have to be index arithmetic for ``node`` to be; none if it cannot be."""
    if isinstance(node, E.Binary):
        return (node.a, node.b) if is_sum(node) else ()
    if isinstance(node, E.Cast):
        return (node.value,) if is_widening(node) else ()
    if isinstance(node, E.Ramp):
        return (node.base, node.stride)
    return (node.value,) if isinstance(node, E.Broadcast) and node.value.dtype.lanes == 1 else ()
