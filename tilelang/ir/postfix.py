"""Postfix programs of integers that the host computes before a launch: extents, strides, grids.

A program is a tuple of items read from left to right: an int is pushed, ``"$2"`` pushes value
number 2, the name of an operator replaces its operands by its result. ``m * 4`` with ``m`` as value
0 is ``("$0", 4, "mul")``. The form is plain data, so it can be pickled, written as JSON, and handed
as 64-bit integers (:func:`encode`) to the C launcher, which evaluates the same operators.

Values are 64-bit and wrap around. What divides by zero has no value (None); that matters only if it
is used, so the untaken side of ``select``, ``land`` and ``lor`` may contain it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TypeAlias, TypeVar

import numpy as np

from tilelang.errors import InternalError
from tilelang.ir.expr import Binary, Call, Const, Expr, Select, Unary

Program: TypeAlias = "tuple[int | str, ...]"
Value: TypeAlias = "int | None"  # None: has no value
Item = TypeVar("Item")

STACK = 32  # operands that the C launcher can hold


def wrap(value: int) -> int:
    """``value`` modulo 2**64 as a signed number."""
    return (value + 2**63) % 2**64 - 2**63


def _strict(meaning: Callable[..., int]) -> Callable[..., Value]:
    """An operator that needs all its operands."""

    def apply(*operands: Value) -> Value:
        return None if None in operands else wrap(int(meaning(*operands)))

    return apply


def _divide(meaning: Callable[[int, int], int]) -> Callable[..., Value]:
    return lambda a, b: None if a is None or not b else wrap(meaning(a, b))


def _truncdiv(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def real(bits: int) -> float:
    """The float64 with these bits."""
    return float(np.int64(bits).view(np.float64))


def _rounded(bits: int) -> int:
    """The bits of a float64 rounded to float32."""
    with np.errstate(over="ignore", invalid="ignore"):
        return int(np.float64(np.float32(real(bits))).view(np.int64))


# Operator -> (operands, meaning). The place is its number in C, after constant and value.
OPERATORS: dict[str, tuple[int, Callable[..., Value]]] = {
    "add": (2, _strict(operator.add)),
    "sub": (2, _strict(operator.sub)),
    "mul": (2, _strict(operator.mul)),
    "floordiv": (2, _divide(operator.floordiv)),
    "floormod": (2, _divide(operator.mod)),
    "truncdiv": (2, _divide(_truncdiv)),
    "truncmod": (2, _divide(lambda a, b: a - _truncdiv(a, b) * b)),
    "min": (2, _strict(min)),
    "max": (2, _strict(max)),
    "eq": (2, _strict(operator.eq)),
    "ne": (2, _strict(operator.ne)),
    "lt": (2, _strict(operator.lt)),
    "le": (2, _strict(operator.le)),
    "gt": (2, _strict(operator.gt)),
    "ge": (2, _strict(operator.ge)),
    "land": (2, lambda a, b: 0 if a == 0 else None if None in (a, b) else int(b != 0)),
    "lor": (2, lambda a, b: 1 if a else None if None in (a, b) else int(b != 0)),
    "bitand": (2, _strict(operator.and_)),
    "bitor": (2, _strict(operator.or_)),
    "bitxor": (2, _strict(operator.xor)),
    "shl": (2, _strict(lambda a, b: a << b if 0 <= b < 64 else 0)),
    "shr": (2, _strict(lambda a, b: a >> (b if 0 <= b < 64 else 63))),
    "lnot": (1, _strict(operator.not_)),
    "neg": (1, _strict(operator.neg)),
    "select": (3, lambda cond, yes, no: None if cond is None else yes if cond else no),
    # On the bits of float64 values; C does not know these.
    "feq": (2, _strict(lambda a, b: real(a) == real(b))),
    "flt": (2, _strict(lambda a, b: real(a) < real(b))),
    "fle": (2, _strict(lambda a, b: real(a) <= real(b))),
    "fround": (1, _strict(_rounded)),
}
REAL = frozenset(("feq", "flt", "fle", "fround"))
_NAMES = ("", "", *OPERATORS)
_NUMBERS = {name: number for number, name in enumerate(_NAMES) if name}


def evaluate(program: int | Program, values: Sequence[Value]) -> Value:
    """The value of ``program``; None when it has none."""
    if isinstance(program, int):
        return program
    stack: list[Value] = []
    for step in program:
        if isinstance(step, int):
            stack.append(step)
        elif step[0] == "$":
            stack.append(values[int(step[1:])])
        else:
            count, meaning = OPERATORS[step]
            operands = stack[-count:]
            del stack[-count:]
            stack.append(meaning(*operands))
    return stack[0]


def fold(
    program: int | Program,
    number: Callable[[int], Item],
    slot: Callable[[int], Item],
    operation: Callable[[str, list[Item]], Item],
) -> Item:
    """Evaluate a program where ``number`` says what its numbers are, ``slot`` what the value of
    a number is, and ``operation`` what an operator makes of its operands."""
    stack: list[Item] = []
    for step in (program,) if isinstance(program, int) else program:
        if isinstance(step, int):
            stack.append(number(step))
        elif step[0] == "$":
            stack.append(slot(int(step[1:])))
        else:
            count = OPERATORS[step][0]
            operands = stack[-count:]
            del stack[-count:]
            stack.append(operation(step, operands))
    return stack[0]


@lru_cache(maxsize=4096)
def depth_of(program: int | Program) -> int:
    """Operands on the stack at the deepest point of evaluation."""
    if isinstance(program, int):
        return 1
    depth = deepest = 0
    for step in program:
        depth += 1 - (OPERATORS[step][0] if isinstance(step, str) and step in OPERATORS else 0)
        deepest = max(deepest, depth)
    return deepest


def encode(program: Program) -> list[int]:
    """A program as 64-bit integers: their number of pairs, then pairs of operation and operand."""
    words = [len(program)]
    for step in program:
        if isinstance(step, int):
            words += [0, wrap(step)]
        elif step[:1] == "$":
            words += [1, int(step[1:])]
        elif step in _NUMBERS:
            words += [_NUMBERS[step], 0]
        else:
            raise InternalError(f"the host program has the unknown operation {step!r}")
    return words


def decode(pairs: Sequence[tuple[int, int]]) -> Program:
    """The program that :func:`encode` made these pairs of."""
    return tuple(
        operand if number == 0 else f"${operand}" if number == 1 else _NAMES[number]
        for number, operand in pairs
    )


def program_of(expr: Expr, leaf: Callable[[Expr], Program]) -> Program:
    """The program of an integer expression.

    Args:
        leaf: the program of what is not plain integer arithmetic, such as variables and casts; it
            raises the error for what the host cannot compute.
    """

    def visit(expr: Expr) -> Program:
        match expr:
            case Const() if not expr.dtype.is_float:
                return (int(expr.value),)
            case Unary(op="bitnot"):
                return (*visit(expr.a), -1, "bitxor")
            case Unary():
                return (*visit(expr.a), expr.op)
            case Binary(op="shl") if expr.dtype.bits < 64 and not isinstance(expr.b, Const):
                count = visit(expr.b)  # all bits leave at the width of the dtype
                inside = (*count, 0, "ge", *count, expr.dtype.bits, "lt", "land")
                return (*inside, *visit(expr.a), *count, "shl", 0, "select")
            case Binary() if expr.op in OPERATORS and not expr.a.dtype.is_float:
                return (*visit(expr.a), *visit(expr.b), expr.op)
            case Select():
                return (*visit(expr.cond), *visit(expr.t), *visit(expr.f), "select")
            case Call(op="likely"):
                return visit(expr.args[0])
            case Call(op="abs"):
                inner = visit(expr.args[0])
                return (*inner, *inner, "neg", "max")
            case _:
                return leaf(expr)

    return visit(expr)
