"""Extents and strides that depend on symbols, as small postfix programs.

A ``DimExpr`` is an int or a tuple of items read from left to right: an int is pushed, ``"$2"``
pushes symbol number 2, an operator replaces its operands by its result. ``m * 4`` with ``m`` as
symbol 0 is ``("$0", 4, "*")``. The form is plain data, so the contract can be pickled, written
as JSON and handed to the C launcher, which evaluates the same operators on 64-bit integers.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

from tilelang.errors import InternalError

Program: TypeAlias = "tuple[int | str, ...]"
DimExpr: TypeAlias = "int | Program"

# Operator -> (operands, meaning). The order is the operation code in the C launcher.
OPERATORS: dict[str, tuple[int, Callable[..., int]]] = {
    "+": (2, operator.add),
    "-": (2, operator.sub),
    "*": (2, operator.mul),
    "//": (2, operator.floordiv),
    "%": (2, operator.mod),
    "min": (2, min),
    "max": (2, max),
    "<": (2, lambda a, b: int(a < b)),
    "<=": (2, lambda a, b: int(a <= b)),
    "==": (2, lambda a, b: int(a == b)),
    "!=": (2, lambda a, b: int(a != b)),
    "and": (2, lambda a, b: int(bool(a and b))),
    "or": (2, lambda a, b: int(bool(a or b))),
    "not": (1, lambda a: int(not a)),
    "&": (2, operator.and_),
    "|": (2, operator.or_),
    "^": (2, operator.xor),
    "<<": (2, operator.lshift),
    ">>": (2, operator.rshift),
    "if": (3, lambda c, t, f: t if c else f),
    "tdiv": (2, lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)),
    "tmod": (2, lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1)),
}
STACK = 32  # operands that the C launcher can hold


def evaluate(dim: DimExpr, values: Sequence[int | None]) -> int:
    """The value of ``dim``; every symbol in it must be known.

    Raises:
        ZeroDivisionError: a division by a symbol that is 0.
    """
    if isinstance(dim, int):
        return dim
    stack: list[int] = []
    for item in dim:
        if isinstance(item, int):
            stack.append(item)
        elif item[0] == "$":
            value = values[int(item[1:])]
            if value is None:
                raise InternalError(f"symbol {item} is evaluated before it is bound")
            stack.append(value)
        else:
            count, meaning = OPERATORS[item]
            operands = stack[-count:]
            del stack[-count:]
            stack.append(meaning(*operands))
    return stack[0]


@lru_cache(maxsize=4096)
def symbols_in(dim: DimExpr) -> tuple[int, ...]:
    """Numbers of the symbols in ``dim``, in order of appearance."""
    if isinstance(dim, int):
        return ()
    found = {int(item[1:]): None for item in dim if isinstance(item, str) and item[0] == "$"}
    return tuple(found)


@lru_cache(maxsize=4096)
def depth_of(dim: DimExpr) -> int:
    """Operands on the stack at the deepest point of evaluation."""
    depth = deepest = 1 if isinstance(dim, int) else 0
    for item in () if isinstance(dim, int) else dim:
        depth += 1 - (OPERATORS[item][0] if isinstance(item, str) and item in OPERATORS else 0)
        deepest = max(deepest, depth)
    return deepest


@lru_cache(maxsize=4096)
def solvable_in(dim: DimExpr) -> frozenset[int]:
    """Symbols in which ``dim`` is linear while the others are fixed, so that it can be solved."""
    return frozenset(symbol for symbol in symbols_in(dim) if _degree(dim, symbol) == 1)


def _degree(dim: DimExpr, symbol: int) -> int:
    """Degree of ``dim`` as a polynomial in one symbol; 2 for everything that is not linear."""
    if isinstance(dim, int):
        return 0
    stack: list[int] = []
    for item in dim:
        if isinstance(item, int):
            stack.append(0)
        elif item[0] == "$":
            stack.append(int(int(item[1:]) == symbol))
        else:
            count = OPERATORS[item][0]
            degrees = stack[-count:]
            del stack[-count:]
            if item in ("+", "-"):
                stack.append(max(degrees))
            elif item == "*":
                stack.append(min(2, sum(degrees)))
            else:
                stack.append(2 if any(degrees) else 0)
    return stack[0]


def solve(dim: DimExpr, symbol: int, value: int, values: Sequence[int | None]) -> int | None:
    """The value of ``symbol`` for which ``dim`` is ``value``; None when no integer >= 0 is.

    ``dim`` must be linear in ``symbol`` and the other symbols in it known.
    """
    trial = list(values)
    trial[symbol] = 0
    base = evaluate(dim, trial)
    trial[symbol] = 1
    factor = evaluate(dim, trial) - base
    if factor == 0:
        return 0 if value == base else None
    quotient, rest = divmod(value - base, factor)
    return quotient if rest == 0 and quotient >= 0 else None


def dim_text(dim: DimExpr, names: Sequence[str]) -> str:
    """``dim`` as a person writes it, e.g. ``m*4``."""
    if isinstance(dim, int):
        return str(dim)
    stack: list[tuple[str, bool]] = []  # text, whether it needs brackets inside an operator
    for item in dim:
        if isinstance(item, int):
            stack.append((str(item), item < 0))
        elif item[0] == "$":
            stack.append((names[int(item[1:])], False))
        else:
            count = OPERATORS[item][0]
            operands = stack[-count:]
            del stack[-count:]
            plain = [text for text, _ in operands]
            inner = [f"({text})" if brackets else text for text, brackets in operands]
            if item == "if":
                stack.append((f"{inner[1]} if {inner[0]} else {inner[2]}", True))
            elif item == "not":
                stack.append((f"not {inner[0]}", True))
            elif item.isalpha() and item not in ("and", "or"):
                stack.append((f"{item}({', '.join(plain)})", False))
            else:
                tight = item in ("*", "+", "-", "//", "%")
                stack.append(((item if tight else f" {item} ").join(inner), True))
    return stack[0][0]
