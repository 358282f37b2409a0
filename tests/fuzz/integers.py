"""Random programs about constants and signs, each with its results by Python's own integers.

Every element of an expression is a Python integer that is brought into the range of its dtype after
every operation. Operands are near the limits of their dtypes; comparisons are between any two dtypes
and with constants of any size, counts of shifts go beyond the width.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .model import Computed

N = 24  # elements of every tensor
BITS = {f"{sign}int{bits}": bits for sign in ("", "u") for bits in (8, 16, 32, 64)}
DTYPES = tuple(BITS)
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "<": lambda a, b: a < b, "<=": lambda a, b: a <= b, ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b, "==": lambda a, b: a == b, "!=": lambda a, b: a != b,
}  # fmt: skip
MODULAR: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    "&": lambda a, b: a & b, "|": lambda a, b: a | b, "^": lambda a, b: a ^ b,
}  # fmt: skip


def _truncdiv(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


DIVIDE: dict[str, Callable[[int, int], int]] = {
    "{} // {}": lambda a, b: a // b,
    "{} % {}": lambda a, b: a % b,
    "T.truncdiv({}, {})": _truncdiv,
    "T.truncmod({}, {})": lambda a, b: a - _truncdiv(a, b) * b,
}
EXTREME: dict[str, Callable[[int, int], int]] = {"T.max": max, "T.min": min}


@dataclass
class Term:
    """An expression: its text, its dtype ("" for a number of Python) and its N values."""

    text: str
    dtype: str
    values: list[int]


def limits(dtype: str) -> tuple[int, int]:
    """The least and the largest number of a dtype."""
    bits = BITS[dtype]
    return (0, 2**bits - 1) if dtype[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def wrapped(value: int, dtype: str) -> int:
    """``value`` modulo 2**bits in the range of ``dtype``."""
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


def common(a: str, b: str) -> str:
    """The dtype of an operation: the wider one, of one width the unsigned one."""
    if BITS[a] != BITS[b]:
        return a if BITS[a] > BITS[b] else b
    return a if a[0] == "u" else b


def make_integers(seed: int) -> Computed:
    """The program of one seed."""
    return _Maker(random.Random(seed)).program()


class _Maker:
    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.inputs: dict[str, np.ndarray] = {}
        self.leaves: list[Term] = []

    def program(self) -> Computed:
        rng = self.rng
        for dtype in rng.sample(DTYPES, 4):
            self.tensor(f"a_{dtype}", dtype, [self.near_limit(dtype) for _ in range(N)])
        for dtype in rng.sample(DTYPES, 2):
            counts = [rng.randint(-2, BITS[dtype] + 9) for _ in range(N)]
            self.tensor(f"s_{dtype}", dtype, [wrapped(count, dtype) for count in counts])
        results: dict[str, list[int]] = {}
        lines = []
        for number in range(rng.randint(2, 5)):
            found, name = self.term(rng.randint(1, 4)), f"o{number}"
            dtype = rng.choice((found.dtype, found.dtype, *DTYPES))
            value = found.text if dtype == found.dtype else f"T.cast({found.text}, {dtype!r})"
            lines.append(f"            {name}[i] = {value}")
            self.inputs[name] = np.full(N, 77, dtype)
            results[name] = [wrapped(value, dtype) for value in found.values]
        parameters = "".join(
            f"    {name}: T.Tensor(({N},), {str(array.dtype)!r}),\n"
            for name, array in self.inputs.items()
        )
        loop = rng.choice((f"T.Parallel({N})", f"T.serial({N})", f"T.vectorized({N})"))
        source = (
            "import tilelang.language as T\n\n\n@T.prim_func\ndef main(\n"
            f"{parameters}):\n    with T.Kernel(1, threads={rng.choice((1, 8))}):\n"
            f"        for i in {loop}:\n" + "\n".join(lines) + "\n"
        )
        expected = {
            name: np.array(results[name], dtype=array.dtype) if name in results else array.copy()
            for name, array in self.inputs.items()
        }
        return Computed(source, self.inputs, expected)

    def tensor(self, name: str, dtype: str, values: list[int]) -> None:
        self.inputs[name] = np.array(values, dtype=dtype)
        self.leaves.append(Term(f"{name}[i]", dtype, values))

    def near_limit(self, dtype: str) -> int:
        low, high = limits(dtype)
        near = self.rng.choice((low, high, 0, (low + high) // 2)) + self.rng.randint(-3, 3)
        return self.rng.choice((wrapped(near, dtype), self.rng.randint(low, high)))

    def literal(self) -> int:
        edge = self.rng.choice((0, 0, 0, *(sign * 2**k for sign in (1, -1) for k in (7, 8, 15, 31, 32, 63, 64, 70))))  # fmt: skip
        return edge + self.rng.randint(-3, 3)

    def number(self, other: str) -> Term:
        """A literal as the other operand of one of the dtype ``other`` that the operation can hold."""
        while True:
            value = self.literal()
            dtype = self.literal_dtype(value, other)
            both = common(dtype, other) if dtype else ""
            if both and (both[0] == other[0] or limits(both)[0] <= limits(other)[0]):
                if limits(both)[0] <= value <= limits(both)[1]:
                    return Term(f"{value}", dtype, [value] * N)

    @staticmethod
    def literal_dtype(value: int, other: str) -> str:
        """The dtype of a literal: that of the other operand from 32 bits on, else what it needs."""
        if -(2**31) <= value < 2**31:
            return other if BITS[other] >= 32 else "int32"
        if not -(2**63) <= value < 2**64:
            return ""
        return "uint64" if other == "uint64" or value >= 2**63 else "int64"

    # -- expressions ---------------------------------------------------------------------------
    def term(self, depth: int) -> Term:
        """An expression with a dtype."""
        if depth == 0:
            if self.rng.random() < 0.15:
                dtype = self.rng.choice(DTYPES)
                value = self.near_limit(dtype)
                return Term(f"T.{dtype}({value})", dtype, [value] * N)
            return self.rng.choice(self.leaves)
        make = self.rng.choice(
            (self.sum, self.sum, self.shift, self.shift, self.divide, self.extreme, self.cast,
             self.choose, self.choose, self.choose, self.unary)
        )  # fmt: skip
        return make(depth - 1)

    def pair(self, depth: int) -> tuple[Term, Term]:
        a = self.term(depth)
        if self.rng.random() < 0.4:
            return a, self.number(a.dtype)
        return a, self.term(self.rng.randint(0, depth))

    def apply(self, form: str, a: Term, b: Term, fn: Callable[[int, int], int]) -> Term:
        dtype = common(a.dtype, b.dtype)
        pairs = zip((wrapped(x, dtype) for x in a.values), (wrapped(y, dtype) for y in b.values))
        values = [wrapped(fn(x, y), dtype) for x, y in pairs]
        return Term(form.format(a.text, b.text), dtype, values)

    def sum(self, depth: int) -> Term:
        op = self.rng.choice(list(MODULAR))
        a, b = self.pair(depth)
        if self.rng.random() < 0.3:
            a, b = b, a
        return self.apply(f"({{}} {op} {{}})", a, b, MODULAR[op])

    def shift(self, depth: int) -> Term:
        a = self.term(depth)
        if self.rng.random() < 0.3:
            count = self.rng.randint(-2, BITS[a.dtype] + 9)
            dtype = self.literal_dtype(count, a.dtype)
            b = Term(f"({count})", dtype, [wrapped(count, dtype)] * N)
        else:
            b = self.term(self.rng.randint(0, min(depth, 1)))
        left = self.rng.random() < 0.5
        dtype = common(a.dtype, b.dtype)

        def meaning(x: int, n: int) -> int:
            n %= 2 ** BITS[dtype]
            if n >= BITS[dtype]:
                return 0 if left or x >= 0 else -1
            return x << n if left else x >> n

        return self.apply(f"({{}} {'<<' if left else '>>'} {{}})", a, b, meaning)

    def divide(self, depth: int) -> Term:
        form = self.rng.choice(list(DIVIDE))
        a = self.term(depth)
        while True:
            b = self.number(a.dtype) if self.rng.random() < 0.4 else self.term(0)
            dtype = common(a.dtype, b.dtype)
            if b.text[-1] == "]":
                b = self.apply("({} | {})", b, Term("1", self.literal_dtype(1, b.dtype), [1] * N), MODULAR["|"])  # fmt: skip
            if all(wrapped(value, dtype) for value in b.values):
                return self.apply(f"({form})", a, b, DIVIDE[form])

    def extreme(self, depth: int) -> Term:
        op = self.rng.choice(list(EXTREME))
        return self.apply(f"{op}({{}}, {{}})", *self.pair(depth), EXTREME[op])

    def cast(self, depth: int) -> Term:
        a, dtype = self.term(depth), self.rng.choice(DTYPES)
        values = [wrapped(value, dtype) for value in a.values]
        return Term(f"T.cast({a.text}, {dtype!r})", dtype, values)

    def unary(self, depth: int) -> Term:
        a = self.term(depth)
        op = self.rng.choice("-~")
        values = [wrapped(-x if op == "-" else ~x, a.dtype) for x in a.values]
        return Term(f"({op}{a.text})", a.dtype, values)

    def choose(self, depth: int) -> Term:
        text, holds = self.condition(depth)
        a, b = self.term(depth), self.term(self.rng.randint(0, depth))
        dtype = common(a.dtype, b.dtype)
        values = [wrapped(x if c else y, dtype) for c, x, y in zip(holds, a.values, b.values)]
        word = self.rng.choice(("T.if_then_else({c}, {a}, {b})", "({a} if {c} else {b})"))
        if a.dtype != b.dtype:  # Python takes one side, as it is, of what is known while tracing
            word = "T.if_then_else({c}, {a}, {b})"
        return Term(word.format(a=a.text, b=b.text, c=text), dtype, values)

    def condition(self, depth: int) -> tuple[str, list[bool]]:
        """A comparison of numbers, whatever their dtypes."""
        a, op = self.term(depth), self.rng.choice(list(COMPARE))
        if self.rng.random() < 0.5:
            value = self.literal()
            b = Term(f"{value}", "", [value] * N)
        else:
            b = self.term(self.rng.randint(0, depth))
        if self.rng.random() < 0.4:
            a, b = b, a
        text = f"({a.text} {op} {b.text})"
        found = [COMPARE[op](x, y) for x, y in zip(a.values, b.values)]
        if depth > 0 and self.rng.random() < 0.25:
            word = self.rng.choice(("and", "or"))
            more, holds = self.condition(depth - 1)
            both = all if word == "and" else any
            return f"({text} {word} {more})", [both(pair) for pair in zip(found, holds)]
        return text, found
