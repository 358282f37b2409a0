"""Dynamic shapes at a call: evaluate extents and strides, and solve them for symbols.

A ``DimExpr`` is an int or a program over numbered symbols (see :mod:`tilelang.ir.postfix`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from tilelang.ir.postfix import Program, evaluate, fold
from tilelang.ir.tables import BINARY

DimExpr: TypeAlias = "int | Program"


@lru_cache(maxsize=4096)
def symbols_in(dim: DimExpr) -> tuple[int, ...]:
    """Numbers of the symbols in ``dim``, in order of appearance."""
    if isinstance(dim, int):
        return ()
    numbers = {int(token[1:]): None for token in dim if isinstance(token, str) and token[0] == "$"}
    return tuple(numbers)


@lru_cache(maxsize=4096)
def solvable_in(dim: DimExpr) -> frozenset[int]:
    """Symbols in which ``dim`` is linear while the others are fixed, so that it can be solved."""
    return frozenset(symbol for symbol in symbols_in(dim) if _degree(dim, symbol) == 1)


def _degree(dim: DimExpr, symbol: int) -> int:
    """Degree of ``dim`` as a polynomial in one symbol; 2 for everything that is not linear."""

    def of(name: str, degrees: list[int]) -> int:
        if name in ("add", "sub", "neg"):
            return max(degrees)
        if name == "mul":
            return min(2, sum(degrees))
        return 2 if any(degrees) else 0

    return fold(dim, lambda _: 0, lambda number: int(number == symbol), of)


def solve(dim: DimExpr, symbol: int, value: int, values: Sequence[int | None]) -> int | None:
    """The value of ``symbol`` for which ``dim`` is ``value``; None when no integer >= 0 is.

    ``dim`` must be linear in ``symbol`` and the other symbols in it known.
    """
    trial = list(values)
    trial[symbol] = 0
    base = evaluate(dim, trial)
    trial[symbol] = 1
    following = evaluate(dim, trial)
    if base is None or following is None:
        return None
    factor = following - base
    if factor == 0:
        return 0 if value == base else None
    quotient, remainder = divmod(value - base, factor)
    return quotient if remainder == 0 and quotient >= 0 else None


def dim_text(dim: DimExpr, names: Sequence[str]) -> str:
    """``dim`` as a person writes it, e.g. ``m*4``."""

    # Each is a string, and whether it needs brackets inside an operator.
    def of(name: str, operands: list[tuple[str, bool]]) -> tuple[str, bool]:
        inner = [f"({text})" if brackets else text for text, brackets in operands]
        symbol = BINARY[name].symbol if name in BINARY else ""
        if name == "select":
            return f"{inner[1]} if {inner[0]} else {inner[2]}", True
        if name in ("lnot", "neg"):
            return f"{'not ' if name == 'lnot' else '-'}{inner[0]}", True
        if not symbol:
            return f"{name}({', '.join(text for text, _ in operands)})", False
        tight = symbol in ("*", "+", "-", "//", "%")
        return (symbol if tight else f" {symbol} ").join(inner), True

    shown = fold(dim, lambda value: (str(value), value < 0), lambda at: (names[at], False), of)
    return shown[0]
