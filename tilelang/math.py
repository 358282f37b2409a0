"""Integer helpers for shapes."""

from __future__ import annotations

from operator import index

from tilelang.errors import TileTypeError, shown


def cdiv(a: int, b: int) -> int:
    """Return ``a / b`` rounded up.

    Raises:
        TileTypeError: a value that is not an integer.
    """
    try:
        return -(-a // b)
    except TypeError:
        raise TileTypeError(
            "cdiv divides two integers", expected="integers", got=f"{shown(a)}, {shown(b)}"
        ) from None


def next_power_of_2(n: int) -> int:
    """Return the smallest power of two that is at least ``n`` (1 for n <= 1).

    Raises:
        TileTypeError: a value that is not an integer.
    """
    try:
        number = index(n)
    except TypeError:
        raise TileTypeError(
            "next_power_of_2 is of an integer", expected="an integer", got=shown(n)
        ) from None
    return 1 if number <= 1 else 1 << (number - 1).bit_length()
