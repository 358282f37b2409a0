"""``Gemm`` without matrix instructions: every thread multiplies for its own part of the result.

For each k a thread loads the elements of A for its rows and those of B for its columns, and adds
their products. This works for all dtypes, sizes and thread counts. Narrow floats are accumulated in
float32 and rounded once. :mod:`tilelang.transforms.lower.gemm_mma` writes the loop over k.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import prod
from typing import ClassVar

from tilelang.ir import expr as E, stmt as S
from tilelang.ir.buffer import Buffer
from tilelang.records import dataclass
from tilelang.transforms.lower.elements import array, guarded, loop, mode
from tilelang.transforms.lower.gemm_accumulator import Accumulator
from tilelang.transforms.lower.gemm_operands import MemoryOperand


@dataclass(frozen=True)
class ElementOperand(MemoryOperand):
    """An operand in shared memory, of which a thread loads the elements of one k for its own part.

    The registers are not doubled: the compiler of the device unrolls the loop as it sees fit, and
    moves these loads itself.
    """

    doubled: ClassVar[bool] = False

    @property
    def dim(self) -> int:
        """The dimension of the result that the operand shares."""
        return 0 if self.is_a else 1

    @cached_property
    def arrays(self) -> tuple[Buffer, ...]:
        """The elements of one k, as they are multiplied."""
        return (array("a" if self.is_a else "b", self.plan.dtype, self.tiles),)

    def address(self, tile: E.Expr, step: E.Expr, parity: int) -> E.Expr:
        """The register of an element."""
        return E.AddressOf(self.arrays[0], (tile,), "r")

    def index(self, position: E.Expr) -> E.Expr:
        """The row (or column) of a thread at a position among its own."""
        layout, index = self.plan.sum, position
        for digit in layout.modes[self.dim]:
            if digit.kind == "thread":
                value = mode(self.ctx.group.thread, digit.extent, digit.stride, layout.threads)
                index = position * digit.extent + value
        return index

    @property
    def is_padded(self) -> bool:
        """Whether threads have more rows (or columns) together than there are."""
        count = prod(digit.extent for digit in self.plan.sum.modes[self.dim])
        return count > self.plan.sum.shape[self.dim]

    def load(self, number: E.Expr, parity: int, group: int = 0) -> Iterator[S.Stmt]:
        """The elements of the k ``number``."""
        var = self.ctx.fresh("i")
        index = self.index(var)
        if self.is_padded:  # what is computed from the repeated last one is not kept
            index = E.binary("min", index, E.const(self.plan.sum.shape[self.dim] - 1))
        registers = self.arrays[0]
        value = E.cast(E.Load(*self.at(index, number)), registers.dtype)
        store = S.Store(buffer=registers, indices=(var,), value=value, loc=self.loc)
        yield loop(var, self.tiles, store)


def multiply_elements(
    accumulator: Accumulator, operands: tuple[ElementOperand, ElementOperand]
) -> S.Stmt:
    """Every sum of a thread gets the product of its row's and its column's element."""
    ctx, total, (a, b) = accumulator.ctx, accumulator.registers, operands
    i, j = ctx.fresh("i"), ctx.fresh("j")
    at = (i * b.tiles + j,)
    value = E.Load(total, at) + E.Load(a.arrays[0], (i,)) * E.Load(b.arrays[0], (j,))
    conditions = [
        operand.index(var) < accumulator.plan.sum.shape[operand.dim]
        for operand, var in ((a, i), (b, j))
        if operand.is_padded
    ]
    store = S.Store(buffer=total, indices=at, value=value, loc=accumulator.stmt.loc)
    return loop(i, a.tiles, loop(j, b.tiles, guarded(conditions, store)))
