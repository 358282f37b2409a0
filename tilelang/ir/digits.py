"""Index linearization: indices that are quotients and remainders of one number are that number.

``A[k // n, k % n]`` of a tensor with rows of ``n`` is element ``k`` of the tensor as a single row:
``k // (h * w)``, ``k // w % h`` and ``k % w`` are ``k``. A remainder is inside of rows of its
divisor, so all of the indices are inside where the number is.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilelang.ir.bounds import Bounds
from tilelang.ir.buffer import is_same_extent
from tilelang.ir.expr import Binary, Expr, as_expr, binary
from tilelang.ir.simplify import resolved


def joined(
    shape: Sequence[int | Expr], indices: Sequence[Expr], known: Bounds
) -> list[tuple[int, Expr]]:
    """``indices``, each with the dimension along which it moves. Digits of one number that follow
    each other are one index, of all elements of their dimensions."""
    places = [(dim, index, as_expr(shape[dim])) for dim, index in enumerate(indices)]
    at = 0
    while at + 1 < len(places):
        (_, high, rows), (dim, low, row) = places[at : at + 2]
        number = _number(high, low, rows, row, known)
        if number is not None:
            places[at : at + 2] = [(dim, number, rows * row)]
        at = at + 1 if number is None else max(at - 1, 0)
    return [(dim, index) for dim, index, _ in places]


def _number(high: Expr, low: Expr, rows: Expr, row: Expr, known: Bounds) -> Expr | None:
    """The number of which ``high``, below ``rows``, and ``low``, below ``row``, are digits."""
    named = known.opened(low)
    last = low if named is None else named
    if not isinstance(last, Binary) or last.op != "floormod" or is_same_extent(row, 0):
        return None
    number, above = resolved(last.a, known), resolved(high, known)
    quotient, part = binary("floordiv", number, row), binary("floormod", number, rows * row)
    if binary("floormod", number, row) is not resolved(last, known):
        return None
    if above is quotient:
        return last.a
    is_part = above is binary("floormod", quotient, rows) or above is binary("floordiv", part, row)
    return part if is_part else None
